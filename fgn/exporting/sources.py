"""Finds the files of `cuda_c/` that one version needs: its own, those that define what it calls, and all
headers.

It reads the text of the sources. In a `.cu` file of `cuda_c/`, each definition for other files begins in the
first column and without `static`. A file needs another one if it uses a name defined there.
"""

from __future__ import annotations

import functools
import re

from cudasim.building.places import SOURCES as SIMULATOR_SOURCES
from fgn.native.places import SOURCES

# The files of the C API that every version needs. A library of one version needs neither the table of
# versions nor the choice: its launcher has both.
API = ("api.cu", "checks.cu")
REPLACED = ("versions.cu", "choice.cu")

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
_RUNG = re.compile(r'^RUNG (\w+) = \{\s*\{"(\w+)"', re.M)
_DEFINITION = re.compile(
    r"^(?:(?:NORM_)?RUNG (\w+) =|(?!static\b|typedef\b)[\w \*]*[ \*](\w+)\([^;{}()]*\) *\{)", re.M
)
# Declarations of a name that another file defines: a prototype, or an extern object.
_DECLARATION = re.compile(
    r"^(?!static\b|typedef\b)\w[\w \*]*[ \*]\w+\([^;{}]*\);|^extern const [^;{}]*;", re.M
)


# The simulator's headers that both machines include; the others are for the simulator alone.
_FOR_BOTH = ("sim/portable.h", "sim/launchers.h")


@functools.cache
def _text(file: str) -> str:
    folder = SIMULATOR_SOURCES if file in _FOR_BOTH else SOURCES
    return (folder / file).read_text()


def _is_for_gpus(file: str) -> bool:
    return file in _FOR_BOTH or (SOURCES / file).is_file()


def headers_of(file: str) -> list[str]:
    """The headers that a file includes, directly or not; each header comes before the files that include
    it."""
    found: dict[str, None] = {}

    def visit(path: str):
        for name in _INCLUDE.findall(_text(path)):
            if name not in found and _is_for_gpus(name):
                visit(name)
                found.setdefault(name)

    visit(file)
    return list(found)


@functools.cache
def _definitions() -> dict[str, str]:
    """The defining file of each name that other files may use."""
    files = (path.relative_to(SOURCES).as_posix() for path in sorted(SOURCES.rglob("*.cu")))
    return {
        first or second: file
        for file in files
        if _is_for_gpus(file) and file not in REPLACED
        for first, second in _DEFINITION.findall(_COMMENT.sub("", _text(file)))
    }


@functools.cache
def _names_used_in(file: str) -> frozenset[str]:
    """The identifiers in the file and its headers, except those that are only declared."""
    texts = (_COMMENT.sub("", _text(name)) for name in (file, *headers_of(file)))
    return frozenset(name for text in texts for name in re.findall(r"\w+", _DECLARATION.sub("", text)))


def rung_of(version: str) -> tuple[str, str]:
    """The name of the version's `struct rung`, and the file that defines it. ValueError if there is none."""
    for path in sorted(SOURCES.rglob("*.cu")):
        for rung, name in _RUNG.findall(path.read_text()):
            if name == version:
                return rung, path.relative_to(SOURCES).as_posix()
    raise ValueError(f"version: no file of {SOURCES} defines {version!r}")


def units_of(version: str) -> list[str]:
    """The `.cu` files of a library with this version alone."""
    needed, waiting = [], [*API, rung_of(version)[1]]
    while waiting:
        file = waiting.pop(0)
        if file not in needed:
            needed.append(file)
            where = _definitions()
            waiting += sorted({where[name] for name in _names_used_in(file) if name in where})
    return needed


def sources_of(version: str) -> dict[str, str]:
    """The text of every file that the version needs by its path in `cuda_c/`: each header before the files
    that include it, the C API last."""
    units = units_of(version)
    units = [*(unit for unit in units if unit not in API), *API]
    files = dict.fromkeys(name for unit in units for name in (*headers_of(unit), unit))
    return {file: _text(file) for file in files}


def launcher(version: str) -> str:
    """The text of the launcher, a file whose table of versions has this version alone."""
    rung, _ = rung_of(version)
    return f"""\
/* A library of one version: the table that the C API reads, and the size of a plan for who allocates one. */
#include "shared/rung.h"

extern const struct rung {rung};

const struct rung *rung_at(int version) {{
    return version == 0 ? &{rung} : NULL;
}}

int fgn_version_count(void) {{
    return 1;
}}

const fgn_version *fgn_version_at(int version) {{
    return version == 0 ? &{rung}.version : NULL;
}}

int fgn_default_version(const fgn_chain *chain, const fgn_device *device) {{
    return {rung}.refusal(chain, device) ? -1 : 0;
}}

#ifdef __cplusplus
extern "C"
#endif
    unsigned long long
    bytes_of_plan(void) {{
    return sizeof(fgn_plan);
}}
"""
