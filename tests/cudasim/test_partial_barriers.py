"""Barriers of a part of the block order those who take part, and nobody else: named ones and mbarriers."""

import pytest
import torch

import cudasim
from cudasim.live.kernels import Program

PREAMBLE = r"""
#include <cuda/barrier>
__device__ void bar_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ void bar_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init_barrier(void *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at(barrier)), "r"(arrivals));
}
__device__ void arrive(void *barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at(barrier)) : "memory");
}
__device__ void wait(void *barrier, unsigned parity) {
    unsigned ended;
    do
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}" : "=r"(ended) : "r"(at(barrier)), "r"(parity) : "memory");
    while (!ended);
}
"""
BEGIN = "int t = threadIdx.x; __shared__ int s[128];"
MBARRIERS = f"""{BEGIN} __shared__ unsigned long long full, empty;
    if (t == 0) {{ init_barrier(&full, ARRIVALS); init_barrier(&empty, 64); }}
    __syncthreads();"""

LEGAL = {
    "two_halves_each_meet": f"""{BEGIN}
        s[t] = t;
        if (t < 64) bar_sync(1, 64); else bar_sync(2, 64);
        y[t] = s[t < 64 ? 63 - t : 191 - t];""",
    "producer_and_consumer": f"""{BEGIN}
        if (t < 64)
            for (int i = 0; i < 4; i++) {{ if (i > 0) bar_sync(2, 128); s[t] = t + i; bar_arrive(1, 128); }}
        else
            for (int i = 0; i < 4; i++) {{
                bar_sync(1, 128);
                y[t] = s[127 - t];
                if (i < 3) bar_arrive(2, 128);
            }}""",
    "by_a_third_warp": f"""{BEGIN}
        if (t < 32) {{ s[t] = t; bar_sync(1, 64); }}
        else if (t < 64) {{ bar_sync(1, 64); bar_sync(2, 64); }}
        else if (t < 96) {{ bar_sync(2, 64); y[t] = s[95 - t]; }}""",
    "ring_by_mbarriers": f"""{MBARRIERS.replace("ARRIVALS", "64")}
        if (t < 64)
            for (int i = 0; i < 4; i++) {{
                if (i > 0) wait(&empty, (i - 1) & 1);
                s[t] = t + i;
                arrive(&full);
            }}
        else
            for (int i = 0; i < 4; i++) {{ wait(&full, i & 1); y[t] = s[127 - t]; arrive(&empty); }}""",
    "one_lane_arrives_one_waits": f"""{MBARRIERS.replace("ARRIVALS", "1")}
        if (t < 32) {{ s[t] = t; __syncwarp(); if (t == 0) arrive(&full); }}
        else if (t < 64) {{ if (t == 32) wait(&full, 0); __syncwarp(); y[t] = s[63 - t]; }}""",
    "handed_on_to_another_block": """int t = threadIdx.x;
        if (blockIdx.x == 0) {
            if (t < 64) data[t] = t;
            if (t < 96) bar_sync(1, 96);
            if (t == 64) { __threadfence(); atomicExch(&flag, 1); }
        } else {
            if (t == 0) { while (atomicAdd(&flag, 0) == 0); __threadfence(); }
            __syncthreads();
            if (t < 64) y[t] = data[63 - t];
        }""",
    "cuda_barrier": f"""{BEGIN} __shared__ cuda::barrier<cuda::thread_scope_block> all;
        if (t == 0) init(&all, 128);
        __syncthreads();
        s[t] = t;
        all.arrive_and_wait();
        y[t] = s[127 - t];""",
}
RACES = {
    "who_does_not_meet": f"""{BEGIN}
        s[t] = t;
        if (t < 64) bar_sync(1, 64);
        if (t >= 64) y[t] = s[t - 64];""",
    "meeting_in_the_wrong_order": f"""{BEGIN}
        if (t >= 32 && t < 64) {{ bar_sync(2, 64); bar_sync(1, 64); }}
        else if (t < 32) {{ s[t] = t; bar_sync(1, 64); }}
        else if (t < 96) {{ bar_sync(2, 64); y[t] = s[95 - t]; }}""",
    "write_after_the_arrival": f"""{BEGIN}
        if (t < 64) {{ s[t] = t; bar_arrive(1, 128); s[t] = 2 * t; }}
        else {{ bar_sync(1, 128); y[t] = s[127 - t]; }}""",
    "read_after_the_arrival": f"""{BEGIN}
        if (t < 64) {{ s[t] = t; bar_arrive(1, 128); bar_sync(2, 128); s[t] = 0; }}
        else {{ bar_sync(1, 128); bar_arrive(2, 128); y[t] = s[127 - t]; }}""",
    "who_does_not_wait_for_the_mbarrier": f"""{MBARRIERS.replace("ARRIVALS", "32")}
        if (t < 32) {{ s[t] = t; arrive(&full); }}
        else if (t < 64) {{ wait(&full, 0); y[t] = s[63 - t]; }}
        else if (t < 96) y[t] = s[95 - t];""",
    "write_after_arriving_at_the_mbarrier": f"""{MBARRIERS.replace("ARRIVALS", "32")}
        if (t < 32) {{ arrive(&full); s[t] = t; }}
        else if (t < 64) {{ wait(&full, 0); y[t] = s[63 - t]; }}""",
}


@pytest.fixture(scope="module")
def launch():
    """Launches the kernel of a name."""
    kernels = "".join(
        f"__global__ void {name}(int *y) {{ {body} }}\n" for name, body in (LEGAL | RACES).items()
    )
    source = f"{PREAMBLE}__device__ int flag, data[64];\n{kernels}"
    program = Program(source, "barriers.cu")
    blocks = {"handed_on_to_another_block": 2}

    def run(name):
        kernel = cudasim.live.kernels.Kernel(program, name)
        kernel[blocks.get(name, 1), 128](torch.zeros(128, dtype=torch.int32))

    return run


@pytest.mark.simulator
@pytest.mark.parametrize("name", LEGAL)
def test_who_takes_part_is_ordered(launch, name):
    launch(name)


@pytest.mark.simulator
@pytest.mark.parametrize("name", RACES)
def test_who_does_not_take_part_is_not_ordered(launch, name):
    with pytest.raises(cudasim.KernelFault, match="race"):
        launch(name)
