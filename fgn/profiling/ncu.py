"""Nsight Compute: find it, run a program under it, read its reports.

Collection needs ncu and a GPU. Reading needs neither: NVIDIA's package ncu-report (PyPI) reads the files that
ncu 2025.3 and later write, and the numbers of the DataFrame are the report's own, in base units (bytes,
nanoseconds, Hz).
"""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import lzma
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pandas as pd

from cudasim.building.compilers import command_output
from fgn.native.places import ROOT

# Only launches inside this NVTX range are profiled. The range inside it is the task's number.
RANGE = "fgn"

# Recorded reports are kept compressed, which takes a tenth of the bytes.
COMPRESSED = ".xz"

PERMISSION_FIX = (
    "this user may not read the GPU's counters: run as root, or load the driver with "
    "NVreg_RestrictProfilingToAdminUsers=0 (RmProfilingAdminOnly: 0 in /proc/driver/nvidia/params)"
)
ERRORS = {
    "ERR_NVGPUCTRPERM": PERMISSION_FIX,
    "LibraryNotLoaded": "ncu could not load the driver's profiling library: in a container, pass the GPU "
    "with all driver capabilities (NVIDIA_DRIVER_CAPABILITIES=all); some sandboxes have no counters at all",
    "No kernels were profiled": "the call launched nothing on the GPU",
}


NOT_FOUND = (
    "ncu was not found (PATH, $CUDA_HOME, /opt/nvidia): install Nsight Compute, a part of the CUDA toolkit"
)


class ProfilerError(RuntimeError):
    """ncu is missing, may not run here, or failed. The message is one line, with the remedy."""


def find_ncu() -> str | None:
    """ncu in PATH, in $CUDA_HOME, in /usr/local/cuda, or the newest Nsight Compute below /opt/nvidia."""
    cuda_home = os.environ.get("CUDA_HOME")
    installed = sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"))
    candidates = ("ncu", cuda_home and f"{cuda_home}/bin/ncu", "/usr/local/cuda/bin/ncu", *installed[::-1])
    return next((path for name in candidates if name and (path := shutil.which(str(name)))), None)


def _required_ncu() -> str:
    ncu = find_ncu()
    if ncu is None:
        raise ProfilerError(NOT_FOUND)
    return ncu


def version() -> str | None:
    """The version of this machine's ncu."""
    ncu = find_ncu()
    return (command_output([ncu, "--version"]) or "").strip().rpartition("\n")[2] or None if ncu else None


@functools.cache
def _metrics_of_gpu(ncu: str) -> frozenset[str]:
    """The base names of this GPU's hardware metrics; empty if ncu does not list them."""
    result = subprocess.run([ncu, "--query-metrics", "--csv"], capture_output=True, text=True)
    rows = csv.reader(line for line in io.StringIO(result.stdout) if not line.startswith("=="))
    return frozenset(row[0] for row in rows if len(row) > 1 and "__" in row[0])


def available(metrics: Iterable[str], ncu: str | None = None) -> list[str]:
    """This GPU's metrics, and all metrics that ncu derives itself."""
    known = _metrics_of_gpu(ncu or _required_ncu())
    derived = re.compile(r"launch__|smsp__average|sm__maximum|smsp__maximum|group:|regex:|breakdown:")
    return [name for name in metrics if not known or derived.match(name) or name.partition(".")[0] in known]


