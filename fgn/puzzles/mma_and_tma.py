"""Puzzles about tensor cores and Hopper's features: the elements of a tile of mma.sync, a ring of stages that
TMA fills, wgmma, and clusters."""

from __future__ import annotations

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
    no_bank_conflicts,
    requests,
    sectors,
    shared_requests,
)
from fgn.puzzles.late import torch


def _tf32_factors(sizes, generator):
    """Multiples of 1/64 below 4 in magnitude: exact in tf32, and their products and sums are exact in
    float32."""
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
    budget=lambda row_tiles, column_tiles, steps: (requests(LOADS, row_tiles * column_tiles * 6 * steps),),
    budget_sizes={"row_tiles": 2, "column_tiles": 2, "steps": 4},
    budget_between={"row_tiles": (1, 4, 1), "column_tiles": (1, 5, 1), "steps": (2, 12, 1)},
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


def _tiles_of_a_stream(sizes, generator):
    return {"x": torch.randn(1024 * sizes["count"], generator=generator)}


TMA_RING = Task(
    name="tma_ring",
    title="A ring of stages that TMA fills",
    kernel="tma_ring",
    text="""
`y = a x`, streamed. x has `count` tiles of 1024 floats; a block takes every gridDim.x-th. TMA, Hopper's
Tensor Memory Accelerator, brings tile after tile into a ring of three stages in shared memory. One thread,
the producer, asks for the copies; 128 consumers use them. By two mbarriers for each stage they tell each
other what has happened:

- `full`: the copy has landed. Its phase ends with one arrival, the producer's, and the 4096 bytes that the
  producer announces: `mbarrier_arrive_expect_tx(full[stage], bytes)`. The copy itself is
  `cp_async_bulk(to[stage], from, bytes, full[stage])`.
- `empty`: the stage may be filled again. Its phase ends when all 128 consumers have arrived, by
  `mbarrier_arrive(empty[stage])`.

The phases of an mbarrier have the parities 0, 1, 0, 1 …, and `mbarrier_wait(barrier, parity)` returns as soon
as the phase of that parity has ended. For a new mbarrier the phase before the first, of parity 1, has ended.
""",
    launch="tma_ring[3, 160](y, x, 1.5, count)",
    sizes=({"count": 1}, {"count": 3}, {"count": 12}, {"count": 40}),
    between={"count": (1, 48)},
    inputs=_tiles_of_a_stream,
    right=lambda x, count: {"y": 1.5 * x},
    budget=lambda count: (
        requests(LOADS, 0),
        Limit("copies by TMA", ("tensor_copies",), count),
        barriers(3 * 5),
    ),
    budget_sizes={"count": 24},
    budget_between={"count": (12, 48, 1)},
    hints=(
        "Tile number turn of a block goes through stage turn % STAGES, in round turn / STAGES of the ring. In"
        " each round every mbarrier of the ring goes through one phase.",
        "In round 0 the consumers wait for the end of the first phase of full: parity 0, in round 1 parity 1."
        " The producer waits for the phase of empty that ended a round earlier: in round 0 that is parity 1,"
        " for which nobody waits.",
        "The producer: mbarrier_wait(empty[stage], (round + 1) % 2), mbarrier_arrive_expect_tx(full[stage],"
        " 4096), cp_async_bulk(to[stage], x + tile * TILE, 4096, full[stage]). A consumer:"
        " mbarrier_wait(full[stage], round % 2), its elements, mbarrier_arrive(empty[stage]).",
    ),
    wrong={
        "does_not_wait_for_empty": Wrong(
            {"            mbarrier_wait(empty[stage], (round + 1) % 2);\n": "            (void)round;\n"},
            FAULT,
            "mbarrier misuse",
        ),
        "same_parity_for_both": Wrong({"(round + 1) % 2": "round % 2"}, FAULT, "deadlock"),
        "parity_never_flips": Wrong({"(full[stage], round % 2)": "(full[stage], 0)"}, FAULT, "parity 0"),
        "does_not_wait_for_full": Wrong(
            {"            mbarrier_wait(full[stage], round % 2);\n": "            (void)round;\n"},
            FAULT,
            "uninitialised",
        ),
        "never_says_done": Wrong({"mbarrier_arrive(empty[stage]);": ";"}, FAULT, "deadlock"),
        "one_says_done_for_all": Wrong(
            {
                "            mbarrier_arrive(empty": "            if (threadIdx.x == 0)\n                mbarrier_arrive(empty"
            },
            FAULT,
            "lacks 127 of 128 arrivals",
        ),
        "says_done_too_early": Wrong(
            {
                "            mbarrier_arrive(empty[stage]);\n": "",
                "(full[stage], round % 2);\n": "(full[stage], round % 2);\n            mbarrier_arrive(empty[stage]);\n",
            },
            FAULT,
            "race for a stage",
        ),
        "elements_for_bytes": Wrong(
            {"expect_tx(full[stage], sizeof ring[stage])": "expect_tx(full[stage], TILE)"},
            FAULT,
            "more than were announced",
        ),
        "announces_nothing": Wrong(
            {"mbarrier_arrive_expect_tx(full[stage], sizeof ring[stage])": "mbarrier_arrive(full[stage])"},
            FAULT,
            "race for a stage",
        ),
        "a_whole_warp_produces": Wrong(
            {"if (threadIdx.x == CONSUMERS)": "if (threadIdx.x >= CONSUMERS)"}, FAULT, "mbarrier misuse"
        ),
        "the_whole_matrix_at_once": Wrong(
            {"x + tile * TILE, sizeof ring[stage]": "x + tile * TILE, sizeof ring"}, FAULT, "out of bounds"
        ),
        "without_tma": Wrong({"a * ring[stage][i]": "a * x[tile * TILE + i]"}, OVER_BUDGET, "global loads"),
    },
)


