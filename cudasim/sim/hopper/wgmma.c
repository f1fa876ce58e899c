/* wgmma: products that a warpgroup's 128 threads ask for together and wait for later. PTX ISA, section
 * "Asynchronous Warpgroup Level Matrix Instructions".
 *
 * Each thread keeps a list of the products that it has asked for. When all threads of the warpgroup wait for
 * a group of them, the last thread reads shared memory and adds to the sums of all. */
#include "async.h"
#include "watch_hopper.h"
#include <stdlib.h>

enum { PRODUCTS_TOGETHER = SIM_WARPGROUP_THREADS };

static unsigned number_of(const struct sim_thread *thread) {
    return (unsigned)(thread - sim_worker->block.threads);
}

void sim_forget_products(struct sim_thread *thread) {
    thread->products.count = 0;
    thread->products.groups = 0;
}

struct sim_matrix_descriptor sim_read_descriptor(uint64_t descriptor, bool is_transposed) {
    /* bits 62 and 63: no swizzle, 128, 64, 32 bytes */
    static const unsigned row_bytes[4] = {16, 128, 64, 32};
    return (struct sim_matrix_descriptor){.address = (uint32_t)(descriptor & 0x3fff) << 4,
                                          .leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
                                          .stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4,
                                          .row_bytes = row_bytes[descriptor >> 62],
                                          .is_transposed = is_transposed};
}

/* Rows are along k. Without a swizzle each 16 bytes of k are a separate matrix, `leading` apart. */
static uint32_t chunk_along_k(const struct sim_matrix_descriptor *tile, unsigned row, unsigned chunk) {
    uint32_t address = tile->address + row / 8 * tile->stride + row % 8 * tile->row_bytes;
    if (tile->row_bytes == 16)
        return address + chunk * tile->leading;
    return sim_swizzled(address + chunk * 16, tile->row_bytes / 16 - 1);
}

/* Rows are across k, in atoms of eight; PTX ISA, "Strides" and the layouts of "MN-major". */
static uint32_t chunk_across_k(const struct sim_matrix_descriptor *tile, unsigned row, unsigned chunk) {
    if (tile->row_bytes == 16)
        return tile->address + chunk * tile->stride + row / 8 * tile->leading + row % 8 * 16;
    unsigned chunks = tile->row_bytes / 16; /* of an atom's row */
    uint32_t address = tile->address + chunk / chunks * tile->leading + row / 8 * tile->stride +
                       row % 8 * tile->row_bytes + chunk % chunks * 16;
    return sim_swizzled(address, chunks - 1);
}

uint32_t sim_chunk_address(const struct sim_matrix_descriptor *tile, unsigned row, unsigned chunk) {
    return tile->is_transposed ? chunk_across_k(tile, row, chunk) : chunk_along_k(tile, row, chunk);
}

void sim_fence_proxy_async(const struct sim_site *site) {
    (void)site;
    if (WATCHED)
        watch_proxy_fence();
}

void sim_setmaxnreg(const struct sim_site *site, unsigned count) {
    enum { FEWEST = 24, MOST = 256 };
    if (count % 8 || count < FEWEST || count > MOST)
        sim_report_call(SIM_MBARRIER_MISUSE, site, "sets %u registers, no multiple of 8 from %d to %d", count,
                        FEWEST, MOST);
}

static void ask(const struct sim_site *site, float *sum, const struct sim_wgmma *product) {
    struct sim_thread *self = sim_current(sim_worker);
    struct sim_products *products = &self->products;
    sim_worker->block.is_asynchronous = true;
    unsigned first = number_of(self) / SIM_WARPGROUP_THREADS * SIM_WARPGROUP_THREADS;
    if (first + SIM_WARPGROUP_THREADS > sim_worker->block.size)
        sim_report_call(SIM_MISSING_LANE, site,
                        "asks for a product of a warpgroup, and its block of %u threads "
                        "has no whole one here",
                        sim_worker->block.size);
    if (products->count == products->capacity) {
        enum { FIRST_CAPACITY = 16 };
        unsigned capacity = products->capacity ? 2 * products->capacity : FIRST_CAPACITY;
        struct sim_product *pending = realloc(products->pending, capacity * sizeof *pending);
        if (!pending) {
            sim_report_no_memory();
            sim_block_abandon();
        }
        products->pending = pending;
        products->capacity = capacity;
    }
    if (WATCHED)
        watch_product_asked(site, sum, product);
    struct sim_product *pending = &products->pending[products->count++];
    *pending = (struct sim_product){sum, *product, site, products->groups};
    for (unsigned i = 0; i < 4; i++)
        if (product->register_at[i])
            memcpy(&pending->asked.value[i], product->register_at[i], sizeof pending->asked.value[i]);
}

