"""Puzzles about the statistics of a row or a group: softmax, GroupNorm three times, Welford and Chan."""

from __future__ import annotations

from cudasim.counting.apart import tiles
from fgn.puzzles.definition import (
    FAULT,
    LOADS,
    OVER_BUDGET,
    WRONG,
    Task,
    Wrong,
    coalesced,
    sectors,
    sectors_per_request,
    shared_requests,
    together,
    warp_operations,
)
from fgn.puzzles.late import torch
from fgn.puzzles.shared_memory import matrix

EPS = 1e-5
FAR = 1000.0  # the mean of the values of some cases, whose deviation is 1
QUIET = 0.002  # the deviation of some rows: their variance is less than EPS, so a wrong EPS is noticed


def _large_rows(sizes, generator):
    """Rows with values near 0, near 500 and near -500 in turn: their exp() overflows a float."""
    x = matrix(sizes, generator)["x"]
    return {"x": x + torch.tensor([0.0, 500.0, -500.0]).repeat(sizes["rows"])[: sizes["rows"], None]}


def _rows_far_from_zero(sizes, generator):
    return {"x": matrix(sizes, generator)["x"] + FAR}


def _groups(sizes, generator):
    """Samples of `groups` groups of `size` channels; every other sample is far from zero, and the third of
    every four has a tiny deviation."""
    channels = sizes["groups"] * sizes["size"]
    x = torch.randn(sizes["samples"], channels, generator=generator)
    x[1::2] += FAR
    x[2::4] *= QUIET
    return {
        "x": x,
        "weight": 1 + torch.rand(channels, generator=generator),
        "bias": torch.randn(channels, generator=generator),
    }


def _group_norm(x, weight, bias, samples, groups, size):
    return {"y": torch.nn.functional.group_norm(x, groups, weight, bias, EPS)}


def _moments(x, rows, columns):
    return {"mean": x.mean(1), "variance": x.var(1, correction=0)}


def _allowed_far_from_zero(inputs, sizes) -> float:
    """16 times the effect of a mean rounded to float32 on samples far from zero: 2⁻²⁴ of the mean, in
    deviations. With one sample there is none."""
    groups = inputs["x"].double().unflatten(1, (sizes["groups"], -1))
    variance = groups[1::2].var(2, correction=0) if sizes["samples"] > 1 else torch.ones(1)
    return float(16 * 2.0**-24 * FAR * inputs["weight"].max() * (variance.min() + EPS).rsqrt())