def _factors_of_64(sizes, generator):
    return _tf32_factors(
        {
            "row_tiles": 4 * sizes["row_tiles"],
            "column_tiles": 8 * sizes["column_tiles"],
            "steps": 4 * sizes["steps"],
        },
        generator,
    )


WGMMA_TILE = Task(
    name="wgmma_tile",
    title="A tile of wgmma",
    kernel="wgmma_tile",
    text="""
`y = x wᵀ` again, on Hopper's tensor cores, which read both factors from shared memory: four warps, a
*warpgroup*, for each tile of 64 × 64. A step along k is 32 floats of 64 rows of each factor. All 128
threads bring them into shared memory, in chunks of 16 bytes; this is written, but the chunks' places are
not those where wgmma looks.

- **Where wgmma looks.** Rows of 128 bytes, *swizzled*: chunk c of row r lies at place `c ^ r % 8` of its
  row. Eight rows that are read at the same k are then in different banks.
- **The order.** What threads have stored is seen by the tensor cores after `fence_proxy_async()` and a
  barrier. Then `wgmma_fence()`; four times `wgmma_m64n64k8_tf32(sum, x, w, accumulate)`, for 8 floats (32
  bytes) along k each; `wgmma_commit_group()`; `wgmma_wait_group(0)`, after which the sums are there. x and
  w are descriptors: `wgmma_descriptor(shared_address(x_rows))`, and `descriptor_plus(descriptor, bytes)` is
  the same further along k. With `accumulate` 1 the products are added to the sums, with 0 they overwrite
  them.
- **The sums.** `sum[i]` of a lane belongs to row `16 warp + lane / 4 + i / 2 % 2 * 8` and to column `i / 4
  * 8 + lane % 4 * 2 + i % 2`.
""",
    launch="wgmma_tile[(column_tiles, row_tiles), 128](y, x, w, 64 * column_tiles, 32 * steps)",
    sizes=(
        {"row_tiles": 1, "column_tiles": 1, "steps": 1},
        {"row_tiles": 1, "column_tiles": 1, "steps": 3},
        {"row_tiles": 2, "column_tiles": 2, "steps": 2},
    ),
    between={"row_tiles": (1, 2), "column_tiles": (1, 2), "steps": (1, 4)},
    inputs=_factors_of_64,
    right=_product,
    budget=lambda row_tiles, column_tiles, steps: (
        requests(LOADS, row_tiles * column_tiles * steps * 32),
        shared_requests(row_tiles * column_tiles * steps * 32),
        no_bank_conflicts(),
        barriers(row_tiles * column_tiles * steps * 8),
    ),
    budget_sizes={"row_tiles": 1, "column_tiles": 2, "steps": 2},
    budget_between={"row_tiles": (1, 2, 1), "column_tiles": (1, 2, 1), "steps": (1, 4, 1)},
    hints=(
        "Rows 0 to 7 have chunk 0 at the places 0 to 7. The tensor cores come by a path of their own: who "
        "stored has to say so, and all have to have stored.",
        "In each step: fence_proxy_async(), __syncthreads(), wgmma_fence(), four products at 0, 32, 64 and "
        "96 bytes,"
        " wgmma_commit_group(), wgmma_wait_group(0), and a barrier before the chunks of the next step are "
        "stored.",
        "place = c ^ r % 8; wgmma_m64n64k8_tf32(sum, descriptor_plus(of_x, bytes), descriptor_plus(of_w, "
        "bytes), 1); and r and c as the task"
        " says, with warp = threadIdx.x / 32 and lane = threadIdx.x % 32.",
    ),
    wrong={
        "not_swizzled": Wrong({"            place = c ^ r % 8;\n": ""}, WRONG, "expected"),
        "swizzled_by_the_whole_row": Wrong({"place = c ^ r % 8;": "place = c ^ r / 8;"}, WRONG, "expected"),
        "does_not_say_that_it_stored": Wrong({"        fence_proxy_async();\n": ""}, FAULT, "fence"),
        "no_barrier_before": Wrong(
            {"        fence_proxy_async();\n        __syncthreads();\n": "        fence_proxy_async();\n"},
            FAULT,
            "race",
        ),
        "does_not_wait": Wrong({"        wgmma_wait_group(0);\n": ""}, FAULT, "wgmma"),
        "does_not_commit": Wrong({"        wgmma_commit_group();\n": ""}, FAULT, "wgmma"),
        "the_same_k_four_times": Wrong(
            {"descriptor_plus(of_x, bytes)": "of_x", "descriptor_plus(of_w, bytes)": "of_w"},
            WRONG,
            "expected",
        ),
        "overwrites_each_time": Wrong(
            {"descriptor_plus(of_w, bytes), 1)": "descriptor_plus(of_w, bytes), 0)"}, WRONG, "expected"
        ),
        "overwrites_each_step": Wrong(
            {"descriptor_plus(of_w, bytes), 1)": "descriptor_plus(of_w, bytes), bytes > 0)"},
            WRONG,
            "expected",
        ),
        "sums_by_halves": Wrong({"i / 2 % 2 * 8;": "i / 16 * 8;"}, WRONG, "never written"),
    },
)


