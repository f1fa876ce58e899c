/* Cooperative groups: the block, tiles of a warp, coalesced lanes, the grid and the cluster.
 */
#pragma once
#include "atomics.hpp"
#include "intrinsics.hpp"
#include "warp.hpp"

namespace cooperative_groups {

SIM_INLINE unsigned sim_rank_in_block() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
SIM_INLINE unsigned sim_threads_of_block() {
    return blockDim.x * blockDim.y * blockDim.z;
}

/* ---- The block ---- */

struct thread_block {
    static void sync(SIM_CALLED_FROM) {
        sim_barrier(SIM_CALLER, 0);
    }
    static void barrier_wait(SIM_CALLED_FROM) {
        sim_barrier(SIM_CALLER, 0);
    }
    static void barrier_arrive() {}
    static unsigned thread_rank() {
        return sim_rank_in_block();
    }
    static unsigned num_threads() {
        return sim_threads_of_block();
    }
    static unsigned size() {
        return sim_threads_of_block();
    }
    static dim3 group_index() {
        return dim3(blockIdx);
    }
    static dim3 thread_index() {
        return dim3(threadIdx);
    }
    static dim3 group_dim() {
        return blockDim;
    }
    static dim3 dim_threads() {
        return blockDim;
    }
};
SIM_INLINE thread_block this_thread_block() {
    return {};
}

/* ---- Lanes of a warp: the members are the set bits of a mask, in order ---- */

struct sim_lanes {
    unsigned mask, lane;
    unsigned thread_rank() const {
        return (unsigned)__popc(mask & ((1u << lane) - 1));
    }
    unsigned num_threads() const {
        return (unsigned)__popc(mask);
    }
    unsigned size() const {
        return num_threads();
    }
    /* A member's lane in the warp. */
    int lane_of(unsigned rank) const {
        return __fns(mask, 0, (int)rank + 1);
    }
    void sync(SIM_CALLED_FROM) const {
        sim_warp_barrier(SIM_CALLER, mask);
    }
    template <class T> T shfl(T value, unsigned rank, SIM_CALLED_FROM) const {
        return sim_shuffled(SIM_CALLER, mask, value, SIM_SHUFFLE_INDEX, lane_of(rank % num_threads()), 32);
    }
    template <class T> T shfl_up(T value, unsigned delta, SIM_CALLED_FROM) const {
        unsigned rank = thread_rank();
        return shfl(value, rank < delta ? rank : rank - delta, sim_file, sim_line);
    }
    template <class T> T shfl_down(T value, unsigned delta, SIM_CALLED_FROM) const {
        unsigned rank = thread_rank();
        return shfl(value, rank + delta < num_threads() ? rank + delta : rank, sim_file, sim_line);
    }
    template <class T> T shfl_xor(T value, unsigned bits, SIM_CALLED_FROM) const {
        return shfl(value, thread_rank() ^ bits, sim_file, sim_line);
    }
    unsigned members_of(unsigned lanes) const {
        unsigned members = 0;
        for (unsigned rank = 0; rank < num_threads(); rank++)
            members |= (lanes >> lane_of(rank) & 1u) << rank;
        return members;
    }
    unsigned ballot(int predicate, SIM_CALLED_FROM) const {
        return members_of(sim_ballot(SIM_CALLER, mask, predicate != 0));
    }
    int any(int predicate, SIM_CALLED_FROM) const {
        return sim_ballot(SIM_CALLER, mask, predicate != 0) != 0;
    }
    int all(int predicate, SIM_CALLED_FROM) const {
        return sim_ballot(SIM_CALLER, mask, predicate == 0) == 0;
    }
    template <class T> unsigned match_any(T value, SIM_CALLED_FROM) const {
        return members_of(__match_any_sync(mask, value, sim_file, sim_line));
    }
    template <class T> unsigned match_all(T value, int &same, SIM_CALLED_FROM) const {
        return members_of(__match_all_sync(mask, value, &same, sim_file, sim_line));
    }
};

SIM_INLINE unsigned sim_lane() {
    return sim_rank_in_block() % 32;
}
/* The lanes of the caller's tile, among those that the warp has. */
SIM_INLINE unsigned sim_tile_mask(unsigned size) {
    unsigned first = sim_lane() / size * size, left = sim_threads_of_block() - sim_rank_in_block() / 32 * 32;
    unsigned tile = size >= 32 ? ~0u : ((1u << size) - 1) << first;
    return left >= 32 ? tile : tile & ((1u << left) - 1);
}

/* A tile of several warps meets at a named barrier; a block has 15 beside that of __syncthreads(). */
template <unsigned Size> struct sim_warps {
    sim_warps() {}
    void sync(SIM_CALLED_FROM) const {
        sim_named_barrier(SIM_CALLER, 1 + (int)(sim_rank_in_block() / Size), Size);
    }
};
template <unsigned Size> struct sim_lanes_of_tile : sim_lanes {
    sim_lanes_of_tile() : sim_lanes{sim_tile_mask(Size), sim_lane()} {}
};

template <unsigned Size, class Parent = void>
struct thread_block_tile : std::conditional_t<Size <= 32, sim_lanes_of_tile<Size>, sim_warps<Size>> {
    thread_block_tile() {}
    template <class Other> thread_block_tile(const thread_block_tile<Size, Other> &) : thread_block_tile() {}
    static constexpr unsigned num_threads() {
        return Size;
    }
    static constexpr unsigned size() {
        return Size;
    }
    unsigned thread_rank() const {
        return sim_rank_in_block() % Size;
    }
    unsigned meta_group_rank() const {
        return sim_rank_in_block() / Size;
    }
    unsigned meta_group_size() const {
        return (sim_threads_of_block() + Size - 1) / Size;
    }
};
struct coalesced_group : sim_lanes {
    unsigned meta_group_rank() const {
        return 0;
    }
    unsigned meta_group_size() const {
        return 1;
    }
};
template <unsigned Size, class Parent>
SIM_INLINE thread_block_tile<Size, Parent> tiled_partition(const Parent &) {
    return {};
}
#define coalesced_threads() sim_coalesced_threads(__activemask())
SIM_INLINE coalesced_group sim_coalesced_threads(unsigned mask) {
    return {{mask, sim_lane()}};
}
template <class Parent> SIM_INLINE coalesced_group tiled_partition(const Parent &, unsigned size) {
    return {{sim_tile_mask(size), sim_lane()}};
}
SIM_INLINE coalesced_group tiled_partition(const coalesced_group &group, unsigned size) {
    unsigned rank = group.thread_rank(), mask = 0;
    for (unsigned i = rank / size * size; i < rank / size * size + size && i < group.num_threads(); i++)
        mask |= 1u << group.lane_of(i);
    return {{mask, group.lane}};
}
template <class Group>
SIM_INLINE coalesced_group binary_partition(const Group &group, bool which, SIM_CALLED_FROM) {
    unsigned chosen = sim_ballot(SIM_CALLER, group.mask, which);
    return {{which ? chosen : group.mask & ~chosen, group.lane}};
}
template <class Group, class T>
SIM_INLINE coalesced_group labeled_partition(const Group &group, T label, SIM_CALLED_FROM) {
    return {{__match_any_sync(group.mask, label, sim_file, sim_line), group.lane}};
}

/* A group whose kind is not part of its type. */
struct thread_group {
    bool is_block;
    sim_lanes lanes;
    thread_group(const thread_block &) : is_block(true), lanes() {}
    thread_group(const sim_lanes &lanes) : is_block(false), lanes(lanes) {}
    void sync(SIM_CALLED_FROM) const {
        is_block ? (void)sim_barrier(SIM_CALLER, 0) : lanes.sync(sim_file, sim_line);
    }
    unsigned thread_rank() const {
        return is_block ? sim_rank_in_block() : lanes.thread_rank();
    }
    unsigned size() const {
        return is_block ? sim_threads_of_block() : lanes.num_threads();
    }
    unsigned num_threads() const {
        return size();
    }
};

/* ---- The grid ---- */

struct grid_group {
    static void sync(SIM_CALLED_FROM) {
        sim_grid_barrier(SIM_CALLER);
    }
    static bool is_valid() {
        return sim_grid_has_barrier();
    }
    static unsigned long long size() {
        return num_threads();
    }
    static unsigned long long num_threads() {
        return (unsigned long long)gridDim.x * gridDim.y * gridDim.z * sim_threads_of_block();
    }
    static unsigned long long thread_rank() {
        unsigned long long block =
            blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        return block * sim_threads_of_block() + sim_rank_in_block();
    }
    static dim3 group_dim() {
        return gridDim;
    }
    static dim3 dim_blocks() {
        return gridDim;
    }
    static unsigned block_rank() {
        return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    }
    static unsigned num_blocks() {
        return gridDim.x * gridDim.y * gridDim.z;
    }
};
SIM_INLINE grid_group this_grid() {
    return {};
}

/* ---- The cluster: along x, by __cluster_dims__; a block without one is a cluster itself ---- */

struct cluster_group {
    static void sync(SIM_CALLED_FROM) {
        sim_cluster_barrier(SIM_CALLER, true);
    }
    struct arrival_token {};
    static arrival_token barrier_arrive() {
        return {};
    }
    static void barrier_wait(SIM_CALLED_FROM) {
        sim_cluster_barrier(SIM_CALLER, true);
    }
    static void barrier_wait(arrival_token &&, SIM_CALLED_FROM) {
        sim_cluster_barrier(SIM_CALLER, true);
    }
    static unsigned block_rank() {
        return sim_cluster_rank();
    }
    static unsigned num_blocks() {
        return sim_cluster_size();
    }
    static unsigned num_threads() {
        return sim_cluster_size() * sim_threads_of_block();
    }
    static unsigned size() {
        return num_threads();
    }
    static unsigned thread_rank() {
        return sim_cluster_rank() * sim_threads_of_block() + sim_rank_in_block();
    }
    static dim3 dim_blocks() {
        return dim3(sim_cluster_size());
    }
    static dim3 dim_threads() {
        return dim3(blockDim.x * sim_cluster_size(), blockDim.y, blockDim.z);
    }
    static dim3 block_index() {
        return dim3(sim_cluster_rank(), 0, 0);
    }
    template <class T> static T *map_shared_rank(T *pointer, unsigned rank, SIM_CALLED_FROM) {
        return (T *)sim_map_shared_rank(SIM_CALLER, (const void *)pointer, rank);
    }
};
SIM_INLINE cluster_group this_cluster() {
    return {};
}

template <class Group> SIM_INLINE void sync(const Group &group, SIM_CALLED_FROM) {
    group.sync(sim_file, sim_line);
}
template <class Group> SIM_INLINE unsigned thread_rank(const Group &group) {
    return group.thread_rank();
}
template <class Group> SIM_INLINE unsigned group_size(const Group &group) {
    return group.size();
}

/* ---- reduce.h and scan.h: over the lanes of a warp ---- */

/* Operations that redux.sync has for 32-bit integers. */
struct sim_redux {};
template <class T = void> struct sim_plus : sim_redux {
    template <class U> U operator()(U a, U b) const {
        return a + b;
    }
};
template <class T> struct plus : sim_plus<T> {};
template <class T> struct less : sim_redux {
    T operator()(T a, T b) const {
        return b < a ? b : a;
    }
};
template <class T> struct greater : sim_redux {
    T operator()(T a, T b) const {
        return a < b ? b : a;
    }
};
template <class T> struct bit_and : sim_redux {
    T operator()(T a, T b) const {
        return a & b;
    }
};
template <class T> struct bit_or : sim_redux {
    T operator()(T a, T b) const {
        return a | b;
    }
};
template <class T> struct bit_xor : sim_redux {
    T operator()(T a, T b) const {
        return a ^ b;
    }
};

template <class Group, class T, class Operation>
SIM_INLINE T reduce(const Group &group, T value, Operation operation, SIM_CALLED_FROM) {
    const bool is_one =
        std::is_integral<T>::value && sizeof(T) == 4 && std::is_base_of<sim_redux, Operation>::value;
    return sim_reduced(SIM_CALLER, group.mask, value, operation, is_one ? 1 : sim_steps(group.mask));
}
template <class Group, class T, class Operation>
SIM_INLINE T inclusive_scan(const Group &group, T value, Operation operation, SIM_CALLED_FROM) {
    sim_values<T> values(SIM_CALLER, group.mask, value, sim_steps(group.mask));
    T result = value;
    for (unsigned rank = group.thread_rank(); rank-- > 0;)
        result = operation(values[group.lane_of(rank)], result);
    return result;
}
template <class Group, class T> SIM_INLINE T inclusive_scan(const Group &group, T value, SIM_CALLED_FROM) {
    return inclusive_scan(group, value, sim_plus<>(), sim_file, sim_line);
}
template <class Group, class T, class Operation>
SIM_INLINE T exclusive_scan(const Group &group, T value, Operation operation, SIM_CALLED_FROM) {
    T before =
        group.shfl_up(inclusive_scan(group, value, operation, sim_file, sim_line), 1, sim_file, sim_line);
    return group.thread_rank() == 0 ? T() : before;
}
template <class Group, class T> SIM_INLINE T exclusive_scan(const Group &group, T value, SIM_CALLED_FROM) {
    return exclusive_scan(group, value, sim_plus<>(), sim_file, sim_line);
}
template <class Group, class T, class Operation>
SIM_INLINE void reduce_update_async(const Group &group, T &to, T value, Operation operation) {
    T sum = reduce(group, value, operation);
    if (group.thread_rank() == 0)
        atomicAdd(&to, sum);
}
template <class Group, class Call> SIM_INLINE void invoke_one(const Group &group, Call call) {
    if (group.thread_rank() == 0)
        call();
}

/* ---- memcpy_async.h: every member copies its share; it lands at the wait ---- */

template <class Group>
SIM_INLINE void memcpy_async(const Group &group, void *to, const void *from, size_t bytes, SIM_CALLED_FROM) {
    size_t width = ((uintptr_t)to | (uintptr_t)from | bytes) % 16 == 0 ? 16 : 4;
    for (size_t i = group.thread_rank() * width; i < bytes; i += group.num_threads() * width)
        sim_cp_async(SIM_CALLER, (char *)to + i, (const char *)from + i, (unsigned)width, true);
    cp_async_commit_group();
}
template <class Group, class T>
SIM_INLINE void memcpy_async(const Group &group, T *to, size_t room, const T *from, size_t count,
                             SIM_CALLED_FROM) {
    memcpy_async(group, to, from, (room < count ? room : count) * sizeof(T), sim_file, sim_line);
}
template <class Group> SIM_INLINE void wait(const Group &group, SIM_CALLED_FROM) {
    cp_async_wait_group(0);
    group.sync(sim_file, sim_line);
}
template <unsigned Stages, class Group> SIM_INLINE void wait_prior(const Group &group, SIM_CALLED_FROM) {
    cp_async_wait_group(Stages);
    group.sync(sim_file, sim_line);
}

} /* namespace cooperative_groups */
