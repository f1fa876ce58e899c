"""gpu-mode/lectures: the kernels of a reading group: images, sums, windows, matrix products."""

from speed_calls.calls import at, floats, integers, u8, up, zeros

REPOSITORY = "gpu-mode/lectures"
N = 1 << 24


def lecture(number, file, kernel, grid, block, arguments, ladder=""):
    return at(f"lecture_{number:03}/{file}.cu", kernel, ladder=ladder)[grid, block](arguments)


def image(file, kernel, block, channels, *more):
    return lecture(
        2,
        file,
        kernel,
        (up(3000, block[0]), up(2000, block[1])),
        block,
        lambda: (
            integers(0, 1, 3, 2000, 3000, dtype=u8)[:channels].contiguous(),
            integers(0, 256, 3, 2000, 3000, dtype=u8),
            *(3000, 2000, *more),
        ),
    )


def copying(kernel):
    return lecture(8, "coalesce", kernel, N // 128, 128, lambda: (floats(N), zeros(N), N))


def window(kernel):
    return lecture(
        8, "privatization2", kernel, N // 256, 256, lambda: (floats(N), zeros(N), N, 31), ladder="window"
    )


def matmul(kernel):
    n = 1024
    return lecture(
        8,
        "tiling",
        kernel,
        (n // 16, n // 16),
        (16, 16),
        lambda: (floats(n, n), floats(n, n), zeros(n, n), n),
        ladder="matmul",
    )


LAUNCHES = [
    image("mean_filter/mean_filter_kernel", "mean_filter_kernel", (16, 16, 3), 3, 4),
    image("rgb_to_grayscale/grayscale_kernel", "rgb_to_grayscale_kernel", (16, 16), 1),
    copying("copyDataNonCoalesced"),
    copying("copyDataCoalesced"),
    window("windowSumDirect"),
    window("windowSumPrivatized"),
    matmul("matrixMulSimple"),
    matmul("matrixMulTiled"),
    lecture(9, "reduce_coarsening", "CoarsenedReduction", N // 2048, 1024, lambda: (floats(N), zeros(1), N)),
    lecture(9, "segment_reduce", "SharedMemoryReduction", N // 1024, 1024, lambda: (floats(N), zeros(1), N)),
]
