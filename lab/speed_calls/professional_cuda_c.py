"""deeperlearning/professional-cuda-c-programming: a book's sums of integers and transposes in versions."""

from speed_calls.calls import at, floats, i32, integers, zeros

REPOSITORY = "deeperlearning/professional-cuda-c-programming"
N = 1 << 24
SIDE = 4096


def sums(kernel, each, template=None, block=512):
    return at("examples/chapter03/reduceInteger.cu", kernel, template=template, ladder="sum of integers")[
        N // (each * block), block
    ](lambda: (integers(0, 255, N), zeros(N // (each * block), dtype=i32), N))


def transpose(file, kernel, wide=1, shared=0):
    return at(f"examples/{file}.cu", kernel, ladder=f"transpose, {file}")[
        (SIDE // (16 * wide), SIDE // 16), (16, 16), shared
    ](lambda: (zeros(SIDE, SIDE), floats(SIDE, SIDE), SIDE, SIDE))


LAUNCHES = [
    sums("reduceNeighbored", 1),
    sums("reduceNeighboredLess", 1),
    sums("reduceInterleaved", 1),
    sums("reduceUnrolling2", 2),
    sums("reduceUnrolling4", 4),
    sums("reduceUnrolling8", 8),
    sums("reduceUnrollWarps8", 8),
    sums("reduceCompleteUnrollWarps8", 8),
    sums("reduceCompleteUnroll", 8, (512,)),
    sums("reduceUnrollWarps", 2),
    *(
        transpose("chapter04/transpose", kernel)
        for kernel in ("copyRow", "copyCol", "transposeNaiveRow", "transposeNaiveCol")
    ),
    transpose("chapter04/transpose", "transposeUnroll4Row", 4),
    transpose("chapter04/transpose", "transposeUnroll4Col", 4),
    transpose("chapter04/transpose", "transposeDiagonalRow"),
    transpose("chapter04/transpose", "transposeDiagonalCol"),
    transpose("chapter05/transposeRectangle", "naiveGmem"),
    transpose("chapter05/transposeRectangle", "naiveGmemUnroll", 2),
    transpose("chapter05/transposeRectangle", "transposeSmem"),
    transpose("chapter05/transposeRectangle", "transposeSmemPad"),
    transpose("chapter05/transposeRectangle", "transposeSmemUnroll", 2),
    transpose("chapter05/transposeRectangle", "transposeSmemUnrollPad", 2),
    transpose("chapter05/transposeRectangle", "transposeSmemPadDyn", shared=18 * 16 * 4),
]
