"""philipfabianek/cuda-gemm-from-scratch: its products on CUDA cores."""

from speed_calls.calls import at, floats, up

REPOSITORY = "philipfabianek/cuda-gemm-from-scratch"
N = 2048


def product(file, kernel, tile, threads, template=None):
    return at(f"src/kernels/{file}.cuh", kernel, template=template, ladder="product")[
        (up(N, tile), up(N, tile)), threads
    ](lambda: (N, N, N, 1.0, floats(N, N), floats(N, N), 0.5, floats(N, N)))


LAUNCHES = [
    product("01_naive", "sgemm_naive_kernel", 16, (16, 16)),
    product("02_tiled", "sgemm_tiled_kernel", 16, (16, 16), (16,)),
    product("03_1D_coarsened", "sgemm_1D_coarsened_kernel", 64, 256, (64, 64, 4, 16)),
    product("04_2D_coarsened", "sgemm_2D_coarsened_kernel", 128, 256, (128, 128, 32, 8, 8)),
    product("05_transposed", "sgemm_transposed_kernel", 128, 256, (128, 128, 16, 8, 8)),
    product(
        "06_warptiling", "sgemm_warptiling_kernel", 128, 128, (128, 128, 128, 8, 8, 4, 64, 64, 1, 4, 64, 16)
    ),
]
