"""Puzzles that are programs: memory, copies and errors, and work that runs beside host code."""

from __future__ import annotations

from cudasim.counting.apart import tiles
from fgn.puzzles.definition import (
    FAULT,
    OVER_BUDGET,
    STORES,
    WRONG,
    Task,
    Wrong,
    at_least,
    launches,
    no_calls,
    requests,
)
from fgn.puzzles.late import torch


def _values(n: int, seed: int) -> torch.Tensor:
    """The inputs that the programs compute."""
    return ((torch.arange(n) * 37 + seed * 101) % 200) / 8.0


def _nothing(sizes, generator):
    """Programs make their inputs themselves, from the seed."""
    return {}


def _roots(n, threads, seed):
    if n > 1 << 32:
        return {"y": "out of memory"}
    if threads > 1024:
        return {"y": "invalid configuration argument"}
    x = _values(n, seed) - seed % 2 * 30
    return {"y": "device-side assert triggered" if (x < 0).any() else x.sqrt()}


def _means(n, seed):
    x = _values(n, seed)
    x[0] = -x[0]
    return {"y": (x + torch.cat((x[:1], x[:-1]))) / 2}


HOST_COPIES = Task(
    name="host_copies",
    title="There and back",
    kernel="twice_plus_one",
    is_program=True,
    text="""
A program this time: the kernel is given, and so is `main()`, which makes `n` numbers from a seed and prints
what `compute()` has made of them. Write `compute()`. Its arguments are memory of the *host*, which a kernel
on a GPU cannot touch.

So: take memory of the GPU for both arrays (`cudaMalloc(&pointer, bytes)`); copy x there (`cudaMemcpy(to,
from, bytes, cudaMemcpyHostToDevice)`); launch the kernel with blocks of 256 threads (`kernel<<<blocks,
threads>>>(...)`); copy the result back (`cudaMemcpyDeviceToHost`, which waits for the kernel); give the
memory back (`cudaFree(pointer)`). Sizes are in bytes.
""",
    launch="./host_copies n seed",
    sizes=({"n": 1, "seed": 1}, {"n": 256, "seed": 2}, {"n": 1300, "seed": 3}),
    between={"n": (2, 2000), "seed": (4, 1000)},
    inputs=_nothing,
    right=lambda n, seed: {"y": 2 * _values(n, seed) + 1},
    budget=lambda n, seed: (launches(1), at_least(requests(STORES, n // 32))),
    budget_sizes={"n": 1024, "seed": 1},
    budget_between={"n": (512, 2048, 256), "seed": (1, 1000, 1)},
    hints=(
        "Two pointers to memory of the GPU: float *gpu_x, *gpu_y. cudaMalloc() gets the address of such a "
        "pointer.",
        "n * sizeof(float) bytes; and (n + 255) / 256 blocks, so that the last one may have threads too "
        "many.",
        "cudaMalloc twice, cudaMemcpy(gpu_x, x, bytes, cudaMemcpyHostToDevice), the launch with gpu_y and "
        "gpu_x, cudaMemcpy(y, gpu_y, bytes, cudaMemcpyDeviceToHost), cudaFree twice.",
    ),
    wrong={
        "memory_of_the_host": Wrong({">>>(gpu_y, gpu_x, n)": ">>>(y, x, n)"}, FAULT, "out of bounds"),
        "elements_for_bytes": Wrong({"bytes = n * sizeof(float)": "bytes = n"}, FAULT, "bytes"),
        "never_given_back": Wrong({"    cudaFree(gpu_x);\n    cudaFree(gpu_y);\n": ""}, FAULT, "never freed"),
        "the_wrong_way": Wrong({"cudaMemcpyDeviceToHost": "cudaMemcpyHostToDevice"}, FAULT, "cudaMemcpy"),
        "x_is_not_copied": Wrong(
            {"    cudaMemcpy(gpu_x, x, bytes, cudaMemcpyHostToDevice);\n": ""}, FAULT, "unwritten memory"
        ),
        "one_block": Wrong({"<<<(n + 255) / 256, 256>>>": "<<<1, n>>>"}, FAULT, "larger than 1024"),
        "on_the_host": Wrong(
            {
                "    cudaMemcpy(y, gpu_y, bytes, cudaMemcpyDeviceToHost);\n": "    for (int i = 0; i < n; "
                "i++)\n"
                "        y[i] = 2.0f * x[i] + 1.0f;\n",
                "    twice_plus_one<<<(n + 255) / 256, 256>>>(gpu_y, gpu_x, n);\n": "",
            },
            OVER_BUDGET,
            "requests of global stores",
        ),
    },
)

HOST_ERRORS = Task(
    name="host_errors",
    title="What went wrong",
    kernel="roots",
    is_program=True,
    text="""
The program below prints square roots, and it is right as long as nothing goes wrong. Let it end at the first
error: it prints `cudaGetErrorString(error)` and nothing else, and ends with code 1.

Most functions return a `cudaError_t`, which is `cudaSuccess` when all is well. A launch returns nothing: what
is wrong with the launch itself, a block of 2048 threads say, `cudaGetLastError()` tells right after it. What
goes wrong *in* the kernel, as the `assert` for a negative number, comes later, from the next call that waits
for the kernel. And a GPU has only so much memory: the program is tried with more than that, too.
""",
    launch="./host_errors n threads seed",
    sizes=(
        {"n": 5, "threads": 128, "seed": 2},
        {"n": 1000, "threads": 2048, "seed": 2},
        {"n": 1000, "threads": 256, "seed": 1},
        {"n": 1 << 40, "threads": 256, "seed": 2},
    ),
    between={"n": (2, 2000), "threads": (32, 1024), "seed": (1, 1000)},
    inputs=_nothing,
    right=_roots,
    starts_from="nobody_asks",
    hints=(
        "A function of your own, void must(cudaError_t error), which prints and calls exit(1) where there "
        "is an error: then every call can be an argument of it.",
        "After the launch: must(cudaGetLastError()).",
        "The copy back waits for the kernel, so must(cudaMemcpy(...)) tells of the kernel's own error. "
        "Nothing may be printed before.",
    ),
    wrong={
        "nobody_asks": Wrong(
            {
                '    if (error == cudaSuccess)\n        return;\n    printf("%s\\n", '
                "cudaGetErrorString(error));\n    exit(1);\n": ""
            },
            WRONG,
            "invalid configuration argument",
        ),
        "the_launch_is_not_asked_after": Wrong(
            {"    must(cudaGetLastError());\n": ""}, WRONG, "invalid configuration argument"
        ),
        "the_kernel_is_not_waited_for": Wrong(
            {
                "must(cudaMemcpy(x.data(), gpu_y, n * sizeof(float), "
                "cudaMemcpyDeviceToHost));": "cudaMemcpy(x.data(), gpu_y, n * sizeof(float), "
                "cudaMemcpyDeviceToHost);"
            },
            WRONG,
            "device-side assert triggered",
        ),
        "memory_is_taken_for_granted": Wrong(
            {
                "must(cudaMalloc(&gpu_x, n * sizeof(float)));": "cudaMalloc(&gpu_x, n * sizeof(float));",
                "must(cudaMalloc(&gpu_y, n * sizeof(float)));": "cudaMalloc(&gpu_y, n * sizeof(float));\n   "
                " if (n > "
                "1000000)\n        return 2;",
            },
            WRONG,
            "out of memory",
        ),
        "ends_as_if_all_were_well": Wrong({"exit(1)": "exit(0)"}, WRONG, "as if nothing had gone wrong"),
        "a_number_for_the_words": Wrong(
            {'printf("%s\\n", cudaGetErrorString(error))': 'printf("%d\\n", error)'}, WRONG, "it prints “9”"
        ),
    },
)

HOST_MANAGED = Task(
    name="host_managed",
    title="Managed memory",
    kernel="running_mean",
    is_program=True,
    text="""
`cudaMallocManaged()` gives memory that host code and kernels both touch, with no copies. But a launch only
*asks* for a kernel: host code goes on while it runs, and must not touch what the kernel may still be using.

The program below computes means of neighbours, changes x[0] to −y[0], computes them again, and prints them.
It often prints the right numbers on a GPU. Where does host code touch memory that a kernel may still use?
Mend it with `cudaDeviceSynchronize()`, which waits for all kernels, and not more often than is needed.
""",
    launch="./host_managed n seed",
    sizes=({"n": 1, "seed": 1}, {"n": 128, "seed": 2}, {"n": 300, "seed": 3}),
    between={"n": (2, 1000), "seed": (4, 1000)},
    inputs=_nothing,
    right=_means,
    budget=lambda n, seed: (launches(2), at_least(requests(STORES, 2 * tiles(n, 32)))),
    budget_sizes={"n": 512, "seed": 1},
    budget_between={"n": (256, 1024, 128), "seed": (1, 1000, 1)},
    starts_from="nobody_waits",
    hints=(
        "x[0] = -y[0] reads what the first kernel writes, and writes what it reads.",
        "Between the launch and the next line of host code that touches x or y there has to be a wait. Two "
        "kernels after each other need none: they run in the order of their launches.",
        "cudaDeviceSynchronize() before x[0] = -y[0], and before the loop that prints.",
    ),
    wrong={
        "nobody_waits": Wrong(
            {
                "    cudaDeviceSynchronize();\n    x[0]": "    x[0]",
                "    cudaDeviceSynchronize();\n    for": "    for",
            },
            FAULT,
            "running_mean",
        ),
        "waits_at_the_end_only": Wrong(
            {"    cudaDeviceSynchronize();\n    x[0]": "    x[0]"}, FAULT, "running_mean"
        ),
        "waits_before_the_launch": Wrong(
            {
                "    running_mean<<<(n + 127) / 128, 128>>>(y, x, n);\n    cudaDeviceSynchronize();\n    "
                "for": "    "
                "cudaDeviceSynchronize();\n    running_mean<<<(n + 127) / 128, 128>>>(y, x, n);\n    for"
            },
            FAULT,
            "running_mean",
        ),
        "another_kernel_more": Wrong(
            {
                "    cudaDeviceSynchronize();\n    for": "    running_mean<<<(n + 127) / 128, 128>>>(y, x, "
                "n);\n    "
                "cudaDeviceSynchronize();\n    for"
            },
            OVER_BUDGET,
            "launches",
        ),
        "memory_of_the_host": Wrong(
            {
                "cudaMallocManaged(&y, n * sizeof(float))": "y = (float *)malloc(n * sizeof(float))",
                "    cudaFree(y);\n": "    free(y);\n",
            },
            FAULT,
            "out of bounds",
        ),
    },
)

HOST_STREAMS = Task(
    name="host_streams",
    title="Copies while kernels run",
    kernel="squares",
    is_program=True,
    text="""
A program squares `pieces` pieces of `n` numbers each, and prints them. As it stands it does one thing after
the other: it fills x, copies it, runs the kernel, copies y back, prints. While a copy goes on the kernels
wait, and while a kernel runs the copies.

Two *streams* do better. Within a stream everything happens in its order; two streams go on side by side. So
each of two streams gets buffers of its own, and the pieces take turns. `cudaMemcpyAsync(to, from, bytes,
kind, stream)` and `kernel<<<blocks, threads, 0, stream>>>(...)` only ask, and return. So before the host uses
the buffers of a stream again, and before it prints them, it waits for that stream, or for an *event* in it,
and for no more: not for the device. Memory of the host must be pinned for that (`cudaMallocHost`, and
`cudaFreeHost`).
""",
    launch="./host_streams n pieces seed",
    sizes=(
        {"n": 4, "pieces": 1, "seed": 1},
        {"n": 100, "pieces": 2, "seed": 2},
        {"n": 64, "pieces": 5, "seed": 3},
    ),
    between={"n": (2, 300), "pieces": (1, 6), "seed": (4, 1000)},
    inputs=_nothing,
    right=lambda n, pieces, seed: {"y": _values(n * pieces, seed) ** 2},
    budget=lambda n, pieces, seed: (
        launches(pieces),
        no_calls("cudaMemcpy"),
        no_calls("cudaDeviceSynchronize"),
        at_least(requests(STORES, pieces * tiles(n, 32))),
    ),
    budget_sizes={"n": 256, "pieces": 4, "seed": 1},
    budget_between={"n": (128, 512, 64), "pieces": (2, 6, 1), "seed": (1, 1000, 1)},
    starts_from="one_after_the_other",
    hints=(
        "Arrays of two: float *x[2], *y[2], *gpu_x[2], *gpu_y[2]; cudaStream_t stream[2]. Piece p uses "
        "number p % 2 of each.",
        "In turn p: if p is 2 or more, wait for stream p % 2 and print piece p - 2, which is in y[p % 2]. "
        "Then fill x[p % 2], and ask for copy, kernel and copy in this stream.",
        "After the loop up to two pieces are left, the older first: for (int p = max(0, pieces - 2); p < "
        "pieces; p++) wait for stream p % 2 and print.",
    ),
    wrong={
        "one_after_the_other": Wrong(None, OVER_BUDGET, "calls of cudaMemcpy()"),
        "nobody_waits_in_the_loop": Wrong(
            {
                "        if (p >= 2)\n            print_piece(stream[s], y[s], n);\n": "        if (p >= "
                "2)\n            "
                "print_piece(stream[1 - s], y[s], n);\n"
            },
            FAULT,
            "cudaMemcpyAsync",
        ),
        "waits_too_late": Wrong(
            {
                "    cudaStreamSynchronize(stream);\n": "",
                "    for (int s = 0; s < 2; s++) {\n        "
                "cudaStreamDestroy(stream[s]);\n": "    for (int s = 0; s < 2; s++) {\n        "
                "cudaStreamSynchronize(stream[s]);\n        cudaStreamDestroy(stream[s]);\n",
            },
            FAULT,
            "cudaMemcpyAsync",
        ),
        "waits_for_everything": Wrong(
            {"cudaStreamSynchronize(stream)": "cudaDeviceSynchronize()"},
            OVER_BUDGET,
            "calls of cudaDeviceSynchronize()",
        ),
        "the_last_pieces_in_the_wrong_order": Wrong(
            {
                "p = std::max(0, pieces - 2); p < pieces; p++": "p = pieces - 1; p >= std::max(0, pieces - "
                "2); p--"
            },
            WRONG,
            "y[",
        ),
    },
)

TASKS = (HOST_COPIES, HOST_ERRORS, HOST_MANAGED, HOST_STREAMS)
