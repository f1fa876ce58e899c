"""The player: what a block of a kernel does, step by step, drawn from a trace of the simulator.

    fgn.play(lambda: transpose[1, (32, 32)](x, y))
    fgn.play(lambda: in_chunks[1, 32](y, x), lambda: side_by_side[1, 32](y, x))

It shows the line that a warp executes, the sectors of global memory that its lanes ask for, the words of
shared memory in their banks, the values, including those of locals, and which warps wait. Two calls are
played side by side.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cudasim.building.library import BuildError
from cudasim.counting.faults import KernelFault
from cudasim.counting.trace import BARRIER_REACHED, MOST_EVENTS, REQUEST, Trace, record
from cudasim.source import launched_sources
from fgn.plot import player_parts as parts
from fgn.plot.player_parts import LEFT, MOST_WARPS, RIGHT
from fgn.plot.scene import Scene

GAP, COLUMN_GAP = 8, 24
MOST_CAPTION = 150  # letters
CAPTION_LETTERS = 76  # of a line above one column
LEAST_HEIGHT = 330
MOST_CODE_ROWS = 16  # where the code stands above the memory
DEFAULT_STEPS = 150


def _texts(trace: Trace) -> dict[str, list[str]]:
    files = {event.place.file for event in trace.events if event.place}
    if trace.fault is not None and trace.fault.file:
        files.add(trace.fault.file)
    found = {}
    for file in files:
        if file in launched_sources:
            found[file] = launched_sources[file].splitlines()
        elif Path(file).is_file():
            found[file] = Path(file).read_text().splitlines()
    return found


class _Panel:
    """One trace in a scene: the code beside the memory or, in a column, above it.

    height: its part of the scene. rows: of code, in a column.
    """

    def __init__(self, scene: Scene, trace: Trace, warp: int | None, x: float, rows: int | None):
        self.trace, self.rows = trace, rows
        self.warp = trace.fault_warp or 0 if warp is None else warp
        if not 0 <= self.warp < trace.warps:
            raise ValueError(f"warp: expected 0 to {trace.warps - 1}, got {warp}")
        shared = [array for array in trace.arrays if array.space == "shared"]
        warps_height = 22 + -(-min(trace.warps, MOST_WARPS) // 16) * 19 + 18 + 18
        is_column = rows is not None
        lines = 2 if is_column else 1
        self.captions = [scene.label(x, 2 + 16 * line, "", "bold") for line in range(lines)]
        top = 8 + 16 * lines
        code_height = 18 + parts.CODE_HEIGHT * rows if is_column else 0
        right, memory = (x, top + code_height + warps_height + 16) if is_column else (x + LEFT + GAP, top)
        self.sectors = parts.Sectors(scene, right, memory)
        self.values = parts.Values(scene, right, memory + 144, trace.arrays)
        self.locals = parts.Locals(scene, right, memory + 234, trace)
        below = self.locals.bottom
        self.banks = parts.Banks(scene, right, below, shared) if shared else None
        self.height = max(self.banks.bottom if self.banks else below, LEAST_HEIGHT)
        if not is_column:
            code_height = self.height - top - warps_height - 8
        self.code = parts.Code(scene, x, top, code_height, _texts(trace))
        below = top + code_height + 8 if is_column else self.height - warps_height
        self.warps = parts.Warps(scene, x, below, trace.warps, self.warp)

    def looks(self, everything, first: int, end: int) -> Iterator[dict]:
        """The panel's state in each step, from `first` on, and at the fault, if there is one."""
        trace, warp = self.trace, self.warp
        waiting: set[int] = set()
        latest = None  # the shown warp's latest line
        for number, events in enumerate(everything[:end]):
            if any(event.kind == REQUEST for event in events) and len(waiting) == trace.warps:
                waiting = set()
            doing = {event.warp: event for event in events}
            if doing.keys() & waiting:
                waiting = set()
            event = doing.get(warp)
            request = event if event is not None and event.kind == REQUEST else None
            latest = request or latest
            waits = event is None and warp in waiting
            words = f"warp {warp} waits at the barrier" if waits else parts.caption_of(event, warp)
            state = self._caption(f"{self._numbered(number, len(everything), first)}. {words}")
            if latest is not None:
                state |= self.code.state(latest.place.file, latest.place.line, "line" if request else "")
            state |= self.warps.state(doing, waiting)
            state |= self.sectors.state(request) | self.values.state(request) | self.locals.state(event)
            if self.banks:
                state |= self.banks.state(events, request, warp)
            waiting |= {each.warp for each in events if each.kind == BARRIER_REACHED}
            if number >= first:
                yield state
        if trace.fault is not None and end >= len(everything):
            yield self._fault_state(state)

    def ended(self, state: dict, steps: int) -> dict:
        """The panel's state when it has ended and another one goes on."""
        return state | self._caption(f"done after {steps} steps")

    def _caption(self, words: str) -> dict:
        lines = textwrap.wrap(words, CAPTION_LETTERS) if len(self.captions) > 1 else [words]
        shown = [*lines, ""][: len(self.captions)]
        return {label: ("", line) for label, line in zip(self.captions, shown, strict=True)}

    def _numbered(self, number: int, count: int, first: int) -> str:
        return f"{number + 1}" + (
            "" if count <= first + DEFAULT_STEPS and first == 0 else f" (of {count} in all)"
        )

    def _fault_state(self, state: dict) -> dict:
        fault = self.trace.fault
        message = re.sub(r",? at 0x[0-9a-f]+,?", "", str(fault).partition("): ")[2] or str(fault))
        state = state | self._caption(
            textwrap.shorten(f"{fault.kind}: {message}", MOST_CAPTION, placeholder=" …")
        )
        if fault.file and fault.line:
            state |= self.code.state(fault.file, fault.line, "wrong line")
        named = re.search(r"(\w+)\[(\d+)\]", str(fault))
        for array in self.trace.arrays if named and self.banks else ():
            cell = self.banks.cell(array, int(named[2])) if array.name == named[1] else None
            if cell is not None:
                state[cell] = ("wrong", "")
        return state


