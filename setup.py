"""What pyproject.toml cannot say: the package data, and the libraries that a wheel carries."""

import shutil
import sys
import types
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
DATA = ("cuda_c", "profiles", "bugs", "notebooks")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.ncu-rep.xz", ".ipynb_checkpoints")

# The simulator of this clone, installed or not; and fgn without fgn/__init__.py, which needs torch.
sys.path.insert(0, str(HERE))
for name in ("fgn", "fgn.native"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [str(HERE / name.replace(".", "/"))]

from cudasim.building.wheel import PlatformWheel, build_for_every_processor  # noqa: E402
from fgn.native.library import COUNTED_SIMULATOR, SIMULATOR  # noqa: E402


class BuildWithData(build_py):
    def run(self):
        if not self.editable_mode:
            # What an earlier build has left there may no longer be a part of fgn.
            shutil.rmtree(Path(self.build_lib) / "fgn", ignore_errors=True)
        super().run()
        if self.editable_mode:
            return
        data = Path(self.build_lib).absolute() / "fgn" / "data"
        for name in DATA:
            shutil.copytree(HERE / name, data / name, ignore=LEFT_OUT, dirs_exist_ok=True)
        build_for_every_processor((SIMULATOR, COUNTED_SIMULATOR), data / "prebuilt")


setup(cmdclass={"build_py": BuildWithData, "bdist_wheel": PlatformWheel})
