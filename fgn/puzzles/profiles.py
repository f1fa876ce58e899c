"""Puzzles about profiles and fusion: read a report, name what limits a kernel, fix that; and choose the best
of several ways to fuse two steps. The reports are `cudasim.predict()`'s, for a GPU that need not be
present."""

from __future__ import annotations

from cudasim.counting.apart import tiles
from fgn.puzzles.definition import (
    ATOMICS,
    FAULT,
    LOADS,
    MISREAD,
    OVER_BUDGET,
    STORES,
    WRONG,
    Question,
    Task,
    Wrong,
    barriers,
    coalesced,
    no_bank_conflicts,
    requests,
    sectors,
    shared_requests,
    shared_wavefronts,
    steps,
    together,
)
from fgn.puzzles.late import torch

RADIUS = 8

# What a report shows for each cause; a puzzle explains why the other causes are wrong.
_CAUSES = {
    "bytes": "all bytes are needed, and DRAM's bar would be the longest. It is not",
    "scattered": "then lines with many requests would have far more than 4 sectors for each",
    "conflicts": "then lines with many requests would have several wavefronts for a request of shared memory",
    "one lane": "then the line that costs most would have few threads active in an instruction",
    "one address": "then the line that costs most would have atomic operations, and L2's bar would be the "
    "longest",
}
_READ = """
Before you change anything, read the report of the kernel as it is. Which bar is the longest, and which line
makes it so? The table has, for each line, its part of the *clocks* of a warp that is like the average, its
part of all *requests* of memory, and what a request of it is like: sectors, wavefronts of shared memory,
active threads. Write the cause behind `// CAUSE:`, one of *bytes* (DRAM moves what is needed), *scattered*
(lanes ask for sectors that they hardly use), *conflicts* (lanes want different words of one bank), *one
lane* (the others wait for it) or *one address* (atomic operations on one word, one after the other). Then
mend it.
"""


def _cause(right: str, **others: str) -> Question:
    """The question for the cause. others: special arguments against an answer here."""
    said = {name: others.get(name.replace(" ", "_"), words) for name, words in _CAUSES.items()}
    del said[right]
    return Question("CAUSE", right, said)


def _one_vector(sizes, generator):
    return {"x": torch.randn(sizes["n"], generator=generator)}


def _matrix(sizes, generator):
    return {"x": torch.randn(sizes["rows"], sizes["columns"], generator=generator)}


# ------------------------------------------------------------------------------------------------------------
# Read a report, name the limiter, mend it

PROFILE_TOTAL = Task(
    name="profile_total",
    title="A sum that crawls",
    kernel="total_of_squares",
    text=f"""
`y[0]` is the sum of the squares of x; y begins at zero. The kernel is right, and needs a thousand times as long
as memory does.
{_READ}""",
    launch="total_of_squares[tiles(n, 4096), 256](y, x, n)",
    sizes=({"n": 1}, {"n": 255}, {"n": 4096}, {"n": 9000}),
    between={"n": (2, 12000)},
    inputs=_one_vector,
    right=lambda x, n: {"y": x.square().sum().view(1)},
    starts_at_zero=True,
    question=_cause(
        "one address",
        bytes="DRAM's bar is short: the bytes of x are no matter. Look at the longest bar, and at the line",
        scattered="the line has 5 sectors for a request at most: x is read coalesced. Look at what else it "
        "does",
    ),
    budget=lambda n: (*coalesced(), requests(ATOMICS, tiles(n, 4096)), barriers(8 * tiles(n, 4096))),
    budget_sizes={"n": 8192},
    budget_between={"n": (4096, 16384, 4096)},
    hints=(
        "L2 does atomic operations on one address one after the other, whoever asks. How many does the "
        "kernel ask"
        " for, and how many are needed?",
        "A thread adds up its own elements in a register, a warp by shuffles, a block by shared memory. "
        "What is left for"
        " atomicAdd()?",
        "sum += x[i] * x[i] in the loop; __shfl_down_sync() five times; lane 0 of each warp writes to"
        " of_warps[threadIdx.x / 32]; __syncthreads(); the first warp adds the 8 up, and its lane 0 calls "
        "atomicAdd(y, sum).",
    ),
    has_report=True,
    starts_from="each_thread",
    wrong={
        "each_thread": Wrong(None, MISREAD, "expected one of"),
        "reads_bytes": Wrong({"// CAUSE: one address": "// CAUSE: bytes"}, MISREAD, "DRAM's bar is short"),
        "each_thread_with_the_answer": Wrong(
            {
                "sum += x[i] * x[i];": "atomicAdd(y, x[i] * x[i]);",
                "            atomicAdd(y, sum);": "            atomicAdd(y, 0.0f * sum);",
            },
            OVER_BUDGET,
            "requests of global atomics",
        ),
        "each_warp": Wrong(
            {
                "        of_warps[threadIdx.x / 32] = sum;\n    __syncthreads();\n    if (threadIdx.x < 32) {": "        atomicAdd(y, sum);\n    if (false) {"
            },
            OVER_BUDGET,
            "requests of global atomics",
        ),
        "no_barrier": Wrong({"    __syncthreads();\n": ""}, FAULT, "race"),
        "adds_plainly": Wrong({"            atomicAdd(y, sum);": "            y[0] += sum;"}, FAULT, "race"),
        "every_lane_adds": Wrong({"        if (threadIdx.x == 0)\n": ""}, WRONG, "expected"),
    },
)

