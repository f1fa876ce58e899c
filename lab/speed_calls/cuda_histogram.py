"""MK4H/cuda-histogram: how often each byte occurs."""

from speed_calls.calls import at, integers, u8, u32, zeros

REPOSITORY = "MK4H/cuda-histogram"
N, COPIES, ITEMS = 1 << 24, 4, 16


def histogram(kernel, grid, *more, shared=0):
    return at("kernels/kernels.cu", kernel, template=("unsigned char", "unsigned int"), ladder="histogram")[
        grid, 256, shared
    ](lambda: (integers(0, 256, N, dtype=u8), N, zeros(256, dtype=u32), 0, 255, *more))


LAUNCHES = [
    histogram("atomic", N // 256),
    histogram("aggregated", N // (256 * ITEMS), ITEMS),
    histogram("privatized", N // 256, COPIES, shared=4 * 257 * COPIES),
    histogram("atomic_shm", N // (256 * ITEMS), COPIES, ITEMS, shared=4 * 257 * COPIES),
]
