"""Checks that includes between folders follow the picture of docs/the-code.md, and draws them; and that the files and functions
which documents name exist.

    python3 house_test.py SOURCE [--draw]

Arrows point down: a folder includes only what stands below it. The library (include/, src/) depends on LibTorch alone, and what
is under it (base/, the report, the record of a run) does not depend on LibTorch at all.
"""
import collections
import os
import re
import subprocess
import sys

# Each folder, from the top, and the folders that it may include.
HOUSE = {
    "app": {"paper", "bench", "report", "train", "distributed", "record", "models", "data", "base", "include"},
    "paper": {"bench", "report", "train", "distributed", "record", "models", "data", "base", "include"},
    "bench": {"train", "distributed", "record", "models", "data", "base", "include"},
    "report": {"record", "base"},
    "train": {"distributed", "record", "models", "data", "base", "include"},
    "distributed": {"base", "include"},
    "models": {"include", "src/cuda", "base"},
    "record": {"data", "base"},
    "data": {"base"},
    "base": set(),
    "examples": {"include"},
    "src": {"include"},
    "src/cuda": {"src", "include"},
    "include": set(),
}
# Folders, and single files, whose includes must not bring LibTorch with them.
WITHOUT_LIBTORCH = ("base/", "report/", "record/certified_images", "record/config", "record/kept_run", "record/metrics",
                    "record/run_facts", "record/run_folder", "distributed/launch.")
LIBTORCH = re.compile(r"<(torch|ATen|c10)/|<stiefel/")
# The library's parts include each other both ways between src/ and src/cuda/: its kernels are part of it.
INSIDE = {("src", "src/cuda")}


def folder_of(path):
    """The folder of the house that a file belongs to; none for tests, which may include anything."""
    for folder in ("src/cuda", *HOUSE):
        if path.startswith(folder + "/"):
            return folder
    return None


def resolve(source, includer, name, files):
    """The file of ours that an include names: beside the includer, from the root, from include/ or from src/."""
    beside = os.path.normpath(os.path.join(os.path.dirname(includer), name))
    for candidate in (beside, name, "include/" + name, "src/" + name):
        if candidate in files:
            return candidate
    return None


