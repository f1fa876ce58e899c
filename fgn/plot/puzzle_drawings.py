"""A drawing for each puzzle: which thread works on which element, and where the element is. Sizes are smaller
than in the task."""

from __future__ import annotations

from matplotlib.figure import Figure

from fgn.plot import course_drawings, hopper_drawings
from fgn.plot.figures import WRONG_COLOUR
from fgn.plot.sketch import EDGE, PALE, PAPER, TINTS, Sketch

BLUE, YELLOW, GREEN, ROSE = TINTS


def draw(name: str) -> Figure:
    """The drawing of the puzzle of this name."""
    return DRAWINGS[name]().done()


def one_element_each() -> Sketch:
    s = Sketch(20, 5.2, "one thread for each element")
    s.say(0, 0.5, "x")
    s.row(3, 0, [f"x[{i}]" for i in range(8)], PALE, size=7)
    s.say(0, 2.5, "threadIdx.x")
    s.row(3, 2, range(8), BLUE)
    s.say(0, 4.5, "y")
    s.row(3, 4, [f"y[{i}]" for i in range(8)], PALE, size=7)
    for i in range(8):
        s.arrow((3.5 + i, 1), (3.5 + i, 2))
        s.arrow((3.5 + i, 3), (3.5 + i, 4))
    s.say(12, 2.5, "each reads one element and writes one")
    return s


def threads_too_many() -> Sketch:
    s = Sketch(24, 4.6, "11 elements, blocks of 8 threads: five threads have nothing to do")
    s.say(0, 0.5, "x")
    s.row(3, 0, range(11), PALE)
    s.say(0, 2.5, "threadIdx.x")
    s.row(3, 2, range(8), BLUE)
    s.row(11, 2, range(8), [YELLOW] * 3 + [PAPER] * 5)
    for i in range(16):
        s.arrow((3.5 + i, 2), (3.5 + i, 1.05), WRONG_COLOUR if i >= 11 else "#4A5568")
    s.say(14.2, 0.5, "not x: out of bounds", colour=WRONG_COLOUR)
    s.say(7, 3.5, "blockIdx.x = 0", ha="center")
    s.say(15, 3.5, "blockIdx.x = 1", ha="center")
    return s


