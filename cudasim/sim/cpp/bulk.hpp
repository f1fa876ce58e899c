/* TMA as in the CUDA C++ Programming Guide ("Asynchronous Data Copies using the Tensor Memory Accelerator"):
 * functions of cuda::device and cuda::device::experimental, whose mbarrier is a cuda::barrier.
 * ptx_functions.hpp has those of cuda::ptx. */
#pragma once
#include "../hopper/tensor_map.h"
#include "barrier.hpp"

namespace cuda {

/* What barrier_native_handle() returns points at the barrier's mbarrier. */
namespace device {
template <class Barrier> SIM_INLINE uint64_t *barrier_native_handle(Barrier &barrier) {
    return &barrier.word;
}
template <class Barrier>
SIM_INLINE void barrier_expect_tx(Barrier &barrier, ptrdiff_t bytes, SIM_CALLED_FROM) {
    sim_mbarrier_expect(SIM_CALLER, barrier.sim_handle(SIM_CALLER), (uint32_t)bytes);
}
template <class Barrier>
SIM_INLINE typename Barrier::arrival_token barrier_arrive_tx(Barrier &barrier, ptrdiff_t count,
                                                             ptrdiff_t bytes, SIM_CALLED_FROM) {
    return barrier.sim_arrive(SIM_CALLER, count, (uint32_t)bytes);
}
template <class Barrier>
SIM_INLINE void memcpy_async_tx(void *to, const void *from, size_t bytes, Barrier &barrier, SIM_CALLED_FROM) {
    sim_bulk_copy(SIM_CALLER, sim_shared_address(SIM_CALLER, to), from, (uint32_t)bytes,
                  barrier.sim_handle(SIM_CALLER));
}

namespace experimental {
SIM_INLINE void fence_proxy_async_shared_cta(SIM_CALLED_FROM) {
    sim_fence_proxy_async(SIM_CALLER);
}
template <class Barrier>
SIM_INLINE void cp_async_bulk_global_to_shared(void *to, const void *from, uint32_t bytes, Barrier &barrier,
                                               SIM_CALLED_FROM) {
    memcpy_async_tx(to, from, bytes, barrier, sim_file, sim_line);
}
SIM_INLINE void cp_async_bulk_shared_to_global(void *to, const void *from, uint32_t bytes, SIM_CALLED_FROM) {
    sim_bulk_store(SIM_CALLER, to, sim_shared_address(SIM_CALLER, from), bytes, SIM_ATOMIC_EXCHANGE,
                   SIM_UINT32);
}
SIM_INLINE void cp_async_bulk_commit_group() {
    sim_bulk_commit();
}
template <int groups> SIM_INLINE void cp_async_bulk_wait_group(SIM_CALLED_FROM) {
    sim_bulk_wait(SIM_CALLER, groups, false);
}
template <int groups> SIM_INLINE void cp_async_bulk_wait_group_read(SIM_CALLED_FROM) {
    sim_bulk_wait(SIM_CALLER, groups, true);
}

template <int rank, class Barrier>
SIM_INLINE void sim_load_box(void *to, const CUtensorMap *map, const int (&at)[rank], Barrier &barrier,
                             const sim_site *site) {
    sim_tensor_copy(site, sim_shared_address(site, to), map, rank, at, barrier.sim_handle(site), 0);
}
template <int rank>
SIM_INLINE void sim_store_box(const CUtensorMap *map, const int (&at)[rank], const void *from,
                              const sim_site *site) {
    sim_tensor_store(site, map, rank, at, sim_shared_address(site, from), SIM_ATOMIC_EXCHANGE);
}
template <class Barrier>
SIM_INLINE void cp_async_bulk_tensor_1d_global_to_shared(void *to, const CUtensorMap *map, int x,
                                                         Barrier &barrier, SIM_CALLED_FROM) {
    sim_load_box<1>(to, map, {x}, barrier, SIM_CALLER);
}
template <class Barrier>
SIM_INLINE void cp_async_bulk_tensor_2d_global_to_shared(void *to, const CUtensorMap *map, int x, int y,
                                                         Barrier &barrier, SIM_CALLED_FROM) {
    sim_load_box<2>(to, map, {x, y}, barrier, SIM_CALLER);
}
template <class Barrier>
SIM_INLINE void cp_async_bulk_tensor_3d_global_to_shared(void *to, const CUtensorMap *map, int x, int y,
                                                         int z, Barrier &barrier, SIM_CALLED_FROM) {
    sim_load_box<3>(to, map, {x, y, z}, barrier, SIM_CALLER);
}
template <class Barrier>
SIM_INLINE void cp_async_bulk_tensor_4d_global_to_shared(void *to, const CUtensorMap *map, int x, int y,
                                                         int z, int u, Barrier &barrier, SIM_CALLED_FROM) {
    sim_load_box<4>(to, map, {x, y, z, u}, barrier, SIM_CALLER);
}
template <class Barrier>
SIM_INLINE void cp_async_bulk_tensor_5d_global_to_shared(void *to, const CUtensorMap *map, int x, int y,
                                                         int z, int u, int v, Barrier &barrier,
                                                         SIM_CALLED_FROM) {
    sim_load_box<5>(to, map, {x, y, z, u, v}, barrier, SIM_CALLER);
}
SIM_INLINE void cp_async_bulk_tensor_1d_shared_to_global(const CUtensorMap *map, int x, const void *from,
                                                         SIM_CALLED_FROM) {
    sim_store_box<1>(map, {x}, from, SIM_CALLER);
}
SIM_INLINE void cp_async_bulk_tensor_2d_shared_to_global(const CUtensorMap *map, int x, int y,
                                                         const void *from, SIM_CALLED_FROM) {
    sim_store_box<2>(map, {x, y}, from, SIM_CALLER);
}
SIM_INLINE void cp_async_bulk_tensor_3d_shared_to_global(const CUtensorMap *map, int x, int y, int z,
                                                         const void *from, SIM_CALLED_FROM) {
    sim_store_box<3>(map, {x, y, z}, from, SIM_CALLER);
}
SIM_INLINE void cp_async_bulk_tensor_4d_shared_to_global(const CUtensorMap *map, int x, int y, int z, int u,
                                                         const void *from, SIM_CALLED_FROM) {
    sim_store_box<4>(map, {x, y, z, u}, from, SIM_CALLER);
}
SIM_INLINE void cp_async_bulk_tensor_5d_shared_to_global(const CUtensorMap *map, int x, int y, int z, int u,
                                                         int v, const void *from, SIM_CALLED_FROM) {
    sim_store_box<5>(map, {x, y, z, u, v}, from, SIM_CALLER);
}
} // namespace experimental
} // namespace device

} /* namespace cuda */
