"""docs/results.md and its drawings are what the runs in docs/results say: made anew, they are the same bytes.

    python3 results_document_test.py PATH/TO/stiefel REPOSITORY
"""
import difflib
import glob
import os
import shutil
import subprocess
import sys
import tempfile

COMMAND = "stiefel paper results --out docs/results > docs/results.md"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main(stiefel, repository):
    source = os.path.join(repository, "docs", "results")
    if not os.path.isdir(source):
        return f"docs/results is not there: put the runs into docs/results/full, then `{COMMAND}`"
    with tempfile.TemporaryDirectory(prefix="stiefel_results_") as folder:
        copy = os.path.join(folder, "docs", "results")
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.svg"))
        done = subprocess.run([os.path.abspath(stiefel), "paper", "results", "--out", "docs/results"],
                              capture_output=True, encoding="utf-8", cwd=folder)
        if done.returncode != 0 or "left out" in done.stderr:
            return f"`{COMMAND}` fails: {done.stderr}"
        made = {"docs/results.md": done.stdout}
        kept = {"docs/results.md": os.path.join(repository, "docs", "results.md")}
        for root, found in ((folder, made), (repository, kept)):
            for path in glob.glob(os.path.join(root, "docs", "results", "*", "*.svg")):
                found[os.path.relpath(path, root)] = read(path) if found is made else path
    wrong = []
    for name in sorted(set(made) | set(kept)):
        if name not in made:
            wrong.append(f"{name} is not made from the runs any more: remove it")
            continue
        there = read(kept[name]) if name in kept and os.path.exists(kept[name]) else ""
        if there != made[name]:
            lines = list(difflib.unified_diff(there.splitlines(), made[name].splitlines(), name, "made anew", n=0,
                                              lineterm=""))
            wrong += [line[:200] for line in lines[:20]]
    return "\n".join([*wrong, f"make it anew with `{COMMAND}`"]) if wrong else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
