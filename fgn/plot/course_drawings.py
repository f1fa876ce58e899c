"""More drawings of puzzles: warps and scans, sorts, stencils, sparse products, attention."""

from __future__ import annotations

from fgn.plot.figures import WRONG_COLOUR
from fgn.plot.sketch import EDGE, PALE, PAPER, TINTS, Sketch

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


def kept_in_order() -> Sketch:
    s = Sketch(27, 5.8, "what is kept goes to the place that is the number of kept ones before it")
    x = (3, -1, 4, -2, -5, 9, 2, -6, 5, -3)
    s.say(0, 0.8, "x")
    s.row(3, 0.3, x, [GREEN if v > 0 else PALE for v in x])
    s.say(0, 2.3, "place")
    places = [sum(v > 0 for v in x[:i]) for i in range(len(x))]
    s.row(3, 1.8, [p if v > 0 else "" for v, p in zip(x, places, strict=True)], PAPER)
    s.say(0, 5.0, "y")
    s.row(3, 4.5, [v for v in x if v > 0] + [0] * 5, [GREEN] * 5 + [PALE] * 5)
    for i, v in enumerate(x):
        if v > 0:
            s.arrow((3.5 + i, 2.9), (3.5 + places[i], 4.4))
    s.say(14.5, 2.3, "before it in: earlier rounds + earlier warps + earlier lanes", size=8)
    s.say(14.5, 5.0, "count: 5", size=8)
    return s


def zeros_then_ones() -> Sketch:
    s = Sketch(27, 5.8, "split by the lowest bit: zeros (blue) first, ones behind them, each in their order")
    keys = (5, 2, 7, 4, 4, 1, 6, 3)
    zeros = [k % 2 == 0 for k in keys]
    places = [sum(zeros[:i]) if z else sum(zeros) + i - sum(zeros[:i]) for i, z in enumerate(zeros)]
    s.say(0, 0.8, "key")
    s.row(4, 0.3, keys, [BLUE if z else YELLOW for z in zeros])
    s.say(0, 2.3, "zeros before")
    s.row(4, 1.8, [sum(zeros[:i]) for i in range(8)], PAPER)
    s.row(4, 4.5, [keys[places.index(i)] for i in range(8)], [BLUE] * 4 + [YELLOW] * 4)
    for i, place in enumerate(places):
        s.arrow((4.5 + i, 2.9), (4.5 + place, 4.4))
    s.say(13, 1.3, "a zero: its place is the number of zeros before it", size=8)
    s.say(13, 2.5, "a one: all zeros (4), and the ones before it", size=8)
    s.say(13, 3.7, "ones before thread t: t − zeros before", size=8)
    return s


def bit_by_bit() -> Sketch:
    s = Sketch(27, 7.6, "three splits sort keys of three bits; what a split does not part keeps its order")
    keys = [5, 2, 7, 4, 1, 6, 3, 0]
    for row in range(4):
        s.row(
            4,
            0.3 + 1.9 * row,
            keys,
            [YELLOW if row and k >> (row - 1) & 1 else BLUE if row else PALE for k in keys],
        )
        s.row(15, 0.3 + 1.9 * row, [f"{k:03b}" for k in keys], PAPER, size=6)
        words = "keys" if row == 0 else f"by bit {row - 1}"
        s.say(0, 0.8 + 1.9 * row, words)
        keys = sorted(keys, key=lambda k, bit=row: k >> bit & 1)
    s.say(24, 0.8, "in bits", size=8)
    return s


def places_in_two_lists() -> Sketch:
    s = Sketch(27, 6.4, "a key's place: its own number, and how many of the other list come before it")
    a, b = (2, 5, 5, 9), (1, 5, 6, 8, 9)
    s.say(0, 0.8, "a")
    s.row(2, 0.3, a, BLUE)
    s.say(9, 0.8, "b")
    s.row(11, 0.3, b, YELLOW)
    merged = sorted([(k, 0, i) for i, k in enumerate(a)] + [(k, 1, i) for i, k in enumerate(b)])
    s.say(0, 4.1, "c")
    s.row(2, 3.6, [k for k, _, _ in merged], [YELLOW if which else BLUE for _, which, _ in merged])
    for place, (_, which, i) in enumerate(merged):
        if (which, i) in ((0, 1), (1, 1), (0, 3)):
            s.arrow(((11 if which else 2) + i + 0.5, 1.4), (2.5 + place, 3.5))
    s.say(13, 3.1, "the 5 at number 1 of a: 1 + one of b that is less = place 2", size=8)
    s.say(13, 4.3, "the 5 at number 1 of b: 1 + three of a that are less or equal = place 4", size=8)
    s.say(
        2,
        5.7,
        "equal keys: those of a first, or two threads would write one place",
        size=8,
        colour=WRONG_COLOUR,
    )
    return s


