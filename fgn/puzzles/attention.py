"""Puzzles about attention: softmax in one pass, a query against all keys, tiles of keys, and a causal
mask."""

from __future__ import annotations

from cudasim.counting.apart import tiles
from fgn.puzzles.definition import (
    FAULT,
    LOADS,
    OVER_BUDGET,
    STORES,
    WRONG,
    Task,
    Wrong,
    barriers,
    coalesced,
    no_bank_conflicts,
    requests,
    sectors,
    sectors_per_request,
    shared_requests,
)
from fgn.puzzles.late import torch

CHANNELS = 32


def _rows(sizes, generator):
    """Rows with values near 0, near 500 and near -500 in turn, which grow from left to right."""
    rows, columns = sizes["rows"], sizes["columns"]
    x = torch.randn(rows, columns, generator=generator).sort(dim=1).values
    return {"x": x + torch.tensor([0.0, 500.0, -500.0]).repeat(rows)[:rows, None]}


def _queries(queries: int, keys: int, generator) -> dict[str, torch.Tensor]:
    """Every other query is large, so that exp() of its scores overflows a float."""
    q, k, v = (torch.randn(n, CHANNELS, generator=generator) for n in (queries, keys, keys))
    q[1::2] *= 60
    return {"q": q, "k": k, "v": v}


def _attention(q, k, v, is_causal=False):
    scores = q @ k.T / CHANNELS**0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return {"y": scores.softmax(1) @ v}