def read_includes(source):
    listed = subprocess.run(["git", "-C", source, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True,
                            check=True).stdout.splitlines()
    files = {name for name in listed if re.search(r"\.(h|cuh|cpp|cu)$", name) and os.path.exists(f"{source}/{name}")}
    includes, foreign = {}, {}
    for name in sorted(files):
        with open(f"{source}/{name}", encoding="utf-8") as file:
            written = re.findall(r'^\s*#\s*include\s+(["<][^">]+[">])', file.read(), re.MULTILINE)
        found = {resolve(source, name, w[1:-1], files) for w in written}
        includes[name] = found - {None}
        foreign[name] = [w for w in written if LIBTORCH.match(w)]
    return includes, foreign


def cycles(includes):
    """The first chain of files that include each other in a circle, or nothing."""
    done, stack = set(), []

    def visit(name):
        if name in stack:
            return stack[stack.index(name):] + [name]
        if name in done:
            return None
        stack.append(name)
        for other in sorted(includes.get(name, ())):
            if found := visit(other):
                return found
        stack.pop()
        done.add(name)
        return None

    for name in sorted(includes):
        if found := visit(name):
            return found
    return None


def reach(includes, name):
    """Every file of ours that a file includes, directly or not."""
    seen, left = set(), [name]
    while left:
        for other in includes.get(left.pop(), ()):
            if other not in seen:
                seen.add(other)
                left.append(other)
    return seen


def complaints(includes, foreign):
    for name, others in includes.items():
        home = folder_of(name)
        if home is None:
            continue
        for other in sorted(others):
            there = folder_of(other)
            if there is None:
                yield f"{name} includes {other}, a file of the tests"
            elif there != home and there not in HOUSE[home] and (home, there) not in INSIDE:
                yield f"{name} includes {other}: {home}/ stands below {there}/, or beside it"
        if name.startswith(WITHOUT_LIBTORCH):
            for file in sorted(reach(includes, name) | {name}):
                for header in foreign[file]:
                    yield f"{name} needs no LibTorch, but {'' if file == name else 'by way of ' + file + ' '}includes {header}"
    if circle := cycles(includes):
        yield "files include each other in a circle: " + " → ".join(circle)


def missing_names(source, documents):
    """Files of ours that documents name and that do not exist; and, in rows of tables, functions that are in none of the
    files that the row names."""
    ours = re.compile(r"`((?:%s|tests|cmake)/[\w./-]+\.\w+)`" % "|".join(HOUSE))
    for document, text in documents.items():
        for line in text.splitlines():
            named = ours.findall(line)
            lost = [file for file in named if not os.path.exists(f"{source}/{file}")]
            for file in lost:
                yield f"{document} names {file}, which does not exist"
            if not line.startswith("|") or not named or lost:
                continue
            content = "".join(open(f"{source}/{file}", encoding="utf-8").read() for file in named)
            for function in re.findall(r"`(?:\w+::)*(\w+)`", line.split("|")[-2]):
                if not re.search(r"\b%s\b" % function, content):
                    yield f"{document} names {function}, which is not in {', '.join(named)}"


def missing_tests(source, documents):
    """Tests that documents name and ctest does not have."""
    known = set()
    for folder, _, files in os.walk(f"{source}/tests"):
        if "CMakeLists.txt" in files:
            with open(f"{folder}/CMakeLists.txt", encoding="utf-8") as file:
                known |= set(re.findall(r"\b\w+_test\b", file.read()))
    known |= {f"command_{name[:-3]}" for name in os.listdir(f"{source}/tests/command") if name.endswith("_test.py")}
    for document, text in documents.items():
        for name in sorted(set(re.findall(r"`(\w+_test)`", text)) - known):
            yield f"{document} names the test {name}, which ctest does not have"


def read_documents(source):
    names = [name for name in ("README.md", *(f"docs/{name}" for name in os.listdir(source + "/docs"))) if name.endswith(".md")]
    return {name: open(f"{source}/{name}", encoding="utf-8").read() for name in names}


def draw(includes):
    arrows = collections.Counter()
    for name, others in includes.items():
        for other in others:
            ends = folder_of(name), folder_of(other)
            if None not in ends and ends[0] != ends[1]:
                arrows[ends] += 1
    for home in HOUSE:
        targets = ", ".join(f"{there} ({count})" for (start, there), count in sorted(arrows.items()) if start == home)
        print(f"{home:10} → {targets or 'nothing of ours'}")


def main():
    includes, foreign = read_includes(sys.argv[1])
    if "--draw" in sys.argv:
        draw(includes)
    documents = read_documents(sys.argv[1])
    found = [*complaints(includes, foreign), *missing_names(sys.argv[1], documents), *missing_tests(sys.argv[1], documents)]
    # The check itself is checked: an arrow against the picture, LibTorch where there is none, a circle.
    planted = dict(includes, **{"base/planted.h": {"train/trainer.h"}, "train/trainer.h": {"base/planted.h"}})
    planted_foreign = dict(foreign, **{"base/planted.h": ["<torch/torch.h>"]})
    planted_found = "\n".join(complaints(planted, planted_foreign))
    for part in ("base/planted.h includes train/trainer.h", "includes <torch/torch.h>", "in a circle"):
        assert part in planted_found, f"a planted breach is not found: {part}"
    named = list(missing_names(sys.argv[1], {"a": "see `src/no_such.cpp`\n| x | `src/step.cpp` | `no_such` |\n"}))
    assert len(named) == 2, f"a planted name is not found: {named}"
    named = list(missing_tests(sys.argv[1], {"a": "`house_test` and `no_such_test`"}))
    assert len(named) == 1, f"a planted test is not found: {named}"
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
