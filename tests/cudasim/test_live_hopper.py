"""Hopper's instructions as pasted kernels write them: inline PTX for TMA, mbarriers, clusters and wgmma, with
tensor maps from Python."""

import pytest
import torch

import cudasim
from cudasim.live import TensorMap

STRINGS = r"""
#include <cuda.h>
#include <cuda_bf16.h>
typedef __nv_bfloat16 bf16;
struct stage {
    alignas(1024) bf16 a[64 * 64], b[16 * 64];
};
__device__ uint32_t address_of(const void *shared) {
    return (uint32_t)__cvta_generic_to_shared(shared);
}
__device__ uint64_t descriptor_of(const bf16 *tile) { // rows of 128 bytes, swizzled
    return (uint64_t)(address_of(tile) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
template <int ADDS, int SIGN_A, int SIGN_B, int TURNS_A, int TURNS_B>
__device__ void multiply(float sum[8], const bf16 *a, const bf16 *b) {
    asm volatile("{\n"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, %10, %11, %12, %13, %14;\n"
                 "}\n"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
                   "+f"(sum[6]), "+f"(sum[7])
                 : "l"(descriptor_of(a)), "l"(descriptor_of(b)), "n"(ADDS), "n"(SIGN_A), "n"(SIGN_B),
                   "n"(TURNS_A), "n"(TURNS_B));
}
template <int N> __device__ void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}
__device__ void begin(uint64_t *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(address_of(barrier)), "r"(arrivals));
}
__device__ void announce(uint64_t *barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;\n"
                 ::"r"(address_of(barrier)), "r"(bytes));
}
__device__ void await(uint64_t *barrier, int parity) {
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "AGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@over bra.uni ENDED;\n"
                 "bra.uni AGAIN;\n"
                 "ENDED:\n"
                 "}\n" ::"r"(address_of(barrier)), "r"(parity));
}
__device__ void arrive_in(uint32_t rank, uint64_t *barrier) {
    asm volatile("{\n\t"
                 ".reg .b32 there;\n\t"
                 "mapa.shared::cluster.u32 there, %0, %1;\n\t"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there], %2;\n\t"
                 "}" ::"r"(address_of(barrier)), "r"(rank), "r"(1));
}
__device__ void ask_for_box(bf16 *to, const CUtensorMap *map, uint64_t *barrier, int column, int row) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(address_of(to)), "l"((uint64_t)map), "r"(address_of(barrier)), "r"(column), "r"(row)
                 : "memory");
}
__device__ void ask_for_all(bf16 *to, const CUtensorMap *map, uint64_t *barrier, int column,
                            uint16_t blocks) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
                 ::"r"(address_of(to)), "l"((uint64_t)map), "r"(address_of(barrier)), "r"(column), "r"(0),
                   "h"(blocks)
                 : "memory");
}
__device__ bool leads() {
    uint32_t lane = 0, result = 0;
    asm volatile("{\n"
                 ".reg .b32 %%leader;\n"
                 ".reg .pred %%is_it;\n"
                 "elect.sync %%leader|%%is_it, %2;\n"
                 "@%%is_it mov.s32 %1, 1;\n"
                 "mov.s32 %0, %%leader;\n"
                 "}\n" : "+r"(lane), "+r"(result) : "r"(0xffffffff));
    return result;
}
__device__ void meet_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}
"""

