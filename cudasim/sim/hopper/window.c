/* The windows through which PTX names shared memory: an address is a place in the block's own window, and
 * with rank + 1 in its upper eight bits the same place in the window of another block of the cluster.
 *
 * As on a GPU the first KiB of a window belongs to the system. Then come dynamic and static shared memory.
 * The size of a kernel's static memory is unknown, so its part begins a little before the first place that is
 * asked for. All is below 256 KiB, which a descriptor of wgmma can address. */
#include "async.h"

enum {
    SYSTEM_BYTES = 1024,
    WINDOW_BYTES = 256 << 10,
    RANK_SHIFT = 24,
    STATIC_BEFORE = 16 << 10, /* room for what is before the first static place */
    STATIC_BYTES = 48 << 10,  /* as much as a block can have */
    ALIGNMENT = 1024,
    LARGE_ALIGNMENT = 16 << 10,
};

/* A static place has the alignment of its pointer, up to this. Kernels that switch between stages by XOR of
 * an address need a large one. */
static uint32_t alignment(const struct sim_worker *owner) {
    enum { MOST = WINDOW_BYTES - STATIC_BYTES - STATIC_BEFORE - 2 * LARGE_ALIGNMENT };
    return SYSTEM_BYTES + owner->shared_memory_bytes <= MOST ? LARGE_ALIGNMENT : ALIGNMENT;
}

static uint32_t static_begin(const struct sim_worker *owner) {
    uint32_t multiple = alignment(owner), end = SYSTEM_BYTES + (uint32_t)owner->shared_memory_bytes;
    return (end + multiple - 1) / multiple * multiple;
}

/* The beginning of the window of a block's static shared memory: the same for all blocks of a cluster. */
static uintptr_t static_anchor(struct sim_worker *owner, const void *pointer) {
    if (sim_cluster_here()->size > 1)
        return (uintptr_t)sim_statics_begin() / alignment(owner) * alignment(owner);
    struct sim_hopper *hopper = owner->hopper;
    if (hopper && hopper->static_anchor == 0 && pointer)
        hopper->static_anchor = (uintptr_t)pointer / alignment(owner) * alignment(owner) - STATIC_BEFORE;
    return hopper ? hopper->static_anchor : 0;
}

uint32_t sim_offset_of(struct sim_worker *owner, const void *pointer) {
    uintptr_t offset = (uintptr_t)pointer - (uintptr_t)owner->shared_memory;
    if (owner->shared_memory && offset < owner->shared_memory_bytes)
        return SYSTEM_BYTES + (uint32_t)offset;
    return static_begin(owner) + (uint32_t)((uintptr_t)pointer - static_anchor(owner, pointer));
}

bool sim_is_shared(const void *pointer) {
    uintptr_t offset = (uintptr_t)pointer - (uintptr_t)sim_worker->shared_memory;
    return (sim_worker->shared_memory && offset < sim_worker->shared_memory_bytes) || sim_is_static(pointer);
}

uint32_t sim_shared_address(const struct sim_site *site, const void *pointer) {
    sim_hopper_here();
    uint32_t offset = sim_offset_of(sim_worker, pointer);
    if (offset >= WINDOW_BYTES)
        sim_report_call(SIM_OUT_OF_BOUNDS, site, "takes the shared address of %p, which is not shared memory",
                        pointer);
    return offset;
}

uint32_t sim_mapa(const struct sim_site *site, uint32_t address, uint32_t rank) {
    if (rank >= sim_cluster_here()->size)
        sim_report_call(SIM_OUT_OF_BOUNDS, site, "maps an address to block %u of a cluster of %u", rank,
                        sim_cluster_here()->size);
    return (address & ((1u << RANK_SHIFT) - 1)) | (rank + 1) << RANK_SHIFT;
}

struct sim_place sim_place_in(const struct sim_site *site, uint32_t address, size_t bytes, unsigned rank) {
    struct sim_cluster *cluster = sim_cluster_here();
    uint32_t offset = address & ((1u << RANK_SHIFT) - 1);
    struct sim_worker *owner = cluster->block[rank];
    if (cluster->ended[rank])
        sim_report_call(SIM_BLOCK_HAS_EXITED, site,
                        "reaches into the shared memory of block %u of its cluster, which has exited", rank);
    uint32_t first_static = static_begin(owner);
    if (offset >= SYSTEM_BYTES && offset + bytes <= SYSTEM_BYTES + owner->shared_memory_bytes)
        return (struct sim_place){owner, owner->shared_memory + (offset - SYSTEM_BYTES)};
    uintptr_t anchor = static_anchor(owner, NULL);
    if (anchor == 0 || offset < first_static || offset + bytes > WINDOW_BYTES)
        sim_report_call(
            SIM_OUT_OF_BOUNDS, site,
            "names shared address 0x%x, and the block's %zu bytes of dynamic shared memory are "
            "0x%x to 0x%zx%s",
            address, owner->shared_memory_bytes, SYSTEM_BYTES, SYSTEM_BYTES + owner->shared_memory_bytes,
            cluster->size > 1 ? " (in a cluster, kernels of C have dynamic shared memory only)" : "");
    return (struct sim_place){owner, (unsigned char *)anchor + (offset - first_static)};
}

struct sim_place sim_place_of(const struct sim_site *site, uint32_t address, size_t bytes) {
    unsigned rank = address >> RANK_SHIFT ? (address >> RANK_SHIFT) - 1 : sim_worker->rank;
    if (rank >= sim_cluster_here()->size)
        sim_report_call(SIM_OUT_OF_BOUNDS, site, "names shared address 0x%x, which is of no block", address);
    return sim_place_in(site, address, bytes, rank);
}

void *sim_shared_pointer(const struct sim_site *site, uint32_t address) {
    struct sim_place place = sim_place_of(site, address, 1);
    return sim_bytes_at(place.owner, place.pointer);
}
