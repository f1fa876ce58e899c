"""The loops of the machine code: which blocks they have, and how often the compiler has unrolled them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from cudasim.predicting.machine_code import EXIT, Block

_ALIKE = 0.9  # of the busiest warp's rounds that warps make on average where all make as many


def _parts(blocks: Sequence[Block], pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """For each block the number of its part: the blocks that lead to each other by these edges."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(pairs)), tuple(zip(*pairs, strict=True))), shape=(len(blocks),) * 2)
    return connected_components(graph, directed=True, connection="strong")[1]


def loops_of(blocks: Sequence[Block]) -> list[int]:
    """For each block the number of the outermost loop around it, or -1 outside of loops."""
    pairs = [(block.index, to) for block in blocks for to in block.follows if to != EXIT]
    if not pairs:
        return [-1] * len(blocks)
    parts = _parts(blocks, pairs)
    sizes = np.bincount(parts)
    own = {block for block, to in pairs if block == to}
    return [int(part) if sizes[part] > 1 or index in own else -1 for index, part in enumerate(parts)]


def nest_of(blocks: Sequence[Block], around: set[int], head: int = -1) -> Iterator[tuple[set[int], set[int]]]:
    """The innermost loops of these blocks, each with the blocks around it: all, or those of the loop that it
    is in, which begins at `head`."""
    inside = around - {head}
    pairs = [(index, to) for index in inside for to in blocks[index].follows if to in inside]
    if not pairs:
        return
    parts = _parts(blocks, pairs)
    for part in {parts[index] for index in inside}:
        own = {index for index in inside if parts[index] == part}
        if len(own) == 1 and own.isdisjoint(blocks[min(own)].follows):
            continue
        heads = {to for of in blocks if of.index not in own for to in of.follows if to in own}
        inner = list(nest_of(blocks, own, heads.pop())) if len(heads) == 1 else []
        yield from inner or [(own, around)]


def reachable_blocks(blocks: Sequence[Block]) -> set[int]:
    found, waiting = set(), [block.index for block in blocks if block.index == 0 or block.is_called]
    while waiting:
        index = waiting.pop()
        if index in found or index == EXIT:
            continue
        found.add(index)
        waiting += blocks[index].follows
    return found


def whole_rounds(
    inside: set[int],
    around: set[int],
    innermost: set[int],
    runs: Mapping[int, int],
    edges: Mapping[tuple[int, int], int],
    moving: Mapping[int, float],
    moved: float,
    entries: float,
    most: float,
) -> Iterator[tuple[dict[int, float], float]]:
    """Of a loop that is unrolled, sums of runs and the most that they are.

    moving: the bytes that blocks move for a line, by the variables of their runs. moved: by all warps.
    entries: how often these come to the loop. most: rounds of the busiest one each time.
    The loop's remainder, before it or behind it, tells what one round is. Unrolled by four it makes five
    rounds by one of its own and one of the remainder, if all warps make five; and never more than there are.
    """
    own = {run: moving[run] for index in inside if (run := runs[index]) in moving}
    at_once = sum(own.values())
    rest = {
        runs[index]: moving[runs[index]]
        for index in sorted(around - inside)
        if moving.get(runs[index], at_once) < at_once
    }
    once = min(rest.values(), default=math.inf)
    if at_once < 2 * once:
        return
    every, at_once = moved / once, at_once / once
    rounds = max(most, every / entries)
    are_equal = every / entries > _ALIKE * rounds and (rounds % 1, at_once % 1) == (0, 0)
    left = rounds % at_once if are_equal else rounds
    ways = [ends for ends in edges if ends[1] in inside and ends[0] not in inside]
    for run in own:
        yield {run: 1.0} | {edges[ends]: -float(rounds // at_once) for ends in ways}, 0.0
    for index in around - inside - innermost:
        if moving.get(runs[index], 0.0) > left * once:
            yield {runs[index]: 1.0}, 0.0
    # Warps come past a loop that is unrolled further, and do not branch around it.
    for source, to in ways:
        if any(moving.get(runs.get(index, -1), 0.0) > max(own.values()) for index in range(source + 1, to)):
            yield {edges[source, to]: 1.0}, 0.0
    if are_equal:
        yield {run: of / once for run, of in rest.items()}, every * left / rounds
        if left and max(rest.values()) <= 2 * once:  # what is unrolled no further begins with one round
            first = next(run for run, of in rest.items() if of == once)
            yield {first: -1.0}, -every / rounds
