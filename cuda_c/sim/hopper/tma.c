/* TMA: copies of boxes, and of bytes that follow each other, from global into shared memory. PTX ISA,
 * sections "cp.async.bulk.tensor" and "cp.async.bulk".
 *
 * A copy lands when nobody can go on without it, the oldest first: its bytes are written to every block that
 * it is for, swizzled, with zeros (or NaN) where the box leaves the tensor, and are counted in the mbarriers
 * there. */
#include "async.h"
#include "watch_hopper.h"
#include <stdlib.h>

enum { CHUNK_BYTES = 16, DESTINATION_ALIGNMENT = 128 };

static size_t elements_of_box(const CUtensorMap *map) {
    size_t elements = 1;
    for (unsigned i = 0; i < map->rank; i++)
        elements *= map->box[i];
    return elements;
}

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

/* The copy is on its way to all blocks that it is for. */
static void begin(const void *pc, const struct sim_tensor_copy *copy) {
    struct sim_cluster *cluster = sim_cluster_here();
    size_t bytes = elements_of_box(&copy->map) * copy->map.element_bytes;
    for (unsigned block = 0; block < cluster->size; block++)
        if (copy->blocks >> block & 1) {
            struct sim_place place = sim_place_in(copy->site, copy->to, bytes, block);
            struct sim_place counts = sim_place_in(copy->site, copy->barrier, sizeof(uint64_t), block);
            watch_copy_begins(copy->site, copy, place, sim_mbarrier_at(copy->site, counts));
        }
    watch_copy_is_counted(pc, copy);
    *next_free(cluster) = *copy;
}

void sim_tensor_copy(const struct sim_site *site, uint32_t to, const void *described, int rank,
                     const int *coordinates, uint32_t barrier, uint16_t blocks) {
    const CUtensorMap *map = described;
    struct sim_cluster *cluster = sim_cluster_here();
    if (map->magic != SIM_TENSOR_MAP_MAGIC || map->rank != rank)
        sim_report_call(SIM_WRONG_LAYOUT, site, "copies a box of %d dimensions by a tensor map of %d", rank,
                        map->magic == SIM_TENSOR_MAP_MAGIC ? map->rank : 0);
    if (to % DESTINATION_ALIGNMENT)
        sim_report_call(SIM_MISALIGNED, site, "copies a box to shared address 0x%x, no multiple of %d", to,
                        DESTINATION_ALIGNMENT);
    if (blocks >> cluster->size)
        sim_report_call(SIM_OUT_OF_BOUNDS, site, "copies to blocks 0x%x of a cluster of %u", blocks,
                        cluster->size);
    struct sim_tensor_copy copy = {.map = *map,
                                   .to = to,
                                   .barrier = barrier,
                                   .site = site,
                                   .blocks = (uint16_t)(blocks ? blocks : 1u << sim_worker->rank),
                                   .asked_by = sim_worker,
                                   .thread = sim_worker->current};
    memcpy(copy.coordinate, coordinates, (size_t)rank * sizeof *coordinates);
    begin(SIM_CALLER, &copy);
}

