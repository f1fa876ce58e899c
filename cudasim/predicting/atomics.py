"""How long L2 works at atomics of global memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cudasim.counting.counted import Instruction
from cudasim.predicting.caches import Sharing
from cudasim.predicting.flow import Flow, line_of
from cudasim.predicting.machine_code import MachineCode
from cudasim.predicting.sampling import Sample
from cudasim.predicting.statements import Statements

# Clocks, as lab/atomics.cu measured them on an H200 (lab/records/atomics.csv.xz).
_PLACE = 1.3  # of a place of L2 for each sector that a request updates there
_PLACE_LINES = 8  # lines of an array for each place but the first: 8 lines are in two, 64 in nine
_WHOLE = 1.5  # until the next request may update a sector with whole numbers; floats take longer
_EVERYWHERE = 0.04  # of all of L2 for a sector, wherever it is


@dataclass(frozen=True)
class AtomicLines:
    """Lines whose atomics are of floating point or of whole numbers, and lines where the compiler adds what a
    warp's lanes bring, so that one lane updates for all."""

    floats: set[tuple[str, int]]
    whole: set[tuple[str, int]]
    added: set[tuple[str, int]]


_ATOMICS = ("ATOM", "ATOMG", "RED", "REDG")
# What nvcc puts before the update of a uniform address: the lanes that are there, their first, their sum.
_ADDS = ("VOTEU", "UFLO", "REDUX", "MATCH")


def atomic_lines(code: MachineCode, flow: Flow, files: Statements) -> AtomicLines:
    floats, whole, adding = set(), set(), set()
    for one, _ in flow.executed(code):
        where = line_of(one, files)
        if where and one.name in _ATOMICS:
            (floats if ".F" in one.opcode else whole).add(where)
        elif where and one.name in _ADDS:
            adding.add(where)
    return AtomicLines(floats, whole, (floats | whole) & adding)


def _passes(one: Instruction) -> float:
    """How often a sector is updated for a request: as often as lanes of it meet at one address, the one where
    most meet. They are taken to spread at random over the addresses."""
    more = one.threads / max(1, one.addresses) - 1
    places = max(1.0, one.addresses / max(1, one.sectors))
    return 1 + more + math.sqrt(2 * more * (1 - 1 / places) * math.log(places))


def atomic_clocks(sample: Sample, sharing: Sharing, lines: AtomicLines, atomic: float) -> float:
    """Clocks of L2 for atomics of global memory: the longest of three.

    The places of L2 that have an array's lines take one request after another, sector by sector: 256 bins are
    in two, so that bytes at random took 2.1 clocks for each line of a request (its 2.6 sectors). A sector
    takes a request after another as well: whole numbers for one sector took 1.5, floats 3.7; and 32 floats
    for one address took 112, for each is an update. And all of L2 updates 25 sectors a clock: 8448 blocks
    with seven bins each, at which lanes meet, took 0.35 for a request.

    atomic: clocks until the next request may update a sector with floats.
    """
    clocks = 0.0
    for one in sample.instructions:
        if (one.space, one.operation) != ("global", "atom") or not one.requests:
            continue
        sectors, of_lines = sharing.updated_at(one.address)
        where = (one.place.file, one.place.line)
        # nvcc may give an update the line of another one.
        is_float = where in lines.floats or (where not in lines.whole and bool(lines.floats))
        updates = one.sectors * sample.scale * (1.0 if where in lines.added else _passes(one))
        at_places = _PLACE * updates / (1 + max(0.0, of_lines - 1) / _PLACE_LINES)
        at_sectors = (atomic if is_float else _WHOLE) * updates / max(1.0, sectors)
        clocks += max(at_places, at_sectors, _EVERYWHERE * updates)
    return clocks
