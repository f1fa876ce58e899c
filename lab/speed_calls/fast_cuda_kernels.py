"""annanyapr/Fast-CUDA-Kernels: products, without one whose macro lacks parentheses, and softmaxes."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "annanyapr/Fast-CUDA-Kernels"
N, ROWS, COLUMNS = 1024, 8192, 1024


def product(file, kernel, tile, threads):
    make = lambda: (N, N, N, 0.5, floats(N, N), floats(N, N), 3.0, zeros(N, N))  # noqa: E731
    return at(f"GEMM/{file}.cu", kernel, ladder="product")[(N // tile,) * 2, threads](make)


def softmax(file, kernel, grid, shared):
    make = lambda: (floats(ROWS, COLUMNS), zeros(ROWS, COLUMNS), COLUMNS, ROWS * COLUMNS)  # noqa: E731
    return at(f"softmax/{file}.cu", kernel, ladder="softmax")[grid, 256, shared](make)


LAUNCHES = [
    product("gemm_memory_blocktiling", "gemm_2D_blocktiling", 64, 64),
    product("gemm_memory_coalesce", "gemm_memory_coalesce", 32, (32, 32)),
    product("gemm_naive", "gemm_naive", 32, (32, 32)),
    softmax("softmax_online_naive", "soft_max_kernel_naive", ROWS // 256, 0),
    softmax("softmax_online_shared_memory", "soft_max_kernel_shared_memory", ROWS, 2048),
    softmax("softmax_shuffle_instructions", "soft_max_kernel_shuffle", ROWS, 64),
]
