/* Isolated memory: a launch that is not counted runs on copies of its tensors, with no other memory near
   them.
 *
 * The tensors are among the program's other memory. So a kernel that leaves an array would change its
 * neighbours, and the process would end much later; and a checker that knows addresses would take the access
 * for one to another tensor. A copy ends at a page's end, and there is no memory for many GiB before and
 * after. So the checker finds nothing there; without a check the processor refuses the access, which makes it
 * a fault (crash.c) that names the array. What the kernel has changed is copied back when the launch ends.
 */
#define _GNU_SOURCE
#include "machine.h"
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_COPIES = 32 };
static const size_t most_bytes = (size_t)1 << 30; /* of all copies of a launch: more is not worth the time */
static const size_t most_kept = (size_t)64 << 20; /* of a copy, until the next launch */

struct copy {
    void *original;
    size_t bytes;
    unsigned element_bytes;
    char name[48];
};

/* The copies of this OS thread's next launch. */
static _Thread_local struct copy wanted[MOST_COPIES];
static _Thread_local unsigned wanted_count;
static _Thread_local size_t wanted_bytes;

/* The copies of the running launch; the owner of the launches' lock owns them. */
static const struct copy *copies;
static unsigned copy_count;

/* Address space, with a part for each possible copy. A copy ends in the middle of its part. */
static unsigned char *space;
static size_t part_bytes;
static size_t accessible[MOST_COPIES]; /* bytes before the middle of each part */
static size_t page_bytes;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A 32-bit index of 16-byte elements reaches up to 32 GiB away; some systems have less address space.
 */
