"""chih-chun-chang/learning-cuda-from-scratch: the sums that need no warp in step."""

from speed_calls.calls import Timed, i32, integers, zeros

REPOSITORY = "chih-chun-chang/learning-cuda-from-scratch"
N = 1 << 24


def total(version, each, *more):
    return Timed(
        f"example/reduce/reduce{version}.cu",
        f"reduce{version}",
        N // (128 * each),
        128,
        lambda: (integers(0, 8, N), zeros(1, dtype=i32), *more),
        shared=128 * 4,
        ladder="sum",
    )


LAUNCHES = [*(total(version, 1) for version in (0, 1, 2)), total(3, 2, N)]
