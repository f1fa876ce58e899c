"""Puzzles that begin with a kernel that is broken, or right but too slow: find what is wrong, and fix it."""

from __future__ import annotations

from cudasim.counting.apart import tiles
from fgn.puzzles.definition import (
    ATOMICS,
    FAULT,
    LOADS,
    OVER_BUDGET,
    STORES,
    WRONG,
    Task,
    Wrong,
    barriers,
    coalesced,
    launches,
    no_bank_conflicts,
    requests,
    sectors,
    shared_requests,
    steps,
    together,
)
from fgn.puzzles.late import torch
from fgn.puzzles.norms import EPS, QUIET
from fgn.puzzles.shared_memory import matrix, transposed


def _prefix_sums(x, rows, columns):
    return {"y": x.cumsum(1)}


def _negative(sizes, generator):
    """Negative elements. Those after the first warp's are near the smallest float, so that lanes without an
    element need a value at least as low."""
    x = -torch.rand(sizes["n"], generator=generator) - 1
    x[32:] *= 1e38
    return {"x": x}


def _maxima(x, n):
    padded = torch.nn.functional.pad(x, (0, -n % 32), value=-torch.inf)
    return {"largest": padded.view(-1, 32).amax(1)}


def _residual(sizes, generator):
    """The third of every four rows has a tiny deviation."""
    rows, columns = sizes["rows"], 4 * sizes["fours"]
    x, residual = (torch.randn(rows, columns, generator=generator) for _ in range(2))
    x[2::4] *= QUIET
    residual[2::4] *= QUIET
    return {
        "x": x,
        "residual": residual,
        "weight": 1 + torch.rand(columns, generator=generator),
        "bias": torch.randn(columns, generator=generator),
    }


def _residual_norm(x, residual, weight, bias, rows, fours):
    return {"y": torch.nn.functional.layer_norm(x + residual, (4 * fours,), weight, bias, EPS)}


