"""byrzhm/cuda-examples: six sums."""

from speed_calls.calls import Timed, floats, zeros

REPOSITORY = "byrzhm/cuda-examples"
N = 1 << 23


def total(version, out, shared=0, *more):
    return Timed(
        "advanced/reduce/sum_check.cu",
        f"sum_{version}",
        N // 256,
        256,
        lambda: (floats(N), zeros(out), *more),
        shared=shared,
        ladder="sum",
    )


LAUNCHES = [
    total("naive", 1, 0, N),
    total("v0", N // 256),
    total("v1", N // 256, 0, N),
    total("v2", N // 256, 256 * 4, N),
    total("v3", 1, 256 * 4, N),
    total("v4", 1, 0, N),
]
