"""How long L2 works at atomics of global memory."""

from __future__ import annotations

from dataclasses import dataclass

from cudasim.predicting.caches import Sharing
from cudasim.predicting.flow import Flow, line_of
from cudasim.predicting.machine_code import MachineCode
from cudasim.predicting.sampling import Sample
from cudasim.predicting.statements import Statements

_SEVERAL_SECTORS = 17.0  # clocks of a slice for a request that updates several sectors of a crowded line
_WHOLE = 1.5  # clocks of a slice for a request of whole numbers that updates a crowded sector
_MEETING = 2.8  # clocks for whole numbers of a request that meet at an address, for each but the first
_L2_SLICES = 48.0  # that update at a time: of an H100; others have about as many for their size


@dataclass(frozen=True)
class AtomicLines:
    """Lines whose atomics are of floating point, and lines where the compiler adds what a warp's lanes bring,
    so that one lane updates for all."""

    floats: set[tuple[str, int]]
    added: set[tuple[str, int]]


_ATOMICS = ("ATOM", "ATOMG", "RED", "REDG")
# What nvcc puts before the update of a uniform address: the lanes that are there, their first, their sum.
_ADDS = ("VOTEU", "UFLO", "REDUX", "MATCH")


def atomic_lines(code: MachineCode, flow: Flow, files: Statements) -> AtomicLines:
    floats, updating, adding = set(), set(), set()
    for one, _ in flow.executed(code):
        where = line_of(one, files)
        if where and one.name in _ATOMICS:
            updating.add(where)
            if ".F" in one.opcode:
                floats.add(where)
        elif where and one.name in _ADDS:
            adding.add(where)
    return AtomicLines(floats, updating & adding)


def atomic_clocks(sample: Sample, sharing: Sharing, lines: AtomicLines, atomic: float) -> float:
    """Clocks of L2 for atomics of global memory. A slice updates a line for one request after another.

    Whole numbers for one address are added before, which takes little; floats are not, for their order
    matters, and each is an update: of 32 for one address ncu counts 54 sectors of L2, of 32 whole numbers for
    seven addresses 13, which took 11.5 clocks. A whole number of each of 131072 blocks for one address took
    1.75 clocks at most, and five of each of 262144 for one sector 1.5, where a float takes twice as long.
    Requests of one sector each mostly meet at the same one. A crowded line of which each request updates
    several sectors takes longer: bytes at random in 256 bins, 4 of a warp in each of 8 lines, took 16.3
    clocks for a line, and all 32 bins of a line 19 (an H100). How crowded a line is, its own array tells:
    bins of each block are not, those that all then add them to are.

    atomic: clocks that a slice takes to update a crowded sector with floats.
    """
    clocks = 0.0
    for one in sample.instructions:
        if (one.space, one.operation) != ("global", "atom") or not one.requests:
            continue
        updated, places = sharing.updated_at(one.address)
        operations = one.lines * sample.scale
        in_line = one.sectors / max(1, one.lines)
        spread = one.sectors / one.requests  # different sectors of a request
        crowded = min(1.0, one.sectors * sample.scale / max(1.0, updated) / 1000)
        where = (one.place.file, one.place.line)
        once = atomic if where in lines.floats else _WHOLE
        if where in lines.added:
            meeting = 0.0
        elif where in lines.floats:
            meeting = atomic * (one.threads - one.addresses) / max(1, one.sectors)
        else:
            meeting = _MEETING * (one.threads / max(1, one.addresses) - 1)
        several = min(1.0, in_line - 1.0) * (_SEVERAL_SECTORS - once)
        each = 0.55 * atomic * in_line * (1 - crowded) + (once + several) * crowded + meeting
        at_once = min(_L2_SLICES, places) if spread >= 2 else 1.0 + (1 - crowded) * (_L2_SLICES - 1)
        clocks += operations * each / max(1.0, min(at_once, places))
    return clocks
