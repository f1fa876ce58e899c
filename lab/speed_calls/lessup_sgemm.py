"""LessUp/sgemm-optimization: its four matrix products without tensor cores."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "LessUp/sgemm-optimization"
N = 1024


def product(name, template=None):
    return at(f"src/kernels/{name}_sgemm.cuh", f"{name}_sgemm_kernel", template=template, ladder="product")[
        (N // 32, N // 32), (32, 32)
    ](lambda: (floats(N, N), floats(N, N), zeros(N, N), N, N, N))


LAUNCHES = [
    product("naive"),
    product("tiled", (32,)),
    product("bank_conflict_free", (32,)),
    product("double_buffer", (32,)),
]
