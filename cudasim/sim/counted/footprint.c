/* The footprint of a launch in global memory: which words it read before it wrote them, and which it wrote.
 *
 * Counted in sectors, they are the least that memory must move. */
#include "recorder.h"

enum { READ_FIRST = 1, WRITTEN = 2 };

/* Counts the sectors of words [first, end), a part of the region. */
static void count_sectors(const struct region *region, size_t first, size_t end, counted_launch *result) {
    const size_t sector_words = SECTOR_BYTES / WORD_BYTES; /* regions begin at a sector, and so do pages */
    for (size_t sector = first; sector < end; sector += sector_words) {
        unsigned done = 0;
        for (size_t word = sector; word < sector + sector_words; word++)
            done |= region->touched[word];
        result->sectors_read += (done & READ_FIRST) != 0;
        result->sectors_written += (done & WRITTEN) != 0;
    }
}

void footprint_launch_ends(counted_launch *result) {
    struct region *region;
    for (unsigned left = regions_of_arguments(&region); left > 0; left--, region++)
        for (size_t first = 0; region->touched && first < region->words; first += PAGE_WORDS) {
            size_t end = first + PAGE_WORDS;
            if (region->pages[first / PAGE_WORDS])
                count_sectors(region, first, end < region->words ? end : region->words, result);
        }
}

static void touch(_Atomic unsigned char *word, counted_operation operation) {
    unsigned char done = atomic_load_explicit(word, memory_order_relaxed), add = 0;
    if (operation != COUNTED_STORE && !(done & WRITTEN))
        add |= READ_FIRST;
    if (operation != COUNTED_LOAD)
        add |= WRITTEN;
    if (add & ~done)
        atomic_fetch_or_explicit(word, add, memory_order_relaxed);
}

void footprint_request(struct recorder *self, const struct access *access, const uintptr_t *addresses,
                       unsigned lanes) {
    const struct place *place = access->place;
    unsigned words = access->bytes >= WORD_BYTES ? access->bytes / WORD_BYTES : 1;
    uintptr_t previous = 0;
    for (; lanes; lanes &= lanes - 1) {
        uintptr_t address = addresses[__builtin_ctz(lanes)];
        if (address == previous)
            continue;
        previous = address;
        if (address - place->begin >= place->end - place->begin) /* not all lanes are in the same place */
            place = place_of(self, address, access->bytes);
        if (!place->touched)
            continue; /* a variable of the kernel's library */
        uint64_t sector = address / SECTOR_BYTES;
        uint32_t *latest = &place->touched_in[sector - place->begin / SECTOR_BYTES];
        l2_access(&self->l2, latest, sector, access->operation);
        _Atomic unsigned char *word = place->touched + (address / WORD_BYTES - place->begin / WORD_BYTES);
        size_t number = place->first_word + (size_t)(word - place->touched);
        place->pages[number / PAGE_WORDS] = place->pages[(number + words - 1) / PAGE_WORDS] = 1;
        for (unsigned i = 0; i < words; i++)
            touch(&word[i], access->operation);
    }
}
