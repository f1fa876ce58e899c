"""chongchen1999/cuda-kernels: sums in shared memory, and sums that end in atomics."""

from speed_calls.calls import at, f32, floats, i32, integers, zeros

REPOSITORY = "chongchen1999/cuda-kernels"
N = 1 << 25


def total(version, blocks, block, dtype=i32):
    values = (lambda: integers(0, 9, N)) if dtype == i32 else (lambda: floats(N))
    return at(f"reduction/reduce_sum_v{version}.cu", "sum_kernel", template=(block,), ladder="sum")[
        blocks, block
    ](lambda: (values(), zeros(blocks, dtype=dtype)))


def with_atomics(file, *template):
    return at(
        f"reduction/reduce_sum_{file}.cu",
        "DeviceReduce",
        template=("float", *template),
        ladder="sum with atomics",
    )[2048, 512](lambda: (floats(N), N, zeros(1)))


LAUNCHES = [
    *(total(version, N // 256, 256) for version in (0, 1, 2)),
    *(total(version, 2048, 256) for version in (3, 4, 5)),
    total(6, 1024, 1024, f32),
    with_atomics("atomic_v1"),
    with_atomics("atomic_v2"),
    with_atomics("atomic_v3"),
    with_atomics("v7"),
    with_atomics("v9", "SumOp", 16),
]
