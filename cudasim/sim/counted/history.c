/* Races: each access is compared with earlier accesses to the same bytes.
 *
 * Two accesses race when one of them writes, neither happens before the other (order.h), and they are not
 * both strong with scopes that include each other. A read of shared memory that its block has not written is
 * reported too: on a GPU it returns what an earlier block left there.
 *
 * Threads run one after another here. So if a barrier is missing between a write and a read, the read may
 * come first and find unwritten bytes. It is a race if a thread writes them before the next barrier or the
 * block's end, and an uninitialised read if none does. */
#include "history.h"
#include "../watch.h"
#include "recorder.h"
#include <stdlib.h>

/* ---- The memory for the histories of shared memory ---- */

/* One more word for each place that does not begin at a word. */
enum { SHARED_WORDS = SIM_MAX_SHARED_BYTES * 2 / WORD_BYTES + MOST_PLACES };

uint32_t history_settled;

void history_launch_begins(void) {
    history_settled = regions_tag() | CELL_HAS_HISTORY;
}

void history_blocks_know(void) {
    __atomic_store_n(&history_settled, UINT32_MAX, __ATOMIC_SEQ_CST);
}

bool history_create(struct races *races) {
    races->shared = calloc(SHARED_WORDS, sizeof *races->shared);
    races->words = calloc(SHARED_WORDS, sizeof *races->words);
    return races->shared && races->words;
}

void history_free(struct races *races) {
    free(races->shared);
    free(races->words);
    free(races->doubts);
}

void history_worker_begins(struct recorder *self) {
    self->history.used = 0;
    self->history.fills = session_fills(&self->history.filler);
}

void history_of_shared(struct recorder *self, struct place *place) {
    size_t words = (place->end + WORD_BYTES - 1) / WORD_BYTES - place->begin / WORD_BYTES;
    if (self->history.used + words > SHARED_WORDS)
        return;
    place->granule_bits = 2;
    place->history = self->history.shared + self->history.used;
    place->words = self->history.words + self->history.used;
    self->history.used += words;
}

/* ---- Conflicts ---- */

static bool is_morally_strong(const struct past *past, const struct past *now, bool is_shared) {
    uint32_t both = past->what & now->what, either = past->what | now->what;
    if (!(both & PAST_STRONG) || ((either & PAST_IN_BLOCK) && past->block != now->block))
        return false;
    /* Lanes of a warp that exchange values through volatile shared memory rely on running in lockstep. */
    bool in_step =
        is_shared && (both & PAST_VOLATILE) && past->block == now->block && past_warp(past) == past_warp(now);
    return !in_step;
}

static inline bool conflicts(const struct recorder *self, const struct past *past, const struct past *now,
                             bool is_shared) {
    return past->block && (past_bytes(past) & past_bytes(now)) && ((past->what | now->what) & PAST_UPDATES) &&
           !is_morally_strong(past, now, is_shared) && !order_is_before(self, past);
}

/* ---- What is kept ---- */

static const uint32_t same_kind =
    PAST_WARP_MASK << PAST_WARP | PAST_STRONG | PAST_UPDATES | PAST_IN_BLOCK | PAST_VOLATILE;

static bool join_use(struct past *use, const struct past *now) {
    if (use->block != now->block || use->time != now->time || ((use->what ^ now->what) & same_kind))
        return false;
    use->lanes |= now->lanes;
    use->what |= now->what & PAST_BYTES_MASK << PAST_BYTES;
    return true;
}

/* An atomic operation reads what earlier atomic operations have written, so it comes after them in causality
 * order (PTX, "Causality Order", the second rule). */
static bool observes(const struct past *now, bool is_atomic, const struct past *use, bool is_shared) {
    return is_atomic && (use->what & PAST_UPDATES) && is_morally_strong(use, now, is_shared);
}

/* Whether every access after `now` also comes after `use`, so that `use` need not be kept. */
static bool replaces(const struct recorder *self, const struct past *now, const struct access *access,
                     const struct past *use) {
    if (!use->block)
        return true;
    if (past_bytes(use) & ~past_bytes(now))
        return false;
    bool is_atomic = access->operation == COUNTED_ATOMIC, is_shared = access->place->space == COUNTED_SHARED;
    return observes(now, is_atomic, use, is_shared) ||
           (((now->what & PAST_UPDATES) || !(use->what & PAST_UPDATES)) && order_is_before(self, use));
}

/* How useful it is to keep `use` beside `now`. */
static int worth(const struct past *use, const struct past *now) {
    return (use->what & PAST_UPDATES ? 4 : 0) + (use->block != now->block ? 2 : 0) +
           (past_warp(use) != past_warp(now) ? 1 : 0);
}

