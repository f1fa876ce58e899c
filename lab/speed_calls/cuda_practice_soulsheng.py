"""soulsheng/CUDA-Practice: sums of blocks."""

from speed_calls.calls import Timed, floats

REPOSITORY = "soulsheng/CUDA-Practice"
N = 1 << 24

LAUNCHES = [
    Timed(
        "4Diy/reduction/reduction_gpu.cu",
        f"reduction_kernel{number}",
        N // 256,
        256,
        lambda: (floats(N), N),
        ladder="sum",
    )
    for number in (3, 2, 1)
]
