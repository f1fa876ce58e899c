"""The parts of the player: code, sectors, banks, values and warps, each a part of a scene.

A part draws its boxes when it is made; its `state()` gives their look in a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch

from cudasim.counting.trace import BARRIER_REACHED, LANES_MET, REQUEST, Array, Event, Trace
from cudasim.live.locals import local_of
from fgn.plot.scene import Scene

LEFT, RIGHT = 448, 484  # the widths of the two columns
CODE_HEIGHT, CODE_LETTERS = 15, 66
SECTOR_BYTES, WORD_BYTES, BANKS = 32, 4, 32
MOST_SECTORS, SECTORS_IN_ROW = 32, 8
MOST_ROWS = 66  # of banks; of a larger array, a cell stands for several words
FEW_ROWS, ROW_HEIGHT, LOW_ROW_HEIGHT = 40, 9, 6
VALUE_LANES, VALUE_ROWS = 8, 3
MOST_DIGITS = 8  # of an integer
MOST_WARPS = 32

VERBS = {
    "ld": ("loads", "load"),
    "st": ("stores", "store"),
    "atom": ("atomically changes", "atomically change"),
}


class Code:
    """A window on the source: the line of the shown warp is marked."""

    def __init__(self, scene: Scene, x: float, y: float, height: float, texts: dict[str, list[str]]):
        self.texts, self.file, self.first = texts, None, 1
        self.title = scene.label(x, y, "", "bold")
        self.rows = [
            scene.box(x, y + 18 + row * CODE_HEIGHT, LEFT, CODE_HEIGHT, "", "", "code", False, False)
            for row in range(int(height - 18) // CODE_HEIGHT)
        ]

    def state(self, file: str, line: int, fill: str = "line") -> dict:
        rows = len(self.rows)
        if file != self.file or not self.first <= line < self.first + rows:
            self.file, self.first = file, max(1, line - rows // 2)
        text = self.texts.get(file, [])
        # Near the end of the file the window begins earlier, so that no rows are empty.
        self.first = max(1, min(self.first, len(text) - rows + 1))
        state = {self.title: ("", Path(file).name)}
        for row, box in enumerate(self.rows):
            number = self.first + row
            words = text[number - 1].expandtabs(4) if number <= len(text) else ""
            words = f"{number:4d}  {words}" if number <= len(text) else ""
            if len(words) > CODE_LETTERS:
                words = words[: CODE_LETTERS - 1] + "…"
            state[box] = (fill if number == line and text else "", words)
        return state


class Sectors:
    """The sectors that one request asks of global memory; the lanes' words are dark."""

    CELL, HEIGHT = 6.75, 13

    def __init__(self, scene: Scene, x: float, y: float):
        self.title = scene.label(x, y, "global memory", "bold")
        self.cells, self.labels = [], []
        words = SECTOR_BYTES // WORD_BYTES
        for sector in range(MOST_SECTORS):
            row, column = divmod(sector, SECTORS_IN_ROW)
            left, top = x + column * (words * self.CELL + 6), y + 20 + row * 30
            self.cells.append(
                [
                    scene.box(left + word * self.CELL, top, self.CELL, self.HEIGHT, "untouched")
                    for word in range(words)
                ]
            )
            self.labels.append(scene.box(left, top + 13, words * self.CELL, 12, framed=False))

    def state(self, event: Event | None) -> dict:
        if event is None or event.array.space != "global":
            return {}
        sectors = event.sectors()
        state = {
            self.title: (
                "",
                f"global memory: {len(sectors)} sector{'s' if len(sectors) > 1 else ''} of 32 bytes "
                f"of {event.array.name} for {len(event.lanes)} lane{'s' if len(event.lanes) > 1 else ''} "
                f"× {event.bytes} bytes",
            )
        }
        fill = "read" if event.operation == "ld" else "written"
        wanted = {
            word
            for address in event.addresses.values()
            for word in range(address // WORD_BYTES, -(-(address + event.bytes) // WORD_BYTES))
        }
        for cells, label, sector in zip(self.cells, self.labels, sectors, strict=False):
            first = max(0, event.array.index(sector))
            state[label] = ("", f"[{first}]")
            for word, cell in enumerate(cells):
                look = fill if sector // WORD_BYTES + word in wanted else "held"
                state[cell] = (look, "")
        return state


class Banks:
    """Shared memory: a column for each bank, a row for each 32 words. Words that were written stay light."""

    def __init__(self, scene: Scene, x: float, y: float, arrays: Sequence[Array]):
        rows = {array.begin: -(-array.bytes // (WORD_BYTES * BANKS)) for array in arrays}
        self.grain = -(-sum(rows.values()) // MOST_ROWS)
        self.held: set[int] = set()
        self.cells: dict[tuple[int, int], int] = {}
        cell = RIGHT / BANKS
        shown_rows = sum(-(-count // self.grain) for count in rows.values())
        height = ROW_HEIGHT if shown_rows <= FEW_ROWS else LOW_ROW_HEIGHT
        each = "" if self.grain == 1 else f"; each cell is {self.grain} words of its bank"
        self.title = scene.label(x, y, f"shared memory: 32 banks, side by side{each}", "bold")
        top = y + 20
        for array in arrays:
            scene.label(x, top - 2, f"{array.name}, {array.bytes:,} bytes", "small")
            top += 13
            shown = -(-rows[array.begin] // self.grain)
            for row in range(shown):
                for bank in range(BANKS):
                    if row == shown - 1 and row * self.grain * BANKS + bank >= array.bytes // WORD_BYTES:
                        continue
                    self.cells[array.begin, row * BANKS + bank] = scene.box(
                        x + bank * cell, top + row * height, cell, height, "empty"
                    )
            top += shown * height + 4
        self.count_title = scene.label(x, top, "", "small")
        self.counts = [scene.box(x + bank * cell, top + 15, cell, 13, "empty") for bank in range(BANKS)]
        self.bottom = top + 32

    def _cells_of(self, event: Event) -> set[int]:
        found = set()
        for address in event.addresses.values():
            for byte in range(0, event.bytes, WORD_BYTES):
                word = (address + byte - event.array.begin) // WORD_BYTES
                row, bank = divmod(word, BANKS)
                number = self.cells.get((event.array.begin, row // self.grain * BANKS + bank))
                if number is not None:
                    found.add(number)
        return found

    def cell(self, array: Array, index: int) -> int | None:
        row, bank = divmod(index * array.element_bytes // WORD_BYTES, BANKS)
        return self.cells.get((array.begin, row // self.grain * BANKS + bank))

    def state(self, events: Sequence[Event], shown: Event | None, warp: int) -> dict:
        state = {number: ("held", "") for number in self.held}
        touching = [event for event in events if event.kind == REQUEST and event.array.space == "shared"]
        for event in sorted(touching, key=lambda event: event.warp == warp):
            writes = event.operation != "ld"
            fill = ("written" if writes else "read") + ("" if event.warp == warp else " by others")
            cells = self._cells_of(event)
            state |= {number: (fill, "") for number in cells}
            if writes:
                self.held |= cells
        if shown is not None and shown.array.space == "shared":
            state |= self._fullest(shown)
        return state

    def _fullest(self, event: Event) -> dict:
        wanted: list[set[int]] = [set() for _ in range(BANKS)]
        for address in event.addresses.values():
            for byte in range(0, event.bytes, WORD_BYTES):
                word = (address + byte - event.array.begin) // WORD_BYTES
                wanted[word % BANKS].add(word)
        most = max(len(words) for words in wanted)
        state = {self.count_title: ("", "different words that the shown warp wants of each bank")}
        for box, words in zip(self.counts, wanted, strict=True):
            # A lane's several words from one bank come one after the other anyway.
            is_conflict = len(words) == most > max(1, event.bytes // WORD_BYTES)
            fill = "empty" if not words else "wrong" if is_conflict else "read by others"
            state[box] = (fill, str(len(words)) if words else "")
        return state


class Values:
    """The values that the first lanes have read or written in the shown warp's present line."""

    CELL = 50

    def __init__(self, scene: Scene, x: float, y: float, arrays: Sequence[Array]):
        # The type in shared memory is unknown; if all arguments have one type, it is probably that one.
        types = {array.dtype for array in arrays if array.space == "global"}
        self.shared_type = next(iter(types)) if len(types) == 1 else None
        self.title = scene.label(x, y, "", "bold")
        self.names = [scene.label(x, y + 32 + 17 * row, "", "small") for row in range(VALUE_ROWS)]
        left = x + RIGHT - VALUE_LANES * self.CELL
        self.heads = [
            scene.box(left + lane * self.CELL, y + 18, self.CELL, 13, text=f"lane {lane}", framed=False)
            for lane in range(VALUE_LANES)
        ]
        self.cells = [
            [
                scene.box(left + lane * self.CELL, y + 32 + 17 * row, self.CELL, 16, "empty")
                for lane in range(8)
            ]
            for row in range(VALUE_ROWS)
        ]
        self.recent: list[Event] = []

    def state(self, event: Event | None) -> dict:
        if event is None:
            return {}
        last = self.recent[-1] if self.recent else None
        is_next_turn = last is not None and last.operation != "ld" and event.operation == "ld"
        if last is not None and (last.place != event.place or is_next_turn or len(self.recent) == VALUE_ROWS):
            self.recent = []
        self.recent.append(event)
        meet = sum(each.operation == "ld" for each in self.recent) > 1
        words = "the values that meet in" if meet else "the values of"
        state = {self.title: ("", f"{words} line {event.place.line}")}
        for name, cells, each in zip(self.names, self.cells, self.recent, strict=False):
            state[name] = ("", each.array.name)
            for lane, cell in enumerate(cells):
                dtype = self._dtype(each, lane)
                if dtype is not None and getattr(torch, dtype).itemsize <= min(each.bytes, 8):
                    fill = "held" if each.operation == "ld" else "written by others"
                    state[cell] = (fill, _value(each.values[lane], each.bytes, dtype))
        return state

    def _dtype(self, event: Event, lane: int) -> str | None:
        """The name of the dtype for showing a lane's value, or None."""
        if lane not in event.values:
            return None
        if event.array.space == "global":
            return event.array.dtype
        if self.shared_type == "float32" and _is_no_float(event.values[lane]):
            return "int32"
        return self.shared_type


class Locals:
    """The scalar locals of the shown warp's first lanes, before the step. bottom: its lower end."""

    def __init__(self, scene: Scene, x: float, y: float, trace: Trace):
        # In the order in which the kernel reaches them.
        self.arrays = list(dict.fromkeys(name for event in trace.events for name in event.locals or ()))
        self.bottom, self.cells = y, {}
        if not self.arrays:
            return
        scene.label(x, y, "locals, before the step", "bold")
        left = x + RIGHT - VALUE_LANES * Values.CELL
        for row, array in enumerate(self.arrays):
            scene.label(x, y + 18 + 17 * row, local_of(array)[0], "small")
            self.cells[array] = [
                scene.box(left + lane * Values.CELL, y + 18 + 17 * row, Values.CELL, 16, "empty")
                for lane in range(VALUE_LANES)
            ]
        self.bottom = y + 26 + 17 * len(self.arrays)
        self.now: dict[str, dict[int, int]] = {}

    def state(self, event: Event | None) -> dict:
        if not self.arrays:
            return {}
        self.now = self.now if event is None or event.locals is None else event.locals
        return {
            self.cells[array][lane]: ("held", _value(bits, 4, local_of(array)[1]))
            for array, lanes in self.now.items()
            for lane, bits in lanes.items()
            if lane < VALUE_LANES
        }


def _is_no_float(bits: int) -> bool:
    """Whether four bytes are hardly meant as a float: a tiny number, or a NaN that no arithmetic makes."""
    number = _number(bits, "float32")
    is_odd_nan = math.isnan(number) and bits & 0x003FFFFF != 0
    return is_odd_nan or 0 < abs(number) < 1e-30


def _number(bits: int, dtype: str):
    content = bytearray((bits & (1 << 64) - 1).to_bytes(8, "little"))
    return torch.frombuffer(content, dtype=getattr(torch, dtype), count=1).item()


def _value(bits: int, size: int, dtype: str) -> str:
    """The first value of an access of `size` bytes, as a short text."""
    number = _number(bits, dtype)
    is_short = isinstance(number, int) and len(str(number)) <= MOST_DIGITS
    text = str(number) if is_short or isinstance(number, complex) else f"{number:.3g}"
    return text + (" …" if size > getattr(torch, dtype).itemsize else "")


class Warps:
    """A box for each warp of the block: its action in this step. Below are the requests of all so far."""

    FILLS = (
        ("read", "loads"),
        ("written", "stores"),
        ("met", "meets its lanes"),
        ("waits", "waits at the barrier"),
    )

    def __init__(self, scene: Scene, x: float, y: float, warps: int, shown: int):
        self.count = min(warps, MOST_WARPS)
        more = f" (the first {MOST_WARPS})" if warps > MOST_WARPS else ""
        scene.label(x, y, f"warps{more}", "bold")
        columns, width = 16, LEFT / 16
        self.boxes = [
            scene.box(x + n % columns * width, y + 19 + n // columns * 19, width - 2, 17, "empty", str(n))
            for n in range(self.count)
        ]
        self.bottom = y + 22 + -(-self.count // columns) * 19
        left = x
        for fill, words in self.FILLS:
            scene.box(left, self.bottom + 2, 10, 10, fill)
            scene.label(left + 13, self.bottom - 1, words, "small")
            left += 30 + 5.2 * len(words)
        scene.label(left, self.bottom - 1, f"shown: warp {shown}", "small")
        self.total = scene.label(x, self.bottom + 17, "", "bold")
        self.requests = self.sectors = 0
        self.bottom += 36

    def state(self, doing: dict[int, Event], waiting: set[int]) -> dict:
        for event in doing.values():
            if event.kind == REQUEST and event.array.space == "global":
                self.requests, self.sectors = self.requests + 1, self.sectors + len(event.sectors())
        requests = f"{self.requests:,} request{'s' if self.requests > 1 else ''}"
        words = f"asked of global memory so far: {self.sectors:,} sectors, in {requests}"
        state = {self.total: ("", words)}
        for warp, box in enumerate(self.boxes):
            event = doing.get(warp)
            if warp in waiting or (event and event.kind == BARRIER_REACHED):
                fill = "waits"
            elif event is None:
                fill = "empty"
            elif event.kind == LANES_MET:
                fill = "met"
            else:
                fill = "read" if event.operation == "ld" else "written"
            state[box] = (fill, str(warp))
        return state


def caption_of(event: Event | None, warp: int) -> str:
    if event is None:
        return f"warp {warp} has nothing to do"
    if event.kind == BARRIER_REACHED:
        return f"warp {warp} waits at the barrier until all warps of the block are there"
    if event.kind == LANES_MET:
        return f"{len(event.lanes)} lanes of warp {warp} meet: a shuffle, a vote or a __syncwarp()"
    indices = list(event.indices().values())
    where = (
        f"{event.array.name}[{indices[0]}]"
        if len(set(indices)) == 1
        else f"{event.array.name}[{min(indices)} … {max(indices)}]"
    )
    alone = f"lane {event.lanes[0]} of warp {warp}"
    who = f"{len(event.lanes)} lanes of warp {warp}" if len(event.lanes) > 1 else alone
    verb = VERBS[event.operation][len(event.lanes) > 1]
    return f"{who} {verb} {where}, in {event.array.space} memory"
