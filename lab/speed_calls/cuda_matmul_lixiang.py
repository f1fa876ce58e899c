"""LixiangHan/cuda-matmul: three matrix products."""

from speed_calls.calls import at, floats

REPOSITORY = "LixiangHan/cuda-matmul"
N = 2048


def product(kernel, tile):
    make = lambda: (floats(N, N), floats(N, N), floats(N, N), N)  # noqa: E731
    return at(f"src/{kernel}.cu", kernel, ladder="product")[(N // tile, N // tile), (16, 16)](make)


LAUNCHES = [product("matmulv1", 16), product("matmulv2", 64), product("matmulv3", 64)]
