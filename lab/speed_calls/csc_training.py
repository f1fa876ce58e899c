"""csc-training/CUDA: a one-dimensional stencil in eight versions, a sweep of Jacobi's."""

from speed_calls.calls import Timed, f64, floats, up, zeros

REPOSITORY = "csc-training/CUDA"
N = 10_240_000


def stencil(kernel, weights=False):
    return Timed(
        "demo/stencil code/stencil.cu",
        kernel,
        up(N, 1024),
        1024,
        lambda: (floats(N + 2048), zeros(N + 2048), N, *((floats(21),) if weights else ())),
        ladder="stencil",
    )


def sweep(block, n=4096):
    return Timed(
        "exercises/jacobi/solution/jacobi.cu",
        "sweepGPU",
        (up(n, block[0]), up(n, block[1])),
        block,
        lambda: (zeros(n, n, dtype=f64), floats(n, n, dtype=f64), floats(n, n, dtype=f64), 0.01, n),
    )


LAUNCHES = [
    stencil("stencil", True),
    stencil("stencilReadOnly1", True),
    stencil("stencilReadOnly2", True),
    stencil("stencilReadOnly3", True),
    stencil("stencilConst1"),
    stencil("stencilConst2"),
    stencil("stencilShared1"),
    stencil("stencilShared2"),
    sweep((16, 16)),
    sweep((32, 4)),
]
