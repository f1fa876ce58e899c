"""Faults of kernels, as exceptions and in words."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path

from cudasim.building.library import ffi
from cudasim.building.places import PACKAGES
from cudasim.counting.places import (
    by_callers,
    callers_of,
    is_of_library,
    place_of,
    source_file,
    string_of,
    triple,
)
from cudasim.source import launched_sources


class KernelFault(RuntimeError):
    """A kernel did what no kernel may do. The message describes it; programs read the attributes.

    kind: "out of bounds", "misaligned", "uninitialised" (shared memory), "unwritten" (global memory that
    `check()` was given as unwritten), "race", "race between blocks", "barrier divergence", "missing lane",
    "lane not in mask", "shuffle width", "invalid launch", "out of memory", "interrupted", "assertion",
    "trap", "undefined arithmetic" (a conversion to an integer that cannot hold the value, a shift by too
    many bits) or "crash" (the processor refused an access, or a division by zero); of Hopper's machine
    "deadlock", "mbarrier misuse", "block has exited", "race for a stage", "missing proxy fence",
    "missing register fence", "sums not waited for" or "wrong layout".
    kernel: its name. file, line: where it happened. block, thread: the thread, as (x, y, z). index: in
    elements of the argument or array. other_thread, other_block, other_file, other_line: the same for a
    second thread. An attribute that does not apply is None.
    """

    def __init__(self, message: str, **fields):
        super().__init__(message)
        self.kind: str = fields["kind"]
        self.kernel: str = fields["kernel"]
        self.file: str | None = fields.get("file")
        self.line: int | None = fields.get("line")
        self.block: tuple[int, int, int] | None = fields.get("block")
        self.thread: tuple[int, int, int] | None = fields.get("thread")
        self.index: int | None = fields.get("index")
        self.other_file: str | None = fields.get("other_file")
        self.other_line: int | None = fields.get("other_line")
        self.other_block: tuple[int, int, int] | None = fields.get("other_block")
        self.other_thread: tuple[int, int, int] | None = fields.get("other_thread")

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the fault and the kernel's lines, without Python's calls."""
        places = [(self.file, self.line), (self.other_file, self.other_line)]
        shown = [f"\033[1;31mKernelFault\033[0m: {self}"]
        for file in dict.fromkeys(file for file, line in places if file and line):
            marked = {line for of, line in places if of == file and line}
            shown += ["", f"{file}:", *_excerpt(file, marked)]
        return shown


def _source_of(file: str) -> str:
    """Of a cell or of a file; "" where there is none."""
    path = Path(file)
    return launched_sources.get(file) or (path.read_text(errors="replace") if path.is_file() else "")


def _excerpt(file: str, marked: set[int]) -> list[str]:
    """The marked lines of a source, each with two lines around it; [] if there is no such text."""
    lines = _source_of(file).splitlines()
    near = sorted({n for line in marked for n in range(line - 2, line + 3) if 0 < n <= len(lines)})
    shown = []
    for before, number in zip([None, *near], near, strict=False):
        if before is not None and number > before + 1:
            shown.append("      ...")
        arrow = "\033[1;31m->\033[0m" if number in marked else "  "
        shown.append(f"{arrow} {number:>4}  {lines[number - 1]}")
    return shown