ONLINE_SOFTMAX = Task(
    name="online_softmax",
    title="Softmax in one pass",
    kernel="online_softmax",
    text="""
`y[row, column] = exp(x[row, column] - largest) / sum` again, a warp for each row. The kernel below is right,
and reads x three times: for the largest value, for the sum, for the results. Make one loop of the first two.

A lane goes through its columns with the largest value so far and the sum of `exp(x - largest)` so far. When a
larger value comes, everything that is in the sum was too large by the same factor, `exp(old - new)`. Two
lanes' pairs (largest, sum) become one in the same way. Beware of lanes without a column: `-INFINITY -
-INFINITY` is no number.
""",
    launch="online_softmax[rows, 32](y, x, columns)",
    sizes=({"rows": 3, "columns": 4}, {"rows": 4, "columns": 32}, {"rows": 3, "columns": 100}),
    between={"rows": (1, 8), "columns": (1, 200)},
    inputs=_rows,
    right=lambda x, rows, columns: {"y": x.softmax(1)},
    budget=lambda rows, columns: (
        *coalesced(),
        sectors(LOADS, 2 * rows * columns // 8),
        shared_requests(0),
    ),
    budget_sizes={"rows": 8, "columns": 128},
    budget_between={"rows": (2, 8, 1), "columns": (64, 256, 32)},
    starts_from="three_loops",
    hints=(
        "For each x: now = fmaxf(largest, x); the sum so far times exp(largest - now), and exp(x - now) "
        "added; then largest = now.",
        "A lane without a column keeps what it began with. With a number like -3e38f instead of -INFINITY, "
        "largest - now is 0 or far below, and its sum is 0.",
        "Each shuffle step takes two values from the other lane, its largest and its sum, and both sums are "
        "multiplied by a factor of their own.",
    ),
    wrong={
        "three_loops": Wrong(None, OVER_BUDGET, "sectors of global loads"),
        "the_sum_is_not_corrected": Wrong(
            {"sum = sum * expf(largest - now) + expf(v - now)": "sum = sum + expf(v - now)"},
            WRONG,
            "expected",
        ),
        "begins_at_infinity": Wrong({"largest = -3e38f": "largest = -INFINITY"}, WRONG, "got nan"),
        "begins_at_zero": Wrong({"largest = -3e38f": "largest = 0.0f"}, WRONG, "got nan"),
        "the_other_sum_is_not_corrected": Wrong(
            {"other_sum * expf(other_largest - now)": "other_sum"}, WRONG, "expected"
        ),
    },
)

ATTENTION_ROW = Task(
    name="attention_row",
    title="Attention of a query",
    kernel="attend",
    text="""
Attention of one head: `y[i]` is a mean of the rows of v, weighted by softmax of the *scores* of query i,
which are the products of q[i] with each row of k, divided by √32. q, k and v have rows of 32 channels. A warp
for each query, a lane for each channel.

The kernel below is right, and computes every score three times, reading k each time. With softmax in one pass
a score is needed once: the lane's output is a sum of weight × v, and is corrected by the same factor as the
sum of the weights. At the end it is divided by that sum.
""",
    launch="attend[queries, 32](y, q, k, v, keys)",
    sizes=({"queries": 2, "keys": 1}, {"queries": 3, "keys": 32}, {"queries": 4, "keys": 50}),
    between={"queries": (2, 6), "keys": (1, 80)},
    inputs=lambda sizes, generator: _queries(sizes["queries"], sizes["keys"], generator),
    right=lambda q, k, v, queries, keys: _attention(q, k, v),
    tolerance=5e-4,
    budget=lambda queries, keys: (
        *coalesced(),
        requests(LOADS, queries * (1 + 2 * keys)),
        requests(STORES, queries),
        shared_requests(0),
    ),
    budget_sizes={"queries": 4, "keys": 64},
    budget_between={"queries": (2, 8, 1), "keys": (32, 96, 1)},
    starts_from="scores_three_times",
    hints=(
        "One loop over the keys j. Every lane gets the score from warp_sum_of(), so largest and sum are the "
        "same in all lanes; out is the lane's own channel.",
        "now = fmaxf(largest, score); keep = expf(largest - now); weight = expf(score - now).",
        "sum = sum * keep + weight; out = out * keep + weight * v[j * 32 + lane]; largest = now; and after "
        "the loop y = out / sum.",
    ),
    wrong={
        "scores_three_times": Wrong(None, OVER_BUDGET, "requests of global loads"),
        "the_output_is_not_corrected": Wrong({"out = out * keep +": "out = out +"}, WRONG, "expected"),
        "no_largest": Wrong({"float now = fmaxf(largest, score);": "float now = 0.0f;"}, WRONG, "got nan"),
        "not_divided": Wrong({"= out / sum;": "= out;"}, WRONG, "expected"),
        "not_scaled": Wrong({" / sqrtf(32.0f)": ""}, WRONG, "expected"),
    },
)

ATTENTION_TILED = Task(
    name="attention_tiled",
    title="Attention in tiles",
    kernel="attend_tiles",
    text="""
The same for 8 queries in a block of 32 × 8 threads: `threadIdx.y` is the warp and its query. The kernel below
is the puzzle before, and each of its 8 warps reads all keys and values for itself.

Let the block read a tile of 32 keys and 32 values into shared memory, and all warps use it; then the next
tile. In a tile, lane *j* computes the score of key *j* alone, in a loop over the channels; the warp's largest
score and sum of weights come by shuffles, once for each tile. For the output a lane is a channel again: it
needs the weights of all 32 lanes, by `__shfl_sync(0xffffffff, weight, j)`. The last tile may have fewer keys,
and the last block fewer queries.
""",
    launch="attend_tiles[tiles(queries, 8), (32, 8)](y, q, k, v, queries, keys)",
    sizes=({"queries": 2, "keys": 1}, {"queries": 8, "keys": 32}, {"queries": 9, "keys": 40}),
    between={"queries": (2, 12), "keys": (1, 70)},
    inputs=lambda sizes, generator: _queries(sizes["queries"], sizes["keys"], generator),
    right=lambda q, k, v, queries, keys: _attention(q, k, v),
    tolerance=5e-4,
    budget=lambda queries, keys: (
        sectors_per_request(LOADS, 4),
        requests(LOADS, queries + tiles(queries, 8) * 2 * keys),
        requests(STORES, queries),
        no_bank_conflicts(),
        barriers(8 * tiles(queries, 8) * 2 * (tiles(keys, 32) + 1)),
    ),
    budget_sizes={"queries": 8, "keys": 64},
    budget_between={"queries": (8, 16, 1), "keys": (32, 96, 1)},
    starts_from="each_warp_reads_all",
    hints=(
        "Three arrays: the 8 queries, the tile of k, the tile of v. Warp w loads the rows w, w + 8, … of a "
        "tile. Rows without a key are zeros. A barrier before the tile is used, and one before it is "
        "overwritten: no warp may leave early.",
        "Lane j reads tile_k[j][c] for each channel c: rows of 32 words lie in one bank. One word more in "
        "each row helps.",
        "A lane without a key has the score -INFINITY, and so the weight 0. out = out * keep; then for j = "
        "0 … 31: out += __shfl_sync(0xffffffff, weight, j) * tile_v[j][lane].",
    ),
    wrong={
        "each_warp_reads_all": Wrong(None, OVER_BUDGET, "requests of global loads"),
        "no_padding": Wrong({"tile_k[32][33]": "tile_k[32][32]"}, OVER_BUDGET, "bank conflicts"),
        "no_barrier_at_the_end": Wrong(
            {"        largest = now;\n        __syncthreads();\n": "        largest = now;\n"}, FAULT, "race"
        ),
        "warps_without_a_query_leave": Wrong(
            {
                "    float largest = -INFINITY": "    if (query >= queries)\n        return;\n    float "
                "largest = "
                "-INFINITY"
            },
            FAULT,
            "uninitialised",
        ),
        "keys_that_are_not_there_count": Wrong(
            {"        if (first + lane >= keys)\n            score = -INFINITY;\n": ""}, WRONG, "expected"
        ),
        "each_lane_its_own_weight": Wrong(
            {"__shfl_sync(0xffffffff, weight, j)": "weight"}, WRONG, "expected"
        ),
    },
)

ATTENTION_CAUSAL = Task(
    name="attention_causal",
    title="Only what came before",
    kernel="attend_causal",
    text="""
In a language model a query may only see what came before: query i sees the keys 0 to i. There are `n` queries
and `n` keys, in tiles as before.

The kernel below is right: what a query may not see gets the score −∞. But nearly half of its tiles are masked
altogether, and it loads them all the same. Leave these out. Which tiles are needed depends on the block: its
last query sees most. All 8 warps still have to come to each barrier.
""",
    launch="attend_causal[tiles(n, 8), (32, 8)](y, q, k, v, n)",
    sizes=({"n": 2}, {"n": 32}, {"n": 41}),
    between={"n": (2, 50)},
    inputs=lambda sizes, generator: _queries(sizes["n"], sizes["n"], generator),
    right=lambda q, k, v, n: _attention(q, k, v, is_causal=True),
    tolerance=5e-4,
    budget=lambda n: (
        sectors_per_request(LOADS, 4),
        requests(LOADS, n + sum(2 * min(n, 32 * tiles(8 * block + 8, 32)) for block in range(tiles(n, 8)))),
        no_bank_conflicts(),
    ),
    budget_sizes={"n": 96},
    budget_between={"n": (72, 104, 8)},
    starts_from="every_tile",
    hints=(
        "The last query of block b is 8 b + 7. What is the number of the last key that it sees?",
        "The loop over tiles ends at the block's bound, which is the same for all of its warps; the mask, "
        "which is the query's own, stays as it is.",
        "int keys = min(n, blockIdx.x * 8 + 8); and the loop, and what is loaded, go up to keys.",
    ),
    wrong={
        "every_tile": Wrong(
            {"min(n, blockIdx.x * 8 + 8); // that the block's last query may see": "n;"},
            OVER_BUDGET,
            "requests of global loads",
        ),
        "up_to_the_first_query": Wrong({"blockIdx.x * 8 + 8)": "blockIdx.x * 8 + 1)"}, WRONG, "expected"),
        "no_mask": Wrong(
            {"        if (first + lane > query)\n": "        if (first + lane >= keys)\n"}, WRONG, "expected"
        ),
        "its_own_key_is_hidden": Wrong({"first + lane > query": "first + lane >= query"}, WRONG, "got nan"),
    },
)

TASKS = (ONLINE_SOFTMAX, ATTENTION_ROW, ATTENTION_TILED, ATTENTION_CAUSAL)
