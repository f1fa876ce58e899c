"""NVIDIA's CCCL: CUB, and in whole programs Thrust, libcu++ and other headers for a host without a GPU.

The headers come from a wheel, `nvidia-cuda-cccl`. Thrust has a CPU backend, and sim/cpp/cccl/, which is
searched first, adapts it to the simulator. CUB's headers run as they are but for their inline PTX, which is
translated once; its device-wide functions launch their own kernels. Atomics, barriers and pipelines of device
code are the simulator's, which it watches.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from pathlib import Path

from cudasim.building.kept import building
from cudasim.building.library import digest
from cudasim.building.places import SOURCES, build_folder
from cudasim.live import ptx, ptx_table

REPLACED = SOURCES / "sim" / "cpp" / "cccl"  # what the simulator has in place of the wheel's
INSTALL = "pip install 'nvidia-cuda-cccl==13.3.*' (or cudasim[cccl])"
_KNOWN = 3005  # CCCL 3.5: the changes below are of its text
# The simulator has these too, for kernels without host code and for programs without the wheel.
_BETTER_THERE = re.compile(r"(?:thrust/|cuda/std/(?!atomic$|barrier$)|cuda/functional$)")
_LIBRARIES = re.compile(r"(?:cub|thrust|cuda|nv)/")


@functools.cache
def headers() -> Path | None:
    """The wheel's folder of headers; None if it, or this version of it, is not installed."""
    try:
        found = importlib.util.find_spec("nvidia")
    except ValueError:
        return None
    places = (found.submodule_search_locations if found else None) or ()
    folders = (folder for place in places for folder in sorted(Path(place).glob("cu*/include/cccl")))
    return next((folder for folder in folders if _version_of(folder) // 100 == _KNOWN), None)


def _version_of(folder: Path) -> int:
    """As THRUST_VERSION has it; 0 for a folder without Thrust."""
    header = folder / "thrust" / "version.h"
    found = re.search(r"THRUST_VERSION (\d+)", header.read_text()) if header.is_file() else None
    return int(found[1]) if found else 0


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


def names_cub(text: str) -> bool:
    """Whether a source's text for the C++ compiler includes CUB."""
    return headers() is not None and '"sim/cpp/cub/cub.cuh"' in text


# Headers of device code that a C++ compiler does not take, or that are empty for it, and what changes in them
# before their inline PTX is translated.
_TRANSLATED = (
    *("cub/*.cuh", "cub/agent/*.cuh", "cub/block/**/*.cuh", "cub/detail/**/*.cuh", "cub/device/**/*.cuh"),
    *("cub/grid/*.cuh", "cub/thread/*.cuh", "cub/warp/**/*.cuh"),
    *("cuda/__warp/*.h", "cuda/__ptx/instructions/shfl_sync.h", "cuda/__ptx/instructions/**/get_sreg.h"),
    *("cuda/__fwd/get_*.h", "cuda/__stream/get_stream.h", "cuda/__device/compute_capability.h"),
    *(f"cuda/__memory_resource/{name}.h" for name in ("get_memory_resource", "properties", "resource")),
    *("cuda/__memory_resource/get_property.h", "cuda/__memcpy_async/elect_one.h"),
)
_CHANGES = (
    (r"\bNV_PROVIDES_SM_(?:[5-8]\d|90)\b", "NV_ANY_TARGET"),
    (r"(?<=#if )_CCCL_CUDA_COMPILATION\(\)", "1"),
    (r"(?<=#if )_CCCL_HAS_CTK\(\)", "1"),
    # In a class, C++ has no type by the name of a template that the type's definition looks up.
    (r"\busing ([A-Z]\w+)(\s*)= (?=\1<)", r"using \1\2= cub::"),
    (r"\b(using (streaming_context_t)\s*= )(?=\2<)", r"\1detail::select::"),
    # All modifiers of a load or a store of global memory are one here, and a macro's argument is no PTX.
    (r'(?<=\b[ls][dt])\." #ptx_modifier "', ""),
    # A merge reads one key behind each sequence and does not use it: uninitialised memory.
    (r"\b(key[12]) = keys_shared\[(keys[12])_beg\];", r"if (\2_beg < \2_end) \1 = keys_shared[\2_beg];"),
    # The simulator has these.
    (r"#\s*include <(?:cuda_runtime_api|cudaTypedefs)\.h>", ""),
    (r"#\s*include <cuda/__ptx/instructions/(?!get_sreg|shfl_sync)\w+\.h>", ""),
    # Its GPU is Hopper: without the scan for Blackwell.
    (r"(vvv !_CCCL_CUDA_COMPILER\(CLANG\) vvv\n\s*return )\{\}", r"\1::cuda::compute_capability{90}"),
    (r"#if __cccl_ptx_isa < 860", "#if 1"),
    (r"#if __cccl_ptx_isa >= 860(?=\n\s*if \(num_items == 0\))", "#if 0"),
    (r"#if _CCCL_CUDACC_AT_LEAST\(12, 8\)(?=\n#\s*include <cub)", "#if 0"),
    (r"\bextern __shared__ char (\w+)\[\];", r"char *\1 = (char *)SIM_DYNAMIC_SHARED;"),
    # Kernels and host code are compiled together.
    (r"NV_IF_ELSE_TARGET\(\s*NV_IS_DEVICE,", "SIM_IF_ELSE_IN_KERNEL("),
    # A bulk copy of no bytes is a fault here.
    (r"(int num_bytes\)\s*\{\s*if \(elected)\)", r"\1 && num_bytes > 0)"),
    # Only a kernel's own `return` ends a thread: a tile of one digit is ranked as any other.
    (r"\bif \(!short_circuit\)", "if (true)"),
    (r'fprintf\(stderr, "CUDA error %d \[%s[^;]*?(?=error, filename, line, )', "sim_library_fails("),
)


def _translated() -> Path:
    """A folder with these headers, to search before the wheel's."""
    wheel = headers()
    by = (Path(of.__file__).read_text() for of in (sys.modules[__name__], ptx, ptx_table))
    key = digest(str(wheel), str(_version_of(wheel)), *by)[:16]
    folder = build_folder() / "live" / f"cccl-{key}" / "include" / "cccl"
    with building(folder / "names") as is_missing:
        if is_missing:
            names = []
            for path in sorted(path for pattern in _TRANSLATED for path in wheel.glob(pattern)):
                text = path.read_text()
                changed = text
                for pattern, new in _CHANGES:
                    changed = re.sub(pattern, new, changed)
                changed = ptx.with_ptx(changed)
                if changed != text:
                    name = path.relative_to(wheel)
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name).write_text(changed)
                    names.append(str(name))
            (folder / "names").write_text("\n".join(names))
    return folder


@functools.cache
def flags() -> tuple[str, ...]:
    """Flags for a program's C++ compiler: folders to search first, and Thrust's backend."""
    folder = headers()
    if folder is None:
        return ()
    macros = ("THRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP", f"SIM_HAS_CCCL={_version_of(folder)}")
    folders = (REPLACED, _translated(), folder)
    return (*(f"-I{of}" for of in folders), *(f"-D{macro}" for macro in macros))


def flags_for_cub(text: str) -> tuple[str, ...]:
    """The same for a source that includes CUB, else none."""
    return flags() if names_cub(text) else ()
