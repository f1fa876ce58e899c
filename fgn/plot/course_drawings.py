"""More drawings of puzzles: warps and scans, sorts, stencils, sparse products, attention."""

from __future__ import annotations

from fgn.plot.sketch import EDGE, PALE, PAPER, TINTS, Sketch
from fgn.plot.style import WRONG_COLOUR

BLUE, YELLOW, GREEN, ROSE = TINTS


def four_at_once() -> Sketch:
    s = Sketch(27, 5.6, "a lane's four floats in one access; drawn with 6 lanes and 22 elements")
    s.say(0, 0.7, "x")
    s.row(2, 0.2, range(22), [(BLUE, YELLOW, GREEN, ROSE)[i // 4 % 4] if i < 20 else PALE for i in range(22)])
    for lane in range(5):
        s.frame(2 + 4 * lane, 0.2, 4, 1, EDGE, linewidth=1.8)
        s.say(4 + 4 * lane, 1.8, f"lane {lane}", ha="center", size=8)
    s.say(23, 1.8, "lane 5", ha="center", size=8)
    s.say(2, 3.3, "lanes 0 to 4: one float4 each, so one request of the warp takes 16 bytes a lane", size=8)
    s.say(2, 4.5, "lane 5: two elements are left, and are read one at a time", size=8, colour=WRONG_COLOUR)
    return s


def votes() -> Sketch:
    s = Sketch(
        27, 7.0, "a vote, drawn with 8 lanes: every lane gets all bits, and counts those before its own"
    )
    positive = (1, 0, 1, 1, 0, 1, 0, 0)
    s.say(0, 0.7, "x > 0")
    s.row(4, 0.2, ["yes" if p else "no" for p in positive], [GREEN if p else PALE for p in positive], size=7)
    s.say(13, 0.7, "the question, answered by each lane for its element", size=8)
    s.say(0, 2.5, "bit of the lane")
    s.row(4, 2.0, positive, [GREEN if p else PALE for p in positive])
    s.say(13, 2.5, "what __ballot_sync() gives to every lane (lane 0 is the lowest bit)", size=8)
    s.say(0, 4.3, "before lane 5")
    s.row(4, 3.8, [1] * 5 + [0] * 3, [YELLOW] * 5 + [PAPER] * 3)
    s.say(13, 4.3, "the bits of the lanes before lane 5", size=8)
    s.say(0, 6.1, "rank")
    s.row(4, 5.6, [sum(positive[:i]) for i in range(8)], [BLUE if i == 5 else PAPER for i in range(8)])
    s.say(13, 6.1, "bits that are set in both: 3 for lane 5", size=8)
    return s


def sums_of_warps() -> Sketch:
    s = Sketch(27, 7.0, "a block, drawn with 4 warps of 4 lanes: registers, one barrier, registers")
    colours = (BLUE, YELLOW, GREEN, ROSE)
    for warp, colour in enumerate(colours):
        s.row(0.5 + 5 * warp, 0.6, ["s"] * 4, colour)
        s.arrow((2.5 + 5 * warp, 1.7), (6.5 + warp, 3.2))
    s.say(21, 1.1, "shuffles in each warp", size=8)
    s.row(6, 3.3, ["w0", "w1", "w2", "w3"], colours, size=7)
    s.axis.plot([0.5, 20], [2.6, 2.6], color=WRONG_COLOUR, linewidth=1.5)
    s.say(21, 2.6, "one barrier", size=8, colour=WRONG_COLOUR)
    s.say(21, 3.8, "of_warp, in shared memory", size=8)
    s.arrow((8, 4.4), (8, 5.5))
    s.row(7.5, 5.6, ["+"], PALE)
    s.say(21, 6.1, "shuffles in the first warp", size=8)
    return s


def _steps(s: Sketch, x: float, y: float, distances, right: str = "") -> None:
    """Hillis and Steele's steps among 8 lanes."""
    s.row(x, y, [f"x{i}" for i in range(8)], BLUE, size=7)
    for step, d in enumerate(distances):
        at = y + 2 * step
        s.row(x, at + 2, [f"{max(0, i - 2 * d + 1)}–{i}" if i else "0" for i in range(8)],
              [YELLOW if i >= d else PALE for i in range(8)], size=6)  # fmt: skip
        for i in range(d, 8):
            s.arrow((x + 0.5 + i - d, at + 1), (x + 0.5 + i, at + 2), width=0.7)
        s.say(x + 8.6, at + 1.5, right.format(d=d), size=8)


def running_sums() -> Sketch:
    s = Sketch(27, 7.6, "Hillis and Steele in a warp, drawn with 8 lanes: what each lane's sum has in it")
    _steps(s, 0.5, 0.3, (1, 2, 4), "d = {d}: from the lane {d} places before")
    s.say(18.5, 2.3, "pale: there is none before", size=8)
    return s


def up_and_down() -> Sketch:
    s = Sketch(28, 10.8, "Blelloch's scan of 8 ones: up with sums, a zero at the root, and down")
    rows = [[1] * 8]
    for d in (1, 2, 4):
        now = list(rows[-1])
        for right in range(2 * d - 1, 8, 2 * d):
            now[right] += now[right - d]
        rows.append(now)
    rows.append([*rows[-1][:7], 0])
    for d in (4, 2, 1):
        now = list(rows[-1])
        for right in range(2 * d - 1, 8, 2 * d):
            now[right - d], now[right] = now[right], now[right - d] + now[right]
        rows.append(now)
    words = (
        "s",
        "up, d = 1",
        "up, d = 2",
        "up, d = 4",
        "s[7] = 0",
        "down, d = 4",
        "down, d = 2",
        "down, d = 1",
    )
    for index, (row, word) in enumerate(zip(rows, words, strict=True)):
        before = rows[index - 1] if index else row
        changed = [a != b for a, b in zip(row, before, strict=True)]
        colour = GREEN if index < 4 else ROSE if index == 4 else YELLOW
        s.say(0, 0.8 + 1.25 * index, word, size=8)
        s.row(5, 0.3 + 1.25 * index, row, [colour if c else PALE for c in changed])
    s.say(14.5, 2.7, "7 additions in three steps: fewer threads in each", size=8)
    s.say(14.5, 6.5, "the pair (left, right) becomes (right, left + right):", size=8)
    s.say(14.5, 7.6, "7 additions, more threads in each step", size=8)
    s.say(14.5, 9.6, "the last row: the sum of what stands before each element", size=8)
    return s


def scan_in_three_kernels() -> Sketch:
    s = Sketch(
        28, 7.6, "three kernels, drawn with blocks of 4 ones: the next one begins when all blocks are done"
    )
    colours = (BLUE, YELLOW, GREEN)
    for block, colour in enumerate(colours):
        s.row(4 + 5 * block, 0.3, [1] * 4, colour)
        s.arrow((6 + 5 * block, 1.4), (8.5 + 2 * block, 2.1))
        s.row(8 + 2 * block, 2.2, [4], colour)
        s.arrow((8.5 + 2 * block, 3.3), (8.5 + 2 * block, 4.0))
        s.row(8 + 2 * block, 4.1, [4 * block], PALE)
        s.arrow((8.5 + 2 * block, 5.2), (6 + 5 * block, 5.9))
        s.row(4 + 5 * block, 6.0, [4 * block + i + 1 for i in range(4)], colour)
    for y, word, says in (
        (0.8, "x", ""),
        (2.7, "sums", "1: a sum for each block"),
        (4.6, "before", "2: one block scans the sums"),
        (6.5, "y", "3: its own scan, and what comes before"),
    ):
        s.say(0, y, word)
        s.say(19, y, says, size=8)
    return s


DRAWINGS = {
    "vectors": four_at_once,
    "ballot_rank": votes,
    "grid_sum": sums_of_warps,
    "warp_scan": running_sums,
    "blelloch": up_and_down,
    "scan_blocks": scan_in_three_kernels,
}
