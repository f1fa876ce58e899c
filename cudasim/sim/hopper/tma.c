/* TMA: copies of boxes, and of contiguous bytes, from global into shared memory. PTX ISA, sections
 * "cp.async.bulk.tensor" and "cp.async.bulk".
 *
 * A copy lands when no thread can go on without it, the oldest first. Its bytes are written to each of its
 * target blocks, swizzled, with zeros (or NaN) outside the tensor, and are counted in the mbarriers there. */
#include "async.h"
#include "watch_hopper.h"
#include <stdlib.h>

enum { CHUNK_BYTES = 16, DESTINATION_ALIGNMENT = 128 };

static struct sim_tensor_copy *next_free(struct sim_cluster *cluster) {
    if (cluster->copy_count == cluster->copy_capacity) {
        enum { FIRST_CAPACITY = 16 };
        unsigned capacity = cluster->copy_capacity ? 2 * cluster->copy_capacity : FIRST_CAPACITY;
        struct sim_tensor_copy *copies = realloc(cluster->copies, capacity * sizeof *copies);
        if (!copies) {
            sim_report_no_memory();
            sim_block_abandon();
        }
        cluster->copies = copies;
        cluster->copy_capacity = capacity;
    }
    return &cluster->copies[cluster->copy_count++];
}

/* Starts the copy to all its target blocks. */
static void begin(const void *pc, const struct sim_tensor_copy *copy) {
    struct sim_cluster *cluster = sim_cluster_here();
    size_t bytes = sim_box_bytes(&copy->box);
    for (unsigned block = 0; block < cluster->size; block++)
        if (copy->blocks >> block & 1) {
            struct sim_place place = sim_place_in(copy->site, copy->to, bytes, block);
            struct sim_place counts = sim_place_in(copy->site, copy->barrier, sizeof(uint64_t), block);
            const struct sim_mbarrier *barrier = sim_mbarrier_at(copy->site, counts);
            if (WATCHED)
                watch_copy_begins(copy->site, copy, place, barrier);
        }
    if (WATCHED)
        watch_copy_is_counted(pc, copy);
    *next_free(cluster) = *copy;
}

void sim_tensor_copy(const struct sim_site *site, uint32_t to, const void *described, int rank,
                     const int *coordinates, uint32_t barrier, uint16_t blocks) {
    struct sim_cluster *cluster = sim_cluster_here();
    struct sim_box box = sim_box_at(site, "copies", described, rank, coordinates);
    if (to % DESTINATION_ALIGNMENT)
        sim_report_call(SIM_MISALIGNED, site, "copies a box to shared address 0x%x, no multiple of %d", to,
                        DESTINATION_ALIGNMENT);
    if (blocks >> cluster->size)
        sim_report_call(SIM_OUT_OF_BOUNDS, site, "copies to blocks 0x%x of a cluster of %u", blocks,
                        cluster->size);
    struct sim_tensor_copy copy = {.box = box,
                                   .to = to,
                                   .barrier = barrier,
                                   .site = site,
                                   .blocks = (uint16_t)(blocks ? blocks : 1u << sim_worker->rank),
                                   .asked_by = sim_worker,
                                   .thread = sim_current(sim_worker)};
    begin(SIM_CALLER, &copy);
}

void sim_bulk_copy(const struct sim_site *site, uint32_t to, const void *from, uint32_t bytes,
                   uint32_t barrier) {
    struct sim_tensor_copy copy = {.box =
                                       sim_box_of_bytes(site, from, to, bytes, CU_TENSOR_MAP_DATA_TYPE_UINT8),
                                   .to = to,
                                   .barrier = barrier,
                                   .site = site,
                                   .blocks = (uint16_t)(1u << sim_worker->rank),
                                   .asked_by = sim_worker,
                                   .thread = sim_current(sim_worker)};
    struct sim_place counts = sim_place_of(site, barrier, sizeof(uint64_t));
    const struct sim_mbarrier *counting = sim_mbarrier_at(site, counts);
    if (WATCHED)
        watch_async_access(SIM_CALLER, from, bytes, false, counting->word);
    begin(SIM_CALLER, &copy);
}

void sim_bulk_copy_between(const struct sim_site *site, uint32_t to, uint32_t from, uint32_t bytes,
                           uint32_t barrier) {
    struct sim_place source = sim_place_of(site, from, bytes), target = sim_place_of(site, to, bytes);
    struct sim_place counts = sim_place_of(site, barrier, sizeof(uint64_t));
    if (source.owner != sim_worker || target.owner != counts.owner)
        sim_report_call(
            SIM_MBARRIER_MISUSE, site,
            "copies from block %u to block %u and counts the bytes in block %u; it copies from its "
            "own, and counts where it copies to",
            source.owner->rank, target.owner->rank, counts.owner->rank);
    struct sim_tensor_copy copy = {
        .box = sim_box_of_bytes(site, source.pointer, to | from, bytes, CU_TENSOR_MAP_DATA_TYPE_UINT32),
        .from = source,
        .to = to,
        .barrier = barrier,
        .site = site,
        .blocks = (uint16_t)(1u << target.owner->rank),
        .asked_by = sim_worker,
        .thread = sim_current(sim_worker)};
    const struct sim_mbarrier *counting = sim_mbarrier_at(site, counts);
    if (WATCHED)
        watch_copy_reads(&copy, counts.owner, counting);
    begin(SIM_CALLER, &copy);
}

