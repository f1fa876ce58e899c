"""luatil/100-days-of-cuda: three sums."""

from speed_calls.calls import Timed, floats, zeros

REPOSITORY = "luatil/100-days-of-cuda"
N = 1 << 24


def total(file, kernel, blocks, threads, out, template=None):
    make = lambda: (floats(N), zeros(out), N)  # noqa: E731
    return Timed(f"day_{file}.cu", kernel, blocks, threads, make, template, ladder="sum")


LAUNCHES = [
    total("010_reduction_kernel", "ReduceVector", N // 32, 32, N // 32),
    total("015_reduction_multi_block_001_main", "ReductionKernel", N // 512, 256, 1),
    total("058_array_lib", "SumKernel", N // 256, 256, 1, (256,)),
]
