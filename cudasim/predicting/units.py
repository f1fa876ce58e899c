"""The part of its peak that each unit of ncu's speed-of-light page reaches: compute, L1, L2 and DRAM.

Each is the highest of several counters, and ncu's counters have peaks of their own: L2's, for one, is what
its slices could move if nothing else got in their way, which no launch reaches.
"""

from __future__ import annotations

from collections.abc import Mapping

from cudasim.counting.counted import Instruction
from cudasim.predicting.caches import Local, Traffic
from cudasim.predicting.cards import Card
from cudasim.predicting.sampling import SECTOR_BYTES, Sample

# ncu's peak of L2 over the card's bandwidth, which is what launches get: of products of matrices on an H100,
# whose operands L2 has, ncu counted 175 to 183 sectors for each clock that it called full.
_L2_PEAK = 1.64
_OF_REQUEST = 2 * SECTOR_BYTES  # bytes that a slice could move while it looks up a request's line
_OF_WRITTEN = 1.5  # a request's data comes with its address, on a path as wide as that of what is read


def l2_seconds_of_ncu(
    sample: Sample, merged: Mapping[Instruction, tuple[float, float]], local: Local, card: Card
) -> float:
    """How long L2 is busy in ncu's sense: looking up lines, or with what it reads, or with what it writes."""
    requests, read, written = 0.0, local.lost * local.read, local.written
    for one in sample.instructions:
        if one.space != "global":
            continue
        part, times = merged.get(one, (0.0, 1.0))
        if one.operation == "ld":
            read += one.missed
            requests += one.lines * one.missed / max(1, one.sectors)
        else:
            written += one.sectors * (1 - part + part / times)
            requests += one.lines * (1 - part + part / times)
            read += one.sectors if one.operation == "atom" else 0
    requests += (local.lost * local.read + local.written) / 4
    bytes_ = max(SECTOR_BYTES * read, _OF_WRITTEN * SECTOR_BYTES * written, _OF_REQUEST * requests)
    return bytes_ * sample.scale / (_L2_PEAK * card.l2_bandwidth)


def units_of(
    busy: Mapping[str, float],
    l2: float,
    traffic: Traffic,
    card: Card,
    running: float,
    peaks: Mapping[str, float],
) -> dict[str, float]:
    """busy: seconds of each part of the multiprocessors; l2: of `l2_seconds_of_ncu`; running: of the launch,
    without what it costs to begin and end; peaks: the part of its peak that a part has when it is busy all
    the time.

    L1 has the requests of the LSU in it; L2 what DRAM fills it with, and where it has two halves what goes
    from one to the other.
    """
    parts = {name: of * peaks[name] for name, of in busy.items()}
    l1 = parts.pop("L1 and shared memory")
    requests = parts.pop("LSU", 0.0)
    of_dram = card.l2_of_dram
    fills = of_dram["read"] * traffic.dram_read + of_dram["written"] * traffic.dram_written
    return {
        "compute": max([requests, *parts.values()]) / running,
        "L1": max(l1, 1.06 * requests) / running,
        "L2": min(1.0, max(l2, fills / card.dram_bytes_per_second) / running),
        "DRAM": (traffic.dram_read + traffic.dram_written) / card.dram_bytes_per_second / running,
    }
