"""Compilers with their flags: the C compiler for the simulator in its builds, nvcc for GPUs."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from cudasim.building.compilers import (
    MissingToolError,
    command_output,
    find_c_compiler,
    macros_of,
    spelled_for,
)
from cudasim.building.places import MAPPED

C_WARNINGS = ("-Wall", "-Wextra", "-Wno-unknown-pragmas")
# A kernel's local arrays are on a stack whose guard page no large array may step over. nvcc contracts a * b +
# c and lets floats be read as a float4; the C compiler gets flags for the same. Only the lines of the
# debugging information are read. Places of variables would take gcc up to half of a build's time, so it
# follows them only to their assignments, on which its lines depend. Some distributions' compilers replace
# printf(), memcpy() and others by functions of other names, which the simulator does not know.
WITHOUT_FORTIFYING = "-U_FORTIFY_SOURCE"
C_FLAGS = (
    WITHOUT_FORTIFYING,
    "-O2",
    "-g",
    "-fvar-tracking-assignments",
    "-fno-var-tracking",
    "-fPIC",
    "-pthread",
    "-ffp-contract=fast",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fstack-clash-protection",
    *C_WARNINGS,
)
# With these flags a kernel calls the counted simulator before every memory access, at every branch, and when
# an index leaves its array. A GPU moves a float4 at once, so the compiler must not take structs apart. The
# simulator finds where the branches and loops of a kernel join again by the order of its instructions, so the
# compiler must keep the source's order. Nor may it end several branches by one store, whose line is that of
# one of them: which ones it joins depends on the processor, and predictions read the lines. Between these
# calls gcc no longer sees that a loop sets every element, and the plain simulator's build warns where one is
# not set.
COUNTED_KERNEL_FLAGS = (
    "-Wno-maybe-uninitialized",
    "-fsanitize=thread,bounds",
    "--param=tsan-distinguish-volatile=1",
    "--param=tsan-instrument-func-entry-exit=0",
    "-fsanitize-coverage=trace-pc",
    "-fno-tree-sra",
    "-fno-reorder-blocks",
    "-fno-reorder-blocks-and-partition",
    "-fno-toplevel-reorder",
    "-fno-crossjumping",
)
# A kernel that is checked and not counted has this flag too, which finds a pointer that leaves a local array.
# It keeps the compiler from merging two equal loads, as a GPU's compiler does, so a counted kernel does not
# have it. By the macro such a kernel asks for no check of what it reads of its own index (sim/calls.h).
ONLY_CHECKED_FLAGS = ("-fsanitize=object-size", "-DSIM_IS_ONLY_CHECKED")
# Every access of a kernel reads a thread-local variable by a call, which is direct without a procedure
# linkage table. Functions are aligned to cache lines; otherwise those that every access calls get some
# percent slower after a change anywhere before them.
COUNTED_OTHER_FLAGS = ("-DSIM_COUNTED", "-fno-plt", "-falign-functions=64")
# CUDASIM_C_FLAGS="-march=x86-64-v2 -ffp-contract=off" computes like another processor.
CHOSEN_C_FLAGS = tuple(os.environ.get("CUDASIM_C_FLAGS", "").split())
# AddressSanitizer checks every access itself. The three omitted checks examine the pointer again, and kernels
# of many unrolled accesses would compile several times as long.
SANITIZER_FLAGS = (
    "-O1",
    "-fsanitize=address,undefined",
    "-fno-sanitize=null,object-size,pointer-overflow",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
)
# For results that are found without knowing the compiler.
ALL_FLAGS = (
    *(*C_FLAGS, *COUNTED_KERNEL_FLAGS, *ONLY_CHECKED_FLAGS, *COUNTED_OTHER_FLAGS, *CHOSEN_C_FLAGS),
    *SANITIZER_FLAGS,
)

# FGN_NVCC_FLAGS="-Ofc max --compress-mode=none" compiles in a fifth of the time, to check only that the
# kernels compile.
NVCC_FLAGS = (
    *os.environ.get("FGN_NVCC_FLAGS", "").split(),
    "-O3",
    "-std=c++17",
    "-lineinfo",
    "-Xcompiler=-fPIC,-Wall,-Wextra,-Wno-unknown-pragmas",
)


@dataclass(frozen=True)
class Toolchain:
    """A compiler and its flags.

    flags: for a kernel file (`.cu`); other_flags: for any other source; link_flags: for the library.
    identity: what else decides the output: the compiler's version and the processor it builds for.
    soname_flag: names the library for the loader; "" for a library that no other one needs.
    """

    compiler: str
    flags: tuple[str, ...]
    other_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    identity: str
    soname_flag: str = ""

    def flags_for(self, source: Path) -> tuple[str, ...]:
        return spelled_for(self.compiler, self.flags if source.suffix == ".cu" else self.other_flags)


def _wheel_folders() -> list[str]:
    """Where the wheels of NVIDIA's tools put them: nvidia-cuda-nvcc, nvidia-cuda-nvdisasm and others."""
    found = importlib.util.find_spec("nvidia")
    places = found.submodule_search_locations if found else ()
    return [str(folder) for place in places or () for folder in Path(place).glob("cu*/bin")]


