"""Kernels in CUDA C++ with faults of scopes, orders, copies on their way, clusters and waiting, and the right
kernels beside them.
"""

import functools
import warnings
from typing import NamedTuple

import pytest
import torch

import cudasim
from cudasim.counting.faults import KernelWarning
from cudasim.live.kernels import Kernel, Program

SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda_pipeline.h>
#include "sim/ptx/mbarrier.h"
namespace cg = cooperative_groups;

__global__ void adds_in_the_blocks_scope(int *a) {
    atomicAdd_block(a, 1); // races
}

template <cuda::std::memory_order ORDER> __device__ void hand_over(int *a) {
    cuda::atomic_ref<int, cuda::thread_scope_device> flag(a[1]);
    if (threadIdx.x > 0)
        return;
    if (blockIdx.x == 1) {
        a[0] = 7;
        flag.store(1, ORDER);
    } else {
        while (flag.load(cuda::std::memory_order_acquire) == 0)
            ;
        a[2] = a[0]; // reads
    }
}
__global__ void hands_over_released(int *a) {
    hand_over<cuda::std::memory_order_release>(a);
}
__global__ void hands_over_relaxed(int *a) {
    hand_over<cuda::std::memory_order_relaxed>(a);
}

__device__ void meet_at_mbarrier(int *a, bool waits_for_init) {
    __shared__ uint64_t barrier;
    __shared__ int values[64];
    if (threadIdx.x == 0)
        mbarrier_init(shared_address(&barrier), 64);
    if (waits_for_init)
        __syncthreads();
    values[threadIdx.x] = threadIdx.x;
    mbarrier_arrive(shared_address(&barrier)); // arrives
    mbarrier_wait(shared_address(&barrier), 0);
    a[threadIdx.x] = values[63 - threadIdx.x];
}
__global__ void meets_at_mbarrier(int *a) {
    meet_at_mbarrier(a, true);
}
__global__ void meets_before_init_is_known(int *a) {
    meet_at_mbarrier(a, false);
}

__device__ void copy_in_stages(int *a, int groups_in_flight) {
    __shared__ alignas(16) int stage[2][64];
    int t = threadIdx.x, sum = 0;
    __pipeline_memcpy_async(&stage[0][t], &a[64 + t], 4);
    __pipeline_commit();
    for (int i = 0; i < 3; i++) {
        if (i < 2)
            __pipeline_memcpy_async(&stage[(i + 1) % 2][t], &a[64 * (i + 2) + t], 4);
        __pipeline_commit();
        __pipeline_wait_prior(groups_in_flight);
        __syncthreads();
        sum += stage[i % 2][63 - t]; // sums
        __syncthreads();
    }
    a[t] = sum;
}
__global__ void copies_in_stages(int *a) {
    copy_in_stages(a, 1);
}
__global__ void waits_for_too_few_copies(int *a) {
    copy_in_stages(a, 2);
}

__global__ void copies_with_more_zeros_than_bytes(int *a) {
    __shared__ int stage[64];
    __pipeline_memcpy_async(&stage[threadIdx.x], &a[threadIdx.x], 4, 8); // copies
    __pipeline_commit();
}

__device__ int *reach(int *values, bool waits) {
    auto cluster = cg::this_cluster();
    values[threadIdx.x] = cluster.block_rank() * 100 + threadIdx.x;
    if (waits)
        cluster.sync();
    else
        __syncthreads();
    return cluster.map_shared_rank(values, (cluster.block_rank() + 1) % cluster.num_blocks());
}
__global__ void __cluster_dims__(2, 1, 1) reaches_next_block(int *a) {
    __shared__ int values[32];
    a[blockIdx.x * 32 + threadIdx.x] = reach(values, true)[31 - threadIdx.x];
    cg::this_cluster().sync();
}
__global__ void __cluster_dims__(2) reaches_before_the_cluster_has_met(int *a) {
    __shared__ int values[32];
    a[blockIdx.x * 32 + threadIdx.x] = reach(values, false)[31 - threadIdx.x]; // reaches
    cg::this_cluster().sync();
}
__global__ void __cluster_dims__(2, 1, 1) exits_while_others_reach(int *a) {
    __shared__ int values[32];
    int *others = reach(values, true);
    if (cg::this_cluster().block_rank() == 0)
        a[threadIdx.x] = others[threadIdx.x];
}

__global__ void __cluster_dims__(2, 1, 1) writes_what_is_read_after_the_cluster_has_met(int *a) {
    int seen = a[0];
    cg::this_cluster().sync();
    if (blockIdx.x == 0 && threadIdx.x == 0)
        seen += a[0];
    if (blockIdx.x == 0 && threadIdx.x == 1)
        a[0] = 1; // writes
    a[1 + blockIdx.x * 32 + threadIdx.x] = seen;
}
__global__ void writes_between_two_barriers_of_the_grid(int *a) {
    cg::this_grid().sync();
    if (threadIdx.x == 0)
        a[0] = blockIdx.x; // writes
    cg::this_grid().sync();
}