FIX_THE_RACE = Task(
    name="fix_the_race",
    title="Fix the race",
    kernel="prefix_sums",
    text="""
`y[row, column]` is the sum of x[row, 0] to x[row, column]; one block for each row, one thread for each of up
to 256 columns. In step *d* = 1, 2, 4, … every element gets the element *d* places before it added to itself.

The kernel below often gives the right numbers, on a GPU and even here. But it has a race. Say first which
two threads touch which word with nothing between them, and only then check. Mend it without taking threads
or steps away.
""",
    launch="prefix_sums[rows, columns](y, x)",
    sizes=({"rows": 1, "columns": 2}, {"rows": 2, "columns": 33}, {"rows": 3, "columns": 256}),
    between={"rows": (1, 4), "columns": (1, 256)},
    inputs=matrix,
    right=_prefix_sums,
    budget=lambda rows, columns: (requests(LOADS, 2 * rows * columns // 32), steps(8 * 8), together(16)),
    budget_sizes={"rows": 2, "columns": 256},
    budget_between={"rows": (1, 4, 1), "columns": (128, 256, 32)},
    tolerance=1e-4,
    hints=(
        "In a step, thread i reads words i − d and i, and writes word i. Who writes word i − d in the "
        "same step?",
        "All reads of a step have to come before all writes of the step. A thread can keep what it read "
        "in a register.",
        "float before = i >= d ? s[i - d] : 0.0f; barrier; s[i] += before; barrier. All threads come to "
        "both.",
    ),
    starts_from="one_barrier",
    wrong={
        "each_from_the_start": Wrong(None, OVER_BUDGET, "requests of global loads"),
        "one_barrier": Wrong(
            {
                "        float before = i >= d ? s[i - d] : 0.0f;\n        "
                "__syncthreads();\n        s[i] += before;\n": "        "
                "if (i >= d)\n            s[i] += s[i - d];\n"
            },
            FAULT,
            "race",
        ),
        "barrier_inside": Wrong(
            {
                "        float before = i >= d ? s[i - d] : 0.0f;\n        "
                "__syncthreads();\n        s[i] += before;\n": "        "
                "if (i >= d) {\n            float before = s[i - d];\n            __syncthreads();\n            s[i] += before;\n"
                "        }\n"
            },
            FAULT,
            "barrier divergence",
        ),
        "second_barrier_left_out": Wrong(
            {"s[i] += before;\n        __syncthreads();": "s[i] += before;"}, FAULT, "race"
        ),
    },
)

FIX_THE_BANK_CONFLICT = Task(
    name="fix_the_bank_conflict",
    title="Fix the bank conflict",
    kernel="transpose_swizzled",
    text="""
The transpose again, and padding is not possible this time: the launch gives the block exactly 4096 bytes of
shared memory, as many as the tile of 32 × 32 floats has. (On Hopper, TMA writes tiles just so, without
padding.)

Every element may still stand anywhere in its row of the tile, as long as the one who writes it and the one
who reads it agree on the place. Choose the places such that a row and a column of the tile both touch every
bank once. That is called a *swizzle*.
""",
    launch="transpose_swizzled[(tiles(columns, 32), tiles(rows, 32)), (32, 32), 4096](y, x, rows, columns)",
    sizes=(
        {"rows": 32, "columns": 32},
        {"rows": 4, "columns": 6},
        {"rows": 33, "columns": 31},
        {"rows": 70, "columns": 5},
    ),
    between={"rows": (1, 80), "columns": (1, 80)},
    inputs=matrix,
    right=transposed,
    budget=lambda rows, columns: (
        *coalesced(),
        requests(LOADS, 2 * rows * columns // 32),
        no_bank_conflicts(),
    ),
    budget_sizes={"rows": 64, "columns": 96},
    budget_between={"rows": (32, 96, 32), "columns": (32, 96, 32)},
    hints=(
        "Element (i, j) of the tile is in word 32 i + j now. Keep it in row i, but shift or mix j by "
        "something that depends on i.",
        "Two ways work: 32 i + (i + j) % 32, and 32 i + (i ^ j). Why does a column touch every bank once "
        "in both?",
        "Write tile[32 * threadIdx.y + (threadIdx.x ^ threadIdx.y)], and read tile[32 * threadIdx.x + "
        "(threadIdx.x ^ threadIdx.y)].",
    ),
    starts_from="no_swizzle",
    wrong={
        "no_swizzle": Wrong(
            {
                "tile[32 * threadIdx.y + (threadIdx.x ^ threadIdx.y)]": "tile[32 * threadIdx.y + threadIdx.x]",
                "tile[32 * threadIdx.x + (threadIdx.x ^ threadIdx.y)]": "tile[32 * threadIdx.x + threadIdx.y]",
            },
            OVER_BUDGET,
            "bank conflicts",
        ),
        "padding": Wrong(
            {
                "tile[32 * threadIdx.y + (threadIdx.x ^ threadIdx.y)]": "tile[33 * threadIdx.y + threadIdx.x]",
                "tile[32 * threadIdx.x + (threadIdx.x ^ threadIdx.y)]": "tile[33 * threadIdx.x + threadIdx.y]",
            },
            FAULT,
            "out of bounds",
        ),
        "only_when_writing": Wrong(
            {"tile[32 * threadIdx.x + (threadIdx.x ^ threadIdx.y)]": "tile[32 * threadIdx.x + threadIdx.y]"},
            WRONG,
            "expected",
        ),
    },
)

FIX_THE_MASK = Task(
    name="fix_the_mask",
    title="Fix the mask",
    kernel="warp_maxima",
    text="""
`largest[w]` is the largest of the elements 32 w to 32 w + 31 of x; one warp for each, 4 in a block. All
elements are negative here, and some are below −1e38. The last warp may have fewer than 32 elements, and the
block may have warps without any.

The kernel below is right as long as `n` is a multiple of 128. For other n the shuffle names lanes that do
not come to it, and then a GPU waits for ever or gives an arbitrary value. Mend it.
""",
    launch="warp_maxima[tiles(n, 128), 128](largest, x, n)",
    sizes=({"n": 128}, {"n": 20}, {"n": 33}, {"n": 255}),
    between={"n": (1, 1000)},
    inputs=_negative,
    right=_maxima,
    hints=(
        "Either the mask names only those lanes that come, or all lanes come. The second is simpler.",
        "A lane without an element needs a value that changes no maximum: 0 does, with negative elements.",
        "float v = i < n ? x[i] : -INFINITY; the shuffles stand outside of every if; and lane 0 writes if"
        " i < n.",
    ),
    starts_from="inside_the_guard",
    wrong={
        "inside_the_guard": Wrong(
            {
                "    float v = i < n ? x[i] : -INFINITY;\n": "    if (i >= n)\n        return;\n    float v = x[i];\n",
                "threadIdx.x % 32 == 0 && i < n": "threadIdx.x % 32 == 0",
            },
            FAULT,
            "missing lane",
        ),
        "zeros": Wrong({"-INFINITY": "0.0f"}, WRONG, "got 0"),
        "a_number_that_seems_small": Wrong({"-INFINITY": "-1000.0f"}, WRONG, "got -1000"),
        "one_lane_too_few": Wrong(
            {
                "    float v = i < n ? x[i] : -INFINITY;\n": "    if (i >= n)\n        return;\n    float v = x[i];\n"
                "    int lanes = min(32, n - i + (int)threadIdx.x % 32);\n"
                "    unsigned mask = (1u << (lanes - 1)) - 1;\n",
                "__shfl_down_sync(0xffffffff, v, distance)": "__shfl_down_sync(mask, v, distance)",
            },
            FAULT,
            "shuffle source",
        ),
        "empty_warps_write": Wrong(
            {"threadIdx.x % 32 == 0 && i < n": "threadIdx.x % 32 == 0"}, FAULT, "out of bounds"
        ),
    },
)

BEAT_THE_BUDGET = Task(
    name="beat_the_budget",
    title="Beat the budget",
    kernel="residual_norm",
    text="""
`y = LayerNorm(x + residual)`: from every row its mean is subtracted, and the result is divided by
`sqrt(variance + 1e-5)`, multiplied by `weight` and added to `bias`, both with an element for each column. A
row has `4 * fours` columns, at most 512; one block of 128 threads for each row.

The kernel below is right, and asks for far too much. All you have learned may be needed: reading once,
keeping values in registers, 16 bytes at once (`float4`), shuffles inside a warp, and shared memory only
between the 4 warps.
""",
    launch="residual_norm[rows, 128](y, x, residual, weight, bias, fours)",
    sizes=({"rows": 1, "fours": 1}, {"rows": 3, "fours": 32}, {"rows": 2, "fours": 100}),
    between={"rows": (1, 6), "fours": (1, 128)},
    inputs=_residual,
    right=_residual_norm,
    tolerance=5e-5,
    budget=lambda rows, fours: (
        launches(1),
        sectors(LOADS, rows * 4 * fours // 2),
        requests(LOADS, rows * 4 * tiles(fours, 32)),
        sectors(STORES, rows * fours // 2),
        shared_requests(rows * 4 * 12),
        no_bank_conflicts(),
        barriers(rows * 4 * 3),
        requests(ATOMICS, 0),
    ),
    budget_sizes={"rows": 8, "fours": 128},
    budget_between={"rows": (1, 8, 1), "fours": (32, 128, 32)},
    hints=(
        "Thread t has one float4 of the row: ((const float4 *)x)[…], the same of the residual. Their sum "
        "stays in registers to the end. Threads beyond the last float4 have zeros, which must not count in "
        "the variance.",
        "A sum over the block: a warp's sum by shuffles, lane 0 writes it to shared memory, barrier, and "
        "every thread adds up the 4 numbers. You need two such sums. Give each its own 4 words, and no "
        "further barrier is needed.",
        "Weight and bias are read as float4 as well, and y is written as float4. Then each warp makes 4 "
        "requests to load.",
    ),
    starts_from="one_float_at_a_time",
    wrong={
        "one_float_at_a_time": Wrong(None, OVER_BUDGET, "requests of global loads"),
        "another_eps": Wrong({"1e-5f": "1e-6f"}, WRONG, "expected"),
        "zeros_count": Wrong(
            {
                "float4 d = {v.x - mean, v.y - mean, v.z - mean, v.w - mean};\n    if "
                "(!inside)\n        d = (float4){0.0f, 0.0f, 0.0f, 0.0f};\n": "float4 d = "
                "{v.x - mean, v.y - mean, v.z - mean, v.w - mean};\n"
            },
            WRONG,
            "expected",
        ),
        "same_words_for_both_sums": Wrong(
            {
                "block_sum(d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w, second)": "block_sum(d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w, first)"
            },
            FAULT,
            "race",
        ),
    },
)

TASKS = (FIX_THE_RACE, FIX_THE_BANK_CONFLICT, FIX_THE_MASK, BEAT_THE_BUDGET)