def find_cuda_tool(name: str) -> str | None:
    """Finds a tool of CUDA's toolkit in $CUDA_HOME, in PATH, in /usr/local/cuda or in a wheel."""
    cuda_home = os.environ.get("CUDA_HOME")
    folders = (*((f"{cuda_home}/bin",) if cuda_home else ()), "", "/usr/local/cuda/bin", *_wheel_folders())
    return next((path for folder in folders if (path := shutil.which(os.path.join(folder, name)))), None)


def find_nvcc() -> str | None:
    return find_cuda_tool("nvcc")


def c_toolchain(
    extra_flags: tuple[str, ...] = (),
    kernel_flags: tuple[str, ...] = (),
    other_flags: tuple[str, ...] = (),
) -> Toolchain:
    compiler = find_c_compiler()
    if compiler is None:
        raise MissingToolError(
            "no C compiler was found ($CC, cc, gcc, clang), so kernels have no simulator to run on; "
            "recorded results and, with nvcc and a GPU, arrays on the GPU still work"
        )
    # The library is built where it runs, so it may use this processor's own instructions. The macros that the
    # compiler predefines name its version and all that it knows about the processor. A wheel's simulator is
    # for every processor of its kind, and its sources are where the wheel puts them.
    for_wheel = os.environ.get("CUDASIM_BUILDS_WHEEL") == "1"
    natives = ((),) if for_wheel else (("-march=native",), ("-mcpu=native",), ())
    for native in natives:
        macros = macros_of(compiler, *native)
        if macros is not None:
            break
    mapped = tuple(f"-ffile-prefix-map={folder}={name}" for name, folder in MAPPED.items() if for_wheel)
    flags = (*C_FLAGS, *native, *CHOSEN_C_FLAGS, *mapped, *extra_flags)
    return Toolchain(
        compiler=compiler,
        flags=("-x", "c", "-std=gnu11", *flags, *kernel_flags),
        other_flags=("-std=gnu11", *flags, *other_flags),
        # The simulator has functions with CUDA's names. Its kernels must call these functions, and not CUDA's
        # own, which torch may have loaded before.
        link_flags=("-shared", "-pthread", "-Wl,-Bsymbolic-functions", *extra_flags, "-lm"),
        identity=macros or "",
        soname_flag="-Wl,-soname,",
    )


def nvcc_toolchain(architectures: tuple[str, ...] = ()) -> Toolchain:
    """nvcc with its flags. architectures: those of its machine code, as -gencode names them."""
    nvcc = find_nvcc()
    if nvcc is None:
        raise MissingToolError(
            "nvcc was not found ($CUDA_HOME, PATH, /usr/local/cuda), so nothing can run on the GPU; "
            "what is on the CPU runs on the simulator"
        )
    identity = command_output([nvcc, "--version"]) or ""
    release = re.search(r"release (\d+)", identity)
    # This compresses machine code to a sixth. Drivers before 12.4 cannot read it, but every driver for CUDA
    # 13 can. --split-compile is not used: with it nvcc 13.0 keeps the sums of a tile in local memory
    # (tests/fgn/test_gpu.py).
    is_new = release is not None and int(release.group(1)) >= 13
    compresses = is_new and not any(flag.startswith("--compress-mode") for flag in NVCC_FLAGS)
    flags = (*architectures, *NVCC_FLAGS, *(("--compress-mode=size",) if compresses else ()))
    return Toolchain(
        compiler=nvcc,
        flags=flags,
        other_flags=flags,
        link_flags=("-shared",),
        identity=identity,
    )
