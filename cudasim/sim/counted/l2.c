/* An L2 cache between the blocks and DRAM: which of a launch's reads and writes pass it.
 *
 * What is modelled: the blocks of a grid run in waves, as many at once as the GPU's multiprocessors hold (by
 * threads, blocks and dynamic shared memory; registers are not known here). A wave asks DRAM at most once for
 * a sector. The cache holds whole sectors, the latest used ones, and is empty when the launch begins, as
 * under ncu. A written sector stays until its place is needed, and then goes to DRAM; if it comes back and is
 * written again, it goes there again. What remains at the end counts as written too.
 *
 * What is not modelled: the order inside a wave, L1 caches, the halves of an H200's L2, and data fetched
 * beyond what was asked for. */
#define _GNU_SOURCE
#include "../watch.h"
#include "recorder.h"
#include <stdlib.h>
#include <sys/mman.h>

/* ---- The GPU ---- */

enum { SM_THREADS = 2048, SM_BLOCKS = 32, SM_SHARED_BYTES = 228 << 10, RESERVED_BYTES_A_BLOCK = 1 << 10 };

static uint64_t capacity_in_sectors(void) {
    return session_gpu().l2_bytes / SECTOR_BYTES;
}

static uint64_t blocks_at_once(const struct sim_launch *launch) {
    uint64_t warps =
        (launch->block.x * launch->block.y * launch->block.z + SIM_WARP_THREADS - 1) / SIM_WARP_THREADS;
    uint64_t blocks = SM_THREADS / (warps * SIM_WARP_THREADS);
    uint64_t by_memory = SM_SHARED_BYTES / (launch->dynamic_shared_bytes + RESERVED_BYTES_A_BLOCK);
    blocks = blocks < by_memory ? blocks : by_memory;
    blocks = blocks < SM_BLOCKS ? blocks : SM_BLOCKS;
    return (blocks ? blocks : 1) * session_gpu().multiprocessors;
}

/* ---- Touches: the first read and the first write of a sector in a wave ---- */

enum { SECTOR_BITS = 42, MOST_WAVES = 1 << 21 };
static uint64_t wave_blocks; /* 0: the launch is one wave, or too many; nothing is kept */
static unsigned wave_count;

void l2_launch_begins(const struct sim_launch *launch) {
    wave_blocks = blocks_at_once(launch);
    uint64_t waves = (launch->grid_blocks + wave_blocks - 1) / wave_blocks;
    wave_count = (unsigned)waves;
    if (waves == 1 || waves >= MOST_WAVES)
        wave_blocks = 0;
}

void l2_free(struct l2 *self) {
    free(self->touches);
}

void l2_block_begins(struct recorder *self) {
    uint64_t block = self->block_number - 1;
    self->l2.wave = wave_blocks ? (unsigned)(block / wave_blocks) + 1 : 0;
}

void l2_touch(struct l2 *self, uint32_t *latest, uint64_t sector, bool writes) {
    uint32_t now = self->wave << 1 | writes;
    if ((*latest | 1) == (now | 1) && *latest >= now)
        return;
    __atomic_store_n(latest, now, __ATOMIC_RELAXED); /* lost updates only mean that it is kept twice */
    if (self->count == self->capacity) {
        size_t larger = self->capacity ? 2 * self->capacity : 1 << 16;
        uint64_t *memory = realloc(self->touches, larger * sizeof *memory);
        if (!memory)
            return;
        self->touches = memory;
        self->capacity = larger;
    }
    self->touches[self->count++] = ((uint64_t)self->wave << SECTOR_BITS | sector) << 1 | writes;
}

static unsigned wave_of(uint64_t touch) {
    return (unsigned)(touch >> (SECTOR_BITS + 1));
}

static uint64_t sector_of(uint64_t touch) {
    return touch >> 1 & ((1ull << SECTOR_BITS) - 1);
}

/* Takes all touches, wave by wave. */
static uint64_t *sorted_touches(struct recorder *first, size_t *count) {
    size_t *begins = calloc(wave_count + 2, sizeof *begins);
    *count = 0;
    for (const struct recorder *self = first; self; self = self->next)
        *count += self->l2.count;
    uint64_t *sorted = malloc((*count + 1) * sizeof *sorted);
    if (begins && sorted) {
        for (const struct recorder *self = first; self; self = self->next)
            for (size_t i = 0; i < self->l2.count; i++)
                begins[wave_of(self->l2.touches[i]) + 1]++;
        for (unsigned wave = 1; wave < wave_count + 2; wave++)
            begins[wave] += begins[wave - 1];
        for (const struct recorder *self = first; self; self = self->next)
            for (size_t i = 0; i < self->l2.count; i++)
                sorted[begins[wave_of(self->l2.touches[i])]++] = self->l2.touches[i];
    } else {
        free(sorted);
        sorted = NULL;
    }
    free(begins);
    return sorted;
}

/* ---- The cache ---- */

/* The number of sectors last used in each wave, as a Fenwick tree, which sums a range in few steps. */
static void add_to(uint64_t *tree, unsigned wave, uint64_t number) {
    for (; wave <= wave_count; wave += wave & -wave)
        tree[wave] += number;
}

static uint64_t sum_to(const uint64_t *tree, unsigned wave) {
    uint64_t sum = 0;
    for (; wave > 0; wave -= wave & -wave)
        sum += tree[wave];
    return sum;
}

struct sector_state {
    uint32_t wave; /* of the latest use; 0: none */
    bool is_dirty;
};

static void use(struct sector_state *state, uint64_t *tree, uint64_t *used, unsigned wave, bool writes,
                counted_launch *result) {
    bool is_there = false;
    if (state->wave) {
        uint64_t used_since = *used - sum_to(tree, state->wave - 1); /* that wave's own among them */
        is_there = state->wave == wave || used_since <= capacity_in_sectors();
        add_to(tree, state->wave, (uint64_t)-1);
        (*used)--;
    }
    if (!is_there) {
        result->dram_sectors_read += !writes;
        result->dram_sectors_written += state->is_dirty;
        state->is_dirty = false;
    }
    state->is_dirty |= writes;
    state->wave = wave;
    add_to(tree, wave, 1);
    (*used)++;
}

void l2_launch_ends(struct recorder *first, counted_launch *result) {
    result->dram_sectors_read = result->sectors_read;
    result->dram_sectors_written = result->sectors_written;
    size_t count;
    uint64_t *touches = wave_blocks ? sorted_touches(first, &count) : NULL;
    uint64_t *tree = calloc(wave_count + 1, sizeof *tree);
    uint64_t lowest = UINT64_MAX, highest = 0;
    for (size_t i = 0; touches && i < count; i++) {
        uint64_t sector = sector_of(touches[i]);
        lowest = sector < lowest ? sector : lowest;
        highest = sector > highest ? sector : highest;
    }
    if (touches && tree && count > 0) {
        size_t bytes = (highest - lowest + 1) * sizeof(struct sector_state);
        struct sector_state *states =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (states != MAP_FAILED) {
            uint64_t used = 0;
            result->dram_sectors_read = result->dram_sectors_written = 0;
            for (size_t i = 0; i < count; i++)
                use(&states[sector_of(touches[i]) - lowest], tree, &used, wave_of(touches[i]), touches[i] & 1,
                    result);
            result->dram_sectors_written += result->sectors_written; /* what is left in the end */
            munmap(states, bytes);
        }
    }
    free(tree);
    free(touches);
    for (struct recorder *self = first; self; self = self->next)
        self->l2.count = 0;
}
