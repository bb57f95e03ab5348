"""How the library is found, and what is said where it does not fit."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import stiefel
import torch
from stiefel import _library


def test_versions():
    assert stiefel.__version__.count(".") == 2
    _library.check_torch("2.11.0", "2.11.3+cu130")
    with pytest.raises(
        ImportError, match=r"built for torch 1.13.1, but torch 2.11.0\+cpu is installed.*Build stiefel again"
    ):
        _library.check_torch("1.13.1", "2.11.0+cpu")


def test_the_remedy_keeps_the_torch_that_is_installed():
    # Without --no-deps pip would install torch again too, perhaps another one.
    with pytest.raises(ImportError, match="--no-deps --force-reinstall"):
        _library.check_torch("1.13.1", "2.6.0")


def test_an_installed_library_is_found_wherever_the_environment_lies():
    library = Path(stiefel.__file__).with_name("libstiefel.so")
    if not library.exists():
        pytest.skip("the package is not installed: its library lies in a build folder")
    if shutil.which("readelf") is None:
        pytest.skip("no readelf to ask the library for its run path")
    read = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True)
    paths = re.search(r"(?:RUNPATH|RPATH).*\[(.*)\]", read.stdout)
    assert paths and paths[1].split(":") == ["$ORIGIN", "$ORIGIN/../torch/lib"]


def test_an_import_loads_no_compiler():
    """torch._dynamo takes longer to import than everything here."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; import torch, time; start = time.perf_counter()"
    code += "; import stiefel; print(time.perf_counter() - start, 'torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, loaded = done.stdout.split()
    print(f"import stiefel takes {1000 * float(seconds):.0f} ms after torch")
    assert loaded == "False"


def test_a_missing_library_is_named():
    code = f"import sys; sys.path[:0] = {sys.path!r}; import stiefel"
    environment = dict(os.environ, STIEFEL_LIBRARY="/nowhere/libstiefel.so")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "ImportError: stiefel: libstiefel.so is not at /nowhere/libstiefel.so" in done.stderr


def test_another_torch_is_named(tmp_path):
    (tmp_path / "libstiefel.so").write_text("")
    (tmp_path / "libstiefel.json").write_text('{"version": "0.2.0", "torch": "0.4.1"}')
    code = f"import sys; sys.path[:0] = {sys.path!r}; import stiefel"
    environment = dict(os.environ, STIEFEL_LIBRARY=str(tmp_path / "libstiefel.so"))
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "built for torch 0.4.1" in done.stderr and torch.__version__ in done.stderr
