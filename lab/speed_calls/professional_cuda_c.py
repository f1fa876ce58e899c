"""deeperlearning/professional-cuda-c-programming: sums of blocks, transpositions, offsets of a book."""

from speed_calls.calls import Timed, floats, i32, integers, zeros

REPOSITORY = "deeperlearning/professional-cuda-c-programming"
N = 1 << 24


def reduction(kernel, each=1):
    return Timed(
        "examples/chapter03/reduceInteger.cu",
        kernel,
        N // 512 // each,
        512,
        lambda: (integers(0, 9, N), zeros(N // 512, dtype=i32), N),
        ladder="sum",
    )


def transposition(kernel, each=1, n=4096):
    return Timed(
        "examples/chapter04/transpose.cu",
        kernel,
        (n // 16 // each, n // 16),
        (16, 16),
        lambda: (zeros(n, n), floats(n, n), n, n),
        ladder="transposition",
    )


def rectangle(kernel, n=4096):
    return Timed(
        "examples/chapter05/transposeRectangle.cu",
        kernel,
        (n // 16, n // 16),
        (16, 16),
        lambda: (zeros(n, n), floats(n, n), n, n),
        ladder="transposition in shared memory",
    )


def offset(kernel, by, each=1):
    return Timed(
        "examples/chapter04/readSegmentUnroll.cu",
        kernel,
        N // 512 // each,
        512,
        lambda: (floats(N), floats(N), zeros(N), N, by),
    )


LAUNCHES = [
    reduction("reduceNeighbored"),
    reduction("reduceNeighboredLess"),
    reduction("reduceInterleaved"),
    reduction("reduceUnrolling2", 2),
    reduction("reduceUnrolling4", 4),
    reduction("reduceUnrolling8", 8),
    transposition("copyRow"),
    transposition("copyCol"),
    transposition("transposeNaiveRow"),
    transposition("transposeNaiveCol"),
    transposition("transposeUnroll4Row", 4),
    transposition("transposeUnroll4Col", 4),
    transposition("transposeDiagonalRow"),
    rectangle("naiveGmem"),
    rectangle("transposeSmem"),
    rectangle("transposeSmemPad"),
    offset("readOffset", 0),
    offset("readOffset", 11),
    offset("readOffsetUnroll4", 11, 4),
]
