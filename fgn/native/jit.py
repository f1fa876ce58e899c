"""Kernels that are compiled for one call, where it is made again and again (`cuda_c/jit/jit.h`).

The library asks for such a kernel at the third call of its kind on a GPU, and this module compiles it by
NVRTC in 0.5 to 2 s. torch's wheels for GPUs bring NVRTC, CUDA's headers and, in newer versions (2.11 does),
cuda-bindings, NVIDIA's own wrapper, which also finds NVRTC. torch.cuda._compile_kernel wraps NVRTC too, but
it is private, gives no machine code that could be kept, and looks for headers in a toolkit only.

Compiled kernels are kept in the folder `jit` beside the built libraries, for this build of the library and
this architecture. Nothing is compiled without NVRTC, if FGN_JIT is 0, or after
`torch.use_deterministic_algorithms(True)`. Where compiling fails, a warning says so, and the library's own
kernel goes on. After Ctrl-C meanwhile it goes on too, and KeyboardInterrupt follows the call.
"""

from __future__ import annotations

import _thread
import functools
import importlib.util
import os
import threading
import warnings
from pathlib import Path

import torch

from cudasim.building.library import BuildError, digest, replacing
from cudasim.building.own_files import make_folder
from cudasim.building.places import SOURCES as SIMULATOR_SOURCES
from cudasim.building.places import build_folder
from cudasim.building.toolchains import find_nvcc
from fgn.native.library import GPU, ffi
from fgn.native.places import SOURCES

KERNEL = "jit_kernel"

# NVRTC knows what these headers declare, but for the types of <stdint.h>, and needs no C library.
_STANDARD_HEADERS = {
    **dict.fromkeys((b"stdbool.h", b"stddef.h", b"string.h", b"cuda_runtime.h"), b""),
    b"limits.h": b"#define INT_MAX 2147483647\n",
    b"stdint.h": b"""
        typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
        typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned uint32_t;
        typedef unsigned long long uint64_t; typedef unsigned long long uintptr_t;
    """,
}

# A function of the host is compiled for the device, and not refused; what is extern in the library is not
# used. The lines of the source are kept for profilers.
_OPTIONS = ("-std=c++17", "-lineinfo", "-default-device", "-diag-suppress=20044")


@functools.cache
def nvrtc():
    """The module cuda.bindings.nvrtc, or None if it or its library is not there."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):
        return None
    return nvrtc


@functools.cache
def _cuda_headers() -> Path:
    """The folder of CUDA's headers of 16-bit types: of a wheel, as NVRTC is, or of a toolkit."""
    found = importlib.util.find_spec("nvidia")
    wheels = [Path(place) for place in (found.submodule_search_locations if found else ()) or ()]
    folders = [folder for place in wheels for folder in place.glob("cu*/include")]
    toolkits = (os.environ.get("CUDA_HOME"), find_nvcc() and Path(find_nvcc()).resolve().parents[1])
    folders += [Path(toolkit) / "include" for toolkit in (*toolkits, "/usr/local/cuda") if toolkit]
    for folder in folders:
        if (folder / "cuda_fp16.h").exists():
            return folder
    raise BuildError("no folder has cuda_fp16.h: pip install nvidia-cuda-runtime brings CUDA's headers")


def _done(result: tuple):
    """What a function of cuda-bindings returns beside its error; BuildError if there is one."""
    error, *values = result
    if error != nvrtc().nvrtcResult.NVRTC_SUCCESS:
        raise BuildError(nvrtc().nvrtcGetErrorString(error)[1].decode())
    return values[0] if values else None


def _machine_code(source: str, options: list[str]) -> bytes:
    headers = _STANDARD_HEADERS
    program = _done(
        nvrtc().nvrtcCreateProgram(
            source.encode(), b"kernel.cu", len(headers), [*headers.values()], [*headers]
        )
    )
    try:
        result = nvrtc().nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if result[0] != nvrtc().nvrtcResult.NVRTC_SUCCESS:
            log = bytes(_done(nvrtc().nvrtcGetProgramLogSize(program)))
            _done(nvrtc().nvrtcGetProgramLog(program, log))
            raise BuildError(log.rstrip(b"\n\0").decode())
        image = bytes(_done(nvrtc().nvrtcGetCUBINSize(program)))
        _done(nvrtc().nvrtcGetCUBIN(program, image))
        return image
    finally:
        nvrtc().nvrtcDestroyProgram(program)


def compiled(source: str, architecture: str) -> bytes:
    """The machine code of a source for this architecture, such as "90a". BuildError if NVRTC refuses it."""
    options = [f"-arch=sm_{architecture}", *_OPTIONS]
    version = ".".join(map(str, nvrtc().nvrtcVersion()[1:]))
    path = build_folder() / "jit" / f"{digest(source, GPU.soname, version, *options)}.cubin"
    if not path.exists():
        folders = (SOURCES, SIMULATOR_SOURCES, _cuda_headers())
        image = _machine_code(source, [*options, *(f"-I{folder}" for folder in folders)])
        make_folder(path.parent, top=build_folder())
        with replacing(path) as temporary:
            Path(temporary).write_bytes(image)
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
        return library.fgn_load_kernel(ffi().from_buffer(image), KERNEL.encode())
    except KeyboardInterrupt:  # cffi would print it and go on: it is sent again, after the call
        threading.Timer(0.05, _thread.interrupt_main).start()
    except Exception as error:  # a launch must not fail for it: the library has a kernel of its own
        warnings.warn(f"fgn: no kernel was compiled for this call: {error}", stacklevel=2)
    return ffi().NULL


@functools.cache
def set_up(library):
    """From now on the library has kernels compiled for calls that are repeated. Returns what has to live as
    long as the library, or None if it compiles nothing."""
    if os.environ.get("FGN_JIT") == "0" or nvrtc() is None:
        return None
    compiler = ffi().callback("fgn_jit_compiler", functools.partial(_compile, library))
    library.fgn_set_jit_compiler(compiler)
    return compiler
