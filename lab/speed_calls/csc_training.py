"""csc-training/CUDA: a one-dimensional stencil in eight versions."""

from speed_calls.calls import at, floats, up, zeros

REPOSITORY = "csc-training/CUDA"
N = 10_240_000


def stencil(kernel, weights=False):
    return at("demo/stencil code/stencil.cu", kernel, ladder="stencil")[up(N, 1024), 1024](
        lambda: (floats(N + 2048), zeros(N + 2048), N, *((floats(21),) if weights else ()))
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
