"""stefanind/CUDA-SGEMM: five matrix products, each with one idea more.

One more reads out of bounds, and one does not compile.
"""

from speed_calls.calls import at, floats

REPOSITORY = "stefanind/CUDA-SGEMM"
N = 2048


def product(file, kernel, tile, threads, template=None):
    return at(f"src/kernels/{file}.cuh", kernel, template=template, ladder="product")[
        (N // tile, N // tile), threads
    ](lambda: (N, N, N, 1.0, floats(N, N), floats(N, N), 0.5, floats(N, N)))


LAUNCHES = [
    product("1_naive", "sgemm_naive", 32, (32, 32)),
    product("2_global_mem_coalesce", "sgemm_global_mem_coalesce", 32, 1024, (32,)),
    product("4_1D_blocktiling", "sgemm_1D_blocktiling", 64, 512, (64, 64, 8, 8)),
    product("5_2D_blocktiling", "sgemm_2D_blocktiling", 128, 256, (128, 128, 8, 8, 8)),
    product("6_vectorize", "sgemm_vectorize", 128, 256, (128, 128, 8, 8, 8)),
]
