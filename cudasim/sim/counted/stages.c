/* The checks of shared memory that TMA and wgmma reach: see stages.h. */
#include "chunks.h"
#include "recorder.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void stages_begin_block(struct sim_worker *worker) {
    struct stages *stages = worker->hopper->stages;
    if (!stages)
        stages = worker->hopper->stages = calloc(1, sizeof *stages);
    if (!stages)
        return;
    stages->block++;
    stages->began_with_block = worker->block.started == 0;
    stages->begun = worker->recorder ? ((const struct recorder *)worker->recorder)->order.barrier_time : 0;
}

/* The histories know what threads stored before the first use of Hopper's machine: the block knows all of it
 * up to its latest barrier. clocks_begin() has given the two their times. */
static void take_over_store(const struct sim_worker *owner, uint32_t offset, struct chunk *chunk) {
    enum { KNOWN_TO_BLOCK = 1, KNOWN_TO_WARP = 2 };
    struct recorder *self = owner->recorder;
    uintptr_t begin =
        (uintptr_t)sim_place_in(NULL, offset, 1, owner->rank).pointer / CHUNK_BYTES * CHUNK_BYTES;
    const struct place *place = place_of(self, begin, WORD_BYTES);
    for (uintptr_t at = begin; place && place->words && at < begin + CHUNK_BYTES && at < place->end;
         at += WORD_BYTES) {
        size_t index = at / WORD_BYTES - place->begin / WORD_BYTES;
        const struct past *write = &place->history[index].write;
        if (place->words[index].block != self->block_count || write->block != self->block_number ||
            past_warp(write) >= CLOCK_WARPS)
            continue;
        chunk->writer = THREADS;
        chunk->agent = (uint16_t)(owner->rank * CLOCK_WARPS + past_warp(write));
        chunk->when = write->time < ((const struct stages *)owner->hopper->stages)->begun ? KNOWN_TO_BLOCK
                                                                                          : KNOWN_TO_WARP;
        if (chunk->when == KNOWN_TO_WARP)
            return;
    }
}

struct chunk *chunk_at(struct sim_worker *owner, uint32_t offset) {
    struct stages *stages = owner->hopper->stages;
    if (!stages || offset / CHUNK_BYTES >= CHUNKS)
        return NULL;
    struct chunk *chunk = &stages->chunk[offset / CHUNK_BYTES];
    if (chunk->block != stages->block) {
        *chunk = (struct chunk){.block = stages->block, .row = NO_ROW};
        if (!stages->began_with_block)
            take_over_store(owner, offset, chunk);
    }
    return chunk;
}

bool chunk_write_is_known(struct warp_clocks *clocks, unsigned warp, const struct chunk *chunk) {
    switch (chunk->writer) {
    case THREADS:
        return *clocks_time(clocks, warp, chunk->agent) >= chunk->when;
    case ASYNCHRONOUS:
        return *clocks_phases(clocks, warp, chunk->agent) > chunk->when;
    default:
        return true;
    }
}

bool chunk_write_is_fenced(struct warp_clocks *clocks, unsigned warp, const struct chunk *chunk) {
    return chunk->writer != THREADS || *clocks_fenced(clocks, warp, chunk->agent) >= chunk->when;
}

static const struct reader *unknown_reader(struct warp_clocks *clocks, unsigned warp,
                                           const struct chunk *chunk) {
    for (unsigned i = 0; i < SIM_MOST_WARPGROUPS; i++) {
        const struct reader *reader = &chunk->reader[i];
        if (reader->time > 0 && reader->warp != warp &&
            *clocks_time(clocks, warp, reader->warp) < reader->time)
            return reader;
    }
    return NULL;
}

static void remember_reader(struct warp_clocks *clocks, struct chunk *chunk, unsigned warp, bool is_product,
                            const struct sim_site *site) {
    unsigned warpgroup = warp % CLOCK_WARPS / 4;
    chunk->reader[warpgroup] = (struct reader){*clocks_time(clocks, warp, warp), (uint16_t)warp, is_product};
    if (is_product)
        chunk->read_site = site;
}

