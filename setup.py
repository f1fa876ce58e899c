"""What pyproject.toml cannot say: the package data, and the simulator that a wheel carries.

A wheel is for one platform and any Python 3: cffi loads the libraries in it, which know nothing of Python.
"""

import importlib.util
import os
import shutil
import sys
import types
from dataclasses import replace
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
DATA = ("cuda_c", "profiles", "bugs", "notebooks")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.ncu-rep", ".ipynb_checkpoints")


def load(name: str):
    """A module of fgn.native, without fgn/__init__.py, which needs torch."""
    specification = importlib.util.spec_from_file_location(name, HERE / f"{name.replace('.', '/')}.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def build_simulators(folder: Path, sources: Path):
    """Builds the two simulators for every processor of this kind from the sources that the wheel carries, or
    says why it has none."""
    os.environ["FGN_BUILDS_WHEEL"] = "1"
    for package in ("fgn", "fgn.native"):
        sys.modules[package] = types.ModuleType(package)
    load("fgn.native.places").SOURCES = sources
    library = load("fgn.native.library")
    for each in (library.SIMULATOR, library.COUNTED_SIMULATOR):
        built = replace(each, directory=folder)
        try:
            library_file = built.build()
        except library.MissingToolError as error:
            print(f"the wheel carries no {each.title}: {error}", file=sys.stderr)
            continue
        load("fgn.native.lines").write_table(library_file)
        (folder / f"{each.name}.lock").unlink(missing_ok=True)
    shutil.rmtree(folder / "objects", ignore_errors=True)


class BuildWithData(build_py):
    def run(self):
        if not self.editable_mode:
            # What an earlier build has left there may no longer be a part of fgn.
            shutil.rmtree(Path(self.build_lib) / "fgn", ignore_errors=True)
        super().run()
        if self.editable_mode:
            return
        data = Path(self.build_lib) / "fgn" / "data"
        for name in DATA:
            shutil.copytree(HERE / name, data / name, ignore=LEFT_OUT, dirs_exist_ok=True)
        build_simulators(data.absolute() / "prebuilt", data.absolute() / "cuda_c")


class PlatformWheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(cmdclass={"build_py": BuildWithData, "bdist_wheel": PlatformWheel})
