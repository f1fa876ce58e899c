"""The compilers of C and C++: which ones exist, which are new enough, and how each names a flag.

gcc and clang are told apart by the macros that they predefine, not by their names: `cc` is either.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

# The oldest that know _Float16 on every processor. Apple has its own version numbers for clang.
OLDEST = {"gcc": 12, "clang": 16}

# clang's names for gcc's flags. One part of its check of bounds ends the process, and is left out. By default
# it merges the accesses of several rounds of a loop, and does not report a read before a write to the same
# place, nor a block that all earlier branches lead to. In its DWARF 5, binutils' addr2line does not find from
# where a call was inlined.
_FLAGS_OF_CLANG = {
    "-g": ("-g", "-gdwarf-4"),
    "-fvar-tracking-assignments": (),
    "-fno-var-tracking": (),
    "--param=tsan-distinguish-volatile=1": ("-mllvm", "-tsan-distinguish-volatile"),
    "--param=tsan-instrument-func-entry-exit=0": ("-mllvm", "-tsan-instrument-func-entry-exit=0"),
    "-fsanitize=thread,bounds": (
        "-fsanitize=thread,array-bounds",
        *("-mllvm", "-tsan-instrument-read-before-write"),
    ),
    "-fsanitize=float-cast-overflow,shift-exponent,bounds,return": (
        "-fsanitize=float-cast-overflow,shift-exponent,array-bounds,return",
    ),
    "-fsanitize-coverage=trace-pc": ("-fsanitize-coverage=trace-pc,no-prune",),
    "--param=max-inline-insns-auto=200": (),  # which inlines as much without
    "-fno-partial-inlining": (),
    "-fvect-cost-model=dynamic": (),
    "-funswitch-loops": (),
    "-fno-tree-sra": ("-fno-vectorize", "-fno-slp-vectorize"),
    "-fno-reorder-blocks": ("-mllvm", "-disable-block-placement"),
    "-fno-reorder-blocks-and-partition": (),
    "-fno-toplevel-reorder": (),
    "-fno-crossjumping": (),
}
# `#pragma unroll` is for the GPU's compiler: clang warns of loops that it cannot unroll here. Lanes may pass
# an unset variable to a shuffle, as on a GPU; clang would conclude that no such lane comes there. A loop
# without end and effect is a mistake to report; clang would remove it.
_ALWAYS_OF_CLANG = (
    *("-Wno-pass-failed", "-Wno-unknown-warning-option"),
    *("-Xclang", "-no-enable-noundef-analysis"),
    "-fno-finite-loops",
)

_OF_CPP = {"gcc": "g++", "cc": "c++", "clang": "clang++"}


class MissingToolError(RuntimeError):
    """A compiler that a library needs is not on this machine."""


class OldCompilerError(MissingToolError):
    """The compilers on this machine are too old."""


def command_output(command) -> str | None:
    """The command's standard output, or None if it fails or does not exist. Its standard input is empty."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, input="").stdout
    except (OSError, subprocess.CalledProcessError):
        return None


@functools.cache
def _macros(path: str, flags: tuple[str, ...], size: int, changed: int) -> str | None:
    return command_output([path, *flags, "-dM", "-E", "-x", "c", "-"])


def macros_of(compiler: str, *flags: str) -> str | None:
    """The macros that a compiler defines with these flags, cached; None if it does not run."""
    try:
        file = os.stat(compiler)
    except OSError:
        return None
    return _macros(compiler, flags, file.st_size, file.st_mtime_ns)


@functools.cache
def _version_in(macros: str) -> tuple[str, int] | None:
    for family, macro in (("clang", "__clang_major__"), ("gcc", "__GNUC__")):
        if found := re.search(rf"^#define {macro} (\d+)$", macros, re.M):
            return family, int(found[1])
    return None


def version_of(compiler: str) -> tuple[str, int] | None:
    """("gcc" or "clang", its major version); None for a compiler that is neither, or that does not run."""
    return _version_in(macros_of(compiler) or "")


def described(compiler: str) -> str:
    """The compiler and its version, for a message."""
    version = version_of(compiler)
    return f"{compiler} ({version[0]} {version[1]})" if version else compiler


@functools.cache
def processor() -> str:
    """A digest of this processor's features; a library is built for these."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    able = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(f"{platform.machine()} {able}".encode()).hexdigest()


def _is_old(compiler: str) -> bool:
    version = version_of(compiler)
    return version is not None and version[1] < OLDEST[version[0]]


def _numbered(gcc: str, clang: str) -> list[str]:
    """Names with a version, which Debian has beside or instead of the plain ones; the newest first."""
    families = ((gcc, OLDEST["gcc"]), (clang, OLDEST["clang"]))
    return [f"{name}-{version}" for name, oldest in families for version in range(30, oldest - 1, -1)]


def _beside(c_compiler: str) -> str:
    """The C++ compiler that comes with a C compiler: clang++-16 for clang-16."""
    folder, name = os.path.split(c_compiler)
    return os.path.join(
        folder, re.sub(r"gcc|cc(?=-|$)|clang", lambda found: _OF_CPP[found[0]], name, count=1)
    )


def _c_beside(cpp_compiler: str) -> str:
    """The C compiler that comes with a C++ compiler: clang-16 for clang++-16."""
    folder, name = os.path.split(cpp_compiler)
    c_of = {cpp: c for c, cpp in _OF_CPP.items()}
    return os.path.join(folder, re.sub(r"(?:g|c|clang)\+\+", lambda found: c_of[found[0]], name, count=1))


def _first_that_will_do(variable: str, names: Iterable[str]) -> str | None:
    """The compiler that the variable names, else the first one that is new enough; None if there is none.
    OldCompilerError if there are only older ones."""
    chosen = os.environ.get(variable)
    paths = []
    for name in [chosen] if chosen else names:
        if path := shutil.which(name):
            if not _is_old(path):
                return path
            paths.append(path)
    if chosen and not paths:
        raise MissingToolError(f"${variable}: expected a compiler, got {chosen!r}, which is not found")
    if not paths:
        return None
    old = ", ".join("{} is {} {}".format(path, *version_of(path)) for path in paths)
    least = " or ".join(f"{family} {version}" for family, version in OLDEST.items())
    raise OldCompilerError(f"{old}: expected {least}, or newer; ${variable} names another compiler")


def find_c_compiler() -> str | None:
    """The C compiler: $CC, the one beside $CXX, cc, gcc or clang; None if there is none. OldCompilerError:
    only old ones."""
    first = [_c_beside(os.environ["CXX"])] if os.environ.get("CXX") else []
    return _first_that_will_do("CC", [*first, "cc", "gcc", "clang", *_numbered("gcc", "clang")])


def find_cpp_compiler() -> str | None:
    """The C++ compiler: $CXX, the one beside $CC, g++, clang++ or c++, as `find_c_compiler()`."""
    first = [_beside(os.environ["CC"])] if os.environ.get("CC") else []
    return _first_that_will_do("CXX", [*first, "g++", "clang++", "c++", *_numbered("g++", "clang++")])


def spelled_for(compiler: str, flags: Sequence[str]) -> tuple[str, ...]:
    """This compiler's names for gcc's flags."""
    version = version_of(compiler)
    if version is None or version[0] != "clang":
        return tuple(flags)
    spelled = [word for flag in flags for word in _FLAGS_OF_CLANG.get(flag, (flag,))]
    return (*spelled, *_ALWAYS_OF_CLANG)
