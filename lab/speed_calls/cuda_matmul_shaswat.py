"""shaswat-singh23/cuda-matmul: six matrix products."""

from speed_calls.calls import at, floats

REPOSITORY = "shaswat-singh23/cuda-matmul"
N = 2048


def product(kernel, tiles, threads, sizes=3):
    make = lambda: (floats(N, N), floats(N, N), floats(N, N), *sizes * (N,))  # noqa: E731
    grid = (N // tiles[0], N // tiles[1])
    return at("full_profile.cu", kernel, ladder="product")[grid, threads](make)


LAUNCHES = [
    product("baseline4", (32, 32), (32, 32), 1),
    product("baseline5", (32, 32), (32, 32)),
    product("baseline5coarse", (128, 32), (32, 32)),
    product("baseline6", (64, 64), 512),
    product("baseline7", (128, 128), 256),
    product("baseline8", (128, 128), 256),
]
