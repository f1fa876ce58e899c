"""Puzzles about matrix products, from one thread for each output to fgn's chain."""

from __future__ import annotations

from cudasim.counting.apart import tiles
from cudasim.counting.metrics import SHARED_REQUESTS
from fgn.puzzles.definition import (
    FAULT,
    LOADS,
    OVER_BUDGET,
    STORES,
    WRONG,
    Limit,
    Task,
    Wrong,
    barriers,
    launches,
    no_bank_conflicts,
    requests,
    sectors,
    sectors_per_request,
    warp_operations,
)
from fgn.puzzles.late import torch
from fgn.puzzles.norms import EPS, QUIET

_SIZES = (
    {"rows": 3, "columns": 5, "inner": 4},
    {"rows": 16, "columns": 16, "inner": 32},
    {"rows": 17, "columns": 33, "inner": 20},
)
_BETWEEN = {"rows": (1, 40), "columns": (1, 40), "inner": (1, 50)}


def _factors(sizes, generator):
    return {
        "x": torch.randn(sizes["rows"], sizes["inner"], generator=generator),
        "w": torch.randn(sizes["columns"], sizes["inner"], generator=generator),
    }


def _product(x, w, rows, columns, inner):
    return {"y": x @ w.T}


def _with_bias(sizes, generator):
    """Some of the values are beyond 100, where exp() overflows a float, and some below −100."""
    inputs = _factors(sizes, generator)
    bias = torch.randn(sizes["columns"], generator=generator)
    bias[::3] += 120.0
    bias[1::5] -= 120.0
    return inputs | {"bias": bias}


def _mish(x, w, bias, rows, columns, inner):
    return {"y": torch.nn.functional.mish(x @ w.T + bias)}


def _normed(sizes, generator):
    """The product of the third of every four rows has a tiny deviation."""
    channels = 32 * sizes["groups"]
    x = torch.randn(sizes["rows"], sizes["inner"], generator=generator)
    x[2::4] *= QUIET / sizes["inner"] ** 0.5
    return {
        "x": x,
        "w": torch.randn(channels, sizes["inner"], generator=generator),
        "weight": 1 + torch.rand(channels, generator=generator),
        "bias": torch.randn(channels, generator=generator),
    }


def _product_and_norm(x, w, weight, bias, rows, groups, inner):
    return {"y": torch.nn.functional.group_norm(x @ w.T, groups, weight, bias, EPS)}


def _sectors_of_tiles(rows: int, columns: int, inner: int) -> int:
    """Two tiles of 32 × 32 floats for each tile of the result and each step along inner."""
    steps = tiles(rows, 32) * tiles(columns, 32) * tiles(inner, 32)
    return steps * 2 * 32 * 32 // 8


def _eight_reads_for_sixteen_products(products: int) -> tuple[Limit, ...]:
    """A thread reads 4 values of each factor for 4 × 4 products, a warp with one request for each."""
    most = products // 32 * 8 // 16
    wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    return (
        Limit("requests that read shared memory", (SHARED_REQUESTS[LOADS],), most),
        Limit("wavefronts of them", (wavefronts,), most),
    )


