"""What this machine has, what it lacks, which part of fgn needs that, and the command that fixes it."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable

import pandas as pd
import torch

from cudasim.building.compilers import MissingToolError, find_c_compiler, find_cpp_compiler
from cudasim.building.library import Library
from cudasim.building.lines import find_addr2line
from cudasim.building.places import build_folder, is_writable
from cudasim.building.toolchains import find_nvcc
from fgn.native.library import COUNTED_SIMULATOR, GPU, SIMULATOR
from fgn.profiling.ncu import find_ncu

GOOD, MISSING, BROKEN = "good", "missing", "broken"


def _library(library: Library, needed_for: str, option: str = "") -> tuple[str, str, str]:
    if path := library.find():
        return GOOD, str(path), ""
    try:
        library.toolchain()
    except MissingToolError as error:
        return MISSING, f"{needed_for}: {error}", ""
    return MISSING, f"{needed_for}; it is built when it is first needed", f"python -m fgn build{option}"


def _tool(path: str | None, needed_for: str, command: str) -> tuple[str, str, str]:
    return (GOOD, path, "") if path else (MISSING, needed_for, command)


def _compiler(find: Callable[[], str | None], language: str, header: str, needed_for: str, command: str):
    """A compiler counts as good if it compiles a file that includes a header of its library."""
    try:
        path = find()
    except MissingToolError as error:
        return BROKEN, str(error), command
    if not path:
        return MISSING, needed_for, command
    call = [path, "-x", language, "-fsyntax-only", "-"]
    try:
        done = subprocess.run(call, input=f"#include <{header}>\n", capture_output=True, text=True)
    except OSError as error:
        return BROKEN, f"{path}: {error}", command
    if done.returncode != 0:
        said = next(iter(done.stderr.splitlines()), f"exit status {done.returncode}")
        return BROKEN, f"{path} compiles nothing: {said}", command
    return GOOD, path, ""


def _module(name: str, needed_for: str, command: str) -> tuple[str, str, str]:
    found = importlib.util.find_spec(name) is not None
    return (GOOD, name, "") if found else (MISSING, needed_for, command)


def _gpu() -> tuple[str, str, str]:
    if not torch.cuda.is_available():
        return MISSING, "CUDA tensors; CPU tensors run on the simulator", ""
    gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
    if (gpu.major, gpu.minor) < (7, 5):
        return BROKEN, f"{gpu.name} is of compute capability {gpu.major}.{gpu.minor}; 7.5 is needed", ""
    return GOOD, f"{gpu.name}, compute capability {gpu.major}.{gpu.minor}", ""


def _folder() -> tuple[str, str, str]:
    folder = build_folder()
    if not is_writable(folder):
        return BROKEN, f"{folder} cannot be written to", "export FGN_CACHE=/a/folder/of/yours"
    free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free
    if free < 1 << 28:
        return BROKEN, f"{folder} has {free >> 20} MB left", "python -m fgn clean"
    return GOOD, f"{folder}, {free >> 30} GB left", ""


def _temporary_folder() -> tuple[str, str, str]:
    try:
        return GOOD, tempfile.gettempdir(), ""
    except OSError:
        return BROKEN, "there is none; plots, torch.compile and compilers need one", "export TMPDIR=/a/folder"


def examine() -> pd.DataFrame:
    """A row for each thing that fgn uses: what, state ("good", "missing", "broken"), detail, and the command
    that fixes it, if there is one. "missing" is something that only a part of fgn needs."""
    has_gpu = torch.cuda.is_available()
    rows = {
        "Python": (GOOD, platform.python_version(), ""),
        "torch": (GOOD, torch.__version__, ""),
        "GPU": _gpu(),
        "C compiler": _compiler(
            find_c_compiler, "c", "stdio.h", "needed to build the simulator", "apt install gcc libc6-dev"
        ),
        "C++ compiler": _compiler(
            find_cpp_compiler,
            "c++",
            "type_traits",
            "needed for kernels of your own on the simulator",
            "apt install g++",
        ),
        "addr2line": _tool(
            find_addr2line(),
            "needed for the source lines of kernels that are compiled here",
            "apt install binutils",
        ),
        "nvcc": _tool(
            find_nvcc(),
            "needed for the GPU library" if has_gpu else "needed on a machine with a GPU",
            "install the CUDA toolkit, or set CUDA_HOME",
        ),
        "ncu": _tool(find_ncu(), "needed to profile on a GPU; recorded profiles are there", ""),
        "ncu_report": _module("ncu_report", "needed to read ncu's reports", "pip install 'fgn[profile]'"),
        "JupyterLab": _module("jupyterlab", "needed for the notebooks", "pip install 'fgn[notebooks]'"),
        SIMULATOR.title: _library(SIMULATOR, "CPU tensors need it"),
        COUNTED_SIMULATOR.title: _library(COUNTED_SIMULATOR, "fgn.count and fgn.check need it", " --counted"),
        GPU.title: _library(GPU, "CUDA tensors need it", " --gpu"),
        "build folder": _folder(),
        "temporary folder": _temporary_folder(),
    }
    columns = ["state", "detail", "mend"]
    frame = pd.DataFrame(rows.values(), columns=columns)
    frame.insert(0, "what", list(rows))
    return frame
