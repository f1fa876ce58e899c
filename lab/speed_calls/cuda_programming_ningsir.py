"""Ningsir/cuda-programming: convolutions of a row of numbers, and the sums that need no warp in step."""

from speed_calls.calls import Timed, floats, zeros

REPOSITORY = "Ningsir/cuda-programming"
N = 1 << 24


def convolution(kernel, mask):
    make = lambda: (floats(N), *mask(), zeros(N), N, 3)  # noqa: E731
    file = "cuda_examples/examples/convolution.cu"
    return Timed(file, kernel, N // 256, 256, make, ladder="convolution")


def total(kernel, each):
    make = lambda: (floats(N), zeros(1), N)  # noqa: E731
    return Timed("cuda_examples/examples/sum.cu", kernel, N // (256 * each), 256, make, ladder="sum")


LAUNCHES = [
    convolution("convolution_1D", lambda: (floats(3),)),
    convolution("convolution_1D_with_constant_memory", tuple),
    convolution("convolution_1D_with_shared_memory", tuple),
    total("sum", 1),
    total("sum_2", 1),
    total("sum_3", 2),
]