PROFILE_SCALED = Task(
    name="profile_scaled",
    title="A row that waits",
    kernel="scaled_rows",
    text=f"""
A block divides a row of x by the largest magnitude in it: `y[r][c] = x[r][c] / max |x[r]|`. Memory would
need a third of the time.
{_READ}""",
    launch="scaled_rows[rows, 256, 4 * columns](y, x, columns)",
    sizes=({"rows": 1, "columns": 1}, {"rows": 2, "columns": 256}, {"rows": 3, "columns": 1000}),
    between={"rows": (1, 4), "columns": (2, 1500)},
    inputs=_matrix,
    right=lambda x, rows, columns: {"y": x / x.abs().amax(1, keepdim=True)},
    question=_cause(
        "one lane",
        bytes="DRAM's bar is not the longest: most of the time nobody asks for a byte. What goes on "
        "meanwhile?",
        conflicts="the loop's line has one wavefront for a request: a lane alone cannot meet another at a "
        "bank",
        scattered="x and y are accessed with 4 sectors for a request. Which line makes most requests, and who?",
    ),
    budget=lambda rows, columns: (
        *coalesced(),
        requests(LOADS, rows * tiles(columns, 32)),
        steps(4 * tiles(columns, 256) + 8),
        together(24),
        barriers(rows * 8 * 3),
    ),
    budget_sizes={"rows": 4, "columns": 1024},
    budget_between={"rows": (1, 4, 1), "columns": (512, 2048, 256)},
    hints=(
        "One thread reads the whole row from shared memory, one element after the other; 255 wait at a "
        "barrier.",
        "Each thread has seen its own elements when it copied them. So it knows the largest of them before "
        "any barrier.",
        "largest = fmaxf(largest, fabsf(row[i])) in the first loop; __shfl_xor_sync() five times; lane 0 "
        "writes to"
        " of_warps[threadIdx.x / 32]; __syncthreads(); largest = of_warps[threadIdx.x % 8], and three "
        "shuffles more.",
    ),
    has_report=True,
    starts_from="one_lane",
    wrong={
        "one_lane": Wrong(None, MISREAD, "expected one of"),
        "reads_conflicts": Wrong({"// CAUSE: one lane": "// cause:  Conflicts."}, MISREAD, "one wavefront"),
        "each_lane_reads_all": Wrong(
            {
                "    largest = of_warps[threadIdx.x % 8];\n": "    for (int i = 0; i < columns; i++)\n        largest = fmaxf(largest, fabsf(row[i]));\n"
            },
            OVER_BUDGET,
            "busiest warp",
        ),
        "one_lane_of_each_warp": Wrong(
            {
                "        largest = fmaxf(largest, fabsf(row[i]));\n": "",
                "    for (int distance = 16; distance > 0; distance /= 2)\n        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, distance));\n    if (threadIdx.x % 32 == 0)\n": "    __syncthreads();\n    if (threadIdx.x % 32 == 0)\n        for (int i = threadIdx.x / 32; i < columns; i += 8)\n            largest = fmaxf(largest, fabsf(row[i]));\n    if (threadIdx.x % 32 == 0)\n",
            },
            OVER_BUDGET,
            "busiest warp",
        ),
        "no_barrier": Wrong({"    __syncthreads();\n": ""}, FAULT, "race"),
        "not_the_magnitude": Wrong({"fabsf(row[i])": "row[i]"}, WRONG, "expected"),
        "a_warp_for_itself": Wrong(
            {"of_warps[threadIdx.x % 8]": "of_warps[threadIdx.x / 32]"}, WRONG, "expected"
        ),
    },
)


