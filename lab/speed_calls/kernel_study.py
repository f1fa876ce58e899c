"""junstar92/cuda-kernel-study: matrix products whose kernels have a name of their own."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "junstar92/cuda-kernel-study"
N = 2048


def product(file, kernel, tile, block, template=None, shared=0):
    return at(f"08_sgemm/{file}.cuh", kernel, template=template, ladder="product")[
        (N // tile, N // tile), block, shared
    ](lambda: (zeros(N, N), floats(N, N), floats(N, N), N, N, N))


def tiled(depth):
    shared = 4 * ((128 + 4) * depth + depth * 128)
    return product("04_blocktiling_2d", "sgemm_blocktiling_2d", 128, 256, (128, 128, depth, 8, 8, 4), shared)


LAUNCHES = [
    product("01_naive", "sgemm_naive_row", 32, (32, 32)),
    product("01_naive", "sgemm_naive_col", 32, (32, 32)),
    product("02_smem_tiling", "sgemm_smem_tiling", 32, (32, 32)),
    tiled(8),
    tiled(16),
]
