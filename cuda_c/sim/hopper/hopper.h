/* Hopper's machine as a kernel sees it on the simulator: what the functions of ptx/ are there.
 *
 * Shared memory is named by 32-bit addresses, as in PTX: a place in the block's own window, or with a block's
 * rank in the upper bits a place in the window of another block of the cluster (window.c). What runs beside
 * the threads runs as late as it may: a copy of TMA lands when no thread can go on without it, and wgmma
 * multiplies when its warpgroup waits for it. So a kernel that forgets to wait reads old values here too. */
#pragma once
#ifdef __cplusplus
extern "C" { /* which has the names of ../cuda.h by cpp/cuda.hpp */
#else
#include "../cuda.h"
#endif

/* ---- Shared memory and clusters ---- */

uint32_t sim_shared_address(const struct sim_site *site, const void *pointer);
/* The pointer to a place in a window. */
void *sim_shared_pointer(const struct sim_site *site, uint32_t address);
uint32_t sim_mapa(const struct sim_site *site, uint32_t address, uint32_t rank);
/* The same place of the block `rank`, as a pointer: what map_shared_rank() is. Static shared memory too,
 * where a kernel is in a library of its own. */
void *sim_map_shared_rank(const struct sim_site *site, const void *pointer, unsigned rank);
uint32_t sim_cluster_rank(void);
uint32_t sim_cluster_size(void);
/* All threads of all blocks of the cluster. `ordered`: what they wrote before, all see afterwards. */
void sim_cluster_barrier(const struct sim_site *site, bool ordered);
/* Four floats of the block `rank`, from the same place as `shared` has in this one. */
float4 sim_load_from_block(const struct sim_site *site, const float *shared, uint32_t rank);
/* Two floats, whose bytes count in an mbarrier of the same block. */
void sim_st_async(const struct sim_site *site, uint32_t to, float a, float b, uint32_t barrier);

/* The block's sixteen barriers by number, each for a part of its threads. */
void sim_named_barrier(const struct sim_site *site, int number, int threads);
void sim_named_barrier_arrive(const struct sim_site *site, int number, int threads);

/* ---- mbarriers ---- */

void sim_mbarrier_init(const struct sim_site *site, uint32_t barrier, uint32_t arrivals);
void sim_fence_mbarrier_init(void);
/* Arrives, and announces `bytes` before. */
void sim_mbarrier_arrive(const struct sim_site *site, uint32_t barrier, uint32_t bytes);
void sim_mbarrier_wait(const struct sim_site *site, uint32_t barrier, uint32_t parity);

/* ---- TMA ---- */

/* Copies the box at these coordinates to `to` in this block or, where `blocks` is not 0, to that place in
 * every block of the cluster that has a bit there; each counts the bytes in its own mbarrier at `barrier`. */
void sim_tensor_copy(const struct sim_site *site, uint32_t to, const void *map, int rank,
                     const int *coordinates, uint32_t barrier, uint16_t blocks);
/* Copies bytes that follow each other in global memory to `to` in this block. */
void sim_bulk_copy(const struct sim_site *site, uint32_t to, const void *from, uint32_t bytes,
                   uint32_t barrier);

/* ---- wgmma ---- */

/* What this thread has written to shared memory, TMA and wgmma may see from now on. */
void sim_fence_proxy_async(const struct sim_site *site);
/* sum (+)= x w^T for 64 rows and `columns` columns, in the layout that ptx/wgmma.h describes. */
void sim_wgmma(const struct sim_site *site, float *sum, int columns, enum sim_factors factors, uint64_t x,
               uint64_t w, bool accumulate);
/* Inline PTX reports what it has and sim_wgmma() has not. */
void sim_wgmma_is_plain(const struct sim_site *site, bool sums_are_array, bool factors_are_plain);
void sim_wgmma_commit(void);
void sim_wgmma_wait(const struct sim_site *site, unsigned groups_in_flight);
/* Gives registers back, or takes some: `count` for each thread. */
void sim_setmaxnreg(const struct sim_site *site, unsigned count);

#ifdef __cplusplus
}
#endif
