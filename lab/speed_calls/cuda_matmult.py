"""tspeterkim/cuda-matmult: four matrix products of the book PMPP and of a blog."""

from speed_calls.calls import at, floats

REPOSITORY = "tspeterkim/cuda-matmult"
N = 1024


def product(kernel, grid, block, template=None):
    return at("main.cu", kernel, template=template, ladder="product")[grid, block](
        lambda: (N, N, N, 1.0, floats(N, N), floats(N, N), 0.0, floats(N, N))
    )


LAUNCHES = [
    product("sgemm_naive", (N // 32, N // 32), (32, 32)),
    product("sgemm_tiled", (N // 32, N // 32), (32, 32), (32,)),
    product("sgemm_tiled_coarsed_pmpp", (N // 32 // 8, N // 32), (32, 32), (32, 8)),
    product("sgemm_tiled_coarsed_blog", (N // 32, N // 32), (32, 32 // 8), (32, 8)),
]
