"""tabiszs/cuda-reduce-many: sums of many vectors of doubles, by blocks of several sizes."""

from speed_calls.calls import at, f64, floats, zeros

REPOSITORY = "tabiszs/cuda-reduce-many"
VECTORS, LENGTH, BLOCKS = 1024, 16384, 8


def many(threads, kernel="reduce_many"):
    def arguments():
        memory = floats(VECTORS, LENGTH, dtype=f64), zeros(VECTORS, LENGTH, dtype=f64)
        return (*memory, 1, LENGTH, BLOCKS, LENGTH)

    template = None if kernel == "reduce_many_32" else (threads,)
    grid, shared = VECTORS * BLOCKS, 8 * threads
    return at("reduce_many.cu", kernel, template=template, ladder="sums")[grid, threads, shared](arguments)


def local(threads):
    n = VECTORS * LENGTH
    return at("reduce_local.cu", "__reduce_kernelR__", template=(threads,), ladder="sum")[
        n // (2 * threads), threads, 8 * threads
    ](lambda: (floats(n, dtype=f64), zeros(n // (2 * threads), dtype=f64), n, 0))


LAUNCHES = [
    *(many(threads) for threads in (64, 128, 256, 512)),
    many(32, "reduce_many_32"),
    *(local(threads) for threads in (64, 128, 256, 512)),
]