void sim_wgmma(const struct sim_site *site, float *sum, int columns, enum sim_factors factors, uint64_t x,
               uint64_t w, bool accumulate) {
    struct sim_wgmma product = {.columns = columns,
                                .x_factors = factors,
                                .w_factors = factors,
                                .x = x,
                                .w = w,
                                .accumulate = accumulate};
    ask(site, sum, &product);
}

void sim_wgmma_with(const struct sim_site *site, float *sum, const struct sim_wgmma *product) {
    ask(site, sum, product);
}

void sim_wgmma_sums_are_scattered(const struct sim_site *site) {
    sim_report_call(SIM_WRONG_LAYOUT, site,
                    "multiplies by wgmma into registers that are not the elements of one array, in order; "
                    "on the simulator they have to be");
}

void sim_wgmma_fence(void) {
    if (WATCHED)
        watch_registers_fenced();
}

void sim_wgmma_commit(void) {
    sim_worker->block.is_asynchronous = true;
    sim_current(sim_worker)->products.groups++;
}

/* The number of a thread's products in groups older than its latest `groups_in_flight`. */
static unsigned due(const struct sim_products *products, unsigned groups_in_flight) {
    unsigned count = 0;
    while (count < products->count && products->pending[count].group + groups_in_flight < products->groups)
        count++;
    return count;
}

static bool is_same(const struct sim_wgmma *a, const struct sim_wgmma *b) {
    return (a->x_in_registers || a->x == b->x) && a->w == b->w && a->columns == b->columns &&
           a->x_factors == b->x_factors && a->w_factors == b->w_factors &&
           a->x_in_registers == b->x_in_registers && a->x_transposed == b->x_transposed &&
           a->w_transposed == b->w_transposed && a->x_negated == b->x_negated &&
           a->w_negated == b->w_negated && a->accumulate == b->accumulate;
}

/* All 128 threads execute the same instruction with the same tiles. */
static void check_agreement(const struct sim_thread *warpgroup, unsigned number) {
    const struct sim_product *product = &warpgroup[0].products.pending[number];
    for (unsigned i = 1; i < SIM_WARPGROUP_THREADS; i++) {
        const struct sim_products *others = &warpgroup[i].products;
        if (number >= others->count || !is_same(&others->pending[number].asked, &product->asked)) {
            sim_worker->current = (struct sim_thread *)&warpgroup[i];
            sim_report_call(SIM_MISSING_LANE, product->site,
                            "does not ask for the same product as thread %u of the block, which is in its "
                            "warpgroup",
                            number_of(warpgroup));
        }
    }
}

static void multiply(struct sim_thread *warpgroup, unsigned count) {
    for (unsigned number = 0; number < count; number++) {
        check_agreement(warpgroup, number);
        const struct sim_product *product = &warpgroup[0].products.pending[number];
        if (WATCHED)
            watch_product(product, warpgroup);
        sim_multiply_tiles(product, warpgroup, number);
    }
    for (unsigned i = 0; i < SIM_WARPGROUP_THREADS; i++) {
        struct sim_products *products = &warpgroup[i].products;
        products->count -= count;
        memmove(products->pending, products->pending + count, products->count * sizeof *products->pending);
    }
}

void sim_wgmma_wait(const struct sim_site *site, unsigned groups_in_flight) {
    struct sim_thread *self = sim_current(sim_worker);
    unsigned count = due(&self->products, groups_in_flight);
    if (count == 0)
        return;
    unsigned number = number_of(self) / SIM_WARPGROUP_THREADS;
    struct sim_warpgroup *warpgroup = &sim_hopper_here()->warpgroup[number];
    self->site = site;
    sim_queue_append(&warpgroup->waiting, self);
    if (++warpgroup->arrived < SIM_WARPGROUP_THREADS) {
        sim_block_wait(SIM_WAITS_FOR_WARPGROUP, site);
        return;
    }
    multiply(&sim_worker->block.threads[number * SIM_WARPGROUP_THREADS], count);
    if (WATCHED)
        watch_threads_met(&warpgroup->waiting);
    warpgroup->arrived = 0;
    sim_wake(sim_worker, &warpgroup->waiting);
    sim_block_wait(SIM_RUNS, site);
}
