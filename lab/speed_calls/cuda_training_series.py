"""olcf/cuda-training-series: solutions of a course's exercises."""

from speed_calls.calls import at, f64, floats, i32, integers, zeros

REPOSITORY = "olcf/cuda-training-series"


def call(file, kernel, **more):
    return at(f"exercises/{file}.cu", kernel, **more)


def matmul(file, n=1024):
    return call(file, "mmul")[(n // 32, n // 32), (32, 32)](
        lambda: (floats(n, n), floats(n, n), zeros(n, n), n)
    )


def sums(file, kernel, grid, n=8192):
    return call(file, kernel)[grid, 256](lambda: (floats(n, n), zeros(n), n))


def reduction(kernel, grid, out):
    return call("hw5/reductions", kernel, ladder="reduction")[grid, 256](
        lambda: (floats(8 << 20), zeros(out))
    )


def transposition(file, kernel, m=4096):
    return call(file, kernel)[(m // 32, m // 32), (32, 32)](
        lambda: (m, floats(m, m, dtype=f64), zeros(m, m, dtype=f64))
    )


LAUNCHES = [
    matmul("hw1/matrix_mul_solution"),
    matmul("hw2/matrix_mul_shared_solution"),
    sums("hw4/matrix_sums_solution", "row_sums", 32),
    sums("hw4/matrix_sums_solution", "column_sums", 32),
    sums("hw5/matrix_sums_solution", "row_sums", 8192),
    reduction("atomic_red", 8 << 12, 1),
    reduction("reduce", 640, 640),
    reduction("reduce_a", 640, 1),
    reduction("reduce_ws", 640, 1),
    call("hw6/array_inc_solution", "inc")[256, 256](lambda: (integers(0, 9, 32 << 20, dtype=i32), 32 << 20)),
    transposition("hw8/task1/task1_solution", "naive_cuda_transpose"),
    transposition("hw8/task3/task3_solution", "smem_cuda_transpose"),
]
