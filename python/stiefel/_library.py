"""Finds libstiefel.so, checks that it fits this torch, and loads it."""
import json
import os
from pathlib import Path
from typing import Dict, List, Optional

import torch


def _candidates() -> List[Path]:
    """Where STIEFEL_LIBRARY says; else in the package, or in the build folder of a checkout."""
    told = os.environ.get("STIEFEL_LIBRARY")
    if told:
        return [Path(told)]
    package = Path(__file__).resolve().parent
    return [package / "libstiefel.so", package.parents[1] / "build" / "release" / "lib" / "libstiefel.so"]


def _release(version: str) -> str:
    """1.13 of 1.13.1+dfsg: releases that differ in these numbers are not binary compatible."""
    return ".".join(version.split(".")[:2])


def check_torch(built: str, installed: str) -> None:
    """Raises ImportError where the library was built for another torch than the one installed."""
    if _release(built) != _release(installed):
        raise ImportError(
            f"stiefel: libstiefel.so was built for torch {built}, but torch {installed} is installed; their"
            " binary interfaces differ. Build stiefel again for it (pip install --no-build-isolation"
            f" --no-deps --force-reinstall . in the checkout), or install torch {_release(built)}"
        )


def _read_build(library: Path) -> Optional[Dict[str, str]]:
    """What CMake has written beside the library: its version, and torch's."""
    file = library.with_name("libstiefel.json")
    try:
        build = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):  # no JSON, no UTF-8, or nested too deeply
        build = None
    if not isinstance(build, dict) or not all(isinstance(build.get(key), str) for key in ("version", "torch")):
        raise ImportError(
            f"stiefel: {file} is damaged: it should hold the versions of the library and of torch. Install the"
            " package again with pip, or build the library again (./dev build stiefel)"
        )
    return build


def load() -> Dict[str, str]:
    """Loads the operators. Returns the versions of the library and of the torch it was built for."""
    candidates = _candidates()
    library = next((path for path in candidates if path.exists()), None)
    if library is None:
        raise ImportError(
            f"stiefel: libstiefel.so is not at {' or '.join(map(str, candidates))}. Install the package with"
            " pip, build the library (./dev build stiefel), or set STIEFEL_LIBRARY to its path"
        )
    build = _read_build(library)
    if build is not None:
        check_torch(build["torch"], torch.__version__)
    try:
        torch.ops.load_library(str(library))
    except OSError as error:
        built = build["torch"] if build else "an unknown version"
        raise ImportError(
            f"stiefel: {library}, built for torch {built}, cannot be loaded with torch {torch.__version__}:"
            f" {error}. Build stiefel again for this torch"
        ) from error
    return build or {"version": "unknown", "torch": "unknown"}
