"""Drawings of the puzzles about Hopper: where wgmma finds a tile, and a cluster of blocks."""

from __future__ import annotations

from fgn.plot.figures import WRONG_COLOUR
from fgn.plot.sketch import EDGE, PALE, PAPER, TINTS, Sketch

BLUE, YELLOW, GREEN, ROSE = TINTS
PAPER_BEHIND = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.0}


def swizzled_rows() -> Sketch:
    s = Sketch(27, 12.2, "where wgmma looks for the chunks of a row, and the sums of a lane")
    s.say(0.2, 0.6, "the chunk that lies at each place: 8 rows of 128 bytes")
    s.say(0.2, 1.7, "place", size=8)
    for place in range(8):
        s.say(2.7 + place, 1.7, str(place), ha="center", size=8)
    for row in range(8):
        s.say(0.2, 2.7 + row, f"row {row}", size=8)
        for place in range(8):
            chunk = place ^ row
            s.cell(2.2 + place, 2.2 + row, chunk, {0: YELLOW, 1: BLUE}.get(chunk, PALE))
    s.say(0.2, 10.9, "chunk 0 of eight rows: eight different places, so no bank is asked twice", size=8)
    s.say(14, 0.6, "8 columns of y, 16 rows of warp 0: lane, i of sum[i]")
    shown = (0, 1, 2, None, 7)
    for band in range(2):
        for number, row in enumerate(shown):
            y = 2.2 + 4.6 * band + 0.85 * number
            if row is None:
                s.say(16.4, y + 0.45, "…", size=8)
                continue
            s.say(14, y + 0.5, f"row {row + 8 * band}", size=8)
            for column in range(8):
                lane, i = 4 * row + column // 2, 2 * band + column % 2
                tint = YELLOW if lane == 0 else BLUE if lane == 1 else PALE
                s.cell(16.4 + column, y, f"{lane}: {i}", tint, size=6.5)
    s.say(14, 11.7, "the next 8 columns are sum[4] to sum[7] of the same lanes", size=8)
    return s


def four_blocks() -> Sketch:
    s = Sketch(30, 9.4, "a row of 1024 for a cluster of four blocks; time goes down")
    for rank, tint in enumerate((BLUE, YELLOW, GREEN, ROSE)):
        x = 0.5 + 7.4 * rank
        s.row(x, 0.4, ["x"] * 6, tint, size=7)
        s.say(x, 1.9, f"block {rank}: 256 elements", size=8)
        s.say(x, 3.1, "sum of squares", size=8)
        s.cell(x + 5, 2.6, f"s{rank}", tint)
        s.row(x, 5.6, [f"s{other}" for other in range(4)], (BLUE, YELLOW, GREEN, ROSE), size=7)
        s.say(x + 4.2, 6.1, "→ y", size=8)
        for other in range(4):
            if other != rank:
                s.arrow((6 + 7.4 * other, 3.7), (x + other + 0.5, 5.5), width=0.4)
    s.arrow((0.3, 4.3), (29.6, 4.3), EDGE, width=0.2)
    s.say(10, 4.35, "cluster.sync(): all four sums are there", size=8, colour=WRONG_COLOUR, bbox=PAPER_BEHIND)
    s.say(0.5, 7.6, "cluster.sync(): nobody reads any more, so a block may end", size=8, colour=WRONG_COLOUR)
    s.say(
        0.5,
        8.7,
        "s0 to s3 lie in the shared memory of their blocks; each block reads all four of them",
        size=8,
    )
    return s


DRAWINGS = {"wgmma_tile": swizzled_rows, "cluster_norm": four_blocks}
