"""1shinham1/CUDA_matmul_opt: products of matrices in float32, and on tensor cores."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "1shinham1/CUDA_matmul_opt"
SIDE, WIDE = 1024, 2048


def product(file, kernel, tile, block, side=SIDE, ladder="product"):
    return at(f"CUDA_matmul_opt/src/{file}.cu", kernel, ladder=ladder)[(side // tile,) * 2, block](
        lambda: (floats(side, side), floats(side, side), zeros(side, side), side, side, side)
    )


def on_tensor_cores(file, kernel, tile, warps):
    return product(file, kernel, tile, (32, warps), WIDE, "product on tensor cores")


LAUNCHES = [
    product("01_gemm_naive", "gemm_naive", 32, (32, 32)),
    product("02_gemm_coalesced", "gemm_coalesced", 32, 1024),
    product("03_gemm_shared_memory", "gemm_smem", 32, 1024),
    product("04_gemm_microtiling", "gemm_microtiling", 64, 64),
    product("05_gemm_vectorization", "gemm_vectorize", 64, 64),
    product("06_gemm_param_tune", "gemm_vectorize", 128, 256),
    on_tensor_cores("10_gemm_tc_naive", "naive_tensor_mat_mul_kernel", 16, 1),
    on_tensor_cores("11_gemm_tc_shared_memory", "shared_mem_tensor_mat_mul_kernel", 32, 4),
    on_tensor_cores("12_gemm_tc_warptiling", "warp_tiling_tensor_mat_mul_kernel", 64, 4),
    on_tensor_cores("13_gemm_tc_vectorization", "warp_tiling_vectorized_tensor_mat_mul_kernel", 64, 4),
    on_tensor_cores("14_gemm_tc_doublebuffer", "tc_vectorized_kernel", 64, 4),
    on_tensor_cores("15_gemm_tc_param_tune", "tc_param_tune_kernel", 128, 4),
]
