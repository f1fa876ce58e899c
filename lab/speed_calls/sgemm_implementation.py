"""Huanghongru/SGEMM-Implementation-and-Optimization: four matrix products."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "Huanghongru/SGEMM-Implementation-and-Optimization"
N = 1024


def product(file, kernel, grid, block):
    return at(f"{file}.cu", kernel, template=("float",), ladder="product")[grid, block](
        lambda: (floats(N, N), floats(N, N), zeros(N, N), N, N, N)
    )


LAUNCHES = [
    product("matmul_Naive", "matmul_naive", (N // 16, N // 16), (16, 16)),
    product("matmul_Tiling", "matmul_Tiling", (N // 16, N // 16), (16, 16)),
    product("matmul_CompOpt", "matmul_CompOpt", (N // 64, N // 16), (16, 4)),
    product("matmul_prefetch", "matmul_Prefetch", (N // 64, N // 16), (16, 4)),
]