def loop_over_the_grid() -> Sketch:
    s = Sketch(26, 4.6, "8 threads, 21 elements: each goes on by as many elements as there are threads")
    s.say(0, 0.5, "element")
    s.row(3, 0, range(21), [(BLUE, YELLOW, GREEN)[i // 8] for i in range(21)])
    s.say(0, 1.8, "thread")
    s.row(3, 1.3, [i % 8 for i in range(21)], PAPER)
    for step in (0, 8):
        s.arrow((5.5 + step, 2.4), (13.5 + step, 2.4), bend=0.25)
    s.say(5, 4.1, "first", ha="left")
    s.say(13, 4.1, "second", ha="left")
    s.say(19.4, 4.1, "third time around: threads 5 to 7 are done", ha="left", size=8)
    return s


def lanes_in_a_matrix() -> Sketch:
    s = Sketch(27, 8.0, "neighbouring lanes, and where their elements lie; a sector is 8 floats")
    for x, words, by_rows in (
        (0.5, "now: a sector for each lane", False),
        (14, "better: one sector for 8 lanes", True),
    ):
        s.say(x, 0.6, words)

        def lane(row, column, by_rows=by_rows):
            return (column if row == 0 else "") if by_rows else (row if column == 0 else "")

        def colour(row, column, by_rows=by_rows):
            if (row if by_rows else column) == 0:
                return BLUE
            return PALE if column // 8 == 0 and not by_rows else PAPER

        s.grid(x, 1.3, 6, 12, lane, colour)
        for row in range(1 if by_rows else 6):
            s.frame(x, 1.3 + row, 8, 1)
    return s


def lanes_asleep() -> Sketch:
    s = Sketch(27, 7.4, "what a warp executes, drawn with 8 lanes: each row of boxes is one instruction")
    for x, words, is_apart in ((0.5, "now: two branches", True), (14.5, "better: one way for all", False)):
        s.say(x, 0.5, words)
        rows = ("if", "even", "odd", "together") if is_apart else ("sign", "partner", "own", "store")
        for row, what in enumerate(rows):
            awake = [not is_apart or row in (0, 3) or (lane % 2 == 0) == (row == 1) for lane in range(8)]
            s.row(
                x + 3,
                1.2 + 1.2 * row,
                [lane if up else "" for lane, up in enumerate(awake)],
                [BLUE if up else PAPER for up in awake],
            )
            s.say(x, 1.7 + 1.2 * row, what, size=8)
    s.say(0.5, 6.7, "an empty box is a lane that waits", size=8)
    s.say(14.5, 6.7, "the same instructions, 8 lanes in each", size=8)
    return s


def through_a_tile() -> Sketch:
    s = Sketch(27, 8.6, "rows are read, rows are written; the tile turns them")
    for x, words in ((0.5, "x"), (9.5, "tile, in shared memory"), (20, "y")):
        s.say(x, 0.5, words)
    s.grid(0.5, 1.2, 6, 4, colour=lambda r, c: BLUE if r == 1 else PALE)
    s.grid(9.5, 1.2, 6, 4, colour=lambda r, c: BLUE if r == 1 else YELLOW if c == 2 else PALE)
    s.grid(20, 1.2, 4, 6, colour=lambda r, c: YELLOW if r == 2 else PALE)
    s.arrow((4.7, 2.7), (9.3, 2.7))
    s.say(5.1, 2.1, "a warp reads", size=8)
    s.arrow((13.7, 5.2), (19.8, 3.9))
    s.say(14.2, 5.7, "a warp writes", size=8)
    s.say(9.5, 8.0, "__syncthreads() between the two", size=8)
    return s


def banks_of_a_tile() -> Sketch:
    s = Sketch(
        27, 10.6, "the bank of each word, drawn with 8 banks; a column in one bank is read word after word"
    )
    s.say(0.5, 0.5, "rows of 8 words")
    s.grid(0.5, 1.2, 8, 8, lambda r, c: c, lambda r, c: YELLOW if c == 2 else PALE)
    s.say(0.5, 9.9, "column 2: bank 2, eight times", size=8, colour=WRONG_COLOUR)
    s.say(14, 0.5, "what is wanted: all banks in a row and in a column")
    s.grid(
        14,
        1.2,
        8,
        8,
        lambda r, c: c if r == 0 else "?" if c == 2 else "",
        lambda r, c: YELLOW if c == 2 else PALE,
    )
    s.say(14, 9.9, "column 2: eight different banks", size=8)
    return s


def _tree(title: str, words) -> Sketch:
    s = Sketch(26, 8.4, title)
    for level, count in enumerate((8, 4, 2, 1)):
        y = 0.3 + 2.2 * level
        s.row(
            1,
            y,
            [f"s{i}" if level == 0 else "+" for i in range(count)],
            (BLUE, YELLOW, GREEN, ROSE)[level],
            size=8,
        )
        s.row(1 + count, y, [""] * (8 - count), PALE)
        if level < 3:
            for i in range(count // 2):
                s.arrow((1.5 + i, y + 1), (1.5 + i, y + 2.2))
                s.arrow((1.5 + i + count // 2, y + 1), (1.6 + i, y + 2.2))
            s.say(10, y + 1.6, words(count // 2))
    s.say(10, 7.4, "the sum")
    return s


def tree_of_shares() -> Sketch:
    return _tree(
        "8 shares become one sum in 3 steps",
        lambda half: f"threads 0 to {half - 1} add share t + {half} to share t; then a barrier for all"
        if half > 1 else "thread 0 adds share 1 to share 0; then a barrier for all",
    )  # fmt: skip


def tree_of_registers() -> Sketch:
    return _tree(
        "8 lanes of a warp: each gets the register of the lane d further up",
        lambda half: f"__shfl_down_sync, d = {half}",
    )


def counters() -> Sketch:
    s = Sketch(27, 7.0, "each block counts on its own, and adds its counters to the global ones at the end")
    s.say(0, 0.7, "x")
    s.row(2, 0.2, [3, 1, 3, 3], BLUE)
    s.row(7, 0.2, [0, 3, 1, 1], YELLOW)
    s.say(12.5, 0.7, "two blocks, their elements")
    for x, own, colour in ((2, [0, 1, 0, 3], BLUE), (7, [1, 2, 0, 1], YELLOW)):
        s.row(x, 2.6, own, colour)
        s.arrow((x + 2, 1.3), (x + 2, 2.5))
        s.arrow((x + 2, 3.7), (6.5, 5.1))
    s.say(12.5, 3.1, "own[0] to own[3], in shared memory: many atomics, cheap")
    s.row(4.5, 5.2, [1, 3, 0, 4], GREEN)
    s.say(12.5, 5.7, "counts, in global memory: one atomic for each block and counter")
    s.say(0, 3.1, "own")
    s.say(0, 5.7, "counts")
    return s


def three_loops_over_a_row() -> Sketch:
    s = Sketch(26, 6.4, "a row, a warp: three loops and two reductions whose result every lane has")
    for y, words, colour in (
        (0.2, "largest value of the lane → of the warp", BLUE),
        (2.2, "sum of exp(x − largest) of the lane → of the warp", YELLOW),
        (4.2, "exp(x − largest) / sum", GREEN),
    ):
        s.row(0.5, y, [f"l{i % 4}" for i in range(11)], colour, size=8)
        s.say(12.5, y + 0.5, words)
        if y < 4:
            s.arrow((6, y + 1.1), (6, y + 1.9))
    s.say(0.5, 5.8, "l0 to l3: the lane that has the column, drawn with 4 lanes", size=8)
    return s


def groups_of_samples() -> Sketch:
    s = Sketch(
        27, 6.2, "3 samples, 3 groups of 4 channels: a mean and a variance for each colour in each row"
    )
    s.say(0, 0.6, "thread")
    s.grid(
        3,
        1.2,
        3,
        12,
        lambda r, c: 3 * r + c // 4 if c % 4 == 0 else "",
        lambda r, c: (BLUE, YELLOW, GREEN)[c // 4],
    )
    for row in range(3):
        for group in range(3):
            s.frame(3 + 4 * group, 1.2 + row, 4, 1, "#31688E", linewidth=1.5)
        s.say(0, 1.7 + row, f"sample {row}", size=8)
    s.row(3, 4.8, [f"w{c}" for c in range(12)], PALE, size=7)
    s.say(15.5, 5.3, "weight and bias: one for each channel", size=8)
    s.say(15.5, 2.6, "the number is that of the thread", size=8)
    return s


def registers_of_lanes() -> Sketch:
    s = Sketch(
        27, 5.4, "a group of 14 channels, drawn with 4 lanes: lane l keeps channels l, l + 4, l + 8, l + 12"
    )
    colours = [(BLUE, YELLOW, GREEN, ROSE)[c // 4] for c in range(14)]
    s.say(0, 0.8, "x")
    s.row(3, 0.3, range(14), colours)
    for lane in range(4):
        s.say(3 + 6 * lane, 2.6, f"lane {lane}", size=8)
        channels = [lane + 4 * i for i in range(4)]
        s.row(
            3 + 6 * lane, 3.1, [c if c < 14 else "–" for c in channels],
            [colours[c] if c < 14 else PAPER for c in channels],
        )  # fmt: skip
    s.say(0, 3.6, "v[0] … v[3]", size=8)
    s.say(3, 4.9, "a lane without a channel must not count", size=8, colour=WRONG_COLOUR)
    return s


def teams_of_lanes() -> Sketch:
    s = Sketch(33, 5.2, "a warp is four teams of 8 lanes, and each team has a group")
    s.row(0.5, 1.2, range(32), [(BLUE, YELLOW, GREEN, ROSE)[i // 8] for i in range(32)], size=7)
    for team in range(4):
        s.say(4.5 + 8 * team, 0.6, f"group {team}", ha="center")
    for lane, other in ((0, 4), (1, 3), (2, 3)):
        s.arrow((1 + lane, 2.3), (1 + other, 2.3), bend=0.45)
        s.arrow((1 + other, 2.3), (1 + lane, 2.3), bend=-0.45)
    s.say(9, 3.6, "exchanges with the distances 4, 2, 1 stay inside the team; 8 and 16 leave it")
    return s


def merged_moments() -> Sketch:
    s = Sketch(26, 6.6, "Welford inside a lane, Chan between lanes")
    for y, lane, colour in ((0.3, "lane 0", BLUE), (2.3, "lane 1", YELLOW)):
        s.say(0, y + 0.5, lane)
        s.row(2.5, y, ["x", "x", "x", "x"][: 4 if lane == "lane 0" else 3], colour)
        s.arrow((6.7, y + 0.5), (9, y + 0.5))
        s.say(9.3, y + 0.5, "n, m, M" + (" = 4, …" if lane == "lane 0" else " = 3, …"))
        s.arrow((14.2, y + 0.5), (16.5, 2.2 if lane == "lane 0" else 2.4))
    s.say(16.8, 2.3, "n₁ + n₂ = 7, m, M")
    s.say(
        0, 4.6, "n: how many values    m: their mean    M: the sum of their squared differences to m", size=8
    )
    s.say(0, 5.7, "a lane without a value has n = 0, and must change nothing", size=8, colour=WRONG_COLOUR)
    return s


def _factors(title: str, height: float = 8.6) -> Sketch:
    s = Sketch(27, height, title)
    s.say(0.5, 0.5, "x: rows × inner")
    s.say(9.5, 0.5, "w: columns × inner")
    s.say(18.5, 0.5, "y: rows × columns")
    return s


def row_times_row() -> Sketch:
    s = _factors("an element of y is a row of x times a row of w")
    s.grid(0.5, 1.2, 6, 6, colour=lambda r, c: BLUE if r == 2 else PALE)
    s.grid(9.5, 1.2, 7, 6, colour=lambda r, c: YELLOW if r == 4 else PALE)
    s.grid(18.5, 1.2, 6, 7, colour=lambda r, c: GREEN if (r, c) == (2, 4) else PALE)
    s.say(18.5, 7.8, "row 2, column 4", size=8)
    return s


def tiles_along_k() -> Sketch:
    s = _factors("a block has a tile of y; it goes along k, a tile of x and a tile of w at a time")
    s.grid(0.5, 1.2, 6, 6, colour=lambda r, c: (BLUE if c // 2 == 1 else "#D9E4EC") if r // 2 == 1 else PAPER)
    s.grid(
        9.5, 1.2, 6, 6, colour=lambda r, c: (YELLOW if c // 2 == 1 else "#FBF0D5") if r // 2 == 2 else PAPER
    )
    s.grid(18.5, 1.2, 6, 6, colour=lambda r, c: GREEN if (r // 2, c // 2) == (1, 2) else PAPER)
    s.arrow((0.5, 7.7), (6.5, 7.7))
    s.arrow((9.5, 7.7), (15.5, 7.7))
    s.say(3, 8.2, "k", size=8)
    s.say(12, 8.2, "k", size=8)
    return s


def outputs_of_a_thread() -> Sketch:
    s = Sketch(27, 9.2, "8 × 8 outputs, drawn with 2 × 2 threads of 16 outputs each")
    s.grid(
        0.5,
        1,
        8,
        8,
        lambda r, c: f"{r % 2},{c % 2}",
        lambda r, c: BLUE if (r % 2, c % 2) == (0, 0) else PAPER,
        size=7,
    )
    s.say(10, 1.6, "r, c: the thread (threadIdx.y, threadIdx.x) that computes it")
    s.say(10, 3.4, "For each k the blue thread reads")
    s.say(10, 4.5, "4 values of x (its rows) and 4 of w (its columns),")
    s.say(10, 5.6, "and makes 16 multiply-adds of these 8.")
    s.say(10, 7.4, "Lanes side by side have columns side by side.")
    return s


def two_stages() -> Sketch:
    s = Sketch(27, 6.8, "time goes to the right; one barrier (red) between two steps")
    s.say(0, 1.5, "stage 0")
    s.say(0, 3.5, "stage 1")
    steps = [("load 0", ""), ("use 0", "load 1"), ("load 2", "use 1"), ("use 2", "load 3"), ("", "use 3")]
    for index, (first, second) in enumerate(steps):
        for y, words in ((1, first), (3, second)):
            if words:
                for part in range(4):
                    s.cell(3.5 + 4.6 * index + part, y, "", BLUE if "load" in words else GREEN, edge="none")
                s.say(5.5 + 4.6 * index, y + 0.5, words, ha="center")
        if index:
            s.axis.plot([3.2 + 4.6 * index] * 2, [0.6, 4.4], color=WRONG_COLOUR, linewidth=1.5)
    s.say(3.5, 5.6, "in each step one stage is used while the next tiles are loaded into the other", size=8)
    return s


def after_the_sum() -> Sketch:
    s = Sketch(27, 5.4, "the epilogue works in registers, between the last multiply-add and the only store")
    boxes = (("sum over k", BLUE), ("+ bias[column]", YELLOW), ("mish", YELLOW), ("store to y", GREEN))
    for index, (words, colour) in enumerate(boxes):
        for part in range(5):
            s.cell(0.5 + 6.6 * index + part, 1, "", colour, edge="none")
        s.say(3 + 6.6 * index, 1.5, words, ha="center")
        if index < 3:
            s.arrow((5.6 + 6.6 * index, 1.5), (7.0 + 6.6 * index, 1.5))
    s.say(
        0.5,
        3.4,
        "As kernels of their own, bias and mish would each read y from memory and write it back.",
        size=8,
    )
    return s


def norm_in_a_warp() -> Sketch:
    s = Sketch(28, 7.4, "a block: 4 rows, a group of 8 channels; a warp has a row, a lane a channel")
    s.grid(3.5, 1.2, 4, 8, lambda r, c: c if r == 1 else "", lambda r, c: BLUE if r == 1 else PALE)
    for row in range(4):
        s.say(0, 1.7 + row, f"warp {row}", size=8)
    s.arrow((11.7, 2.7), (14, 2.7))
    s.say(14.3, 2.7, "mean and variance of the 8 sums of the row:")
    s.say(14.3, 3.8, "two reductions by shuffles")
    s.say(3.5, 6.3, "lanes have columns of y: the sums of one row lie in one warp's registers", size=8)
    return s


def fragments() -> Sketch:
    s = Sketch(
        36, 19.4, "lane and register of every element; lanes 0 to 3 (blue) have g = 0, lane 5 is yellow"
    )

    def colour(lane):
        return YELLOW if lane == 5 else BLUE if lane < 4 else PAPER

    def of_x(row, k):
        return row % 8 * 4 + k % 4, row // 8 + 2 * (k // 4)

    def of_w(row, k):
        return row * 4 + k % 4, k // 4

    def of_y(row, column):
        return row % 8 * 4 + column // 2, row // 8 * 2 + column % 2

    for x, name, rows, place in ((1.6, "a", 16, of_x), (13.6, "b", 8, of_w), (25.6, "sum", 16, of_y)):
        titles = {"a": "a: x, 16 rows × 8 k", "b": "b: w, 8 rows × 8 k", "sum": "sum: y, 16 rows × 8 columns"}
        s.say(x, 0.6, titles[name])
        s.grid(
            x, 2.2, rows, 8, lambda r, c, of=place: "{}:{}".format(*of(r, c)),
            lambda r, c, of=place: colour(of(r, c)[0]), size=6.5,
        )  # fmt: skip
        for c in range(8):
            s.say(x + c + 0.5, 1.7, c, size=7, ha="center")
        for r in range(rows):
            s.say(x - 0.3, 2.7 + r, r, size=7, ha="right")
    s.say(13.6, 11.5, "5:2 is lane 5, register 2", size=8)
    s.say(13.6, 12.6, "g = lane / 4, t = lane % 4", size=8)
    return s


def sums_in_place() -> Sketch:
    s = Sketch(26, 5.2, "the step d = 1: thread i adds word i − 1 to word i")
    s.say(0, 0.8, "s")
    s.row(3, 0.3, [f"s[{i}]" for i in range(8)], [PALE, YELLOW, *([PALE] * 6)], size=7)
    s.say(0, 3.3, "thread")
    s.row(3, 2.8, range(8), BLUE)
    for i in range(1, 8):
        s.arrow((3.35 + i, 2.8), (2.75 + i, 1.35))
        s.arrow((3.65 + i, 2.8), (3.65 + i, 1.35), WRONG_COLOUR if i == 1 else "#4A5568")
    s.say(12, 0.9, "s[1]: thread 1 writes it, thread 2 reads it.", colour=WRONG_COLOUR)
    s.say(12, 2.0, "Which comes first?", colour=WRONG_COLOUR)
    return s


def lanes_without_elements() -> Sketch:
    s = Sketch(33, 4.8, "n = 20: lanes 20 to 31 have no element, and the mask names them all the same")
    s.say(0, 0.4, "lane", size=8)
    s.row(0.5, 0.9, range(32), [BLUE] * 20 + [PAPER] * 12, size=7)
    s.say(0, 2.5, "mask 0xffffffff", size=8)
    s.row(0.5, 3.0, [1] * 32, [PALE] * 20 + [YELLOW] * 12, size=7)
    s.say(20.6, 4.4, "who waits for these?", size=8, colour=WRONG_COLOUR)
    return s


def float4s_of_a_row() -> Sketch:
    s = Sketch(28, 6.4, "a row: a float4 for each thread; a warp's sum by shuffles, 4 sums in shared memory")
    for thread in range(6):
        s.row(0.5 + 4 * thread, 0.4, ["x", "y", "z", "w"], (BLUE, YELLOW)[thread % 2], size=7)
        s.say(2.5 + 4 * thread, 1.9, f"thread {thread}", ha="center", size=8)
    s.say(25, 0.9, "…")
    s.row(8.5, 3.6, ["w0", "w1", "w2", "w3"], GREEN, size=8)
    for warp, x in enumerate((2.5, 8, 14, 20)):
        s.arrow((x, 2.4), (9 + warp, 3.5))
    s.say(13.2, 4.1, "the sums of 4 warps: every thread adds them up after one barrier", size=8)
    s.say(0.5, 5.8, "x + residual stays in registers from the first line to the last", size=8)
    return s


def ring_of_stages() -> Sketch:
    tiles, stages = range(10), 3
    colours = [(BLUE, YELLOW, GREEN)[tile % stages] for tile in tiles]
    s = Sketch(
        24,
        7.4,
        "each tile goes through the next stage; a round of the ring later, the parity is the other one",
    )
    s.say(0, 0.5, "tile of the block")
    s.row(9, 0, tiles, PALE)
    s.say(0, 2.1, "stage")
    s.row(9, 1.6, [tile % stages for tile in tiles], colours)
    s.say(0, 3.7, "producer waits for empty, parity")
    s.row(9, 3.2, [(tile // stages + 1) % 2 for tile in tiles], colours)
    s.say(0, 6.5, "consumers wait for full, parity")
    s.row(9, 6, [tile // stages % 2 for tile in tiles], colours)
    for tile in tiles[:-stages]:
        s.arrow((9.5 + tile, 6), (9.5 + tile + stages, 4.2))
    s.frame(9, 3.2, 3, 1, EDGE, linewidth=1.6)
    s.say(19.4, 3.7, "the first three return at once", size=8)
    s.say(19.4, 5.1, "arrows: all have arrived at empty", size=8)
    return s


DRAWINGS = {
    "map": one_element_each,
    "guard": threads_too_many,
    "grid_stride": loop_over_the_grid,
    "butterfly": lanes_asleep,
    "coalescing": lanes_in_a_matrix,
    "transpose": through_a_tile,
    "padding": banks_of_a_tile,
    "block_reduction": tree_of_shares,
    "warp_shuffle": tree_of_registers,
    "histogram": counters,
    "softmax_row": three_loops_over_a_row,
    "group_norm_naive": groups_of_samples,
    "group_norm_once": registers_of_lanes,
    "group_norm_teams": teams_of_lanes,
    "welford_chan": merged_moments,
    "gemm_naive": row_times_row,
    "gemm_tiled": tiles_along_k,
    "register_tile": outputs_of_a_thread,
    "double_buffer": two_stages,
    "epilogue": after_the_sum,
    "fused_norm": norm_in_a_warp,
    "mma_tile": fragments,
    "tma_ring": ring_of_stages,
    "fix_the_race": sums_in_place,
    "fix_the_bank_conflict": banks_of_a_tile,
    "fix_the_mask": lanes_without_elements,
    "beat_the_budget": float4s_of_a_row,
} | (course_drawings.DRAWINGS | hopper_drawings.DRAWINGS)