PRODUCT = (
    STRINGS
    + r"""
__global__ __launch_bounds__(128) void product(float *c, int k, const __grid_constant__ CUtensorMap of_a,
                                               const __grid_constant__ CUtensorMap of_b) {
    extern __shared__ __align__(1024) unsigned char memory[];
    stage *stages = (stage *)memory;
    __shared__ __align__(8) uint64_t full[2];
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; s++)
            begin(&full[s], 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    float d[8] = {0};
    for (int tile = 0; tile < k / 64; tile++) {
        int s = tile % 2, phase = tile / 2 % 2;
        if (threadIdx.x / 32 == 0 && leads()) {
            announce(&full[s], HERE_BYTES);
            ask_for_box(stages[s].a, &of_a, &full[s], tile * 64, 0);
            ask_for_box(stages[s].b, &of_b, &full[s], tile * 64, blockIdx.x * 16);
        }
        await(&full[s], HERE_PARITY);
        asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
        for (int i = 0; i < 4; i++)
            multiply<1, 1, 1, 0, 0>(d, &stages[s].a[i * 16], &stages[s].b[i * 16]);
        asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
        for (int i = 0; i < 8; i++)
            asm volatile("" : "+f"(d[i]) :: "memory"); // as CUTLASS has it
        HERE_WAIT
        __syncthreads();
    }
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    int column = blockIdx.x * 16 + lane % 4 * 2;
    for (int i = 0; i < 8; i++)
        c[(row + i / 2 % 2 * 8) * 32 + column + i / 4 * 8 + i % 2] = d[i];
}"""
)
PLANTED = {
    "right": {},
    "bytes that never come": {"HERE_BYTES": "sizeof(stage) + 16"},
    "a wrong parity": {"HERE_PARITY": "phase ^ 1"},
    "sums that are not waited for": {"HERE_WAIT": ""},
}
RIGHT = {
    "HERE_BYTES": "sizeof(stage)",
    "HERE_PARITY": "phase",
    "HERE_WAIT": "wait_for_products<0>();",
}


