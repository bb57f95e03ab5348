"""docs/results.md and its drawings are what the runs and kept theorems in docs/results say: made anew, they are the
same bytes.
The README's table of errors has the same numbers.

    python3 results_document_test.py PATH/TO/stiefel REPOSITORY
"""
import difflib
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

COMMAND = "stiefel paper results --out docs/results > docs/results.md"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def errors_in_readme(stiefel, repository):
    """What the README's table of CIFAR-10 errors should say and does not."""
    shown = subprocess.run([os.path.abspath(stiefel), "paper", "table1", "--show", "--format", "json", "--device", "cpu",
                            "--out", "docs/results"], capture_output=True, encoding="utf-8", cwd=repository, check=True)
    rows = {}
    for cell in json.loads(shown.stdout)["cells"]:
        ours = "" if cell["mean"] is None else f"{cell['mean']:.2f} "
        rows.setdefault(cell["column"].upper(), []).append(f"{ours}({cell['paper'][0]['value']:.2f})")
    lines = [line.replace("*", "") for line in read(os.path.join(repository, "README.md")).splitlines()]
    named = [name for name in rows if any(line.startswith(f"| {name} | ") and "(" in line for line in lines)]
    wanted = [f"| {name} | {' | '.join(rows[name])} |" for name in named]
    if not named:
        return ["README.md has no table of errors on CIFAR-10"]
    return [f"README.md should have: {line}" for line in wanted if line not in lines]


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
    wrong = errors_in_readme(stiefel, repository)
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
