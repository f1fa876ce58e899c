"""zilinch/100-day-CUDA-challenge: chains of multiply-adds, several at a time."""

from speed_calls.calls import at, zeros

REPOSITORY = "zilinch/100-day-CUDA-challenge"
BLOCKS, STEPS = 1056, 4096
LAUNCHES = [
    at("day04/cuda_fma.cu", f"fma_kernel_{chains}", ladder="multiply-adds")[BLOCKS, 256](
        lambda: (zeros(BLOCKS * 256), STEPS)
    )
    for chains in (4, 7, 8)
]
