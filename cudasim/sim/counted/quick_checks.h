/* Quick checks of plain accesses, which suffice nearly always. If one of these returns false, history_check()
 * follows. */
#pragma once
#include "history.h"
#include "recorder.h"

/* Whether loads add nothing to the history that a cell with this `what` stands for. The cell need not be
 * locked: what it says is that only as long as it has no block. */
static inline __attribute__((always_inline)) bool is_settled(const struct recorder *self,
                                                             const struct past *cell, uint32_t what) {
    if (what != history_settled)
        return false;
    const struct past all = {.lanes = ORDER_ALL_EPOCHS}, now = {.lanes = self->order.epoch};
    uint64_t none = __atomic_load_n(&cell->block_and_lanes, __ATOMIC_RELAXED);
    return none == all.block_and_lanes || none == now.block_and_lanes;
}

/* Whether the launch may access a granule that it has not accessed yet: its bytes have been written before,
 * or are now. */
static inline bool begins(const struct known_site *known, uintptr_t address, bool writes) {
    const uint32_t all = 0x01010101;
    if (!known->written)
        return true;
    if (known->granule_bits != 2)
        return false;
    uint32_t *word = (uint32_t *)(void *)(known->written + (address - known->begin));
    if (writes)
        __atomic_store_n(word, all, __ATOMIC_RELAXED);
    return __atomic_load_n(word, __ATOMIC_RELAXED) == all;
}

/* Whether a load joins those of other lanes of this warp, which have just read the granule. */
static inline __attribute__((always_inline)) bool joins(const struct recorder *self, struct past *cell,
                                                        uint32_t what) {
    if (((what ^ self->own.what) & ~(uint32_t)PAST_INSTRUCTION_MASK) || cell->block != self->own.block ||
        cell->time != self->order.now)
        return false;
    cell->lanes |= self->own.lanes;
    return true;
}

/* Whether the access races with nothing and makes a history that the cell can hold, which it does now: it is
 * the launch's first one, or comes after the only one before. `lock`: PAST_LOCKED if the cell is locked. */
static inline bool replaces_only(const struct recorder *self, const struct known_site *known,
                                 struct past *cell, uintptr_t address, bool writes, uint32_t lock) {
    uint32_t what = cell->what & ~lock, other = what ^ self->own.what;
    if (other & CELL_TAG_MASK) {
        if (!begins(known, address, writes))
            return false;
    } else {
        if ((what & CELL_HAS_HISTORY) || cell->block != self->own.block || (!writes && (what & PAST_UPDATES)))
            return false;
        bool is_own = !(other & PAST_WARP_MASK << PAST_WARP) && cell->lanes == self->own.lanes;
        if (!is_own && cell->time >= self->order.barrier_time)
            return false;
    }
    struct past now = self->own;
    now.time = self->order.now;
    now.what |= known->instruction | (writes ? (uint32_t)PAST_UPDATES : 0) | lock;
    cell_set(cell, &now);
    return true;
}

/* Whether all granules of an access are handled so, or as one of two reads. */
static inline bool are_taken(struct recorder *self, const struct known_site *known, uintptr_t address,
                             unsigned bytes, bool writes) {
    const unsigned bits = known->granule_bits;
    struct past *cell = known->cells + ((address >> bits) - (known->begin >> bits));
    for (uintptr_t at = address, end = address + bytes; at < end; at += 1u << bits, cell++) {
        if (!writes && is_settled(self, cell, __atomic_load_n(&cell->what, __ATOMIC_ACQUIRE)))
            continue;
        cell_lock(cell, self->is_alone);
        uint32_t lock = self->is_alone ? 0 : PAST_LOCKED;
        bool is_taken =
            (!writes && joins(self, cell, cell->what & ~lock)) ||
            replaces_only(self, known, cell, at, writes, lock) ||
            (!writes && known->place->begin == known->begin &&
             history_adds_read(self, known->place, (size_t)(cell - known->cells), known->instruction));
        cell_unlock(cell, self->is_alone);
        if (!is_taken)
            return false;
    }
    return true;
}

static inline bool are_shared_reads(struct recorder *self, const struct known_site *known, uintptr_t address,
                                    unsigned bytes) {
    struct history *history = known->place->history;
    const struct shared_word *words = known->place->words;
    size_t first = (address - known->begin) / WORD_BYTES, end = first + bytes / WORD_BYTES;
    for (size_t i = first; i < end; i++)
        if (!history_check_read(&history[i], &words[i], &self->order, self->block_number, self->block_count,
                                self->thread))
            return false;
    return !self->worker->hopper;
}

/* Of a site that accesses whole granules. */
static inline bool is_quick(struct recorder *self, const struct known_site *known, uintptr_t address,
                            unsigned bytes, counted_operation operation) {
    return known->cells ? are_taken(self, known, address, bytes, operation == COUNTED_STORE)
                        : known->has_words && operation == COUNTED_LOAD &&
                              are_shared_reads(self, known, address, bytes);
}
