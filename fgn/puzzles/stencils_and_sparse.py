"""Puzzles about neighbours and about rows of different lengths: a convolution, a stencil, and the product of
a sparse matrix with a vector, by row and by warp."""

from __future__ import annotations

from cudasim.counting.apart import tiles
from fgn.puzzles.definition import (
    FAULT,
    LOADS,
    NO_BARRIER,
    OVER_BUDGET,
    STORES,
    WRONG,
    Task,
    Wrong,
    no_bank_conflicts,
    requests,
    sectors,
    shared_requests,
    steps,
    together,
)
from fgn.puzzles.late import torch
from fgn.puzzles.shared_memory import matrix


def _signal(sizes, generator):
    return {
        "x": torch.randn(sizes["n"], generator=generator),
        "weight": torch.randn(2 * sizes["radius"] + 1, generator=generator),
    }


def _convolved(x, weight, radius, n):
    return {"y": torch.nn.functional.conv1d(x[None, None], weight[None, None], padding=radius)[0, 0]}


def _heat(x, rows, columns):
    around = torch.nn.functional.pad(x, (1, 1, 1, 1))
    neighbours = around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:]
    return {"y": x + 0.2 * (neighbours - 4 * x)}


def _sparse(sizes, generator):
    """A matrix whose rows have 0 to 2 * mean entries, and `mean` on average: each row of `mean` + d entries
    has
    another one of `mean` - d."""
    rows, columns, mean = sizes["rows"], sizes["columns"], sizes["mean"]
    more = torch.randint(0, mean + 1, (rows // 2,), generator=generator)
    lengths = torch.cat((mean + more, mean - more, torch.full((rows % 2,), mean)))
    lengths = lengths[torch.randperm(rows, generator=generator)]
    return {
        "start": torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int(),
        "column": torch.randint(0, columns, (rows * mean,), generator=generator, dtype=torch.int32),
        "value": torch.randn(rows * mean, generator=generator),
        "x": torch.randn(columns, generator=generator),
    }


def _sparse_product(start, column, value, x, rows, columns, mean):
    lengths = start.long().diff()
    row = torch.repeat_interleave(torch.arange(rows), lengths)
    return {"y": torch.zeros(rows, dtype=x.dtype).index_add(0, row, value * x[column.long()])}


CONVOLUTION = Task(
    name="convolution",
    title="Convolution with a halo",
    kernel="convolve",
    text="""
`y[i]` is the sum of `weight[k] * x[i + k - radius]` for k from 0 to `2 * radius`; what lies outside of x
counts as 0. `radius` is at most 8, and a block has 128 threads, one for each output.

Neighbouring outputs need nearly the same inputs, so reading them from global memory for each output is up to
17 times too much. Let the block read its 128 elements once into shared memory, and with them the *halo*:
`radius` elements before and `radius` behind, which its outer threads need too. The weights are the same for
all threads; read them once, too.
""",
    launch="convolve[tiles(n, 128), 128](y, x, weight, radius, n)",
    sizes=({"radius": 1, "n": 1}, {"radius": 8, "n": 128}, {"radius": 3, "n": 129}, {"radius": 8, "n": 500}),
    between={"radius": (1, 8), "n": (2, 800)},
    inputs=_signal,
    right=_convolved,
    tolerance=5e-5,
    budget=lambda radius, n: (
        requests(LOADS, 8 * tiles(n, 128)),
        sectors(LOADS, 28 * tiles(n, 128)),
        requests(STORES, tiles(n, 32)),
        no_bank_conflicts(),
    ),
    budget_sizes={"radius": 8, "n": 1024},
    budget_between={"radius": (4, 8, 1), "n": (512, 2048, 128)},
    hints=(
        "The tile has 128 + 2 * radius elements, the first of them x[blockIdx.x * 128 - radius]. There are "
        "more than threads: a loop from threadIdx.x in steps of 128 reads them all.",
        "What has no element in x, before the first or behind the last, is a 0 in the tile. Then no thread "
        "has to ask any more.",
        "Threads below 2 * radius + 1 read a weight each. After a barrier for all: sum += w[k] * "
        "tile[threadIdx.x + k].",
    ),
    wrong={
        "directly": Wrong(None, OVER_BUDGET, "requests of global loads"),
        "no_halo_on_the_right": Wrong({"i < 128 + 2 * radius": "i < 128"}, FAULT, "uninitialised"),
        "no_barrier": NO_BARRIER,
        "no_zeros_outside": Wrong(
            {"first + i >= 0 && first + i < n ? x[first + i] : 0.0f": "x[first + i]"}, FAULT, "out of bounds"
        ),
        "a_tile_without_room": Wrong({"128 + 2 * 8]": "128 + 8]"}, FAULT, "out of bounds"),
        "backwards": Wrong({"w[k] *": "w[width - 1 - k] *"}, WRONG, "expected"),
    },
)

HEAT_STEP = Task(
    name="heat_step",
    title="A step of heat",
    kernel="heat_step",
    text="""
A plate has a temperature at each point of a grid. In a step, every point gets nearer to its four neighbours:
`y = x + 0.2 * (above + below + left + right - 4 * x)`; what lies outside of the plate counts as 0. Blocks of
32 × 8 threads, one for each point.

The kernel below is right, and reads every point five times. Read a tile of 34 × 10 points into shared memory
instead, the block's own and a frame around them. If each kind of edge is an `if` of its own, the few lanes of
the left and the right edge make a request for each row. Read the 340 points as one list: thread t takes the
points t and t + 256 of it.
""",
    launch="heat_step[(tiles(columns, 32), tiles(rows, 8)), (32, 8)](y, x, rows, columns)",
    sizes=({"rows": 1, "columns": 1}, {"rows": 8, "columns": 32}, {"rows": 9, "columns": 33}),
    between={"rows": (1, 24), "columns": (1, 80)},
    inputs=matrix,
    right=_heat,
    budget=lambda rows, columns: (
        requests(LOADS, 12 * tiles(rows, 8) * tiles(columns, 32)),
        requests(STORES, tiles(rows * columns, 32)),
        no_bank_conflicts(),
    ),
    budget_sizes={"rows": 32, "columns": 64},
    budget_between={"rows": (16, 48, 8), "columns": (32, 96, 32)},
    starts_from="directly",
    hints=(
        "Point number i of the list is in row i / 34 and column i % 34 of the tile. The tile's first point "
        "is one row above and one column left of the block's first.",
        "for (int i = threadIdx.y * 32 + threadIdx.x; i < 340; i += 256): the point in x, or 0.0f if it lies "
        "outside of the plate.",
        "After the barrier a thread's own point is tile[threadIdx.y + 1][threadIdx.x + 1].",
    ),
    wrong={
        "directly": Wrong(None, OVER_BUDGET, "requests of global loads"),
        "one_point_for_each_thread": Wrong(
            {"i < 10 * 34; i += 256": "i < 256; i += 256"}, FAULT, "uninitialised"
        ),
        "no_barrier": NO_BARRIER,
        "the_plate_goes_around": Wrong(
            {
                " && column >= 0 && column < columns": " && row * columns + column >= 0 && row * columns + "
                "column < "
                "rows * columns"
            },
            WRONG,
            "expected",
        ),
        "edges_by_ifs": Wrong(None, OVER_BUDGET, "requests of global loads"),
    },
)

_ENTRIES = """
A sparse matrix in the form CSR keeps only its entries that are not 0, row by row: entry i has the number
`value[i]` and stands in column `column[i]`. The entries of a row are those from `start[row]` to
`start[row + 1] - 1`; there may be none.
"""
_MATRICES = (
    {"rows": 1, "columns": 1, "mean": 1},
    {"rows": 33, "columns": 20, "mean": 3},
    {"rows": 5, "columns": 50, "mean": 40},
)
_BETWEEN = {"rows": (1, 60), "columns": (1, 100), "mean": (1, 50)}

CSR_BY_ROW = Task(
    name="csr_by_row",
    title="Sparse product by row",
    kernel="product_by_rows",
    text=f"""
{_ENTRIES.strip()}

Multiply it with the vector x: `y[row]` is the sum of `value[i] * x[column[i]]` over the row's entries. A
thread for each row: it is the first thing that comes to mind, and it is right. See in the budget what it
costs: rows have 0 to `2 * mean` entries, and a warp goes on until its longest row is done.
""",
    launch="product_by_rows[tiles(rows, 128), 128](y, start, column, value, x, rows)",
    sizes=_MATRICES,
    between=_BETWEEN,
    inputs=_sparse,
    right=_sparse_product,
    tolerance=1e-4,
    budget=lambda rows, columns, mean: (
        requests(LOADS, tiles(rows, 32) * (2 + 3 * 2 * mean)),
        requests(STORES, tiles(rows, 32)),
        together(8),
    ),
    budget_sizes={"rows": 64, "columns": 100, "mean": 32},
    budget_between={"rows": (32, 128, 32), "columns": (50, 200, 1), "mean": (16, 48, 1)},
    hints=(
        "The loop of a thread goes from start[row] to start[row + 1], that one left out. A row without "
        "entries gets 0.",
        "Keep the sum in a variable, and store it once.",
        "for (int i = start[row]; i < end; i++) sum += value[i] * x[column[i]];",
    ),
    wrong={
        "empty_rows_are_left_out": Wrong(
            {"        y[row] = sum;": "        if (sum != 0.0f)\n            y[row] = sum;"},
            WRONG,
            "were never written",
        ),
        "no_column": Wrong({"x[column[i]]": "x[i]"}, FAULT, "out of bounds"),
        "one_entry_too_many": Wrong({"i < end": "i <= end"}, FAULT, "out of bounds"),
        "the_sum_in_memory": Wrong(
            {"sum += value[i] * x[column[i]]": "y[row] = sum += value[i] * x[column[i]]"},
            OVER_BUDGET,
            "requests of global stores",
        ),
    },
)

CSR_BY_WARP = Task(
    name="csr_by_warp",
    title="Sparse product by warp",
    kernel="product_by_warps",
    text=f"""
{_ENTRIES.strip()}

The same product with a warp for each row, 4 warps in a block: `threadIdx.x` is the lane, `threadIdx.y` the
warp. Now the lanes of a warp read entries side by side, and a long row costs its own warp only; short rows
leave some lanes without work. At the end the 32 shares become one sum.
""",
    launch="product_by_warps[tiles(rows, 4), (32, 4)](y, start, column, value, x, rows)",
    sizes=_MATRICES,
    between=_BETWEEN,
    inputs=_sparse,
    right=_sparse_product,
    tolerance=1e-4,
    budget=lambda rows, columns, mean: (
        sectors(LOADS, rows * (mean + 6)),
        steps(3 * tiles(2 * mean, 32) + 3),
        shared_requests(0),
        together(12),
    ),
    budget_sizes={"rows": 16, "columns": 100, "mean": 64},
    budget_between={"rows": (8, 32, 4), "columns": (50, 200, 1), "mean": (48, 96, 1)},
    hints=(
        "Lane l takes the entries start[row] + l, + 32, …: the loop over a row in steps of 32.",
        "The shares become one sum by shuffles, as in *Warp shuffle*. All 32 lanes come to these, those "
        "without an entry too.",
        "A whole warp without a row may leave at the beginning; lane 0 writes y[row].",
    ),
    wrong={
        "lane_0_does_all": Wrong(
            {"start[row] + lane; i < end; i += 32": "start[row]; i < end && lane == 0; i++"},
            OVER_BUDGET,
            "busiest warp",
        ),
        "a_piece_of_the_row_for_each_lane": Wrong(
            {
                "    for (int i = start[row] + lane; i < end; i += 32)\n": "    int piece = (end - "
                "start[row] + 31) / "
                "32, begin = start[row] + lane * piece;\n    for (int i = begin; i < end && i < begin + "
                "piece; i++)\n"
            },
            OVER_BUDGET,
            "sectors of global loads",
        ),
        "lanes_without_an_entry_leave": Wrong(
            {
                "    float sum = 0.0f;\n    int end = start[row + 1];\n": "    float sum = 0.0f;\n    int "
                "end = "
                "start[row + 1];\n    if (start[row] + lane >= end)\n        return;\n"
            },
            FAULT,
            "missing lane",
        ),
        "every_lane_writes": Wrong({"    if (lane == 0)\n        y[row]": "    y[row]"}, FAULT, "race"),
        "no_row_no_guard": Wrong({"    if (row >= rows)\n        return;\n": ""}, FAULT, "out of bounds"),
    },
)

TASKS = (CONVOLUTION, HEAT_STEP, CSR_BY_ROW, CSR_BY_WARP)
