"""arisdask/BitonicSortCUDA: the steps of a sort that a block makes, in global and in shared memory."""

from speed_calls.calls import at, integers

REPOSITORY = "arisdask/BitonicSortCUDA"
COUNT = 1 << 22


def ordered(length):
    """Sections in ascending and in descending order by turns, which a launch leaves as they are."""
    pairs = integers(0, 1 << 30, COUNT).view(-1, 2, length).sort().values
    pairs[:, 1] = pairs[:, 1].flip(-1)
    return pairs.flatten()


def steps(version, which, length, *numbers):
    kernel = f"bitonic_kernel_v{version}_{which}"
    return at(f"src/bitonic_sort_v{version}.cu", kernel, ladder=which)[COUNT // 2048, 1024](
        lambda: (ordered(length), COUNT, *numbers)
    )


LAUNCHES = [
    steps(1, "first_stages", 1 << 11, 10),
    steps(1, "lower_steps", 1 << 16, 15, 10),
    steps(2, "first_stages", 1 << 11, 10),
    steps(2, "lower_steps", 1 << 16, 15, 10),
]
