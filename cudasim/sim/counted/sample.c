/* A sample runs some blocks of a launch. What it keeps of them predicts what all blocks ask of a GPU's caches
 * and how often warps come to each place of the code.
 *
 *   L1          Blocks of one multiprocessor are rarely neighbours, so each has a share of the cache for
 *               itself: lines of 128 bytes that are filled sector by sector, the latest used ones in sets of
 *               eight. Writes and atomics go past it. The warps take turns after a few accesses (requests.c).
 *   L2          Only which sectors each block asks it for: whoever has several blocks sees how much they
 * share. the code    The basic blocks that the compiler made for this processor, by the line that they stand
 * for.
 */
#include "../watch.h"
#include "recorder.h"
#include <stdlib.h>

enum { LINE_BYTES = LINE_SECTORS * SECTOR_BYTES, L1_WAYS = 8 };
enum { READ = 1, WRITTEN = 2, UPDATED = 4, SECTOR_FLAGS = 3 };
static const uint64_t SPREAD = 0x9e3779b97f4a7c15ull; /* 2^64 divided by the golden ratio */

/* ---- Memory ---- */

static void forget_blocks(struct sample *self) {
    for (size_t i = 0; i < self->block_count; i++)
        free(self->blocks[i].sectors);
    self->block_count = 0;
}

void sample_free(struct sample *self) {
    forget_blocks(self);
    free(self->l1);
    free(self->touched);
    free(self->blocks);
    free(self->passed);
}

void sample_worker_begins(struct sample *self) {
    sample_free(self);
    memset(self, 0, sizeof *self);
    uint64_t bytes = session_sampled_l1_bytes(), set_bytes = LINE_BYTES * L1_WAYS;
    if (bytes == 0)
        return;
    enum { FIRST_SIZE = 1 << 12 };
    self->l1_sets = (unsigned)(bytes < set_bytes ? 1 : bytes / set_bytes);
    self->l1 = malloc(self->l1_sets * L1_WAYS * sizeof *self->l1);
    self->touched_size = FIRST_SIZE;
    self->touched = malloc(self->touched_size * sizeof *self->touched);
    self->passed = malloc(MOST_PASSED * sizeof *self->passed);
    self->is_on = self->l1 && self->touched && self->passed;
}

void sample_block_begins(struct sample *self) {
    if (!self->is_on)
        return;
    memset(self->waited, 0, sizeof self->waited);
    memset(self->l1, 0, self->l1_sets * L1_WAYS * sizeof *self->l1);
    memset(self->touched, 0, self->touched_size * sizeof *self->touched);
    self->touched_count = 0;
    for (unsigned i = 0; i < self->passed_count; i++)
        memset(self->passed[i].of_thread, 0, sizeof self->passed[i].of_thread);
}

/* ---- L2 ---- */

static uint64_t *place_in(uint64_t *table, uint64_t size, uint64_t sector) {
    uint64_t place = (sector * SPREAD >> 32) & (size - 1);
    while (table[place] && table[place] >> SECTOR_FLAGS != sector)
        place = (place + 1) & (size - 1);
    return &table[place];
}

static bool have_room(struct sample *self) {
    if (2 * self->touched_count < self->touched_size)
        return true;
    uint64_t size = 2 * self->touched_size;
    uint64_t *table = calloc(size, sizeof *table);
    if (!table)
        return false;
    for (uint64_t i = 0; i < self->touched_size; i++)
        if (self->touched[i])
            *place_in(table, size, self->touched[i] >> SECTOR_FLAGS) = self->touched[i];
    free(self->touched);
    self->touched = table;
    self->touched_size = size;
    return true;
}

static void touch(struct sample *self, uint64_t sector, unsigned flags) {
    if (!have_room(self))
        return;
    uint64_t *place = place_in(self->touched, self->touched_size, sector);
    self->touched_count += *place == 0;
    if (flags == READ && *place & WRITTEN)
        return; /* it reads what it has written itself */
    *place |= sector << SECTOR_FLAGS | flags;
}

/* ---- L1 ---- */

