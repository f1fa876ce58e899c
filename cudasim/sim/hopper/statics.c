/* Static shared memory in clusters. A __shared__ array is thread-local memory of the kernel's library, and
 * the blocks of a cluster share one OS thread. So each block has a copy, which is put into the variables
 * while the block runs. To the others the copy is the block's shared memory; the block itself uses the
 * variables.
 *
 * This is for kernels in libraries of their own, from cells. The simulator's own library keeps more than
 * shared memory in such variables, so its kernels have dynamic shared memory in clusters. */
#define _GNU_SOURCE
#include "async.h"
#include "watch_hopper.h"
#include <link.h>
#include <stdlib.h>

/* The variables of this OS thread; bytes is 0 if there are none. */
struct variables {
    unsigned char *begin;
    size_t bytes;
    size_t padding; /* bytes of padding before and after them */
};

bool sim_library_has(const struct dl_phdr_info *library, uintptr_t address) {
    for (unsigned i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && address - library->dlpi_addr - part->p_vaddr < part->p_memsz)
            return true;
    }
    return false;
}

/* The bytes of padding in the library's note (cudasim/live/padding.py); 0 without such a note.
 */
static size_t padding_of(const struct dl_phdr_info *library) {
    for (unsigned i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];
        const unsigned char *notes = (const unsigned char *)library->dlpi_addr + part->p_vaddr;
        size_t multiple = part->p_align == 8 ? 8 : 4;
        for (size_t at = 0; part->p_type == PT_NOTE && at < part->p_memsz;) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(notes + at);
            const char *name = (const char *)(note + 1);
            size_t content = (sizeof *note + note->n_namesz + multiple - 1) / multiple * multiple;
            if (strcmp(name, "cudasim") == 0)
                return *(const uint32_t *)(notes + at + content);
            at += (content + note->n_descsz + multiple - 1) / multiple * multiple;
        }
    }
    return 0;
}

static int look_in_library(struct dl_phdr_info *library, size_t size, void *data) {
    (void)size;
    struct variables *variables = data;
    if (!sim_library_has(library, (uintptr_t)sim_launch_now.enter))
        return 0;
    /* A library of kernels in C has no such note, but the variables of all its kernels. */
    size_t padding = padding_of(library);
    for (unsigned i = 0; i < library->dlpi_phnum && padding; i++)
        if (library->dlpi_phdr[i].p_type == PT_TLS && library->dlpi_tls_data) {
            size_t bytes = library->dlpi_phdr[i].p_memsz - 2 * padding;
            *variables = (struct variables){library->dlpi_tls_data + padding, bytes, padding};
        }
    return 1;
}

static struct variables variables_now(void) {
    static _Thread_local struct variables known;
    static _Thread_local uint64_t launch;
    if (launch != sim_launch_now.number || known.bytes == 0) {
        known = (struct variables){0};
        launch = sim_launch_now.number;
        dl_iterate_phdr(look_in_library, &known);
    }
    return known;
}

/* The copy has its own padding, for the same reason. */
static bool have_copy(struct sim_worker *worker, const struct variables *variables) {
    unsigned char *got = worker->statics ? NULL : malloc(variables->bytes + 2 * variables->padding);
    if (got)
        worker->statics = memset(got + variables->padding, 0, variables->bytes);
    return worker->statics != NULL;
}

/* The block whose variables are in place; NULL: nothing was ever put in place. */
static _Thread_local struct sim_worker *in_place;

unsigned char *sim_statics_begin(void) {
    return variables_now().begin;
}

bool sim_is_static(const void *pointer) {
    struct variables variables = variables_now();
    return (uintptr_t)pointer - (uintptr_t)variables.begin < variables.bytes;
}

unsigned char *sim_bytes_at(struct sim_worker *owner, void *pointer) {
    struct variables variables = variables_now();
    size_t offset = (size_t)((unsigned char *)pointer - variables.begin);
    if (owner == (in_place ? in_place : sim_worker) || offset >= variables.bytes)
        return pointer;
    if (!have_copy(owner, &variables)) {
        sim_report_no_memory();
        sim_block_abandon();
    }
    return (unsigned char *)owner->statics + offset;
}

void sim_statics_change(struct sim_worker *from, struct sim_worker *to) {
    struct variables variables = variables_now();
    from = in_place ? in_place : from;
    in_place = to;
    if (variables.bytes == 0 || from == to)
        return;
    if (!have_copy(from, &variables) || !have_copy(to, &variables)) {
        sim_report_no_memory();
        return;
    }
    memcpy(from->statics, variables.begin, variables.bytes);
    memcpy(variables.begin, to->statics, variables.bytes);
}

void sim_statics_forget(struct sim_worker *worker) {
    in_place = NULL;
    if (worker->statics)
        free(worker->statics - variables_now().padding);
    worker->statics = NULL;
}

bool sim_statics_find(const struct sim_worker *owner, uintptr_t address, uintptr_t *variable) {
    struct variables variables = variables_now();
    uintptr_t offset = address - (uintptr_t)owner->statics;
    if (!owner->statics || offset >= variables.bytes)
        return false;
    *variable = (uintptr_t)variables.begin + offset;
    return true;
}

void *sim_map_shared_rank(const struct sim_site *site, const void *pointer, unsigned rank) {
    struct sim_cluster *cluster = sim_cluster_here();
    if (rank >= cluster->size)
        sim_report_call(SIM_OUT_OF_BOUNDS, site, "maps shared memory to block %u of a cluster of %u", rank,
                        cluster->size);
    struct sim_worker *owner = cluster->block[rank];
    if (owner == sim_worker)
        return (void *)(uintptr_t)pointer;
    if (cluster->ended[rank])
        sim_report_call(SIM_BLOCK_HAS_EXITED, site,
                        "maps shared memory of block %u of its cluster, which has exited", rank);
    uintptr_t offset = (uintptr_t)pointer - (uintptr_t)sim_worker->shared_memory;
    if (sim_worker->shared_memory && offset < sim_worker->shared_memory_bytes)
        return owner->shared_memory + offset;
    struct variables variables = variables_now();
    offset = (uintptr_t)pointer - (uintptr_t)variables.begin;
    if (offset >= variables.bytes)
        sim_report_call(SIM_OUT_OF_BOUNDS, site, "maps %p, which is not in its block's shared memory",
                        pointer);
    if (!have_copy(owner, &variables)) {
        sim_report_no_memory();
        sim_block_abandon();
    }
    return owner->statics + offset;
}
