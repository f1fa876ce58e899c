"""ericzhng/cuda-reduce-gpu-test: sums of blocks in float64."""

from speed_calls.calls import at, f64, floats, zeros

REPOSITORY = "ericzhng/cuda-reduce-gpu-test"
N = 1 << 23


def total(kernel, each=256):
    make = lambda: (floats(N, dtype=f64), zeros(N // each, dtype=f64), N)  # noqa: E731
    return at("src/gpu/subroutines.cu", kernel, ladder="sum")[N // each, 256](make)


LAUNCHES = [
    total("kernel_sum"),
    *(total(f"kernel_reduce_score{number}") for number in (10, 20, 30)),
    total("kernel_reduce_half_score40", 512),
]
