"""Stall samples by ncu, from a launch here or from a report. `cudasim.source_page(..., samples=...)` shows
them beside the source.

ncu's section SourceCounters samples the warps every few thousand clocks and notes each one's instruction and
why it does not issue. nvcc provides the lines with -lineinfo.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd

from cudasim.live.kernels import BoundLaunch, Kernel
from cudasim.predicting import samples as kept
from cudasim.predicting.samples import Samples
from fgn.measure.records import PROFILES
from fgn.profiling import ncu

SECTION = "SourceCounters"
_ADDRESS = re.compile(r"\b0x[0-9a-f]{11,}\b")
_SAMPLES, _REASON, _REST = "smsp__pcsamp_sample_count", "smsp__pcsamp_warps_issue_stalled_", "_not_issued"


def _by_address(action, name: str) -> dict[int, int]:
    """A metric's counts at each instruction."""
    metric = action.metric_by_name(name)
    places = metric.correlation_ids()
    return {int(places.value(at)): int(metric.value(at)) for at in range(metric.num_instances())}


def _samples_of(action) -> Samples | None:
    """The samples of one launch of a report, or None."""
    names = list(action.metric_names())
    if _SAMPLES not in names or not (counts := _by_address(action, _SAMPLES)):
        return None
    reasons = {
        name.removeprefix(_REASON).replace("_", " "): _by_address(action, name)
        for name in names
        if name.startswith(_REASON) and not name.endswith(_REST)
    }
    first, rows = min(counts), []
    for address, count in sorted(counts.items()):
        place = action.source_info(address)
        file, line = (place.file_name().rpartition("/")[2], place.line()) if place else ("", 0)
        waits = {name: of.get(address, 0) for name, of in reasons.items()}
        # A branch has an absolute address of where the code happened to be.
        sass = _ADDRESS.sub(
            lambda found: f"{int(found[0], 16) - first:#x}", " ".join(action.sass_by_pc(address).split())
        )
        rows.append(
            {"address": address - first, "file": file, "line": line, "sass": sass, "samples": count, **waits}
        )
    frame = pd.DataFrame(rows)
    texts = {path.rpartition("/")[2]: text for path, text in dict(action.source_files()).items()}
    # A kernel's own file is that of its first instruction; helpers of other files are inlined later.
    file = next((row["file"] for row in rows if row["file"]), "")
    gpu = action.metric_by_name("device__attribute_display_name")
    return Samples(action.name(), gpu.as_string() if gpu else "a GPU", file, texts.get(file, ""), frame)


def read_samples(file: Path | str) -> list[Samples]:
    """The samples of each launch in a report of ncu's (.ncu-rep, .ncu-rep.xz), or those that `Samples.save()`
    wrote (.json). ValueError for a report without the section SourceCounters.
    """
    if not Path(file).is_file():
        raise FileNotFoundError(f"file: expected a report of ncu's or samples in JSON, got {file}")
    if Path(file).suffix == ".json":
        return [kept.load(file)]
    found = [each for each in ncu.of_actions(Path(file), _samples_of) if each is not None]
    if not found:
        raise ValueError(f"file: {file} has no stall samples: profile with --section {SECTION}")
    return found


def recorded_samples(kernel: Kernel) -> Samples | None:
    """The samples in `profiles/` for exactly this text, or None."""
    files = sorted(PROFILES.glob(f"*/samples/{kernel.name}.json"))
    return next((found for file in files if not (found := kept.load(file)).not_of(kernel)), None)


def profile_launch(
    launch: BoundLaunch, *arguments, metrics=(), sections=(SECTION,), report: Path | str | None = None
) -> tuple[pd.DataFrame, Samples | None]:
    """Launches a kernel under ncu on this machine's GPU, once for both: its rows with these metrics, and its
    samples, or None without their section. The rest is as for `take_samples()`."""
    from fgn.profiling.collect import collect, require_gpu
    from fgn.profiling.target import Task

    require_gpu()
    file = Path(report) if report is not None else ncu.temporary_report()
    try:
        task = Task(call=lambda: launch(*arguments))
        rows = collect([task], metrics, file, progress=False, sections=sections)
        found = read_samples(file) if SECTION in sections else []
    finally:
        if report is None:
            ncu.discard(file)
    own = [each for each in found if each.file == launch.kernel.file] or found
    return rows, replace(own[0], file=launch.kernel.file, source=launch.kernel.source) if own else None


def take_samples(launch: BoundLaunch, *arguments, report: Path | str | None = None) -> Samples:
    """Launches a kernel under ncu on this machine's GPU, and returns its samples.

    launch, arguments: as for `cudasim.predict()`, with tensors on the GPU. report: a file for ncu's report.
    ProfilerError, in one line, without a GPU, without ncu, or without permission to read the counters.
    """
    return profile_launch(launch, *arguments, report=report)[1]
