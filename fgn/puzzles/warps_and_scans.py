"""Puzzles about warps that work together, and about scans: votes, the last step of a reduction, and running
sums in a warp, in a block, and over many blocks."""

from __future__ import annotations

from cudasim.counting.apart import tiles
from fgn.puzzles.definition import (
    ATOMICS,
    FAULT,
    LOADS,
    NO_BARRIER,
    OVER_BUDGET,
    STORES,
    WRONG,
    Task,
    Wrong,
    accesses,
    barriers,
    coalesced,
    launches,
    requests,
    sectors_per_request,
    shared_requests,
    steps,
    together,
    warp_operations,
)
from fgn.puzzles.late import torch
from fgn.puzzles.shared_memory import matrix


def one_vector(sizes, generator):
    return {"x": torch.randn(sizes["n"], generator=generator)}


def _ranks(x, n):
    padded = torch.nn.functional.pad(x > 0, (0, -n % 32)).view(-1, 32).int()
    return {"rank": (padded.cumsum(1) - padded).flatten()[:n].int()}


def _exclusive(x, rows, columns):
    return {"y": x.cumsum(1) - x}


def _scan_of_blocks(x, n):
    sums = torch.nn.functional.pad(x, (0, -n % 64)).view(-1, 64).sum(1)
    return {"sums": sums, "before": sums.cumsum(0) - sums, "y": x.cumsum(0)}


BALLOT_RANK = Task(
    name="ballot_rank",
    title="Vote",
    kernel="ranks",
    text="""
Take 32 elements of x at a time, those of a warp. `rank[i]` is how many of the elements *before* i in its 32
are positive; it is where element i would go, if only the positive ones were kept.

No lane has to read another's element for that. `__ballot_sync(0xffffffff, p)` gives every lane the same 32
bits: bit *l* says whether `p` was true in lane *l*. `__popc(bits)` is how many bits are set. All lanes that
the mask names must come to the vote, those without an element too.
""",
    launch="ranks[tiles(n, 256), 256](rank, x, n)",
    sizes=({"n": 1}, {"n": 32}, {"n": 33}, {"n": 1000}),
    between={"n": (2, 2000)},
    inputs=one_vector,
    right=_ranks,
    budget=lambda n: (
        *coalesced(),
        requests(LOADS, tiles(n, 32)),
        requests(STORES, tiles(n, 32)),
        shared_requests(0),
        warp_operations(tiles(n, 32)),
    ),
    budget_sizes={"n": 2048},
    budget_between={"n": (512, 4096, 256)},
    hints=(
        "One vote tells each lane about all 32. Which of the bits belong to lanes before this one?",
        "(1u << lane) - 1 has exactly the bits of the lanes before `lane` set. `lane` is threadIdx.x % 32.",
        "unsigned positive = __ballot_sync(0xffffffff, i < n && x[i] > 0.0f); then, if i < n, "
        "rank[i] = __popc(positive & before).",
    ),
    wrong={
        "counts_itself": Wrong({"1u << (threadIdx.x % 32)": "2u << (threadIdx.x % 32)"}, WRONG, "expected"),
        "votes_inside_the_guard": Wrong(
            {
                "    unsigned positive = __ballot_sync(0xffffffff, i < n && x[i] > 0.0f);\n": "    if (i >= "
                "n)\n"
                "        return;\n    unsigned positive = __ballot_sync(0xffffffff, x[i] > 0.0f);\n"
            },
            FAULT,
            "missing lane",
        ),
        "no_guard": Wrong({"i < n && x[i]": "x[i]"}, FAULT, "out of bounds"),
        "everybody_counts": Wrong(
            {
                "    unsigned positive = __ballot_sync(0xffffffff, i < n && x[i] > 0.0f);\n": "    int "
                "count = 0;\n"
                "    for (int j = i / 32 * 32; j < i && i < n; j++)\n        count += x[j] > 0.0f;\n",
                "    unsigned before = (1u << (threadIdx.x % 32)) - 1;\n": "",
                "__popc(positive & before)": "count",
            },
            OVER_BUDGET,
            "requests of global loads",
        ),
        "a_sum_by_shuffles": Wrong(
            {
                "    unsigned positive = __ballot_sync(0xffffffff, i < n && x[i] > 0.0f);\n": "    "
                "int own = i < n && x[i] > 0.0f, count = own;\n    for (int d = 1; d < 32; d *= 2) {\n"
                "        int other = __shfl_up_sync(0xffffffff, count, d);\n"
                "        count += threadIdx.x % 32 >= d ? other : 0;\n    }\n",
                "    unsigned before = (1u << (threadIdx.x % 32)) - 1;\n": "",
                "__popc(positive & before)": "count - own",
            },
            OVER_BUDGET,
            "shuffles and votes",
        ),
    },
)

