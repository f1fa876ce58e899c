"""The first puzzles: a thread for each element, a guard, a loop, and neighbours that read neighbours."""

from __future__ import annotations

import numpy as np

from cudasim.counting.apart import tiles
from fgn.puzzles.definition import (
    FAULT,
    LOADS,
    OVER_BUDGET,
    STORES,
    WRONG,
    Limit,
    Task,
    Wrong,
    coalesced,
    requests,
    sectors,
    together,
)


def _each_once(elements: int) -> tuple[Limit, ...]:
    """A warp stores 32 elements with one request, or with two if its lanes take two branches. Threads that
    repeat others' work need more."""
    return *coalesced(), requests(STORES, 2 * tiles(elements, 32))


def _one_vector(sizes, generator):
    return {"x": generator.standard_normal(sizes["n"], dtype=np.float32)}


def _two_vectors(sizes, generator):
    return {name: generator.standard_normal(sizes["n"], dtype=np.float32) for name in ("x", "y")}


def _scaled_rows(sizes, generator):
    rows, columns = sizes["rows"], sizes["columns"]
    return {
        "x": generator.standard_normal((rows, columns), dtype=np.float32),
        "scale": generator.standard_normal(rows, dtype=np.float32),
    }


MAP = Task(
    name="map",
    title="Map",
    kernel="twice",
    text="""
Double every element: `y[i] = 2 * x[i]`.

The launch is one block of `n` threads, and every thread runs the same kernel. What tells them apart is
`threadIdx.x`, which is 0 in the first thread and `n - 1` in the last. Thread *i* computes element *i*.
""",
    launch="twice[1, n](y, x)",
    sizes=({"n": 1}, {"n": 8}, {"n": 1024}),
    between={"n": (2, 1023)},
    in_numpy=True,
    inputs=_one_vector,
    right=lambda x, n: {"y": 2 * x},
    budget=lambda n: _each_once(n),
    budget_sizes={"n": 1024},
    budget_between={"n": (256, 992, 32)},
    hints=(
        "Every thread needs a number of its own. Which built-in variable has it?",
        "The kernel needs one statement; there is no loop in it.",
        "Read x[threadIdx.x], and write twice that to y[threadIdx.x].",
    ),
    wrong={
        "counts_from_one": Wrong(
            {"int i = threadIdx.x;": "int i = threadIdx.x + 1;"}, FAULT, "out of bounds"
        ),
        "one_thread_only": Wrong({"y[i] =": "if (i == 0)\n        y[i] ="}, WRONG, "were never written"),
        "every_thread_does_all": Wrong(
            {"int i = threadIdx.x;": "for (int i = 0; i < blockDim.x; i++)"},
            OVER_BUDGET,
            "requests of global stores",
        ),
        "adds_two": Wrong({"2.0f * x[i]": "2.0f + x[i]"}, WRONG, "y[0]: expected"),
    },
)

GUARD = Task(
    name="guard",
    title="Guard",
    kernel="relu",
    text="""
`y[i]` is `x[i]` where that is positive, and 0 elsewhere.

`n` no longer fits into one block. The launch has enough blocks of 256 threads to cover all elements, so the
last block has threads too many: they must not touch memory. Every thread knows its block's number
`blockIdx.x`, the threads of a block `blockDim.x`, and its own number in the block, `threadIdx.x`.
""",
    launch="relu[tiles(n, 256), 256](y, x, n)",
    sizes=({"n": 1}, {"n": 256}, {"n": 257}, {"n": 1000}),
    between={"n": (2, 3000)},
    in_numpy=True,
    inputs=_one_vector,
    right=lambda x, n: {"y": np.maximum(x, 0)},
    budget=lambda n: _each_once(n),
    budget_sizes={"n": 2048},
    budget_between={"n": (512, 4096, 32)},
    hints=(
        "First find the number of the thread among all threads of all blocks.",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; this can be n or more. What may such a thread do?",
        "if (i < n) y[i] = x[i] > 0.0f ? x[i] : 0.0f;",
    ),
    wrong={
        "no_guard": Wrong({"if (i < n)\n        ": ""}, FAULT, "out of bounds"),
        "guard_one_too_far": Wrong({"i < n": "i <= n"}, FAULT, "out of bounds"),
        "block_forgotten": Wrong(
            {"blockIdx.x * blockDim.x + threadIdx.x": "threadIdx.x"}, WRONG, "were never written"
        ),
    },
)