static void reserve(void) {
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (part_bytes = (size_t)128 << 30; part_bytes >= 4 * most_bytes; part_bytes /= 2) {
        void *got = mmap(NULL, part_bytes * MOST_COPIES, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (got != MAP_FAILED) {
            space = got;
            return;
        }
    }
}

/* Rounded up to whole pages. */
static size_t in_pages(size_t bytes) {
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

static unsigned char *middle_of(unsigned number) {
    return space + part_bytes * number + part_bytes / 2;
}

/* A multiple of 16 bytes from the original, so that both have the same alignment. */
static unsigned char *place_of_copy(unsigned number, const void *original, size_t bytes) {
    enum { ALIGNMENT = 16 };
    uintptr_t place = (uintptr_t)middle_of(number) - bytes;
    return (unsigned char *)(place - (place - (uintptr_t)original) % ALIGNMENT);
}

void *sim_isolate(void *original, unsigned long long bytes, unsigned element_bytes, const char *name) {
#ifdef __SANITIZE_ADDRESS__
    return NULL; /* AddressSanitizer knows what is beside the original */
#endif
    pthread_once(&once, reserve);
    if (!space || wanted_count == MOST_COPIES || bytes > most_bytes - wanted_bytes)
        return NULL;
    struct copy *copy = &wanted[wanted_count];
    *copy = (struct copy){.original = original, .bytes = bytes, .element_bytes = element_bytes};
    snprintf(copy->name, sizeof copy->name, "%s", name);
    wanted_bytes += bytes;
    return place_of_copy(wanted_count++, original, bytes);
}

void sim_isolate_nothing(void) {
    wanted_count = 0;
    wanted_bytes = 0;
}

/* The words that may hold an address: those at multiples of their size. */
struct words {
    uintptr_t *begin, *end;
};

static struct words words_in(void *memory, size_t bytes) {
    enum { BYTES = sizeof(uintptr_t) };
    uintptr_t begin = (uintptr_t)memory, end = begin + bytes;
    return (struct words){(uintptr_t *)((begin + BYTES - 1) / BYTES * BYTES),
                          (uintptr_t *)(end / BYTES * BYTES)};
}

/* Whether one of the words is at least `low` and less than `high`. */
static bool any_within(struct words words, uintptr_t low, uintptr_t high) {
    bool any = false;
    for (const uintptr_t *word = words.begin; word < words.end; word++)
        any |= *word - low < high - low;
    return any;
}

int sim_isolated_have_addresses(void) {
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (unsigned i = 0; i < wanted_count; i++) {
        uintptr_t begin = (uintptr_t)wanted[i].original, end = begin + wanted[i].bytes;
        low = begin < low ? begin : low;
        high = end > high ? end : high;
    }
    for (unsigned in = 0; in < wanted_count; in++) {
        struct words words = words_in(wanted[in].original, wanted[in].bytes);
        if (!any_within(words, low, high))
            continue;
        for (unsigned of = 0; of < wanted_count; of++) {
            uintptr_t begin = (uintptr_t)wanted[of].original;
            if (any_within(words, begin, begin + wanted[of].bytes))
                return true;
        }
    }
    return false;
}

/* Makes exactly the pages of a copy accessible. */
static bool open_pages(unsigned number, size_t bytes) {
    size_t needed = in_pages(bytes), had = accessible[number];
    unsigned char *middle = middle_of(number);
    bool is_done = needed == had || (needed > had ? mprotect(middle - needed, needed, PROT_READ | PROT_WRITE)
                                                  : mprotect(middle - had, had - needed, PROT_NONE)) == 0;
    if (is_done)
        accessible[number] = needed;
    return is_done;
}

bool sim_isolation_begin(void) {
    copies = wanted;
    copy_count = wanted_count;
    for (unsigned i = 0; i < copy_count; i++) {
        const struct copy *copy = &copies[i];
        unsigned char *place = place_of_copy(i, copy->original, copy->bytes);
        if (!open_pages(i, (size_t)(middle_of(i) - place)))
            return false;
        memcpy(place, copy->original, copy->bytes);
    }
    return true;
}

/* Turns an address in a copy, which the kernel has written, into one in the original. */
static void point_to_originals(void *memory, size_t bytes) {
    struct words words = words_in(memory, bytes);
    for (uintptr_t *word = words.begin; word < words.end; word++) {
        uintptr_t in_space = *word - (uintptr_t)space;
        if (in_space >= part_bytes * copy_count)
            continue;
        unsigned number = (unsigned)(in_space / part_bytes);
        const struct copy *copy = &copies[number];
        uintptr_t offset = *word - (uintptr_t)place_of_copy(number, copy->original, copy->bytes);
        if (offset <= copy->bytes)
            *word = (uintptr_t)copy->original + offset;
    }
}

void sim_isolation_end(void) {
    for (unsigned i = 0; i < copy_count; i++) {
        const struct copy *copy = &copies[i];
        unsigned char *place = place_of_copy(i, copy->original, copy->bytes);
        if (memcmp(copy->original, place, copy->bytes) != 0) {
            point_to_originals(place, copy->bytes);
            memcpy(copy->original, place, copy->bytes);
        }
        if (copy->bytes > most_kept)
            madvise(middle_of(i) - accessible[i], accessible[i], MADV_DONTNEED);
    }
    copy_count = 0;
}

/* ---- Dynamic shared memory ---- */

unsigned char *sim_isolated_shared(struct sim_worker *worker, size_t bytes) {
    const size_t gap = (size_t)8 << 30; /* to both sides: an index of 32 bits leads so far away */
    pthread_once(&once, reserve);
    if (!worker->shared_space) {
        void *got = mmap(NULL, 2 * gap, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (got == MAP_FAILED)
            return NULL;
        worker->shared_space = got;
        worker->shared_space_bytes = 2 * gap;
    }
    unsigned char *middle = worker->shared_space + gap;
    size_t all = in_pages(SIM_MAX_SHARED_BYTES), needed = in_pages(bytes);
    if (mprotect(middle - all, all - needed, PROT_NONE) != 0 ||
        mprotect(middle - needed, needed, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    return middle - bytes;
}

void sim_isolated_shared_free(struct sim_worker *worker) {
    if (worker->shared_space)
        munmap(worker->shared_space, worker->shared_space_bytes);
}

/* ---- Reports ---- */

void sim_report_near_isolated(struct sim_access_report *access, uintptr_t address) {
    uintptr_t shared = (uintptr_t)sim_worker->shared_memory;
    if (sim_worker->shared_space &&
        address - (uintptr_t)sim_worker->shared_space < sim_worker->shared_space_bytes)
        sim_report_access(access, "accesses byte %lld of dynamic shared memory, of which the block has %zu",
                          (long long)(address - shared), sim_worker->shared_memory_bytes);
    if (!space || address - (uintptr_t)space >= part_bytes * MOST_COPIES)
        return;
    unsigned number = (unsigned)((address - (uintptr_t)space) / part_bytes);
    if (number >= copy_count)
        return;
    const struct copy *copy = &copies[number];
    long long element = copy->element_bytes ? copy->element_bytes : 1;
    long long offset = (long long)(address - (uintptr_t)place_of_copy(number, copy->original, copy->bytes));
    access->has_index = true;
    access->index = offset >= 0 ? offset / element : -((-offset + element - 1) / element);
    sim_report_access(access, "accesses %s[%lld], which has %lld elements", copy->name, access->index,
                      (long long)copy->bytes / element);
}