LENGTH, SHIFTS = 64, 8


def _echoed(sizes, generator):
    rows = 32 * sizes["row_tiles"]
    return {
        "x": torch.randn(rows, LENGTH, generator=generator),
        "table": torch.randn(rows, 16, generator=generator),
    }


def _echoes(x, table, row_tiles):
    sums = [(x[:, : LENGTH - shift] * x[:, shift:]).sum(1) for shift in range(SHIFTS)]
    return {"y": torch.stack(sums) * table[:, 0]}


PROFILE_ECHOES = Task(
    name="profile_echoes",
    title="Two suspects",
    kernel="echoes",
    text=f"""
How alike is a row of x to itself, a few elements later? `y[k][r]` is the sum of `x[r][i] * x[r][i + k]` over
all i for which both are there, times `table[r][0]`, for k from 0 to 7. A block brings 32 rows of 64 elements
into shared memory. Then its warp k goes through them, each lane through its own row. Two lines of the report
look bad; one of them does not matter.
{_READ}""",
    launch="echoes[row_tiles, (32, 8)](y, x, table, 32 * row_tiles)",
    sizes=({"row_tiles": 1}, {"row_tiles": 2}, {"row_tiles": 3}),
    between={"row_tiles": (1, 4)},
    inputs=_echoed,
    right=_echoes,
    allowed=lambda inputs, sizes: 1e-4,
    question=_cause(
        "conflicts",
        scattered="one line has 32 sectors for a request, but each warp runs it once, and another line 57 to "
        "64 times: look at their parts of all requests",
        bytes="DRAM's bar is not the longest one",
        one_lane="all 32 threads are active in every line",
    ),
    budget=lambda row_tiles: (
        requests(LOADS, row_tiles * (LENGTH + SHIFTS)),
        sectors(LOADS, row_tiles * (4 * LENGTH + 32 * SHIFTS)),
        shared_wavefronts(row_tiles * (LENGTH + 2 * LENGTH * SHIFTS)),
    ),
    budget_sizes={"row_tiles": 2},
    budget_between={"row_tiles": (1, 4, 1)},
    hints=(
        "tile[lane][i]: lane l reads word 64 l + i. Which bank is that, for all lanes?",
        "The words of a column of the tile have to lie in 32 banks, and those of a row as well.",
        "Rows of 65 words: __shared__ float tile[32][65];",
    ),
    has_report=True,
    starts_from="rows_of_64_words",
    wrong={
        "rows_of_64_words": Wrong(
            {"tile[32][65]": "tile[32][64]", "// CAUSE: conflicts": "// CAUSE: ?"}, MISREAD, "expected one of"
        ),
        "reads_scattered": Wrong(
            {"// CAUSE: conflicts": "// CAUSE: scattered"}, MISREAD, "each warp runs it once"
        ),
        "named_and_not_mended": Wrong({"tile[32][65]": "tile[32][64]"}, OVER_BUDGET, "wavefronts"),
        "rows_of_66_words": Wrong({"tile[32][65]": "tile[32][66]"}, OVER_BUDGET, "wavefronts"),
        "without_the_tile": Wrong(
            {
                "sum += tile[lane][i] * tile[lane][i + shift];": "sum += x[(row + lane) * 64 + i] * x[(row + lane) * 64 + i + shift];"
            },
            OVER_BUDGET,
            "global loads",
        ),
        "does_not_wait": Wrong({"    __syncthreads();\n": ""}, FAULT, "race"),
        "to_the_end_of_the_row": Wrong({"i + shift < 64": "i < 64"}, FAULT, "tile"),
        "not_shifted": Wrong({"tile[lane][i + shift]": "tile[lane][i]"}, WRONG, "expected"),
    },
)

