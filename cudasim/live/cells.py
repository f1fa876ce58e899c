"""The cell magic `%%cuda [name ...] [-I folder] [--check] [-- argument ...]`: CUDA C++ in a notebook."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cudasim.arrays import default_device
from cudasim.building.library import BuildError
from cudasim.live.kernels import Kernel, Program
from cudasim.live.messages import nearest
from cudasim.live.text import blanked, line_of
from cudasim.programs import building as programs
from cudasim.programs.building import CHECK, RUN


class CellError(BuildError):
    """A cell that does not compile. A notebook shows the compiler's messages and no traceback of Python's.

    kernels: those of its kernels that compile.
    """

    def __init__(self, said: str, kernels: dict[str, Kernel]):
        super().__init__(said)
        self.kernels = kernels

    def _render_traceback_(self) -> list[str]:
        coloured = re.sub(r"\b(error|warning|note):", "\033[1;31m\\1:\033[0m", str(self))
        return [f"\033[1;31mdoes not compile\033[0m\n{coloured}"]


@dataclass(frozen=True)
class _Cell:
    """A cell of CUDA C++. names: the kernels that its first line names; empty for all."""

    source: str
    names: tuple[str, ...]
    folders: tuple[Path, ...]
    is_checked: bool = False
    arguments: tuple[str, ...] = ()  # of main()

    @classmethod
    def read(cls, line: str, cell: str) -> _Cell:
        """line: the text after %%cuda: names of kernels and, each after -I, folders of headers; for a cell
        with a main() also --check, and its arguments after --."""
        line, _, arguments = (" " + line + " ").partition(" -- ")
        is_checked = "--check" in line.split()
        line = re.sub(r"(?<!\S)--check(?!\S)", " ", line)
        folders = [Path(folder.strip("\"'")) for folder in re.findall(r"-I\s*(\"[^\"]*\"|'[^']*'|\S+)", line)]
        names = re.sub(r"-I\s*(?:\"[^\"]*\"|'[^']*'|\S+)", " ", line).split()
        # The line of the magic is the cell's first, so the source's own first line is the second.
        around = (Path.cwd(), *folders)
        return cls("\n" + cell, tuple(names), around, is_checked, tuple(shlex.split(arguments)))

    @property
    def is_program(self) -> bool:
        return bool(re.search(r"\b(?:int|void|auto)\s+main\s*\(", blanked(self.source)))

    def run(self):
        """Runs the cell's main() in a separate process, and shows its output as it comes."""
        mode = CHECK if self.is_checked else RUN
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "cell.cu").write_text(self.source)
            library = programs.Program((Path(folder) / "cell.cu",), self.folders).library(mode)
        command = programs.command(mode, library, "cell", self.arguments)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(command, env=environment, text=True, errors="replace", **pipes) as process:
            try:
                for line in process.stdout:
                    print(line, end="", flush=True)
            except KeyboardInterrupt:
                process.kill()
                raise
        if process.returncode:
            print(f"main() has ended with code {process.returncode}", file=sys.stderr)

    def wanted(self) -> list[str]:
        """The kernels that the cell's line names, or all of the cell's."""
        for word in self.names:
            if word.startswith("-"):
                raise BuildError(f"{word}: expected names of kernels, -I folder, --check, -- arguments")
        if (self.is_checked or self.arguments) and not self.is_program:
            raise BuildError(
                "--check and what follows -- are for a main(), and the cell has none: each launch of its "
                "kernels is checked by itself"
            )
        program = Program(self.source, "cell.cu", self.folders)
        missing = [name for name in self.names if name not in program.kernels]
        if not program.kernels and not self.is_program:
            raise BuildError(_without_kernel(self.source))
        if missing or not program.kernels:
            there = ", ".join(program.kernels) or "none"
            expected = " ".join(("a __global__ function", *missing))
            raise BuildError(f"expected {expected} in the cell, got {there}")
        return list(self.names or program.kernels)

    def together(self) -> dict[str, Kernel]:
        """The wanted kernels, compiled as one source."""
        wanted = self.wanted()
        program = Program(self.source, f"{wanted[0]}.cu", self.folders, has_warned=True)
        _, messages = program.build(default_device())
        there = [name for name in wanted if name in program.kernels]
        if self.names and there != wanted:
            raise BuildError(f"an #if leaves {(set(wanted) - set(there)).pop()} out")
        absent = ", ".join(name for name in wanted if name not in there)
        left_out = "" if self.is_program else str(program.read.left_out)
        for said in filter(None, (left_out, absent and f"left out by an #if: {absent}", messages)):
            print(said, file=sys.stderr)
        return {name: Kernel(program, name) for name in there}

    def alone(self) -> dict[str, Kernel]:
        """The wanted kernels that compile without the others."""
        kernels = {}
        for name in self.wanted():
            program = Program(self.source, f"{name}.cu", self.folders, only=name, has_warned=True)
            with suppress(BuildError, ValueError):
                program.build(default_device())
                kernels[name] = Kernel(program, name)
        return kernels


