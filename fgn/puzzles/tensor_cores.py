"""A puzzle about tensor cores: which lane has which element of a tile of mma.sync."""

from __future__ import annotations

import torch

from fgn.puzzles.definition import FAULT, LOADS, OVER_BUDGET, WRONG, Task, Wrong, requests


def _tf32_factors(sizes, generator):
    """Multiples of 1/64 below 4 in magnitude: tf32 holds them, and float32 their products and sums."""
    rows, columns, inner = 16 * sizes["row_tiles"], 8 * sizes["column_tiles"], 8 * sizes["steps"]
    x = torch.randint(-256, 257, (rows, inner), generator=generator) / 64
    w = torch.randint(-256, 257, (columns, inner), generator=generator) / 64
    return {"x": x, "w": w}


def _product(x, w, row_tiles, column_tiles, steps):
    return {"y": x @ w.T}


MMA_TILE = Task(
    name="mma_tile",
    title="A tile of mma.sync",
    kernel="mma_tile",
    text="""
`y = x wᵀ` on tensor cores: one warp for each tile of 16 rows and 8 columns of y. `mma_m16n8k8_tf32(sum, a,
b)` adds to the tile the product of 16 × 8 elements of x and 8 × 8 of w. All 32 lanes call it together, and
each brings its share of the three tiles in registers. With `g = lane / 4` and `t = lane % 4` a lane has, in
the drawing's colours:

- `a[0]`, `a[1]`: x in the rows g and g + 8 at k = t; `a[2]`, `a[3]`: the same rows at k = t + 4;
- `b[0]`, `b[1]`: w in row g (that is column g of y) at k = t and at k = t + 4;
- `sum[0]`, `sum[1]`: y in row g, columns 2 t and 2 t + 1; `sum[2]`, `sum[3]`: in row g + 8, the same
  columns.

The factors are the bits of floats, `__float_as_uint(v)`. All sizes are multiples of the tile's: no guards
are needed.
""",
    launch="mma_tile[(column_tiles, row_tiles), 32](y, x, w, 8 * column_tiles, 8 * steps)",
    sizes=(
        {"row_tiles": 1, "column_tiles": 1, "steps": 1},
        {"row_tiles": 1, "column_tiles": 1, "steps": 4},
        {"row_tiles": 3, "column_tiles": 2, "steps": 5},
    ),
    between={"row_tiles": (1, 4), "column_tiles": (1, 5), "steps": (1, 12)},
    inputs=_tf32_factors,
    right=_product,
    budget=(requests(LOADS, 2 * 2 * 6 * 4),),
    budget_sizes={"row_tiles": 2, "column_tiles": 2, "steps": 4},
    hints=(
        "The tile begins at row 16 blockIdx.y of x and y, and at row 8 blockIdx.x of w, which is a column"
        " of y.",
        "For each k in steps of 8 fill a[0] to a[3] and b[0], b[1], and call mma_m16n8k8_tf32 once, "
        "outside of any if.",
        "a[0] = __float_as_uint(x[(row + g) * inner + k + t]); a[1] is 8 rows further down, a[2] and a[3]"
        " are 4 k further on. At the end sum[1] lies beside sum[0], and sum[2] 8 rows below it.",
    ),
    wrong={
        "two_and_one_swapped": Wrong(
            {
                "a[1] = __float_as_uint(x[(row + g + 8) * inner + k + t]);": "a[1] = __float_as_uint(x[(row + g) * "
                "inner + k + t + 4]);",
                "a[2] = __float_as_uint(x[(row + g) * inner + k + t + 4]);": "a[2] = __float_as_uint(x[(row + g + 8) * "
                "inner + k + t]);",
            },
            WRONG,
            "expected",
        ),
        "as_integers": Wrong({"b[0] = __float_as_uint(w": "b[0] = (uint32_t)(int)(w"}, WRONG, "expected"),
        "sum_by_rows": Wrong({"column + 2 * t": "column + t"}, FAULT, "race"),
        "without_tensor_cores": Wrong(
            {
                "        mma_m16n8k8_tf32(sum, a, b);\n": """        (void)a, (void)b;
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 4; j++)
                sum[j] += x[(row + g + j / 2 * 8) * inner + k + i] * w[(column + 2 * t + j % 2) * inner + k + i];
"""
            },
            OVER_BUDGET,
            "requests of global loads",
        ),
    },
)

TASKS = (MMA_TILE,)