SOFTMAX = Task(
    name="softmax_row",
    title="Softmax of a row",
    kernel="softmax",
    text="""
`y[row, column] = exp(x[row, column]) / sum`, where sum is the sum of `exp(x)` over the row; one warp for
each row.

Some values of x are near 500 and some near −500, where `exp` is infinite, or 0, as a float. So subtract the
row's largest value first, which changes nothing about the quotient. Two reductions, then: a maximum and a
sum, and *every* lane needs their results. `__shfl_xor_sync(0xffffffff, v, d)` is the `v` of the lane whose
number differs in the bit `d`.
""",
    launch="softmax[rows, 32](y, x, columns)",
    sizes=({"rows": 3, "columns": 4}, {"rows": 4, "columns": 32}, {"rows": 3, "columns": 100}),
    between={"rows": (1, 8), "columns": (1, 200)},
    inputs=_large_rows,
    right=lambda x, rows, columns: {"y": x.softmax(1)},
    budget=lambda rows, columns: (*coalesced(), sectors(LOADS, 3 * rows * columns // 8), together(16)),
    budget_sizes={"rows": 8, "columns": 128},
    budget_between={"rows": (2, 8, 1), "columns": (64, 256, 32)},
    hints=(
        "Three loops over the row: the largest value, the sum of exp(x − largest), the results. Each lane"
        " takes the columns lane, lane + 32, …",
        "A lane without a column needs a largest value that does not count: -INFINITY, and not 0.",
        "for (int d = 16; d > 0; d /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, "
        "d)); after it all 32 lanes have the maximum. The same with + for the sum.",
    ),
    wrong={
        "no_maximum": Wrong(
            {
                "expf(x[row * columns + i] - largest);\n    for": "expf(x[row * columns + i]);\n    for",
                "expf(x[row * columns + i] - largest) / sum": "expf(x[row * columns + i]) / sum",
            },
            WRONG,
            "got nan",
        ),
        "maximum_begins_at_zero": Wrong({"largest = -INFINITY": "largest = 0.0f"}, WRONG, "got nan"),
        "sum_in_one_lane_only": Wrong(
            {"sum += __shfl_xor_sync": "sum += __shfl_down_sync"}, WRONG, "expected"
        ),
    },
)

GROUP_NORM_NAIVE = Task(
    name="group_norm_naive",
    title="GroupNorm, naive",
    kernel="group_norm",
    text="""
GroupNorm as torch has it. A sample has `groups` groups of `size` neighbouring channels. For each sample and
group: `y = (x − mean) / sqrt(variance + 1e-5) * weight + bias`, with mean and variance of that group alone.
The variance is the mean of `(x − mean)²`. Weight and bias have one element for each *channel*, `groups *
size` in all.

One thread for each group of each sample. Half of the samples have a mean of 1000 and a deviation of 1; some
have a variance below 1e-5.
""",
    launch="group_norm[tiles(samples * groups, 64), 64](y, x, weight, bias, samples, groups, size)",
    sizes=(
        {"samples": 1, "groups": 1, "size": 8},
        {"samples": 2, "groups": 3, "size": 5},
        {"samples": 20, "groups": 4, "size": 8},
    ),
    between={"samples": (1, 20), "groups": (1, 8), "size": (4, 24)},
    inputs=_groups,
    right=_group_norm,
    allowed=_allowed_far_from_zero,
    hints=(
        "Thread t has sample t / groups and group t % groups; its values begin at x + t * size.",
        "Three loops: the mean; the variance, from the differences to the mean; the results. The mean of "
        "the squares minus the square of the mean is the same formula, but not in floats: with a mean of "
        "1000 it cancels.",
        "The channel of value c of the group is t % groups * size + c: the index for weight and bias.",
    ),
    wrong={
        "mean_of_squares": Wrong(
            {
                "float difference = values[c] - mean;": "float difference = values[c];",
                "variance /= size;": "variance = variance / size - mean * mean;",
            },
            WRONG,
            "expected",
        ),
        "unbiased": Wrong({"variance /= size;": "variance /= size - 1;"}, WRONG, "expected"),
        "another_eps": Wrong({"1e-5f": "1e-6f"}, WRONG, "expected"),
        "weight_by_group": Wrong(
            {"int channel = group * size + c;": "int channel = group;"}, WRONG, "expected"
        ),
        "no_guard": Wrong({"    if (i >= samples * groups)\n        return;\n": ""}, FAULT, "out of bounds"),
    },
)

GROUP_NORM_ONCE = Task(
    name="group_norm_once",
    title="GroupNorm, in one pass over memory",
    kernel="group_norm_once",
    text="""
The same GroupNorm, a warp for each group of each sample. A group has at most 128 channels, and the kernel
must ask memory for every x only once. So a lane keeps its values, at most 4, in registers, and works on
these in all three steps. The sums over the warp are made by shuffles, and no shared memory is used.

Registers are a small array of a fixed size, `float v[4]`, in loops over 0 to 3 that the compiler unrolls.
""",
    launch="group_norm_once[samples * groups, 32](y, x, weight, bias, groups, size)",
    sizes=(
        {"samples": 1, "groups": 1, "size": 8},
        {"samples": 2, "groups": 3, "size": 32},
        {"samples": 3, "groups": 2, "size": 100},
        {"samples": 2, "groups": 1, "size": 128},
    ),
    between={"samples": (1, 6), "groups": (1, 6), "size": (4, 128)},
    inputs=_groups,
    right=_group_norm,
    allowed=_allowed_far_from_zero,
    budget=lambda samples, groups, size: (
        *coalesced(),
        sectors(LOADS, 3 * samples * groups * size // 8),
        shared_requests(0),
        together(16),
    ),
    budget_sizes={"samples": 4, "groups": 4, "size": 128},
    budget_between={"samples": (1, 6, 1), "groups": (1, 6, 1), "size": (32, 128, 32)},
    hints=(
        "Lane l has the channels l, l + 32, l + 64, l + 96 of the group, as far as they are below size.",
        "A value that is not there must not count in the sum, and not in the sum of squared differences "
        "either: there it is not enough that it is 0, because 0 − mean is not 0.",
        "v[i] = c < size ? x[first + c] : 0.0f; mean = warp_sum(v[0] + v[1] + v[2] + v[3]) / size; then "
        "float d = c < size ? v[i] - mean : 0.0f; and the sum of d * d.",
    ),
    wrong={
        "reads_x_again": Wrong(
            {"y[first + c] = (v[i] - mean)": "y[first + c] = (x[first + c] - mean)"},
            OVER_BUDGET,
            "sectors of global loads",
        ),
        "absent_values_count": Wrong(
            {"float difference = c < size ? v[i] - mean : 0.0f;": "float difference = v[i] - mean;"},
            WRONG,
            "expected",
        ),
        "squares_instead": Wrong(
            {
                "float difference = c < size ? v[i] - mean : 0.0f;": "float difference = v[i];",
                "warp_sum(squares) / size;": "warp_sum(squares) / size - mean * mean;",
            },
            WRONG,
            "expected",
        ),
    },
)

GROUP_NORM_TEAMS = Task(
    name="group_norm_teams",
    title="GroupNorm, by teams",
    kernel="group_norm_teams",
    text="""
The same GroupNorm for small groups, of up to 32 channels. A warp for each group would leave most lanes
idle: now a *team* of 8 lanes has a group, and a warp has 4 groups of the same sample or of the next. A block
has 64 threads: 8 teams.

The sums are those of a team only: the shuffles with the distances 4, 2 and 1 stay inside it. The last block
may have teams without a group. Their lanes write nothing, but they must come to the shuffles, whose mask
names all 32 lanes.
""",
    launch="group_norm_teams[tiles(samples * groups, 8), 64](y, x, weight, bias, samples, groups, size)",
    sizes=(
        {"samples": 1, "groups": 1, "size": 8},
        {"samples": 3, "groups": 3, "size": 4},
        {"samples": 5, "groups": 5, "size": 32},
    ),
    between={"samples": (1, 8), "groups": (1, 8), "size": (4, 32)},
    inputs=_groups,
    right=_group_norm,
    allowed=_allowed_far_from_zero,
    budget=lambda samples, groups, size: (
        *coalesced(),
        warp_operations(6 * 2 * tiles(samples * groups, 8)),
    ),
    budget_sizes={"samples": 4, "groups": 8, "size": 8},
    budget_between={"samples": (2, 8, 2), "groups": (4, 8, 4), "size": (8, 32, 8)},
    hints=(
        "The team of a thread is (blockIdx.x * 64 + threadIdx.x) / 8, its place in the team threadIdx.x % 8.",
        "The lane takes the channels place, place + 8, … of its group. A team without a group takes none:"
        " make its number of channels 0 rather than return.",
        "int count = team < samples * groups ? size : 0; all loops go to count. The division by size is "
        "the same for all, and the shuffles are outside of every if.",
    ),
    wrong={
        "sum_of_the_whole_warp": Wrong({"distance = 4": "distance = 16"}, WRONG, "expected"),
        "teams_return": Wrong(
            {
                "int count = team < samples * groups ? size : 0;": "if (team >= samples * groups)\n        return;\n"
                "    int count = size;"
            },
            FAULT,
            "missing lane",
        ),
        "mask_of_the_first_team": Wrong({"0xffffffff": "0xff"}, FAULT, "lane not in mask"),
    },
)

WELFORD_CHAN = Task(
    name="welford_chan",
    title="Welford and Chan",
    kernel="moments",
    text="""
Mean and variance (the mean of the squared differences) of every row, one warp for each row, reading x once,
for rows of any length. All values are near 1000 with a deviation of 1, so mean of squares minus squared mean
would give nonsense.

Welford: a lane goes through its values with count *n*, mean *m* and sum of squared differences *M*: `d = x −
m; m += d / n; M += d * (x − m)`. Chan: two such triples make one: with `d = m₂ − m₁` and `n = n₁ + n₂`, `m =
m₁ + d n₂ / n` and `M = M₁ + M₂ + d² n₁ n₂ / n`. Five shuffle steps merge 32 lanes; some lanes may have no
value at all.
""",
    launch="moments[rows, 32](mean, variance, x, columns)",
    sizes=({"rows": 1, "columns": 8}, {"rows": 2, "columns": 64}, {"rows": 3, "columns": 45}),
    between={"rows": (1, 6), "columns": (1, 400)},
    inputs=_rows_far_from_zero,
    right=_moments,
    allowed=lambda inputs, sizes: 1e-3,
    budget=lambda rows, columns: (
        sectors_per_request(LOADS, 4),
        sectors(LOADS, rows * columns // 8),
        together(16),
    ),
    budget_sizes={"rows": 4, "columns": 256},
    budget_between={"rows": (1, 6, 1), "columns": (128, 512, 32)},
    hints=(
        "The three numbers of the other lane are three shuffles: of the count, of the mean and of M.",
        "Merge with __shfl_xor_sync or __shfl_down_sync; do all three shuffles before you change any of "
        "the three.",
        "If both counts are 0, n is 0: then d * n₂ / n is 0 / 0. Divide by fmaxf(n, 1.0f).",
    ),
    wrong={
        "squares": Wrong(
            {
                "m += difference / n;": "m += (v - m) / n;",
                "squares += difference * (v - m);": "squares += v * v;",
                "squares += other_squares + d * d * n * other_n / fmaxf(both, 1.0f);": "squares += other_squares;",
                "variance[row] = squares / columns;": "variance[row] = squares / columns - m * m;",
                "        float difference = v - m;\n": "",
            },
            WRONG,
            "variance[0]: expected",
        ),
        "equal_counts": Wrong(
            {
                "m += d * other_n / fmaxf(both, 1.0f);": "m += d / 2;",
                "d * d * n * other_n / fmaxf(both, 1.0f)": "d * d * both / 4",
            },
            WRONG,
            "mean[0]: expected",
        ),
        "empty_lanes": Wrong(
            {
                "m += d * other_n / fmaxf(both, 1.0f);": "m += d * other_n / both;",
                "d * d * n * other_n / fmaxf(both, 1.0f)": "d * d * n * other_n / both",
            },
            WRONG,
            "got nan",
        ),
    },
)

TASKS = (SOFTMAX, GROUP_NORM_NAIVE, GROUP_NORM_ONCE, GROUP_NORM_TEAMS, WELFORD_CHAN)