/* ---- Landing ---- */

static void round_to_tf32(unsigned char *value) {
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    if ((bits & 0x7f800000u) != 0x7f800000u)
        bits = (bits + 0x1000u) & 0xffffe000u;
    memcpy(value, &bits, sizeof bits);
}

static void fill(const CUtensorMap *map, unsigned char *value) {
    static const uint32_t nan32 = 0x7fffffffu;
    static const uint16_t nan16 = 0x7fffu;
    memset(value, 0, map->element_bytes);
    if (map->fills_with_nan && map->element_bytes == sizeof nan16)
        memcpy(value, &nan16, sizeof nan16);
    else if (map->fills_with_nan && map->element_bytes == sizeof nan32)
        memcpy(value, &nan32, sizeof nan32);
}

/* Copies one row of the box, contiguous in shared memory. `from`: the address of the row's coordinate 0 in
 * the tensor; NULL if the whole row is outside. */
static void read_row(const struct sim_box *box, const unsigned char *from, unsigned char *row) {
    const CUtensorMap *map = &box->map;
    bool is_tf32 =
        map->type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 || map->type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
    for (unsigned i = 0; i < map->box[0]; i++, row += map->element_bytes) {
        int64_t at = (int64_t)box->coordinate[0] + (int64_t)i * map->element_stride[0];
        if (from && at >= 0 && (uint64_t)at < map->size[0])
            memcpy(row, from + at * map->element_bytes, map->element_bytes);
        else
            fill(map, row);
        if (is_tf32)
            round_to_tf32(row);
    }
}

static void land(const struct sim_box *box, struct sim_place place) {
    enum { MOST_ROW = 256 * 8 };
    unsigned char row[MOST_ROW];
    size_t row_bytes = sim_box_row_bytes(box), rows = sim_box_rows(box);
    uint32_t base = sim_offset_of(place.owner, place.pointer);
    unsigned char *to = sim_bytes_at(place.owner, place.pointer);
    for (size_t number = 0; number < rows; number++) {
        read_row(box, sim_row_of_tensor(box, number), row);
        for (size_t at = 0; at < row_bytes; at += CHUNK_BYTES)
            memcpy(to + (sim_box_chunk(box, base, number, at) - base), row + at, CHUNK_BYTES);
    }
}

bool sim_land_next_copy(struct sim_cluster *cluster) {
    if (!cluster || cluster->copy_count == 0)
        return false;
    struct sim_tensor_copy copy = cluster->copies[0];
    memmove(cluster->copies, cluster->copies + 1, --cluster->copy_count * sizeof copy);
    size_t bytes = sim_box_bytes(&copy.box);
    if (copy.from.owner)
        copy.box.map.tensor = (uintptr_t)sim_bytes_at(copy.from.owner, copy.from.pointer);
    sim_worker = copy.asked_by; /* whose fault it is when something is wrong */
    sim_worker->current = copy.thread;
    for (unsigned block = 0; block < cluster->size; block++)
        if (copy.blocks >> block & 1) {
            if (cluster->ended[block])
                continue; /* which has been reported */
            land(&copy.box, sim_place_in(copy.site, copy.to, bytes, block));
            struct sim_place counts = sim_place_in(copy.site, copy.barrier, sizeof(uint64_t), block);
            sim_mbarrier_bytes_came(counts.owner, sim_mbarrier_at(copy.site, counts), (int64_t)bytes);
        }
    return true;
}

/* ---- Stores to other blocks ---- */

void sim_st_async_bytes(const struct sim_site *site, uint32_t to, const void *value, unsigned bytes,
                        uint32_t barrier) {
    if (to % bytes)
        sim_report_call(SIM_MISALIGNED, site, "stores %u bytes at shared address 0x%x", bytes, to);
    struct sim_place place = sim_place_of(site, to, bytes);
    struct sim_place counts = sim_place_of(site, barrier, sizeof(uint64_t));
    struct sim_mbarrier *counting = sim_mbarrier_at(site, counts);
    if (place.owner != counts.owner)
        sim_report_call(SIM_MBARRIER_MISUSE, site,
                        "stores in block %u and counts the bytes in block %u; PTX wants one block for both",
                        place.owner->rank, counts.owner->rank);
    if (WATCHED)
        watch_store_to_block(SIM_CALLER, site, place, bytes, counting);
    memcpy(sim_bytes_at(place.owner, place.pointer), value, bytes);
    sim_mbarrier_bytes_came(counts.owner, counting, bytes);
}

void sim_st_async(const struct sim_site *site, uint32_t to, float a, float b, uint32_t barrier) {
    float pair[2] = {a, b};
    sim_st_async_bytes(site, to, pair, sizeof pair, barrier);
}

float4 sim_load_from_block(const struct sim_site *site, const float *shared, uint32_t rank) {
    float4 quad;
    uint32_t address = sim_shared_address(site, shared);
    struct sim_place place = sim_place_of(site, sim_mapa(site, address, rank), sizeof quad);
    if ((uintptr_t)place.pointer % sizeof quad)
        sim_report_call(SIM_MISALIGNED, site, "loads 16 bytes from shared address 0x%x", address);
    memcpy(&quad, sim_bytes_at(place.owner, place.pointer), sizeof quad);
    return quad;
}
