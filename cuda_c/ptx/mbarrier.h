/* mbarrier: a barrier in shared memory that counts arrivals of threads and bytes of copies (compute
 * capability 9.0), as functions named after the instructions.
 *
 * A phase of an mbarrier ends when the number of threads given to mbarrier_init() has arrived and all
 * announced bytes have been written. Phases differ by their parity: 0, 1, 0, 1, ... A thread names the parity
 * of the phase whose end it waits for. PTX ISA, section "mbarrier". */
#pragma once

#include "ptx/cluster.h"

#ifdef __CUDACC__

static __device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* Makes the initialised barriers known to the cluster and to TMA; a barrier of the block or of the
 * cluster follows. */
static __device__ __forceinline__ void fence_mbarrier_init(void) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Arrives, and announces bytes that this phase has to wait for. */
static __device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives at the same barrier of the cluster's block `rank`, which may be this one. The arrival tells that
 * this thread has finished reading. Releasing its writes to the cluster too (.release.cluster) needs a fence
 * that waits for all of the GPU, half as long as a step of the main loop. */
static __device__ __forceinline__ void mbarrier_arrive_cluster(uint32_t barrier, uint32_t rank) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(mapa(barrier, rank)) : "memory");
}

/* Waits for the end of the phase of this parity: 0 for the first, 1 for the second, 0 for the third ... */
static __device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity) {
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again; }" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

#else

#include "sim/ptx/mbarrier.h"

#endif
