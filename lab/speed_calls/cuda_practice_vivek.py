"""vivekjoshi556/cuda-practice: five products."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "vivekjoshi556/cuda-practice"
N = 1024


def product(version, tile, threads, template=None):
    return at("multiply/src/cudaMatrix.cu", f"multiplyV{version}", template=template, ladder="product")[
        (N // tile,) * 2, threads
    ](lambda: (floats(N, N), floats(N, N), zeros(N, N), N, N, N))


LAUNCHES = [
    *(product(version, 32, (32, 32)) for version in (1, 2, 3)),
    product(4, 64, 512, (64, 64, 8, 8)),
    product(5, 128, 256, (128, 128, 8, 8, 8)),
]
