"""AndreasHolt/cuda-matmul-benchmarking: four matrix products, by blocks of 16 x 16."""

from speed_calls.calls import Timed, floats

REPOSITORY = "AndreasHolt/cuda-matmul-benchmarking"
N = 2048


def product(file, kernel, template=None, threads=(16, 16), scaled=False):
    def arguments():
        a, b, c = floats(N, N), floats(N, N), floats(N, N)
        return (N, N, N, 1.0, a, b, 0.5, c) if scaled else (a, b, c, N, N, N)

    grid = (N // 16, N // 16)
    return Timed(f"src/{file}.cu", kernel, grid, threads, arguments, template=template, ladder="product")


LAUNCHES = [
    product("naive_matmul", "naive_matmul_kernel"),
    product("coalesced_matmul", "coalesced_matmul_kernel", (16,), 256, scaled=True),
    product("tiled_matmul", "tiled_matmul_kernel", (16,)),
    product("tiled_coalesced_matmul", "tiled_coalesced_matmul_kernel", (16,)),
]
