"""The C library as other programs use it: header, shared and static libraries, pkg-config and CMake files.

    PREFIX/include/fgn.h, fgn_jit.h, fgn_graphs.h
    PREFIX/lib/libfgn_sim.so, libfgn_sim.a       the CPU simulator
    PREFIX/lib/libfgn_cuda.so, libfgn_cuda.a     the GPU library, where nvcc is
    PREFIX/lib/pkgconfig/fgn-sim.pc, fgn-cuda.pc
    PREFIX/lib/cmake/fgn/fgn-config.cmake        the targets fgn::sim and fgn::cuda
    PREFIX/lib/cmake/fgn/fgn-config-version.cmake

The libraries that Python loads also export the simulator's functions, some with CUDA's names. The installed
libraries export only the functions of these headers, so one process can load CUDA beside them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import fgn
from cudasim.building.compilers import MissingToolError
from cudasim.building.library import Library, run
from cudasim.building.toolchains import find_nvcc
from fgn.native.library import GPU, PUBLIC_HEADERS, SIMULATOR, for_device

EXPORTED = "fgn_*"
# Libraries that a program links beside a static library.
SYSTEM_LIBRARIES = {SIMULATOR: "-lm -lpthread", GPU: "-lcudart -lstdc++ -lm -lpthread"}
CMAKE_TARGETS = {SIMULATOR: "sim", GPU: "cuda"}

PKG_CONFIG = """prefix={prefix}
libdir=${{prefix}}/lib
includedir=${{prefix}}/include

Name: {name}
Description: {description}
Version: {version}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -l{library}
Libs.private: {system}
"""

CMAKE = """# find_package(fgn) defines fgn::sim (the CPU simulator) and, where it was installed, fgn::cuda.
get_filename_component(_fgn_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
foreach(_fgn_target sim cuda)
  set(_fgn_library "${_fgn_prefix}/lib/libfgn_${_fgn_target}.so")
  if(EXISTS "${_fgn_library}" AND NOT TARGET fgn::${_fgn_target})
    add_library(fgn::${_fgn_target} SHARED IMPORTED)
    set_target_properties(fgn::${_fgn_target} PROPERTIES
      IMPORTED_LOCATION "${_fgn_library}" IMPORTED_NO_SONAME TRUE
      INTERFACE_INCLUDE_DIRECTORIES "${_fgn_prefix}/include")
  endif()
endforeach()
"""

# A later version of the library has all functions of an earlier one.
CMAKE_VERSION = f"""set(PACKAGE_VERSION {fgn.__version__})
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
"""


def _shared(library: Library, objects: list[Path], to: Path, folder: Path):
    script = folder / "exported"
    script.write_text(f"{{ global: {EXPORTED}; local: *; }};\n")
    toolchain = library.toolchain()
    options = (f"--version-script={script}", f"-soname={to.name}")
    for_linker = [f"-Xlinker={o}" if library is GPU else f"-Wl,{o}" for o in options]
    run([toolchain.compiler, *map(str, objects), "-o", str(to), *toolchain.link_flags, *for_linker])


def _static(objects: list[Path], to: Path, folder: Path):
    whole = folder / "fgn.o"
    run(["ld", "-r", "-o", str(whole), *map(str, objects)])
    run(["objcopy", "--wildcard", f"--keep-global-symbol={EXPORTED}", str(whole)])
    to.unlink(missing_ok=True)
    run(["ar", "rcs", str(to), str(whole)])


def install(prefix: Path, device: str | None = None) -> list[Path]:
    """Installs the C library below `prefix`: the simulator, and the GPU library if there is nvcc.

    device: "cpu" or "cuda" for one of the two.

    Returns the files that it wrote. MissingToolError without a C compiler or binutils; BuildError if
    something does not compile or the folder has no room; OSError if the folder is not writable.
    """
    for tool in ("ld", "objcopy", "ar"):
        if shutil.which(tool) is None:
            raise MissingToolError(f"{tool} was not found: binutils has it, and make install needs it")
    prefix = prefix.expanduser().absolute()
    libraries = [SIMULATOR, *([GPU] if find_nvcc() else [])]
    if device is not None:
        libraries = [for_device(device)]
    for part in ("include", "lib/pkgconfig", "lib/cmake/fgn"):
        (prefix / part).mkdir(parents=True, exist_ok=True)
    for_cmake = prefix / "lib" / "cmake" / "fgn"
    written = [prefix / "include" / header.name for header in PUBLIC_HEADERS]
    for header, to in zip(PUBLIC_HEADERS, written, strict=True):
        shutil.copyfile(header, to)
    for name, text in (("fgn-config.cmake", CMAKE), ("fgn-config-version.cmake", CMAKE_VERSION)):
        written.append(for_cmake / name)
        written[-1].write_text(text)
    for library in libraries:
        with tempfile.TemporaryDirectory() as temporary:
            # One file for the simulator with the kernels, so that it needs no other library.
            parts = (*library.needs, library)
            objects = [object for part in parts for object in part.objects()]
            shared, static = (prefix / "lib" / f"lib{library.name}{suffix}" for suffix in (".so", ".a"))
            _shared(library, objects, shared, Path(temporary))
            _static(objects, static, Path(temporary))
        name = f"fgn-{CMAKE_TARGETS[library]}"
        description = prefix / "lib" / "pkgconfig" / f"{name}.pc"
        description.write_text(
            PKG_CONFIG.format(
                prefix=str(prefix).replace(" ", "\\ "),
                name=name,
                description=f"GEMM, GroupNorm, activation chains: the {library.title}",
                version=fgn.__version__,
                library=library.name,
                system=SYSTEM_LIBRARIES[library],
            )
        )
        written += [shared, static, description]
    return written
