/* Boxes of tensors: the places of a box's rows in global and in shared memory. PTX ISA, section "Tensors".
 *
 * In shared memory the rows of a box are contiguous, the second dimension fastest. With a swizzle in the
 * tensor map, pieces of 16 bytes change places in a row. Elements outside the tensor have a place in shared
 * memory, but none in global memory. */
#include "async.h"

enum { CHUNK_BYTES = 16 };

struct sim_box sim_box_at(const struct sim_site *site, const char *does, const void *described, int rank,
                          const int *coordinates) {
    const CUtensorMap *map = described;
    if (map->magic != SIM_TENSOR_MAP_MAGIC || map->rank != rank)
        sim_report_call(SIM_WRONG_LAYOUT, site, "%s a box of %d dimensions by a tensor map of %d", does, rank,
                        map->magic == SIM_TENSOR_MAP_MAGIC ? map->rank : 0);
    struct sim_box box = {.map = *map};
    memcpy(box.coordinate, coordinates, (size_t)rank * sizeof *coordinates);
    return box;
}

struct sim_box sim_box_of_bytes(const struct sim_site *site, const void *global, uint32_t shared,
                                uint32_t bytes, CUtensorMapDataType type) {
    if (bytes == 0 || bytes % CHUNK_BYTES || bytes > SIM_MOST_TRANSACTION_BYTES)
        sim_report_call(SIM_MBARRIER_MISUSE, site, "copies %u bytes; it must be a multiple of %d up to %d",
                        bytes, CHUNK_BYTES, SIM_MOST_TRANSACTION_BYTES / CHUNK_BYTES * CHUNK_BYTES);
    if ((shared | (uintptr_t)global) % CHUNK_BYTES)
        sim_report_call(SIM_MISALIGNED, site,
                        "copies between %p and shared address 0x%x, and both must be multiples of %d", global,
                        shared, CHUNK_BYTES);
    unsigned rows = bytes / CHUNK_BYTES, element_bytes = sim_bytes_of_element(type);
    uint16_t elements = (uint16_t)(CHUNK_BYTES / element_bytes);
    return (struct sim_box){.map = {.magic = SIM_TENSOR_MAP_MAGIC,
                                    .type = (uint8_t)type,
                                    .rank = 2,
                                    .tensor = (uintptr_t)global,
                                    .size = {elements, rows},
                                    .stride = {CHUNK_BYTES},
                                    .box = {elements, (uint16_t)rows},
                                    .element_stride = {1, 1},
                                    .element_bytes = (uint8_t)element_bytes}};
}

size_t sim_box_row_bytes(const struct sim_box *box) {
    return (size_t)box->map.box[0] * box->map.element_bytes;
}

size_t sim_box_rows(const struct sim_box *box) {
    size_t rows = 1;
    for (unsigned i = 1; i < box->map.rank; i++)
        rows *= box->map.box[i];
    return rows;
}

size_t sim_box_bytes(const struct sim_box *box) {
    return sim_box_rows(box) * sim_box_row_bytes(box);
}

unsigned char *sim_row_of_tensor(const struct sim_box *box, size_t number) {
    const CUtensorMap *map = &box->map;
    unsigned char *from = (unsigned char *)(uintptr_t)map->tensor;
    for (unsigned i = 1; i < map->rank; i++) {
        int64_t at = (int64_t)box->coordinate[i] + (int64_t)(number % map->box[i]) * map->element_stride[i];
        if (at < 0 || (uint64_t)at >= map->size[i])
            return NULL;
        from += (uint64_t)at * map->stride[i - 1];
        number /= map->box[i];
    }
    return from;
}

void sim_box_columns(const struct sim_box *box, unsigned *first, unsigned *end) {
    int64_t begin = box->coordinate[0], size = (int64_t)box->map.size[0], width = box->map.box[0];
    int64_t before = begin < 0 ? -begin : 0, until = size - begin;
    *first = (unsigned)(before < width ? before : width);
    *end = (unsigned)(until < *first ? *first : until < width ? until : width);
}

uint32_t sim_box_chunk(const struct sim_box *box, uint32_t base, size_t row, size_t at) {
    uint32_t linear = base + (uint32_t)(row * sim_box_row_bytes(box) + at);
    return sim_swizzled(linear, (1u << box->map.swizzle) - 1);
}
