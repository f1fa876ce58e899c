"""stevewuwen/learn-cuda: six products."""

from speed_calls.calls import Timed, floats, zeros

REPOSITORY = "stevewuwen/learn-cuda"
N = 1024


def product(file, kernel, tile, block):
    return Timed(
        f"easy/matmul/{file}.cu",
        kernel,
        (N // tile, N // tile),
        block,
        lambda: (floats(N, N), floats(N, N), zeros(N, N), N, N, N),
        ladder="product",
    )


LAUNCHES = [
    product("v1_naive", "matrix_multiplication_kernel", 16, (16, 16)),
    product("v2_shared", "matrix_multiplication_shared_mem", 32, (32, 32)),
    product("v3_1_vl_tc", "matrix_multiplication_optimized", 128, (16, 16)),
    product("v3_vl_tc", "matrix_multiplication_optimized", 64, (16, 16)),
    product("v4_1_pre_vb", "sgemm_double_buffer_t4", 128, 256),
    product("v4_pre_vb", "matrix_multiplication_double_buffer", 128, (16, 16)),
]
