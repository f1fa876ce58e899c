"""What a kernel from a cell does wrong never ends the process, and stays in the launch: wild addresses, the
host's functions, the device's heap; and what the groups and pipelines of C++ do.
"""

import functools
import re
import subprocess
import sys

import pytest
import torch
from processes import patience

import cudasim
from cudasim.live.kernels import Kernel, Program

SOURCE = r"""
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include <string.h>
#define T 16
namespace cg = cooperative_groups;

__global__ void writes(int *y, long i) {
    y[i] = 1;
}
__global__ void writes_far_away(int *y, long bytes) {
    for (long i = 0; i < 100000; i++)
        *(int *)((char *)y + i * bytes) = 1;
}
__global__ void writes_at(long address, int *y) {
    *(volatile int *)address = 1;
    y[0] = 1;
}
__global__ void adds_at(long address, int *y) {
    atomicAdd((int *)address, 1);
    y[0] = 1;
}
__global__ void overruns_shared(int *y, int n) {
    __shared__ int s[32];
    s[n] = n;
    y[0] = s[0];
}
__global__ void overruns_dynamic_shared(int *y, int n) {
    extern __shared__ int s[];
    s[n] = n;
    y[0] = s[0];
}
__global__ void overruns_local(int *y, int n) {
    int l[T];
    for (int i = 0; i < n; i++)
        l[i] = i;
    y[0] = l[n % T];
}
__global__ void sets_bytes(int *y, long bytes) {
    memset(y, 0, bytes);
}
__global__ void leaves(int *y, int status) {
    exit(status);
}
__global__ void starts_a_program(int *y, int n) {
    y[0] = system("exit 1");
}
__global__ void traps(int *y, int n) {
    __builtin_trap();
}
__global__ void frees(int *y, int n) {
    free(y + n);
}
__global__ void adds_to_both(int *y, int *last) {
    y[threadIdx.x] += 1;
    if (threadIdx.x == 0)
        last[0] = 7;
}
__global__ void takes_from_the_heap(int *y, int n) {
    int *own = new int[n];
    for (int i = 0; i < n; i++)
        own[i] = i;
    memmove(own, own + 1, (n - 1) * sizeof *own);
    y[blockIdx.x * blockDim.x + threadIdx.x] = own[threadIdx.x];
    delete[] own;
}
__global__ void overruns_the_heap(int *y, int n) {
    volatile int *own = (volatile int *)malloc(n * sizeof *own);
    own[n] = n;
    y[0] = own[n];
}
__global__ void tells_its_size(int *y, dim3 size) {
    y[0] = size.x * size.y * size.z;
}
__global__ void a_shared_array_whose_mangled_name_is_long(int *y, const float *, const float *) {
    __shared__ int first_of_all[64];
    first_of_all[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = first_of_all[63 - threadIdx.x];
}
__global__ void meets_in_tiles_of_two_warps(int *y) {
    __shared__ int s[256];
    auto tile = cg::tiled_partition<64 + 64>(cg::this_thread_block());
    s[threadIdx.x] = threadIdx.x;
    tile.sync();
    y[threadIdx.x] = s[tile.meta_group_rank() * tile.size() + tile.size() - 1 - tile.thread_rank()];
}
/* The first warp brings, the second one adds up. */
__global__ void has_roles(int *y, const int *x, int n) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ int stage[2][32];
    auto block = cg::this_thread_block();
    bool brings = threadIdx.x < 32;
    auto pipe = cuda::make_pipeline(
        block, &state, brings ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
    int lane = threadIdx.x % 32, sum = 0;
    for (int i = 0; i < n; i++) {
        if (brings) {
            pipe.producer_acquire();
            cuda::memcpy_async(&stage[i % 2][lane], &x[i * 32 + lane], sizeof(int), pipe);
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            sum += stage[i % 2][31 - lane];
            pipe.consumer_release();
        }
    }
    if (!brings)
        y[lane] = sum;
}
"""


@pytest.fixture(autouse=True)
def without_nvcc(monkeypatch):
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", "0")  # which refuses the host's functions


@functools.cache
def program() -> Program:
    return Program(SOURCE, "wild.cu")


def kernel(name: str) -> Kernel:
    return Kernel(program(), name)


def ints(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.int32)


WRONG = {
    "writes": [lambda y: (y, -2000), lambda y: (y, 64), lambda y: (y, -(1 << 31)), lambda y: (y, 1 << 50)],
    "writes_far_away": [lambda y: (y, 4), lambda y: (y, 4096), lambda y: (y, -4100), lambda y: (y, 1 << 20)],
    "writes_at": [lambda y: (0, y), lambda y: (64, y), lambda y: (-4, y), lambda y: (0x1234567812345678, y)],
    "adds_at": [lambda y: (0, y), lambda y: (-4, y), lambda y: (0x1234567812345678, y)],
    "overruns_shared": [lambda y: (y, 32), lambda y: (y, -1), lambda y: (y, 1 << 30)],
    "overruns_dynamic_shared": [lambda y: (y, 1024), lambda y: (y, -1 << 20), lambda y: (y, (1 << 31) - 1)],
    "overruns_local": [lambda y: (y, 17), lambda y: (y, 1 << 20)],
    "sets_bytes": [lambda y: (y, 1 << 40), lambda y: (y, 257)],
    "leaves": [lambda y: (y, 1)],
    "starts_a_program": [lambda y: (y, 1)],
    "traps": [lambda y: (y, 1)],
    "frees": [lambda y: (y, 0), lambda y: (y, 1)],
}