def tile_and_halo() -> Sketch:
    s = Sketch(27, 6.0, "a block of 8 outputs, radius 2: it reads 12 inputs, its own and a halo (yellow)")
    s.say(0, 0.8, "x")
    s.row(3, 0.3, range(20), [BLUE if 6 <= i < 14 else YELLOW if 4 <= i < 16 else PALE for i in range(20)])
    s.say(0, 2.8, "tile")
    s.row(7, 2.3, range(12), [BLUE if 2 <= i < 10 else YELLOW for i in range(12)])
    s.arrow((7.1, 1.4), (7.1, 2.2))
    s.arrow((18.9, 1.4), (18.9, 2.2))
    s.say(0, 5.2, "y")
    s.row(9, 4.7, range(6, 14), GREEN)
    for k in range(5):
        s.arrow((7.5 + k + 1, 3.4), (10.5, 4.6))
    s.say(20, 3.9, "weights 0 to 4", size=8)
    s.say(20, 2.8, "in shared memory", size=8)
    return s


def frame_of_points() -> Sketch:
    s = Sketch(27, 9.2, "a block of 8 × 4 threads needs 10 × 6 points (60); read as one list, 32 at a time")
    s.grid(
        1,
        1.2,
        6,
        10,
        lambda r, c: 10 * r + c,
        lambda r, c: BLUE if 1 <= r <= 4 and 1 <= c <= 8 else YELLOW,
        size=6,
    )
    s.say(1, 0.6, "blue: the block's own; yellow: its frame", size=8)
    s.say(1, 8.2, "points 0 to 31: the first turn; 32 to 59: the second", size=8)
    s.grid(
        16, 2.2, 3, 3, lambda r, c: "", lambda r, c: GREEN if r == c == 1 else BLUE if 1 in (r, c) else PAPER
    )
    s.say(20, 3.7, "a point and its neighbours", size=8)
    return s


_LENGTHS = (3, 0, 6, 1, 2, 1)


def _entries(s: Sketch, x: float, y: float, colour) -> None:
    entry = 0
    for row, length in enumerate(_LENGTHS):
        s.say(x, y + 0.5 + row, f"row {row}", size=8)
        for i in range(length):
            s.cell(x + 3 + i, y + row, entry, colour(row, i), size=7)
            entry += 1


def rows_of_lanes() -> Sketch:
    s = Sketch(27, 9.0, "the entries in CSR, and what a warp does with a row in each lane (6 lanes drawn)")
    _entries(s, 0.5, 0.8, lambda row, i: (BLUE, YELLOW, GREEN, ROSE, PALE, BLUE)[row])
    s.row(3.5, 7.6, (0, 3, 3, 9, 10, 12, 13), PALE, size=7)
    s.say(0.5, 8.1, "start", size=8)
    s.say(14, 0.3, "turn 0 to 5 of the loop, lanes 0 to 5", size=8)
    for turn in range(6):
        s.row(14, 0.8 + turn, [row if turn < length else "" for row, length in enumerate(_LENGTHS)],
              [BLUE if turn < length else PAPER for length in _LENGTHS], size=7)  # fmt: skip
    s.say(21, 3.2, "an empty box is a lane that waits", size=8)
    s.say(
        14, 7.6, "in a turn the lanes read entries that are far from each other", size=8, colour=WRONG_COLOUR
    )
    return s


def lanes_of_a_row() -> Sketch:
    s = Sketch(27, 8.2, "a warp for each row (4 lanes drawn): lanes side by side read entries side by side")
    _entries(s, 0.5, 0.8, lambda row, i: (BLUE, YELLOW, GREEN, ROSE)[i % 4])
    for lane, colour in enumerate((BLUE, YELLOW, GREEN, ROSE)):
        s.cell(14, 1.0 + 1.2 * lane, lane, colour)
        s.say(15.5, 1.5 + 1.2 * lane, f"lane {lane}: entries {lane}, {lane + 4}, … of the row", size=8)
    s.say(14, 6.6, "then five shuffles make one sum of 32 shares", size=8)
    return s


