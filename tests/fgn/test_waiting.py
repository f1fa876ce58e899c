"""Threads that wait for others in loops of their own, the grid's barrier, and what a barrier waits for."""

import pytest
import torch

import fgn

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Whoever stores the flag comes after whoever waits for it.
__global__ void for_a_later_thread(volatile int *flag, int *to) {
    if (threadIdx.x == 0) {
        while (flag[0] == 0) ;
        __threadfence();
        to[0] = 7;
    } else if (threadIdx.x == blockDim.x - 1) {
        __threadfence();
        flag[0] = 1;
    }
}
__global__ void for_a_later_block(volatile int *flag, int *to) {
    if (blockIdx.x < gridDim.x - 1) {
        while (flag[0] == 0) ;
        __threadfence();
        to[blockIdx.x * blockDim.x + threadIdx.x] = 7;
    } else if (threadIdx.x == 0) {
        __threadfence();
        flag[0] = 1;
    }
}
__global__ void under_a_lock(int *lock, int *to) {
    while (atomicCAS(lock, 0, 1) != 0) ;
    __threadfence();
    to[0] += 1;
    __threadfence();
    atomicExch(lock, 0);
}
__global__ void by_the_grids_barrier(int *from, int *to) {
    cg::grid_group grid = cg::this_grid();
    int i = grid.thread_rank(), n = grid.size();
    for (int step = 0; step < 3; step++) {
        to[i] = from[n - 1 - i] + 1;
        grid.sync();
        from[i] = to[i];
        grid.sync();
    }
}
__device__ int deeper(int n, volatile int *to) {
    volatile int here[64];
    here[n % 64] = n;
    return n < 0 ? 0 : deeper(n + 1, to) + here[n % 64];
}
__global__ void without_end(int *a, int *to) { to[0] = deeper(0, a); }

// Legal: lanes that execute `return` before the barrier, and whole warps that do not come to it.
__global__ void returns_before(int *a, int *to) {
    if (threadIdx.x >= 20) return;
    __syncthreads();
    to[threadIdx.x] = 1;
}
__global__ void whole_warps(int *a, int *to) {
    if (threadIdx.x < 32) {
        __syncthreads();
        to[threadIdx.x] = 1;
    }
}
__global__ void lower_lanes(int *a, int *to) {
    if (threadIdx.x < 20) {
        __syncthreads();
        to[threadIdx.x] = 1;
    }
}
__global__ void upper_lanes(int *a, int *to) {
    if (threadIdx.x >= 20) {
        __syncthreads();
        to[threadIdx.x] = 1;
    }
}
"""
BLOCKS, THREADS = 6, 64


def run(name: str, unchecked: bool, blocks: int = BLOCKS) -> torch.Tensor:
    first, to = (torch.zeros(BLOCKS * THREADS, dtype=torch.int32) for _ in range(2))
    fgn.kernel(SOURCE, name)[blocks, THREADS](first, to, unchecked=unchecked)
    return to


@pytest.mark.parametrize("unchecked", [False, True])
def test_others_make_progress_while_a_thread_waits(unchecked):
    assert run("for_a_later_thread", unchecked, 1)[0] == 7
    assert run("for_a_later_block", unchecked).sum() == 7 * THREADS * (BLOCKS - 1)
    assert run("under_a_lock", unchecked)[0] == BLOCKS * THREADS
    assert (run("by_the_grids_barrier", unchecked) == 3).all()


@pytest.mark.parametrize("unchecked", [False, True])
def test_recursion_without_end_is_a_fault_on_every_os_thread(unchecked):
    for _ in range(5):
        with pytest.raises(fgn.KernelFault, match="more local memory"):
            run("without_end", unchecked)


def test_a_barrier_waits_for_lanes_that_have_not_exited():
    assert run("returns_before", False, 1).sum() == 20
    assert run("whole_warps", False, 1).sum() == 32
    for name in ("lower_lanes", "upper_lanes"):
        with pytest.raises(fgn.KernelFault, match="gone past it to the kernel's end") as caught:
            run(name, False, 1)
        assert caught.value.kind == "barrier divergence" and caught.value.line is not None
