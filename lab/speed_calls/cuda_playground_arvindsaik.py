"""arvindsaik/CUDA-Playground: histograms, stencils of a volume."""

from speed_calls.calls import at, floats, integers, u32, up, zeros

REPOSITORY = "arvindsaik/CUDA-Playground"
COUNT, SIDE = 1 << 22, 256


def histogram(kernel):
    return at("Histogramming-Numbers/template.cu", kernel, ladder="histogram")[2 * 132, 1024](
        lambda: (integers(0, 4096, COUNT).view(u32), zeros(4096, dtype=u32), COUNT)
    )


def stencil(kernel, tile):
    return at("Stencil-Tiling/template.cu", kernel, ladder="stencil")[(up(SIDE, tile),) * 3, (8, 8, 8)](
        lambda: (zeros(SIDE, SIDE, SIDE), floats(SIDE, SIDE, SIDE), SIDE, SIDE, SIDE)
    )


LAUNCHES = [histogram("hist"), histogram("pri_hist"), stencil("stencil", 8), stencil("stencil_tiled", 6)]