def _rows_of_a_cluster(sizes, generator):
    return {"x": torch.randn(sizes["rows"], 1024, generator=generator)}


CLUSTER_NORM = Task(
    name="cluster_norm",
    title="A row for four blocks",
    kernel="cluster_norm",
    text="""
RMSNorm without a weight: `y[r] = x[r] / sqrt(mean(x[r]²) + eps)`, for rows of 1024. A row is longer than a
block has threads, and still it is read once: four blocks are a *cluster* (`__cluster_dims__`), which Hopper
runs at the same time on neighbouring multiprocessors, and they read each other's shared memory. The sum of
a block's own share is there; what is missing is the rest of the row's.

`cluster.map_shared_rank(&of_block, rank)` is where block `rank` of the cluster has its `of_block`.
`cluster.sync()` is a barrier for the threads of all four blocks. Mind that a block that has ended has no
shared memory any more.
""",
    launch="cluster_norm[4 * rows, 256](y, x, 1e-5)",
    sizes=({"rows": 1}, {"rows": 2}, {"rows": 5}),
    between={"rows": (1, 8)},
    inputs=_rows_of_a_cluster,
    right=lambda x, rows: {"y": x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt()},
    budget=lambda rows: (
        requests(LOADS, rows * 32),
        sectors(LOADS, rows * 128),
        sectors(STORES, rows * 128),
        barriers(rows * 32 * 3),
    ),
    budget_sizes={"rows": 2},
    budget_between={"rows": (1, 8, 1)},
    hints=(
        "The blocks' ranks are 0 to 3, and each has one number for the others, in its own of_block.",
        "Between one block's writing of of_block and another's reading there must be a barrier for both: "
        "__syncthreads() knows its own block"
        " alone.",
        "cluster.sync(); total += *cluster.map_shared_rank(&of_block, rank) for the four ranks; y[i]; and "
        "cluster.sync() once more, so that no block"
        " ends while another still reads from it.",
    ),
    wrong={
        "barrier_of_the_block": Wrong(
            {"    cluster.sync();\n    for": "    __syncthreads();\n    for"}, FAULT, "of_block"
        ),
        "ends_too_early": Wrong({"eps);\n    cluster.sync();": "eps);"}, FAULT, "exited"),
        "its_own_sum_four_times": Wrong(
            {"*cluster.map_shared_rank(&of_block, rank)": "of_block"}, WRONG, "expected"
        ),
        "mean_of_a_block": Wrong({"total / (BLOCKS * THREADS)": "total / THREADS"}, WRONG, "expected"),
        "ranks_of_the_grid": Wrong(
            {"(&of_block, rank)": "(&of_block, (blockIdx.x + rank))"}, FAULT, "cluster"
        ),
        "no_barrier_in_the_block": Wrong({"    __syncthreads();\n": ""}, FAULT, "race"),
        "each_block_reads_the_row": Wrong(
            {
                "    float sum = value * value;\n": "    float sum = 0.0f;\n    for (int j = threadIdx.x; j < BLOCKS * THREADS; j += THREADS) {\n        float other = x[blockIdx.x / BLOCKS * BLOCKS * THREADS + j];\n        sum += other * other / BLOCKS;\n    }\n"
            },
            OVER_BUDGET,
            "requests of global loads",
        ),
    },
)

TASKS = (MMA_TILE, TMA_RING, WGMMA_TILE, CLUSTER_NORM)
