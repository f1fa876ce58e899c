"""The trace of one block: what its warps did, in order, with addresses and values.

The counted simulator records it while a launch runs (cudasim/sim/counted/trace.c). `record()` runs a call and
returns a Trace; a program may draw it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cudasim.building.library import COUNTED_SIMULATOR, ffi
from cudasim.counting.counted import dtype_at, expect_function, one_block_at_a_time, recording
from cudasim.counting.faults import KernelFault
from cudasim.counting.places import Place, places_of
from cudasim.live.locals import PREFIX, watching_locals
from cudasim.live.translation import with_own_name
from cudasim.source import launched_sources

LANES = 32
MOST_EVENTS = 50_000  # of about 600 bytes each

REQUEST, BARRIER_REACHED, BARRIER_PASSED, LANES_MET = "request", "barrier reached", "barrier passed", "met"


@dataclass(frozen=True)
class Array:
    """An argument in global memory, or an array in shared memory, that the block accessed.

    element_bytes: the size of the argument's dtype, or the width of the first access to an array in shared
    memory. begin: the array's address on the machine that ran the simulator. dtype: the name of the
    argument's; None in shared memory.
    """

    name: str
    space: str
    begin: int
    bytes: int
    element_bytes: int
    dtype: str | None = None

    def index(self, address: int) -> int:
        return (address - self.begin) // self.element_bytes


@dataclass(frozen=True)
class Event:
    """One request of a warp, or an event of the warp.

    kind: REQUEST, BARRIER_REACHED, BARRIER_PASSED (of the whole block, so `warp` means nothing) or LANES_MET
    (all lanes of a warp, for a shuffle, a vote or a __syncwarp()). lanes: those that took part. A request
    also has: place, the line of source; array; operation, "ld", "st" or "atom"; bytes for each lane;
    addresses and values by lane. A value is memory's content before a load, or after a store or an atomic, as
    the bits of up to 8 bytes; it is missing if the simulator does not know it. locals: the warp's, before the
    event, as bits by name and lane, if `record()` was asked for them.
    """

    kind: str
    warp: int
    lanes: tuple[int, ...]
    place: Place | None = None
    array: Array | None = None
    operation: str = ""
    bytes: int = 0
    addresses: dict[int, int] | None = None
    values: dict[int, int] | None = None
    locals: dict[str, dict[int, int]] | None = None

    def indices(self) -> dict[int, int]:
        """The index of the element that each lane accessed, by lane."""
        return {lane: self.array.index(address) for lane, address in self.addresses.items()}

    def sectors(self) -> list[int]:
        """The 32-byte sectors that a request to global memory touches, by the address of their first byte."""
        return sorted(
            {
                sector
                for address in self.addresses.values()
                for sector in range(address // 32 * 32, address + self.bytes, 32)
            }
        )


@dataclass(frozen=True)
class Trace:
    """The events of one block of a launch. block: its index; warps: their number. events: in the simulator's
    order, which runs a warp until it has to wait. missed: the number of events that were not kept. fault:
    what ended the launch, or None."""

    kernel: str
    block: int
    warps: int
    events: tuple[Event, ...]
    missed: int
    fault: KernelFault | None
    fault_warp: int | None  # the warp that has the fault, if it is one of this block's

    @property
    def arrays(self) -> list[Array]:
        found: dict[int, Array] = {}
        for event in self.events:
            if event.array:
                found.setdefault(event.array.begin, event.array)
        return list(found.values())

    def steps(self, most: int | None = None) -> list[list[Event]]:
        """The events in steps: in each step, every warp that does not wait takes its next event.

        That is a model: the simulator knows which accesses come before a barrier and which after it, but not
        how long they take. Here every access takes one step. most: the number of steps to return, None for
        all.
        """
        steps: list[list[Event]] = []
        for phase in self._phases():
            queues: dict[int, list[Event]] = {}
            for event in phase:
                queues.setdefault(event.warp, []).append(event)
            longest = max(map(len, queues.values()), default=0)
            for turn in range(longest):
                steps.append([queue[turn] for queue in queues.values() if turn < len(queue)])
                if most is not None and len(steps) == most:
                    return steps
        return steps

    def _phases(self) -> list[list[Event]]:
        """The events between one barrier of the block and the next."""
        phases: list[list[Event]] = [[]]
        for event in self.events:
            if event.kind == BARRIER_PASSED:
                phases.append([])
            else:
                phases[-1].append(event)
        return phases


def _bits(mask: int) -> tuple[int, ...]:
    return tuple(lane for lane in range(LANES) if mask >> lane & 1)


def _read_events(library, threads: int) -> Iterable[Event]:
    kinds = {
        library.COUNTED_REQUEST: REQUEST,
        library.COUNTED_BARRIER_REACHED: BARRIER_REACHED,
        library.COUNTED_BARRIER_PASSED: BARRIER_PASSED,
        library.COUNTED_LANES_MET: LANES_MET,
    }
    operations = {library.COUNTED_LOAD: "ld", library.COUNTED_STORE: "st", library.COUNTED_ATOMIC: "atom"}
    spaces = {library.COUNTED_GLOBAL: "global", library.COUNTED_SHARED: "shared"}
    raw = [library.counted_event_at(index) for index in range(library.counted_event_count())]
    places = places_of(library, {event.pc for event in raw if event.kind == library.COUNTED_REQUEST})
    arrays: dict[int, Array] = {}
    for event in raw:
        lanes = _bits(event.lanes)
        # If only some lanes of a warp meet, the trace has their earlier accesses after the meeting.
        if event.kind == library.COUNTED_LANES_MET and len(lanes) < min(LANES, threads - LANES * event.warp):
            continue
        if event.kind != library.COUNTED_REQUEST:
            yield Event(kinds[event.kind], event.warp, lanes)
            continue
        if event.place not in arrays:
            place, source = library.counted_place_at(event.place), launched_sources.get(places[event.pc].file)
            arrays[event.place] = Array(
                with_own_name(ffi().string(place.name).decode(), source),
                spaces[place.space],
                place.begin,
                place.bytes,
                place.element_bytes or event.bytes,
                dtype_at(place.begin),
            )
        yield Event(
            REQUEST,
            event.warp,
            lanes,
            places[event.pc],
            arrays[event.place],
            operations[event.operation],
            event.bytes,
            {lane: event.address[lane] for lane in lanes},
            {lane: event.value[lane] for lane in _bits(event.known & event.lanes)},
        )


def _locals_apart(events: Iterable[Event]) -> Iterable[Event]:
    """The events without writes of locals; the others get these values. See cudasim/live/locals.py."""
    of_warps: dict[int, dict[str, dict[int, int]]] = {}
    for event in events:
        now = of_warps.get(event.warp, {})
        if event.array and event.array.name.startswith(PREFIX):
            of_warps[event.warp] = now | {event.array.name: now.get(event.array.name, {}) | event.values}
        else:
            yield replace(event, locals=now)


def record(
    call: Callable[[], object],
    block: int = 0,
    launch: int = 0,
    most_events: int = MOST_EVENTS,
    locals: bool = False,
) -> Trace:
    """Runs `call` on the counted simulator and returns the trace of one block of one of its launches.

    call: a function without arguments that launches kernels on CPU tensors. block: its number in the grid, x
    fastest. launch: the number of the call's launch. Blocks run one after another here, so the same call has
    the same trace. A fault of a kernel ends the trace and is its `fault`. IndexError if the call has no such
    launch or block, or the block accessed no memory; KernelFault if a fault comes before the block has begun.

    locals: whether the events also have the scalar locals of live kernels. Then a copy of the kernel runs,
    which writes them to shared memory.
    """
    expect_function(call)
    if locals:
        with watching_locals() as kernels:
            trace = record(call, block, launch, most_events)
        # The reader sees the kernel, not its copy.
        launched_sources.update({kernel.file: kernel.source for kernel in kernels})
        return replace(trace, events=tuple(_locals_apart(trace.events)))
    library = COUNTED_SIMULATOR.load()
    if not library.counted_trace(launch, block, most_events):
        raise MemoryError(f"most_events: no memory for {most_events} events of a trace")
    fault = None
    try:
        with one_block_at_a_time(), recording() as launches:
            try:
                call()
            except KernelFault as error:
                fault = error
            size = library.counted_traced_block()
            threads = (size.x, size.y, size.z)
            events = tuple(_read_events(library, math.prod(threads)))
        missed = library.counted_events_missed()
    finally:
        library.counted_trace(0, 0, 0)
    if not events and fault is not None:
        raise fault
    if not events:
        raise IndexError(
            f"launch, block: expected one of the call's {len(launches)} launches and one of its blocks that "
            f"accesses memory, got launch {launch} and block {block}"
        )
    is_last = launch == len(launches)  # a launch with a fault is not among those that have ended
    kernel = fault.kernel if fault and is_last else launches[launch].kernel
    warps = -(-threads[0] * threads[1] * threads[2] // LANES)
    warp = _number(fault.thread, threads) // LANES if fault and is_last and fault.thread else None
    return Trace(kernel, block, warps, events, missed, fault, warp)


def _number(thread: tuple[int, int, int], size: tuple[int, int, int]) -> int:
    return (thread[2] * size[1] + thread[1]) * size[0] + thread[0]
