/* Clocks as trees that share common parts; clock.h explains them. */
#include "clock.h"
#include "../machine.h"
#include <stdlib.h>

enum { BRANCH_BITS = 4, BRANCHES = 1 << BRANCH_BITS, CHUNK_BYTES = 1 << 16 };

struct clock_arena {
    struct clock_arena *next;
    _Alignas(16) unsigned char bytes[];
};

/* On level 0: the knowledge of one block. */
struct known_block {
    uint32_t all;
    uint32_t count;
    struct known_thread threads[];
};

struct node {
    const void *branch[BRANCHES]; /* nodes of the level below, or known blocks */
};

void clock_free_all(struct clock_memory *memory) {
    while (memory->arenas) {
        struct clock_arena *next = memory->arenas->next;
        free(memory->arenas);
        memory->arenas = next;
    }
    memory->next = memory->end = NULL;
}

/* Ends the launch with a report when there is no memory left. */
static void *take(struct clock_memory *memory, size_t bytes) {
    bytes = (bytes + 15) / 16 * 16;
    if ((size_t)(memory->end - memory->next) < bytes) {
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        struct clock_arena *arena = malloc(sizeof *arena + size);
        if (!arena) {
            sim_report_no_memory();
            sim_block_abandon();
        }
        arena->next = memory->arenas;
        memory->arenas = arena;
        memory->next = arena->bytes;
        memory->end = arena->bytes + size;
    }
    void *taken = memory->next;
    memory->next += bytes;
    return taken;
}

unsigned clock_levels(uint64_t blocks) {
    unsigned levels = 1;
    while (levels * BRANCH_BITS < 64 && blocks >> (levels * BRANCH_BITS))
        levels++;
    return levels;
}

static unsigned branch_of(uint64_t block, unsigned level) {
    return block >> (level * BRANCH_BITS) & (BRANCHES - 1);
}

const struct clock *clock_of_block(struct clock_memory *memory, unsigned levels, uint64_t block, uint32_t all,
                                   const struct known_thread *threads, unsigned count) {
    struct known_block *leaf = take(memory, sizeof *leaf + count * sizeof *threads);
    leaf->all = all;
    leaf->count = count;
    memcpy(leaf->threads, threads, count * sizeof *threads);
    const void *below = leaf;
    for (unsigned level = 0; level < levels; level++) {
        struct node *node = take(memory, sizeof *node);
        *node = (struct node){{NULL}};
        node->branch[branch_of(block, level)] = below;
        below = node;
    }
    return below;
}

/* ---- Joins: if one of the two already knows all, it is the result, and no memory is allocated ---- */

static uint32_t time_in(const struct known_block *known, unsigned thread) {
    uint32_t time = known->all;
    for (unsigned i = 0; i < known->count && known->threads[i].thread <= thread; i++)
        if (known->threads[i].thread == thread && known->threads[i].time > time)
            time = known->threads[i].time;
    return time;
}

static bool contains(const struct known_block *more, const struct known_block *less) {
    if (less->all > more->all)
        return false;
    for (unsigned i = 0; i < less->count; i++)
        if (less->threads[i].time > time_in(more, less->threads[i].thread))
            return false;
    return true;
}

static const struct known_block *join_blocks(struct clock_memory *memory, const struct known_block *a,
                                             const struct known_block *b) {
    if (contains(a, b))
        return a;
    if (contains(b, a))
        return b;
    struct known_block *joined =
        take(memory, sizeof *joined + (a->count + b->count) * sizeof *joined->threads);
    joined->all = a->all > b->all ? a->all : b->all;
    joined->count = 0;
    unsigned i = 0, j = 0;
    while (i < a->count || j < b->count) {
        bool from_a = j == b->count || (i < a->count && a->threads[i].thread <= b->threads[j].thread);
        bool from_b = i == a->count || (j < b->count && b->threads[j].thread <= a->threads[i].thread);
        struct known_thread known = from_a ? a->threads[i] : b->threads[j];
        if (from_a && from_b && b->threads[j].time > known.time)
            known.time = b->threads[j].time;
        i += from_a;
        j += from_b;
        if (known.time > joined->all)
            joined->threads[joined->count++] = known;
    }
    return joined;
}

static const void *join_nodes(struct clock_memory *memory, unsigned levels, const void *a, const void *b) {
    if (!a || a == b)
        return b;
    if (!b)
        return a;
    if (levels == 0)
        return join_blocks(memory, a, b);
    const struct node *left = a, *right = b;
    struct node joined;
    bool is_a = true, is_b = true;
    for (unsigned i = 0; i < BRANCHES; i++) {
        joined.branch[i] = join_nodes(memory, levels - 1, left->branch[i], right->branch[i]);
        is_a = is_a && joined.branch[i] == left->branch[i];
        is_b = is_b && joined.branch[i] == right->branch[i];
    }
    if (is_a)
        return a;
    if (is_b)
        return b;
    struct node *node = take(memory, sizeof *node);
    *node = joined;
    return node;
}

const struct clock *clock_join(struct clock_memory *memory, unsigned levels, const struct clock *a,
                               const struct clock *b) {
    return join_nodes(memory, levels, a, b);
}

uint32_t clock_time_of(const struct clock *clock, unsigned levels, uint64_t block, unsigned thread) {
    const void *at = clock;
    for (unsigned level = levels; at && level-- > 0;)
        at = ((const struct node *)at)->branch[branch_of(block, level)];
    return at ? time_in(at, thread) : 0;
}
