"""Puzzles about where elements go: a filter, a split by a bit, a radix sort, a merge."""

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
    barriers,
    requests,
    sectors_per_request,
    shared_requests,
    steps,
)
from fgn.puzzles.late import torch
from fgn.puzzles.warps_and_scans import one_vector


def _kept(x, n):
    positive = x[x > 0]
    padded = torch.nn.functional.pad(positive, (0, n - len(positive)))
    return {"y": padded, "count": torch.tensor([len(positive)], dtype=torch.int32)}


def _keys_and_a_bit(sizes, generator):
    return {
        "x": torch.randint(0, 1 << 16, (sizes["rows"], sizes["n"]), generator=generator, dtype=torch.int32)
    }


def _split(x, rows, n, bit):
    ones = (x >> bit) & 1
    return {"y": x.gather(1, ones.sort(dim=1, stable=True).indices)}


def _small_keys(sizes, generator):
    """Keys of 8 bits, so that many are equal."""
    return {"x": torch.randint(0, 256, (sizes["rows"], sizes["n"]), generator=generator, dtype=torch.int32)}


def _order(x, rows, n):
    return {"order": x.sort(dim=1, stable=True).indices.int()}


def _two_sorted_lists(sizes, generator):
    """Sorted lists, with keys that are several times in a list, and in both lists."""
    most = max(2, (sizes["n"] + sizes["m"]) // 3)
    return {
        name: torch.randint(0, most, (sizes[size],), generator=generator, dtype=torch.int32).sort().values
        for name, size in (("a", "n"), ("b", "m"))
    }


def _merged(a, b, n, m):
    return {"c": torch.cat((a, b)).sort().values}


COMPACTION = Task(
    name="compaction",
    title="Filter",
    kernel="keep_positive",
    text="""
y gets the positive elements of x, in their order and without gaps; `count[0]` is how many there are. Both are
zero at first, and what is behind the last element of y stays so. One block of 256 threads goes through x,
256 elements in each round.

Element i goes to the place that is the number of positive elements before it: in the rounds before, which
everybody can count; in the warps before, which shared memory tells; and in the lanes before, which a vote
tells (see *Vote*). A counter that all threads add to would give each a place of its own, but in any order.
""",
    launch="keep_positive[1, 256](y, count, x, n)",
    sizes=({"n": 1}, {"n": 256}, {"n": 257}, {"n": 1000}),
    between={"n": (2, 1500)},
    inputs=one_vector,
    right=_kept,
    starts_at_zero=True,
    budget=lambda n: (
        sectors_per_request(LOADS, 4),
        requests(LOADS, tiles(n, 32)),
        requests(STORES, tiles(n, 32) + 1),
        requests(ATOMICS, 0),
        barriers(2 * 8 * tiles(n, 256)),
        steps(20 * tiles(n, 256)),
    ),
    budget_sizes={"n": 1024},
    budget_between={"n": (512, 2048, 256)},
    hints=(
        "In a round: vote; lane 0 of each warp writes how many its warp keeps; barrier; everybody adds up "
        "what the warps before have, and what all have, for the next round.",
        "place = kept + (bits of the lanes before) + (of_warp[w] of all w < warp); kept += all 8 of_warp. "
        "Who writes of_warp in the next round must not be faster than who still reads it in this one.",
        "A thread without an element has v = 0.0f: it votes no, and comes to both barriers. At the end "
        "thread 0 writes *count = kept.",
    ),
    wrong={
        "a_counter": Wrong(None, WRONG, "expected"),
        "one_barrier_in_a_round": Wrong(
            {"            y[place] = v;\n        __syncthreads();\n": "            y[place] = v;\n"},
            FAULT,
            "race",
        ),
        "kept_is_forgotten": Wrong({"int place = kept + ": "int place = "}, WRONG, "expected"),
        "only_its_own_warp": Wrong({"place += w < warp ? of_w : 0;\n": "\n"}, FAULT, "race"),
        "one_thread": Wrong(
            {
                "    for (int first = 0; first < n; first += 256) {\n": "    for (int i = 0; i < n && "
                "threadIdx.x == 0; i++)\n        if (x[i] > 0.0f)\n            y[kept++] = x[i];\n    "
                "for (int first = 0; first < 0; first += 256) {\n",
            },
            OVER_BUDGET,
            "requests of global loads",
        ),
        "the_last_round_has_no_guard": Wrong({"i < n ? x[i] : 0.0f": "x[i]"}, FAULT, "out of bounds"),
    },
)

RADIX_SPLIT = Task(
    name="radix_split",
    title="Split by a bit",
    kernel="split_by_bit",
    text="""
The step of a radix sort: in each row of `n` keys (at most 256), those whose bit `bit` is 0 come first, then
those whose bit is 1, and both keep their order. A block of 256 threads for each row, a thread for each key.

A key with a 0 goes to the place that is the number of zeros before it. A key with a 1 goes behind *all*
zeros, and there are as many ones before it as keys that are no zeros. Votes count inside a warp, shared
memory between warps; `key >> bit & 1` is the bit.
""",
    launch="split_by_bit[rows, 256](y, x, bit, n)",
    sizes=(
        {"rows": 1, "n": 1, "bit": 0},
        {"rows": 2, "n": 33, "bit": 3},
        {"rows": 2, "n": 256, "bit": 15},
    ),
    between={"rows": (1, 4), "n": (1, 256), "bit": (0, 16)},
    inputs=_keys_and_a_bit,
    right=_split,
    budget=lambda rows, n, bit: (
        requests(LOADS, rows * tiles(n, 32)),
        requests(STORES, rows * tiles(n, 32)),
        requests(ATOMICS, 0),
        shared_requests(rows * 8 * 20),
        barriers(rows * 8 * 4),
        steps(24),
    ),
    budget_sizes={"rows": 2, "n": 256, "bit": 5},
    budget_between={"rows": (1, 4, 1), "n": (128, 256, 32), "bit": (0, 12, 1)},
    hints=(
        "Who has no key votes 1, or is not asked; its vote for zero would shift all ones.",
        "zeros before me: bits of the lanes before, and the counts of the warps before. All zeros: the "
        "counts of all warps.",
        "y[is_zero ? before : all + thread - before] = key: thread - before are the ones before this key.",
    ),
    wrong={
        "everybody_counts": Wrong(None, OVER_BUDGET, "requests of shared memory"),
        "threads_without_a_key_vote_zero": Wrong({": -1;": ": 0;"}, FAULT, "out of bounds"),
        "ones_from_the_front": Wrong({"all + thread - before": "thread - before"}, FAULT, "race"),
        "ones_backwards": Wrong({"all + thread - before": "n - 1 - thread + before"}, WRONG, "expected"),
        "no_barrier": NO_BARRIER,
        "the_bit_before": Wrong({"key >> bit & 1": "key >> (bit + 1) & 1"}, WRONG, "expected"),
    },
)

RADIX_SORT = Task(
    name="radix_sort",
    title="Radix sort",
    kernel="radix_sort",
    text="""
Each row has `n` keys from 0 to 255, at most 256 of them. `order[row, 0]` is the column of the smallest key,
`order[row, 1]` of the next, …; equal keys stay in their order. A block of 256 threads for each row.

Split by bit 0, then by bit 1, up to bit 7: because a split keeps the order of those that it does not part,
the keys are sorted after the last one. `place_after_split()` is the puzzle before, and given; all 256 threads
must call it. Keys, and the columns that they come from, move through shared memory.
""",
    launch="radix_sort[rows, 256](order, x, n)",
    sizes=({"rows": 1, "n": 1}, {"rows": 2, "n": 33}, {"rows": 1, "n": 256}),
    between={"rows": (1, 3), "n": (1, 256)},
    inputs=_small_keys,
    right=_order,
    budget=lambda rows, n: (
        requests(LOADS, rows * tiles(n, 32)),
        requests(STORES, rows * tiles(n, 32)),
        shared_requests(rows * 8 * 8 * 16),
        steps(8 * 16),
    ),
    budget_sizes={"rows": 1, "n": 256},
    budget_between={"rows": (1, 3, 1), "n": (192, 256, 32)},
    hints=(
        "Threads without a key need one that stays behind all others, also behind an equal one: 255 does, "
        "for they have the last numbers.",
        "In a round: place = place_after_split(key, bit); keys[place] = key; from[place] = origin; then "
        "every thread takes what has come to its own number.",
        "A barrier stands between writing keys[] and reading it. Does one stand between reading it and "
        "writing it in the next round? place_after_split() has one.",
    ),
    wrong={
        "ranks": Wrong(None, OVER_BUDGET, "requests of shared memory"),
        "the_highest_bit_first": Wrong(
            {"int bit = 0; bit < 8; bit++": "int bit = 7; bit >= 0; bit--"}, WRONG, "expected"
        ),
        "no_barrier_in_a_round": Wrong(
            {"        from[place] = origin;\n        __syncthreads();\n": "        from[place] = origin;\n"},
            FAULT,
            "race",
        ),
        "no_keys_are_zeros": Wrong({": 255;": ": 0;"}, WRONG, "expected"),
        "seven_bits": Wrong({"bit < 8": "bit < 7"}, WRONG, "expected"),
        "only_threads_with_a_key": Wrong(
            {
                "    int origin = thread;\n": "    int origin = thread;\n    if (thread >= n)\n        "
                "return;\n"
            },
            FAULT,
            "lane",
        ),
    },
)

MERGE = Task(
    name="merge",
    title="Merge",
    kernel="merge",
    text="""
a and b are sorted, with `n` and `m` keys; c gets all of them, sorted.

One after the other that is a loop with two fingers. Here there is a thread for each key, those of a first,
and none waits for another: a key's place in c is its number in its own list, and how many keys of the *other*
list come before it. A binary search finds that in few steps. Equal keys must not get the same place: let
those of a come before those of b.
""",
    launch="merge[tiles(n + m, 128), 128](c, a, b, n, m)",
    sizes=({"n": 1, "m": 1}, {"n": 5, "m": 100}, {"n": 128, "m": 128}, {"n": 300, "m": 20}),
    between={"n": (1, 500), "m": (1, 500)},
    inputs=_two_sorted_lists,
    right=_merged,
    budget=lambda n, m: (
        requests(STORES, 2 * tiles(n + m, 32)),
        steps(2 * (max(n, m).bit_length() + 3)),
    ),
    budget_sizes={"n": 1024, "m": 512},
    budget_between={"n": (256, 1024, 128), "m": (256, 1024, 128)},
    hints=(
        "For a key of a: how many keys of b are less than it? For a key of b: how many keys of a are less, "
        "or equal?",
        "low = 0, high = how many the other list has; as long as low < high, look at the middle one: does "
        "it come before the key, then low = middle + 1, else high = middle.",
        "At the end low keys of the other list come before this one: c[own + low] = key.",
    ),
    wrong={
        "equal_keys_at_the_same_place": Wrong(
            {" || (!is_of_a && other[middle] == key)": ""}, WRONG, "were never written"
        ),
        "one_after_the_other": Wrong(
            {
                "    while (low < high) {\n        int middle = (low + high) / 2;\n        if "
                "(other[middle] < key || "
                "(!is_of_a && other[middle] == key))\n            low = middle + 1;\n        else\n         "
                "   high = "
                "middle;\n    }\n": "    while (low < high && (other[low] < key || (!is_of_a && other[low] "
                "== key)))\n"
                "        low++;\n"
            },
            OVER_BUDGET,
            "busiest warp",
        ),
        "the_list_of_the_other_length": Wrong(
            {"high = is_of_a ? m : n": "high = is_of_a ? n : m"}, FAULT, "out of bounds"
        ),
        "own_number_only": Wrong({"c[own + low]": "c[i]"}, WRONG, "expected"),
        "a_step_too_far": Wrong({"low = middle + 1": "low = middle + 2"}, FAULT, "out of bounds"),
    },
)

TASKS = (COMPACTION, RADIX_SPLIT, RADIX_SORT, MERGE)
