"""Ruihan11/cuda-playground: attention, in float and in float16."""

from speed_calls.calls import at, f16, f32, floats, zeros

REPOSITORY = "Ruihan11/cuda-playground"
HEADS, LENGTH, WIDTH = 16, 512, 128


def attention(file, rows, block, dtype=f32):
    shape = (HEADS, LENGTH, WIDTH)
    make = lambda: (  # noqa: E731
        *(floats(*shape, dtype=dtype) for _ in range(3)),
        zeros(*shape, dtype=dtype),
        *(1, HEADS, LENGTH, WIDTH, WIDTH**-0.5),
    )
    launch = at(f"kernels/atten/{file}.cu", "fa2_kernel", ladder="attention")
    return launch[(HEADS, LENGTH // rows), block](make)


LAUNCHES = [
    attention("asset/v4_warpReduce_fa2", 1, 32),
    attention("v3_tiled_fa2", 32, 32),
    attention("v4_half_fa2", 64, 64, f16),
    attention("v5_wmma_fa2", 64, 128, f16),
]