/* ---- Sentences ---- */

static long long place_in(struct sim_worker *owner, uint32_t offset) {
    return owner->shared_memory ? (long long)offset - sim_offset_of(owner, owner->shared_memory) : offset;
}

noreturn void chunk_fault(const struct here *here, sim_report_kind kind, const char *format, ...) {
    char text[800];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (here->site)
        sim_report_call(kind, here->site, "%s byte %lld of shared memory, %s", here->does,
                        place_in(here->owner, here->offset), text);
    struct sim_access_report access = {.kind = kind, .thread = sim_worker->current, .pc = here->pc};
    sim_report_access(&access, "%s byte %lld of shared memory, %s", here->does,
                      place_in(here->owner, here->offset), text);
}

/* A wait for the wrong parity returns at once. `barrier`: the one for which the thread should have waited;
 * NULL: any. */
static void describe_last_wait(const struct sim_mbarrier *barrier, char *text, size_t room) {
    const struct sim_thread *self = sim_worker->current;
    text[0] = '\0';
    if (self->mbarrier && (!barrier || self->mbarrier == barrier) && self->waited_at_once)
        snprintf(text, room,
                 "; its last wait, at %s:%d, was for parity %u and returned at once, for the phase before "
                 "has that "
                 "parity",
                 self->waited_at->file, self->waited_at->line, self->waited_parity);
}

noreturn void chunk_fault_not_waited(const struct here *here, const struct chunk *chunk) {
    const struct sim_worker *counts = sim_worker->cluster->block[chunk->agent / CLOCK_BARRIERS];
    const struct sim_mbarrier *barrier = &counts->hopper->mbarrier[chunk->agent % CLOCK_BARRIERS];
    char wait[300];
    describe_last_wait(barrier, wait, sizeof wait);
    chunk_fault(
        here, SIM_STAGE_RACE,
        "which the copy at %s:%d writes; nothing that this thread comes after has waited for the end of "
        "phase %u "
        "(parity %u) of the mbarrier that counts its bytes, initialised at %s:%d%s",
        chunk->site->file, chunk->site->line, chunk->when, chunk->when % 2, barrier->initialised->file,
        barrier->initialised->line, wait);
}

static noreturn void fault_not_read_yet(const struct here *here, const struct chunk *chunk,
                                        const struct reader *reader) {
    char where[200] = "";
    if (reader->is_product)
        snprintf(where, sizeof where, " by the product at %s:%d", chunk->read_site->file,
                 chunk->read_site->line);
    chunk_fault(
        here, SIM_STAGE_RACE,
        "which warp %u of block %u of the cluster has read%s, and nothing tells this thread that it has",
        reader->warp % CLOCK_WARPS, reader->warp / CLOCK_WARPS, where);
}

noreturn void chunk_fault_stored(const struct here *here, const struct chunk *chunk) {
    chunk_fault(here, SIM_STAGE_RACE,
                "which warp %u of block %u of the cluster has written, with no barrier between",
                chunk->agent % CLOCK_WARPS, chunk->agent / CLOCK_WARPS);
}

noreturn void chunk_fault_not_fenced(const struct here *here, const struct chunk *chunk) {
    chunk_fault(here, SIM_NO_PROXY_FENCE,
                "which warp %u of its block has written by an ordinary store, and no fence.proxy.async is "
                "between: the writers execute it before the barrier",
                chunk->agent % CLOCK_WARPS);
}

/* ---- What threads do ---- */

void stages_access(struct sim_worker *worker, uintptr_t pc, uintptr_t address, counted_operation operation) {
    struct warp_clocks *clocks = clocks_here();
    uint32_t offset = sim_offset_of(worker, (const void *)address);
    struct chunk *chunk = clocks ? chunk_at(worker, offset) : NULL;
    if (!chunk)
        return;
    unsigned warp = clocks_warp(worker, worker->current);
    bool reads = operation == COUNTED_LOAD;
    struct here here = {NULL, pc, worker, offset, reads ? "reads" : "writes"};
    if (chunk->writer == ASYNCHRONOUS && !chunk_write_is_known(clocks, warp, chunk))
        chunk_fault_not_waited(&here, chunk);
    if (reads) {
        remember_reader(clocks, chunk, warp, false, NULL);
        return;
    }
    chunk_check_store(clocks, &here, chunk, warp);
    const struct reader *reader = unknown_reader(clocks, warp, chunk);
    if (reader && reader->is_product)
        fault_not_read_yet(&here, chunk, reader);
    chunk->writer = THREADS;
    chunk->agent = (uint16_t)warp;
    chunk->when = *clocks_time(clocks, warp, warp);
    chunk->row = NO_ROW;
}

