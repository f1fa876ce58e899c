"""colawithsauce/ECE408_Exercises: stencils of a volume."""

from speed_calls.calls import at, floats, integers, up, zeros

REPOSITORY = "colawithsauce/ECE408_Exercises"
SIDE = 256


def stencil(kernel, tile, block):
    return at("src/stencil_kernel.cu", f"stencil_{kernel}", ladder="stencil")[(up(SIDE, tile),) * 3, block](
        lambda: (floats(SIDE, SIDE, SIDE), zeros(SIDE, SIDE, SIDE), SIDE, integers(-3, 4, 7))
    )


LAUNCHES = [
    stencil("kernel", 8, (8, 8, 8)),
    stencil("with_tiling", 6, (8, 8, 8)),
    stencil("with_coarsening", 6, (8, 8)),
]
