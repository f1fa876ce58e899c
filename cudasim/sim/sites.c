/* Places in a source: one object for each file and line, and the library that a program counter is in. */
#define _GNU_SOURCE
#include "machine.h"
#include <dlfcn.h>

enum { MOST_SITES = 4096 };

static struct sim_site sites[MOST_SITES];
static unsigned site_count;

/* `file` lives as long as the kernel's library, and each file of it has one name. */
const struct sim_site *sim_site_at(const char *file, int line) {
    enum { REMEMBERED = 64 }; /* a loop has several places */
    static _Thread_local const struct sim_site *known[REMEMBERED];
    const struct sim_site **at = &known[(unsigned)line % REMEMBERED], *latest = *at;
    if (latest && latest->file == file && latest->line == line)
        return latest;
    sim_lock_for_a_moment();
    unsigned i = 0;
    while (i < site_count && (sites[i].file != file || sites[i].line != line))
        i++;
    if (i == site_count && site_count < MOST_SITES)
        sites[site_count++] = (struct sim_site){file, line};
    *at = latest = &sites[i < MOST_SITES ? i : MOST_SITES - 1];
    sim_unlock_for_a_moment();
    return latest;
}

const char *sim_library_of(unsigned long long pc, unsigned long long *offset) {
    Dl_info info;
    if (!dladdr((void *)(uintptr_t)pc, &info))
        return NULL;
    *offset = pc - (uintptr_t)info.dli_fbase;
    return info.dli_fname;
}
