"""jose-perales/jhu-gpu-programming: numbers times one factor, a hundred times."""

from speed_calls.calls import Timed, floats, zeros

REPOSITORY = "jose-perales/jhu-gpu-programming"
N = 1 << 24


def scale(kernel, shared=0):
    make = lambda: (zeros(N), floats(N), N)  # noqa: E731
    file = "module5/assignment/vector_scale.cu"
    return Timed(file, f"{kernel}_scale", N // 256, 256, make, shared=shared, ladder="scale")


LAUNCHES = [scale("global"), scale("constant"), scale("shared", 256 * 4)]
