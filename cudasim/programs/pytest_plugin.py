"""`pytest --cudasim`: checks the kernels that tests launch, and each program in a .cu file.

A program is a test that passes if it ends with code 0 and `cudasim check` reports nothing. Without the option
nothing changes.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

OPTION = "--cudasim"
_MAIN = re.compile(rb"^\s*(?:auto|int|void)\s+main\s*\(", re.M)


def pytest_addoption(parser):
    parser.getgroup("cudasim").addoption(
        OPTION,
        action="store_true",
        help="check the kernels that tests launch, and each .cu file with a main() as a program of its own, "
        "on the CPU: races, bounds, barriers, memory that nobody has written, misuse of CUDA",
    )


def pytest_collect_file(file_path: Path, parent):
    if parent.config.getoption(OPTION) and file_path.suffix == ".cu" and _MAIN.search(file_path.read_bytes()):
        return _File.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if not item.config.getoption(OPTION):
        return (yield)
    from cudasim.counting.counted import checking  # what a run without the option need not wait for

    with checking():
        return (yield)


class Fault(Exception):
    """The output of a checked program."""


class _File(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        yield _Program.from_parent(self, name="check")


class _Program(pytest.Item):
    def runtest(self):
        from cudasim.building.library import BuildError
        from cudasim.programs.building import CHECK, Program, command

        try:
            library = Program((self.path,)).library(CHECK)
        except BuildError as error:
            raise Fault(str(error)) from None
        call = command(CHECK, library, self.path.stem, [])
        ran = subprocess.run(call, cwd=self.path.parent, capture_output=True, text=True, errors="replace")
        if ran.stdout:
            self.add_report_section("call", "stdout", ran.stdout)
        if ran.returncode != 0:
            raise Fault(ran.stderr.strip() or f"{self.path.name} ended with code {ran.returncode}")

    def repr_failure(self, excinfo):
        return str(excinfo.value) if excinfo.errisinstance(Fault) else super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, 0, f"cudasim check {self.path.name}"
