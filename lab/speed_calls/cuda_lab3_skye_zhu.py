"""Skye-Zhu/560lab3-CUDA-Program: convolutions of an image of whole numbers."""

from speed_calls.calls import Timed, floats, integers, u32, zeros

REPOSITORY = "Skye-Zhu/560lab3-CUDA-Program"
M, N = 2048, 5


def convolution(file, kernel, arguments):
    return Timed(f"part2/{file}.cu", kernel, (M // 16, M // 16), (16, 16), arguments, ladder="convolution")


def image():
    return integers(0, 256, M, M).view(u32)


def by_floats():
    return image(), zeros(M, M, dtype=u32), M, N, floats(N, N)


LAUNCHES = [
    convolution(
        "conv_gpu",
        "conv2d_gpu",
        lambda: (image(), integers(0, 8, N, N).view(u32), zeros(M, M, dtype=u32), M, N),
    ),
    convolution("conv_gpu_naive", "conv_kernel_naive", by_floats),
    convolution("conv_gpu_optimization", "conv_kernel_tiled", by_floats),
]