/* Returns which of the wanted sectors are missing, and adds them. `waits`: the warp waits for one of them.
 *
 * A warp's time is how often it has waited. What it asks for is there when it has waited once more. So what
 * several warps ask for side by side all of them wait for, and what another one asked for earlier is there
 * for a warp that has since waited as long itself. */
static unsigned missing_in_l1(struct sample *self, uint64_t line, unsigned wanted, unsigned now,
                              bool *waits) {
    struct l1_line *set = &self->l1[(line * SPREAD >> 32) % self->l1_sets * L1_WAYS], *found = set;
    for (unsigned way = 0; way < L1_WAYS; way++) {
        if (set[way].line == line + 1) {
            found = &set[way];
            break;
        }
        if (set[way].used < found->used)
            found = &set[way];
    }
    if (found->line != line + 1)
        *found = (struct l1_line){.line = line + 1};
    unsigned missing = wanted & ~found->sectors;
    found->sectors |= wanted;
    found->used = ++self->l1_time;
    for (unsigned sector = 0; sector < LINE_SECTORS; sector++)
        if (wanted >> sector & 1) {
            /* One that is less far here is so only because warps take turns. */
            if (missing >> sector & 1 || found->asked[sector] > now)
                found->asked[sector] = now;
            *waits |= found->asked[sector] == now;
        }
    return missing;
}

void sample_request(struct sample *self, struct tally *tally, counted_operation operation,
                    const uintptr_t addresses[SIM_WARP_THREADS], unsigned warp) {
    uint64_t lines[SIM_WARP_THREADS];
    unsigned wanted[SIM_WARP_THREADS], count = 0;
    for (unsigned lane = 0; lane < SIM_WARP_THREADS; lane++) {
        uint64_t line = addresses[lane] / LINE_BYTES;
        unsigned sector = 1u << addresses[lane] / SECTOR_BYTES % LINE_SECTORS, i = count;
        while (i > 0 && lines[i - 1] != line)
            i--;
        if (i == 0) {
            lines[count] = line;
            wanted[count++] = sector;
        } else {
            wanted[i - 1] |= sector;
        }
    }
    tally->lines += count;
    bool waits = false;
    unsigned missed = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned asked = wanted[i];
        if (operation == COUNTED_LOAD) {
            asked = missing_in_l1(self, lines[i], wanted[i], self->waited[warp], &waits);
            missed += (unsigned)__builtin_popcount(asked);
        }
        for (; asked; asked &= asked - 1)
            touch(self, lines[i] * LINE_SECTORS + (unsigned)__builtin_ctz(asked),
                  operation == COUNTED_LOAD    ? READ
                  : operation == COUNTED_STORE ? WRITTEN
                                               : READ | WRITTEN | UPDATED);
    }
    tally->missed += missed;
    self->waited[warp] += waits;
    tally->waits += waits;
    tally->first_requests += warp == 0;
    tally->first_waits += warp == 0 && waits;
}

/* At a barrier the warps wait for the one that has waited oftenest. */
void sample_barrier_passed(struct sample *self) {
    enum { WARPS = sizeof self->waited / sizeof *self->waited };
    unsigned most = 0;
    for (unsigned warp = 0; warp < WARPS; warp++)
        most = self->waited[warp] > most ? self->waited[warp] : most;
    for (unsigned warp = 0; warp < WARPS; warp++)
        self->waited[warp] = most;
}

/* ---- The code ---- */

static struct passed_block *passed_at(struct sample *self, uintptr_t pc) {
    unsigned place = (unsigned)(pc * SPREAD >> 32) % PASSED_PLACES;
    while (self->passed_at[place] && self->passed[self->passed_at[place] - 1].pc != pc)
        place = (place + 1) % PASSED_PLACES;
    if (self->passed_at[place])
        return &self->passed[self->passed_at[place] - 1];
    if (self->passed_count == MOST_PASSED)
        return NULL;
    struct passed_block *passed = &self->passed[self->passed_count++];
    memset(passed, 0, sizeof *passed);
    passed->pc = pc;
    self->passed_at[place] = (uint16_t)self->passed_count;
    return passed;
}

