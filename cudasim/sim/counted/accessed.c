/* Which bytes a launch has used: read from the histories (history.h) when it ends.
 *
 * The cells of a large argument are memory that is there only where the launch came, so pages that nobody
 * has touched are left out. */
#define _GNU_SOURCE
#include "accessed.h"
#include "recorder.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 1 << 16 };

static bool is_kept, is_overfull;
static struct accessed *ranges;
static size_t count;

void accessed_keep(bool keeps) {
    is_kept = keeps;
    count = 0;
}

const struct accessed *accessed_ranges(size_t *number) {
    *number = is_kept && !is_overfull ? count : 0;
    return ranges;
}

static void add(uintptr_t at, unsigned bytes, unsigned how) {
    struct accessed *last = count ? &ranges[count - 1] : NULL;
    if (last && last->end == at && last->how == how)
        last->end += bytes;
    else if (count < MOST)
        ranges[count++] = (struct accessed){at, at + bytes, how};
    else
        is_overfull = true;
}

static unsigned how_of(const struct past *past) {
    if (past->what & PAST_STRONG)
        return past->what & PAST_UPDATES ? ACCESSED_UPDATED : ACCESSED_READ_STRONGLY;
    return past->what & PAST_UPDATES ? ACCESSED_WRITTEN : ACCESSED_READ;
}

static void add_granule(const struct region *region, size_t index) {
    struct history made, *kept = &region->history[index];
    const struct history *history = history_of_cell(&region->cells[index], regions_tag(), kept, &made);
    const struct past *of[] = {&history->write, &history->uses[0], &history->uses[1]};
    unsigned bytes = 1u << region->granule_bits, how[WORD_BYTES] = {0};
    bool is_one = true; /* all bytes have been used alike */
    for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
        if (!of[i]->block)
            continue;
        bool is_whole = bytes < WORD_BYTES || past_bytes(of[i]) == PAST_BYTES_MASK;
        is_one = is_one && is_whole;
        for (unsigned byte = 0; byte < bytes; byte++)
            how[byte] |= is_whole || past_bytes(of[i]) >> byte & 1 ? how_of(of[i]) : 0;
    }
    uintptr_t at = region->begin + index * bytes;
    for (unsigned byte = 0; byte < bytes; byte += is_one ? bytes : 1)
        if (how[byte])
            add(at + byte, is_one ? bytes : 1, how[byte]);
}

/* The region's granules whose cells are in pages that are memory. If that is not known, all are. */
static void add_region(const struct region *region) {
    enum { PAGES = 1024 };
    unsigned char resident[PAGES];
    size_t granules = region->words * WORD_BYTES >> region->granule_bits;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), each = sizeof *region->cells, next = 0;
    uintptr_t begin = (uintptr_t)region->cells, end = begin + granules * each;
    for (uintptr_t piece = begin / page * page; piece < end; piece += PAGES * page) {
        size_t left = (end - piece + page - 1) / page, pages = left < PAGES ? left : PAGES;
        if (mincore((void *)piece, pages * page, resident) != 0)
            memset(resident, 1, pages);
        for (size_t i = 0; i < pages; i++) {
            if (!(resident[i] & 1))
                continue;
            uintptr_t at = piece + i * page;
            size_t first = at > begin ? (at - begin) / each : 0, last = (at + page - begin + each - 1) / each;
            for (next = first > next ? first : next; next < last && next < granules; next++)
                add_granule(region, next);
        }
    }
}

static int by_address(const void *a, const void *b) {
    uintptr_t first = ((const struct accessed *)a)->begin, second = ((const struct accessed *)b)->begin;
    return (first > second) - (first < second);
}

void accessed_sort(struct accessed *all, size_t number) {
    qsort(all, number, sizeof *all, by_address);
}

void accessed_launch_ends(void) {
    count = 0;
    is_overfull = false;
    if (!is_kept || (!ranges && !(ranges = malloc(MOST * sizeof *ranges))))
        return;
    struct region *region;
    for (unsigned left = regions_of_arguments(&region); left > 0 && !is_overfull; left--, region++)
        if (region->cells)
            add_region(region);
    accessed_sort(ranges, count);
}
