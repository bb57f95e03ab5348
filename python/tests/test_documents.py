"""Every Python example of the documents runs."""
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if page.exists()]


def examples():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"^```python\n(.*?)^```$", text, re.S | re.M):
            line = text[: match.start()].count("\n") + 2
            yield pytest.param(page, line, match[1], id=f"{page.name}:{line}")


def test_there_are_examples():
    assert len(list(examples())) >= 5


@pytest.mark.parametrize("page,line,code", examples())
def test_example(page, line, code, tmp_path):
    # A file of its own, as torch.compile reads the source; its line numbers are the page's.
    program = tmp_path / f"{page.stem}.py"
    program.write_text("\n" * (line - 1) + code, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        exec(compile(program.read_text(encoding="utf-8"), str(program), "exec"), {"__name__": "__main__"})


def test_the_whole_program():
    program = ROOT / "examples" / "python" / "orthonormal_mlp.py"
    done = subprocess.run([sys.executable, "-B", str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same weights bit for bit" in done.stdout
