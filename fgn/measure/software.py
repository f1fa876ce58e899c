"""The compilers, the GPU and the software of this machine, for a reader and for records."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Callable

import pandas as pd
import torch

from cudasim.building.compilers import MissingToolError, command_output, find_c_compiler
from cudasim.building.library import Library
from cudasim.building.toolchains import find_nvcc
from fgn.native.library import GPU, SIMULATOR
from fgn.native.places import ROOT
from fgn.reference import ieee_float32

NVIDIA_SMI_FIELDS = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "clocks.max.mem",
    "power.limit",
)


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _last_line(text: str | None) -> str:
    return (text or "").strip().rpartition("\n")[2]


def _tool(path: str | None, version_of: Callable[[str | None], str]) -> str:
    return f"{path}, {version_of(command_output([path, '--version']))}" if path else "none"


def _library_state(library: Library) -> str:
    state = library.state()
    if state == "ready":
        return f"ready, {library.path}"
    try:
        library.toolchain()
    except MissingToolError as error:
        return f"{state}: {error}"
    return f"{state}: it will be built when it is first needed"


def _gpu_state() -> str:
    if not torch.cuda.is_available():
        return "none: CPU tensors run on the simulator, recorded results are there to plot"
    names = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return ", ".join(f"{gpu.name} (compute capability {gpu.major}.{gpu.minor})" for gpu in names)


def environment() -> pd.DataFrame:
    """A table of this machine: compilers, GPU, torch, and the state of the two libraries."""
    try:
        compiler = _tool(find_c_compiler(), _first_line)
    except MissingToolError as error:
        compiler = str(error)
    rows = {
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "GPU": _gpu_state(),
        "C compiler": compiler,
        "nvcc": _tool(find_nvcc(), _last_line),
        SIMULATOR.title: _library_state(SIMULATOR),
        GPU.title: _library_state(GPU),
    }
    return pd.DataFrame({"": rows.values()}, index=rows.keys())


def when_recorded() -> dict[str, str | None]:
    """Date and commit for a recording now: columns of a table, keys of a JSON file.

    "-dirty" after the commit: the files differed from it. The variable FGN_COMMIT overrides the commit: in a
    copy of the project without its history, and while tools/record.py writes one file after another. None if
    it is unknown.
    """
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40"]
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": os.environ.get("FGN_COMMIT") or _first_line(command_output(git)),
    }


def recorded_environment(device: torch.device) -> dict:
    """Date, commit, software, GPU and present clocks of a result that is recorded now, in a form for JSON."""
    with ieee_float32():
        matmul_precision = torch.backends.cuda.matmul.fp32_precision
    record = {
        **when_recorded(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "torch fp32 matmul precision": matmul_precision,
    }
    try:
        import triton

        record["triton"] = triton.__version__
    except ImportError:
        record["triton"] = None
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        record |= {
            "device": gpu.name,
            "compute capability": f"{gpu.major}.{gpu.minor}",
            "multiprocessors": gpu.multi_processor_count,
            "L2 bytes": gpu.L2_cache_size,
            "memory bytes": gpu.total_memory,
        }
        query = f"--query-gpu={','.join(NVIDIA_SMI_FIELDS)}"
        values = _first_line(
            command_output(["nvidia-smi", f"--id={device.index or 0}", query, "--format=csv,noheader"])
        )
        if values:
            record["nvidia-smi"] = dict(
                zip(NVIDIA_SMI_FIELDS, map(str.strip, values.split(",")), strict=True)
            )
    else:
        record["device"] = f"simulator on {platform.machine()}"
    return record
