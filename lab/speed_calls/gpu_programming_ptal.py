"""ptal/gpu-programming-uni.lu: the least of many numbers, by one block and by many."""

from speed_calls.calls import Timed, i32, integers, zeros

REPOSITORY = "ptal/gpu-programming-uni.lu"
FEW, MANY, BLOCKS = 1 << 18, 1 << 24, 1024


def least(file, kernel, count, blocks, template=None, shared=0):
    return Timed(
        f"1-introduction-cuda/demo/{file}.cu",
        kernel,
        blocks,
        256,
        lambda: (integers(0, 1 << 30, count), count, zeros(256 * blocks, dtype=i32)),
        template,
        shared,
        ladder=f"least of {count}",
    )


LAUNCHES = [
    least("block_min", "parallel_min", FEW, 1),
    least("block_min", "parallel_min_stride", FEW, 1),
    least("block_min", "parallel_min_stride_shared", FEW, 1, shared=256 * 4),
    least("grid_min_shared", "grid_min", MANY, BLOCKS, (False,)),
    least("grid_min_shared", "grid_min", MANY, BLOCKS, (True,)),
    least("grid_min_shared", "grid_min_shared", MANY, BLOCKS, shared=256 * 4),
]
