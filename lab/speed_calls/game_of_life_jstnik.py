"""jstNik/CUDAProject: steps of Conway's game of life on a torus of bytes."""

from speed_calls.calls import at, integers, u8, zeros

REPOSITORY = "jstNik/CUDAProject"
SIDE = 8192


def step(file, kernel, height, *tile):
    return at(f"{file}.cu", kernel, ladder="game of life")[(SIDE // 32,) * 2, (32, height)](
        lambda: (integers(0, 2, SIDE, SIDE, dtype=u8), zeros(SIDE, SIDE, dtype=u8), *tile, SIDE, SIDE)
    )


LAUNCHES = [
    step("lin_smem", "lin_smem", 8, 32),
    step("naive", "naive_0", 32, 32),
    step("smem", "smem", 8),
]