GRID_SUM = Task(
    name="grid_sum",
    title="The last step of a reduction",
    kernel="grid_sum",
    text="""
`total[0]` is the sum of all `n` elements of x; 8 blocks of 256 threads, and `total` is zero at first.

The kernel below is right: shares in a loop over the grid, a tree in shared memory, one atomic for each block.
But the tree takes nine barriers, and in its last steps one warp is awake with a few lanes, while seven wait.
A warp adds up 32 registers by five shuffles, without a barrier. So let each warp do that first; then 8 sums
of warps are left, and one barrier is enough.
""",
    launch="grid_sum[8, 256](total, x, n)",
    sizes=({"n": 1}, {"n": 100}, {"n": 2048}, {"n": 3000}),
    between={"n": (2, 4000)},
    inputs=one_vector,
    right=lambda x, n: {"total": x.sum().view(1)},
    starts_at_zero=True,
    tolerance=1e-3,
    budget=lambda n: (
        sectors_per_request(LOADS, 4),
        requests(LOADS, tiles(n, 32)),
        requests(ATOMICS, 8),
        barriers(8 * 8),
        shared_requests(8 * 2 * 8),
        warp_operations(8 * 8 * 2 * 5),
    ),
    budget_sizes={"n": 8192},
    budget_between={"n": (2048, 8192, 2048)},
    starts_from="tree",
    hints=(
        "After the five shuffles lane 0 of each warp has the warp's sum. Eight words of shared memory are "
        "enough: one for each warp.",
        "After the barrier the first warp reads the 8 words, one a lane, and adds them up by shuffles of its "
        "own. All its 32 lanes come to these; those without a word bring 0.",
        "if (thread < 32) { share = thread < 8 ? of_warp[thread] : 0.0f; three shuffles with d = 4, 2, 1; "
        "thread 0 does the atomicAdd. }",
    ),
    wrong={
        "tree": Wrong(None, OVER_BUDGET, "barriers"),
        "an_atomic_for_each_warp": Wrong(
            {
                "        of_warp[thread / 32] = share;\n": "        atomicAdd(total, share);\n",
                "    __shared__ float of_warp[8];\n": "",
                "    __syncthreads();\n    if (thread < 32) {\n        share = thread < 8 ? of_warp[thread] "
                ": "
                "0.0f;\n        for (int d = 4; d > 0; d /= 2)\n            share += "
                "__shfl_down_sync(0xffffffff, share, d);\n        if (thread == 0)\n            "
                "atomicAdd(total, share);\n    }\n": "",
            },
            OVER_BUDGET,
            "requests of global atomics",
        ),
        "no_barrier": NO_BARRIER,
        "a_word_that_nobody_wrote": Wrong({"thread < 8 ?": "thread < 32 ?"}, FAULT, "out of bounds"),
        "eight_lanes_of_the_mask": Wrong(
            {"thread < 32)": "thread < 8)", "thread < 8 ? of_warp[thread] : 0.0f": "of_warp[thread]"},
            FAULT,
            "missing lane",
        ),
        "the_first_warp_alone": Wrong({"int d = 4": "int d = 0"}, WRONG, "expected"),
    },
)

