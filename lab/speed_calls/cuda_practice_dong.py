"""DongDongBan/cuda-practice: a sum, by a book's six steps."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "DongDongBan/cuda-practice"
N = 1 << 24
KERNELS = ("constmem", "sharedmem", "atomicfunc", "syncwarp", "warpshfl", "coopgrp")

LAUNCHES = [
    at(f"src/basic/tutor_book/reduce{step}.cu", f"reduce_{kernel}", ladder="sum")[
        N // 256, 256, 1024 if step > 1 else 0
    ](lambda: (floats(N), zeros(N // 256), N))
    for step, kernel in enumerate(KERNELS, 1)
]
