/* Quick checks of accesses, which suffice nearly always. If one of these returns false, history_check()
 * follows. */
#pragma once
#include "history.h"
#include "recorder.h"

/* Whether loads of whole words add nothing to their histories and race with nothing, as is nearly always so.
 * Otherwise history_check() follows. */
static inline __attribute__((always_inline)) bool is_settled(const struct recorder *self,
                                                             const struct known_site *known, size_t word) {
    uint32_t epoch = known->settled[word];
    return epoch == ORDER_ALL_EPOCHS || epoch == self->order.epoch;
}
static inline __attribute__((always_inline)) bool
are_settled(const struct recorder *self, const struct known_site *known, uintptr_t address, unsigned bytes) {
    size_t first = (address - known->begin) / WORD_BYTES, end = first + bytes / WORD_BYTES;
    for (size_t i = first; i < end; i++)
        if (!is_settled(self, known, i))
            return false;
    return !order_crosses_blocks();
}
static inline __attribute__((always_inline)) bool
are_shared_reads(struct recorder *self, const struct known_site *known, uintptr_t address, unsigned bytes) {
    size_t first = (address - known->begin) / WORD_BYTES, end = first + bytes / WORD_BYTES;
    for (size_t i = first; i < end; i++)
        if (!history_check_read(&known->history[i], &known->words[i], &self->order, self->block_number,
                                self->block_count, self->thread))
            return false;
    return !self->worker->hopper;
}
static inline __attribute__((always_inline)) bool
are_global_reads(struct recorder *self, const struct known_site *known, uintptr_t address, unsigned bytes) {
    size_t first = (address - known->begin) / WORD_BYTES, end = first + bytes / WORD_BYTES;
    for (size_t i = first; i < end; i++)
        if (!is_settled(self, known, i) && !history_adds_read(&known->history[i], self->is_alone,
                                                              &self->order, self->block_number, self->thread))
            return false;
    return !order_crosses_blocks();
}

static inline bool is_known_read(struct recorder *self, const struct known_site *known, uintptr_t address,
                                 unsigned bytes, counted_operation operation, uint32_t flags) {
    if (operation != COUNTED_LOAD || flags || bytes < WORD_BYTES || (address & (bytes - 1)))
        return false;
    return known->settled ? are_global_reads(self, known, address, bytes)
                          : known->words && are_shared_reads(self, known, address, bytes);
}

/* Whether the word has no access in this launch: then there is nothing to compare with. */
static inline bool is_first_access(struct recorder *self, const struct known_site *known, uintptr_t address,
                                   unsigned bytes, counted_operation operation, uint32_t flags) {
    if (!known->settled || bytes != WORD_BYTES || address % WORD_BYTES || flags ||
        operation == COUNTED_ATOMIC)
        return false;
    uint32_t what = known->instruction | self->thread / SIM_WARP_THREADS << PAST_WARP |
                    PAST_BYTES_MASK << PAST_BYTES | (operation == COUNTED_STORE ? PAST_UPDATES : 0);
    struct past now = {.block = self->block_number,
                       .lanes = 1u << self->thread % SIM_WARP_THREADS,
                       .time = self->order.now,
                       .what = what};
    return history_begins(&known->history[(address - known->begin) / WORD_BYTES], self->is_alone, &now);
}
