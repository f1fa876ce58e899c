"""tabiszs/cuda-reduce-many: sums of many vectors of doubles, by blocks of several sizes."""

from speed_calls.calls import Timed, f64, floats, zeros

REPOSITORY = "tabiszs/cuda-reduce-many"
VECTORS, LENGTH, BLOCKS = 1024, 16384, 8


def many(threads, kernel="reduce_many"):
    def arguments():
        memory = floats(VECTORS, LENGTH, dtype=f64), zeros(VECTORS, LENGTH, dtype=f64)
        return (*memory, 1, LENGTH, BLOCKS, LENGTH)

    template = None if kernel == "reduce_many_32" else (threads,)
    grid, shared = VECTORS * BLOCKS, 8 * threads
    return Timed(
        "reduce_many.cu", kernel, grid, threads, arguments, template=template, shared=shared, ladder="sums"
    )


def local(threads):
    n = VECTORS * LENGTH
    return Timed(
        "reduce_local.cu",
        "__reduce_kernelR__",
        n // (2 * threads),
        threads,
        lambda: (floats(n, dtype=f64), zeros(n // (2 * threads), dtype=f64), n, 0),
        template=(threads,),
        shared=8 * threads,
        ladder="sum",
    )


LAUNCHES = [
    *(many(threads) for threads in (64, 128, 256, 512)),
    many(32, "reduce_many_32"),
    *(local(threads) for threads in (64, 128, 256, 512)),
]
