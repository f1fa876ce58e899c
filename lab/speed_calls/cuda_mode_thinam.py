"""ThinamXx/cuda-mode: a stencil in three dimensions, and histograms of letters."""

from speed_calls.calls import at, floats, i8, integers, u32, up, zeros

REPOSITORY = "ThinamXx/cuda-mode"
SIDE, LETTERS = 256, 1 << 24


def stencil(file, kernel, tile, block):
    return at(f"cuda/day11/{file}.cu", kernel, ladder="stencil")[(up(SIDE, tile),) * 3, block](
        lambda: (floats(SIDE, SIDE, SIDE), zeros(SIDE, SIDE, SIDE), SIDE)
    )


def histogram(file, kernel, letters=1):
    return at(f"cuda/day12/{file}.cu", kernel, ladder="histogram")[up(LETTERS, 1024 * letters), 1024](
        lambda: (integers(97, 123, LETTERS, dtype=i8), zeros(7, dtype=u32), LETTERS)
    )


LAUNCHES = [
    stencil("stencil_register_coarse", "stencilRegisterCoarseKernel", 30, (32, 32)),
    stencil("stencil_sweep", "stencilKernel", 8, (8, 8, 8)),
    stencil("stencil_sweep_shared", "stencilSweepSharedKernel", 6, (8, 8, 8)),
    histogram("aggregation", "aggregationKernel", 4),
    histogram("coarsening", "histogramKernelCoarsening", 3),
    histogram("coarsening", "histogramKernelInterleaved", 4),
    histogram("histogram", "histogramKernel"),
    histogram("privatization", "histogramKernelPrivate"),
]