def corrected_sums() -> Sketch:
    s = Sketch(27, 7.4, "a lane's pair (largest, sum of exp(x − largest)) after each x: 1, 3, 2, 5")
    rows = (
        ("1", "1", "e⁰"),
        ("3", "3", "e⁰ · e¹⁻³ + e⁰"),
        ("2", "3", "(what was there) · 1 + e²⁻³"),
        ("5", "5", "(what was there) · e³⁻⁵ + e⁰"),
    )
    for y, word in ((0.6, ("x", "largest", "sum")),):
        for x, text in zip((1, 3.5, 8), word, strict=True):
            s.say(x, y, text, size=8)
    for index, (x, largest, total) in enumerate(rows):
        y = 1.2 + 1.3 * index
        s.cell(1, y, x, BLUE)
        s.cell(3.9, y, largest, YELLOW if x == largest else PALE)
        s.say(8, y + 0.5, total)
    s.say(18, 2.9, "a larger value: all before is multiplied", size=8)
    s.say(18, 3.9, "by one factor, exp(old − new)", size=8)
    s.say(1, 6.9, "two lanes' pairs become one in the same way, each sum with a factor of its own", size=8)
    return s


def one_query() -> Sketch:
    s = Sketch(27, 7.4, "a query, a warp; a lane has a channel (8 drawn); the keys come one after the other")
    s.say(0, 0.8, "q")
    s.row(3, 0.3, [f"q{c}" for c in range(8)], BLUE, size=7)
    s.say(0, 2.9, "k[j]")
    s.row(3, 2.4, [f"k{c}" for c in range(8)], YELLOW, size=7)
    s.arrow((11.3, 1.9), (13.6, 1.9))
    s.say(14, 1.9, "shuffles: one score, in all lanes")
    s.arrow((16, 2.4), (16, 3.6))
    s.say(14, 4.1, "largest, sum, keep, weight")
    s.say(0, 5.0, "v[j]")
    s.row(3, 4.5, [f"v{c}" for c in range(8)], GREEN, size=7)
    s.say(0, 6.7, "out")
    s.row(3, 6.2, ["o"] * 8, ROSE, size=7)
    s.arrow((7, 5.6), (7, 6.1))
    s.say(14, 6.7, "out · keep + weight · v, in each lane for its channel")
    return s


