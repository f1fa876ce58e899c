"""mg200/cuda-kernels: filters of a row."""

from speed_calls.calls import at, f32, integers, zeros

REPOSITORY = "mg200/cuda-kernels"
N, TAPS = 1 << 24, 9


def whole(low, high, count):
    """One of the kernels adds up whole numbers."""
    return integers(low, high, count, dtype=f32)


def row(file, kernel, each=1):
    make = lambda: (whole(-9, 9, N), whole(-9, 9, TAPS), zeros(N), N, TAPS)  # noqa: E731
    return at(f"1-D Convolution/{file}.cu", kernel, ladder="filter")[N // (256 * each), 256](make)


LAUNCHES = [
    row("k1", "conv1D_GPU"),
    row("k2", "conv1D_GPU", 4),
    at("1-D Convolution/k3.cu", "convolution_1d_kernel", ladder="filter")[N // 256, 256](
        lambda: (whole(-9, 9, N), zeros(N), N, TAPS)
    ),
    row("naive", "convolution_1d_kernel"),
]
