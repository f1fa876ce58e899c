/* The global memory of a launch, and what is kept of each word of it: its history, for races, and whether the
 * launch read or wrote it, for the footprint.
 *
 * Arguments that overlap share a region. All of it is mapped at once, and only what launches touch takes
 * memory. */
#define _GNU_SOURCE
#include "recorder.h"
#include <pthread.h>
#include <sys/mman.h>

static struct region regions[MOST_PLACES];
static unsigned region_count; /* of arguments and variables */
static unsigned argument_regions;
static pthread_mutex_t mutex =
    PTHREAD_MUTEX_INITIALIZER; /* for variables, which OS threads meet as they run */

unsigned regions_of_arguments(struct region **first) {
    *first = regions;
    return argument_regions;
}

static struct region *region_at(uintptr_t address) {
    for (unsigned i = 0; i < region_count; i++)
        if (address - regions[i].begin < regions[i].words * WORD_BYTES)
            return &regions[i];
    return NULL;
}

/* A history is for a whole word, unless the elements are known to be smaller. */
static unsigned granule_bits(const struct place *place) {
    return place->element_bytes == 1 ? 0 : place->element_bytes == 2 ? 1 : 2;
}

static uintptr_t round_down(uintptr_t address) {
    return address / SECTOR_BYTES * SECTOR_BYTES;
}

static struct region *add(const struct place *place) {
    uintptr_t begin = round_down(place->begin), end = round_down(place->end + SECTOR_BYTES - 1);
    unsigned bits = granule_bits(place);
    for (unsigned i = 0; i < region_count; i++) {
        struct region *region = &regions[i];
        uintptr_t region_end = region->begin + region->words * WORD_BYTES;
        if (begin >= region_end || end <= region->begin)
            continue;
        begin = begin < region->begin ? begin : region->begin;
        end = end > region_end ? end : region_end;
        bits = bits < region->granule_bits ? bits : region->granule_bits;
        *region = regions[--region_count];
        i = UINT32_MAX; /* the larger region may overlap those already looked at */
    }
    regions[region_count] =
        (struct region){.begin = begin, .words = (end - begin) / WORD_BYTES, .granule_bits = bits};
    return &regions[region_count++];
}

/* ---- Memory ---- */

/* A launch may use only a small part of an argument. */
static size_t granules_of(const struct region *region) {
    return region->words * WORD_BYTES >> region->granule_bits;
}

static size_t history_bytes(const struct region *region) {
    return granules_of(region) * sizeof(struct history);
}

static size_t cells_bytes(const struct region *region) {
    return granules_of(region) * sizeof *region->cells;
}

static size_t sectors_bytes(const struct region *region) {
    return region->words * WORD_BYTES / SECTOR_BYTES * sizeof(uint32_t);
}

static size_t pages_of(const struct region *region) {
    return region->words / PAGE_WORDS + 1;
}

/* Memory of zeros. Small pieces are kept from one launch to the next and cleared, because a new page costs
 * more than clearing: the system maps it twice, for the first read and for the first write, and tells all
 * processors. A large piece takes memory only where it is touched; the largest ones have small pages. */
enum { KEPT_BYTES = 16 << 20, SMALL_BYTES = 4 << 20, MOST_IN_LARGE_PAGES = 256 << 20, LINE_BYTES = 64 };
static char *kept;
static size_t kept_used;

