"""Finds the source line of a machine instruction, by its library's debugging information.

addr2line reads that information; it comes with the C compiler's binutils (or with LLVM). A machine that
installs a wheel may have neither, so the wheel has a table beside the library, `lib<name>.lines`, with the
lines of all calls. The simulator makes nearly all its reports from a call.
"""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from cudasim.building.compilers import MissingToolError, command_output

# The line of an instruction, and those of the calls into which it was inlined, the nearest first.
Frames = list[tuple[str, int]]

_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\w+)", re.M)


def find_addr2line() -> str | None:
    return shutil.which("addr2line") or shutil.which("llvm-addr2line")


def _by_addr2line(library: Path, offsets: Iterable[int]) -> dict[int, Frames]:
    addr2line = find_addr2line()
    if addr2line is None:
        raise MissingToolError(
            "addr2line was not found (binutils or LLVM has it), so lines of kernels cannot be told"
        )
    offsets = tuple(offsets)
    command = [addr2line, "-a", "-i", "-e", str(library)]
    # An offset is a return address: one byte before it is inside the call.
    addresses = "".join(f"{offset - 1:#x}\n" for offset in offsets)
    result = subprocess.run(command, input=addresses, capture_output=True, text=True, check=True)
    found = {}
    for offset, text in zip(offsets, result.stdout.split("0x")[1:], strict=True):
        frames = []
        for row in text.splitlines()[1:]:
            file, _, line = row.partition(" (discriminator")[0].rpartition(":")
            if line.isdecimal():
                frames.append((file, int(line)))
        found[offset] = frames
    return found


def _table_of(library: Path) -> Path:
    return library.with_suffix(".lines")


def write_table(library: Path):
    """Writes the table of the library's calls beside it; MissingToolError without binutils."""
    listing = command_output(["objdump", "-d", "--no-show-raw-insn", str(library)])
    if listing is None:
        raise MissingToolError("objdump was not found: binutils has it")
    instructions = _INSTRUCTION.findall(listing)
    after_calls = [
        int(address, 16)
        for (_, name), (address, _) in itertools.pairwise(instructions)
        if name.startswith(("call", "bl"))
    ]
    with gzip.open(_table_of(library), "wt") as file:
        json.dump(_by_addr2line(library, after_calls), file)


@functools.cache
def _table(path: Path) -> dict[int, Frames]:
    with gzip.open(path, "rt") as file:
        return {int(offset): [tuple(frame) for frame in frames] for offset, frames in json.load(file).items()}


def calls_from(library: Path, header: str, line: int) -> set[tuple[tuple[str, int], ...]]:
    """Where the code of this line of a header is in the library: for each copy of it, the calls into which it
    was inlined, the nearest first. header: the end of its name."""
    if not _table_of(library).is_file():
        write_table(library)
    found = set()
    for frames in _table(_table_of(library)).values():
        for i, (file, number) in enumerate(frames):
            if number == line and file.endswith(header):
                found.add(tuple(frames[i + 1 :]))
    return found


def frames_of(library: Path, offsets: Iterable[int]) -> dict[int, Frames]:
    """The lines of each offset in the library. offsets: return addresses of calls, from the library's
    beginning. [] if nothing is known.

    MissingToolError without addr2line and without a table.
    """
    if find_addr2line() is None and _table_of(library).is_file():
        table = _table(_table_of(library))
        return {offset: table.get(offset, []) for offset in offsets}
    return _by_addr2line(library, offsets)
