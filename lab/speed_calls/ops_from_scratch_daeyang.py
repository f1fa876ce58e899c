"""DaeyangCho/cuda-ops-from-scratch: products of matrices."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "DaeyangCho/cuda-ops-from-scratch"
SIDE = 2048


def product(file, grid, block, template=None):
    return at(f"matmul/{file}.cu", "matrix_multiplication_kernel", template=template, ladder="product")[
        grid, block
    ](lambda: (floats(SIDE, SIDE), floats(SIDE, SIDE), zeros(SIDE, SIDE), SIDE, SIDE, SIDE))


LAUNCHES = [
    product("10_matmul_warp_tiling", (SIDE // 128, SIDE // 64), 128, (64, 128, 16, 32, 64, 1, 4, 4, 128)),
    product("11_matmul_double_buffering", (SIDE // 256, SIDE // 128), 256),
    product("1_matmul_naive", (SIDE // 16,) * 2, (16, 16)),
    product("2_matmul_gmem_coalesce", (SIDE // 16,) * 2, (16, 16)),
    product("2_matmul_gmem_coalesce_1d", (SIDE // 32,) * 2, 1024),
    product("3_matmul_smem_coalesce", (SIDE // 32,) * 2, 1024),
]