__global__ void wait_for_each_other(int *a) {
    if (threadIdx.x > 0)
        return;
    while (atomicAdd(&a[1 - blockIdx.x], 0) == 0) // waits
        __nanosleep(100);
    atomicExch(&a[blockIdx.x], 1);
}
__global__ void keeps_the_lock(int *a) {
    if (threadIdx.x > 0)
        return;
    while (atomicCAS(a, 0, 1) != 0) // locks
        ;
    __threadfence();
    a[1]++;
}
__global__ void take_turns(int *a) {
    if (threadIdx.x > 0)
        return;
    for (int turn = blockIdx.x; turn < 9; turn += gridDim.x) {
        while (*(volatile int *)a != turn)
            ;
        __threadfence();
        a[1] += turn;
        __threadfence();
        *(volatile int *)a = turn + 1;
    }
}

__global__ void reduces(int *a) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    int sum = cg::reduce(tile, (int)threadIdx.x, cg::plus<int>());
    float product = cg::reduce(tile, 2.0f, [](float x, float y) { return x * y; });
    if (threadIdx.x == 0)
        a[0] = sum, a[1] = product == 4294967296.0f;
}
"""


class Case(NamedTuple):
    blocks: int
    threads: int
    kind: str | None  # None: no fault
    text: str = ""  # on the line that is told
    values: tuple = ()  # places of the array, and what is there afterwards


CASES = {
    "adds_in_the_blocks_scope": Case(2, 32, "race between blocks", "// races"),
    "hands_over_released": Case(2, 32, None, values=((2, 7),)),
    "hands_over_relaxed": Case(2, 32, "race between blocks", "// reads"),
    "meets_at_mbarrier": Case(
        1,
        64,
        None,
        values=(
            (0, 63),
            (63, 0),
        ),
    ),
    "meets_before_init_is_known": Case(1, 64, "race", "// arrives"),
    "copies_in_stages": Case(1, 64, None, values=((0, 127 + 191 + 255),)),
    "waits_for_too_few_copies": Case(1, 64, "race", "// sums"),
    "copies_with_more_zeros_than_bytes": Case(1, 64, "out of bounds", "// copies"),
    "reaches_next_block": Case(
        4,
        32,
        None,
        values=(
            (0, 131),
            (32, 31),
            (64, 131),
        ),
    ),
    "reaches_before_the_cluster_has_met": Case(2, 32, "race between blocks"),
    "exits_while_others_reach": Case(2, 32, "block has exited", "map_shared_rank"),
    "writes_what_is_read_after_the_cluster_has_met": Case(2, 32, "race", "// writes"),
    "wait_for_each_other": Case(2, 32, "deadlock", "// waits"),
    "keeps_the_lock": Case(3, 32, "deadlock", "// locks"),
    "take_turns": Case(
        3,
        32,
        None,
        values=(
            (0, 9),
            (1, 36),
        ),
    ),
}


@functools.cache
def program() -> Program:
    return Program(SOURCE, "checks.cu", (), has_warned=True)


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    case = CASES[name]
    a = torch.arange(320, dtype=torch.int32)
    a[:64] = 0
    call = Kernel(program(), name)[case.blocks, case.threads]
    if case.kind is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error", KernelWarning)
            call(a)
        assert all(int(a[place]) == value for place, value in case.values)
        return
    with pytest.raises(cudasim.KernelFault) as caught:
        call(a)
    fault = caught.value
    assert (fault.kind, fault.kernel) == (case.kind, name)
    assert case.text in SOURCE.splitlines()[fault.line - 1]


def test_a_block_that_goes_on_late_does_not_know_what_the_others_do_meanwhile():
    """Which of the blocks come to the next barrier first is up to the OS threads."""
    kernel = Kernel(program(), "writes_between_two_barriers_of_the_grid")
    for _ in range(50):
        with pytest.raises(cudasim.KernelFault, match="race between blocks"):
            kernel[4, 64](torch.zeros(1, dtype=torch.int32))


def test_a_reduction_of_a_warp_is_counted_as_a_gpu_executes_it():
    """One redux.sync for integers, a shuffle for each step of a tree for all else."""
    a = torch.zeros(2, dtype=torch.int32)
    (launch,) = cudasim.count(lambda: Kernel(program(), "reduces")[1, 32](a)).to_dict("records")
    assert a.tolist() == [496, 1]
    assert launch["warp_operations"] == 1 + 5


def test_clusters_along_y_are_refused():
    kernel = cudasim.kernel("__global__ void __cluster_dims__(1, 2, 1) k(int *a) { a[0] = 1; }")
    with pytest.raises(ValueError, match="cluster along x"):
        kernel[(1, 2), 32](torch.zeros(1, dtype=torch.int32))


SAME_VALUE = r"""
__global__ void same(int *a) {
    __shared__ int s;
    s = 3;
    __syncthreads();
    a[threadIdx.x] = s;
}"""


def test_every_checked_launch_warns_of_writes_of_the_same_value():
    same, a = cudasim.kernel(SAME_VALUE), torch.zeros(64, dtype=torch.int32)
    for call in (lambda: same[1, 64](a), lambda: cudasim.check(lambda: same[1, 64](a))):
        with pytest.warns(KernelWarning, match=r"same\.cu:4.*wrote the same value at same\.cu:4") as caught:
            call()
        assert [each.filename for each in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same[1, 64](a, unchecked=True)
    assert a.tolist() == [3] * 64


@pytest.mark.parametrize("memory", ["a", "s"])
def test_a_lane_that_joins_readers_is_held_against_atomics(memory):
    source = f"""