class Player:
    """One trace, or two in parallel, with a slider, which a notebook shows. `frames()` are single steps that
    need no script.

    trace: the drawn one; of two, the left one. traces: all. scene: the drawing; its `svg(step)` is a step as
    a picture.
    """

    def __init__(
        self, traces: Sequence[Trace], warp: int | None = None, first: int = 0, steps: int = DEFAULT_STEPS
    ):
        self.trace, self.traces = traces[0], tuple(traces)
        everything = [trace.steps() for trace in traces]
        self._all = max(map(len, everything))
        if not 0 <= first < self._all:
            raise ValueError(f"first: expected 0 to {self._all - 1}, got {first}")
        self._first = first
        rows, column = None, LEFT + GAP + RIGHT
        if len(traces) > 1:
            longest = max(len(text) for trace in traces for text in _texts(trace).values())
            rows, column = min(MOST_CODE_ROWS, longest), RIGHT
        scene = self.scene = Scene((column + COLUMN_GAP) * len(traces) - COLUMN_GAP, 0)
        panels = [
            _Panel(scene, trace, warp, (column + COLUMN_GAP) * number, rows)
            for number, trace in enumerate(traces)
        ]
        scene.height = int(max(panel.height for panel in panels)) + 6
        looks = [
            list(panel.looks(each, first, first + steps))
            for panel, each in zip(panels, everything, strict=True)
        ]
        for step in range(max(map(len, looks))):
            state: dict = {}
            for panel, of_panel, each in zip(panels, looks, everything, strict=True):
                is_there = step < len(of_panel)
                state |= of_panel[step] if is_there else panel.ended((of_panel or [{}])[-1], len(each))
            scene.step(state)

    @property
    def _has_fault(self) -> bool:
        return any(trace.fault is not None for trace in self.traces)

    def __len__(self) -> int:
        return len(self.scene)

    def frames(self, *steps: int) -> Frames:
        """Single steps as pictures, one below the other; steps count from 0, or from the end if negative."""
        return Frames(self.scene, steps or (len(self) // 2,))

    def _repr_html_(self) -> str:
        return self.scene.player(-1 if self._has_fault else 0)

    def __repr__(self) -> str:
        shown = min(len(self), self._all)  # the fault has a picture of its own, behind the last step
        names = " beside ".join(
            f"{trace.kernel}, block {trace.block}"
            + (f"; ends with a fault: {trace.fault.kind}" if trace.fault is not None else "")
            for trace in self.traces
        )
        return f"{names}: {shown} of {self._all} steps"


class Frames:
    """Single steps of a scene, for a page without scripts."""

    def __init__(self, scene: Scene, steps: Sequence[int]):
        for step in steps:
            if not -len(scene) <= step < len(scene):
                raise IndexError(f"step: expected {-len(scene)} to {len(scene) - 1}, got {step}")
        self.scene, self.steps = scene, [range(len(scene))[step] for step in steps]

    def _repr_html_(self) -> str:
        return "".join(f"<div style='margin:6px 0'>{self.scene.picture(step)}</div>" for step in self.steps)

    def __repr__(self) -> str:
        return f"steps {', '.join(str(step + 1) for step in self.steps)} of {len(self.scene)}"


def _recorded(call: Callable[[], object], block: int, launch: int) -> Trace:
    """The trace with locals, or without them if their room in shared memory makes a difference."""
    try:
        trace = record(call, block, launch, MOST_EVENTS, locals=True)
    except (BuildError, KernelFault):
        return record(call, block, launch, MOST_EVENTS)
    if trace.fault is None:
        return trace
    alone = record(call, block, launch, MOST_EVENTS)
    of = [fault and (fault.kind, fault.file, fault.line) for fault in (trace.fault, alone.fault)]
    return trace if of[0] == of[1] else alone


def play(
    call: Callable[[], object],
    beside: Callable[[], object] | None = None,
    *,
    block: int = 0,
    launch: int = 0,
    warp: int | None = None,
    first: int = 0,
    steps: int = DEFAULT_STEPS,
) -> Player:
    """Runs `call` on the counted simulator, and shows what one block of a launch does, with a slider.

    call: a function without arguments that runs fgn's functions, modules or live kernels on CPU tensors.
    beside: another such call, which is shown to the right, in parallel with the first. block: its
    number in the grid, x fastest. launch: the number of the call's launch. warp: the one whose addresses and
    values are shown; by default 0, or the warp whose thread ended the launch with a fault: a race is played
    to its end instead of raised. first, steps: the steps to draw; in a step each warp that does not wait
    makes one request.

    IndexError if the call has no such launch or block; ValueError for a warp or a step that does not exist;
    TypeError if `call` is no function, or another argument no whole number.
    """
    for name, number in (("block", block), ("launch", launch), ("first", first), ("steps", steps)):
        if not isinstance(number, int):
            raise TypeError(f"{name}: expected a whole number, got {number!r}")
        if name in ("block", "launch") and number < 0:
            raise IndexError(f"{name}: expected 0 or more, got {number}")
    if steps < 1:
        raise ValueError(f"steps: expected at least 1, got {steps}")
    calls = [call] if beside is None else [call, beside]
    return Player([_recorded(each, block, launch) for each in calls], warp, first, steps)
