#!/usr/bin/env bash
# Installs the Debian packages in a new Debian 12 root, uses them as their users do, removes them, and looks for what is left.
# Then lintian. Root, and a network for apt-get, are needed; it takes minutes.
#   tests/packages/check.sh FOLDER [ROOT]
# ROOT is made by debootstrap where it does not exist; one that exists is used again and stays.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
packages=$(cd "$1" && pwd)
root=${2:-}
[ "$(id -u)" = 0 ] || { echo "check.sh: a Debian root can be made by root alone; run it with sudo" >&2; exit 1; }

if [ -z "$root" ]; then
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
fi
if [ ! -e "$root/etc/debian_version" ]; then
  debootstrap --variant=minbase bookworm "$root"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
fi

rm -rf "$root/check" && mkdir "$root/check"
cp "$packages"/*.deb "$here"/{use.sh,write_mnist.py} "$root/check"
cp -r "$here/../install/consumer" "$root/check/consumer"
# LibTorch reads /proc. What is mounted in a name space of its own is gone with it.
unshare --mount bash -c 'mount -t proc proc "$1/proc"
  exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 bash /check/use.sh' bash "$root" </dev/null

echo "== lintian"
lintian --allow-root --fail-on error --tag-display-limit 0 "$packages"/*.deb
echo "the packages work, and nothing is left of them"