/* ---- What TMA and other blocks do ---- */

/* The running thread asks TMA to write bytes that an mbarrier counts. */
static void write_chunk(const struct here *here, const struct sim_mbarrier *barrier, struct chunk written) {
    struct warp_clocks *clocks = clocks_here();
    struct chunk *chunk = clocks ? chunk_at(here->owner, here->offset) : NULL;
    if (!chunk)
        return;
    unsigned warp = clocks_warp(sim_worker, sim_worker->current);
    chunk_check_store(clocks, here, chunk, warp);
    const struct reader *reader = unknown_reader(clocks, warp, chunk);
    if (reader)
        fault_not_read_yet(here, chunk, reader);
    if (!chunk_write_is_known(clocks, warp, chunk)) {
        if (chunk->writer == ASYNCHRONOUS)
            chunk_fault_not_waited(here, chunk);
        chunk_fault_stored(here, chunk);
    }
    written.block = chunk->block;
    written.writer = ASYNCHRONOUS;
    written.agent = (uint16_t)clocks_barrier(here->owner, barrier);
    written.when = barrier->completed;
    written.site = here->site;
    *chunk = written;
}

void stages_copy(const struct sim_site *site, const struct sim_tensor_copy *copy, struct sim_place to,
                 const struct sim_mbarrier *barrier) {
    const struct sim_box *box = &copy->box;
    size_t rows = sim_box_rows(box), row_bytes = sim_box_row_bytes(box);
    uint32_t base = sim_offset_of(to.owner, to.pointer);
    for (size_t row = 0; row < rows; row++)
        for (size_t at = 0; at < row_bytes; at += CHUNK_BYTES) {
            uint32_t offset = sim_box_chunk(box, base, row, at);
            struct chunk written = {
                .swizzle = box->map.swizzle, .row = (uint16_t)row, .column = (uint16_t)(at / CHUNK_BYTES)};
            struct here here = {site, 0, to.owner, offset, "copies to"};
            write_chunk(&here, barrier, written);
        }
}

void stages_store_from_block(const struct sim_site *site, struct sim_place to,
                             const struct sim_mbarrier *barrier) {
    uint32_t offset = sim_offset_of(to.owner, to.pointer);
    struct here here = {site, 0, to.owner, offset, "stores to"};
    struct warp_clocks *clocks = clocks_here();
    struct chunk *chunk = clocks ? chunk_at(to.owner, offset) : NULL;
    if (!chunk)
        return;
    unsigned barrier_number = clocks_barrier(to.owner, barrier);
    /* several blocks store to the same 16 bytes in one phase */
    if (chunk->writer != ASYNCHRONOUS || chunk->agent != barrier_number || chunk->when != barrier->completed)
        write_chunk(&here, barrier, (struct chunk){.row = NO_ROW});
}

/* ---- What wgmma does ---- */

struct operand {
    const struct sim_product *product;
    const struct sim_thread *warpgroup;
    const char *name;
    struct sim_matrix_descriptor tile;
    unsigned rows;  /* in memory */
    unsigned parts; /* 16 bytes of a row */
};

