"""AndreasHolt/cuda-matmul-benchmarking: four matrix products, by blocks of 16 x 16."""

from speed_calls.calls import Timed, floats

REPOSITORY = "AndreasHolt/cuda-matmul-benchmarking"


def product(file, kernel, n, template=None, threads=(16, 16), scaled=False):
    def arguments():
        a, b, c = floats(n, n), floats(n, n), floats(n, n)
        return (n, n, n, 1.0, a, b, 0.5, c) if scaled else (a, b, c, n, n, n)

    grid = (n // 16, n // 16)
    return Timed(f"src/{file}.cu", kernel, grid, threads, arguments, template=template, ladder=f"product {n}")


LAUNCHES = [
    one
    for n in (1024, 2048)
    for one in (
        product("naive_matmul", "naive_matmul_kernel", n),
        product("coalesced_matmul", "coalesced_matmul_kernel", n, (16,), 256, scaled=True),
        product("tiled_matmul", "tiled_matmul_kernel", n, (16,)),
        product("tiled_coalesced_matmul", "tiled_coalesced_matmul_kernel", n, (16,)),
    )
]