def _without_kernel(source: str) -> str:
    """Why a cell has no kernel: a misspelt __global__, or a function without it."""
    text = blanked(source)
    for word in re.finditer(r"\b_*[A-Za-z]+_*(?=\s+(?:static\s+)?void\s+\w+\s*\()", text):
        if nearest(word[0], ("__global__",)):
            return f"cell.cu:{line_of(text, word.start())}: error: {word[0]}: did you mean __global__?"
    found = re.search(r"\bvoid\s+(\w+)\s*\(", text)
    if found is None:
        return "the cell has no kernel: expected a function that begins with `__global__ void`"
    line = line_of(text, found.start())
    shown = f"{line:>5} | {source.splitlines()[line - 1]}"
    return (
        f"cell.cu:{line}: error: {found[1]}() is no kernel: write __global__ before void, which makes it a "
        f"function that the host launches\n{shown}"
    )


def _define(line: str, cell: str) -> dict[str, Kernel]:
    """The kernels of a cell: those that the line names, or all. Compiled for the device at hand.

    CellError if one does not compile; its `kernels` are the others.
    """
    read, kernels = _Cell.read(line, cell), {}
    try:
        return read.together()
    except (BuildError, ValueError) as error:
        said = str(error)
    if len(re.findall(r"\b__global__\b", cell)) > 1:
        with suppress(BuildError, ValueError):
            kernels = read.alone()
    if read.names and kernels.keys() == set(read.names):
        return kernels
    if kernels:
        said += f"\ncompiled all the same: {', '.join(kernels)}"
    raise CellError(said, kernels)


def load_ipython_extension(shell):
    """Runs at `%load_ext cudasim`: adds the cell magic `%%cuda [name ...] [-I folder]`."""

    def cuda(line: str, cell: str):
        """Defines the kernels of a cell of CUDA C++, or only the named ones, as Python objects. A cell with a
        main() also runs as a program.

        -I folder: a folder of headers for the cell. --check: main() runs under every check. Its arguments
        follow --.
        """
        # A cell that does not compile removes kernels of its names, so that no earlier one runs by mistake.
        for name in _Cell.read(line, cell).names or re.findall(r"__global__[^;{(]*?\b(\w+)\s*\(", cell):
            if isinstance(shell.user_ns.get(name), Kernel):
                shell.del_var(name)
        read, kernels = _Cell.read(line, cell), {}
        try:
            kernels = _define(line, cell)
        except CellError as error:
            kernels = error.kernels
            if not read.is_program:
                raise
        finally:
            shell.push(kernels)
        if read.is_program:
            try:
                read.run()
            except BuildError as error:
                if not kernels:
                    raise CellError(str(error), {}) from None
                print(f"main() was not run, the kernels are there:\n{error}", file=sys.stderr)

    shell.register_magic_function(cuda, "cell", "cuda")
