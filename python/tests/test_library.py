"""How the library is found, and what is said where it does not fit."""
import os
import subprocess
import sys

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


def test_a_missing_library_is_named():
    code = f"import sys; sys.path[:0] = {sys.path!r}; import stiefel"
    environment = dict(os.environ, STIEFEL_LIBRARY="/nowhere/libstiefel.so")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "ImportError: stiefel: libstiefel.so is not at /nowhere/libstiefel.so" in done.stderr


def test_another_torch_is_named(tmp_path):
    (tmp_path / "libstiefel.so").write_text("")
    (tmp_path / "libstiefel.json").write_text('{"version": "0.1.0", "torch": "0.4.1"}')
    code = f"import sys; sys.path[:0] = {sys.path!r}; import stiefel"
    environment = dict(os.environ, STIEFEL_LIBRARY=str(tmp_path / "libstiefel.so"))
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "built for torch 0.4.1" in done.stderr and torch.__version__ in done.stderr