static void check_order(const struct operand *operand, struct chunk *chunk, uint32_t offset) {
    struct warp_clocks *clocks = clocks_here();
    struct here here = {operand->product->site, 0, sim_worker, offset, "multiplies"};
    const struct stages *stages = sim_worker->hopper->stages;
    if (chunk->writer == NOBODY && stages->began_with_block) {
        char wait[300];
        describe_last_wait(NULL, wait, sizeof wait);
        chunk_fault(&here, SIM_UNINITIALISED, "which nobody has written%s", wait);
    }
    for (unsigned i = 0; i < SIM_WARPGROUP_THREADS / SIM_WARP_THREADS; i++) {
        const struct sim_thread *thread = &operand->warpgroup[i * SIM_WARP_THREADS];
        unsigned warp = clocks_warp(sim_worker, thread);
        bool known = chunk_write_is_known(clocks, warp, chunk);
        if (known && chunk_write_is_fenced(clocks, warp, chunk))
            continue;
        sim_worker->current = (struct sim_thread *)thread;
        if (chunk->writer == ASYNCHRONOUS)
            chunk_fault_not_waited(&here, chunk);
        if (!known)
            chunk_fault_stored(&here, chunk);
        chunk_fault_not_fenced(&here, chunk);
    }
}

/* The rows of a tile are consecutive rows of a box, continued from the first row of the next box.
 */
static void check_layout(const struct operand *operand, const struct chunk *chunk, unsigned row,
                         const struct chunk *above, const struct chunk *first) {
    if (chunk->row == NO_ROW)
        return;
    const struct sim_site *site = operand->product->site;
    unsigned bytes = 16u << chunk->swizzle;
    if (bytes != operand->tile.row_bytes)
        sim_report_call(
            SIM_WRONG_LAYOUT, site,
            "multiplies %s by a descriptor for rows of %u bytes (a swizzle of as many), and the copy at "
            "%s:%d wrote it with a swizzle of %u bytes",
            operand->name, operand->tile.row_bytes, chunk->site->file, chunk->site->line,
            chunk->swizzle ? bytes : 0);
    bool follows = !above || above->row == NO_ROW || chunk->row == above->row + 1 || chunk->row == 0;
    if (!follows || (first->row != NO_ROW && chunk->column != first->column))
        sim_report_call(
            SIM_WRONG_LAYOUT, site,
            "multiplies %s by a descriptor that finds, as its row %u, 16 bytes number %u of row %u of "
            "the box that the copy at %s:%d wrote; the row before was row %u, from its number %u on",
            operand->name, row, chunk->column, chunk->row, chunk->site->file, chunk->site->line,
            above ? above->row : 0, first->column);
}

static void check_operand(const struct operand *operand) {
    struct warp_clocks *clocks = clocks_here();
    unsigned reader = clocks_warp(sim_worker, operand->warpgroup);
    for (unsigned part = 0; part < operand->parts; part++) {
        const struct chunk *above = NULL, *first = NULL;
        for (unsigned row = 0; row < operand->rows; row++) {
            uint32_t offset = sim_chunk_address(&operand->tile, row, part);
            struct chunk *chunk = chunk_at(sim_worker, offset);
            if (!chunk)
                return;
            first = first ? first : chunk;
            check_order(operand, chunk, offset);
            check_layout(operand, chunk, row, above, first);
            remember_reader(clocks, chunk, reader, true, operand->product->site);
            above = chunk;
        }
    }
}

void stages_product(const struct sim_product *product, const struct sim_thread *warpgroup) {
    enum { ROWS = 64, PARTS = 2, MOST_K = 16, IN_CHUNK = 8 };
    const struct sim_wgmma *asked = &product->asked;
    if (!clocks_here())
        return;
    struct operand x = {product, warpgroup, "x", sim_read_descriptor(asked->x, asked->x_transposed),
                        ROWS,    PARTS};
    struct operand w = {
        product, warpgroup, "w", sim_read_descriptor(asked->w, asked->w_transposed), (unsigned)asked->columns,
        PARTS};
    /* A transposed factor has 16 bits, and a row in memory for each k. */
    if (asked->x_transposed)
        x.rows = MOST_K, x.parts = ROWS / IN_CHUNK;
    if (asked->w_transposed)
        w.rows = MOST_K, w.parts = (unsigned)asked->columns / IN_CHUNK;
    if (!asked->x_in_registers)
        check_operand(&x);
    check_operand(&w);
}
