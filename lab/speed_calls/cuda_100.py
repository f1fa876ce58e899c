"""w4096/cuda-100: products of halves on CUDA cores, summed in float."""

from speed_calls.calls import at, f16, floats

REPOSITORY = "w4096/cuda-100"
N = 1024


def product(file, kernel, tile, block, template=None):
    return at(f"labs/gemm/{file}.cu", kernel, template=template, ladder="product")[
        (N // tile, N // tile), block
    ](lambda: (N, N, N, 1.0, floats(N, N, dtype=f16), floats(N, N, dtype=f16), 0.5, floats(N, N)))


LAUNCHES = [
    product("01_naive", "kernel1", 16, (16, 16)),
    product("02_tile", "kernel2", 16, (16, 16), (16,)),
    product("02_tile", "kernel2", 32, (32, 32), (32,)),
    product("03_tile_b16x16_t32x32", "gemm_block_tiling_v2", 32, (16, 16), (32, 16, 16)),
    product("04_tile_mnk", "gemm_block_tiling_v3", 64, (16, 16), (64, 64, 16, 16, 16)),
    product("05_tile_mnk_reg", "gemm_block_tiling_v4", 64, (16, 16), (64, 64, 16, 16, 16)),
]