# ------------------------------------------------------------------------------------------------------------
# Which of these pays


def _column_shares(x, row_tiles, column_tiles):
    h = x.clamp(min=0).square()
    sums = h.sum(0)
    return {"sums": sums, "y": h / sums}


def _positive_columns(sizes, generator):
    x = torch.randn(32 * sizes["row_tiles"], 32 * sizes["column_tiles"], generator=generator)
    x[0] = 1.0  # no column has the sum 0
    return {"x": x}


FUSION_RECOMPUTE = Task(
    name="fusion_recompute",
    title="Store it or compute it again",
    kernel="column_sums",
    more_kernels=("divided",),
    text="""
`h = max(x, 0)²`, and `y` is h, divided by the sums of its columns. All of a column has to be there before
the first division, so there are two kernels. The first one stores h into y for the second one, as an
intermediate result of a framework would be. Another way: the second kernel computes h once more, from x.

Which pays on the GPU of the report? Count the passes over memory of both ways, and look at what the two
kernels wait for; or ask `cudasim.predict(column_sums[256, (32, 32)], …)` in a cell. Write *store*,
*recompute* or *neither* (both take as long) behind `// PAYS:`, and make it so.
""",
    launch="column_sums[column_tiles, (32, 32)](sums, y, x, 32 * row_tiles, 32 * column_tiles), "
    "divided[(column_tiles, row_tiles), (32, 8)](y, sums, x, 32 * row_tiles, 32 * column_tiles)",
    sizes=({"row_tiles": 1, "column_tiles": 1}, {"row_tiles": 3, "column_tiles": 2}),
    between={"row_tiles": (1, 4), "column_tiles": (1, 4)},
    inputs=_positive_columns,
    right=_column_shares,
    question=Question(
        "PAYS",
        "recompute",
        {
            "store": "storing h is a pass over memory more: x, h, h, y, where computing it again has x, x, "
            "y. Two "
            "operations for an element take less than its four bytes",
            "neither": "of four passes over memory one goes, and memory is what the first kernel waits for",
        },
    ),
    budget=lambda row_tiles, column_tiles: (
        sectors(LOADS, column_tiles * row_tiles * (2 * 128 + 4 * 8)),
        sectors(STORES, column_tiles * (row_tiles * 128 + 4)),
        *coalesced(),
    ),
    budget_sizes={"row_tiles": 2, "column_tiles": 2},
    budget_between={"row_tiles": (1, 4, 1), "column_tiles": (1, 4, 1)},
    hints=(
        "Passes over memory as it is: x is read, h written, h read, y written. And without h?",
        "The report's first kernel waits for DRAM, and writes as much as it reads. Two operations for an "
        "element do not show in any"
        " bar.",
        "column_sums: no store to y. divided: factor * h(x[row * columns + column]).",
    ),
    has_report=True,
    starts_from="stores",
    wrong={
        "stores": Wrong(
            {
                "// PAYS: recompute": "// PAYS: ?",
                "        sum += h(x[row * columns + column]);\n": "        sum += y[row * columns + column] = h(x[row * columns + column]);\n",
                "factor * h(x[row * columns + column])": "factor * y[row * columns + column]",
            },
            MISREAD,
            "expected one of",
        ),
        "says_store": Wrong({"// PAYS: recompute": "// PAYS: store"}, MISREAD, "a pass over memory more"),
        "named_and_still_stored": Wrong(
            {
                "        sum += h(x[row * columns + column]);\n": "        sum += y[row * columns + column] = h(x[row * columns + column]);\n",
                "factor * h(x[row * columns + column])": "factor * y[row * columns + column]",
            },
            OVER_BUDGET,
            "sectors of global stores",
        ),
        "forgets_h": Wrong(
            {"factor * h(x[row * columns + column])": "factor * x[row * columns + column]"}, WRONG, "expected"
        ),
        "no_barrier": Wrong({"    __syncthreads();\n": ""}, FAULT, "race"),
        "each_thread_its_sum": Wrong(
            {"        sums[column] = sum;\n    }\n": "    }\n    sums[column] = sum;\n"}, FAULT, "race"
        ),
    },
)


