/* TMA the other way: boxes, and contiguous bytes, from shared into global memory, stored there or combined
 * with its contents. PTX ISA, sections "cp.async.bulk.tensor", "cp.reduce.async.bulk" and
 * "cp.async.bulk.wait_group".
 *
 * A thread waits for its stores by groups, and they run as late as possible: they read shared memory when
 * their thread waits for that, and write to global memory when it waits for their completion, or has
 * returned. */
#include "async.h"
#include "watch_hopper.h"
#include <stdlib.h>

enum { CHUNK_BYTES = 16, SOURCE_ALIGNMENT = 128 };

/* ---- Asking ---- */

static const char *name_of(enum sim_atomic operation) {
    static const char *const names[] = {"add", "min", "max", "and", "or", "xor"};
    return operation == SIM_ATOMIC_INCREMENT   ? "inc"
           : operation == SIM_ATOMIC_DECREMENT ? "dec"
                                               : names[operation];
}

static enum sim_type type_of(const CUtensorMap *map) {
    switch ((CUtensorMapDataType)map->type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
        return SIM_UINT32;
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
        return SIM_INT32;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
        return SIM_UINT64;
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
        return SIM_INT64;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
        return SIM_FLOAT16;
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
        return SIM_BFLOAT16;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
        return SIM_DOUBLE;
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
        return SIM_UINT16; /* for which there is no reduction */
    default:
        return SIM_FLOAT;
    }
}

static CUtensorMapDataType type_in_map(enum sim_type type) {
    switch (type) {
    case SIM_UINT32:
        return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    case SIM_INT32:
        return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case SIM_UINT64:
        return CU_TENSOR_MAP_DATA_TYPE_UINT64;
    case SIM_INT64:
        return CU_TENSOR_MAP_DATA_TYPE_INT64;
    case SIM_FLOAT16:
        return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case SIM_BFLOAT16:
        return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case SIM_DOUBLE:
        return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case SIM_FLOAT:
        return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    default:
        return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    }
}

/* PTX ISA, the table of types in "cp.reduce.async.bulk.tensor". */
static bool can_combine(enum sim_atomic operation, enum sim_type type) {
    bool is_half = type == SIM_FLOAT16 || type == SIM_BFLOAT16;
    bool is_floating = is_half || type == SIM_FLOAT || type == SIM_DOUBLE;
    switch (operation) {
    case SIM_ATOMIC_EXCHANGE:
        return true;
    case SIM_ATOMIC_ADD:
        return type != SIM_UINT16;
    case SIM_ATOMIC_MIN:
    case SIM_ATOMIC_MAX:
        return type != SIM_UINT16 && (!is_floating || is_half);
    case SIM_ATOMIC_INCREMENT:
    case SIM_ATOMIC_DECREMENT:
        return type == SIM_UINT32;
    default:
        return type != SIM_UINT16 && !is_floating;
    }
}

static struct sim_store *next_free(struct sim_stores *stores) {
    if (stores->count == stores->capacity) {
        enum { FIRST_CAPACITY = 4 };
        unsigned capacity = stores->capacity ? 2 * stores->capacity : FIRST_CAPACITY;
        struct sim_store *pending = realloc(stores->pending, capacity * sizeof *pending);
        if (!pending) {
            sim_report_no_memory();
            sim_block_abandon();
        }
        stores->pending = pending;
        stores->capacity = capacity;
    }
    return &stores->pending[stores->count++];
}

static void ask(const struct sim_site *site, const void *pc, const struct sim_box *box, uint32_t from,
                enum sim_atomic operation) {
    static _Thread_local uint32_t numbers;
    struct sim_stores *stores = &sim_current(sim_worker)->stores;
    sim_hopper_here();
    sim_worker->block.is_asynchronous = true;
    if (!can_combine(operation, type_of(&box->map)))
        sim_report_call(SIM_WRONG_LAYOUT, site,
                        "combines elements by .%s, which TMA does not have for elements of their type",
                        name_of(operation));
    struct sim_place place = sim_place_of(site, from, sim_box_bytes(box));
    if (place.owner != sim_worker)
        sim_report_call(SIM_OUT_OF_BOUNDS, site, "stores from the shared memory of another block");
    struct sim_store store = {.box = *box,
                              .from = place,
                              .operation = operation,
                              .site = site,
                              .pc = pc,
                              .group = stores->groups,
                              .number = ++numbers};
    if (WATCHED)
        watch_store_begins(&store);
    *next_free(stores) = store;
}

