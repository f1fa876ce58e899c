"""zixuanweeei/cuda-reduce: sums of a vector's blocks."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "zixuanweeei/cuda-reduce"
N, BLOCK = 1 << 24, 256


def total(file, kernel, per_block, *template):
    return at(
        f"src/reduce/cuda_reduce/cuda_reduce_{file}.cu", kernel, template=("float", *template), ladder="sum"
    )[N // per_block, BLOCK, 4 * BLOCK](lambda: (floats(N), zeros(N // per_block), N, False))


LAUNCHES = [
    total("interleave_threads", "reduce0", BLOCK),
    total("strided_addressing", "reduce1", BLOCK),
    total("contiguous_addressing", "reduce2", BLOCK),
    total("contiguous_addressing", "reduce3", 2 * BLOCK),
    total("warp_shfl_reduce", "reduce4", 2 * BLOCK, BLOCK),
    total("warp_shfl_reduce", "reduce5", 2 * BLOCK, BLOCK),
]
