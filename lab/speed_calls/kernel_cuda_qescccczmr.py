"""qescccczmr/kernel_cuda: sums of 32 million."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "qescccczmr/kernel_cuda"
COUNT, BLOCKS = 1 << 25, 640


def total(kernel, grid):
    return at("reductions.cu", kernel, ladder="sum")[grid, 256](lambda: (floats(COUNT), zeros(BLOCKS)))


LAUNCHES = [
    total("reduce", BLOCKS),
    total("reduce_a", BLOCKS),
    total("reduce_ws", BLOCKS),
    total("reduce_ws_float4", BLOCKS // 4),
]
