/* Clusters of blocks (compute capability 9.0): the blocks of a cluster run at the same time, wait for each
 * other and reach each other's shared memory. The functions are named after the instructions.
 *
 * PTX ISA, sections "barrier.cluster", "mapa" and "st.async". */
#pragma once

#include "sim/portable.h"

#ifdef __CUDACC__

#include "ptx/shared_address.h"

/* Maps a shared memory address of this block to the same place in the cluster's block `rank`. */
static __device__ __forceinline__ uint32_t mapa(uint32_t address, uint32_t rank) {
    uint32_t mapped;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
    return mapped;
}

/* Waits for all threads of all blocks of the cluster, and makes what they wrote visible. */
static __device__ __forceinline__ void barrier_cluster(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;\n"
                 "barrier.cluster.wait.acquire;" ::
                     : "memory");
#endif
}

static __device__ __forceinline__ uint32_t cluster_ctarank(void) {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* Waits for all threads of all blocks of the cluster, all lanes of a warp together. Relaxed: it does not make
 * their writes visible, because the fence for that would wait for all of the GPU. */
static __device__ __forceinline__ void barrier_cluster_relaxed(void) {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n"
                 "barrier.cluster.wait.aligned;" ::
                     : "memory");
}

/* Loads four floats from the same place in the shared memory of the cluster's block `rank`. */
static __device__ __forceinline__ float4 ld_shared_cluster_v4(const float *shared, uint32_t rank) {
    float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#if __CUDA_ARCH__ >= 900
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                 : "r"(mapa(shared_address(shared), rank))
                 : "memory");
#else
    (void)shared, (void)rank;
    __trap();
#endif
    return four;
}

/* Stores two floats in the shared memory of another block; their 8 bytes count in a barrier there. */
static __device__ __forceinline__ void st_async(uint32_t to, float a, float b, uint32_t barrier) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to),
        "f"(a), "f"(b), "r"(barrier)
        : "memory");
}

#else

#include "sim/ptx/cluster.h"

#endif
