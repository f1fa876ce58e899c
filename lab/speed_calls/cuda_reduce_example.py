"""RookieLiao/cuda-reduce-example: a sum of whole numbers in eight versions."""

from speed_calls.calls import at, i32, integers, zeros

REPOSITORY = "RookieLiao/cuda-reduce-example"
N, THREADS = 1 << 24, 128


def total(version, each, template=None):
    blocks = N // (THREADS * each)
    return at(f"cuda_reduce/cuda_reduce_v{version}.cu", f"reduce{version}", template=template, ladder="sum")[
        blocks, THREADS, 4 * THREADS if version else 0
    ](lambda: (integers(0, 256, N), zeros(blocks, dtype=i32), N))


LAUNCHES = [
    *(total(version, 1) for version in (0, 1, 2)),
    *(total(version, 2) for version in (3, 4)),
    total(5, 2, (THREADS,)),
    *(total(version, 16, (THREADS,)) for version in (6, 7)),
]