void sample_basic_block(struct sample *self, uintptr_t pc, unsigned thread) {
    struct passed_block *passed = passed_at(self, pc);
    if (passed)
        passed->of_thread[thread]++;
}

/* ---- The block's end, and the launch's ---- */

static void keep_sectors(struct sample *self, uint64_t block) {
    if (self->block_count == self->block_capacity) {
        size_t capacity = self->block_capacity ? 2 * self->block_capacity : 64;
        struct block_sectors *larger = realloc(self->blocks, capacity * sizeof *larger);
        if (!larger)
            return;
        self->blocks = larger;
        self->block_capacity = capacity;
    }
    struct block_sectors *kept = &self->blocks[self->block_count];
    *kept = (struct block_sectors){.block = block};
    kept->sectors = malloc((self->touched_count + 1) * sizeof *kept->sectors);
    if (!kept->sectors)
        return;
    for (uint64_t i = 0; i < self->touched_size; i++)
        if (self->touched[i])
            kept->sectors[kept->count++] = self->touched[i];
    self->block_count++;
}

void sample_block_ends(struct recorder *recorded) {
    struct sample *self = &recorded->sample;
    unsigned threads = recorded->worker->block.size;
    if (!self->is_on)
        return;
    keep_sectors(self, recorded->block_number - 1);
    for (unsigned i = 0; i < self->passed_count; i++) {
        struct passed_block *passed = &self->passed[i];
        uint32_t slowest = 0;
        for (unsigned first = 0; first < threads; first += SIM_WARP_THREADS) {
            uint32_t most = 0;
            for (unsigned t = first; t < threads && t < first + SIM_WARP_THREADS; t++) {
                most = passed->of_thread[t] > most ? passed->of_thread[t] : most;
                passed->threads += passed->of_thread[t];
            }
            passed->warps += most;
            slowest = most > slowest ? most : slowest;
        }
        passed->slowest += slowest;
        passed->most = slowest > passed->most ? slowest : passed->most;
    }
}

static void add_passed(const struct passed_block *passed, counted_basic_block *all, unsigned *count) {
    unsigned i = 0;
    while (i < *count && all[i].pc != passed->pc)
        i++;
    if (i == *count) {
        all[(*count)++] = (counted_basic_block){.pc = passed->pc};
        all[i].library = sim_library_of(passed->pc, &all[i].offset);
    }
    all[i].warps += passed->warps;
    all[i].slowest += passed->slowest;
    all[i].most = passed->most > all[i].most ? passed->most : all[i].most;
    all[i].threads += passed->threads;
}

void sample_launch_ends(struct recorder *first, uint64_t launch, counted_launch *result) {
    size_t passed = 0, blocks = 0;
    for (const struct recorder *self = first; self; self = self->next)
        if (self->launch == launch && self->sample.is_on) {
            passed += self->sample.passed_count;
            blocks += self->sample.block_count;
        }
    counted_basic_block *basic_blocks = calloc(passed + 1, sizeof *basic_blocks);
    counted_block *all = calloc(blocks + 1, sizeof *all);
    for (struct recorder *self = first; basic_blocks && all && self; self = self->next) {
        if (self->launch != launch || !self->sample.is_on)
            continue;
        for (unsigned i = 0; i < self->sample.passed_count; i++)
            add_passed(&self->sample.passed[i], basic_blocks, &result->basic_block_count);
        for (size_t i = 0; i < self->sample.block_count; i++) {
            const struct block_sectors *of = &self->sample.blocks[i];
            all[result->block_count++] = (counted_block){of->block, of->count, of->sectors};
        }
        self->sample.block_count = 0; /* the result has them now */
    }
    result->basic_blocks = basic_blocks;
    result->blocks = all;
}

void sample_free_results(const counted_launch *launch) {
    for (uint64_t i = 0; i < launch->block_count; i++)
        free((void *)launch->blocks[i].sectors);
    free((void *)launch->blocks);
    free((void *)launch->basic_blocks);
}