__global__ void joins(int *a) {{
    __shared__ int s[1];
    if (threadIdx.x == 0)
        s[0] = 1;
    __syncthreads();
    int seen = {memory}[0];
    if (threadIdx.x == 0)
        seen += atomicAdd({memory}, 1);
    a[threadIdx.x + 1] = seen;
}}"""
    with pytest.raises(cudasim.KernelFault, match=r"(reads|updates) ") as caught:
        cudasim.kernel(source)[1, 32](torch.zeros(33, dtype=torch.int32))
    assert caught.value.kind == "race"


# A compiler leaves a read out that it knows to be of no use, or puts it where its value is used, unless the
# threads meet between.
UNUSED = {
    "select": ("int v = __float_as_int(s[i + 1]); y[i] = __int_as_float(v & -(i < 63));", False),
    "prefetch": (
        "float v = s[0]; for (int k = 0; k < blockDim.x; k++) { y[i] += v; v = s[k + 1]; __syncwarp(); }",
        False,
    ),
    "a product by zero, which NaN is not": ("y[i] = s[i + 1] * (i < 63);", True),
    "used": ("y[i] = s[i + 1];", True),
}


@pytest.mark.parametrize("how", UNUSED)
def test_a_read_of_what_nobody_wrote_is_a_fault_where_its_value_is_used(how):
    statements, is_used = UNUSED[how]
    source = (
        "__global__ void reads(float *y, const float *x) { __shared__ float s[66]; int i = threadIdx.x;\n"
    )
    kernel = cudasim.kernel(f"{source} s[i] = x[i]; __syncthreads();\n {statements}\n}}")
    x, y = torch.rand(64), torch.zeros(64)
    if is_used:
        with pytest.raises(cudasim.KernelFault, match="no thread of the block has written") as caught:
            kernel[1, 64](y, x)
        assert caught.value.kind == "uninitialised"
    else:
        with pytest.warns(KernelWarning, match="the launch's results do not depend on it") as warned:
            kernel[1, 64](y, x)
        assert len(warned) == 1
        once = x.roll(-1) * (torch.arange(64) < 63)
        torch.testing.assert_close(y, once if how == "select" else x.sum().expand(64))


TURNS = r"""
__global__ void spend(int *y, int steps) {
    for (int i = 0; i < steps; i++)
        y[i % 7 + 8 * threadIdx.x] += i;
}
// Each thread runs for about a third of a turn; the tickets tell in which order they came.
__global__ void tickets(int *y, int *next, int steps) {
    unsigned v = threadIdx.x;
    for (int i = 0; i < steps; i++) // no compiler knows how it ends
        v = (v * 1664525u + 1013904223u) ^ v >> 7;
    y[threadIdx.x] = atomicAdd(next, 1) + (v == 1 ? 1000 : 0);
}
"""


def test_the_order_of_a_block_s_threads_depends_on_nothing_that_ran_before():
    program = Program(TURNS, "turns.cu")
    spend, tickets = (Kernel(program, name) for name in ("spend", "tickets"))

    def order(steps):
        y, next_ticket = torch.zeros(64, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        cudasim.check(lambda: spend[1, 1](torch.zeros(64, dtype=torch.int32), steps))
        cudasim.check(lambda: tickets[1, 64](y, next_ticket, 20000))
        return y.tolist()

    first = order(1)
    assert sorted(first) == list(range(64)) and first != list(range(64)), "no turn ended"
    for steps in (1111, 11111, 22222, 33333, 44444, 55555):
        assert order(steps) == first
