#!/usr/bin/env bash
# Runs inside a Debian root, with the packages and the consumer in /check (tests/packages/check.sh).
set -euo pipefail
cd /check
export DEBIAN_FRONTEND=noninteractive
ours=(libstiefel0.2 libstiefel-dev stiefel python3-stiefel)
expect() {  # expect TEXT COMMAND…: the command's output has the text
  local text=$1 said
  shift
  said=$("$@" 2>&1) || { printf '%s\nfailed: %s\n' "$said" "$*" >&2; exit 1; }
  grep -qF -- "$text" <<<"$said" || { printf "%s\n'%s' says nothing of '%s'\n" "$said" "$*" "$text" >&2; exit 1; }
  echo "ok: $*"
}

apt() { apt-get -q -y -o Dpkg::Use-Pty=0 "$@" >/dev/null; }

apt update
apt install --no-install-recommends g++ cmake ninja-build pkg-config man-db bash-completion
echo "== installing"
apt install ./*.deb

echo "== the command"
expect "stiefel 0.2" stiefel --version
expect '"libtorch": "1.13' stiefel info --json
expect "openblas-openmp" stiefel info
python3 write_mnist.py mnist
expect "test" stiefel train --data mnist --data-dir mnist --model small --epochs 1 --device cpu --out run
expect "conv2.weight" stiefel check run
expect "SUBCOMMANDS" man stiefel
complete_words() {  # what bash offers for the last of these words
  bash -c '. /usr/share/bash-completion/completions/stiefel; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _stiefel
    printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
}
expect "train" complete_words stiefel tr
expect "--optim" complete_words stiefel train --op
expect "step" complete_words stiefel bench ""

echo "== no run paths"
for file in /usr/bin/stiefel /usr/lib/*/libstiefel.so.0.2; do
  ! readelf -d "$file" | grep -E 'RPATH|RUNPATH' || { echo "$file has a run path (above)" >&2; exit 1; }
done

echo "== C++"
expect "" cmake -S consumer -B by-cmake -G Ninja -DCMAKE_BUILD_TYPE=Release
expect "" cmake --build by-cmake
expect "defect" by-cmake/consumer
# shellcheck disable=SC2046 # words, as pkg-config means them
expect "" g++ -std=c++17 consumer/main.cpp $(pkg-config --cflags --libs stiefel) -o by-pkg-config
expect "defect" ./by-pkg-config

echo "== Python"
expect "stiefel 0.2.0, torch 1.13" python3 -c '
import stiefel, torch
weight = stiefel.init.haar_(torch.empty(8, 20)).requires_grad_()
before = weight.detach().clone()
optimizer = stiefel.CayleySGD([weight], lr=0.1)
weight.square().mul(torch.rand(8, 20)).sum().backward()
optimizer.step()
assert stiefel.defect(weight).item() < 1e-5 and not torch.equal(weight, before)
print(f"stiefel {stiefel.__version__}, torch", stiefel._build["torch"])'

echo "== removing"
apt purge "${ours[@]}"
# man-db keeps the pages that it has shown, and forgets them by itself.
left=$(find /usr /etc /var -xdev -path /var/cache/man -prune -o -path '*stiefel*' -print)
[ -z "$left" ] || { printf '%s\nthese files are left of the packages\n' "$left" >&2; exit 1; }
