/* Shared memory's shadow: for each word, who wrote and who read it last, and when.
 *
 * Two accesses of the same bytes, one of them a write, must have a barrier between them or, in one warp, an
 * operation at which the two lanes meet (__syncwarp(), a shuffle or a vote); otherwise their order is an
 * accident. Lanes of a warp are not taken to run in step, which GPUs since compute capability 7.0 do not
 * promise. Atomics do not race with each other. A read of bytes that no thread of the block has written
 * since the block began gets whatever an earlier block left there.
 *
 * Time is counted in barriers and meetings, so an access is before a barrier when its time is smaller. What a
 * lane knows of the other lanes of its warp is a vector clock.
 *
 * Threads run one after another here, so where a barrier is missing between a write and a read, the read may
 * come first and find bytes that nobody has written yet. Whether somebody does write them with nothing
 * between (a race) or nobody does (an uninitialised read) is known at the next barrier or at the end of the
 * block. */
#include "../watch.h"
#include "recorder.h"
#include <stdlib.h>

/* One access, kept. */
struct past {
    uint32_t time; /* 0: none */
    unsigned thread : 10;
    unsigned bytes : 4; /* which of the word's */
    unsigned : 2;
    unsigned site : 16;
};

struct shadow_word {
    struct past write;
    struct past atomic;
    struct past read;       /* the latest */
    struct past other_read; /* by another thread; of another warp, if there is one */
    uint32_t block;         /* all of this is void when it is not the block that runs */
    uint32_t initialised;   /* which of the four bytes */
};

bool shadow_create(struct recorder *self) {
    /* One word more for each place that does not begin at a word. */
    self->shadow_capacity = (SIM_MAX_SHARED_BYTES * 2) / WORD_BYTES + MOST_PLACES;
    self->shadow_memory = calloc(self->shadow_capacity, sizeof *self->shadow_memory);
    self->knowledge = calloc(SIM_MAX_BLOCK_WARPS, sizeof *self->knowledge);
    return self->shadow_memory && self->knowledge;
}

struct shadow_word *shadow_of(struct recorder *self, uintptr_t begin, size_t bytes) {
    size_t words = (begin + bytes - begin / WORD_BYTES * WORD_BYTES + WORD_BYTES - 1) / WORD_BYTES;
    if (self->shadow_used + words > self->shadow_capacity)
        return NULL; /* more than a block can have: what is beyond is not checked */
    struct shadow_word *shadow = self->shadow_memory + self->shadow_used;
    self->shadow_used += words;
    return shadow;
}

void shadow_begin_launch(struct recorder *self) {
    self->shadow_used = 0;
}

void shadow_begin_block(struct recorder *self) {
    const uint32_t nearly_full = UINT32_MAX - (1u << 30);
    if (self->time > nearly_full || self->block > nearly_full) {
        memset(self->shadow_memory, 0, self->shadow_capacity * sizeof *self->shadow_memory);
        memset(self->knowledge, 0, SIM_MAX_BLOCK_WARPS * sizeof *self->knowledge);
        self->time = self->block = 0;
    }
    self->block++;
    self->barrier_time = ++self->time;
    self->has_unwritten_read = false;
}

/* ---- Order ---- */

void shadow_barrier(struct recorder *self) {
    shadow_settle(self);
    self->barrier_time = ++self->time;
}

void shadow_order(struct recorder *self) {
    self->barrier_time = ++self->time;
}

void shadow_written(struct recorder *self, const struct place *place, uintptr_t address, size_t bytes) {
    const unsigned all_bytes = (1u << WORD_BYTES) - 1;
    struct shadow_word *word = &place->shadow[address / WORD_BYTES - place->begin / WORD_BYTES];
    for (size_t i = 0; i < bytes / WORD_BYTES; i++)
        word[i] = (struct shadow_word){.block = self->block, .initialised = all_bytes};
}

void shadow_meeting(struct recorder *self, unsigned warp, unsigned lanes) {
    struct warp_knowledge *knowledge = &self->knowledge[warp];
    uint32_t together[SIM_WARP_THREADS] = {0};
    uint32_t now = ++self->time;
    for (unsigned left = lanes; left; left &= left - 1) {
        const uint32_t *known = knowledge->time[__builtin_ctz(left)];
        for (unsigned lane = 0; lane < SIM_WARP_THREADS; lane++)
            together[lane] = known[lane] > together[lane] ? known[lane] : together[lane];
    }
    for (unsigned left = lanes; left; left &= left - 1)
        together[__builtin_ctz(left)] = now;
    for (unsigned left = lanes; left; left &= left - 1)
        memcpy(knowledge->time[__builtin_ctz(left)], together, sizeof together);
}