static void *map_anew(size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void *map_large(size_t bytes) {
    void *memory = map_anew(bytes);
    if (memory && bytes > SMALL_BYTES && bytes <= MOST_IN_LARGE_PAGES)
        madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static void *map(size_t bytes) {
    size_t whole_lines = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    if (!kept)
        kept = map_anew(KEPT_BYTES);
    if (kept && bytes <= SMALL_BYTES && whole_lines <= KEPT_BYTES - kept_used) {
        void *memory = kept + kept_used;
        kept_used += whole_lines;
        return memset(memory, 0, bytes);
    }
    return map_large(bytes);
}

static void unmap(void *memory, size_t bytes) {
    if (memory && (uintptr_t)memory - (uintptr_t)kept >= KEPT_BYTES)
        munmap(memory, bytes);
}

/* Memory that later launches take again as it is: a cell tells whose it is, and a history is filled before a
 * cell names it. New pages would take longer than all checks of a short launch. */
struct pool {
    struct piece {
        void *memory;
        size_t bytes;
        bool is_used;
    } pieces[2 * MOST_PLACES];
    unsigned count;
    unsigned next;
};
static struct pool cells, histories; /* what was for cells is for nothing else */
static uint32_t tag;

static void *take(struct pool *pool, size_t bytes) {
    enum { MOST_TOO_LARGE = 4 };
    for (unsigned i = 0; i < pool->count; i++) {
        struct piece *piece = &pool->pieces[pool->next++ % pool->count]; /* launches ask in the same order */
        if (!piece->is_used && piece->bytes >= bytes && piece->bytes / MOST_TOO_LARGE <= bytes) {
            piece->is_used = true;
            return piece->memory;
        }
    }
    void *memory = pool->count < sizeof pool->pieces / sizeof *pool->pieces ? map_large(bytes) : NULL;
    if (memory)
        pool->pieces[pool->count++] = (struct piece){memory, bytes, true};
    return memory;
}

/* Gives back what has not been used in the latest launch, and what is too much to be kept. */
static void keep(struct pool *pool, size_t most_bytes) {
    size_t kept_bytes = 0;
    pool->next = 0;
    for (unsigned i = 0; i < pool->count;) {
        struct piece *piece = &pool->pieces[i];
        kept_bytes += piece->bytes;
        if (piece->is_used && kept_bytes <= most_bytes) {
            piece->is_used = false;
            i++;
        } else {
            kept_bytes -= piece->bytes;
            munmap(piece->memory, piece->bytes);
            *piece = pool->pieces[--pool->count];
        }
    }
}

uint32_t regions_tag(void) {
    return tag << CELL_TAG;
}

static bool map_histories(struct region *region) {
    region->history = take(&histories, history_bytes(region));
    region->cells = take(&cells, cells_bytes(region));
    return region->history && region->cells;
}

static void share(struct place *place, const struct region *region) {
    size_t offset = place->begin - region->begin;
    place->granule_bits = region->granule_bits;
    place->history = region->history + (offset >> region->granule_bits);
    place->cells = region->cells + (offset >> region->granule_bits);
    if (!region->touched)
        return;
    place->first_word = offset / WORD_BYTES;
    place->touched = region->touched + place->first_word;
    place->pages = region->pages;
    place->touched_in = region->touched_in + offset / SECTOR_BYTES;
}

bool regions_launch_begins(bool counts) {
    region_count = 0;
    tag++;
    for (unsigned i = 0; i < argument_count(); i++)
        add(argument_at(i));
    argument_regions = region_count;
    for (unsigned i = 0; i < region_count; i++) {
        struct region *region = &regions[i];
        if (!map_histories(region))
            return false;
        if (counts && (!(region->touched = map(region->words)) || !(region->pages = map(pages_of(region))) ||
                       !(region->touched_in = map(sectors_bytes(region)))))
            return false;
    }
    for (unsigned i = 0; i < argument_count(); i++)
        share(argument_at(i), region_at(argument_at(i)->begin));
    return true;
}

void regions_add_variable(struct place *place, const struct place *whole) {
    pthread_mutex_lock(&mutex);
    struct region *region = region_at(place->begin);
    if (!region && region_count < MOST_PLACES) {
        region = add(whole);
        map_histories(region);
    }
    if (region && region->history && region->cells)
        share(place, region);
    pthread_mutex_unlock(&mutex);
}

void regions_forget(uintptr_t begin, size_t bytes) {
    pthread_mutex_lock(&mutex);
    const struct region *region = region_at(begin);
    if (region && region->cells) {
        size_t first = (begin - region->begin) >> region->granule_bits;
        size_t end = ((begin + bytes - 1 - region->begin) >> region->granule_bits) + 1;
        memset(region->cells + first, 0, (end - first) * sizeof *region->cells);
    }
    pthread_mutex_unlock(&mutex);
}

void regions_launch_ends(bool with_fault) {
    enum { MOST_KEPT_BYTES = 256 << 20 };
    for (unsigned i = 0; i < region_count; i++) {
        const struct region *region = &regions[i];
        unmap(region->touched, region->words);
        unmap(region->pages, pages_of(region));
        unmap(region->touched_in, sectors_bytes(region));
    }
    /* Cells begin anew behind the last tag, and after a fault, which may have left one locked. */
    bool keeps_cells = tag < CELL_MOST_TAG && !with_fault;
    keep(&histories, MOST_KEPT_BYTES);
    keep(&cells, keeps_cells ? MOST_KEPT_BYTES : 0);
    if (!keeps_cells)
        tag = 0;
    region_count = argument_regions = 0;
    kept_used = 0;
}
