"""Builds libstiefel.so with CMake for the torch that is installed, and packs it with the Python package.

    pip install --no-build-isolation --no-deps .

Without --no-deps pip may replace the torch that the library is built for. The environment variable CMAKE_ARGS adds arguments for CMake (-DSTIEFEL_CUDA=OFF, say).
"""
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.command.bdist_wheel import bdist_wheel  # setuptools 70.1 and later
except ImportError:
    from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent


def project_version():
    """The version of the CMake project, its only place."""
    return re.search(r"project\(stiefel VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def torch_prefix():
    try:
        import torch
    except ImportError as error:
        raise SystemExit(
            f"stiefel: torch cannot be imported ({error}), and the library is built for the torch that is"
            " installed. Install torch first, and give pip --no-build-isolation, so that the build sees it"
        ) from error
    return torch.utils.cmake_prefix_path


class BuildLibrary(build_ext):
    """Runs CMake in place of a compiler."""

    def run(self):
        folder = Path(self.build_temp).resolve() / "cmake"
        # The torch that is imported first has its libraries in memory; the path is for tools that look at the
        # file alone.
        rpath = "$ORIGIN;$ORIGIN/../torch/lib"
        arguments = [
            "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_PREFIX_PATH={torch_prefix()}",
            "-DSTIEFEL_BUILD_COMMAND=OFF",
            "-DSTIEFEL_BUILD_TESTS=OFF",
            "-DSTIEFEL_BUILD_EXAMPLES=OFF",
            "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
            "-DCMAKE_INSTALL_RPATH_USE_LINK_PATH=OFF",
            f"-DCMAKE_INSTALL_RPATH={rpath}",
        ]
        if shutil.which("ninja"):
            arguments += ["-G", "Ninja"]
        if shutil.which("ccache"):
            arguments.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
            os.environ.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros")
        arguments += shlex.split(os.environ.get("CMAKE_ARGS", ""))
        subprocess.run(["cmake", "-S", str(ROOT), "-B", str(folder), *arguments], check=True)
        subprocess.run(["cmake", "--build", str(folder), "--target", "stiefel", "--parallel"], check=True)
        package = ROOT / "python" / "stiefel" if self.inplace else Path(self.build_lib) / "stiefel"
        package.mkdir(parents=True, exist_ok=True)
        for name in ("libstiefel.so", "libstiefel.json"):
            shutil.copyfile(folder / "lib" / name, package / name)  # the file, not the link to it

    def get_outputs(self):
        return [str(Path(self.build_lib) / "stiefel" / name) for name in ("libstiefel.so", "libstiefel.json")]

    def get_output_mapping(self):
        return {}


class PlatformWheel(bdist_wheel):
    """Of this platform, for any Python: the library has no part of Python's binary interface."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(
    version=project_version(),
    package_dir={"": "python"},
    packages=["stiefel", "stiefel.optim"],
    package_data={"stiefel": ["py.typed"]},
    ext_modules=[Extension("stiefel.libstiefel", sources=[])],
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": PlatformWheel},
    zip_safe=False,
)
