"""A folder that replaces CUDA's in a build: CUDA_DIR, CUDA_HOME, CUDA_PATH.

Many Makefiles compile kernels with $(CUDA_DIR)/bin/nvcc and link with gcc, -L$(CUDA_DIR)/lib64 and -lcudart.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from cudasim.building.compilers import MissingToolError
from cudasim.building.library import SIMULATOR, replacing, run
from cudasim.live.compiling import WRAPPED, cpp_compiler
from cudasim.live.source import CPP
from cudasim.programs.blas import blas

_LIBRARIES = (
    *("cudart", "cudart_static", "cudadevrt", "cuda"),
    *("cublas", "cublasLt", "cufft", "curand", "cusparse", "nvToolsExt"),
)
# CMake asks nvcc for what this says; programs are linked by the host's compiler.
_TOOLCHAIN = """set(CMAKE_CUDA_COMPILER "{folder}/bin/nvcc")
set(CMAKE_CUDA_COMPILER_ID_RUN TRUE)
set(CMAKE_CUDA_COMPILER_FORCED TRUE)
set(CMAKE_CUDA_COMPILER_ID NVIDIA)
set(CMAKE_CUDA_COMPILER_VERSION 13.0.0)
set(CMAKE_CUDA_COMPILER_TOOLKIT_VERSION 13.0.0)
set(CMAKE_CUDA_COMPILER_TOOLKIT_ROOT "{folder}")
set(CMAKE_CUDA_COMPILER_TOOLKIT_LIBRARY_ROOT "{folder}")
set(CMAKE_CUDA_COMPILER_LIBRARY_ROOT "{folder}")
set(CMAKE_CUDA_COMPILER_PRODUCED_OUTPUT "nvcc
#\\$ LIBRARIES= -L{folder}/lib64
#\\$ INCLUDES=-I{folder}/include
#\\$ {compiler} -o a.out -L{folder}/lib64 -lcudadevrt -lcudart
")
set(CMAKE_CUDA_STANDARD_COMPUTED_DEFAULT 17)
set(CMAKE_CUDA_EXTENSIONS_COMPUTED_DEFAULT ON)
set(CMAKE_CUDA_COMPILE_FEATURES cuda_std_03 cuda_std_11 cuda_std_14 cuda_std_17 cuda_std_20)
foreach(standard 03 11 14 17 20)
  set(CMAKE_CUDA${{standard}}_COMPILE_FEATURES cuda_std_${{standard}})
endforeach()
foreach(which ALL ALL_MAJOR NATIVE)
  set(CMAKE_CUDA_ARCHITECTURES_${{which}} 90)
endforeach()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
set(CUDAToolkit_ROOT "{folder}")
foreach(kind EXE SHARED MODULE)
  string(APPEND CMAKE_${{kind}}_LINKER_FLAGS_INIT " -L{folder}/lib64 -Wl,-rpath,{folder}/lib64")
endforeach()
"""
# What a source of g++'s gets by a name of CUDA's; nvcc and cudasim-nvcc never look there.
_FOR_GCC = """#pragma GCC system_header
#ifndef __cplusplus
#error "C sources that call the CUDA runtime are for nvcc"
#elif __cplusplus < 201703L
#error "CUDA's headers need C++17 here: -std=c++17, or CMAKE_CXX_STANDARD 17"
#endif
#include "{folder}/program.hpp"
#include "{folder}/{name}"
"""
# A library, because a linker would take an object that is given twice two times.
_STANDS_IN = "libcudasim_stands_in.so"
_CALLS = "import sys; from cudasim.__main__ import nvcc; sys.exit(nvcc())"


def write_toolkit(folder: Path, wrapped: Path):
    """wrapped: the object that is linked into every program."""
    if _objcopy() is None:
        raise MissingToolError("objcopy was not found, which a program needs that gcc links")
    for name in ("bin", "include", "lib64"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    libraries = (folder / "lib64").resolve()
    with replacing(libraries / SIMULATOR.soname) as temporary:
        shutil.copyfile(SIMULATOR.build(), temporary)
    with replacing(libraries / "wrapped.o") as temporary:
        _rename(wrapped, Path(temporary), (f"__real_{name}={name}" for name in WRAPPED))
    names = (f"-Wl,-soname,{_STANDS_IN}", "-Wl,-rpath,$ORIGIN", "-Wl,-z,defs")
    with replacing(libraries / _STANDS_IN) as temporary:
        link = [cpp_compiler("a toolkit cannot be linked"), "-shared", str(libraries / "wrapped.o"), *names]
        run([*link, str(libraries / SIMULATOR.soname), "-o", temporary])
    (libraries / "wrapped.o").unlink()
    parts = [str(libraries / _STANDS_IN), str(libraries / SIMULATOR.soname)]
    parts += ["-lstdc++", "-lm", "-lpthread"]
    if blas() and Path(blas().path).is_absolute():
        found = libraries / Path(blas().path).name
        found.unlink(missing_ok=True)
        found.symlink_to(blas().path)
        parts.append(f"AS_NEEDED({found})")
    for name in _LIBRARIES:
        (libraries / f"lib{name}.so").write_text(f"INPUT({' '.join(parts)})\n")
    for header in CPP.glob("*.h"):
        if header.name != "assert.h":  # C's own, for a source that has no kernels
            text = _FOR_GCC.format(folder=CPP, name=header.name)
            (folder / "include" / header.name).write_text(text)
    told = {"folder": folder.resolve(), "compiler": shutil.which(cpp_compiler("a toolkit cannot be linked"))}
    (folder / "cudasim.cmake").write_text(_TOOLCHAIN.format(**told))
    lib = folder / "lib"
    if not lib.exists():
        lib.symlink_to("lib64")
    package = Path(__file__).parents[2]
    nvcc = folder / "bin" / "nvcc"
    nvcc.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(package))}"${{PYTHONPATH:+:$PYTHONPATH}}" '
        f'exec {shlex.quote(sys.executable)} -c {shlex.quote(_CALLS)} "$@"\n'
    )
    nvcc.chmod(0o755)


def for_any_linker(kernels: Path, output: Path):
    """Writes the object with calls of the simulator's functions, so that the linker needs no --wrap."""
    if _objcopy() is None:
        shutil.copyfile(kernels, output)
    else:
        _rename(kernels, output, (f"{name}=__wrap_{name}" for name in WRAPPED))


def write_empty_object(output: Path):
    run([cpp_compiler("an object cannot be written"), "-x", "c++", "-c", "/dev/null", "-o", str(output)])


def write_archive(objects: Sequence[Path], output: Path):
    """A static library."""
    if shutil.which("ar") is None:
        raise MissingToolError("ar was not found, which writes a static library")
    with replacing(output) as temporary:
        Path(temporary).unlink()
        run(["ar", "qcs", temporary, *map(str, objects)])


def _rename(source: Path, output: Path, names: Iterable[str]):
    run([_objcopy(), *(f"--redefine-sym={name}" for name in names), str(source), str(output)])


def _objcopy() -> str | None:
    return shutil.which("objcopy")
