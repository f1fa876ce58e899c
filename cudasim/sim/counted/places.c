/* Which memory a kernel may access: the arguments that Python allowed, its block's shared memory, and its
 * library's variables.
 *
 * A __shared__ array is a thread-local variable of the kernel's library, so its extent and its name are in
 * that library's symbol table. */
#define _GNU_SOURCE
#include "../elf_symbols.h"
#include "../heap.h"
#include "../hopper/async.h"
#include "recorder.h"
#include <ctype.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>

/* ---- The places of a launch, as one OS thread sees them ---- */

static void add_place(struct recorder *self, const struct place *place) {
    if (self->places.count < MOST_PLACES)
        self->places.all[self->places.count++] = *place;
}

static void add_shared(struct recorder *self, uintptr_t begin, size_t bytes, const char *name) {
    struct place place = {.begin = begin, .end = begin + bytes, .space = COUNTED_SHARED};
    snprintf(place.name, sizeof place.name, "%s", name);
    history_of_shared(self, &place);
    add_place(self, &place);
}

bool is_shared(const struct recorder *self, uintptr_t address) {
    for (unsigned i = 0; i < self->places.count; i++)
        if (address - self->places.all[i].begin < self->places.all[i].end - self->places.all[i].begin)
            return self->places.all[i].space == COUNTED_SHARED;
    return false;
}

bool places_create(struct places *places) {
    places->all = calloc(MOST_PLACES, sizeof *places->all);
    return places->all != NULL;
}

void places_free(struct places *places) {
    free(places->all);
}

void places_worker_begins(struct recorder *self) {
    self->places.count = 0;
    self->places.static_shared_bytes = 0;
    for (unsigned i = 0; i < argument_count(); i++)
        add_place(self, argument_at(i));
    if (self->worker->shared_memory_bytes > 0)
        add_shared(self, (uintptr_t)self->worker->shared_memory, self->worker->shared_memory_bytes,
                   "dynamic_shared");
    /* The kernel's parameters, wherever the caller has put them; on a GPU they are constant memory. */
    struct place parameters = {.begin = (uintptr_t)sim_launch_now.arguments, .space = COUNTED_NOTHING};
    parameters.end = parameters.begin + sim_launch_now.argument_bytes;
    add_place(self, &parameters);
}

static bool holds(const struct place *place, uintptr_t address, size_t bytes) {
    size_t size = place->end - place->begin;
    return bytes <= size && address - place->begin <= size - bytes;
}

/* ---- Variables of libraries ---- */

struct search {
    uintptr_t address;
    struct place found; /* its end is 0 when there is none */
    char name[1024];    /* the name in the symbol table: in C++ with all the types of the function that the
                           variable is in */
};

/* The symbol of `type` that covers `value`, in the library's file. */
static void find_symbol(const char *file, unsigned type, uintptr_t value, struct search *search) {
    struct sim_symbols symbols;
    if (!sim_symbols_open(&symbols, file))
        return;
    for (size_t i = 0; i < symbols.count; i++) {
        const ElfW(Sym) *symbol = &symbols.all[i];
        if (ELF64_ST_TYPE(symbol->st_info) != type || value - symbol->st_value >= symbol->st_size)
            continue;
        search->found.begin = search->address - (value - symbol->st_value);
        search->found.end = search->found.begin + symbol->st_size;
        snprintf(search->name, sizeof search->name, "%s", symbols.names + symbol->st_name);
        search->found.is_constant = strcmp(sim_symbol_section(&symbols, symbol), "sim_constant") == 0;
    }
    sim_symbols_close(&symbols);
}

/* Compilers of C name a variable of a function `name.number` or `function.name`; in C++ its name ends in
 * `E`, its length, and itself. */
static bool is_in_function(const char *name) {
    return strchr(name, '.') != NULL || strncmp(name, "_ZZ", 3) == 0;
}

/* The compiler's own note of whether a variable of a class has been constructed. */
static bool is_guard(const char *name) {
    return strncmp(name, "_ZGV", 4) == 0;
}

static void keep_source_name(char *name) {
    for (char *end = strncmp(name, "_Z", 2) == 0 ? name + strlen(name) : name; end > name; end--) {
        char *rest;
        unsigned long length = isdigit((unsigned char)*end) ? strtoul(end, &rest, 10) : 0;
        if (length > 0 && !isdigit((unsigned char)end[-1]) && length <= strlen(rest)) {
            memmove(name, rest, length);
            name[length] = '\0';
            return;
        }
    }
    char *dot = strchr(name, '.');
    if (dot && dot[1] >= '0' && dot[1] <= '9')
        *dot = '\0';
    else if (dot)
        memmove(name, dot + 1, strlen(dot));
}

