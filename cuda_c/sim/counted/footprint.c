/* The footprint of a launch in global memory: for each word of the arguments, which block read it and which
 * wrote it.
 *
 * Blocks run in any order, so a word that one block writes and another one reads has one of two values by
 * accident. (Two atomics do not race, and neither do two blocks that have both made one since: a kernel may
 * hand over results that way, as one whose last block adds up what the others have left.) The words that
 * were touched, taken by sectors, are the least that memory must move. */
#define _GNU_SOURCE
#include "../watch.h"
#include "recorder.h"
#include <sys/mman.h>

/* The record of what was done to a word: the first block (plus one), thread and instruction that did it, and
 * flags. Accesses to a part of the word set the flags only. */
enum { BLOCK_BITS = 32, THREAD_BITS = 10, INSTRUCTION_BITS = 16 };
enum { THREAD_SHIFT = BLOCK_BITS, INSTRUCTION_SHIFT = THREAD_SHIFT + THREAD_BITS };
static const uint64_t block_mask = 0xffffffffu;
static const uint64_t by_several = 1ull << 58; /* another block did the same */
static const uint64_t by_atomic = 1ull << 59;  /* and nothing else */
static const uint64_t was_done = 1ull << 60;
static const uint64_t before_any_write = 1ull << 61; /* of a read */

struct touched_word {
    _Atomic uint64_t read;
    _Atomic uint64_t other_read; /* by another block than the first, so that a writer can always name one */
    _Atomic uint64_t written;
};

/* Blocks that made an atomic access to global memory; several share a bit where a launch has very many. */
enum { RELEASE_BITS = 1 << 20 };
static _Atomic uint64_t released[RELEASE_BITS / 64];
static atomic_bool any_released;

/* ---- The memory for it ---- */

/* Arguments that overlap share a region. */
struct region {
    uintptr_t begin; /* of the first word */
    size_t words;
    struct touched_word *touched;
    uint32_t *touched_in; /* for each sector: see l2.c */
};
static struct region regions[MOST_PLACES];
static unsigned region_count;

static struct region *region_at_or_before(uintptr_t address) {
    struct region *found = NULL;
    for (unsigned i = 0; i < region_count; i++)
        if (regions[i].begin <= address && (!found || regions[i].begin > found->begin))
            found = &regions[i];
    return found;
}

static void add_to_regions(uintptr_t begin, uintptr_t end) {
    for (unsigned i = 0; i < region_count; i++) {
        struct region *region = &regions[i];
        uintptr_t region_end = region->begin + region->words * WORD_BYTES;
        if (begin >= region_end || end <= region->begin)
            continue;
        begin = begin < region->begin ? begin : region->begin;
        end = end > region_end ? end : region_end;
        *region = regions[--region_count];
        i = UINT32_MAX; /* the larger region may overlap those already looked at */
    }
    regions[region_count++] = (struct region){begin, (end - begin) / WORD_BYTES, NULL, NULL};
}

static uintptr_t round_down(uintptr_t address) {
    return address / WORD_BYTES * WORD_BYTES;
}

static size_t words_bytes(const struct region *region) {
    return region->words * sizeof(struct touched_word);
}

static size_t sectors_bytes(const struct region *region) {
    size_t most_sectors = region->words * WORD_BYTES / SECTOR_BYTES + 2;
    return most_sectors * sizeof(uint32_t);
}

