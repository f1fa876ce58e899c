/* Places in a source: one object for each file and line, and the library that a program counter is in. */
#define _GNU_SOURCE
#include "machine.h"
#include <dlfcn.h>

enum { MOST_SITES = 4096 };

static struct sim_site sites[MOST_SITES];
static unsigned site_count;

/* `file` lives as long as the kernel's library, and each file of it has one name. */
const struct sim_site *sim_site_at(const char *file, int line) {
    struct sim_worker *worker = sim_worker_of_fiber(); /* NULL before this OS thread's first launch */
    const struct sim_site **at = worker ? &worker->sites[(unsigned)line % SIM_REMEMBERED_SITES] : NULL;
    if (at && *at && (*at)->file == file && (*at)->line == line)
        return *at;
    sim_lock_for_a_moment();
    unsigned i = 0;
    while (i < site_count && (sites[i].file != file || sites[i].line != line))
        i++;
    if (i == site_count && site_count < MOST_SITES)
        sites[site_count++] = (struct sim_site){file, line};
    const struct sim_site *found = &sites[i < MOST_SITES ? i : MOST_SITES - 1];
    sim_unlock_for_a_moment();
    if (at)
        *at = found;
    return found;
}

const char *sim_library_of(unsigned long long pc, unsigned long long *offset) {
    Dl_info info;
    if (!dladdr((void *)(uintptr_t)pc, &info))
        return NULL;
    *offset = pc - (uintptr_t)info.dli_fbase;
    return info.dli_fname;
}