static int look_in_library(struct dl_phdr_info *library, size_t size, void *data) {
    (void)size;
    struct search *search = data;
    bool is_simulator = sim_library_has(library, (uintptr_t)look_in_library);
    bool is_kernels = sim_library_has(library, (uintptr_t)sim_launch_now.enter);
    /* A kernel reaches another library's variables by mistake only. */
    if (!is_simulator && !is_kernels)
        return 0;
    for (unsigned i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];
        uintptr_t offset = search->address - (uintptr_t)library->dlpi_tls_data;
        if (part->p_type == PT_TLS && library->dlpi_tls_data && offset < part->p_memsz) {
            find_symbol(library->dlpi_name, STT_TLS, offset, search);
            bool is_registers = is_simulator && strcmp(search->name, "sim_registers") == 0;
            bool is_other = is_guard(search->name) || is_registers;
            search->found.space = is_other ? COUNTED_NOTHING : COUNTED_SHARED;
            /* The simulator's own kernels have their shared memory in functions; its other variables of this
             * kind belong to no kernel. */
            if (is_simulator && !is_registers && !(is_kernels && is_in_function(search->name)))
                search->found.end = 0;
            return 1;
        }
        offset = search->address - library->dlpi_addr;
        if (part->p_type == PT_LOAD && offset - part->p_vaddr < part->p_memsz) {
            find_symbol(library->dlpi_name, STT_OBJECT, offset, search);
#ifdef __clang__
            /* The initial values of a local array have no name. They are in read-only memory. */
            if (search->found.end == 0 && part->p_flags == PF_R) {
                search->found.begin = library->dlpi_addr + part->p_vaddr;
                search->found.end = search->found.begin + part->p_memsz;
            }
#endif
            bool is_global = part->p_flags & PF_W && !search->found.is_constant;
            search->found.space = is_global ? COUNTED_GLOBAL : COUNTED_NOTHING;
            return 1;
        }
    }
    return 0;
}

static bool learn_variable(struct recorder *self, uintptr_t address) {
    struct search search = {.address = address};
    dl_iterate_phdr(look_in_library, &search);
    struct place *found = &search.found;
    if (found->end == 0)
        return false;
    keep_source_name(search.name);
    snprintf(found->name, sizeof found->name, "%.*s", (int)sizeof found->name - 1, search.name);
    if (found->space == COUNTED_SHARED) {
        add_shared(self, found->begin, found->end - found->begin, found->name);
        self->places.static_shared_bytes += found->end - found->begin;
        if (self->places.static_shared_bytes > MOST_STATIC_SHARED_BYTES)
            fault_static_shared(self->places.static_shared_bytes);
    } else {
        if (found->space == COUNTED_GLOBAL && !found->is_constant)
            regions_add_variable(found, found);
        add_place(self, found);
    }
    return true;
}

/* ---- The device's heap ---- */

/* The device's heap has one place, for the block that was looked up last. The histories are the whole heap's,
 * so that an address has the same one whichever block was. */
static struct place *place_in_heap(struct recorder *self, uintptr_t address) {
    struct place *place = &self->places.heap, whole = {0};
    uintptr_t begin;
    size_t bytes;
    if (!sim_heap_find(address, &begin, &bytes))
        return NULL;
    *place = (struct place){.begin = begin, .end = begin + bytes, .space = COUNTED_GLOBAL};
    snprintf(place->name, sizeof place->name, "%smemory from malloc()", bytes ? "" : "freed ");
    sim_heap_bounds(&whole.begin, &whole.end);
    if (bytes)
        regions_add_variable(place, &whole);
    return place;
}

void places_look_again(struct recorder *self, const struct place *place, uintptr_t address) {
    if (place == &self->places.heap && !holds(place, address, 1))
        place_in_heap(self, address);
}

void watch_heap_takes(const void *memory, size_t bytes) {
    regions_forget((uintptr_t)memory, bytes);
}

void watch_heap_is_given_back(void) {
    for (unsigned i = 0; recorder && i < KNOWN_SITES; i++)
        if (recorder->known[i].place == &recorder->places.heap)
            recorder->known[i] = (struct known_site){0};
}

/* ---- Look-up ---- */

struct place *place_of(struct recorder *self, uintptr_t address, unsigned bytes) {
    for (unsigned i = 0; i < self->places.count; i++)
        if (holds(&self->places.all[i], address, bytes))
            return &self->places.all[i];
    struct place of_other_block, *in_heap = place_in_heap(self, address);
    if (in_heap)
        return holds(in_heap, address, bytes) ? in_heap : NULL;
    if (clusters_find_place(self, address, bytes, &of_other_block))
        add_place(self, &of_other_block);
    else if (!learn_variable(self, address))
        return NULL;
    struct place *last = &self->places.all[self->places.count - 1];
    return holds(last, address, bytes) ? last : NULL;
}

static uintptr_t distance(const struct place *place, uintptr_t address) {
    return address < place->begin ? place->begin - address : address < place->end ? 0 : address - place->end;
}

const struct place *nearest_place(struct recorder *self, uintptr_t address) {
    const uintptr_t far = (uintptr_t)1 << 36; /* an index that went wrong rarely goes farther */
    const struct place *nearest = place_in_heap(self, address);
    if (nearest)
        return nearest;
    for (unsigned i = 0; i < self->places.count; i++) {
        const struct place *place = &self->places.all[i];
        if (place->space != COUNTED_NOTHING && distance(place, address) < far &&
            (!nearest || distance(place, address) < distance(nearest, address)))
            nearest = place;
    }
    return nearest;
}