WARP_SCAN = Task(
    name="warp_scan",
    title="Running sums in registers",
    kernel="scan_by_warps",
    text="""
A *scan*: `y[row, column]` is the sum of x[row, 0] to x[row, column]; a block of 256 threads for each row of
at most 256 columns.

Hillis and Steele's way: in the steps *d* = 1, 2, 4, … everybody adds what the one *d* places before has. In a
warp that takes five shuffles, and no memory: `__shfl_up_sync(0xffffffff, v, d)` is the `v` of the lane *d*
places before. (The lanes below *d* have none before; they get their own `v` back.) Then each warp lacks what
the warps before it have summed up, which goes through shared memory once.
""",
    launch="scan_by_warps[rows, 256](y, x, columns)",
    sizes=({"rows": 1, "columns": 5}, {"rows": 2, "columns": 33}, {"rows": 3, "columns": 256}),
    between={"rows": (1, 4), "columns": (1, 256)},
    inputs=matrix,
    right=lambda x, rows, columns: {"y": x.cumsum(1)},
    tolerance=1e-4,
    budget=lambda rows, columns: (
        requests(LOADS, rows * tiles(columns, 32)),
        barriers(rows * 8 * 2),
        shared_requests(rows * 8 * 8),
        steps(16),
        together(16),
    ),
    budget_sizes={"rows": 2, "columns": 256},
    budget_between={"rows": (1, 4, 1), "columns": (128, 256, 32)},
    hints=(
        "First the scan of each warp on its own. The shuffle is outside of every if, and only lanes from d "
        "on add what they got.",
        "Lane 31 then has the sum of its warp: it writes it to of_warp[warp], and a barrier follows.",
        "for (int w = 0; w < warp; w++) sum += of_warp[w]; at most seven words are added, and all lanes of a "
        "warp read the same one.",
    ),
    wrong={
        "steps_in_shared_memory": Wrong(None, OVER_BUDGET, "barriers"),
        "lanes_below_d_add_themselves": Wrong(
            {"if (lane >= d)\n            sum += before;": "sum += before;"}, WRONG, "expected"
        ),
        "shuffle_in_the_branch": Wrong(
            {
                "        float before = __shfl_up_sync(0xffffffff, sum, d);\n        if (lane >= d)\n"
                "            sum += before;": "        if (lane >= d)\n"
                "            sum += __shfl_up_sync(0xffffffff, sum, d);"
            },
            FAULT,
            "waits for other lanes",
        ),
        "no_barrier": NO_BARRIER,
        "its_own_warp_too": Wrong({"w < warp;": "w <= warp;"}, WRONG, "expected"),
        "each_warp_for_itself": Wrong({"sum += of_warp[w];": "sum += 0.0f * of_warp[w];"}, WRONG, "expected"),
    },
)

BLELLOCH = Task(
    name="blelloch",
    title="A scan with less work",
    kernel="exclusive_scan",
    text="""
The *exclusive* scan: `y[row, column]` is the sum of what stands before that column, and `y[row, 0]` is 0. A
block of 128 threads for each row of at most 256 columns, which lie in `s`, with zeros after them.

Hillis and Steele's scan of 256 elements makes 8 steps with up to 256 additions each: eight times the work
of a loop. Blelloch's makes two trees of 255 additions. *Up:* for *d* = 1, 2, 4, … the last element of every 2
*d* gets the element *d* before it added, until `s[255]` is the sum of all. *Down:* `s[255]` becomes 0; then
for *d* = 128, 64, … the pair (left, right) of the same places becomes (right, left + right). Shuffles are not
needed.
""",
    launch="exclusive_scan[rows, 128](y, x, columns)",
    sizes=({"rows": 1, "columns": 1}, {"rows": 2, "columns": 100}, {"rows": 2, "columns": 256}),
    between={"rows": (1, 4), "columns": (1, 256)},
    inputs=matrix,
    right=_exclusive,
    tolerance=1e-4,
    budget=lambda rows, columns: (
        requests(LOADS, rows * tiles(columns, 32)),
        accesses(rows * 12 * 256),
        warp_operations(0),
        barriers(rows * 4 * 18),
    ),
    budget_sizes={"rows": 2, "columns": 256},
    budget_between={"rows": (1, 4, 1), "columns": (256, 256, 1)},
    hints=(
        "In a step, thread t has the pair whose right element is 2 * d * (t + 1) - 1, as long as that is "
        "less than 256; the left one is d before it. A barrier stands before each step.",
        "The up-sweep is s[right] += s[right - d]. Then thread 0 sets s[255] to 0: the same thread has just "
        "written it.",
        "The down-sweep: float left = s[right - d]; s[right - d] = s[right]; s[right] += left; with d = 128, "
        "64, … 1.",
    ),
    wrong={
        "hillis_steele": Wrong(None, OVER_BUDGET, "accesses to memory by threads"),
        "no_zero_at_the_root": Wrong(
            {"    if (thread == 0)\n        s[255] = 0.0f;\n": ""}, WRONG, "expected 0"
        ),
        "no_barrier_on_the_way_down": Wrong(
            {"d > 0; d /= 2) {\n        __syncthreads();\n": "d > 0; d /= 2) {\n"}, FAULT, "race"
        ),
        "added_before_it_is_kept": Wrong(
            {
                "            float left = s[right - d];\n            s[right - d] = s[right];\n"
                "            s[right] += left;\n": "            s[right] += s[right - d];\n"
                "            s[right - d] = s[right];\n"
            },
            WRONG,
            "expected",
        ),
        "stops_a_level_early": Wrong({"int d = 128;": "int d = 64;"}, WRONG, "expected"),
    },
)

