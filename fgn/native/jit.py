"""Kernels that are compiled for one call, where it is made again and again (`cuda_c/jit/jit.h`).

The library asks for such a kernel at the third call of its kind on a GPU, and this module compiles it by
nvcc in one to three seconds. Compiled kernels are kept in the folder `jit` beside the built libraries, for
this build of the library and this architecture. Nothing is compiled without nvcc, or if FGN_JIT is 0. Where
compiling fails, a warning says so, and the library's own kernel computes the same.
"""

from __future__ import annotations

import functools
import os
import tempfile
import warnings
from pathlib import Path

import torch

from cudasim.building.library import BuildError, digest, replacing, run
from cudasim.building.own_files import make_folder
from cudasim.building.places import SOURCES as SIMULATOR_SOURCES
from cudasim.building.places import build_folder
from cudasim.building.toolchains import NVCC_FLAGS, find_nvcc
from fgn.native.library import GPU, ffi
from fgn.native.places import SOURCES

KERNEL = "jit_kernel"


@functools.cache
def _mark() -> str:
    """What distinguishes this build of the library from others."""
    return GPU.path.with_suffix(".stamp").read_text().partition("\n")[0]


def compiled(source: str, architecture: str) -> bytes:
    """The machine code of a source for this architecture, such as "90a". BuildError if nvcc refuses it, or if
    the library's sources have changed since it was built."""
    path = build_folder() / "jit" / f"{digest(source, architecture, _mark())}.cubin"
    if path.exists():
        return path.read_bytes()
    if GPU.find() is None:
        raise BuildError("the sources in cuda_c/ have changed since the GPU library was built")
    make_folder(path.parent, top=build_folder())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cu"
        file.write_text(source)
        with replacing(path) as temporary:
            includes = (f"-I{SOURCES}", f"-I{SIMULATOR_SOURCES}")
            flags = (*NVCC_FLAGS, *includes, f"-arch=sm_{architecture}", "-cubin", "-o", temporary)
            run([find_nvcc(), *flags, str(file)])
    return path.read_bytes()


def _architecture() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"{major}{minor}" + ("a" if major == 9 else "")


def _compile(library, c_source):
    try:
        image = compiled(ffi().string(c_source).decode(), _architecture())
    except Exception as error:  # a launch must not fail for it: the library has a kernel of its own
        warnings.warn(f"fgn: no kernel was compiled for this call: {error}", stacklevel=2)
        return ffi().NULL
    return library.fgn_load_kernel(ffi().from_buffer(image), KERNEL.encode())


@functools.cache
def set_up(library):
    """From now on the library has kernels compiled for calls that are repeated. Returns what has to live as
    long as the library, or None if it compiles nothing."""
    if os.environ.get("FGN_JIT") == "0" or find_nvcc() is None:
        return None
    compiler = ffi().callback("fgn_jit_compiler", functools.partial(_compile, library))
    library.fgn_set_jit_compiler(compiler)
    return compiler
