"""The units of the course of puzzles, a notebook each: what the first cell of a notebook says of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """A unit. minutes: that it takes. needs: what a reader knows before; able: what they can do afterwards.

    idea: of the unit, in a few sentences. read: where more is said; PMPP is the book that the first notebook
    names.
    """

    title: str
    minutes: int
    needs: str
    able: str
    idea: str
    read: str


# By the names of their notebooks, without the numbers.
UNITS = {
    "threads": Unit(
        "Threads",
        60,
        "a little C, and nothing about GPUs",
        "write kernels that work on vectors of any length, coalesced and without divergence",
        "A kernel is the program of one thread, and a GPU runs thousands of them. 32 neighbours, a warp, go "
        "through it together: what they ask of memory at the same time is one request, and what some of them "
        "do alone costs as much as if all did it.",
        "PMPP, chapters 2, 3, 4 and 6 (up to coalescing)",
    ),
    "shared_memory": Unit(
        "Shared memory",
        90,
        "the first notebook",
        "let the threads of a block work together without races or bank conflicts",
        "Shared memory is a few thousand words inside the multiprocessor, for the threads of one block. What "
        "is needed twice, or in another order, is fetched from global memory once. Its price: barriers, and "
        "banks of which each gives one word at a time.",
        "PMPP, chapters 5, 9 and 10",
    ),
    "warps_and_scans": Unit(
        "Warps and scans",
        120,
        "barriers, shuffles and reductions, from the second notebook",
        "let a warp vote and add up without memory, and compute running sums of vectors of any length",
        "The lanes of a warp read each other's registers: no memory, no barrier. A scan, the running sum, "
        "looks as if it had to go one after the other, and does not; it says where each thread's results "
        "begin, so sorts and filters are made of it.",
        "PMPP, chapters 10 and 11; Hillis and Steele, Data Parallel Algorithms (1986); Blelloch, Prefix Sums "
        "and Their Applications (1990)",
    ),
    "sorts": Unit(
        "Filters and sorts",
        90,
        "votes and scans, from the third notebook",
        "keep some elements in their order, split keys by a bit, and merge sorted lists without waiting",
        "Each thread has to know where its element goes, before any other has moved. A scan counts those "
        "that come before it; a binary search finds them where the lists are sorted.",
        "PMPP, chapters 12 and 13",
    ),
    "stencils_and_sparse": Unit(
        "Stencils and sparse matrices",
        120,
        "tiles and shuffles, from the notebooks before",
        "read a tile with its halo once, and give rows of different lengths to lanes without losing most of "
        "them",
        "Neighbouring outputs need the same inputs: a block reads them once, and some of its neighbours' as "
        "well (the halo). Where rows have different lengths, the question is who works on what: a thread for "
        "each row waits for the longest one.",
        "PMPP, chapters 7, 8 and 14",
    ),
    "norms": Unit(
        "Norms",
        120,
        "reductions by shuffles, from the second notebook",
        "write softmax and GroupNorm that stay accurate and read memory once",
        "A norm needs all of a row before it can write any of it. The row is read once if it stays in "
        "registers; and the way in which its variance is added up decides how many digits are right.",
        "PMPP, chapter 10; Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance (1983)",
    ),
    "products": Unit(
        "Products",
        150,
        "tiles in shared memory, from the second notebook",
        "write the rungs of a matrix product, and fuse what comes after it",
        "A product makes many operations from few numbers, so it is a question of reuse: a tile in shared "
        "memory is used by a block, a smaller one in registers by a thread. What comes after the product "
        "works on the sums while they are still in registers.",
        "PMPP, chapters 5 and 6; [notebook 03](../03_tiled.ipynb) and [notebook 04](../04_fused.ipynb)",
    ),
    "attention": Unit(
        "Attention",
        150,
        "softmax, from the notebook about norms, and tiles, from that about products",
        "compute softmax in one pass, and attention without ever storing its scores",
        "Softmax needs the largest value and the sum of all. Both can be corrected when a larger value "
        "comes: what was added up so far is multiplied by one factor. So scores are used as they come, tile "
        "by tile, and the matrix of all scores is never in memory.",
        "PMPP, chapter 16, for the layers around it; Milakov and Gimelshein, Online normalizer calculation "
        "for softmax (2018); Dao et al., FlashAttention (2022)",
    ),
    "tensor_cores": Unit(
        "Tensor cores and Hopper",
        180,
        "the naive product and the double buffer, from the notebook about products",
        "place a tile's elements as mma.sync and wgmma want them, keep a ring of stages full, and let "
        "blocks of a "
        "cluster read each other's shared memory",
        "A tensor core multiplies small tiles, which lie in the registers of a warp or, on Hopper, in shared "
        "memory, so each element must be where it looks. To keep it busy, tiles are fetched by a unit of "
        "their "
        "own while others are used. And what is too large for a block has a cluster of blocks, side by side.",
        "the PTX ISA, mma.sync, cp.async.bulk.tensor, wgmma and mapa; [notebook "
        "06](../06_tensor_cores.ipynb) and "
        "[notebook 07](../07_hopper.ipynb)",
    ),
    "repairs": Unit(
        "Repairs",
        90,
        "the notebooks about threads, shared memory and norms",
        "find a race, a bank conflict and a wrong mask in somebody else's kernel",
        "Most kernels that one meets are somebody else's, and nearly right. What is wrong with them shows in "
        "no number: two threads that touch a word with nothing between them, or a budget three times too "
        "large.",
        "PMPP, chapters 5, 6 and 10; [what the checks find](../../docs/bugs.md)",
    ),
    "host_code": Unit(
        "Programs",
        120,
        "the first notebook, for the first two puzzles; streams are easier after all others",
        "write the host's half of a program: memory, copies, errors, streams and events",
        "A GPU has a memory of its own, and works on while the host's code goes on. So a program allocates, "
        "copies, launches and waits; it asks after errors, which come late; and what may go on at the same "
        "time has to be said, and what may not, too. Running a cell runs its program, with small arguments; "
        "the check runs it with others, under every check that there is.",
        "PMPP, chapters 2 and 20; the CUDA C++ Programming Guide, chapter 3.2; "
        "[what is checked in programs](../../cudasim/docs/programs.md)",
    ),
    "profiles": Unit(
        "Profiles and fusion",
        120,
        "shuffles, atomic operations and bank conflicts, from the first three notebooks",
        "read a report, name what limits a kernel and mend that, and tell a fusion that pays from one that "
        "does not",
        "A kernel takes as long as the part of the GPU that is busiest, or as one warp alone where nothing "
        "is "
        "busy. A report says which it is, and its lines say why; what is mended anywhere else changes "
        "nothing. "
        "Fusing two steps saves bytes, and may cost work: it pays where bytes are what is waited for.",
        "[a session with a profiler](../08_profiling_session.ipynb), "
        "[when fusion pays](../09_fusion_tradeoffs.ipynb), [how fast is mine](../11_how_fast_is_mine.ipynb); "
        "[what a prediction is made of](../../cudasim/docs/predicting.md)",
    ),
}