SCAN_BLOCKS = Task(
    name="scan_blocks",
    title="A scan of many blocks",
    kernel="scan_of_blocks",
    more_kernels=("sums_of_blocks", "scan_of_sums"),
    text="""
`y[i]` is the sum of x[0] to x[i], for vectors that no block can hold. Blocks cannot wait for each other
inside a kernel, but a kernel waits for the one before. So three of them: `sums[b]` is the sum of block b's 64
elements; `before[b]` is the sum of all blocks before b, by one block; at last every block scans its own
elements and adds its `before`.

`block_sum()` and `block_scan()` are given; all threads of a block must call them. The budget has the steps
of the busiest warp, so the sums of the blocks must not be added one after the other either.
""",
    launch="sums_of_blocks[tiles(n, 64), 64](sums, x, n), "
    "scan_of_sums[1, 64](before, sums, tiles(n, 64)), "
    "scan_of_blocks[tiles(n, 64), 64](y, before, x, n)",
    sizes=({"n": 1}, {"n": 64}, {"n": 257}, {"n": 1000}),
    between={"n": (2, 1500)},
    inputs=one_vector,
    right=_scan_of_blocks,
    tolerance=1e-3,
    budget=lambda n: (
        launches(3),
        *coalesced(),
        requests(LOADS, 4 * tiles(n, 32)),
        steps(16),
        requests(ATOMICS, 0),
    ),
    budget_sizes={"n": 3072},
    budget_between={"n": (2048, 3584, 512)},
    hints=(
        "In each kernel a thread has one number: an element, or 0 where there is none. Only then do all "
        "threads call the function.",
        "scan_of_sums: block_scan() gives sums[0] + … + sums[b]; without sums[b] itself it is before[b].",
        "scan_of_blocks: float sum = block_scan(i < n ? x[i] : 0.0f); if (i < n) y[i] = before[blockIdx.x] + "
        "sum;",
    ),
    wrong={
        "one_thread_scans_the_sums": Wrong(
            {
                "    int b = threadIdx.x;\n    float sum = b < blocks ? sums[b] : 0.0f;\n    float "
                "inclusive = "
                "block_scan(sum);\n    if (b < blocks)\n        before[b] = inclusive - sum;\n": "    float "
                "sum = "
                "0.0f;\n    for (int b = 0; b < blocks && threadIdx.x == 0; b++) {\n        before[b] = "
                "sum;\n"
                "        sum += sums[b];\n    }\n"
            },
            OVER_BUDGET,
            "busiest warp",
        ),
        "inclusive": Wrong({"inclusive - sum": "inclusive"}, WRONG, "before[0]: expected 0"),
        "every_block_adds_all_before_it": Wrong(
            {
                "    if (i < n)\n        y[i] = before[blockIdx.x] + sum;\n": "    for (int j = 0; j < "
                "blockIdx.x * 64; j++)\n        sum += x[j];\n    if (i < n)\n        y[i] = sum;\n"
            },
            OVER_BUDGET,
            "requests of global loads",
        ),
        "without_what_comes_before": Wrong({"before[blockIdx.x] + sum": "sum"}, WRONG, "y[64]"),
        "the_guard_before_the_barrier": Wrong(
            {
                "    float sum = block_scan(i < n ? x[i] : 0.0f);\n    if (i < n)\n": "    if (i >= n)\n    "
                "    "
                "return;\n    float sum = block_scan(x[i]);\n    if (i < n)\n"
            },
            FAULT,
            "lane",
        ),
    },
)

TASKS = (BALLOT_RANK, GRID_SUM, WARP_SCAN, BLELLOCH, SCAN_BLOCKS)
