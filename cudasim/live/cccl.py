"""NVIDIA's CCCL in whole programs: Thrust, libcu++ and other headers for a host without a GPU.

The headers come from a wheel, `nvidia-cuda-cccl`, and are not translated: Thrust has a CPU backend, and
sim/cpp/cccl/, which is searched first, adapts it to the simulator. CUB is the simulator's own, and so are
atomics, barriers and pipelines of device code, which it watches.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path

from cudasim.building.places import SOURCES

REPLACED = SOURCES / "sim" / "cpp" / "cccl"  # what the simulator has in place of the wheel's
INSTALL = "pip install 'nvidia-cuda-cccl>=13.3,<14' (or cudasim[cccl])"
# The simulator has these too, for kernels without host code and for programs without the wheel.
_BETTER_THERE = re.compile(r"(?:thrust/|cuda/std/(?!atomic$|barrier$)|cuda/functional$)")
_LIBRARIES = re.compile(r"(?:thrust|cuda|nv)/")


@functools.cache
def headers() -> Path | None:
    """The wheel's folder of headers; None if it is not installed."""
    try:
        found = importlib.util.find_spec("nvidia")
    except ValueError:
        return None
    places = (found.submodule_search_locations if found else None) or ()
    folders = (folder for place in places for folder in sorted(Path(place).glob("cu*/include/cccl")))
    return next((folder for folder in folders if (folder / "thrust" / "version.h").is_file()), None)


def is_there(header: str, is_simulators: bool) -> bool:
    """Whether a program's #include means the wheel's header."""
    if is_simulators and not _BETTER_THERE.match(header):
        return False
    folder = headers()
    return folder is not None and bool(_LIBRARIES.match(header)) and (folder / header).is_file()


def including(header: str) -> str:
    """The text that replaces a program's #include."""
    return f'\n#define SIM_HEADER <{header}>\n#include "sim/cpp/cccl.hpp"'


def refusing(header: str, file: str, line: int) -> str:
    """The same if the wheel is not installed; "" for a header that is not CCCL's."""
    if headers() is not None or not _LIBRARIES.match(header):
        return ""
    return f'\n#line {line} "{file}"\n#error {header} is of the CCCL, which is not here: {INSTALL}'


def flags() -> tuple[str, ...]:
    """Flags for a program's C++ compiler: folders to search first, and Thrust's backend."""
    folder = headers()
    if folder is None:
        return ()
    version = re.search(r"THRUST_VERSION (\d+)", (folder / "thrust" / "version.h").read_text())
    macros = ("THRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP", f"SIM_HAS_CCCL={version[1] if version else 1}")
    return (f"-I{REPLACED}", f"-I{folder}", *(f"-D{macro}" for macro in macros))
