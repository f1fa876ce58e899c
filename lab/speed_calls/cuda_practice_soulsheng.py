"""soulsheng/CUDA-Practice: sums of blocks."""

from speed_calls.calls import at, floats

REPOSITORY = "soulsheng/CUDA-Practice"
N = 1 << 24

LAUNCHES = [
    at("4Diy/reduction/reduction_gpu.cu", f"reduction_kernel{number}", ladder="sum")[N // 256, 256](
        lambda: (floats(N), N)
    )
    for number in (3, 2, 1)
]