/* Bytes that follow each other are a box of rows of 16 bytes, with nothing between the rows. */
void sim_bulk_copy(const struct sim_site *site, uint32_t to, const void *from, uint32_t bytes,
                   uint32_t barrier) {
    if (bytes == 0 || bytes % CHUNK_BYTES || bytes > SIM_MOST_TRANSACTION_BYTES)
        sim_report_call(SIM_MBARRIER_MISUSE, site, "copies %u bytes; it must be a multiple of %d up to %d",
                        bytes, CHUNK_BYTES, SIM_MOST_TRANSACTION_BYTES / CHUNK_BYTES * CHUNK_BYTES);
    if ((to | (uintptr_t)from) % CHUNK_BYTES)
        sim_report_call(SIM_MISALIGNED, site,
                        "copies from %p to shared address 0x%x, and both must be multiples of %d", from, to,
                        CHUNK_BYTES);
    uint32_t rows = bytes / CHUNK_BYTES;
    struct sim_tensor_copy copy = {.map = {.magic = SIM_TENSOR_MAP_MAGIC,
                                           .type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
                                           .rank = 2,
                                           .tensor = (uintptr_t)from,
                                           .size = {1, rows},
                                           .stride = {CHUNK_BYTES},
                                           .box = {1, (uint16_t)rows},
                                           .element_stride = {1, 1},
                                           .element_bytes = CHUNK_BYTES},
                                   .to = to,
                                   .barrier = barrier,
                                   .site = site,
                                   .blocks = (uint16_t)(1u << sim_worker->rank),
                                   .asked_by = sim_worker,
                                   .thread = sim_worker->current};
    struct sim_place counts = sim_place_of(site, barrier, sizeof(uint64_t));
    watch_async_access(SIM_CALLER, from, bytes, false, sim_mbarrier_at(site, counts)->word);
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

/* One row of the box, whose elements follow each other in shared memory. `from`: where coordinate 0 of the
 * row is in the tensor; NULL when the whole row is outside. */
static void read_row(const struct sim_tensor_copy *copy, const unsigned char *from, unsigned char *row) {
    const CUtensorMap *map = &copy->map;
    bool is_tf32 =
        map->type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 || map->type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
    for (unsigned i = 0; i < map->box[0]; i++, row += map->element_bytes) {
        int64_t at = (int64_t)copy->coordinate[0] + (int64_t)i * map->element_stride[0];
        if (from && at >= 0 && (uint64_t)at < map->size[0])
            memcpy(row, from + at * map->element_bytes, map->element_bytes);
        else
            fill(map, row);
        if (is_tf32)
            round_to_tf32(row);
    }
}

/* The row of the box with this number, the second dimension fastest. */
static const unsigned char *row_of_tensor(const struct sim_tensor_copy *copy, size_t number) {
    const CUtensorMap *map = &copy->map;
    const unsigned char *from = (const unsigned char *)(uintptr_t)map->tensor;
    for (unsigned i = 1; i < map->rank; i++) {
        int64_t at = (int64_t)copy->coordinate[i] + (int64_t)(number % map->box[i]) * map->element_stride[i];
        if (at < 0 || (uint64_t)at >= map->size[i])
            return NULL;
        from += (uint64_t)at * map->stride[i - 1];
        number /= map->box[i];
    }
    return from;
}

static void land(const struct sim_tensor_copy *copy, struct sim_place place) {
    const CUtensorMap *map = &copy->map;
    enum { MOST_ROW = 256 * 8 };
    unsigned char row[MOST_ROW];
    size_t row_bytes = (size_t)map->box[0] * map->element_bytes;
    size_t rows = elements_of_box(map) / map->box[0];
    uint32_t base = sim_offset_of(place.owner, place.pointer), mask = (1u << map->swizzle) - 1;
    unsigned char *to = sim_bytes_at(place.owner, place.pointer);
    for (size_t number = 0; number < rows; number++) {
        read_row(copy, row_of_tensor(copy, number), row);
        for (size_t at = 0; at < row_bytes; at += CHUNK_BYTES) {
            uint32_t linear = base + (uint32_t)(number * row_bytes + at);
            memcpy(to + (sim_swizzled(linear, mask) - base), row + at, CHUNK_BYTES);
        }
    }
}

bool sim_land_next_copy(struct sim_cluster *cluster) {
    if (!cluster || cluster->copy_count == 0)
        return false;
    struct sim_tensor_copy copy = cluster->copies[0];
    memmove(cluster->copies, cluster->copies + 1, --cluster->copy_count * sizeof copy);
    size_t bytes = elements_of_box(&copy.map) * copy.map.element_bytes;
    sim_worker = copy.asked_by; /* whose fault it is when something is wrong */
    sim_worker->current = copy.thread;
    for (unsigned block = 0; block < cluster->size; block++)
        if (copy.blocks >> block & 1) {
            if (cluster->ended[block])
                continue; /* which has been reported */
            land(&copy, sim_place_in(copy.site, copy.to, bytes, block));
            struct sim_place counts = sim_place_in(copy.site, copy.barrier, sizeof(uint64_t), block);
            sim_mbarrier_bytes_came(counts.owner, sim_mbarrier_at(copy.site, counts), (int64_t)bytes);
        }
    return true;
}

/* A copy whose mbarrier is an object of C++ (cuda::barrier), which does not count bytes here: it lands at
 * once. */
void sim_tensor_copy_now(const struct sim_site *site, void *to, const void *described, int rank,
                         const int *coordinates) {
    const CUtensorMap *map = described;
    sim_hopper_here();
    if (map->magic != SIM_TENSOR_MAP_MAGIC || map->rank != rank)
        sim_report_call(SIM_WRONG_LAYOUT, site, "copies a box of %d dimensions by a tensor map of %d", rank,
                        map->magic == SIM_TENSOR_MAP_MAGIC ? map->rank : 0);
    if ((uintptr_t)to % DESTINATION_ALIGNMENT)
        sim_report_call(SIM_MISALIGNED, site, "copies a box to %p, no multiple of %d", to,
                        DESTINATION_ALIGNMENT);
    struct sim_tensor_copy copy = {.map = *map, .site = site};
    memcpy(copy.coordinate, coordinates, (size_t)rank * sizeof *coordinates);
    struct sim_place place = {sim_worker, to};
    watch_copy_begins(site, &copy, place, NULL);
    land(&copy, place);
}

/* ---- Stores to other blocks ---- */

void sim_st_async(const struct sim_site *site, uint32_t to, float a, float b, uint32_t barrier) {
    float pair[2] = {a, b};
    if (to % sizeof pair)
        sim_report_call(SIM_MISALIGNED, site, "stores 8 bytes at shared address 0x%x", to);
    struct sim_place place = sim_place_of(site, to, sizeof pair);
    struct sim_place counts = sim_place_of(site, barrier, sizeof(uint64_t));
    struct sim_mbarrier *counting = sim_mbarrier_at(site, counts);
    if (place.owner != counts.owner)
        sim_report_call(SIM_MBARRIER_MISUSE, site,
                        "stores in block %u and counts the bytes in block %u; PTX wants one block for both",
                        place.owner->rank, counts.owner->rank);
    watch_store_to_block(SIM_CALLER, site, place, sizeof pair, counting);
    memcpy(sim_bytes_at(place.owner, place.pointer), pair, sizeof pair);
    sim_mbarrier_bytes_came(counts.owner, counting, sizeof pair);
}

float4 sim_load_from_block(const struct sim_site *site, const float *shared, uint32_t rank) {
    float4 quad;
    uint32_t address = sim_shared_address(site, shared);
    struct sim_place place = sim_place_of(site, sim_mapa(site, address, rank), sizeof quad);
    if ((uintptr_t)place.pointer % sizeof quad)
        sim_report_call(SIM_MISALIGNED, site, "loads 16 bytes from shared address 0x%x", address);
    watch_load_from_block(SIM_CALLER, site, place, sizeof quad);
    memcpy(&quad, sim_bytes_at(place.owner, place.pointer), sizeof quad);
    return quad;
}