KINDS = {
    "SIM_INVALID_LAUNCH": "invalid launch",
    "SIM_BARRIER_DIVERGENCE": "barrier divergence",
    "SIM_MISSING_LANE": "missing lane",
    "SIM_LANE_NOT_IN_MASK": "lane not in mask",
    "SIM_SHUFFLE_WIDTH": "shuffle width",
    "SIM_MISALIGNED": "misaligned",
    "SIM_OUT_OF_MEMORY": "out of memory",
    "SIM_INTERRUPTED": "interrupted",
    "SIM_OUT_OF_BOUNDS": "out of bounds",
    "SIM_UNINITIALISED": "uninitialised",
    "SIM_RACE": "race",
    "SIM_BLOCK_RACE": "race between blocks",
    "SIM_ASSERTION": "assertion",
    "SIM_TRAP": "trap",
    "SIM_SHUFFLE_SOURCE": "shuffle source",
    "SIM_CRASH": "crash",
    "SIM_UNDEFINED": "undefined arithmetic",
    "SIM_DEADLOCK": "deadlock",
    "SIM_MBARRIER_MISUSE": "mbarrier misuse",
    "SIM_WRONG_LAYOUT": "wrong layout",
    "SIM_BLOCK_HAS_EXITED": "block has exited",
    "SIM_STAGE_RACE": "race for a stage",
    "SIM_NO_PROXY_FENCE": "missing proxy fence",
    "SIM_PENDING_SUMS": "sums not waited for",
    "SIM_NO_REGISTER_FENCE": "missing register fence",
    "SIM_UNWRITTEN": "unwritten",
}


class KernelWarning(UserWarning):
    """Unordered threads of a kernel write the same value to the same place: the result is right, by chance or
    by design."""


def located(library, report, message: str, kernel: str) -> str:
    """The message, with the source lines of the accesses that it names."""
    if report.pc:
        message = message.replace(f"in {kernel}:", f"in {kernel} ({place_of(library, report.pc)}):", 1)
    told, _, advice = message.partition("\n")
    told += f" at {place_of(library, report.other_pc)}" if report.other_pc else ""
    return f"{told}. {advice}" if advice else told


def callers_level() -> int:
    """The stacklevel that puts a warning at the line that called this package, or a package built on it."""
    frame, level = sys._getframe(1), 1
    inside = (*map(str, PACKAGES), contextlib.__file__)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    return level


def warn(library):
    for index in range(library.counted_warning_count()):
        report = library.counted_warning_at(index)
        message = located(library, report, string_of(report.message), string_of(report.kernel))
        warnings.warn(message, KernelWarning, stacklevel=callers_level())


def fault_of(library) -> KernelFault | None:
    """Why the simulator's last launch on this OS thread failed; None if it succeeded, or on a GPU.

    library: what `Library.load()` returned.
    """
    try:
        report = library.sim_last_report()
    except AttributeError:
        return None
    if report.kind == library.SIM_NO_REPORT:
        return None
    message, kernel = string_of(report.message), string_of(report.kernel)
    fields = {
        "kind": next(kind for name, kind in KINDS.items() if getattr(library, name) == report.kind),
        "kernel": kernel,
        "file": source_file(string_of(report.file)),
        "line": report.line or None,
    }
    if report.has_thread:
        fields |= {"block": triple(report.block), "thread": triple(report.thread)}
    if report.has_index:
        fields["index"] = report.index
    if report.has_other:
        fields |= {
            "other_thread": triple(report.other),
            "other_block": triple(report.block),
            "other_file": source_file(string_of(report.other_file)),
            "other_line": report.other_line or None,
        }
    if report.pc:
        place = place_of(library, report.pc)
        fields |= {"file": place.file, "line": place.line}
    if report.other_pc:
        place = place_of(library, report.other_pc)
        fields |= {"other_file": place.file, "other_line": place.line}
        fields["other_block"] = triple(report.other_block)
    told = located(library, report, message, kernel)
    at = report.pc or int(ffi().cast("uintptr_t", report.file))
    if made := string_of(library.sim_library_of(at, ffi().new("unsigned long long *"))):
        told = by_callers(told, Path(made))
        for file, line in (("file", "line"), ("other_file", "other_line")):
            if is_of_library(fields.get(file) or ""):
                for place in callers_of(fields[file], fields[line], Path(made))[:1]:
                    fields |= {file: place.file, line: place.line}
    from cudasim.live.translation import with_own_name  # its parser is not waited for without a fault

    return KernelFault(with_own_name(told, _source_of(fields["file"] or "")), **fields)
