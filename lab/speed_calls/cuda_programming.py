"""CoffeeBeforeArch/cuda_programming: a course's kernels, on integers."""

from speed_calls.calls import at, i8, i32, integers, zeros

REPOSITORY = "CoffeeBeforeArch/cuda_programming"
N = 1 << 24


def call(file, kernel, **more):
    return at(f"{file}.cu", kernel, **more)


def matrices(n):
    return integers(0, 100, n, n), integers(0, 100, n, n), zeros(n, n, dtype=i32)


def reduction(name, kernel):
    return call(f"03_sum_reduction/{name}/sumReduction", kernel, ladder="sum")[N // 256, 256](
        lambda: (integers(0, 10, N), zeros(N // 256, dtype=i32))
    )


LAUNCHES = [
    call("01_vector_addition/baseline/vectorAdd", "vectorAdd")[N // 256, 256](
        lambda: (integers(0, 100, N), integers(0, 100, N), zeros(N, dtype=i32), N)
    ),
    call("02_matrix_mul/baseline/mmul", "matrixMul", ladder="matmul")[(32, 32), (32, 32)](
        lambda: (*matrices(1024), 1024)
    ),
    call("02_matrix_mul/tiled/mmul", "matrixMul", ladder="matmul")[(32, 32), (32, 32)](
        lambda: matrices(1024)
    ),
    reduction("diverged", "sumReduction"),
    reduction("bank_conflicts", "sumReduction"),
    reduction("no_confliicts", "sum_reduction"),
    call("04_histogram/global_atomic/histogram", "histogram", ladder="histogram")[4096, 512](
        lambda: (integers(97, 123, N, dtype=i8), zeros(7, dtype=i32), N)
    ),
    call("04_histogram/shmem_atomic/histogram", "histogram", ladder="histogram")[4096, 512](
        lambda: (integers(97, 123, N, dtype=i8), zeros(7, dtype=i32), N)
    ),
    call("05_convolution/1d_naive/convolution", "convolution_1d")[N // 256, 256](
        lambda: (integers(0, 100, N), integers(0, 10, 7), zeros(N, dtype=i32), N, 7)
    ),
]
