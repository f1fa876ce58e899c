/* The checks of shared memory from which TMA stores or copies to another block: see stages.h. */
#include "chunks.h"
#include "recorder.h"

/* A box that TMA reads in the running block's shared memory. */
struct source {
    const struct sim_box *box;
    struct sim_place from;
    const struct sim_site *site;
    const char *does;
    uint32_t store;    /* its number, or */
    bool has_mbarrier; /* that counts its bytes, this one in its phase */
    unsigned barrier;
    uint32_t phase;
};

/* 16 bytes of it; those from `first` on and before `end` are inside the tensor. */
struct part {
    uint32_t offset;
    uintptr_t address;
    unsigned first;
    unsigned end;
};

/* Calls `look` for each 16 bytes that are partly inside the tensor. */
static void for_each_part(const struct source *source,
                          void (*look)(const struct source *, const struct part *)) {
    const struct sim_box *box = source->box;
    size_t row_bytes = sim_box_row_bytes(box), rows = sim_box_rows(box), element = box->map.element_bytes;
    uint32_t base = sim_offset_of(source->from.owner, source->from.pointer);
    unsigned first, end;
    sim_box_columns(box, &first, &end);
    for (size_t row = 0; row < rows; row++)
        for (size_t at = 0; at < row_bytes && sim_row_of_tensor(box, row); at += CHUNK_BYTES) {
            size_t from = first * element > at ? first * element - at : 0;
            size_t to = end * element > at ? end * element - at : 0;
            uint32_t offset = sim_box_chunk(box, base, row, at);
            struct part part = {offset, (uintptr_t)source->from.pointer + (offset - base), (unsigned)from,
                                (unsigned)(to < CHUNK_BYTES ? to : CHUNK_BYTES)};
            if (part.first < part.end)
                look(source, &part);
        }
}

static bool is_written(const struct part *part) {
    const struct place *place = place_of(recorder, part->address, CHUNK_BYTES);
    for (unsigned byte = part->first; place && place->words && byte < part->end; byte++) {
        uintptr_t at = part->address + byte;
        const struct shared_word *word = &place->words[at / WORD_BYTES - place->begin / WORD_BYTES];
        if (word->block != recorder->block_count || !(word->initialised >> at % WORD_BYTES & 1))
            return false;
    }
    return true;
}

static void begin_part(const struct source *source, const struct part *part) {
    struct warp_clocks *clocks = clocks_here();
    struct chunk *chunk = clocks ? chunk_at(sim_worker, part->offset) : NULL;
    struct here here = {source->site, 0, sim_worker, part->offset, source->does};
    if (!chunk)
        return;
    unsigned warp = clocks_warp(sim_worker, sim_worker->current);
    if (!is_written(part))
        chunk_fault(&here, SIM_UNINITIALISED, "which nobody has written yet");
    if (!chunk_write_is_known(clocks, warp, chunk)) {
        if (chunk->writer == ASYNCHRONOUS)
            chunk_fault_not_waited(&here, chunk);
        chunk_fault_stored(&here, chunk);
    }
    if (!chunk_write_is_fenced(clocks, warp, chunk))
        chunk_fault_not_fenced(&here, chunk);
    chunk->stored.site = source->site;
    chunk->stored.number = source->store;
    chunk->stored.has_mbarrier = source->has_mbarrier;
    chunk->stored.has_read = false;
    chunk->stored.agent = (uint16_t)(source->has_mbarrier ? source->barrier : warp);
    chunk->stored.when = source->phase;
}

static void end_part(const struct source *source, const struct part *part) {
    struct warp_clocks *clocks = clocks_here();
    struct chunk *chunk = clocks ? chunk_at(sim_worker, part->offset) : NULL;
    if (!chunk || !chunk->stored.site || chunk->stored.number != source->store)
        return;
    chunk->stored.has_read = true;
    chunk->stored.when = *clocks_time(clocks, chunk->stored.agent, chunk->stored.agent);
}

static struct source source_of(const struct sim_store *store) {
    return (struct source){.box = &store->box,
                           .from = store->from,
                           .site = store->site,
                           .does = "stores",
                           .store = store->number};
}

void stages_store(const struct sim_store *store) {
    struct source source = source_of(store);
    for_each_part(&source, begin_part);
}

void stages_store_has_read(const struct sim_store *store) {
    struct source source = source_of(store);
    for_each_part(&source, end_part);
}

void stages_copy_reads(const struct sim_tensor_copy *copy, struct sim_worker *owner,
                       const struct sim_mbarrier *barrier) {
    struct source source = {.box = &copy->box,
                            .from = copy->from,
                            .site = copy->site,
                            .does = "copies",
                            .has_mbarrier = true,
                            .barrier = clocks_barrier(owner, barrier),
                            .phase = barrier->completed};
    for_each_part(&source, begin_part);
}

void chunk_check_store(struct warp_clocks *clocks, const struct here *here, const struct chunk *chunk,
                       unsigned warp) {
    const char *missing = NULL;
    if (!chunk->stored.site)
        return;
    if (chunk->stored.has_mbarrier) {
        if (*clocks_phases(clocks, warp, chunk->stored.agent) <= chunk->stored.when)
            missing =
                "nothing that this thread comes after has waited for the mbarrier that counts its bytes";
    } else if (!chunk->stored.has_read) {
        missing = "the thread that asked for it has not waited for its group (cp.async.bulk.wait_group.read)";
    } else if (*clocks_time(clocks, warp, chunk->stored.agent) < chunk->stored.when) {
        missing = "no barrier is between this thread and the one that has waited for it";
    }
    if (missing)
        chunk_fault(here, SIM_STAGE_RACE, "which TMA may still read for what %s:%d asks: %s",
                    chunk->stored.site->file, chunk->stored.site->line, missing);
}
