"""The places of machine instructions in the sources of kernels."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path

from cudasim.building.library import ffi
from cudasim.building.lines import calls_from, frames_of
from cudasim.building.places import MAPPED, SOURCES


def string_of(pointer) -> str | None:
    return ffi().string(pointer).decode() if pointer else None


def source_file(name: str | None) -> str | None:
    """The path on this machine of a source file; its library may have been built on another machine."""
    for mapped, folder in MAPPED.items():
        if name and name.startswith(f"{mapped}/"):
            return str(folder / name.removeprefix(f"{mapped}/"))
    return name


def triple(value) -> tuple[int, int, int]:
    return value.x, value.y, value.z


@dataclass(frozen=True)
class Place:
    """A line of a source file. callers: the places into which it was inlined, the nearest first."""

    file: str
    line: int
    callers: tuple[tuple[str, int], ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


UNKNOWN = Place("??", 0)

# Functions of these files stand for one instruction each, so an access in them belongs to the line that calls
# the function.
_BUILT_INS = SOURCES / "sim"
_OF_LIBRARIES = re.compile(r"/include/(?:c\+\+|cccl)/|^/usr/(?:include|lib)/")


def is_of_library(file: str) -> bool:
    return _OF_LIBRARIES.search(file) is not None


_IN_LIBRARY = re.compile(r"[^\s(]*/include/cccl/(\S+?):(\d+)")


def callers_of(header: str, line: int, library: Path) -> list[Place]:
    """The lines of a kernel that call what is in this line of a library's header, as far as it was inlined:
    a barrier knows its own line only. header: the end of the header's name."""
    found = set()
    for calls in calls_from(library, header, line):
        own = [frame for frame in map(_known, calls) if not _is_built_in(frame[0])]
        found |= {Place(*own[0])} if own else set()
    return sorted(found, key=str)


def by_callers(text: str, library: Path) -> str:
    """A text about a library's headers, with the kernel's own lines before the headers' names."""

    def said(match: re.Match) -> str:
        places = " or ".join(map(str, callers_of(match[1], int(match[2]), library)))
        return f"{places}, in {match[1]}:{match[2]}" if places else f"{match[1]}:{match[2]}"

    return _IN_LIBRARY.sub(said, text)


def _known(frame: tuple[str, int]) -> tuple[str, int]:
    return str(Path(source_file(frame[0]))), frame[1]


def _is_built_in(file: str) -> bool:
    return Path(file).resolve().is_relative_to(_BUILT_INS) or is_of_library(file)


def _places(library: str, offsets: tuple[int, ...]) -> dict[int, Place]:
    places = {}
    for offset, frames in frames_of(Path(library), offsets).items():
        known = [_known(frame) for frame in frames]
        own = [frame for frame in known if not _is_built_in(frame[0])]
        own = own or [frame for frame in known if "/include/cccl/" in frame[0]]  # a function of its own there
        places[offset] = Place(*own[0], tuple(own[1:])) if own else UNKNOWN
    return places


@functools.cache
def _known_places(library: str, modified: int) -> dict[int, Place]:
    """The places found so far in a library; `find_places()` adds to them. modified: a rebuilt file starts
    with none."""
    return {}


def find_places(library: str, offsets: set[int]) -> dict[int, Place]:
    known = _known_places(library, Path(library).stat().st_mtime_ns)
    missing = tuple(sorted(offsets - known.keys()))
    if missing:
        known |= _places(library, missing)
    return known


def place_of(library, pc: int) -> Place:
    offset = ffi().new("unsigned long long *")
    file = string_of(library.sim_library_of(pc, offset))
    return find_places(file, {offset[0]})[offset[0]] if file else UNKNOWN


def places_of(library, counters: set[int]) -> dict[int, Place]:
    """The place of each program counter; `library` is what `COUNTED_SIMULATOR.load()` returned."""
    by_file: dict[str | None, dict[int, int]] = {}
    for pc in counters:
        offset = ffi().new("unsigned long long *")
        file = string_of(library.sim_library_of(pc, offset))
        by_file.setdefault(file, {})[pc] = offset[0]
    found: dict[int, Place] = {}
    for file, offsets in by_file.items():
        places = find_places(file, set(offsets.values())) if file else {}
        found |= {pc: places.get(offset, UNKNOWN) for pc, offset in offsets.items()}
    return found
