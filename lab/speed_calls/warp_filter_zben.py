"""zben777/warp-candidate-filter: which of four lists of 32 numbers are not in another list, for each warp."""

from speed_calls.calls import at, i32, integers, zeros

REPOSITORY = "zben777/warp-candidate-filter"
BLOCKS, LISTS = 4096, 4


def filtered(version, kernel):
    groups = 16 * BLOCKS
    return at(f"src/{version}.cu", f"{kernel}_kernel", ladder="filter of lists")[BLOCKS, 512](
        lambda: (
            integers(0, 64, groups, 32),
            integers(0, 64, groups, LISTS, 32),
            zeros(groups, LISTS, dtype=i32),
            zeros(groups, LISTS, dtype=i32),
        )
    )


LAUNCHES = [
    filtered("v0", "brute_force_real"),
    filtered("v0_shared", "brute_force_shared"),
    filtered("v1", "binary_search_real"),
    filtered("v2", "v2_2way_ilp"),
    filtered("v3", "v3_fixed32"),
    filtered("v4", "v4_fixed32_2way_ilp"),
]