def tiles_of_keys(is_causal: bool = False) -> Sketch:
    title = (
        "queries go down, keys to the right; only tiles up to the diagonal are needed"
        if is_causal
        else "scores of a block's 4 queries (rows) with tiles of 4 keys; no row is ever stored"
    )
    s = Sketch(27, 9.6, title)
    if is_causal:
        s.grid(
            3,
            1.0,
            8,
            8,
            lambda r, c: "",
            lambda r, c: GREEN if c <= r else PALE if c // 4 <= r // 4 else PAPER,
        )
        for block, width in ((0, 4), (1, 8)):
            s.frame(3, 1 + 4 * block, width, 4, EDGE)
            s.say(0, 3 + 4 * block, f"block {block}", size=8)
        s.say(13, 2.4, "green: seen", size=8)
        s.say(13, 3.6, "grey: loaded with the tile, and masked", size=8)
        s.say(13, 4.8, "white: a tile that block 0 need not load", size=8, colour=WRONG_COLOUR)
        return s
    s.say(0, 4.4, "queries")
    s.grid(3, 2.4, 4, 12, lambda r, c: "", lambda r, c: (BLUE, YELLOW, GREEN)[c // 4])
    for tile in range(3):
        s.say(5 + 4 * tile, 1.0, f"tile {tile} of k", ha="center", size=8)
        s.arrow((5 + 4 * tile, 6.5), (5 + 4 * tile, 7.3))
        s.say(5 + 4 * tile, 7.9, f"tile {tile} of v", ha="center", size=8)
    s.say(16, 3.0, "a row: a warp, which has largest, sum and out", size=8)
    s.say(16, 4.2, "in a tile: a lane for each key, for the scores;", size=8)
    s.say(16, 5.2, "then a lane for each channel, for the output", size=8)
    s.say(16, 7.9, "all rows use a tile before the next one comes", size=8)
    return s


def _two_memories(s: Sketch, x: float = 0.5) -> None:
    s.say(x, 0.6, "memory of the host")
    s.say(x + 14, 0.6, "memory of the GPU")
    for y, name in ((1.2, "x"), (4.2, "y")):
        s.row(x, y, [f"{name}{i}" for i in range(6)], BLUE, size=7)
        s.row(x + 14, y, [f"{name}{i}" for i in range(6)], GREEN, size=7)


def there_and_back() -> Sketch:
    s = Sketch(27, 7.0, "a kernel can touch the right side only, host code the left side only")
    _two_memories(s)
    s.arrow((6.7, 1.7), (14.3, 1.7))
    s.say(10.5, 1.2, "cudaMemcpy, HostToDevice", ha="center", size=8)
    s.arrow((17.5, 2.3), (17.5, 4.1))
    s.say(18, 3.2, "the kernel", size=8)
    s.arrow((14.3, 4.7), (6.7, 4.7))
    s.say(10.5, 4.2, "cudaMemcpy, DeviceToHost", ha="center", size=8)
    s.say(0.5, 6.3, "cudaMalloc before, cudaFree after; all sizes in bytes", size=8)
    return s


def _bar(s: Sketch, x: float, y: float, length: int, word: str, colour: str) -> None:
    for part in range(length):
        s.cell(x + part, y, "", colour, edge="none")
    s.say(x + length / 2, y + 0.5, word, ha="center", size=7)


def late_errors() -> Sketch:
    s = Sketch(27, 6.4, "when an error is told; time goes to the right")
    s.say(0, 1.3, "host")
    s.say(0, 3.3, "GPU")
    for x, length, word in ((3, 4, "cudaMalloc"), (8, 4, "copy"), (13, 2, "<<<>>>"), (19, 5, "copy back")):
        _bar(s, x, 0.8, length, word, BLUE)
    _bar(s, 14, 2.8, 5, "the kernel", GREEN)
    s.say(16.7, 4.6, "an assert fails in it …", ha="center", size=8, colour=WRONG_COLOUR)
    s.arrow((17.5, 2.7), (21.5, 1.9), WRONG_COLOUR)
    s.say(19.5, 5.7, "… and the next call that waits says so", size=8, colour=WRONG_COLOUR)
    s.say(3, 4.6, "no memory: told by the call itself", size=8)
    s.say(3, 5.7, "a launch that cannot be: cudaGetLastError() right after it", size=8)
    return s


def host_goes_on() -> Sketch:
    s = Sketch(27, 6.2, "a launch only asks for a kernel: host code goes on; time goes to the right")
    for y, word in ((0.8, "host"), (2.8, "GPU")):
        s.say(0, y + 0.5, word)
    _bar(s, 3, 0.8, 3, "launch", BLUE)
    _bar(s, 6.2, 0.8, 4, "x[0] = -y[0]", ROSE)
    _bar(s, 5, 2.8, 7, "kernel: reads x, writes y", GREEN)
    _bar(s, 15, 0.8, 3, "launch", BLUE)
    _bar(s, 18.2, 0.8, 5, "waits", PALE)
    _bar(s, 23.4, 0.8, 3, "uses y", YELLOW)
    _bar(s, 17, 2.8, 6, "kernel", GREEN)
    s.say(3, 4.9, "at the same time, on the same memory: a race", size=8, colour=WRONG_COLOUR)
    s.say(15, 4.9, "cudaDeviceSynchronize(): the host waits for the kernel", size=8)
    return s


def side_by_side() -> Sketch:
    s = Sketch(28, 9.4, "six pieces; in = copy there, k = kernel, out = copy back; time goes to the right")
    s.say(0, 1.3, "one stream")
    for piece in range(3):
        for part, (word, colour) in enumerate((("in", BLUE), ("k", GREEN), ("out", YELLOW))):
            _bar(s, 5 + 6 * piece + 2 * part, 0.8, 2, f"{word} {piece}", colour)
    for stream in range(2):
        s.say(0, 4.3 + 1.6 * stream, f"stream {stream}")
        for turn in range(3):
            piece = 2 * turn + stream
            for part, (word, colour) in enumerate((("in", BLUE), ("k", GREEN), ("out", YELLOW))):
                _bar(
                    s, 5 + 2 * stream + 6 * turn + 2 * part, 3.8 + 1.6 * stream, 2, f"{word} {piece}", colour
                )
    s.say(5, 2.5, "three pieces, in the time in which two streams do nearly six", size=8)
    s.say(5, 7.9, "before in 2: the host has waited for out 0, for both use the buffers of stream 0", size=8,
          colour=WRONG_COLOUR)  # fmt: skip
    return s


DRAWINGS = {
    "vectors": four_at_once,
    "ballot_rank": votes,
    "grid_sum": sums_of_warps,
    "warp_scan": running_sums,
    "blelloch": up_and_down,
    "scan_blocks": scan_in_three_kernels,
    "compaction": kept_in_order,
    "radix_split": zeros_then_ones,
    "radix_sort": bit_by_bit,
    "merge": places_in_two_lists,
    "convolution": tile_and_halo,
    "heat_step": frame_of_points,
    "csr_by_row": rows_of_lanes,
    "csr_by_warp": lanes_of_a_row,
    "online_softmax": corrected_sums,
    "attention_row": one_query,
    "attention_tiled": tiles_of_keys,
    "host_copies": there_and_back,
    "host_errors": late_errors,
    "host_managed": host_goes_on,
    "host_streams": side_by_side,
    "attention_causal": lambda: tiles_of_keys(is_causal=True),
}