def _blurred(x, n):
    mish = torch.nn.functional.mish(x)
    kernel = x.new_full((1, 1, 2 * RADIUS + 1), 1 / (2 * RADIUS + 1))
    return {"y": torch.nn.functional.conv1d(mish.view(1, 1, n), kernel, padding=RADIUS).view(n)}


FUSION_TILE = Task(
    name="fusion_tile",
    title="Fused, and slower",
    kernel="blurred_mish",
    text="""
`y[i]` is the mean of mish(x[i - 8]) to mish(x[i + 8]); what is outside of x is zero. In two launches mish
is written to memory and read again. Somebody fused them: each thread computes the 17 values that it needs,
and the report is of that kernel. It saves the bytes of a launch, and is slower than the two launches were.

There are three ways: mish in a *launch* of its own, mish at each *tap* of the blur, as now, or mish once
for each element of a *tile* in shared memory. Which pays? The report says what a mish costs: compare the
bars of memory and of instructions, 17 to 1. Write it behind `// PAYS:`, and make it so.
""",
    launch="blurred_mish[tiles(n, 256), 256](y, x, n)",
    sizes=({"n": 1}, {"n": 8}, {"n": 256}, {"n": 257}, {"n": 700}),
    between={"n": (2, 1500)},
    inputs=_one_vector,
    right=_blurred,
    question=Question(
        "PAYS",
        "tile",
        {
            "tap": "17 times the instructions: the bar of the issue slots is far longer than DRAM's, so "
            "bytes that are saved do not show",
            "launch": "better than each tap, but mish is written and read once more. Is there a way to "
            "have both?",
        },
    ),
    budget=lambda n: (
        requests(LOADS, 9 * tiles(n, 256)),
        sectors(LOADS, tiles(n, 256) * 36),
        sectors(STORES, n // 8),
        shared_requests(tiles(n, 256) * (9 + 17 * 8)),
        no_bank_conflicts(),
        barriers(8 * tiles(n, 256)),
    ),
    budget_sizes={"n": 1024},
    budget_between={"n": (256, 2048, 256)},
    hints=(
        "What the fused kernel has too much of are instructions: 17 times mish for each element. What is "
        "the least?",
        "256 outputs need 272 inputs. The block computes mish of each of them once, and all threads use it.",
        "tile[i] = mish(x[first + i]) for i = threadIdx.x, threadIdx.x + 256, with first = blockIdx.x * "
        "256 - 8 and 0 outside of x;"
        " __syncthreads(); then the sum of tile[threadIdx.x] to tile[threadIdx.x + 16].",
    ),
    has_report=True,
    starts_from="each_tap",
    wrong={
        "each_tap": Wrong(None, MISREAD, "expected one of"),
        "says_tap": Wrong({"// PAYS: tile": "// PAYS: tap"}, MISREAD, "17 times the instructions"),
        "named_and_still_each_tap": Wrong(
            {
                "        sum += tile[threadIdx.x + tap];": "        sum += 0 <= first + (int)threadIdx.x + tap && first + (int)threadIdx.x + tap < n ? mish(x[first + threadIdx.x + tap]) : 0;"
            },
            OVER_BUDGET,
            "requests of global loads",
        ),
        "no_barrier": Wrong({"    __syncthreads();\n": ""}, FAULT, "race"),
        "no_halo": Wrong(
            {"i < THREADS + 2 * RADIUS; i += THREADS": "i < THREADS; i += THREADS"}, FAULT, "uninitialised"
        ),
        "halo_not_guarded": Wrong(
            {"0 <= at && at < n ? mish(x[at]) : 0.0f": "mish(x[at])"}, FAULT, "out of bounds"
        ),
        "halo_to_the_right_only": Wrong(
            {"blockIdx.x * THREADS - RADIUS": "blockIdx.x * THREADS"}, WRONG, "expected"
        ),
    },
)

TASKS = (PROFILE_TOTAL, PROFILE_SCALED, PROFILE_ECHOES, FUSION_RECOMPUTE, FUSION_TILE)
