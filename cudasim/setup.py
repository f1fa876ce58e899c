"""What pyproject.toml cannot express: the simulators that a wheel carries."""

import importlib.util
import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent

# This folder is the package, whatever its unpacked name is.
_specification = importlib.util.spec_from_file_location(
    "cudasim", HERE / "__init__.py", submodule_search_locations=[str(HERE)]
)
sys.modules["cudasim"] = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(sys.modules["cudasim"])

from cudasim.building.library import COUNTED_SIMULATOR, SIMULATOR  # noqa: E402
from cudasim.building.wheel import PlatformWheel, build_for_every_processor  # noqa: E402


class BuildWithSimulators(build_py):
    def run(self):
        package = Path(self.build_lib).absolute() / "cudasim"
        if not self.editable_mode:
            # Files of an earlier build may no longer belong to cudasim.
            shutil.rmtree(package, ignore_errors=True)
        super().run()
        if not self.editable_mode:
            build_for_every_processor((SIMULATOR, COUNTED_SIMULATOR), package / "prebuilt")


setup(cmdclass={"build_py": BuildWithSimulators, "bdist_wheel": PlatformWheel})