/* Zeros, of which only what is touched takes memory. */
static void *map(size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

bool footprint_begin_launch(void) {
    if (atomic_exchange(&any_released, false))
        memset((void *)released, 0, sizeof released);
    region_count = 0;
    for (unsigned i = 0; i < argument_count(); i++) {
        const struct place *place = argument_at(i);
        add_to_regions(round_down(place->begin), round_down(place->end + WORD_BYTES - 1));
    }
    for (unsigned i = 0; i < region_count; i++) {
        regions[i].touched = map(words_bytes(&regions[i]));
        regions[i].touched_in = map(sectors_bytes(&regions[i]));
        if (!regions[i].touched || !regions[i].touched_in)
            return false;
    }
    for (unsigned i = 0; i < argument_count(); i++) {
        struct place *place = argument_at(i);
        const struct region *region = region_at_or_before(place->begin);
        place->touched = region->touched + (round_down(place->begin) - region->begin) / WORD_BYTES;
        place->touched_in = region->touched_in + (place->begin / SECTOR_BYTES - region->begin / SECTOR_BYTES);
    }
    return true;
}

/* Counts the sectors of words [first, end), which are part of the region's. */
static void count_sectors(const struct region *region, size_t first, size_t end, uintptr_t *read_sector,
                          uintptr_t *written_sector, counted_launch *result) {
    for (size_t word = first; word < end; word++) {
        uintptr_t sector = (region->begin + word * WORD_BYTES) / SECTOR_BYTES;
        if ((region->touched[word].read & before_any_write) && sector != *read_sector) {
            result->sectors_read++;
            *read_sector = sector;
        }
        if (region->touched[word].written && sector != *written_sector) {
            result->sectors_written++;
            *written_sector = sector;
        }
    }
}

/* Only pages that were touched are looked at: an argument may be much larger than what a launch uses of it.
 */
static void count_touched(const struct region *region, counted_launch *result) {
    enum {
        PAGE_BYTES = 4096,
        PAGES_AT_ONCE = 1 << 12,
        WORDS_IN_PAGE = PAGE_BYTES / sizeof(struct touched_word)
    };
    static unsigned char is_there[PAGES_AT_ONCE];
    uintptr_t read_sector = 0, written_sector = 0; /* the latest that were counted */
    size_t pages = (words_bytes(region) + PAGE_BYTES - 1) / PAGE_BYTES;
    for (size_t first = 0; first < pages; first += PAGES_AT_ONCE) {
        size_t count = pages - first < PAGES_AT_ONCE ? pages - first : PAGES_AT_ONCE;
        char *memory = (char *)region->touched + first * PAGE_BYTES;
        if (mincore(memory, count * PAGE_BYTES, is_there) != 0)
            memset(is_there, 1, sizeof is_there);
        for (size_t page = 0; page < count; page++) {
            size_t word = (first + page) * WORDS_IN_PAGE, end = word + WORDS_IN_PAGE;
            if (is_there[page] & 1)
                count_sectors(region, word, end < region->words ? end : region->words, &read_sector,
                              &written_sector, result);
        }
    }
}

void footprint_end_launch(counted_launch *result) {
    for (unsigned i = 0; i < region_count; i++) {
        const struct region *region = &regions[i];
        if (region->touched) {
            count_touched(region, result);
            munmap(region->touched, words_bytes(region));
        }
        if (region->touched_in)
            munmap(region->touched_in, sectors_bytes(region));
    }
    region_count = 0;
}

/* ---- Accesses ---- */

static bool has_released(uint32_t block) {
    return atomic_load_explicit(&released[block / 64 % (RELEASE_BITS / 64)], memory_order_relaxed) >>
               (block % 64) &
           1;
}

static void release(uint32_t block) {
    atomic_fetch_or(&released[block / 64 % (RELEASE_BITS / 64)], 1ull << (block % 64));
    atomic_store(&any_released, true);
}

static uint32_t block_of(uint64_t touched) {
    return (uint32_t)(touched & block_mask);
}

/* Whether `touched` names another block than `self`'s, and nothing orders the two. */
static bool is_another_block(const struct recorder *self, uint64_t touched) {
    uint32_t block = block_of(touched);
    if (block == 0 || (block == self->block_number && !(touched & by_several)))
        return false;
    return !(has_released(block) && has_released(self->block_number));
}

/* What a record becomes when `me` does the same as those that are in it. */
static uint64_t joined(uint64_t touched, uint64_t me) {
    if (!(touched & block_mask) || !(me & block_mask))
        return touched | me;
    if (!(me & by_atomic))
        touched &= ~by_atomic;
    return (touched & block_mask) == (me & block_mask) ? touched : touched | by_several;
}

static void join(_Atomic uint64_t *touched, uint64_t me) {
    uint64_t old = atomic_load_explicit(touched, memory_order_relaxed);
    for (;;) {
        uint64_t desired = joined(old, me);
        if (desired == old || atomic_compare_exchange_weak(touched, &old, desired))
            return;
    }
}

static noreturn void report(const struct recorder *self, const struct access *access, unsigned thread,
                            uint64_t touched) {
    uint32_t block = block_of(touched);
    if (block == 0 || block == self->block_number) /* it has not been noted yet */
        fault_between_blocks(self, access, thread, NULL);
    struct other_access other = {block - 1, touched >> THREAD_SHIFT & ((1u << THREAD_BITS) - 1),
                                 touched >> INSTRUCTION_SHIFT & ((1u << INSTRUCTION_BITS) - 1)};
    fault_between_blocks(self, access, thread, &other);
}

static void touch(const struct recorder *self, struct touched_word *word, uint64_t me,
                  const struct access *access, unsigned thread) {
    uint64_t written = atomic_load(&word->written);
    if (access->operation != COUNTED_STORE) {
        uint64_t reader = access->operation == COUNTED_ATOMIC ? was_done : me;
        join(&word->read, written ? reader : reader | before_any_write);
        if (block_of(reader) && block_of(word->read) != block_of(reader))
            atomic_store_explicit(&word->other_read, reader, memory_order_relaxed);
        written = atomic_load(&word->written); /* by a block that may have missed this read */
    }
    bool both_atomic = access->operation == COUNTED_ATOMIC && (written & by_atomic);
    bool both_plain_writes = access->operation == COUNTED_STORE && !(written & by_atomic);
    if (!both_atomic && !both_plain_writes && is_another_block(self, written))
        report(self, access, thread, written);
    if (access->operation == COUNTED_LOAD)
        return;
    join(&word->written, access->operation == COUNTED_ATOMIC ? me | by_atomic : me);
    uint64_t read = atomic_load(&word->read);
    if (is_another_block(self, read))
        report(self, access, thread,
               block_of(read) == self->block_number ? atomic_load(&word->other_read) : read);
}

void footprint_request(struct recorder *self, struct access *access, const uintptr_t *addresses,
                       unsigned lanes, unsigned first_thread) {
    const struct place *place = access->place;
    if (access->operation == COUNTED_ATOMIC)
        release(self->block_number);
    uint64_t instruction = (uint64_t)access->instruction << INSTRUCTION_SHIFT;
    bool whole_words = access->bytes >= WORD_BYTES;
    unsigned words = whole_words ? access->bytes / WORD_BYTES : 1;
    uintptr_t previous = 0;
    for (; lanes; lanes &= lanes - 1) {
        unsigned lane = (unsigned)__builtin_ctz(lanes);
        uintptr_t address = addresses[lane];
        if (address == previous)
            continue;
        previous = address;
        if (address - place->begin >= place->end - place->begin) /* not all lanes are in the same place */
            place = place_of(self, address, access->bytes);
        if (!place->touched)
            continue; /* a variable of the kernel's library */
        if (self->wave) {
            uint64_t sector = address / SECTOR_BYTES;
            uint32_t *latest = &place->touched_in[sector - place->begin / SECTOR_BYTES];
            if (access->operation != COUNTED_STORE)
                l2_touch(self, latest, sector, false);
            if (access->operation != COUNTED_LOAD)
                l2_touch(self, latest, sector, true);
        }
        uint64_t thread = first_thread + lane;
        uint64_t me = was_done;
        if (whole_words)
            me |= self->block_number | thread << THREAD_SHIFT | instruction;
        struct touched_word *word = place->touched + (address / WORD_BYTES - place->begin / WORD_BYTES);
        for (unsigned i = 0; i < words; i++) {
            uint64_t read = atomic_load_explicit(&word[i].read, memory_order_relaxed);
            if (access->operation == COUNTED_LOAD && (read & by_several) &&
                !atomic_load_explicit(&word[i].written, memory_order_relaxed))
                continue; /* one of many reads of what nobody writes */
            access->address = address;
            touch(self, &word[i], me, access, (unsigned)thread);
        }
    }
}
