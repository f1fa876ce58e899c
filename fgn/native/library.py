"""The libraries that `cuda_c/` makes.

One set of sources, two machines: the C compiler builds the kernels for the CPU simulator
(`build/libfgn_sim.so`), nvcc for the GPU (`build/libfgn_cuda.so`). The library for the simulator has a second
build for the simulator that counts and checks memory accesses (`build/libfgn_sim_counted.so`). How libraries
are built, found and loaded is in cudasim/building/library.py.
"""

from __future__ import annotations

import functools
import os

import cffi

from cudasim.building import library as building
from cudasim.building.library import Library, once
from cudasim.building.places import SOURCES as SIMULATOR_SOURCES
from cudasim.building.toolchains import nvcc_toolchain
from fgn.native.places import CLONE_BUILD, PREBUILT, SOURCES

# What `fgn.native.install` installs, and the C interface that cffi reads.
PUBLIC_HEADERS = (
    SOURCES / "fgn.h",
    SOURCES / "jit" / "fgn_jit.h",
    SOURCES / "graphs" / "fgn_graphs.h",
)
HEADERS = (*building.HEADERS, *PUBLIC_HEADERS, SOURCES / "ceilings" / "ceilings.h")

# "90a" has the instructions that only compute capability 9.0 has; later GPUs get the PTX of plain "90".
# FGN_GPU_ARCHITECTURES="90a" builds for one card alone, in a fifth of the time.
GPU_ARCHITECTURES = ("75", "80", "86", "89", "90a")
CHOSEN_ARCHITECTURES = os.environ.get("FGN_GPU_ARCHITECTURES", "").split()
ARCHITECTURE_FLAGS = (
    *(f"-gencode=arch=compute_{n},code=sm_{n}" for n in CHOSEN_ARCHITECTURES or GPU_ARCHITECTURES),
    *(() if CHOSEN_ARCHITECTURES else ("-gencode=arch=compute_90,code=compute_90",)),
)


@once
def ffi() -> cffi.FFI:
    """The C interface from the unchanged headers: fgn.h, the kernels that fgn/measure/machine.py times, and
    the simulator's own functions."""
    interface = cffi.FFI()
    building.declare(interface, HEADERS)
    return interface


_KERNELS = {
    "patterns": ("**/*.cu",),
    "sources": SOURCES,
    "interface": ffi,
    "prebuilt": PREBUILT,
    "clone_build": CLONE_BUILD,
}

SIMULATOR = building.SIMULATOR.with_kernels("fgn_sim", "kernels for the simulator", **_KERNELS)
SANITIZED_SIMULATOR = building.SANITIZED_SIMULATOR.with_kernels(
    "fgn_sim_sanitized", "kernels for the simulator, with sanitizers", **_KERNELS
)
COUNTED_SIMULATOR = building.COUNTED_SIMULATOR.with_kernels(
    "fgn_sim_counted", "kernels for the simulator that counts and checks", **_KERNELS
)
GPU = Library(
    name="fgn_cuda",
    title="GPU library",
    toolchain=functools.partial(nvcc_toolchain, ARCHITECTURE_FLAGS),
    headers=(SIMULATOR_SOURCES / "sim",),
    **_KERNELS,
)
_ON_SIMULATOR = {library.needs[0]: library for library in (SIMULATOR, SANITIZED_SIMULATOR, COUNTED_SIMULATOR)}


def for_device(device_type: str) -> Library:
    """The library that runs tensors of this device type; RuntimeError if there is none."""
    if device_type == "cpu":
        return _ON_SIMULATOR[building.simulator()]
    if device_type == "cuda":
        return GPU
    raise RuntimeError(f"device: expected cpu or cuda, got {device_type}")


def version_table(device_type: str = "cpu") -> list[dict[str, str]]:
    """The rows of the C table, in its order: name, gemm, norm, summary, needs."""
    library = for_device(device_type).load()
    rows = (library.fgn_version_at(index) for index in range(library.fgn_version_count()))
    fields = ("name", "gemm", "norm", "summary", "needs")
    return [{field: ffi().string(getattr(row, field)).decode() for field in fields} for row in rows]


def version_names(device_type: str = "cpu") -> list[str]:
    """The names of the versions, from the naive one to the best one."""
    return [row["name"] for row in version_table(device_type)]
