"""Advice in words, from the counts and the prediction of a launch: what costs most, where, and what would
help.

The rules follow a profiler's guided analysis. All their numbers are counted, except times, which are
predicted.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass

SECTOR_BYTES, LANES = 32, 32
# A rule applies if at least this part of a line's requests is needless, and if the line has at least this
# part of the whole launch's requests.
NEEDLESS, OF_THE_LAUNCH = 0.25, 0.05
FEW_LANES = 24  # of a warp
AT_ONE_ADDRESS = 4  # atomics of a warp, on average, from which they are told
AT_ONE_SECTOR = 256  # requests of the whole launch, likewise
FEW_WARPS = 0.5  # of those that a multiprocessor could hold
_VERBS = {"ld": "loads", "st": "stores", "atom": "atomics"}


@dataclass(frozen=True)
class Advice:
    """line: of the source; 0 for the launch as a whole. weight: the part of the launch's sectors, wavefronts
    or time that it concerns, by which advice is sorted. source: the line's text."""

    line: int
    words: str
    weight: float
    file: str = ""
    source: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: {self.source}\n   " if self.line else ""
        return f"{where}{self.words}"


class Advices(tuple):
    """Advice, the weightiest first; a notebook shows it as a list."""

    def __str__(self) -> str:
        if not self:
            return "no rule has anything to say: every request is as small as it can be"
        return "\n".join(f"{number}. {one}" for number, one in enumerate(self, 1))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self:
            return html.escape(str(self))
        items = []
        for one in self:
            where = f"<code>{html.escape(f'{one.line}  {one.source}')}</code><br>" if one.line else ""
            items.append(f"<li style='margin-bottom:.4em'>{where}{html.escape(one.words)}</li>")
        return f"<ol>{''.join(items)}</ol>"


def _at_lines(sample, files) -> Iterator[tuple[tuple, list]]:
    found: dict[tuple, list] = {}
    for one in sample.instructions:
        if one.place.file in files and one.requests:
            key = (one.place.file, one.place.line, one.space, one.operation)
            found.setdefault(key, []).append(one)
    yield from found.items()


