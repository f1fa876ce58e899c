"""The libraries that `cuda_c/` makes.

One set of sources, two machines: the C compiler builds the kernels for the CPU simulator
(`build/libfgn_sim.so`), nvcc for the GPU (`build/libfgn_cuda.so`). The library for the simulator has a second
build for the simulator that counts and checks memory accesses (`build/libfgn_sim_counted.so`). How libraries
are built, found and loaded is in cudasim/building/library.py.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

import cffi

from cudasim.building import library as building
from cudasim.building.library import Library, is_counting, once
from cudasim.building.places import SOURCES as SIMULATOR_SOURCES
from cudasim.building.toolchains import nvcc_toolchain
from fgn.native.places import CLONE_BUILD, PREBUILT, SOURCES

# The C interface: what cffi reads.
HEADERS = (*building.HEADERS, SOURCES / "fgn.h", SOURCES / "ceilings" / "ceilings.h")

# "90a" has the instructions that only compute capability 9.0 has; later GPUs get the PTX of plain "90".
# FGN_GPU_ARCHITECTURES="90a" builds for one card alone, which takes a fifth of the time.
GPU_ARCHITECTURES = ("75", "80", "86", "89", "90a")
CHOSEN_ARCHITECTURES = os.environ.get("FGN_GPU_ARCHITECTURES", "").split()
ARCHITECTURE_FLAGS = (
    *(f"-gencode=arch=compute_{n},code=sm_{n}" for n in CHOSEN_ARCHITECTURES or GPU_ARCHITECTURES),
    *(() if CHOSEN_ARCHITECTURES else ("-gencode=arch=compute_90,code=compute_90",)),
)


@dataclass(frozen=True)
class KernelLibrary(Library):
    """A library of fgn's kernels."""

    def load(self):
        """The library, built first when it is not ready. Its functions are those of `cuda_c/fgn.h`, and the
        simulator's own where it runs on the simulator."""
        return building.load(self, ffi())


def _kernels(name: str, title: str, toolchain, needs: tuple[Library, ...] = ()) -> KernelLibrary:
    return KernelLibrary(
        name,
        title,
        ("**/*.cu",),
        toolchain,
        sources=SOURCES,
        headers=(SIMULATOR_SOURCES / "sim",),
        needs=needs,
        prebuilt=PREBUILT,
        clone_build=CLONE_BUILD,
    )


SIMULATOR = _kernels(
    "fgn_sim", "kernels for the simulator", building.SIMULATOR.toolchain, (building.SIMULATOR,)
)
SANITIZED_SIMULATOR = _kernels(
    "fgn_sim_sanitized",
    "kernels for the simulator, with sanitizers",
    building.SANITIZED_SIMULATOR.toolchain,
    (building.SANITIZED_SIMULATOR,),
)
COUNTED_SIMULATOR = _kernels(
    "fgn_sim_counted",
    "kernels for the simulator that counts and checks",
    building.COUNTED_SIMULATOR.toolchain,
    (building.COUNTED_SIMULATOR,),
)
GPU = _kernels("fgn_cuda", "GPU library", functools.partial(nvcc_toolchain, ARCHITECTURE_FLAGS))


@once
def ffi() -> cffi.FFI:
    """The C interface, read from the headers as they stand: fgn.h, the kernels that fgn/measure/machine.py
    times, and what only the simulator has."""
    interface = cffi.FFI()
    building.declare(interface, HEADERS)
    return interface


def for_device(device_type: str) -> Library:
    """The library that runs tensors of this device type; RuntimeError when there is none for it."""
    if device_type == "cpu":
        if is_counting.get():
            return COUNTED_SIMULATOR
        # `make sanitize` runs the tests on the library that reports memory errors.
        return SANITIZED_SIMULATOR if os.environ.get("CUDASIM_SANITIZE") == "1" else SIMULATOR
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
