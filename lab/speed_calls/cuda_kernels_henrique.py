"""HenriqueAssumpcao/CUDA-Kernels: products in float16."""

from speed_calls.calls import Timed, f16, floats

REPOSITORY = "HenriqueAssumpcao/CUDA-Kernels"
N = 1024


def product(name, tile, threads, *template):
    half = lambda: floats(N, N, dtype=f16)  # noqa: E731
    return Timed(
        f"include/gemm/gemm_{name}.cuh",
        f"hgemm_{name}",
        (N // tile,) * 2,
        threads,
        lambda: (half(), half(), half(), N, N, N, 1.0, 0.5),
        template=template,
        ladder="product",
    )


LAUNCHES = [
    product("blocktiling", 32, (32, 32), 32, 32, 32),
    product("naive", 32, (32, 32), 32),
    product("threadtiling", 64, (16, 16), 64, 16, 64, 4, 4),
]