def _of_memory(prediction) -> Iterator[Advice]:
    sample = prediction.sample
    of_lines = list(_at_lines(sample, prediction.texts))
    all_sectors = sum(one.sectors for _, ones in of_lines for one in ones) or 1
    all_wavefronts = (
        sum(one.wavefronts for (_, _, space, _), ones in of_lines for one in ones if space == "shared") or 1
    )
    all_requests = sum(one.requests for _, ones in of_lines for one in ones) or 1
    for (file, line, space, operation), ones in of_lines:
        requests = sum(one.requests for one in ones)
        source = prediction.texts[file].splitlines()[line - 1].strip()

        def told(words: str, weight: float, line=line, file=file, source=source) -> Advice:
            return Advice(line, words, weight, file, source)

        if space == "global":
            sectors = sum(one.sectors for one in ones)
            least = sum(max(one.requests, -(-one.addresses * one.bytes // SECTOR_BYTES)) for one in ones)
            needless = sectors - least
            if needless > NEEDLESS * sectors and sectors > OF_THE_LAUNCH * all_sectors:
                yield told(
                    f"its {_VERBS[operation]} ask for {sectors / requests:.3g} sectors in a request where "
                    f"{least / requests:.3g} would hold what the lanes want: {needless / all_sectors:.0%} of "
                    f"all sectors that the kernel asks for are needless here. Give neighbouring lanes "
                    "neighbouring elements, or turn the data round in shared memory.",
                    needless / all_sectors,
                )
        elif space == "shared":
            wavefronts, phases = sum(one.wavefronts for one in ones), sum(one.phases for one in ones)
            more = wavefronts - phases
            if more > NEEDLESS * wavefronts and wavefronts > OF_THE_LAUNCH * all_wavefronts:
                yield told(
                    f"its {_VERBS[operation]} of shared memory take {wavefronts / requests:.3g} "
                    f"wavefronts for a request where {phases / requests:.3g} would do: lanes want "
                    f"different words of one bank. {more / all_wavefronts:.0%} of all wavefronts come from "
                    "that. Let lanes access neighbouring words, or make each row of the array a word longer.",
                    more / all_wavefronts,
                )
        if operation == "atom":
            yield from (told(*each) for each in _of_atomics(prediction, ones, requests / all_requests, space))
        lanes = sum(one.threads for one in ones) / requests
        # The last warps of a grid are not full, so only lines that most warps reach count.
        if lanes < FEW_LANES and requests > OF_THE_LAUNCH * all_requests:
            yield told(
                f"{lanes:.3g} of {LANES} lanes are active in its accesses, on average: the others wait. Let "
                "whole warps take one branch, or give every lane something to do.",
                requests / all_requests * (1 - lanes / LANES),
            )


def _of_atomics(prediction, ones, of_the_launch: float, space: str) -> Iterator[tuple[str, float]]:
    """Atomics of one line that meet at an address, within a warp or from all over the grid."""
    threads, addresses = sum(one.threads for one in ones), sum(one.addresses for one in ones)
    if not addresses or of_the_launch < OF_THE_LAUNCH:
        return
    meet = threads / addresses
    if meet >= AT_ONE_ADDRESS:
        yield (
            f"{meet:.3g} lanes of a warp go to one address here, on average, and one waits for the other. "
            "Let a warp add up first, by shuffles or __reduce_add_sync(), and one lane go to memory.",
            of_the_launch * (1 - 1 / meet),
        )
    terms = prediction.on[0].terms
    if space != "global" or terms is None or not terms.traffic.updated:
        return
    asked = sum(one.sectors for one in ones) * prediction.sample.scale
    each = asked / terms.traffic.updated
    if each >= AT_ONE_SECTOR:
        yield (
            f"{asked:,.0f} requests of atomics go to {terms.traffic.updated:,.0f} sector"
            f"{'s' * (terms.traffic.updated > 1)} of 32 bytes, "
            f"{each:,.0f} to each, one after another. Let a block add up in shared memory, and add to global "
            "memory once.",
            max(of_the_launch, min(1.0, terms.l2 / terms.seconds)),
        )


def _of_the_launch(prediction) -> Iterator[Advice]:
    one, held = prediction.on[0], prediction.occupancy
    terms = one.terms
    if terms is None:
        yield Advice(0, f"a block needs more than a multiprocessor has: {held.limits}", 1.0)
        return
    if one.code.spilled_bytes:
        yield Advice(
            0,
            f"{one.code.spilled_bytes} bytes of each thread do not fit into registers and go to memory. Keep "
            "fewer values at a time, or launch smaller blocks (__launch_bounds__).",
            0.5,
        )
    blocks = prediction.sample.total
    if blocks < one.card.multiprocessors:
        idle = one.card.multiprocessors - blocks
        yield Advice(
            0,
            f"the grid has {blocks:,} blocks, and {one.card.name} has {one.card.multiprocessors} "
            f"multiprocessors: {idle} have nothing to do. Launch more blocks, if there is work for them.",
            idle / one.card.multiprocessors,
        )
    parts = {
        "launch": terms.launch,
        "starts": terms.starts,
        "alone": terms.alone,
        "L2": terms.l2,
        "DRAM": terms.dram,
        **{f"busy {name}": seconds for name, seconds in terms.busy.items()},
    }
    most = max(parts, key=parts.get)
    share = parts[most] / terms.seconds if terms.seconds else 0.0
    if most == "launch":
        yield Advice(
            0,
            f"the launch itself is {share:.0%} of the {terms.seconds * 1e6:.1f} µs. Give a launch more work, "
            "or fuse it with its neighbours.",
            share,
        )
    elif most == "starts":
        yield Advice(
            0,
            f"a GPU starts one block after another, and {blocks:,} take {terms.starts * 1e6:,.1f} of the "
            f"{terms.seconds * 1e6:.1f} µs. Launch larger blocks, or let a thread do more.",
            share,
        )
    elif most == "alone":
        few = (
            f" A multiprocessor holds {held.fraction:.0%} of its warps, limited by "
            f"{', '.join(held.limiter)}: more warps would fill the gaps."
            if held.fraction < FEW_WARPS
            else ""
        )
        yield Advice(
            0,
            "nothing is full: warps wait for their own loads and results. Let a thread have several loads on "
            f"their way at a time, or more warps share the work.{few}",
            share,
        )
    elif most == "DRAM":
        moved = (terms.traffic.dram_read + terms.traffic.dram_written) / 1e6
        yield Advice(
            0,
            f"DRAM is the limit: {moved:,.1f} MB take {terms.dram * 1e6:,.1f} of the "
            f"{terms.seconds * 1e6:,.1f} µs. Only fewer bytes make it faster: a smaller type, or a "
            "fusion that saves a read or a write.",
            share,
        )


def advice_of(prediction) -> Advices:
    """The rules' advice on a prediction's launch on its first GPU."""
    found = [*_of_memory(prediction), *_of_the_launch(prediction)]
    return Advices(sorted(found, key=lambda one: -one.weight))
