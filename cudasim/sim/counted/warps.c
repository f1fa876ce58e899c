/* What each warp of a launch asked of memory. */
#include "recorder.h"
#include <stdlib.h>

void warps_begin_launch(struct recorder *self) {
    self->warp_count = 0;
    self->warps_block = 0;
}

/* The warp's numbers, from zero on in each block; NULL when there is no memory for them. */
static counted_warp *numbers_of(struct recorder *self, unsigned warp) {
    if (self->warps_block != self->block_number) {
        memset(self->own_warp, 0, sizeof self->own_warp);
        self->warps_block = self->block_number;
    }
    if (self->own_warp[warp] == 0) {
        if (self->warp_count == self->warp_capacity) {
            enum { FIRST_CAPACITY = 256 };
            size_t capacity = self->warp_capacity ? 2 * self->warp_capacity : FIRST_CAPACITY;
            counted_warp *larger = realloc(self->warps, capacity * sizeof *larger);
            if (!larger)
                return NULL;
            self->warps = larger;
            self->warp_capacity = capacity;
        }
        self->warps[self->warp_count++] = (counted_warp){.block = self->block_number - 1, .warp = warp};
        self->own_warp[warp] = self->warp_count;
    }
    return &self->warps[self->own_warp[warp] - 1];
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

void warps_end_launch(struct recorder *first, uint64_t launch, counted_launch *result) {
    size_t count = 0;
    for (const struct recorder *self = first; self; self = self->next)
        count += self->launch == launch ? self->warp_count : 0;
    counted_warp *all = count ? malloc(count * sizeof *all) : NULL;
    if (!all)
        return;
    for (const struct recorder *self = first; self; self = self->next) {
        if (self->launch != launch || self->warp_count == 0)
            continue;
        memcpy(all + result->warp_count, self->warps, self->warp_count * sizeof *all);
        result->warp_count += self->warp_count;
    }
    result->warps = all;
}
