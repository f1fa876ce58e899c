"""AyakaGEMM/Hands-on-GEMM: float32 matrix products with tiles of 128 × 128."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "AyakaGEMM/Hands-on-GEMM"
N = 2048


def sgemm(name):
    return at(f"src/cuda/{name}_gemm.cu", "matrixMul", ladder="sgemm")[(N // 128, N // 128), (16, 16)](
        lambda: (floats(N, N), floats(N, N), zeros(N, N), N, N, N, 1.0, 0.0)
    )


LAUNCHES = [
    sgemm("shared_mem"),
    sgemm("better_shared_mem"),
    sgemm("split_thread"),
    sgemm("warp_tile"),
    sgemm("z_thread_map"),
    sgemm("double_buffer"),
]