def run(
    command: list[str],
    report: Path,
    metrics: Iterable[str] = (),
    sections: Iterable[str] = (),
    cache_control: str = "all",
    clock_control: str = "none",
    on_launch: Callable[[], object] = lambda: None,
):
    """Runs a program under ncu, which profiles the program's launches inside the NVTX range `RANGE`.

    report: the file to write, ending in .ncu-rep. metrics: names; those that the GPU lacks are left out.
    sections: names of ncu's own sections, for the Nsight Compute GUI; "SourceCounters" brings the kernels'
    source. cache_control: "all" flushes the caches before every pass over a launch, ncu's default, so that a
    launch's numbers do not depend on earlier launches; "none" does not. on_launch: a function that is called
    for each profiled launch. ProfilerError if ncu cannot profile.
    """
    ncu = _required_ncu()
    metrics = available(metrics, ncu)
    options = ["--target-processes", "application-only", "--nvtx", "--nvtx-include", f"{RANGE}/"]
    options += ["--clock-control", clock_control, "--cache-control", cache_control]
    options += ["--metrics", ",".join(metrics)] if metrics else []
    for section in sections:
        options += ["--section", section]
    options += ["--import-source", "yes"] if "SourceCounters" in sections else []
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        # ncu watches only the process that it started, so torch.compile has to compile in that process.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # Launches are described by the names of the library's own kernels, one by one.
        "FGN_JIT": "0",
        "FGN_GRAPHS": "0",
    }
    lines = []
    with subprocess.Popen(
        [ncu, *options, "--force-overwrite", "--export", str(report), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    ) as process:
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith("==PROF== Profiling"):
                on_launch()
    if process.returncode != 0 or not report.exists():
        raise ProfilerError(explain("\n".join(lines)))


def explain(output: str) -> str:
    """The failure in one line, from the output of ncu and the program."""
    for sign, meaning in ERRORS.items():
        if sign in output:
            return f"ncu: {meaning}"
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "Error:" in line or line.startswith("==ERROR==")]
    return f"ncu failed: {(errors or lines or ['it printed nothing'])[0].strip()}"


# ------------------------------------------------------------------------------------------------------------
# Reading reports


def _value(metric):
    """The metric's value, a number or a text; None for a metric with values for instructions only."""
    value = metric.value()
    return value if value is None or isinstance(value, str | float) else int(value)


def _ranges(action) -> list[str]:
    """The NVTX ranges around a launch, from the outermost."""
    state = action.nvtx_state()
    names = []
    if state is not None:
        for domain in state.domains():
            names += state.domain_by_id(domain).push_pop_ranges()
    return list(names)


def compress(report: Path) -> Path:
    """Replaces a report by a compressed file, which it returns."""
    compressed = report.with_name(report.name + COMPRESSED)
    compressed.write_bytes(lzma.compress(report.read_bytes(), preset=9))
    report.unlink()
    return compressed


@contextlib.contextmanager
def _uncompressed(report: Path) -> Iterator[Path]:
    """The file itself, or its contents in a file that exists during the context."""
    if report.suffix != COMPRESSED:
        yield report
        return
    file = temporary_report()
    try:
        file.write_bytes(lzma.decompress(report.read_bytes()))
        yield file
    finally:
        discard(file)


def read_report(report: Path | str) -> pd.DataFrame:
    """A row for each launch in a report, in order: kernel (its function's name), ranges (the NVTX ranges
    around it, from the outermost), grid, block, and each of the report's metrics under ncu's own name.

    report: as ncu wrote it, or compressed (.ncu-rep.xz). FileNotFoundError if there is no such file.
    """
    if not Path(report).is_file():
        raise FileNotFoundError(f"report: expected a file that ncu wrote, got {report}")
    return pd.DataFrame(of_actions(Path(report), _launch_of))


def of_actions(report: Path, what: Callable) -> list:
    """The results of a function for each launch of a report, in order."""
    import ncu_report

    with _uncompressed(report) as file:
        context = ncu_report.load_report(str(file))
        ranges = [context.range_by_idx(index) for index in range(context.num_ranges())]
        return [what(each.action_by_idx(number)) for each in ranges for number in range(each.num_actions())]


def _launch_of(action) -> dict:
    values = {name: _value(action.metric_by_name(name)) for name in action.metric_names()}
    return {
        "kernel": action.name(),
        "ranges": tuple(_ranges(action)),
        "grid": tuple(values.get(f"launch__grid_dim_{axis}") for axis in "xyz"),
        "block": tuple(values.get(f"launch__block_dim_{axis}") for axis in "xyz"),
        **values,
    }


def temporary_report() -> Path:
    """A new name for a report, in a new folder."""
    return Path(tempfile.mkdtemp(prefix="fgn-ncu-")) / "report.ncu-rep"


def discard(file: Path):
    """Removes the report of `temporary_report()` and its folder."""
    shutil.rmtree(file.parent)
