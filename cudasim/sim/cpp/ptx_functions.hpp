/* cuda::ptx: PTX's instructions for TMA, mbarriers and clusters as functions. An mbarrier is a uint64_t in
 * shared memory. */
#pragma once
#include "bulk.hpp"

namespace cuda {
namespace ptx {

/* ---- Tags that choose an instruction ---- */

template <int number> using n32_t = std::integral_constant<int, number>;

struct space_global_t {};
struct space_shared_t {};
struct space_cluster_t {};
struct sem_acquire_t {};
struct sem_release_t {};
struct sem_relaxed_t {};
struct scope_cta_t {};
struct scope_cluster_t {};
struct scope_gpu_t {};
struct scope_sys_t {};
[[maybe_unused]] static constexpr space_global_t space_global;
[[maybe_unused]] static constexpr space_shared_t space_shared;
[[maybe_unused]] static constexpr space_cluster_t space_cluster;
[[maybe_unused]] static constexpr sem_acquire_t sem_acquire;
[[maybe_unused]] static constexpr sem_release_t sem_release;
[[maybe_unused]] static constexpr sem_relaxed_t sem_relaxed;
[[maybe_unused]] static constexpr scope_cta_t scope_cta;
[[maybe_unused]] static constexpr scope_cluster_t scope_cluster;
[[maybe_unused]] static constexpr scope_gpu_t scope_gpu;
[[maybe_unused]] static constexpr scope_sys_t scope_sys;

template <enum sim_atomic operation> using sim_op = std::integral_constant<enum sim_atomic, operation>;
[[maybe_unused]] static constexpr sim_op<SIM_ATOMIC_ADD> op_add;
[[maybe_unused]] static constexpr sim_op<SIM_ATOMIC_MIN> op_min;
[[maybe_unused]] static constexpr sim_op<SIM_ATOMIC_MAX> op_max;
[[maybe_unused]] static constexpr sim_op<SIM_ATOMIC_AND> op_and_op;
[[maybe_unused]] static constexpr sim_op<SIM_ATOMIC_OR> op_or_op;
[[maybe_unused]] static constexpr sim_op<SIM_ATOMIC_XOR> op_xor_op;
[[maybe_unused]] static constexpr sim_op<SIM_ATOMIC_INCREMENT> op_inc;
[[maybe_unused]] static constexpr sim_op<SIM_ATOMIC_DECREMENT> op_dec;

template <class T> struct sim_element_type;
template <sim_type type> using sim_element_is = std::integral_constant<sim_type, type>;
template <> struct sim_element_type<uint32_t> : sim_element_is<SIM_UINT32> {};
template <> struct sim_element_type<int32_t> : sim_element_is<SIM_INT32> {};
template <> struct sim_element_type<uint64_t> : sim_element_is<SIM_UINT64> {};
template <> struct sim_element_type<int64_t> : sim_element_is<SIM_INT64> {};
template <> struct sim_element_type<float> : sim_element_is<SIM_FLOAT> {};
template <> struct sim_element_type<double> : sim_element_is<SIM_DOUBLE> {};
template <> struct sim_element_type<__half> : sim_element_is<SIM_FLOAT16> {};
template <> struct sim_element_type<__nv_bfloat16> : sim_element_is<SIM_BFLOAT16> {};

/* ---- Fences ---- */

SIM_INLINE void fence_proxy_async(SIM_CALLED_FROM) {
    sim_fence_proxy_async(SIM_CALLER);
}
SIM_INLINE void fence_proxy_async(space_global_t) {}
template <class Space> SIM_INLINE void fence_proxy_async(Space, SIM_CALLED_FROM) {
    sim_fence_proxy_async(SIM_CALLER);
}
SIM_INLINE void fence_mbarrier_init(sem_release_t, scope_cluster_t) {
    sim_fence_mbarrier_init();
}

/* ---- Copies ---- */

template <class Space>
SIM_INLINE void cp_async_bulk(Space, space_global_t, void *to, const void *from, uint32_t bytes,
                              uint64_t *barrier, SIM_CALLED_FROM) {
    sim_bulk_copy(SIM_CALLER, sim_shared_address(SIM_CALLER, to), from, bytes,
                  sim_shared_address(SIM_CALLER, barrier));
}
SIM_INLINE void cp_async_bulk(space_global_t, space_shared_t, void *to, const void *from, uint32_t bytes,
                              SIM_CALLED_FROM) {
    device::experimental::cp_async_bulk_shared_to_global(to, from, bytes, sim_file, sim_line);
}
template <class Space, int rank>
SIM_INLINE void cp_async_bulk_tensor(Space, space_global_t, void *to, const void *map, const int (&at)[rank],
                                     uint64_t *barrier, SIM_CALLED_FROM) {
    sim_tensor_copy(SIM_CALLER, sim_shared_address(SIM_CALLER, to), map, rank, at,
                    sim_shared_address(SIM_CALLER, barrier), 0);
}
template <int rank>
SIM_INLINE void cp_async_bulk_tensor(space_cluster_t, space_global_t, void *to, const void *map,
                                     const int (&at)[rank], uint64_t *barrier, const uint16_t &blocks,
                                     SIM_CALLED_FROM) {
    sim_tensor_copy(SIM_CALLER, sim_shared_address(SIM_CALLER, to), map, rank, at,
                    sim_shared_address(SIM_CALLER, barrier), blocks);
}
template <int rank>
SIM_INLINE void cp_async_bulk_tensor(space_global_t, space_shared_t, const void *map, const int (&at)[rank],
                                     const void *from, SIM_CALLED_FROM) {
    sim_tensor_store(SIM_CALLER, map, rank, at, sim_shared_address(SIM_CALLER, from), SIM_ATOMIC_EXCHANGE);
}
template <class T, enum sim_atomic operation>
SIM_INLINE void cp_reduce_async_bulk(space_global_t, space_shared_t, sim_op<operation>, T *to, const T *from,
                                     uint32_t bytes, SIM_CALLED_FROM) {
    sim_bulk_store(SIM_CALLER, to, sim_shared_address(SIM_CALLER, from), bytes, operation,
                   sim_element_type<T>::value);
}
template <int rank, enum sim_atomic operation>
SIM_INLINE void cp_reduce_async_bulk_tensor(space_global_t, space_shared_t, sim_op<operation>,
                                            const void *map, const int (&at)[rank], const void *from,
                                            SIM_CALLED_FROM) {
    sim_tensor_store(SIM_CALLER, map, rank, at, sim_shared_address(SIM_CALLER, from), operation);
}
SIM_INLINE void cp_async_bulk_commit_group() {
    sim_bulk_commit();
}
template <int groups> SIM_INLINE void cp_async_bulk_wait_group(n32_t<groups>, SIM_CALLED_FROM) {
    sim_bulk_wait(SIM_CALLER, groups, false);
}
template <int groups> SIM_INLINE void cp_async_bulk_wait_group_read(n32_t<groups>, SIM_CALLED_FROM) {
    sim_bulk_wait(SIM_CALLER, groups, true);
}

/* ---- mbarriers ---- */

SIM_INLINE void mbarrier_init(uint64_t *barrier, uint32_t count, SIM_CALLED_FROM) {
    sim_mbarrier_init(SIM_CALLER, sim_shared_address(SIM_CALLER, barrier), count);
}
SIM_INLINE void mbarrier_inval(uint64_t *) {}
SIM_INLINE uint64_t sim_arrive(uint64_t *barrier, uint32_t count, uint32_t bytes, const sim_site *site) {
    uint32_t address = sim_shared_address(site, barrier);
    uint64_t state = sim_mbarrier_parity(site, address);
    for (; count > 0; count--, bytes = 0)
        sim_mbarrier_arrive(site, address, bytes);
    return state;
}
SIM_INLINE uint64_t mbarrier_arrive(uint64_t *barrier, SIM_CALLED_FROM) {
    return sim_arrive(barrier, 1, 0, SIM_CALLER);
}
SIM_INLINE uint64_t mbarrier_arrive(uint64_t *barrier, const uint32_t &count, SIM_CALLED_FROM) {
    return sim_arrive(barrier, count, 0, SIM_CALLER);
}
template <class Semantics, class Scope>
SIM_INLINE uint64_t mbarrier_arrive(Semantics, Scope, space_shared_t, uint64_t *barrier, SIM_CALLED_FROM) {
    return sim_arrive(barrier, 1, 0, SIM_CALLER);
}
template <class Semantics, class Scope>
SIM_INLINE uint64_t mbarrier_arrive_expect_tx(Semantics, Scope, space_shared_t, uint64_t *barrier,
                                              const uint32_t &bytes, SIM_CALLED_FROM) {
    return sim_arrive(barrier, 1, bytes, SIM_CALLER);
}
template <class Semantics, class Scope, class Space>
SIM_INLINE void mbarrier_expect_tx(Semantics, Scope, Space, uint64_t *barrier, const uint32_t &bytes,
                                   SIM_CALLED_FROM) {
    sim_mbarrier_expect(SIM_CALLER, sim_shared_address(SIM_CALLER, barrier), bytes);
}
/* A wait that may fail never fails here. */
SIM_INLINE bool mbarrier_try_wait(uint64_t *barrier, const uint64_t &state, SIM_CALLED_FROM) {
    sim_mbarrier_wait(SIM_CALLER, sim_shared_address(SIM_CALLER, barrier), (uint32_t)state);
    return true;
}
SIM_INLINE bool mbarrier_try_wait_parity(uint64_t *barrier, const uint32_t &parity, SIM_CALLED_FROM) {
    sim_mbarrier_wait(SIM_CALLER, sim_shared_address(SIM_CALLER, barrier), parity);
    return true;
}
SIM_INLINE bool mbarrier_test_wait(uint64_t *barrier, const uint64_t &state, SIM_CALLED_FROM) {
    return mbarrier_try_wait(barrier, state, sim_file, sim_line);
}
SIM_INLINE bool mbarrier_test_wait_parity(uint64_t *barrier, const uint32_t &parity, SIM_CALLED_FROM) {
    return mbarrier_try_wait_parity(barrier, parity, sim_file, sim_line);
}

/* ---- Clusters, warps ---- */

/* The barrier is at its wait. */
template <class... How> SIM_INLINE void barrier_cluster_arrive(How...) {}
SIM_INLINE void barrier_cluster_wait(SIM_CALLED_FROM) {
    sim_cluster_barrier(SIM_CALLER, true);
}
SIM_INLINE void barrier_cluster_wait(sem_acquire_t, SIM_CALLED_FROM) {
    sim_cluster_barrier(SIM_CALLER, true);
}
SIM_INLINE uint32_t get_sreg_cluster_ctarank() {
    return sim_cluster_rank();
}
SIM_INLINE uint32_t get_sreg_cluster_nctarank() {
    return sim_cluster_size();
}
SIM_INLINE uint32_t get_sreg_laneid() {
    return sim_ptx_lane();
}
SIM_INLINE bool elect_sync(const uint32_t &mask) {
    return sim_ptx_lane() == (unsigned)__ffs((int)mask) - 1;
}

} // namespace ptx
} // namespace cuda
