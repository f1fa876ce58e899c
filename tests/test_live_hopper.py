"""Hopper's instructions as pasted kernels write them: inline PTX for TMA, mbarriers, clusters and wgmma, with
tensor maps from Python."""

import pytest
import torch

import fgn
from fgn.live import TensorMap

STRINGS = r"""
#include <cuda.h>
#include <cuda_bf16.h>
typedef __nv_bfloat16 bf16;
__device__ static inline uint64_t matrix_descriptor_encode(uint64_t x) { return (x & 0x3FFFF) >> 0x4; }
__device__ uint64_t make_smem_desc(bf16 *ptr) {
    uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(ptr));
    uint64_t desc = 0x0000000000000000;
    desc |= matrix_descriptor_encode(addr);
    desc |= matrix_descriptor_encode((uint64_t)16) << 16;
    desc |= matrix_descriptor_encode((uint64_t)1024) << 32;
    desc |= 1llu << 62;
    return desc;
}
__device__ void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ void warpgroup_commit_batch() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int N> __device__ void warpgroup_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}
template <int ScaleD, int ScaleA, int ScaleB, int TransA, int TransB>
__device__ void wgmma16(float d[8], bf16 *a, bf16 *b) {
    uint64_t desc_a = make_smem_desc(a), desc_b = make_smem_desc(b);
    asm volatile("{\n"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, %10, %11, %12, %13, %14;\n"
                 "}\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                 : "l"(desc_a), "l"(desc_b), "n"(int32_t(ScaleD)), "n"(int32_t(ScaleA)), "n"(int32_t(ScaleB)),
                   "n"(int32_t(TransA)), "n"(int32_t(TransB)));
}
__device__ __forceinline__ void init_barrier(uint64_t *bar, int count) {
    uint32_t bar_ptr = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(bar_ptr), "r"(count));
}
__device__ __forceinline__ void expect_bytes(uint64_t *bar, uint32_t bytes) {
    uint32_t bar_ptr = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;\n" ::"r"(bar_ptr), "r"(bytes));
}
__device__ __forceinline__ void wait(uint64_t *bar, int phase) {
    uint32_t mbar_ptr = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    asm volatile("{\n"
                 ".reg .pred                P1;\n"
                 "LAB_WAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
                 "@P1                       bra.uni DONE;\n"
                 "bra.uni                   LAB_WAIT;\n"
                 "DONE:\n"
                 "}\n" ::"r"(mbar_ptr), "r"(phase));
}
__device__ __forceinline__ void arrive_cluster(uint64_t *bar, uint32_t cta_id, uint32_t count = 1) {
    uint32_t smem_addr = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    asm volatile("{\n\t"
                 ".reg .b32 remAddr32;\n\t"
                 "mapa.shared::cluster.u32  remAddr32, %0, %1;\n\t"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64  _, [remAddr32], %2;\n\t"
                 "}" ::"r"(smem_addr), "r"(cta_id), "r"(count));
}
__device__ static inline void load_async(bf16 *dst, void const *src_tma_map, uint64_t *bar, int column, int row) {
    uint64_t tma_ptr = reinterpret_cast<uint64_t>(src_tma_map);
    uint32_t mbar_ptr = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    uint32_t dst_ptr = static_cast<uint32_t>(__cvta_generic_to_shared(dst));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4}], [%2];" ::"r"(dst_ptr), "l"(tma_ptr), "r"(mbar_ptr), "r"(column), "r"(row)
                 : "memory");
}
__device__ static inline void load_async_multicast(bf16 *dst, void const *src_tma_map, uint64_t *bar, int column,
                                                   int row, uint16_t mask) {
    uint64_t tma_ptr = reinterpret_cast<uint64_t>(src_tma_map);
    uint32_t mbar_ptr = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    uint32_t dst_ptr = static_cast<uint32_t>(__cvta_generic_to_shared(dst));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(dst_ptr), "l"(tma_ptr), "r"(mbar_ptr),
                 "r"(column), "r"(row), "h"(mask)
                 : "memory");
}
__device__ static bool elect_one_sync() {
    uint32_t pred = 0, laneid = 0;
    asm volatile("{\n.reg .b32 %%rx;\n.reg .pred %%px;\n     elect.sync %%rx|%%px, %2;\n@%%px mov.s32 %1, 1;\n"
                 "     mov.s32 %0, %%rx;\n}\n" : "+r"(laneid), "+r"(pred) : "r"(0xFFFFFFFF));
    return pred;
}
__device__ static void barrier_cluster_all() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}
struct stage { alignas(1024) bf16 a[64 * 64], b[16 * 64]; };
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
            init_barrier(&full[s], 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    float d[8] = {0};
    for (int tile = 0; tile < k / 64; tile++) {
        int s = tile % 2, phase = tile / 2 % 2;
        if (threadIdx.x / 32 == 0 && elect_one_sync()) {
            expect_bytes(&full[s], HERE_BYTES);
            load_async(stages[s].a, &of_a, &full[s], tile * 64, 0);
            load_async(stages[s].b, &of_b, &full[s], tile * 64, blockIdx.x * 16);
        }
        wait(&full[s], HERE_PARITY);
        warpgroup_arrive();
        for (int i = 0; i < 4; i++)
            wgmma16<1, 1, 1, 0, HERE_TRANSPOSED>(d, &stages[s].a[i * 16], &stages[s].b[i * 16]);
        warpgroup_commit_batch();
        for (int i = 0; i < 8; i++)
            asm volatile("" : "+f"(d[i]) :: "memory"); // as CUTLASS has it
        HERE_WAIT
        __syncthreads();
    }
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, column = blockIdx.x * 16 + lane % 4 * 2;
    for (int i = 0; i < 8; i++)
        c[(row + i / 2 % 2 * 8) * 32 + column + i / 4 * 8 + i % 2] = d[i];
}"""
)
PLANTED = {
    "right": {},
    "bytes that never come": {"HERE_BYTES": "sizeof(stage) + 16"},
    "a wrong parity": {"HERE_PARITY": "phase ^ 1"},
    "sums that are not waited for": {"HERE_WAIT": ""},
    "a transposed factor": {"HERE_TRANSPOSED": "1"},
}
RIGHT = {"HERE_BYTES": "sizeof(stage)", "HERE_PARITY": "phase", "HERE_WAIT": "warpgroup_wait<0>();", "HERE_TRANSPOSED": "0"}