@pytest.mark.parametrize("unchecked", [False, True])
@pytest.mark.parametrize("name", WRONG)
def test_a_wild_kernel_ends_with_a_fault_and_the_process_goes_on(name, unchecked):
    neighbours = [torch.full((64,), 5, dtype=torch.int32) for _ in range(9)]
    for arguments in WRONG[name]:
        y = neighbours[4]
        with pytest.raises(cudasim.KernelFault):
            kernel(name)[1, 1, 4096](*arguments(y), unchecked=unchecked)
    for other in (*neighbours[:4], *neighbours[5:]):
        assert (other == 5).all()


def test_an_unchecked_fault_names_the_argument_and_keeps_what_was_written():
    y = ints(64)
    with pytest.raises(cudasim.KernelFault, match=r"accesses y\[64\], which has 64 elements") as caught:
        kernel("writes_far_away")[1, 1](y, 4, unchecked=True)
    assert (caught.value.kind, caught.value.index) == ("crash", 64)
    assert (y == 1).all()


def test_an_unchecked_launch_changes_tensors_that_overlap_and_that_are_alone():
    base, last = ints(40), ints(1)
    kernel("adds_to_both")[1, 32](base[4:36], base[3:4], unchecked=True)
    assert base.tolist() == [0] * 3 + [7] + [1] * 32 + [0] * 4
    for _ in range(3):
        kernel("adds_to_both")[1, 32](base[:32], last, unchecked=True)
    assert last.tolist() == [7] and base[:4].tolist() == [3, 3, 3, 10]


@pytest.mark.parametrize("unchecked", [False, True])
def test_the_devices_heap(unchecked):
    y = ints(64)
    kernel("takes_from_the_heap")[2, 32](y, 40, unchecked=unchecked)
    assert y.tolist() == list(range(1, 33)) * 2
    if not unchecked:
        with pytest.raises(cudasim.KernelFault, match=r"memory from malloc\(\)\[5\], which has 5 elements"):
            kernel("overruns_the_heap")[1, 1](y, 5)
        freed = "p = new int[4]; p[1] = y[0]; delete[] p; y[0] = p[1];"
        source = f"__device__ int *p; __global__ void k(int *y) {{ {freed} }}"
        with pytest.raises(cudasim.KernelFault, match=r"freed memory from malloc\(\)\[1\]"):
            cudasim.kernel(source)[1, 1](y)


def test_a_dim3_is_three_numbers():
    y = ints(1)
    kernel("tells_its_size")[1, 1](y, (2, 3, 4))
    assert y.tolist() == [24]


def test_a_race_in_shared_memory_names_the_array_and_the_place_in_it():
    x = torch.zeros(1)
    with pytest.raises(cudasim.KernelFault, match=r"first_of_all\[\d+\], byte \d+ of it"):
        kernel("a_shared_array_whose_mangled_name_is_long")[1, 64](ints(64), x, x)


def test_tiles_of_several_warps_and_pipelines_with_roles():
    y = ints(256)
    kernel("meets_in_tiles_of_two_warps")[1, 256](y)
    assert y.tolist() == [*range(127, -1, -1), *range(255, 127, -1)]
    x = torch.randint(0, 100, (5, 32), dtype=torch.int32)
    kernel("has_roles")[1, 64](y, x, 5)
    assert torch.equal(y[:32], x.sum(0).flip(0).int())


STACKS = """
import re
import cudasim

kernel = cudasim.kernel('''__device__ int counter;
__device__ __attribute__((noinline)) void touch(int *local, int bytes) {
    local[0] = bytes;
    counter = local[0];
}
__global__ void fills_its_stack(int bytes) { touch((int *)__builtin_alloca(bytes), bytes); }''')


def said(bytes, blocks):
    try:
        kernel[blocks, 1](bytes)
    except cudasim.KernelFault as fault:
        return str(fault)
    return ""


room = int(re.search(r"more local memory than the ([0-9]+) bytes", said(1 << 28, 1))[1])
for left in range(0, 8192, 128):
    assert "more local memory" in said(room - left, 1), left
    assert not said(64, 8)
assert not said(room - 65536, 1)
"""


def test_a_stack_that_is_full_is_told_before_the_checker_needs_it():
    """Within a look-up a crash would leave the loader's lock taken, and the next launch would never end. A
    report that finds no room on the stack either is told as well."""
    subprocess.run([sys.executable, "-c", STACKS], check=True, timeout=patience(300))


def test_a_stack_that_is_nearly_full_is_told_when_the_end_of_a_turn_finds_no_room_there():
    source = """__global__ void nearly_fills_its_stack(int *y, int bytes) {
        volatile char *local = (volatile char *)__builtin_alloca(bytes);
        for (int i = 0; i < 100000000; i++)
            local[i % 64] = i;
        y[0] = local[0];
    }"""
    kernel, y = cudasim.kernel(source), torch.zeros(1, dtype=torch.int32)
    with pytest.raises(cudasim.KernelFault, match="more local memory than") as caught:
        kernel[1, 1](y, 1 << 28, unchecked=True)
    room = int(re.search(r"more local memory than the (\d+) bytes", str(caught.value))[1])
    with pytest.raises(cudasim.KernelFault, match="more local memory than"):
        kernel[1, 1](y, room - 1200, unchecked=True)
    kernel[1, 1](y, room - (64 << 10), unchecked=True)
