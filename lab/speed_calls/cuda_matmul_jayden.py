"""jayden1711/cuda-matmul: three matrix products."""

from speed_calls.calls import at, floats

REPOSITORY = "jayden1711/cuda-matmul"
N = 2048


def product(kernel, tile, threads, template=None):
    make = lambda: (floats(N, N), floats(N, N), floats(N, N), N, N, N)  # noqa: E731
    grid = (N // tile, N // tile)
    return at("src/matmul.cu", f"matmul_{kernel}", template=template, ladder="product")[grid, threads](make)


LAUNCHES = [
    product("naive", 16, (16, 16)),
    product("tiled", 32, (32, 32), (32,)),
    product("vectorized", 64, (16, 16)),
]