/* Whether two plain reads are by different blocks: a write then races with one of them, unless blocks know of
   each other.
 */
static void mark_two_warps(struct past *uses) {
    const uint32_t kind = PAST_BYTES_MASK << PAST_BYTES | PAST_UPDATES | PAST_STRONG;
    const uint32_t whole = PAST_BYTES_MASK << PAST_BYTES;
    uses[1].what &= ~(uint32_t)PAST_TWO_WARPS;
    if (uses[0].block && uses[1].block &&
        (uses[0].block != uses[1].block || past_warp(&uses[0]) != past_warp(&uses[1])) &&
        (uses[0].what & kind) == whole && (uses[1].what & kind) == whole)
        uses[1].what |= PAST_TWO_WARPS;
}

static void remember_use(const struct recorder *self, struct history *history, const struct past *now,
                         const struct access *access) {
    struct past *uses = history->uses;
    if (join_use(&uses[0], now) || join_use(&uses[1], now))
        return;
    bool first = replaces(self, now, access, &uses[0]), second = replaces(self, now, access, &uses[1]);
    if (first || second) {
        uses[first ? 0 : 1] = *now;
        if (first && second)
            uses[1].block = 0;
        mark_two_warps(uses);
        return;
    }
    uses[worth(&uses[0], now) < worth(&uses[1], now) ? 0 : 1] = *now;
    mark_two_warps(uses);
}

/* The latest write was to other bytes of the word, too: it is kept for these. */
static void keep_other_bytes(const struct recorder *self, struct history *history, const struct past *now,
                             const struct access *access) {
    struct past rest = history->write;
    rest.what &= ~(past_bytes(now) << PAST_BYTES);
    if (rest.block && past_bytes(&rest) && !order_is_before(self, &rest))
        remember_use(self, history, &rest, access);
}

/* ---- Writes of the same value ---- */

static struct doubt *new_doubt(struct races *races) {
    if (races->doubt_count == races->doubt_capacity) {
        unsigned capacity = races->doubt_capacity ? 2 * races->doubt_capacity : 16;
        struct doubt *larger = realloc(races->doubts, capacity * sizeof *larger);
        if (!larger)
            return NULL;
        races->doubts = larger;
        races->doubt_capacity = capacity;
    }
    return &races->doubts[races->doubt_count++];
}

/* `word`: the address of the history's bytes. A history of elements larger than words has no bytes. */
static bool wait_for_value(struct recorder *self, const struct access *access, const struct past *now,
                           const struct past *past, uintptr_t word) {
    bool is_pending = access->thread >= SIM_MAX_BLOCK_THREADS; /* a copy that has not landed */
    struct doubt *doubt =
        access->operation == COUNTED_STORE && !is_pending ? new_doubt(&self->history) : NULL;
    if (!doubt)
        return false;
    *doubt = (struct doubt){.access = *access, .other = *past, .word = word};
    unsigned bits = access->place->granule_bits;
    doubt->bytes = bits == 2 ? past_bytes(past) & past_bytes(now) : (1u << (1u << bits)) - 1;
    for (unsigned i = 0; i < sizeof doubt->before; i++)
        if (doubt->bytes >> i & 1)
            doubt->before[i] = ((const unsigned char *)word)[i];
    look_after(self, 0);
    return true;
}

static bool is_same(const struct doubt *doubt) {
    for (unsigned i = 0; i < sizeof doubt->before; i++)
        if ((doubt->bytes >> i & 1) && doubt->before[i] != ((const unsigned char *)doubt->word)[i])
            return false;
    return true;
}

void history_settle_write_now(struct recorder *self) {
    struct races *races = &self->history;
    unsigned count = races->doubt_count;
    races->doubt_count = 0;
    for (unsigned i = 0; i < count; i++)
        if (!is_same(&races->doubts[i]))
            fault_race(self, &races->doubts[i].access, &races->doubts[i].other);
    warn_of_same_value(self, &races->doubts[0].access, &races->doubts[0].other);
}

/* ---- Reads of unwritten memory ---- */

/* Keeps the first such read. A thread that reads the same place again and again waits for a write in vain.
 */
static void remember_unwritten_read(struct recorder *self, const struct access *access) {
    enum { MOST_REPETITIONS = 10000 };
    if (self->history.has_unwritten_read) {
        bool again = self->history.unwritten_read.thread == self->thread &&
                     self->history.unwritten_read.pc == access->pc &&
                     self->history.unwritten_read.address == access->address;
        if (again && ++self->history.repetitions == MOST_REPETITIONS)
            history_settle_read(self);
        return;
    }
    self->history.has_unwritten_read = true;
    self->history.repetitions = 0;
    self->history.unwritten_read = *access;
}