GRID_STRIDE = Task(
    name="grid_stride",
    title="Grid stride",
    kernel="axpy",
    text="""
`z[i] = a * x[i] + y[i]` for all `n` elements, with only 4 blocks of 64 threads, however large `n` is.

So every thread computes several elements, in a loop. Which ones is up to you, and it matters: the 32 lanes
of a warp should always be at 32 neighbouring elements, because then one request of the warp takes 4 sectors
of 32 bytes and no more.
""",
    launch="axpy[4, 64](z, 2.5, x, y, n)",
    sizes=({"n": 1}, {"n": 256}, {"n": 257}, {"n": 4096}),
    between={"n": (2, 5000)},
    in_numpy=True,
    inputs=_two_vectors,
    right=lambda x, y, n: {"z": 2.5 * x + y},
    budget=lambda n: _each_once(n),
    budget_sizes={"n": 4096},
    budget_between={"n": (1024, 8192, 256)},
    hints=(
        "Begin with the thread's number in the whole grid. How far is it to the thread's next element?",
        "There are gridDim.x * blockDim.x threads. If each goes on by as many, no element is left out or "
        "done twice.",
        "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) …",
    ),
    wrong={
        "one_element_each": Wrong(
            {"for (int i = first; i < n; i += threads)": "int i = first;\n    if (i < n && i < threads)"},
            WRONG,
            "were never written",
        ),
        "a_chunk_each": Wrong(
            {
                "for (int i = first; i < n; i += threads)": "int chunk = (n + threads - 1) / threads;\n    "
                "for (int i = first * chunk; i < n && i < (first + 1) * chunk; i++)"
            },
            OVER_BUDGET,
            "sectors for each request of a global load",
        ),
        "a_block_of_a_stride": Wrong(
            {"i += threads": "i += blockDim.x"}, OVER_BUDGET, "requests of global stores"
        ),
        "no_end": Wrong({"i < n": "i <= n"}, FAULT, "out of bounds"),
    },
)

COALESCING = Task(
    name="coalescing",
    title="Coalescing",
    kernel="scale_rows",
    text="""
Multiply every row of a matrix by a number of its own: `y[row, column] = scale[row] * x[row, column]`.

The kernel below is right. But it asks memory for 8 times as much as it needs: neighbouring lanes work on
neighbouring *rows*, and in memory these lie `columns` floats apart, so that every lane has a sector of 32
bytes to itself. Give neighbouring lanes neighbouring columns. The matrix lies in memory row by row: element
(row, column) is at `row * columns + column`.
""",
    launch="scale_rows[tiles(rows * columns, 256), 256](y, x, scale, rows, columns)",
    sizes=({"rows": 1, "columns": 1}, {"rows": 33, "columns": 7}, {"rows": 5, "columns": 300}),
    between={"rows": (1, 60), "columns": (1, 60)},
    in_numpy=True,
    inputs=_scaled_rows,
    right=lambda x, scale, rows, columns: {"y": scale[:, None] * x},
    budget=lambda rows, columns: _each_once(rows * columns),
    budget_sizes={"rows": 64, "columns": 64},
    budget_between={"rows": (32, 96, 8), "columns": (32, 96, 32)},
    starts_from="lanes_down_a_column",
    hints=(
        "Only two lines are to change: those that make row and column of the thread's number i.",
        "From one lane to the next i grows by one. Which of row and column should then grow by one?",
        "int row = i / columns; int column = i % columns;",
    ),
    wrong={
        "lanes_down_a_column": Wrong(
            {"row = i / columns": "row = i % rows", "column = i % columns": "column = i / rows"},
            OVER_BUDGET,
            "sectors for each request of a global load",
        ),
        "rows_for_columns": Wrong(
            {"row = i / columns": "row = i / rows", "column = i % columns": "column = i % rows"},
            FAULT,
            "race",
        ),
    },
)

