"""Puzzles about what threads share: a tile and its banks, a tree, shuffles, counters."""

from __future__ import annotations

from fgn.puzzles.definition import (
    ATOMICS,
    FAULT,
    LOADS,
    NO_BARRIER,
    OVER_BUDGET,
    WRONG,
    Task,
    Wrong,
    barriers,
    coalesced,
    no_bank_conflicts,
    requests,
    sectors_per_request,
    shared_requests,
    steps,
    together,
    warp_operations,
)
from fgn.puzzles.late import torch


def matrix(sizes, generator):
    return {"x": torch.randn(sizes["rows"], sizes["columns"], generator=generator)}


def _bins(sizes, generator):
    x = torch.randint(0, 64, (sizes["n"],), generator=generator, dtype=torch.int32)
    x[::3] = 7  # one bin gets more than the others
    return {"x": x}


def transposed(x, rows, columns):
    return {"y": x.T.contiguous()}


def _row_sums(x, rows, columns):
    return {"sum": x.sum(1)}


_MATRICES = (
    {"rows": 4, "columns": 6},
    {"rows": 32, "columns": 32},
    {"rows": 33, "columns": 31},
    {"rows": 70, "columns": 5},
)

TRANSPOSE = Task(
    name="transpose",
    title="Transpose",
    kernel="transpose",
    text="""
Transpose a matrix: `y[column, row] = x[row, column]`; x has `rows × columns` elements, y has `columns ×
rows`.

The kernel below is right, but when a warp reads a row of x, it writes a column of y, at the price of 32
sectors for each request. Let a block of 32 × 32 threads read a tile row by row into shared memory
(`__shared__ float tile[32][32];`), wait until the tile is complete (`__syncthreads()`), and write the
transposed tile row by row, too.
""",
    launch="transpose[(tiles(columns, 32), tiles(rows, 32)), (32, 32)](y, x, rows, columns)",
    sizes=_MATRICES,
    between={"rows": (1, 80), "columns": (1, 80)},
    inputs=matrix,
    right=transposed,
    budget=lambda rows, columns: (*coalesced(), requests(LOADS, 2 * rows * columns // 32)),
    budget_sizes={"rows": 64, "columns": 96},
    budget_between={"rows": (32, 96, 32), "columns": (32, 96, 32)},
    starts_from="directly",
    hints=(
        "When x is read, threadIdx.x has to count columns of x. When y is written, it has to count "
        "columns of y, which are rows of x.",
        "A thread writes another element than it read: it reads tile element [threadIdx.y][threadIdx.x] "
        "and writes [threadIdx.x][threadIdx.y]. So its row and column in y begin at the other block "
        "index.",
        "After the barrier: int across = blockIdx.y * 32 + threadIdx.x; int down = blockIdx.x * 32 + "
        "threadIdx.y; if (across < rows && down < columns) y[down * rows + across] = "
        "tile[threadIdx.x][threadIdx.y]. The barrier itself stands outside every if.",
    ),
    wrong={
        "directly": Wrong(
            {
                "    __shared__ float tile[32][32];\n": "",
                "tile[threadIdx.y][threadIdx.x] = x[row * columns + column];": "y[column * rows + row] = "
                "x[row * columns + column];",
                """    __syncthreads();
    int across = blockIdx.y * 32 + threadIdx.x;
    int down = blockIdx.x * 32 + threadIdx.y;
    if (across < rows && down < columns)
        y[down * rows + across] = tile[threadIdx.x][threadIdx.y];
""": "",
            },
            OVER_BUDGET,
            "sectors for each request of a global store",
        ),
        "no_barrier": NO_BARRIER,
        "barrier_inside_the_guard": Wrong(
            {
                "if (row < rows && column < columns)\n": "if (row < rows && column < columns) {\n",
                "x[row * columns + column];\n    __syncthreads();": "x[row * columns + column];\n"
                "        __syncthreads();\n    }",
            },
            FAULT,
            "barrier",
        ),
        "tile_stays_in_its_place": Wrong(
            {
                "across = blockIdx.y * 32": "across = blockIdx.x * 32",
                "down = blockIdx.x * 32": "down = blockIdx.y * 32",
            },
            WRONG,
            "were never written",
        ),
    },
)

PADDING = Task(
    name="padding",
    title="Padding",
    kernel="transpose_padded",
    text="""
The same transpose, with its tile in shared memory; every request of global memory takes 4 sectors. But now
shared memory is slow.

It has 32 banks, each 4 bytes wide: word *w* lies in bank *w* mod 32. A warp that reads a row of the tile
touches each bank once. A warp that reads a column wants 32 different words of the same bank, and the bank
hands them out one after the other: 31 bank conflicts. Change the tile, and nothing else, such that rows and
columns both touch each bank once.
""",
    launch="transpose_padded[(tiles(columns, 32), tiles(rows, 32)), (32, 32)](y, x, rows, columns)",
    sizes=_MATRICES,
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
    starts_from="no_padding",
    hints=(
        "tile[i][j] is word 32 i + j. In which bank is it? Which lanes of a column's request meet there?",
        "If the rows were longer by some words that nobody uses, the rows would begin in different banks.",
        "With rows of 33 words, tile[i][j] lies in bank (i + j) mod 32, for 32 different i all different:"
        " __shared__ float tile[32][33];",
    ),
    wrong={
        "no_padding": Wrong({"tile[32][33]": "tile[32][32]"}, OVER_BUDGET, "bank conflicts"),
        "one_more_row": Wrong({"tile[32][33]": "tile[33][32]"}, OVER_BUDGET, "bank conflicts"),
        "two_words": Wrong({"tile[32][33]": "tile[32][34]"}, OVER_BUDGET, "bank conflicts"),
    },
)

BLOCK_REDUCTION = Task(
    name="block_reduction",
    title="Block reduction",
    kernel="row_sum",
    text="""
`sum[row]` is the sum of a row of x; one block of 128 threads for each row.

First every thread adds up its share: the elements `threadIdx.x`, `threadIdx.x + 128`, … of the row. Then the
block adds up the 128 shares in shared memory, as a tree: 64 threads add two shares each, then 32, … until
one is left. Whoever reads a share that another thread wrote needs a barrier between the two, and all threads
must come to every barrier.
""",
    launch="row_sum[rows, 128](sum, x, columns)",
    sizes=({"rows": 1, "columns": 8}, {"rows": 3, "columns": 128}, {"rows": 2, "columns": 300}),
    between={"rows": (1, 6), "columns": (1, 1000)},
    inputs=matrix,
    right=_row_sums,
    tolerance=1e-4,
    budget=lambda rows, columns: (
        sectors_per_request(LOADS, 4),
        requests(LOADS, 2 * rows * columns // 32),
        no_bank_conflicts(),
        barriers(8 * 4 * rows),
        # Each of 7 steps has two loads and a store; the limit is twice that, for other ways.
        steps(columns // 128 + 2 * (7 * 3 + 3)),
        together(16),
    ),
    budget_sizes={"rows": 4, "columns": 512},
    budget_between={"rows": (1, 6, 1), "columns": (256, 1024, 128)},
    hints=(
        "A row may have fewer than 128 elements, and then some shares are 0. They must be written all the"
        " same.",
        "for (int half = 64; half > 0; half /= 2): thread t adds share t + half to share t, if t < half. "
        "Then bank conflicts do not arise. Where does the barrier go?",
        "After the if, not inside it: all 128 threads wait in every step. At the end thread 0 writes "
        "partial[0].",
    ),
    wrong={
        "one_thread_for_all": Wrong(
            {
                "int i = thread; i < columns; i += 128": "int i = 0; thread == 0 && i < columns; i++",
            },
            OVER_BUDGET,
            "requests of global loads",
        ),
        "no_barrier_in_the_tree": Wrong(
            {"partial[thread + half];\n        __syncthreads();": "partial[thread + half];"}, FAULT, "race"
        ),
        "neighbours_first": Wrong(
            {
                "for (int half = 64; half > 0; half /= 2)": "for (int step = 1; step < 128; step *= 2)",
                "if (thread < half)": "if (2 * step * thread < 128)",
                "partial[thread] += partial[thread + half];": "partial[2 * step * thread] += "
                "partial[2 * step * thread + step];",
            },
            OVER_BUDGET,
            "bank conflicts",
        ),
        "thread_0_adds_the_shares": Wrong(
            {
                "for (int half = 64; half > 0; half /= 2) {\n        if (thread < half)\n            "
                "partial[thread] += partial[thread + half];\n        __syncthreads();\n    }\n    "
                "if (thread == 0)\n        sum[blockIdx.x] = partial[0];": "if (thread == 0) {\n        "
                "float all = 0.0f;\n        for (int i = 0; i < 128; i++)\n            all += partial[i];\n"
                "        sum[blockIdx.x] = all;\n    }"
            },
            OVER_BUDGET,
            "busiest warp",
        ),
        "every_second_thread": Wrong(
            {
                "for (int half = 64; half > 0; half /= 2)": "for (int step = 1; step < 128; step *= 2)",
                "if (thread < half)": "if (thread % (2 * step) == 0)",
                "partial[thread + half]": "partial[thread + step]",
            },
            OVER_BUDGET,
            "threads of a warp that are active",
        ),
        "rows_up_to_128": Wrong(
            {"for (int i = thread; i < columns; i += 128)": "int i = thread;\n    if (i < columns)"},
            WRONG,
            "sum[",
        ),
    },
)

WARP_SHUFFLE = Task(
    name="warp_shuffle",
    title="Warp shuffle",
    kernel="warp_sum",
    text="""
The same row sums by a warp for each row, 4 warps in a block: `threadIdx.x` is the lane, `threadIdx.y` the
warp.

The lanes of a warp can read each other's registers: `__shfl_down_sync(0xffffffff, v, d)` is the `v` of the
lane `d` further up. So 32 shares become one sum in 5 steps, without shared memory and without a barrier. All
lanes that the mask names must come to the shuffle. The last block may have warps without a row.
""",
    launch="warp_sum[tiles(rows, 4), (32, 4)](sum, x, rows, columns)",
    sizes=({"rows": 1, "columns": 8}, {"rows": 4, "columns": 32}, {"rows": 5, "columns": 100}),
    between={"rows": (1, 12), "columns": (1, 500)},
    inputs=matrix,
    right=_row_sums,
    tolerance=1e-4,
    budget=lambda rows, columns: (
        sectors_per_request(LOADS, 4),
        requests(LOADS, 2 * rows * columns // 32),
        shared_requests(0),
        warp_operations(5 * rows),
    ),
    budget_sizes={"rows": 8, "columns": 256},
    budget_between={"rows": (4, 16, 4), "columns": (64, 512, 32)},
    hints=(
        "First the shares, as in the block reduction: lane l adds the elements l, l + 32, … of its row.",
        "for (int d = 16; d > 0; d /= 2) share += __shfl_down_sync(0xffffffff, share, d); after it one "
        "lane has the whole sum. Which one?",
        "Lane 0 has it: if (lane == 0) sum[row] = share. A whole warp without a row may leave at the "
        "beginning.",
    ),
    wrong={
        "shuffle_in_a_branch": Wrong(
            {"share += __shfl_down_sync": "if (lane < distance)\n            share += __shfl_down_sync"},
            FAULT,
            "lane",
        ),
        "the_last_lane_writes": Wrong({"if (lane == 0)": "if (lane == 31)"}, WRONG, "sum[0]: expected"),
        "starts_at_eight": Wrong({"distance = 16": "distance = 8"}, WRONG, "sum["),
        "no_row_no_guard": Wrong({"    if (row >= rows)\n        return;\n": ""}, FAULT, "out of bounds"),
    },
)

HISTOGRAM = Task(
    name="histogram",
    title="Histogram",
    kernel="histogram",
    text="""
`counts[b]` is how many of the `n` numbers in x are equal to `b`; all lie between 0 and 63, and `counts` is
zero at first.

Many threads add to the same counter at the same time, which takes an atomic: `atomicAdd(&counter, 1)`.
Atomics on global memory are slow, and here each warp would ask for one with every 32 numbers. Let each of
the 8 blocks count in shared memory first (atomics there are cheap), and add its 64 counters to the global
ones at the end. Shared memory is not zero at first.
""",
    launch="histogram[8, 128](counts, x, n)",
    sizes=({"n": 5}, {"n": 1024}, {"n": 2000}),
    between={"n": (1, 3000)},
    inputs=_bins,
    right=lambda x, n: {"counts": torch.bincount(x, minlength=64).int()},
    starts_at_zero=True,
    budget=lambda n: (sectors_per_request(LOADS, 4), requests(LOADS, 2 * n // 32), requests(ATOMICS, 16)),
    budget_sizes={"n": 4096},
    budget_between={"n": (2048, 8192, 1024)},
    hints=(
        "Three parts: zero the block's counters, count, add them to the global ones. What has to stand "
        "between them?",
        "A barrier between each two of them. Zeroing 64 counters takes the threads 0 to 63 only, but the "
        "barrier takes all.",
        "if (thread < 64) own[thread] = 0; barrier; for (i = …; i < n; i += gridDim.x * blockDim.x) "
        "atomicAdd(&own[x[i]], 1); barrier; if (thread < 64) atomicAdd(&counts[thread], own[thread]);",
    ),
    wrong={
        "no_atomic": Wrong({"atomicAdd(&own[x[i]], 1);": "own[x[i]] += 1;"}, FAULT, "race"),
        "own_counters_not_zeroed": Wrong(
            {"        own[thread] = 0;\n": "        ;\n"}, FAULT, "uninitialised"
        ),
        "no_barrier_before_the_end": Wrong(
            {"atomicAdd(&own[x[i]], 1);\n    __syncthreads();": "atomicAdd(&own[x[i]], 1);"}, FAULT, "race"
        ),
        "global_counters_only": Wrong(
            {
                "    __shared__ int own[64];\n": "",
                "    if (thread < 64)\n        own[thread] = 0;\n    __syncthreads();\n": "",
                "atomicAdd(&own[x[i]], 1);\n    __syncthreads();\n    if (thread < 64)\n        "
                "atomicAdd(&counts[thread], own[thread]);": "atomicAdd(&counts[x[i]], 1);",
            },
            OVER_BUDGET,
            "requests of global atomics",
        ),
    },
)

TASKS = (TRANSPOSE, PADDING, BLOCK_REDUCTION, WARP_SHUFFLE, HISTOGRAM)
