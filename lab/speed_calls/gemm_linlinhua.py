"""LinLinHua/CUDA-GEMM-Kernel-Optimization: five products."""

from speed_calls.calls import Timed, floats, zeros

REPOSITORY = "LinLinHua/CUDA-GEMM-Kernel-Optimization"
N = 2048


def product(file, kernel, tile, block):
    return Timed(
        f"src/{file}.cu",
        f"gemm_{kernel}",
        (N // tile, N // tile),
        block,
        lambda: (floats(N, N), floats(N, N), zeros(N, N), N, N, N),
        ladder="product",
    )


LAUNCHES = [
    product("01_gemm_naive", "naive", 16, (16, 16)),
    product("02_gemm_tiled", "tiled", 16, (16, 16)),
    product("03_gemm_regblock", "regblock", 64, 64),
    product("04_gemm_float4", "float4", 128, 256),
    product("06_gemm_float4_ultimate", "final", 64, 64),
]