def product(changes: dict, swizzle: int = 128, unchecked: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    source = PRODUCT
    for name, text in (RIGHT | changes).items():
        source = source.replace(name, text)
    torch.manual_seed(0)
    a, b, c = torch.randn(64, 192).bfloat16(), torch.randn(32, 192).bfloat16(), torch.zeros(64, 32)
    maps = TensorMap(a, (64, 64), 128), TensorMap(b, (16, 64), swizzle)
    fgn.kernel(source)[2, 128, 2 * 10240 + 1024](c, 192, *maps, unchecked=unchecked)
    return c, a.float() @ b.float().T


@pytest.mark.parametrize("unchecked", [False, True])
def test_a_product_by_tma_and_wgmma(unchecked):
    torch.testing.assert_close(*product({}, unchecked=unchecked), rtol=1e-5, atol=1e-4)


FOUND = {
    "bytes that never come": ("deadlock", "bytes"),
    "a wrong parity": ("race for a stage", "parity"),
    "sums that are not waited for": ("sums not waited for", "wgmma"),
    "a transposed factor": ("wrong layout", "transposed factor"),
}


@pytest.mark.parametrize("planted", FOUND)
def test_a_planted_mistake_is_found(planted):
    kind, words = FOUND[planted]
    with pytest.raises(fgn.KernelFault, match=words) as caught:
        product(PLANTED[planted])
    assert caught.value.kind == kind


# Two blocks share what they read: block 0 has every box of `a` copied to both, and waits until a thread of each
# has arrived at its mbarrier, the other block's from afar.
CLUSTER = (
    STRINGS
    + r"""
__global__ void __cluster_dims__(2, 1, 1) shares(float *sums, int boxes, const __grid_constant__ CUtensorMap of_a) {
    __shared__ alignas(1024) bf16 box[64 * 64];
    __shared__ __align__(8) uint64_t full, empty;
    uint32_t rank;
    asm volatile("mov.u32 %0, %cluster_ctarank;\n" : "=r"(rank) :);
    if (threadIdx.x == 0) {
        init_barrier(&full, 1);
        init_barrier(&empty, 2);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    barrier_cluster_all();
    float sum = 0.0f;
    for (int i = 0; i < boxes; i++) {
        if (threadIdx.x == 0) {
            expect_bytes(&full, sizeof box);
            if (rank == 0) {
                if (i > 0)
                    HERE_WAITS
                load_async_multicast(box, &of_a, &full, i * 64, 0, 3);
            }
        }
        wait(&full, i & 1);
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
ENDS = {"HERE_WAITS": "wait(&empty, (i - 1) & 1);", "HERE_ARRIVES": "arrive_cluster(&empty, 0);"}
ENDS |= {"HERE_ENDS": "barrier_cluster_all();"}
SHARED_MISTAKES = {
    "nobody waits for the other block's readers": ({"HERE_WAITS": ";"}, "race for a stage"),
    "a block arrives at its own mbarrier": ({"HERE_ARRIVES": "arrive_cluster(&empty, rank);"}, "deadlock"),
    "a block does not arrive": ({"HERE_ARRIVES": "if (rank == 0) arrive_cluster(&empty, 0);"}, "deadlock"),
    "a block exits first": ({"HERE_ENDS": "", "HERE_ARRIVES": "{ if (rank == 1 && i == 1) return; "
                             "arrive_cluster(&empty, 1); arrive_cluster(&empty, 0); }",
                             "HERE_WAITS": "wait(&empty, i & 1 ^ 1);"}, "block has exited|deadlock"),
}  # fmt: skip


def share(changes: dict, unchecked: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    source = CLUSTER
    for name, text in (ENDS | changes).items():
        source = source.replace(name, text)
    torch.manual_seed(0)
    a, sums = torch.randn(64, 256).bfloat16(), torch.zeros(128)
    fgn.kernel(source)[2, 64](sums, 4, TensorMap(a, (64, 64)), unchecked=unchecked)
    return sums, torch.cat([a.float().sum(1), 2 * a.float().sum(1)])


@pytest.mark.parametrize("unchecked", [False, True])
def test_a_cluster_shares_its_boxes(unchecked):
    torch.testing.assert_close(*share({}, unchecked), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("mistake", SHARED_MISTAKES)
def test_a_mistake_between_blocks_of_a_cluster_is_found(mistake):
    changes, kinds = SHARED_MISTAKES[mistake]
    with pytest.raises(fgn.KernelFault) as caught:
        share(changes)
    assert caught.value.kind in kinds.split("|")
