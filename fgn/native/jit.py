"""Kernels that are compiled for one call, where it is made again and again (`cuda_c/jit/jit.h`).

The library asks for such a kernel at the third call of its kind on a GPU, and this module compiles it by
nvcc in one to three seconds. Compiled kernels are kept in the folder `jit` beside the built libraries, for
this build of the library and this architecture. Nothing is compiled without nvcc, if FGN_JIT is 0, or after
`torch.use_deterministic_algorithms(True)`. Where compiling fails, a warning says so, and the library's own
kernel goes on.
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
from cudasim.building.toolchains import find_nvcc, nvcc_toolchain
from fgn.native.library import GPU, ffi
from fgn.native.places import SOURCES

KERNEL = "jit_kernel"


def compiled(source: str, architecture: str) -> bytes:
    """The machine code of a source for this architecture, such as "90a". BuildError if nvcc refuses it."""
    toolchain = nvcc_toolchain((f"-arch=sm_{architecture}",))
    key = digest(source, GPU.soname, toolchain.identity, *toolchain.flags)
    path = build_folder() / "jit" / f"{key}.cubin"
    if not path.exists():
        make_folder(path.parent, top=build_folder())
        with tempfile.TemporaryDirectory() as folder, replacing(path) as temporary:
            file = Path(folder) / "kernel.cu"
            file.write_text(source)
            includes = (f"-I{SOURCES}", f"-I{SIMULATOR_SOURCES}")
            run([toolchain.compiler, *toolchain.flags, *includes, "-cubin", "-o", temporary, str(file)])
    return path.read_bytes()


def _architecture() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"{major}{minor}" + ("a" if major == 9 else "")


def _compile(library, c_source):
    """The kernel, or NULL. Its last bits may differ from those of the first two calls, so there is none where
    torch promises equal results for equal calls."""
    if torch.are_deterministic_algorithms_enabled():
        return ffi().NULL
    try:
        if GPU.find() is None:
            raise BuildError("the sources in cuda_c/ have changed since the GPU library was built")
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
