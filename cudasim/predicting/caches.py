"""What a launch moves between L1, L2 and DRAM, from what the blocks of a sample asked for.

Neighbours share data: two blocks of a row of a matrix product read the same rows of A. How the union of what
they read grows from one block to four along an axis of the grid tells how it goes on, up to the size of each
argument's memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cudasim.predicting.cards import Card
from cudasim.predicting.flow import Flow
from cudasim.predicting.machine_code import MachineCode
from cudasim.predicting.occupancy import Occupancy
from cudasim.predicting.sampling import READ, SECTOR_BYTES, SHIFT, UPDATED, WRITTEN, Sample

# Between these parts of L2's size data that all blocks read together falls out of it little by little.
_KEPT, _LOST = 0.6, 1.4
# The part of L2 that at any time holds what was written and DRAM has not yet got: of 67 MB that launches
# wrote, ncu counted 51 at DRAM on an H100, of 134 MB 117 (an H200 keeps as much).
_UNWRITTEN = 1 / 3
# The part of a sector's bytes at which launches that write some of each sector write none whole: ncu counted
# 61 MB more read from DRAM where a copy wrote every second or fourth float of 67 MB than where it wrote all.
_PARTLY = 0.5
_SPARSE = 64  # places of a map for each sector in it, above which sorting is faster


@dataclass(frozen=True)
class Traffic:
    """Bytes of a launch that finds nothing in L2, in all its blocks. updated: sectors that atomics update."""

    l2_read: float
    l2_written: float
    dram_read: float
    dram_written: float
    updated: float

    def dram_bytes(self, card: Card) -> float:
        """Bytes that DRAM moves meanwhile, where L2 is full of others' data as the launch begins: what the
        launch brings sends a part of them to DRAM, which then gets the launch's own later."""
        moved = self.dram_read + self.dram_written
        of_others = _UNWRITTEN * min(card.l2_bytes, moved)
        return self.dram_read + max(self.dram_written, of_others)


def _union(parts: Iterable[np.ndarray]) -> np.ndarray:
    """The different sectors of several lists of them, in order. They are marked in a map where they lie
    close enough, since sorting millions takes seconds."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return np.empty(0, np.uint64)
    first = min(part.min() for part in parts)
    span = int(max(part.max() for part in parts) - first) + 1
    if span > _SPARSE * sum(map(len, parts)):
        return np.unique(np.concatenate(parts))
    marked = np.zeros(span, bool)
    for part in parts:
        marked[part - first] = True
    return np.flatnonzero(marked).astype(np.uint64) + first


def _different(ordered: np.ndarray) -> int:
    """How many different numbers are in a list that is in order: np.unique takes seconds for millions."""
    return len(ordered) and 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


class _Growth:
    """How the union of the blocks' sectors grows with their number, in one argument's memory."""

    def __init__(self, sample: Sample, own: dict[int, np.ndarray], most: float):
        self.grid, self.most = sample.grid, most
        self.one = float(np.mean([len(of) for of in own.values()])) if own else 0.0
        self.steps = [self._step(own, axis) for axis in range(3)]
        self.whole = None
        union = _union(own.values())
        if sample.is_whole and own:
            self.whole = float(len(union))
        pairs = _different(union >> 1)
        # What DRAM moves for a sector: 64 bytes at once, of which others may want the second half.
        self.moved_for_one = 2.0 * pairs / len(union) if len(union) else 1.0

    def _step(self, own: dict[int, np.ndarray], axis: int) -> float:
        """What each further block along an axis adds to a first one's sectors, as a part of these."""
        if self.grid[axis] == 1:
            return 0.0
        step, found = math.prod(self.grid[:axis]), []
        length = min(4, self.grid[axis])
        for number in sorted(own):  # the workers finish blocks in any order
            if number // step % self.grid[axis] + length > self.grid[axis]:
                continue
            run = [number + step * i for i in range(length)]
            if any(block not in own for block in run):
                continue
            alone = sum(len(own[block]) for block in run) / length
            if alone > 0:
                union = len(_union(own[block] for block in run))
                found.append((union / alone - 1) / (length - 1))
            if len(found) >= 24:
                break
        return float(np.clip(np.mean(found), 0.0, 1.0)) if found else 1.0

    def asked_for(self, blocks: float) -> float:
        """Sectors of so many blocks that follow each other, as if none came to one that a far one had."""
        sectors, left = self.one, max(1.0, blocks)
        for axis in range(3):
            here = min(float(self.grid[axis]), left)
            sectors *= 1.0 + (here - 1.0) * self.steps[axis]
            left = max(1.0, left / here)
        return min(sectors, self.one * blocks)

    def of(self, blocks: float) -> float:
        """Sectors of so many blocks that follow each other."""
        total = math.prod(self.grid)
        if blocks >= total and self.whole is not None:
            return self.whole
        return min(self.asked_for(blocks), self.most)


