"""Wheels that carry libraries for every processor of their kind, so that users need no compiler.

Such a wheel is for one platform and any Python 3: cffi loads its libraries, which do not depend on Python.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from setuptools.command.bdist_wheel import bdist_wheel

from cudasim.building.compilers import MissingToolError
from cudasim.building.library import Library
from cudasim.building.lines import write_table


def build_for_every_processor(libraries: Iterable[Library], folder: Path):
    """Builds the libraries, and tables of their lines, into a wheel's folder; reports the libraries for which
    it has no compiler."""
    os.environ["CUDASIM_BUILDS_WHEEL"] = "1"
    for each in libraries:
        needed = folder.parent / "needed"
        needs = tuple(replace(need, directory=needed) for need in each.needs)
        library = replace(each, directory=folder, needs=needs)
        try:
            write_table(library.build())
        except MissingToolError as error:
            print(f"the wheel carries no {each.title}: {error}", file=sys.stderr)
            continue
        (folder / f"{each.name}.lock").unlink(missing_ok=True)
        shutil.rmtree(needed, ignore_errors=True)
    shutil.rmtree(folder / "objects", ignore_errors=True)


class PlatformWheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])
