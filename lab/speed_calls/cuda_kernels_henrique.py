"""HenriqueAssumpcao/CUDA-Kernels: products in float16."""

from speed_calls.calls import at, f16, floats

REPOSITORY = "HenriqueAssumpcao/CUDA-Kernels"
N = 1024


def product(name, tile, threads, *template):
    half = lambda: floats(N, N, dtype=f16)  # noqa: E731
    return at(f"include/gemm/gemm_{name}.cuh", f"hgemm_{name}", template=template, ladder="product")[
        (N // tile,) * 2, threads
    ](lambda: (half(), half(), half(), N, N, N, 1.0, 0.5))


LAUNCHES = [
    product("blocktiling", 32, (32, 32), 32, 32, 32),
    product("naive", 32, (32, 32), 32),
    product("threadtiling", 64, (16, 16), 64, 16, 64, 4, 4),
]
