"""jeffaa729/cuda_kernel_benchmark: products of matrices, transposes."""

from speed_calls.calls import at, floats, up, zeros

REPOSITORY = "jeffaa729/cuda_kernel_benchmark"
SIDE, WIDE = 2048, 4096


def product(kernel, tile, threads):
    return at("src/gemm.cu", kernel, ladder="product")[(SIDE // tile,) * 2, threads](
        lambda: (floats(SIDE, SIDE), floats(SIDE, SIDE), zeros(SIDE, SIDE), SIDE)
    )


def transpose(kernel):
    return at("src/transpose.cu", kernel, ladder="transpose")[(up(WIDE, 32),) * 2, (32, 32)](
        lambda: (floats(WIDE, WIDE), zeros(WIDE, WIDE), WIDE)
    )


LAUNCHES = [
    product("gemm_naive_kernel", 16, (16, 16)),
    product("gemm_tiled_kernel", 16, (16, 16)),
    product("gemm_tiled_kernel_v2", 64, 512),
    product("gemm_tiled_kernel_v3", 128, 256),
    transpose("transpose_naive_kernel"),
    transpose("transpose_shared_kernel"),
    transpose("transpose_padding_kernel"),
]