/* Whether nothing makes what was done then come before what the running thread does now. */
static bool is_unordered(const struct recorder *self, const struct past *past, unsigned bytes) {
    unsigned thread = self->thread, lane = thread % SIM_WARP_THREADS, warp = thread / SIM_WARP_THREADS;
    if (past->time < self->barrier_time || past->thread == thread || !(past->bytes & bytes))
        return false;
    return past->thread / SIM_WARP_THREADS != warp ||
           past->time >= self->knowledge[warp].time[lane][past->thread % SIM_WARP_THREADS];
}

/* ---- Accesses ---- */

static void remember(const struct recorder *self, struct past *past, unsigned bytes,
                     const struct access *access) {
    if (past->time == self->time && past->thread == self->thread)
        bytes |= past->bytes;
    *past = (struct past){.time = self->time, .thread = self->thread, .bytes = bytes, .site = access->site};
}

static void remember_read(const struct recorder *self, struct shadow_word *word, unsigned bytes,
                          const struct access *access) {
    struct past *read = &word->read, *other = &word->other_read;
    if (read->time >= self->barrier_time && read->thread != self->thread &&
        (other->time < self->barrier_time ||
         read->thread / SIM_WARP_THREADS != self->thread / SIM_WARP_THREADS))
        *other = *read;
    remember(self, read, bytes, access);
}

/* The first one is kept. A thread that reads the same again and again waits for it in vain. */
static void remember_unwritten_read(struct recorder *self, const struct access *access) {
    enum { MOST_REPETITIONS = 10000 };
    if (self->has_unwritten_read) {
        bool again = self->unwritten_reader == self->thread && self->unwritten_read.pc == access->pc &&
                     self->unwritten_read.address == access->address;
        if (again && ++self->unwritten_repetitions == MOST_REPETITIONS)
            shadow_settle(self);
        return;
    }
    self->has_unwritten_read = true;
    self->unwritten_repetitions = 0;
    self->unwritten_reader = self->thread;
    self->unwritten_read = *access;
}

void shadow_settle(const struct recorder *self) {
    if (self->has_unwritten_read)
        fault_uninitialised(self, &self->unwritten_read, self->unwritten_reader);
}

static void check_word(struct recorder *self, struct shadow_word *word, unsigned bytes,
                       const struct access *access) {
    if (word->block != self->block)
        *word = (struct shadow_word){.block = self->block};
    bool is_atomic = access->operation == COUNTED_ATOMIC;
    if (is_unordered(self, &word->write, bytes))
        fault_race(self, access, word->write.thread, word->write.site);
    if (!is_atomic && is_unordered(self, &word->atomic, bytes))
        fault_race(self, access, word->atomic.thread, word->atomic.site);
    if (access->operation != COUNTED_STORE && (word->initialised & bytes) != bytes)
        remember_unwritten_read(self, access);
    if (access->operation == COUNTED_LOAD) {
        remember_read(self, word, bytes, access);
        return;
    }
    if (is_unordered(self, &word->read, bytes))
        fault_race(self, access, word->read.thread, word->read.site);
    if (is_unordered(self, &word->other_read, bytes))
        fault_race(self, access, word->other_read.thread, word->other_read.site);
    remember(self, is_atomic ? &word->atomic : &word->write, bytes, access);
    word->initialised |= bytes;
}

void shadow_check(struct recorder *self, const struct access *access) {
    const struct place *place = access->place;
    uintptr_t first = place->begin / WORD_BYTES;
    for (uintptr_t at = access->address, end = at + access->bytes; at < end;) {
        uintptr_t word_end = (at / WORD_BYTES + 1) * WORD_BYTES;
        uintptr_t to = word_end < end ? word_end : end;
        unsigned bytes = ((1u << (to - at)) - 1) << at % WORD_BYTES;
        check_word(self, &place->shadow[at / WORD_BYTES - first], bytes, access);
        at = to;
    }
}