GEMM_NAIVE = Task(
    name="gemm_naive",
    title="GEMM, naive",
    kernel="gemm",
    text="""
A matrix product as `torch.nn.Linear` has it: `y = x wᵀ`. x has `rows × inner` elements, w has `columns ×
inner`, and y has `rows × columns`: `y[row, column]` is the sum over *k* of `x[row, k] * w[column, k]`.

One thread for each output, in blocks of 16 × 16; lanes that are neighbours in `threadIdx.x` have
neighbouring columns. The blocks at the right and at the bottom have threads without an output.
""",
    launch="gemm[(tiles(columns, 16), tiles(rows, 16)), (16, 16)](y, x, w, rows, columns, inner)",
    sizes=_SIZES,
    between=_BETWEEN,
    inputs=_factors,
    right=_product,
    tolerance=1e-4,
    budget=lambda rows, columns, inner: (
        sectors_per_request(STORES, 4),
        sectors(STORES, rows * columns // 8),
    ),
    budget_sizes={"rows": 32, "columns": 32, "inner": 32},
    budget_between={"rows": (16, 64, 16), "columns": (16, 64, 16), "inner": (8, 64, 1)},
    hints=(
        "The row of a thread comes from blockIdx.y and threadIdx.y, the column from blockIdx.x and "
        "threadIdx.x.",
        "Add up in a variable, and write to y once, after the loop over k.",
        "Row row of x begins at x + row * inner, and row column of w at w + column * inner.",
    ),
    wrong={
        "w_by_columns": Wrong(
            {"w[column * inner + k]": "w[k * columns + column]"}, WRONG, "y[0, 0]: expected"
        ),
        "no_guard": Wrong(
            {"    if (row >= rows || column >= columns)\n        return;\n": ""}, FAULT, "out of bounds"
        ),
        "adds_in_memory": Wrong(
            {
                "    float sum = 0.0f;\n": "    y[row * columns + column] = 0.0f;\n",
                "        sum += x": "        y[row * columns + column] += x",
                "    y[row * columns + column] = sum;\n": "",
            },
            OVER_BUDGET,
            "sectors of global stores",
        ),
        "rows_in_x": Wrong(
            {
                "int row = blockIdx.y * 16 + threadIdx.y;": "int row = blockIdx.x * 16 + threadIdx.x;",
                "int column = blockIdx.x * 16 + threadIdx.x;": "int column = blockIdx.y * 16 + threadIdx.y;",
            },
            WRONG,
            "were never written",
        ),
    },
)

GEMM_TILED = Task(
    name="gemm_tiled",
    title="GEMM, tiled",
    kernel="gemm_tiled",
    text="""
The same product and the same launch, but memory is asked for much less: a block works on a tile of 32 × 32
outputs, for which it needs 32 rows of x and 32 of w. It goes along *k* in steps of 32: all its threads load
a tile of x and a tile of w into shared memory, one element each, wait, add up 32 products each from shared
memory, and wait again before the next tiles are loaded.

Where there is no element, at the edges, the tile gets a 0. No request may have bank conflicts.
""",
    launch="gemm_tiled[(tiles(columns, 32), tiles(rows, 32)), (32, 32)](y, x, w, rows, columns, inner)",
    sizes=_SIZES,
    between=_BETWEEN,
    inputs=_factors,
    right=_product,
    tolerance=1e-4,
    budget=lambda rows, columns, inner: (
        sectors(LOADS, _sectors_of_tiles(rows, columns, inner)),
        sectors_per_request(LOADS, 4),
        no_bank_conflicts(),
    ),
    budget_sizes={"rows": 64, "columns": 64, "inner": 128},
    budget_between={"rows": (32, 96, 32), "columns": (32, 96, 32), "inner": (32, 128, 32)},
    hints=(
        "In the step from k to k + 32 the thread loads x[row, k + threadIdx.x], and of w the row "
        "blockIdx.x * 32 + threadIdx.y at k + threadIdx.x: lanes side by side read side by side.",
        "Two barriers in the loop: one before the tiles are used, one after. No thread may leave before "
        "the last of them, so the guard for the output stands at the end.",
        "When tiles are used, a warp's lanes have 32 different threadIdx.x: w_tile[threadIdx.x][i] is a "
        "column. See the puzzle about padding.",
    ),
    wrong={
        "no_barrier_after_loading": Wrong(
            {"        __syncthreads(); // the tiles are complete\n": ""}, FAULT, "race"
        ),
        "no_barrier_after_use": Wrong(
            {"        __syncthreads(); // the tiles were used\n": ""}, FAULT, "race"
        ),
        "edges_not_guarded": Wrong(
            {
                "row < rows && k + across < inner ? x[row * inner + k + across] : 0.0f": "x[row * inner + k + across]"
            },
            FAULT,
            "out of bounds",
        ),
        "no_padding": Wrong({"w_tile[32][33]": "w_tile[32][32]"}, OVER_BUDGET, "bank conflicts"),
        "leaves_too_early": Wrong(
            {
                "    float sum = 0.0f;\n": "    float sum = 0.0f;\n    if (row >= rows || column >= columns)\n        "
                "return;\n"
            },
            FAULT,
            "uninitialised",
        ),
    },
)

REGISTER_TILE = Task(
    name="register_tile",
    title="GEMM, a tile in registers",
    kernel="gemm_registers",
    text="""
With a tile in shared memory, every multiply-add reads two values from there, and that is now the limit. So a
thread computes 4 × 4 outputs: for each *k* it reads 4 values of x and 4 of w into registers, and makes 16
multiply-adds of them.

A block of 16 × 16 threads has a tile of 64 × 64 outputs, and goes along *k* in steps of 16. The loads into
the tiles are there already (`x_tile[k][row]` and `w_tile[k][column]`); what is missing is the work on them,
of which one output is there. Which 4 columns a thread takes is up to you: lanes side by side should read
words side by side.
""",
    launch="gemm_registers[(tiles(columns, 64), tiles(rows, 64)), (16, 16)](y, x, w, rows, columns, inner)",
    sizes=(
        {"rows": 3, "columns": 5, "inner": 4},
        {"rows": 64, "columns": 64, "inner": 16},
        {"rows": 70, "columns": 33, "inner": 20},
    ),
    between={"rows": (1, 100), "columns": (1, 100), "inner": (1, 40)},
    inputs=_factors,
    right=_product,
    tolerance=1e-4,
    budget=lambda rows, columns, inner: _eight_reads_for_sixteen_products(rows * columns * inner),
    budget_sizes={"rows": 64, "columns": 64, "inner": 32},
    budget_between={"rows": (64, 128, 64), "columns": (64, 128, 64), "inner": (16, 48, 16)},
    hints=(
        "float sum[4][4] = {{0.0f}}; stays in registers as long as all indices are known when it is "
        "compiled: loops from 0 to 3 that are unrolled.",
        "For each i below 16: read 4 values x_tile[i][…] and 4 values w_tile[i][…], then sum[r][c] += "
        "x[r] * w[c].",
        "Take the rows threadIdx.y + 16 r and the columns threadIdx.x + 16 c: then the lanes of a warp "
        "read 16 neighbouring words of w_tile, and 2 of x_tile.",
    ),
    starts_from="one_output",
    wrong={
        "one_output": Wrong(
            {
                """            float x_value[4], w_value[4];
            for (int r = 0; r < 4; r++) {
                x_value[r] = x_tile[i][down + 16 * r];
                w_value[r] = w_tile[i][across + 16 * r];
            }
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++)
                    sum[r][c] += x_value[r] * w_value[c];
""": """            // This is one of the 16 outputs:
            sum[0][0] += x_tile[i][down] * w_tile[i][across];
"""
            },
            WRONG,
            "y[0, 16]: expected",
        ),
        "all_from_shared_memory": Wrong(
            {
                "                    sum[r][c] += x_value[r] * w_value[c];": "                    sum[r][c] += "
                "((volatile float *)x_tile[i])[down + 16 * r] * ((volatile float *)w_tile[i])[across + 16 * c];",
                "            for (int r = 0; r < 4; r++) {\n                x_value[r] = "
                "x_tile[i][down + 16 * r];\n                w_value[r] = w_tile[i][across "
                "+ 16 * r];\n            }\n": "",
                "            float x_value[4], w_value[4];\n": "",
            },
            OVER_BUDGET,
            "requests that read shared memory",
        ),
        "neighbouring_columns": Wrong(
            {
                "w_value[r] = w_tile[i][across + 16 * r];": "w_value[r] = w_tile[i][4 * across + r];",
                "int column = first_column + across + 16 * c;": "int column = first_column + 4 * across + c;",
            },
            OVER_BUDGET,
            "wavefronts",
        ),
        "rows_and_columns_swapped": Wrong(
            {"x_value[r] * w_value[c]": "x_value[c] * w_value[r]"}, WRONG, "expected"
        ),
        "no_guard_for_the_last": Wrong(
            {"if (row < rows && column < columns)": "if (row < rows)"}, FAULT, "out of bounds"
        ),
    },
)

DOUBLE_BUFFER = Task(
    name="double_buffer",
    title="GEMM, a double buffer",
    kernel="gemm_buffered",
    text="""
The tiled product waits twice for each tile: before the tiles are used, and before they are overwritten. With
two *stages* of tiles, one is loaded while the other is used, and one barrier for each step is enough.

The kernel below is right, with one stage and two barriers. Give it two stages, `x_tile[2][32][32]` and
`w_tile[2][32][33]`: load the first before the loop; in each step load the next one into the stage that is
not used now, use the other, and wait once.
""",
    launch="gemm_buffered[(tiles(columns, 32), tiles(rows, 32)), (32, 32)](y, x, w, rows, columns, inner)",
    sizes=(*_SIZES, {"rows": 5, "columns": 4, "inner": 70}),
    between=_BETWEEN,
    inputs=_factors,
    right=_product,
    tolerance=1e-4,
    budget=lambda rows, columns, inner: (
        barriers(rows * columns // 32 * (tiles(inner, 32) + 1)),
        sectors(LOADS, _sectors_of_tiles(rows, columns, inner)),
        no_bank_conflicts(),
    ),
    budget_sizes={"rows": 64, "columns": 64, "inner": 128},
    budget_between={"rows": (32, 96, 32), "columns": (32, 96, 32), "inner": (32, 160, 32)},
    starts_from="one_stage",
    hints=(
        "Step number s uses stage s % 2, and loads the tiles of step s + 1 into stage (s + 1) % 2.",
        "Who still reads stage (s + 1) % 2 when step s loads into it? The threads that are in step s − 1."
        " What lies between the end of their step and this one?",
        "Load stage 0; barrier; then for each step: load the next stage if there is one, use the present "
        "one, barrier.",
    ),
    wrong={
        "one_stage": Wrong(
            {
                "x_tile[2][32][32]": "x_tile[32][32]",
                "w_tile[2][32][33]": "w_tile[32][33]",
                """    load(x_tile[0], w_tile[0], x, w, rows, columns, inner, 0);
    __syncthreads();
    for (int step = 0; step < steps; step++) {
        int stage = step % 2;
        if (step + 1 < steps)
            load(x_tile[1 - stage], w_tile[1 - stage], x, w, rows, columns, inner, 32 * (step + 1));
""": """    for (int step = 0; step < steps; step++) {
        load(x_tile, w_tile, x, w, rows, columns, inner, 32 * step);
        __syncthreads();
""",
                "x_tile[stage][threadIdx.y][i] * w_tile[stage][threadIdx.x][i]": "x_tile[threadIdx.y][i] * "
                "w_tile[threadIdx.x][i]",
            },
            OVER_BUDGET,
            "barriers",
        ),
        "one_stage_one_barrier": Wrong(
            {
                "int stage = step % 2;": "int stage = 0;",
                "load(x_tile[1 - stage], w_tile[1 - stage]": "load(x_tile[0], w_tile[0]",
            },
            FAULT,
            "race",
        ),
        "no_barrier_at_the_end": Wrong(
            {"        __syncthreads(); // all have used this stage\n": ""}, FAULT, "race"
        ),
        "no_barrier_at_the_beginning": Wrong(
            {"inner, 0);\n    __syncthreads();": "inner, 0);"}, FAULT, "race"
        ),
    },
)

EPILOGUE = Task(
    name="epilogue",
    title="Epilogue",
    kernel="gemm_mish",
    text="""
`y = mish(x wᵀ + bias)`, with one bias for each column and `mish(v) = v * tanh(log(1 + exp(v)))`. A kernel of
its own for the bias and mish would read all of y and write it again. The product's kernel has each output in
a register when its sum is complete: what it does there before it writes is called its *epilogue*.

The product is there already; write the epilogue. Values go up to 130, where `expf(v)` is infinite as a
float, and mish is still v.
""",
    launch="gemm_mish[(tiles(columns, 32), tiles(rows, 32)), (32, 32)](y, x, w, bias, rows, columns, inner)",
    sizes=_SIZES,
    between=_BETWEEN,
    inputs=_with_bias,
    right=_mish,
    tolerance=1e-4,
    budget=lambda rows, columns, inner: (
        sectors(STORES, rows * columns // 8),
        requests(LOADS, rows * columns // 32 * (2 * tiles(inner, 32) + 1)),
    ),
    budget_sizes={"rows": 32, "columns": 32, "inner": 32},
    budget_between={"rows": (32, 64, 32), "columns": (32, 64, 32), "inner": (32, 96, 32)},
    hints=(
        "bias[column] is added to the sum once, in the epilogue.",
        "With e = exp(v), tanh(log(1 + e)) is n / (n + 2), where n = e (e + 2). For large v that is 1 "
        "long before e is infinite.",
        "float e = expf(fminf(v, 20.0f)); float n = e * (e + 2.0f); y[…] = v * (n / (n + 2.0f));",
    ),
    wrong={
        "infinite": Wrong({"expf(fminf(v, 20.0f))": "expf(v)"}, WRONG, "got nan"),
        "bias_of_the_row": Wrong({"bias[column]": "bias[row]"}, WRONG, "expected"),
        "reads_y_again": Wrong(
            {
                "float v = sum + bias[column];": "y[row * columns + column] = sum;\n"
                "        float v = ((volatile float *)y)[row * columns + column] + bias[column];"
            },
            OVER_BUDGET,
            "sectors of global stores",
        ),
    },
)

FUSED_NORM = Task(
    name="fused_norm",
    title="Fused norm",
    kernel="gemm_group_norm",
    text="""
The chain that fgn is about, in one launch: `y = GroupNorm(x wᵀ)`, with groups of 32 channels. A block has 8
rows and one group: 8 warps, each with a row, and each lane with a channel. So when the sums are complete,
the 32 values of a group of a row lie in the 32 lanes of one warp, and its mean and variance are two
reductions by shuffles.

The product is there; write the norm: `(v − mean) / sqrt(variance + 1e-5) * weight[channel] + bias[channel]`.
""",
    launch="gemm_group_norm[(groups, tiles(rows, 8)), (32, 8)](y, x, w, weight, bias, rows, groups, inner)",
    sizes=(
        {"rows": 1, "groups": 1, "inner": 4},
        {"rows": 8, "groups": 2, "inner": 32},
        {"rows": 11, "groups": 3, "inner": 40},
    ),
    between={"rows": (1, 24), "groups": (1, 4), "inner": (2, 70)},
    inputs=_normed,
    right=_product_and_norm,
    tolerance=1e-4,
    budget=lambda rows, groups, inner: (
        launches(1),
        sectors(STORES, rows * groups * 4),
        warp_operations(rows * groups * 10),
        no_bank_conflicts(),
    ),
    budget_sizes={"rows": 16, "groups": 2, "inner": 64},
    budget_between={"rows": (8, 24, 8), "groups": (1, 4, 1), "inner": (32, 96, 32)},
    hints=(
        "warp_sum(sum) / 32 is the mean in every lane of the warp.",
        "Then the variance, of the differences to the mean: a second warp_sum. Nothing goes to memory in "
        "between.",
        "A warp without a row may take part in the shuffles and just not write: the guard stands before "
        "the store.",
    ),
    wrong={
        "norm_over_the_rows": Wrong({"warp_sum(sum) / 32": "warp_sum(sum) / rows"}, WRONG, "expected"),
        "variance_of_the_values": Wrong(
            {"float difference = sum - mean;": "float difference = sum;"}, WRONG, "expected"
        ),
        "no_eps": Wrong({"variance + 1e-5f": "variance"}, WRONG, "expected"),
        "weight_by_lane": Wrong({"weight[channel]": "weight[lane]"}, WRONG, "expected"),
        "warps_return_early": Wrong(
            {"    float sum = 0.0f;\n": "    float sum = 0.0f;\n    if (row >= rows)\n        return;\n"},
            FAULT,
            "uninitialised",
        ),
    },
)

TASKS = (GEMM_NAIVE, GEMM_TILED, REGISTER_TILE, DOUBLE_BUFFER, EPILOGUE, FUSED_NORM)
