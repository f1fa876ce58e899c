"""bhaiyaadityasinha/cuda-matmul: five matrix products."""

from speed_calls.calls import at, floats

REPOSITORY = "bhaiyaadityasinha/cuda-matmul"
N = 2048


def product(kernel, tiles):
    make = lambda: (floats(N, N), floats(N, N), floats(N, N), N)  # noqa: E731
    grid = (N // tiles[0], N // tiles[1])
    return at("cuda/matmul_kernels.cu", f"matmul_{kernel}", ladder="product")[grid, (16, 16)](make)


LAUNCHES = [
    product("naive", (16, 16)),
    product("smem", (16, 16)),
    product("1d_tiled", (16, 128)),
    product("2d_tiled", (64, 64)),
    product("vec4", (64, 64)),
]