@dataclass(frozen=True)
class Sharing:
    """How the blocks of a sample share each argument's memory: what they read and write there grows with
    their number. updated: by the beginning and end of an argument's memory, the sectors of it that atomics of
    the launch update, in so many lines of L2."""

    read: tuple[_Growth, ...]
    written: tuple[_Growth, ...]
    updated: dict[tuple[int, int], tuple[float, float]]

    def updated_at(self, address: int) -> tuple[float, float]:
        """The sectors and lines that atomics update in the memory with this address; of all of it where it is
        no argument's."""
        own = [of for (begin, end), of in self.updated.items() if begin <= address < end]
        own = own or list(self.updated.values())
        return sum(sectors for sectors, _ in own), sum(lines for _, lines in own)

    @property
    def of_block(self) -> float:
        """Different sectors that a block reads."""
        return sum(growth.one for growth in self.read)


def _far_apart(sample: Sample, own: dict[int, np.ndarray], most: float) -> float:
    """Sectors of all blocks, by what neighbourhoods of the sample share that are far from each other.

    Four blocks side by side may update one sector and each four another one: neighbours alone would say that
    all blocks update the same.
    """
    places: list[list[int]] = []
    for number in sorted(own):
        if places and number == places[-1][-1] + 1:
            places[-1].append(number)
        else:
            places.append([number])
    if len(places) < 2:
        return 0.0
    unions = [len(_union(own[number] for number in of)) for of in places]
    each = float(np.mean(unions))
    if not each:
        return 0.0
    every = len(_union(own.values()))
    grows = float(np.clip((every / each - 1) / (len(places) - 1), 0.0, 1.0))
    count = sample.total / (len(own) / len(places))
    return min(most, each * (1.0 + grows * (count - 1.0)))


def sharing_of(sample: Sample) -> Sharing:
    reads, writes, updates = [], [], {}
    for _, begin, end in sorted(set(sample.memory)):
        first, last = begin // SECTOR_BYTES, -(-end // SECTOR_BYTES)
        read, written, updated = {}, {}, {}
        for number, touched in sample.blocks.items():
            sectors = touched >> SHIFT
            inside = touched[(sectors >= first) & (sectors < last)]
            for flag, found in ((READ, read), (WRITTEN, written), (UPDATED, updated)):
                found[number] = inside[(inside & flag) != 0] >> SHIFT
        most = float(last - first)
        reads.append(_Growth(sample, read, most))
        writes.append(_Growth(sample, written, most))
        sectors = max(_Growth(sample, updated, most).of(sample.total), _far_apart(sample, updated, most))
        if any(len(of) for of in updated.values()):
            every = _union(updated.values())
            updates[begin, end] = sectors, sectors * _different(every >> 2) / len(every)
    return Sharing(tuple(reads), tuple(writes), updates)


