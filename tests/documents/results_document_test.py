"""docs/results.md and its drawings say what the runs and kept theorems in docs/results say: written again from them, the
document has the same sections, the same cells in its tables and the same numbers in its text, and each drawing the same
curves. Wording and layout are not compared. The README's table of errors has the same numbers.

    python3 results_document_test.py PATH/TO/stiefel REPOSITORY
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

COMMAND = "stiefel paper results --out docs/results > docs/results.md"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def cells_of(line):
    """The cells of a Markdown table's row."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def is_rule(cells):
    return all(re.fullmatch(r":?-+:?", cell) for cell in cells)


def facts_of_document(text):
    """What a document says, by the place where it says it: the cells of each table by section, row and column, and the
    numbers of the text of each section in order."""
    facts = {}
    section = "introduction"
    header, row_name, rows = None, "", 0
    numbers = []

    def close_section():
        facts[f"{section}: numbers in the text"] = " ".join(numbers)
        numbers.clear()

    for line in text.splitlines():
        if line.startswith("## "):
            close_section()
            name = line[3:].split(":")[0]
            section = name if f"{name}: numbers in the text" not in facts else name + " (again)"
        if not line.startswith("|"):
            header = None
            numbers += re.findall(r"\d(?:[\d.,e+-]*\d)?", line)
            continue
        cells = cells_of(line)
        if is_rule(cells):
            continue
        if header is None:
            header, rows = cells, 0
            facts[f"{section}: columns"] = " | ".join(cells)
            continue
        rows += 1
        row_name = cells[0] or row_name
        for column, cell in zip(header[1:], cells[1:]):
            facts[f"{section}: row {rows} ({row_name}), column '{column}'"] = cell
        facts[f"{section}: rows"] = str(rows)
    close_section()
    return facts


def shape_of(path):
    """The points of a path with both coordinates scaled to 0 … 1, so that only the curve's form counts."""
    points = [tuple(map(float, pair)) for pair in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", path)]
    axes = list(zip(*points))
    spans = [(min(axis), (max(axis) - min(axis)) or 1) for axis in axes]
    return [tuple((value - low) / span for value, (low, span) in zip(point, spans)) for point in points]


def facts_of_drawing(svg):
    """The single words in it, which are the keys of its curves and the axes' titles; and the curves by their color."""
    facts = {"words": " ".join(sorted(re.findall(r"<text[^>]*>([a-z][\w+-]*)</text>", svg)))}
    for element in re.findall(r"<path [^>]*>", svg):
        kind = re.search(r'class="curve (c\d+)"', element)
        if kind:
            facts[f"curve {len(facts)} ({kind.group(1)})"] = shape_of(re.search(r'\bd="([^"]*)"', element).group(1))
    return facts


def are_same(a, b):
    """Texts are, and so are curves that differ by less than a hundredth of their size."""
    if not isinstance(a, list) or not isinstance(b, list):
        return a == b
    return len(a) == len(b) and all(abs(x - y) < 0.01 for p, q in zip(a, b) for x, y in zip(p, q))


def shortened(value):
    return f"{len(value)} points" if isinstance(value, list) else repr(value)


def differences(name, shown, made):
    """Where what is shown differs from what the runs say."""
    return [f"{name}, {place}: {shortened(shown.get(place, 'missing'))}, but the runs give "
            f"{shortened(made.get(place, 'nothing'))}"
            for place in list(made) + [place for place in shown if place not in made]
            if not are_same(shown.get(place), made.get(place))]


def errors_in_readme(stiefel, repository):
    """What the README's table of CIFAR-10 errors should say and does not."""
    shown = subprocess.run([os.path.abspath(stiefel), "paper", "table1", "--show", "--format", "json", "--device", "cpu",
                            "--out", "docs/results"], capture_output=True, encoding="utf-8", cwd=repository, check=True)
    rows = {}
    for cell in json.loads(shown.stdout)["cells"]:
        ours = "" if cell["mean"] is None else f"{cell['mean']:.2f} "
        rows.setdefault(cell["column"].upper(), []).append(f"{ours}({cell['paper'][0]['value']:.2f})")
    lines = [cells_of(line.replace("*", "")) for line in read(os.path.join(repository, "README.md")).splitlines()
             if line.startswith("|")]
    named = [name for name in rows if any(line[0] == name and "(" in "".join(line) for line in lines)]
    if not named:
        return ["README.md has no table of errors on CIFAR-10"]
    return [f"README.md should have: | {name} | {' | '.join(rows[name])} |" for name in named
            if [name, *rows[name]] not in lines]


def compare(stiefel, repository):
    """Every difference between the document and drawings that are there and those that the runs give."""
    source = os.path.join(repository, "docs", "results")
    if not os.path.isdir(source):
        return [f"docs/results is not there: put the runs into docs/results/full, then `{COMMAND}`"]
    with tempfile.TemporaryDirectory(prefix="stiefel_results_") as folder:
        shutil.copytree(source, os.path.join(folder, "docs", "results"), ignore=shutil.ignore_patterns("*.svg"))
        done = subprocess.run([os.path.abspath(stiefel), "paper", "results", "--out", "docs/results"],
                              capture_output=True, encoding="utf-8", cwd=folder)
        if done.returncode != 0 or "left out" in done.stderr:
            return [f"`{COMMAND}` fails: {done.stderr}"]
        made = {path: read(os.path.join(folder, path)) for path in drawings_in(folder)}
    shown = {path: read(os.path.join(repository, path)) for path in drawings_in(repository)}
    wrong = errors_in_readme(stiefel, repository)
    wrong += differences("docs/results.md", facts_of_document(read(os.path.join(repository, "docs", "results.md"))),
                         facts_of_document(done.stdout))
    for path in sorted(set(made) | set(shown)):
        if path not in made:
            wrong.append(f"{path} is not made from the runs any more: remove it")
        elif path not in shown:
            wrong.append(f"{path} is missing")
        else:
            wrong += differences(path, facts_of_drawing(shown[path]), facts_of_drawing(made[path]))
    return wrong


def drawings_in(root):
    return [os.path.relpath(path, root) for path in glob.glob(os.path.join(root, "docs", "results", "*", "*.svg"))]


def main(stiefel, repository):
    wrong = compare(stiefel, repository)
    return "\n".join([*wrong[:20], f"write it again with `{COMMAND}`"]) if wrong else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