static void fill(const struct recorder *self, const struct place *place, size_t index, uint32_t bytes) {
    unsigned char *word = (unsigned char *)(place->begin / WORD_BYTES * WORD_BYTES) + index * WORD_BYTES;
    for (unsigned i = 0; i < WORD_BYTES; i++)
        if (bytes >> i & 1)
            word[i] = self->history.filler;
}

void history_settle_read(const struct recorder *self) {
    if (self->history.has_unwritten_read)
        fault_uninitialised(self, &self->history.unwritten_read);
}

void history_settle_own_read(const struct recorder *self) {
    if (self->history.unwritten_read.thread == self->thread)
        history_settle_read(self);
}

/* ---- Accesses ---- */

static noreturn void race(const struct recorder *self, struct past *cell, const struct access *access,
                          const struct past *past) {
    struct past other = *past;
    if (cell)
        cell_unlock(cell, self->is_alone);
    fault_race(self, access, &other);
}

/* `cell`: of global memory, locked; else NULL. */
static void check_and_remember(struct recorder *self, struct history *history, struct past *cell,
                               const struct past *now, const struct access *access, uintptr_t word) {
    bool is_shared = access->place->space == COUNTED_SHARED;
    if (conflicts(self, &history->write, now, is_shared) &&
        !wait_for_value(self, access, now, &history->write, word))
        race(self, cell, access, &history->write);
    for (unsigned i = 0; i < 2; i++) {
        const struct past *use = &history->uses[i];
        bool is_write = (use->what & PAST_UPDATES) && !(use->what & PAST_STRONG);
        if (conflicts(self, use, now, is_shared) &&
            !(is_write && wait_for_value(self, access, now, use, word)))
            race(self, cell, access, use);
    }
    if ((now->what & PAST_UPDATES) && !(now->what & PAST_STRONG)) {
        struct past *write = &history->write;
        bool again = write->block == now->block && write->time == now->time && write->lanes == now->lanes &&
                     past_warp(write) == past_warp(now);
        uint32_t bytes = again ? write->what & PAST_BYTES_MASK << PAST_BYTES : 0;
        if (!again)
            keep_other_bytes(self, history, now, access);
        *write = *now;
        write->what |= bytes;
        if (past_bytes(now) == PAST_BYTES_MASK)
            history->uses[0].block = history->uses[1].block = 0;
    } else {
        remember_use(self, history, now, access);
    }
}

/* The epochs (order.h) in which plain reads add nothing. If two blocks have read the word and none has
 * written, it is all epochs: any write races with one of the reads, unless blocks know of each other. If two
 * warps of this block have read it, it is this epoch. */
static uint32_t settled_in(const struct history *history, const struct order *order, uint32_t block) {
    const struct past *uses = history->uses;
    if (history->write.block || !(uses[1].what & PAST_TWO_WARPS))
        return ORDER_NO_EPOCH;
    if (uses[0].block != uses[1].block)
        return ORDER_ALL_EPOCHS;
    bool since_barrier = uses[0].time >= order->barrier_time && uses[1].time >= order->barrier_time;
    return uses[0].block == block && since_barrier && !order->has_clocks ? order->epoch : ORDER_NO_EPOCH;
}

/* ---- Cells ---- */

struct history *history_of_cell(const struct past *cell, uint32_t tag, struct history *kept,
                                struct history *made) {
    uint32_t what = cell->what;
    bool is_of_launch = (what & CELL_TAG_MASK) == tag;
    if (is_of_launch && (what & CELL_HAS_HISTORY))
        return kept;
    *made = (struct history){0};
    if (is_of_launch) {
        struct past *past = what & PAST_UPDATES ? &made->write : &made->uses[0];
        *past = *cell;
        past->what = (what & ~(uint32_t)(CELL_TAG_MASK | PAST_LOCKED)) | PAST_BYTES_MASK << PAST_BYTES;
    }
    return made;
}

/* The only access in the history, if a cell can hold it; else NULL. Asynchronous copies are not in the order
 * that a cell's reader looks at. */
static const struct past *only_in(const struct history *history) {
    const struct past *uses = history->uses, *write = &history->write;
    if (!!write->block + !!uses[0].block + !!uses[1].block != 1)
        return NULL;
    const struct past *only = write->block ? write : uses[0].block ? &uses[0] : &uses[1];
    const uint32_t kind = PAST_BYTES_MASK << PAST_BYTES | PAST_STRONG | PAST_UPDATES;
    uint32_t plain = PAST_BYTES_MASK << PAST_BYTES | (only == write ? PAST_UPDATES : 0);
    return (only->what & kind) == plain && past_warp(only) < SIM_MAX_BLOCK_WARPS ? only : NULL;
}