def traffic_of(sample: Sample, sharing: Sharing, card: Card, blocks_at_once: int) -> Traffic:
    """blocks_at_once: that the whole GPU holds."""
    scale = sample.scale
    of_global = [one for one in sample.instructions if one.space == "global"]
    loads = sum(one.missed for one in of_global if one.operation == "ld")
    stores = sum(one.sectors for one in of_global if one.operation == "st")
    atomics = sum(one.sectors for one in of_global if one.operation == "atom")
    total = sample.total
    waves = max(1.0, total / blocks_at_once)
    at_once = min(float(total), float(blocks_at_once))
    every = (*sharing.read, *sharing.written)
    of_wave = sum(growth.of(at_once) for growth in every) * SECTOR_BYTES
    everything = sum(growth.of(total) for growth in every) * SECTOR_BYTES
    # What a wave reads again finds it in L2 as long as what was read since then fits.
    pressure = min(of_wave, everything) / card.l2_bytes if waves > 1 else 0.0
    lost = float(np.clip((pressure - _KEPT) / (_LOST - _KEPT), 0.0, 1.0))
    if everything <= _KEPT * card.l2_bytes:
        lost = 0.0

    def moved(growths: tuple[_Growth, ...], most: float = math.inf) -> float:
        sectors = 0.0
        for growth in growths:
            least, each = growth.of(total), growth.of(at_once) * waves
            # Where all of the memory is asked for, somebody wants the second halves.
            whole = min(least * growth.moved_for_one, max(least, growth.most))
            again = lost * max(0.0, each - least) + again_far(growth)
            sectors += whole + min(again, max(0.0, most - least)) * growth.moved_for_one
        return sectors

    def again_far(growth: _Growth) -> float:
        """Sectors that blocks ask for again, far from those that had them: at random, L2 still has the part
        that fits into it; in order, once all of it was read meanwhile, none."""
        if not everything or growth.most * SECTOR_BYTES <= _KEPT * card.l2_bytes:
            return 0.0
        at_random = growth.moved_for_one > 1.5
        fits = card.l2_bytes / everything
        gone = 1.0 - fits if at_random else (1.0 / fits - _KEPT) / (_LOST - _KEPT)
        return max(0.0, growth.asked_for(total) - growth.most) * float(np.clip(gone, 0.0, 1.0))

    def filled() -> float:
        """Sectors that DRAM has to send because only some of their bytes were written, and none were read.
        At most so many bytes were stored: fewer than the sectors have, and some of these are not whole."""
        written = sum(growth.of(total) for growth in sharing.written)
        stored = sum(32.0 * one.requests * one.bytes for one in of_global if one.operation == "st") * scale
        if not written:
            return 0.0
        partly = float(np.clip((1.0 - stored / (written * SECTOR_BYTES)) / _PARTLY, 0.0, 1.0))
        pairs = zip(sharing.read, sharing.written, strict=True)
        return partly * sum(max(0.0, new.of(total) - old.of(total)) for old, new in pairs)

    asked = (loads + atomics) * scale
    # What a block reads again itself, a wave later than before, since all blocks at once read on meanwhile.
    again = max(0.0, loads * scale - sharing.of_block * total)
    lost_again = float(np.clip((of_wave / card.l2_bytes - _KEPT) / (_LOST - _KEPT), 0.0, 1.0))
    read = moved(sharing.read, asked)
    return Traffic(
        asked * SECTOR_BYTES,
        (stores + atomics) * scale * SECTOR_BYTES,
        (max(read, min(read + lost_again * again, asked)) + filled()) * SECTOR_BYTES,
        moved(sharing.written) * SECTOR_BYTES,
        sum(sectors for sectors, _ in sharing.updated.values()),
    )


@dataclass(frozen=True)
class Local:
    """Sectors of local memory that the sample's warps load and store: arrays that registers cannot hold, and
    spills. A warp's lanes have theirs side by side. lost: the part of loads that L1 has not, so that they go
    to L2; stores all do, as those of global memory."""

    read: float
    written: float
    lost: float


def local_of(code: MachineCode, flow: Flow, sample: Sample, card: Card, held: Occupancy) -> Local:
    read = sum(runs * one.bytes for one, runs in flow.executed(code) if one.name == "LDL")
    written = sum(runs * one.bytes for one, runs in flow.executed(code) if one.name == "STL")
    blocks = min(float(held.blocks), math.ceil(sample.total / card.multiprocessors))
    l1_bytes = card.l1_beside(blocks, code.shared_bytes + sample.dynamic_shared_bytes)
    pressure = blocks * sample.threads * code.local_bytes / l1_bytes
    return Local(read, written, float(np.clip((pressure - _KEPT) / (_LOST - _KEPT), 0.0, 1.0)))
