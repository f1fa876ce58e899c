"""EricccYang/cuda_operators: sums of numbers by blocks, in place or in shared memory."""

from speed_calls.calls import at, i32, integers, zeros

REPOSITORY = "EricccYang/cuda_operators"
COUNT = 1 << 24


def total(version):
    return at(f"reduce/reduce_{version}.cu", "reduce", ladder="sum")[COUNT // 512, 512](
        lambda: (integers(-9, 10, COUNT), zeros(COUNT // 512, dtype=i32), COUNT)
    )


LAUNCHES = [total(version) for version in ("v1", "v1_sm", "v2", "v2_sm", "v3", "v3_sm")]
