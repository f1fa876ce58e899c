/* Hopper's machine as a kernel sees it on the simulator: the functions of ptx/ call these.
 *
 * Addresses of shared memory have 32 bits, as in PTX: a place in the block's own window or, with a rank in
 * the upper bits, in the window of another block of the cluster (window.c). Asynchronous work happens as late
 * as possible: a copy of TMA lands when no thread can go on without it, and wgmma multiplies when its
 * warpgroup waits for it. So a kernel that forgets to wait reads old values here too. */
#pragma once
#ifdef __cplusplus
extern "C" { /* which has the names of ../cuda.h by cpp/cuda.hpp */
#else
#include "../cuda.h"
#endif

/* ---- Shared memory and clusters ---- */

uint32_t sim_shared_address(const struct sim_site *site, const void *pointer);
bool sim_is_shared(const void *pointer); /* in this block's shared memory */
/* The pointer to a place in a window. */
void *sim_shared_pointer(const struct sim_site *site, uint32_t address);
uint32_t sim_mapa(const struct sim_site *site, uint32_t address, uint32_t rank);
/* The same place of the block `rank`, as a pointer, for map_shared_rank(). It works for static shared memory
 * too, if a kernel has its own library. */
void *sim_map_shared_rank(const struct sim_site *site, const void *pointer, unsigned rank);
uint32_t sim_cluster_rank(void);
uint32_t sim_cluster_size(void);
/* The barrier for all threads of the cluster. `ordered`: afterwards all see what they wrote before. */
void sim_cluster_barrier(const struct sim_site *site, bool ordered);
/* Loads four floats of block `rank`, from the place that `shared` has in this block. */
float4 sim_load_from_block(const struct sim_site *site, const float *shared, uint32_t rank);
/* Stores two floats, whose bytes count in an mbarrier of the same block. */
void sim_st_async(const struct sim_site *site, uint32_t to, float a, float b, uint32_t barrier);
/* The same for 4, 8 or 16 bytes. */
void sim_st_async_bytes(const struct sim_site *site, uint32_t to, const void *value, unsigned bytes,
                        uint32_t barrier);

/* The block's sixteen barriers by number, each for a part of its threads. */
void sim_named_barrier(const struct sim_site *site, int number, int threads);
void sim_named_barrier_arrive(const struct sim_site *site, int number, int threads);

/* ---- mbarriers ---- */

void sim_mbarrier_init(const struct sim_site *site, uint32_t barrier, uint32_t arrivals);
void sim_fence_mbarrier_init(void);
/* Arrives, and announces `bytes` before. */
void sim_mbarrier_arrive(const struct sim_site *site, uint32_t barrier, uint32_t bytes);
/* Arrives for the last time: later phases need one arrival less. */
void sim_mbarrier_arrive_and_drop(const struct sim_site *site, uint32_t barrier);
void sim_mbarrier_wait(const struct sim_site *site, uint32_t barrier, uint32_t parity);
/* Announces bytes; returns the parity of the current phase, the state that an arrival returns.
 */
void sim_mbarrier_expect(const struct sim_site *site, uint32_t barrier, uint32_t bytes);
uint32_t sim_mbarrier_parity(const struct sim_site *site, uint32_t barrier);

/* ---- TMA ---- */

/* Copies the box at these coordinates to `to` in this block or, where `blocks` is not 0, to that place in
 * every block of the cluster that has a bit there; each counts the bytes in its own mbarrier at `barrier`. */
void sim_tensor_copy(const struct sim_site *site, uint32_t to, const void *map, int rank,
                     const int *coordinates, uint32_t barrier, uint16_t blocks);
/* Copies contiguous bytes of global memory to `to` in this block. */
void sim_bulk_copy(const struct sim_site *site, uint32_t to, const void *from, uint32_t bytes,
                   uint32_t barrier);

/* The same from this block's shared memory to that of any block of the cluster; the mbarrier is there. */
void sim_bulk_copy_between(const struct sim_site *site, uint32_t to, uint32_t from, uint32_t bytes,
                           uint32_t barrier);
/* The other way: stores the box at `from` in this block's shared memory, or combines it with the tensor;
 * SIM_ATOMIC_EXCHANGE stores. `type`: the elements' type for contiguous bytes. */
void sim_tensor_store(const struct sim_site *site, const void *map, int rank, const int *coordinates,
                      uint32_t from, enum sim_atomic operation);
void sim_bulk_store(const struct sim_site *site, void *to, uint32_t from, uint32_t bytes,
                    enum sim_atomic operation, enum sim_type type);
/* The first closes a group of the calling thread's stores since the last commit. The second waits until at
 * most `groups_in_flight` of its latest groups still run or, with `only_reads`, until all others have read
 * shared memory. */
void sim_bulk_commit(void);
void sim_bulk_wait(const struct sim_site *site, unsigned groups_in_flight, bool only_reads);

/* ---- wgmma ---- */

/* From now on TMA and wgmma may see what this thread has written to shared memory. */
void sim_fence_proxy_async(const struct sim_site *site);
/* sum (+)= x w^T for 64 rows and `columns` columns, in the layout that ptx/wgmma.h describes. */
void sim_wgmma(const struct sim_site *site, float *sum, int columns, enum sim_factors factors, uint64_t x,
               uint64_t w, bool accumulate);
/* Options of a wgmma. x may be in registers, 16 bits or more of two rows in four words of each thread (PTX
 * ISA, "Register Fragments for wgmma.mma_async"). A factor in shared memory may be transposed: its rows are
 * across k. */
struct sim_wgmma {
    int columns;
    enum sim_factors x_factors, w_factors;
    uint64_t x; /* its descriptor, unless it is in registers */
    uint64_t w;
    bool x_in_registers, x_transposed, w_transposed, x_negated, w_negated, accumulate;
    uint32_t value[4];          /* of the registers, and */
    const void *register_at[4]; /* where the kernel has them; NULL: nowhere, they were results */
};
void sim_wgmma_with(const struct sim_site *site, float *sum, const struct sim_wgmma *product);
/* Inline PTX reports sums that are not elements of one array, as they have to be here. */
void sim_wgmma_sums_are_scattered(const struct sim_site *site);
/* The calling thread's accesses to registers come before the products that it asks for next. */
void sim_wgmma_fence(void);
void sim_wgmma_commit(void);
void sim_wgmma_wait(const struct sim_site *site, unsigned groups_in_flight);
/* Gives registers back, or takes some: `count` for each thread. */
void sim_setmaxnreg(const struct sim_site *site, unsigned count);

#ifdef __cplusplus
}
#endif