def product(changes: dict, swizzle: int = 128, unchecked: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    source = PRODUCT
    for name, text in (RIGHT | changes).items():
        source = source.replace(name, text)
    torch.manual_seed(0)
    a, b, c = torch.randn(64, 192).bfloat16(), torch.randn(32, 192).bfloat16(), torch.zeros(64, 32)
    maps = TensorMap(a, (64, 64), 128), TensorMap(b, (16, 64), swizzle)
    cudasim.kernel(source)[2, 128, 2 * 10240 + 1024](c, 192, *maps, unchecked=unchecked)
    return c, a.float() @ b.float().T


@pytest.mark.parametrize("unchecked", [False, True])
def test_a_product_by_tma_and_wgmma(unchecked):
    torch.testing.assert_close(*product({}, unchecked=unchecked), rtol=1e-5, atol=1e-4)


FOUND = {
    "bytes that never come": ("deadlock", "bytes"),
    "a wrong parity": ("race for a stage", "parity"),
    "sums that are not waited for": ("sums not waited for", "wgmma"),
}


@pytest.mark.parametrize("planted", FOUND)
def test_a_planted_mistake_is_found(planted):
    kind, words = FOUND[planted]
    with pytest.raises(cudasim.KernelFault, match=words) as caught:
        product(PLANTED[planted])
    assert caught.value.kind == kind


# Two blocks share what they read: block 0 has every box of `a` copied to both, and waits until a thread of
# each has arrived at its mbarrier, the other block's from afar.
CLUSTER = (
    STRINGS
    + r"""
__global__ void __cluster_dims__(2, 1, 1) shares(float *sums, int boxes,
                                                 const __grid_constant__ CUtensorMap of_a) {
    __shared__ alignas(1024) bf16 box[64 * 64];
    __shared__ __align__(8) uint64_t full, empty;
    uint32_t rank;
    asm volatile("mov.u32 %0, %cluster_ctarank;\n" : "=r"(rank) :);
    if (threadIdx.x == 0) {
        begin(&full, 1);
        begin(&empty, 2);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    meet_cluster();
    float sum = 0.0f;
    for (int i = 0; i < boxes; i++) {
        if (threadIdx.x == 0) {
            announce(&full, sizeof box);
            if (rank == 0) {
                if (i > 0)
                    HERE_WAITS
                ask_for_all(box, &of_a, &full, i * 64, 3);
            }
        }
        await(&full, i & 1);
        for (int k = 0; k < 64; k++)
            sum += __bfloat162float(box[threadIdx.x * 64 + k]) * (rank + 1);
        __syncthreads();
        if (threadIdx.x == 0)
            HERE_ARRIVES
    }
    sums[blockIdx.x * 64 + threadIdx.x] = sum;
    HERE_ENDS
}"""
)
ENDS = {"HERE_WAITS": "await(&empty, (i - 1) & 1);", "HERE_ARRIVES": "arrive_in(0, &empty);"}
ENDS |= {"HERE_ENDS": "meet_cluster();"}
SHARED_MISTAKES = {
    "nobody waits for the other block's readers": ({"HERE_WAITS": ";"}, "race for a stage"),
    "a block arrives at its own mbarrier": ({"HERE_ARRIVES": "arrive_in(rank, &empty);"}, "deadlock"),
    "a block does not arrive": ({"HERE_ARRIVES": "if (rank == 0) arrive_in(0, &empty);"}, "deadlock"),
    "a block exits first": ({"HERE_ENDS": "", "HERE_ARRIVES": "{ if (rank == 1 && i == 1) return; "
                             "arrive_in(1, &empty); arrive_in(0, &empty); }",
                             "HERE_WAITS": "await(&empty, i & 1 ^ 1);"}, "block has exited|deadlock"),
}  # fmt: skip


def share(changes: dict, unchecked: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    source = CLUSTER
    for name, text in (ENDS | changes).items():
        source = source.replace(name, text)
    torch.manual_seed(0)
    a, sums = torch.randn(64, 256).bfloat16(), torch.zeros(128)
    cudasim.kernel(source)[2, 64](sums, 4, TensorMap(a, (64, 64)), unchecked=unchecked)
    return sums, torch.cat([a.float().sum(1), 2 * a.float().sum(1)])


@pytest.mark.parametrize("unchecked", [False, True])
def test_a_cluster_shares_its_boxes(unchecked):
    torch.testing.assert_close(*share({}, unchecked), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("mistake", SHARED_MISTAKES)
def test_a_mistake_between_blocks_of_a_cluster_is_found(mistake):
    changes, kinds = SHARED_MISTAKES[mistake]
    with pytest.raises(cudasim.KernelFault) as caught:
        share(changes)
    assert caught.value.kind in kinds.split("|")


# As the CUDA C++ Programming Guide has it: TMA by cuda::device::experimental, cuda::barrier for its bytes.
BY_OBJECTS = r"""
#include <cuda.h>
#include <cuda/barrier>
namespace cde = cuda::device::experimental;
typedef cuda::barrier<cuda::thread_scope_block> barrier;
__global__ void turns(float *to, const __grid_constant__ CUtensorMap map) {
    __shared__ alignas(128) float box[8][32];
    __shared__ barrier bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        cde::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_global_to_shared(&box, &map, 32 * blockIdx.x, 0, bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof box);
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    for (int i = threadIdx.x; i < 8 * 32; i += blockDim.x)
        to[(32 * blockIdx.x + i % 32) * 8 + i / 32] = box[i / 32][i % 32];
}"""


def test_boxes_by_the_objects_of_the_programming_guide():
    x, to = torch.rand(8, 40), torch.zeros(64, 8)
    cudasim.kernel(BY_OBJECTS)[2, 64](to, TensorMap(x, (8, 32)))
    assert torch.equal(to[:40], x.T) and not to[40:].any()


SIZED = r"""
template <int BLOCKS, typename T> __global__ void __cluster_dims__(2 * BLOCKS) ranks(T *to) {
    unsigned rank, cluster;
    asm volatile("mov.u32 %0, %cluster_ctarank; mov.u32 %1, %clusterid.x;" : "=r"(rank), "=r"(cluster));
    to[blockIdx.x] = 10 * cluster + rank;
}"""


def test_a_template_says_how_large_its_clusters_are():
    to = torch.zeros(8, dtype=torch.int32)
    cudasim.kernel(SIZED)[8, 1](to, template=(2, torch.int32))
    assert to.tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