void sim_tensor_store(const struct sim_site *site, const void *described, int rank, const int *coordinates,
                      uint32_t from, enum sim_atomic operation) {
    struct sim_box box = sim_box_at(site, "stores", described, rank, coordinates);
    if (from % SOURCE_ALIGNMENT)
        sim_report_call(SIM_MISALIGNED, site, "stores a box from shared address 0x%x, no multiple of %d",
                        from, SOURCE_ALIGNMENT);
    ask(site, SIM_CALLER, &box, from, operation);
}

void sim_bulk_store(const struct sim_site *site, void *to, uint32_t from, uint32_t bytes,
                    enum sim_atomic operation, enum sim_type type) {
    struct sim_box box = sim_box_of_bytes(site, to, from, bytes, type_in_map(type));
    ask(site, SIM_CALLER, &box, from, operation);
}

void sim_bulk_commit(void) {
    sim_worker->block.is_asynchronous = true;
    sim_current(sim_worker)->stores.groups++;
}

/* ---- Running ---- */

static void read_box(struct sim_store *store) {
    const struct sim_box *box = &store->box;
    size_t row_bytes = sim_box_row_bytes(box), rows = sim_box_rows(box);
    store->bytes = malloc(rows * row_bytes);
    if (!store->bytes) {
        sim_report_no_memory();
        return;
    }
    uint32_t base = sim_offset_of(store->from.owner, store->from.pointer);
    const unsigned char *from = sim_bytes_at(store->from.owner, store->from.pointer);
    for (size_t row = 0; row < rows; row++)
        for (size_t at = 0; at < row_bytes; at += CHUNK_BYTES)
            memcpy(store->bytes + row * row_bytes + at, from + (sim_box_chunk(box, base, row, at) - base),
                   CHUNK_BYTES);
    if (WATCHED)
        watch_store_has_read(store);
}

static void write_elements(const struct sim_store *store, unsigned char *to, const unsigned char *from,
                           size_t bytes) {
    enum sim_type type = type_of(&store->box.map);
    if (store->operation == SIM_ATOMIC_EXCHANGE) {
        memcpy(to, from, bytes);
        return;
    }
    unsigned element_bytes = sim_bytes_of_type(type);
    for (size_t at = 0; at < bytes; at += element_bytes) {
        uint64_t value = 0;
        memcpy(&value, from + at, element_bytes);
        sim_combine(store->operation, type, to + at, value);
    }
}

/* Elements outside the tensor are not written. */
static void write_box(struct sim_store *store) {
    const struct sim_box *box = &store->box;
    size_t row_bytes = sim_box_row_bytes(box), rows = sim_box_rows(box), element = box->map.element_bytes;
    unsigned first, end;
    sim_box_columns(box, &first, &end);
    for (size_t number = 0; number < rows && store->bytes; number++) {
        unsigned char *row = sim_row_of_tensor(box, number);
        if (row && first < end)
            write_elements(store, row + ((int64_t)box->coordinate[0] + first) * (int64_t)element,
                           store->bytes + number * row_bytes + first * element, (end - first) * element);
    }
    free(store->bytes);
    store->bytes = NULL;
}

/* The first `count` stores have come to their end. */
static void end(struct sim_stores *stores, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        write_box(&stores->pending[i]);
    stores->count -= count;
    memmove(stores->pending, stores->pending + count, stores->count * sizeof *stores->pending);
}

void sim_bulk_wait(const struct sim_site *site, unsigned groups_in_flight, bool only_reads) {
    struct sim_stores *stores = &sim_current(sim_worker)->stores;
    unsigned count = 0;
    (void)site;
    for (; count < stores->count && stores->pending[count].group + groups_in_flight < stores->groups; count++)
        if (!stores->pending[count].bytes)
            read_box(&stores->pending[count]);
    if (only_reads)
        return;
    if (WATCHED)
        watch_stores_end(stores->pending, count);
    end(stores, count);
}

/* No thread has waited for the remaining stores. */
void sim_end_stores(struct sim_thread *thread) {
    struct sim_stores *stores = &thread->stores;
    for (unsigned i = 0; i < stores->count; i++)
        if (!stores->pending[i].bytes) {
            if (WATCHED)
                watch_store_is_left(&stores->pending[i], stores->pending[i].group < stores->groups);
            read_box(&stores->pending[i]);
        }
    end(stores, stores->count);
}

void sim_forget_stores(struct sim_stores *stores) {
    for (unsigned i = 0; i < stores->count; i++)
        free(stores->pending[i].bytes);
    stores->count = stores->groups = 0;
}

void sim_free_stores(struct sim_stores *stores) {
    sim_forget_stores(stores);
    free(stores->pending);
    *stores = (struct sim_stores){0};
}
