"""SzymonOzog/GPU_Programming: copies and sums with wider loads, matrix products, layers of a network."""

from speed_calls.calls import at, floats, up, zeros

REPOSITORY = "SzymonOzog/GPU_Programming"
N = 1 << 24


def copying(kernel, per_block, wide=1):
    return at("vectorized_bench.cu", kernel, ladder="copy")[N // per_block, 128](
        lambda: (N // wide, floats(N), zeros(N))
    )


def matmul(file, kernel, n=1024):
    return at(f"{file}.cu", kernel, ladder="matmul")[(n // 32, n // 32), (32, 32)](
        lambda: (n, floats(n, n), floats(n, n), zeros(n, n))
    )


def layer(kernel, width, rows, arguments):
    return at("mnist.cu", kernel)[(up(width, 16), up(rows, 16)), (16, 16)](arguments)


LAUNCHES = [
    copying("copy", 128),
    copying("copyh2", 128 * 4, wide=4),
    copying("copy_loop", 128 * 16),
    copying("copy_loop_unrolled", 128 * 16),
    copying("copy_loop_float4", 128 * 16, wide=4),
    at("vectorized_bench.cu", "reduce", ladder="sums")[1024, 128](lambda: (N, floats(N), zeros(1 << 17))),
    at("vectorized_bench.cu", "reduce_float4", ladder="sums")[1024, 128](
        lambda: (N // 4, floats(N), zeros(1 << 19))
    ),
    matmul("matmul_bench", "matmul_elem"),
    matmul("matmul_bench", "tiled_matmul"),
    at("matvec.cu", "matvec")[64, 128](lambda: (8192, floats(8192, 8192), floats(8192), zeros(8192))),
    layer(
        "forward",
        1024,
        1024,
        lambda: (1024, 784, 1024, floats(1024, 784), floats(784, 1024), floats(1024), zeros(1024, 1024)),
    ),
    layer(
        "backward",
        1024,
        1024,
        lambda: (1024, 784, 1024, floats(784, 1024), floats(1024), floats(1024, 784), zeros(1024, 1024)),
    ),
    layer("relu", 4096, 4096, lambda: (4096, 4096, floats(4096, 4096), zeros(4096, 4096))),
    layer("softmax", 1024, 1024, lambda: (1024, 1024, floats(1024, 1024), zeros(1024, 1024))),
]
