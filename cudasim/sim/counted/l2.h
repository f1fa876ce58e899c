/* An L2 cache between the blocks and DRAM. */
#pragma once
#include "access.h"

/* The tool's state. */
struct l2 {
    unsigned wave;     /* that the block is in, from 1; 0: the launch has but one */
    uint64_t *touches; /* of the launch, see l2.c */
    size_t count;
    size_t capacity;
};

void l2_free(struct l2 *l2);
void l2_launch_begins(const struct sim_launch *launch);
void l2_block_begins(struct recorder *recorder);
void l2_touch(struct l2 *l2, uint32_t *latest, uint64_t sector, bool writes);
/* A lane of the block accesses a sector; `latest` belongs to the sector. */
static inline void l2_access(struct l2 *l2, uint32_t *latest, uint64_t sector, counted_operation operation) {
    if (l2->wave && operation != COUNTED_STORE)
        l2_touch(l2, latest, sector, false);
    if (l2->wave && operation != COUNTED_LOAD)
        l2_touch(l2, latest, sector, true);
}
/* Fills in what comes from DRAM and goes there. `first` of all recorders. */
void l2_launch_ends(struct recorder *first, counted_launch *result);
