"""csc-training/CUDA: a one-dimensional stencil in eight versions."""

from speed_calls.calls import Timed, floats, up, zeros

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


LAUNCHES = [
    stencil("stencil", True),
    stencil("stencilReadOnly1", True),
    stencil("stencilReadOnly2", True),
    stencil("stencilReadOnly3", True),
    stencil("stencilConst1"),
    stencil("stencilConst2"),
    stencil("stencilShared1"),
    stencil("stencilShared2"),
]