VECTORS = Task(
    name="vectors",
    title="Four at once",
    kernel="scale_by_vectors",
    text="""
`y[i] = 3 * x[i] - 1` for all `n` elements; each thread has four of them, side by side.

The kernel below is right. But it reads one float at a time, and then a lane's floats are 16 bytes away from
its neighbour's: each request of the warp takes 16 sectors, and the four requests of a thread take the same
sectors again. A lane may read up to 16 bytes at once: `((const float4 *)x)[i]` is a `float4` with the members
x, y, z, w, the elements 4 i to 4 i + 3. `make_float4(a, b, c, d)` makes one to be stored. `n` need not be a
multiple of 4.
""",
    launch="scale_by_vectors[tiles(n, 1024), 256](y, x, n)",
    sizes=({"n": 1}, {"n": 4}, {"n": 1023}, {"n": 1026}),
    between={"n": (2, 3000)},
    in_numpy=True,
    inputs=_one_vector,
    right=lambda x, n: {"y": 3 * x - 1},
    budget=lambda n: (
        requests(LOADS, n // 128),
        requests(STORES, n // 128),
        sectors(LOADS, n // 8),
        sectors(STORES, n // 8),
    ),
    budget_sizes={"n": 4096},
    budget_between={"n": (1024, 8192, 128)},
    starts_from="one_at_a_time",
    hints=(
        "Thread i has the elements from 4 * i on. When are there four of them?",
        "if (4 * i + 3 < n) there are: one float4 is read and one is stored. Else a loop does what is left, "
        "one float at a time; that is so in one thread at most.",
        "float4 v = ((const float4 *)x)[i]; ((float4 *)y)[i] = make_float4(3.0f * v.x - 1.0f, …); else "
        "for (int j = 4 * i; j < n; j++) y[j] = 3.0f * x[j] - 1.0f;",
    ),
    wrong={
        "one_at_a_time": Wrong(None, OVER_BUDGET, "requests of global loads"),
        "the_rest_is_forgotten": Wrong({"j < n; j++": "j < 0; j++"}, WRONG, "were never written"),
        "one_too_far": Wrong({"4 * i + 3 < n": "4 * i < n"}, FAULT, "out of bounds"),
        "vectors_that_are_only_read": Wrong(
            {
                "((float4 *)y)[i] =": "float4 r =",
                "3.0f * v.w - 1.0f);": "3.0f * v.w - 1.0f);\n        y[4 * i] = r.x;\n        y[4 * i + 1] = "
                "r.y;\n        y[4 * i + 2] = r.z;\n        y[4 * i + 3] = r.w;",
            },
            OVER_BUDGET,
            "requests of global stores",
        ),
        "z_and_w_for_each_other": Wrong(
            {"3.0f * v.z": "3.0f * v.w", "3.0f * v.w - 1.0f)": "3.0f * v.z - 1.0f)"}, WRONG, "y[2]: expected"
        ),
    },
)

BUTTERFLY = Task(
    name="butterfly",
    title="Stay together",
    kernel="butterfly",
    text="""
x has pairs of neighbours; `n` is even. Of each pair (a, b), y gets the sum and the difference: `y[i]` is
`x[i] + x[i + 1]` where i is even, and `x[i - 1] - x[i]` where it is odd.

The kernel below is right. But the lanes of a warp execute one instruction at a time: where they take the two
branches of an `if`, the warp goes through both, each time with half of its lanes asleep. That is
*divergence*, and it takes twice the instructions. Let every lane do the same instructions: which element
each of them reads, and with which sign it counts, can be computed.
""",
    launch="butterfly[tiles(n, 256), 256](y, x, n)",
    sizes=({"n": 2}, {"n": 256}, {"n": 258}, {"n": 1000}),
    between={"n": (2, 3000)},
    fits=lambda sizes: sizes["n"] % 2 == 0,
    in_numpy=True,
    inputs=_one_vector,
    right=lambda x, n: {
        "y": np.stack((x[0::2] + x[1::2], x[0::2] - x[1::2]), axis=1).ravel(),
    },
    budget=lambda n: (*coalesced(), requests(STORES, tiles(n, 32)), together(32)),
    budget_sizes={"n": 2048},
    budget_between={"n": (512, 4096, 256)},
    starts_from="two_branches",
    hints=(
        "Every lane reads its own element and its partner's. The partner of 0 is 1, that of 1 is 0, that of 2"
        " is 3 … which operation on i gives it?",
        "i ^ 1 is the partner. Both lanes add the partner's element and their own; one of them counts its own"
        " with another sign.",
        "float sign = i % 2 == 0 ? 1.0f : -1.0f; y[i] = x[i ^ 1] + sign * x[i]; a choice between two numbers "
        "is one instruction for all lanes.",
    ),
    wrong={
        "two_branches": Wrong(
            {
                "    float sign = i % 2 == 0 ? 1.0f : -1.0f;\n    y[i] = x[i ^ 1] + sign * x[i];": "    "
                "if (i % 2 == 0)\n        y[i] = x[i] + x[i + 1];\n    else\n        y[i] = x[i - 1] - x[i];"
            },
            OVER_BUDGET,
            "threads of a warp that are active",
        ),
        "one_thread_for_a_pair": Wrong(
            {
                "    float sign = i % 2 == 0 ? 1.0f : -1.0f;\n    y[i] = x[i ^ 1] + sign * x[i];": "    "
                "if (i % 2 == 0) {\n        y[i] = x[i] + x[i + 1];\n        y[i + 1] = x[i] - x[i + 1];\n"
                "    }"
            },
            OVER_BUDGET,
            "threads of a warp that are active",
        ),
        "the_next_one": Wrong({"i ^ 1": "i + 1"}, FAULT, "out of bounds"),
        "the_other_sign": Wrong({"? 1.0f : -1.0f": "? -1.0f : 1.0f"}, WRONG, "expected"),
    },
)

TASKS = (MAP, GUARD, GRID_STRIDE, COALESCING, VECTORS, BUTTERFLY)
