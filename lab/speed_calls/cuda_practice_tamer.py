"""tamerfrombk/cuda-practice: histograms of a grey image."""

from speed_calls.calls import at, f32, integers, zeros

REPOSITORY = "tamerfrombk/cuda-practice"
N = 1 << 22


def histogram(kernel, grid=N // 256):
    make = lambda: (integers(0, 256, N, dtype=f32), zeros(N), zeros(256), N)  # noqa: E731
    return at("histogram.cu", kernel, ladder="histogram")[grid, 256](make)


LAUNCHES = [
    histogram("simple_count_grayscale"),
    histogram("privatized_grayscale"),
    histogram("privatized_shared_grayscale"),
    histogram("privatized_shared_coarsened_grayscale", 4),
]