static void set_has_history(const struct recorder *self, struct past *cell, const struct history *history) {
    struct past after = {.lanes = settled_in(history, &self->order, self->block_number),
                         .what = self->cells_tag | CELL_HAS_HISTORY | (cell->what & PAST_LOCKED)};
    cell_set(cell, &after);
}

static void check_granule(struct recorder *self, const struct place *place, size_t index,
                          const struct past *now, const struct access *access, uintptr_t bytes) {
    struct past *cell = &place->cells[index];
    struct history made, *history;
    cell_lock(cell, self->is_alone);
    history = history_of_cell(cell, self->cells_tag, &place->history[index], &made);
    check_and_remember(self, history, cell, now, access, bytes);
    const struct past *only = only_in(history);
    if (only) {
        const uint32_t kept = PAST_INSTRUCTION_MASK | PAST_WARP_MASK << PAST_WARP | PAST_UPDATES;
        struct past after = *only;
        after.what = (after.what & kept) | self->cells_tag | (cell->what & PAST_LOCKED);
        cell_set(cell, &after);
    } else {
        if (history == &made)
            place->history[index] = made;
        set_has_history(self, cell, history);
    }
    cell_unlock(cell, self->is_alone);
}

bool history_adds_read(struct recorder *self, const struct place *place, size_t index, unsigned instruction) {
    struct past *cell = &place->cells[index], now = self->own;
    struct history made, *history = &place->history[index];
    if (history_of_cell(cell, self->cells_tag, history, &made) == history || !made.uses[0].block ||
        order_is_before(self, &made.uses[0]))
        return false;
    now.time = self->order.now;
    now.what = (now.what & ~(uint32_t)CELL_TAG_MASK) | PAST_BYTES_MASK << PAST_BYTES | instruction;
    *history = (struct history){.uses = {made.uses[0], now}};
    mark_two_warps(history->uses);
    set_has_history(self, cell, history);
    return true;
}

static void check_word(struct recorder *self, const struct place *place, size_t index, uint32_t what,
                       const struct access *access) {
    struct past now = {.block = self->block_number,
                       .time = access->time,
                       .lanes = 1u << access->thread % SIM_WARP_THREADS,
                       .what = what};
    uintptr_t bytes = ((place->begin >> place->granule_bits) + index) << place->granule_bits;
    if (place->cells) {
        check_granule(self, place, index, &now, access, bytes);
        return;
    }
    struct history *history = &place->history[index];
    struct shared_word *word = &place->words[index];
    if (word->block != self->block_count) {
        *history = (struct history){0};
        *word = (struct shared_word){.block = self->block_count};
    }
    uint32_t unwritten = past_bytes(&now) & ~word->initialised;
    if (access->operation != COUNTED_STORE && unwritten) {
        if (self->history.fills)
            fill(self, place, index, unwritten);
        else
            remember_unwritten_read(self, access);
    }
    check_and_remember(self, history, NULL, &now, access, bytes);
    if (what & PAST_UPDATES)
        word->initialised |= past_bytes(&now);
}

static uint32_t kind_of(const struct access *access) {
    uint32_t what = access->flags & (PAST_STRONG | PAST_IN_BLOCK | PAST_VOLATILE);
    return access->operation == COUNTED_LOAD ? what : what | PAST_UPDATES;
}

void history_check(struct recorder *self, const struct access *access) {
    if (self->sample.is_on)
        return;
    const struct place *place = access->place;
    unsigned bits = place->granule_bits, granule = 1u << bits;
    uintptr_t first = place->begin >> bits;
    uint32_t what = kind_of(access) | access->instruction | access->thread / SIM_WARP_THREADS << PAST_WARP;
    for (uintptr_t at = access->address, end = at + access->bytes; at < end;) {
        uintptr_t next = ((at >> bits) + 1) << bits;
        uintptr_t to = next < end ? next : end;
        uint32_t bytes = bits == 2 ? (1u << (to - at)) - 1 : PAST_BYTES_MASK;
        if (bits == 2)
            bytes <<= at & (granule - 1);
        size_t index = (at >> bits) - first;
        check_word(self, place, index, what | bytes << PAST_BYTES, access);
        at = to;
    }
}

void history_written(struct recorder *self, const struct place *place, uintptr_t address, size_t bytes) {
    size_t first = address / WORD_BYTES - place->begin / WORD_BYTES;
    for (size_t i = first; i < first + bytes / WORD_BYTES; i++) {
        place->history[i] = (struct history){0};
        place->words[i] = (struct shared_word){.block = self->block_count, .initialised = PAST_BYTES_MASK};
    }
}
