"""JeanJulesBigeard/cuda-mode: products of matrices by tiles."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "JeanJulesBigeard/cuda-mode"
SIDE = 2048
BOOK = "Programming-Massively-Parallel-Processors-book"
TILED = f"{BOOK}/05_memory_architecture_and_data_locality/5.Memory_architecture_and_data_locality"


def product(file, sizes, shared=0, more=()):
    named = at(f"{TILED}/tiled_matmul_{file}.cu", "matrixMulKernel", ladder="product")
    return named[(SIDE // 16,) * 2, (16, 16), shared](
        lambda: (floats(SIDE, SIDE), floats(SIDE, SIDE), zeros(SIDE, SIDE), *(sizes * (SIDE,)), *more)
    )


LAUNCHES = [
    product("rectangle_with_bound", 3),
    product("rectangle_with_bound_and_dynamic", 3, 2048, (16,)),
    product("square_no_bound", 1),
    product("square_with_bound", 1),
]
