"""so298/cuda-gemm-optimization-practice: two products that do not race."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "so298/cuda-gemm-optimization-practice"
N = 1024


def product(file, kernel, grid, block):
    return at(f"src/{file}.cu", kernel, ladder="product")[grid, block](
        lambda: (N, N, N, floats(N, N), floats(N, N), zeros(N, N))
    )


LAUNCHES = [
    product("01-2-non-coalesced", "kernel_non_coalesced", N * N // 256, 256),
    product("01-naive", "kernel_gpu_naive", N * N // 256, 256),
]
