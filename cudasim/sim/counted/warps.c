/* What each warp of a launch asked of memory. */
#include "recorder.h"
#include <stdlib.h>

void warps_free(struct warps *warps) {
    free(warps->all);
}

void warps_worker_begins(struct warps *warps) {
    warps->count = 0;
    warps->block = 0;
}

/* The warp's numbers, which begin at zero in each block; NULL without memory for them. */
static counted_warp *numbers_of(struct recorder *self, unsigned warp) {
    if (self->warps.block != self->block_number) {
        memset(self->warps.own, 0, sizeof self->warps.own);
        self->warps.block = self->block_number;
    }
    if (self->warps.own[warp] == 0) {
        if (self->warps.count == self->warps.capacity) {
            enum { FIRST_CAPACITY = 256 };
            size_t capacity = self->warps.capacity ? 2 * self->warps.capacity : FIRST_CAPACITY;
            counted_warp *larger = realloc(self->warps.all, capacity * sizeof *larger);
            if (!larger)
                return NULL;
            self->warps.all = larger;
            self->warps.capacity = capacity;
        }
        self->warps.all[self->warps.count++] = (counted_warp){.block = self->block_number - 1, .warp = warp};
        self->warps.own[warp] = self->warps.count;
    }
    return &self->warps.all[self->warps.own[warp] - 1];
}

void warps_request(struct recorder *self, unsigned warp, const struct instruction *instruction,
                   unsigned sectors, unsigned wavefronts) {
    counted_warp *numbers = session_keeps_warps() ? numbers_of(self, warp) : NULL;
    if (!numbers)
        return;
    if (instruction->space == COUNTED_GLOBAL) {
        numbers->global_requests[instruction->operation]++;
        numbers->sectors[instruction->operation] += sectors;
    } else {
        numbers->shared_requests[instruction->operation]++;
        numbers->wavefronts[instruction->operation] += wavefronts;
    }
}

void warps_launch_ends(struct recorder *first, uint64_t launch, counted_launch *result) {
    size_t count = 0;
    for (const struct recorder *self = first; self; self = self->next)
        count += self->launch == launch ? self->warps.count : 0;
    counted_warp *all = count ? malloc(count * sizeof *all) : NULL;
    if (!all)
        return;
    for (const struct recorder *self = first; self; self = self->next) {
        if (self->launch != launch || self->warps.count == 0)
            continue;
        memcpy(all + result->warp_count, self->warps.all, self->warps.count * sizeof *all);
        result->warp_count += self->warps.count;
    }
    result->warps = all;
}
