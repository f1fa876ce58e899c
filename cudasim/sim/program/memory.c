/* The memory of a program: each allocation's place, its owner, and its permitted uses.
 *
 * Device memory is in the program's process, where kernels need it. Host code may not touch it, as on a
 * machine with a GPU: the processor refuses the access (mprotect), and the message names the memory. */
#define _GNU_SOURCE
#include "program.h"
#include "../machine.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef SIM_COUNTED
#include "../counted/concurrent.h"
#endif

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DIRECTION = 21, INVALID_HANDLE = 400 };
enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS };

static struct sim_allocation *all; /* in the order of their addresses */
static unsigned count, capacity;
static size_t used[SIM_MOST_GPUS];

size_t sim_memory_used(int device) {
    return used[device];
}

unsigned sim_allocation_count(void) {
    return count;
}

struct sim_allocation *sim_allocation_number(unsigned index) {
    return &all[index];
}

/* The number of allocations that begin at or before the address. */
static unsigned up_to(const void *address) {
    unsigned low = 0, high = count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if ((uintptr_t)all[middle].begin <= (uintptr_t)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct sim_allocation *sim_allocation_at(const void *address) {
    unsigned before = up_to(address);
    if (before == 0)
        return NULL;
    struct sim_allocation *found = &all[before - 1];
    size_t size = found->bytes ? found->bytes : 1;
    return (uintptr_t)address - (uintptr_t)found->begin < size ? found : NULL;
}

static size_t whole_pages(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static bool add(struct sim_allocation added) {
    if (count == capacity) {
        unsigned larger = capacity ? 2 * capacity : 64;
        struct sim_allocation *moved = realloc(all, larger * sizeof *all);
        if (!moved)
            return false;
        all = moved, capacity = larger;
    }
    unsigned at = up_to(added.begin);
    memmove(&all[at + 1], &all[at], (count - at) * sizeof *all);
    all[at] = added;
    count++;
    return true;
}

/* ---- What host code may touch ---- */

static void protect(struct sim_allocation *of, int protection) {
    if (!of->is_symbol)
        mprotect(of->begin, whole_pages(of->bytes), protection);
}

static unsigned opened;
static int opened_for;

bool sim_memory_is_for(const struct sim_allocation *memory, int device) {
    return device == SIM_ALL_DEVICES || device == memory->device || !memory->peers ||
           *memory->peers >> device & 1;
}

static int protection_of(const struct sim_allocation *of) {
    if (opened > 0)
        return sim_memory_is_for(of, opened_for) ? PROT_READ | PROT_WRITE : PROT_NONE;
    if (of->kind == SIM_DEVICE_MEMORY)
        return PROT_NONE;
    return !of->uses ? PROT_READ | PROT_WRITE : of->uses->writes ? PROT_NONE : PROT_READ;
}

void sim_memory_protect(struct sim_allocation *memory) {
    protect(memory, protection_of(memory));
}

/* For a launch, or after it: one call for neighbours, which new memory mostly is. */
static void protect_all(void) {
    unsigned char *begin = NULL, *end = NULL;
    int protection = PROT_NONE;
    for (unsigned i = 0; i < count; i++) {
        const struct sim_allocation *of = &all[i];
        if (of->is_symbol || (of->kind != SIM_DEVICE_MEMORY && !of->uses))
            continue;
        if (begin && (of->begin != end || protection_of(of) != protection)) {
            mprotect(begin, (size_t)(end - begin), protection);
            begin = NULL;
        }
        begin = begin ? begin : of->begin;
        end = of->begin + whole_pages(of->bytes);
        protection = protection_of(of);
    }
    if (begin)
        mprotect(begin, (size_t)(end - begin), protection);
}

/* Only the two allocations of a copy: a program may have thousands of others. */
static void open_at(const void *address) {
    struct sim_allocation *of = sim_allocation_at(address);
    if (of && protection_of(of) != (PROT_READ | PROT_WRITE))
        protect(of, PROT_READ | PROT_WRITE);
}

static void close_at(const void *address) {
    struct sim_allocation *of = sim_allocation_at(address);
    if (of && protection_of(of) != (PROT_READ | PROT_WRITE))
        sim_memory_protect(of);
}

void sim_memory_open(int device) {
    if (opened++ > 0)
        return;
    opened_for = device;
    sim_memory_of_others = sim_memory_out_of_reach;
    protect_all();
}

enum { REMEMBERED = 64 };
static struct freed {
    struct sim_allocation was;
    struct sim_called by;
} freed[REMEMBERED]; /* the last ones, in a ring */
static unsigned freed_count;

static const struct freed *freed_at(const void *address) {
    for (unsigned i = 1; i <= REMEMBERED && i <= freed_count; i++) {
        const struct freed *of = &freed[(freed_count - i) % REMEMBERED];
        if ((uintptr_t)address - (uintptr_t)of->was.begin < of->was.bytes)
            return of;
    }
    return NULL;
}

/* "d (cudaMalloc at a.cu:3), which was freed at a.cu:9"; NULL if it was not, or by no line of the program. */
static const char *told_as_freed(const void *address) {
    static char phrase[300];
    const struct freed *of = sim_allocation_at(address) ? NULL : freed_at(address);
    if (!of || !of->by.line || !of->was.called.line)
        return NULL;
    snprintf(phrase, sizeof phrase, "%s (%s at %s:%d), which was freed at %s:%d",
             of->was.called.name ? of->was.called.name : "memory", of->was.called.function,
             of->was.called.file, of->was.called.line, of->by.file, of->by.line);
    return phrase;
}

static bool is_mapped(const void *address) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char resident;
    return mincore((void *)((uintptr_t)address / page * page), 1, &resident) == 0;
}

const char *sim_memory_out_of_reach(const void *address, bool is_far) {
    static char phrase[300];
    if (opened == 0)
        return NULL;
    const struct sim_allocation *of = sim_allocation_at(address);
    const char *before = told_as_freed(address);
    if (before)
        return before;
    if (of && !sim_memory_is_for(of, opened_for))
        snprintf(phrase, sizeof phrase,
                 "%s of device %d (%s at %s:%d), whose memory the kernel of device %d may not access without "
                 "%s",
                 of->called.name ? of->called.name : "memory", of->device, of->called.function,
                 of->called.file, of->called.line, opened_for,
                 of->peers == sim_device_peers(of->device) ? "cudaDeviceEnablePeerAccess()"
                                                           : "cudaMemPoolSetAccess()");
    else if (!of && is_far && is_mapped(address))
        snprintf(phrase, sizeof phrase,
                 "memory of the host (%p), which a kernel cannot access: it needs a copy, in memory that "
                 "cudaMalloc() gave",
                 address);
    else
        return NULL;
    return phrase;
}

void sim_memory_close(void) {
    if (--opened > 0)
        return;
    protect_all();
}

/* ---- Taking and giving back ---- */

/* Returns new memory there, or anywhere; NULL if there is none. */
static void *mapped(void *place, size_t bytes, int protection) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (place ? MAP_FIXED : 0);
    void *found = mmap(place, whole_pages(bytes), protection, flags, -1, 0);
    if (found == MAP_FAILED)
        return NULL;
#ifdef MADV_HUGEPAGE
    enum { LARGE = 2 << 20 };
    if (bytes >= LARGE) /* each launch protects it anew, page by page */
        madvise(found, whole_pages(bytes), MADV_HUGEPAGE);
#endif
    return found;
}

/* wanted.begin: NULL, or the address of a graph's memory. */
static int take(void **memory, struct sim_allocation wanted) {
    if (!memory)
        return sim_program_error(INVALID_VALUE);
    *memory = NULL;
    if (wanted.bytes == 0)
        return sim_program_error(0);
    bool is_of_gpu = wanted.kind != SIM_PINNED_MEMORY;
    if (is_of_gpu && wanted.bytes > sim_gpu_now()->memory_bytes - used[wanted.device])
        return sim_program_error(OUT_OF_MEMORY);
    wanted.is_of_graph = wanted.begin;
    if (!wanted.begin)
        wanted.begin = mapped(NULL, wanted.bytes, PROT_READ | PROT_WRITE);
    if (!wanted.begin)
        return sim_program_error(OUT_OF_MEMORY);
#ifdef SIM_COUNTED
    /* Managed memory belongs to the host too, whose writes are not seen. */
    wanted.written = wanted.kind == SIM_DEVICE_MEMORY ? calloc(wanted.bytes, 1) : NULL;
#endif
    if (!add(wanted)) {
        munmap(wanted.begin, whole_pages(wanted.bytes));
        return sim_program_error(OUT_OF_MEMORY);
    }
    used[wanted.device] += is_of_gpu ? wanted.bytes : 0;
    sim_memory_protect(&wanted);
    *memory = wanted.begin;
    return sim_program_error(0);
}

int sim_memory_take(void **memory, size_t bytes, enum sim_memory_kind kind, struct sim_called called) {
    int device = sim_device_now();
    const uint64_t *peers = kind == SIM_DEVICE_MEMORY ? sim_device_peers(device) : NULL;
    return take(memory,
                (struct sim_allocation){
                    .bytes = bytes, .kind = kind, .called = called, .device = device, .peers = peers});
}

int sim_memory_take_from(void **memory, void *place, size_t bytes, int device, const uint64_t *peers,
                         struct sim_called called) {
    return take(memory, (struct sim_allocation){.begin = place,
                                                .bytes = bytes,
                                                .kind = SIM_DEVICE_MEMORY,
                                                .called = called,
                                                .device = device,
                                                .peers = peers});
}

void *sim_memory_reserve(size_t bytes) {
    return mapped(NULL, bytes, PROT_NONE);
}

size_t sim_memory_of(const uint64_t *peers) {
    size_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        bytes += all[i].peers == peers ? all[i].bytes : 0;
    return bytes;
}

void sim_memory_add_symbol(void *variable, size_t bytes) {
    if (!sim_allocation_at(variable))
        add((struct sim_allocation){.begin = variable,
                                    .bytes = bytes,
                                    .kind = SIM_DEVICE_MEMORY,
                                    .called = {.name = sim_symbol_name(variable)},
                                    .is_symbol = true});
}

int sim_memory_give_back(void *memory, enum sim_memory_kind kind, struct sim_called called) {
    if (!memory)
        return sim_program_error(0);
    struct sim_allocation *found = sim_allocation_at(memory);
    bool is_of_gpu = found && found->kind != SIM_PINNED_MEMORY;
    if (!found || found->begin != memory || found->is_symbol || is_of_gpu != (kind != SIM_PINNED_MEMORY)) {
        const char *before = told_as_freed(memory);
        if (before)
            sim_program_say(&called, "frees %s", before);
        else
            sim_program_say(&called, "frees %p, %s", memory,
                            !found                   ? "which no call has given, or which was freed before"
                            : found->begin != memory ? "which is inside an allocation, and not its beginning"
                            : found->is_symbol       ? "which is a variable of the program"
                            : is_of_gpu              ? "which is memory of the GPU"
                                                     : "which is memory of the host");
        return sim_program_error(INVALID_VALUE);
    }
    sim_device_waits(); /* as cudaFree() does */
    freed[freed_count++ % REMEMBERED] = (struct freed){*found, called};
    used[found->device] -= is_of_gpu ? found->bytes : 0;
    if (found->is_of_graph)
        mapped(found->begin, found->bytes, PROT_NONE); /* forgotten, and still reserved */
    else
        munmap(found->begin, whole_pages(found->bytes));
    free(found->written);
    unsigned at = (unsigned)(found - all);
    memmove(found, found + 1, (--count - at) * sizeof *all);
    return sim_program_error(0);
}

/* One sentence for all allocations of one line. */
void sim_program_tell_leaks(void) {
    for (unsigned i = 0; i < count; i++) {
        size_t bytes = 0;
        unsigned times = 0;
        if (all[i].called.line == 0)
            continue; /* a library's */
        for (unsigned j = 0; j < count; j++) {
            bool is_same =
                all[j].called.line == all[i].called.line && all[j].called.file == all[i].called.file;
            if (is_same && !all[j].is_symbol && j < i)
                break; /* told already */
            if (is_same && !all[j].is_symbol)
                bytes += all[j].bytes, times++;
        }
        const char *name = all[i].called.name;
        if (times == 1)
            sim_program_say(&all[i].called, "%s%s%zu bytes were never freed", name ? name : "",
                            name ? ": " : "", bytes);
        else if (times > 1)
            sim_program_say(&all[i].called, "%s%s%u allocations, of %zu bytes in all, were never freed",
                            name ? name : "", name ? ": " : "", times, bytes);
    }
}

/* ---- Copies ---- */

static bool is_on_device(const void *address) {
    const struct sim_allocation *found = sim_allocation_at(address);
    return found && found->kind != SIM_PINNED_MEMORY;
}

/* Whether there are this many bytes, if the address is in an allocation at all; `does`: what happens to
   them. */
static bool has_bytes(const void *begin, size_t bytes, const char *does, const struct sim_called *called) {
    const struct sim_allocation *found = sim_allocation_at(begin);
    size_t from = found ? (size_t)((const unsigned char *)begin - found->begin) : 0;
    if (!found || bytes <= found->bytes - from)
        return true;
    const char *name = found->called.name;
    char where[300] = "a variable of the program";
    if (!found->is_symbol)
        snprintf(where, sizeof where, "allocated at %s:%d", found->called.file ? found->called.file : "?",
                 found->called.line);
    sim_program_say(called, "%s %zu bytes from byte %zu on of %s, which has %zu (%s)", does, bytes, from,
                    name               ? name
                    : found->is_symbol ? "a symbol"
                                       : "an allocation",
                    found->bytes, where);
    return false;
}

static bool is_direction_right(const void *to, const void *from, int kind, const struct sim_called *called) {
    static const char *const names[] = {"cudaMemcpyHostToHost", "cudaMemcpyHostToDevice",
                                        "cudaMemcpyDeviceToHost", "cudaMemcpyDeviceToDevice"};
    if (kind == BY_ADDRESS)
        return true;
    const struct sim_allocation *at_to = sim_allocation_at(to), *at_from = sim_allocation_at(from);
    bool to_any = at_to && at_to->kind != SIM_DEVICE_MEMORY,
         from_any = at_from && at_from->kind != SIM_DEVICE_MEMORY;
    bool to_device = kind == HOST_TO_DEVICE || kind == DEVICE_TO_DEVICE;
    bool from_device = kind == DEVICE_TO_HOST || kind == DEVICE_TO_DEVICE;
    bool is_right =
        (to_any || to_device == is_on_device(to)) && (from_any || from_device == is_on_device(from));
    if (!is_right)
        sim_program_say(called, "%s, but %s memory is copied to %s memory", names[kind],
                        is_on_device(from) ? "the device's" : "the host's",
                        is_on_device(to) ? "the device's" : "the host's");
    return is_right;
}

/* Of memory that is no allocation: what was freed, or was never there, is reported, and the call fails, as in
   CUDA. */
static bool is_there(const void *address, const char *does, const struct sim_called *called) {
    if (sim_allocation_at(address))
        return true;
    const struct freed *before = freed_at(address);
    bool is_kept = before && before->was.is_of_graph; /* its place is reserved */
    if (!is_kept && is_mapped(address))
        return true;
    if (told_as_freed(address))
        sim_program_say(called, "%s %s", does, told_as_freed(address));
    else
        sim_program_say(called, "%s address %p, where no memory is", does, address);
    return false;
}

void sim_memory_is_written(void *to, size_t bytes) {
    struct sim_allocation *found = sim_allocation_at(to);
    if (found && found->written)
        memset(found->written + ((unsigned char *)to - found->begin), 1, bytes);
}

static void copy_marks(void *to, const void *from, size_t bytes) {
    struct sim_allocation *target = sim_allocation_at(to), *source = sim_allocation_at(from);
    if (target && target->written && source && source->written)
        memmove(target->written + ((unsigned char *)to - target->begin),
                source->written + ((const unsigned char *)from - source->begin), bytes);
    else
        sim_memory_is_written(to, bytes);
}

/* A copy, or a fill if `from` is NULL, is an operation of the stream. */
static void operates(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                     size_t rows, struct sim_stream *stream, const struct sim_called *called) {
    sim_stream_goes_on(stream);
    if (is_on_device(to))
        sim_stream_reaches(stream, sim_allocation_at(to)->device);
    if (is_on_device(from))
        sim_stream_reaches(stream, sim_allocation_at(from)->device);
#ifdef SIM_COUNTED
    concurrent_copy(stream, called, to, to_pitch, from, from_pitch, width, rows);
#else
    (void)to_pitch, (void)from_pitch, (void)width, (void)rows;
#endif
    sim_memory_is_used(to, stream, true, called->function);
    sim_memory_is_used(from, stream, false, called->function);
}

int sim_memory_copy(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                    int kind, struct sim_stream *stream, bool waits, struct sim_called called) {
    if (width == 0 || rows == 0)
        return sim_program_error(0);
    if (!sim_stream_exists(stream))
        return sim_program_error(INVALID_HANDLE);
    if (kind < HOST_TO_HOST || kind > BY_ADDRESS)
        return sim_program_error(INVALID_DIRECTION);
    if (rows > 1 && (width > to_pitch || width > from_pitch))
        return sim_program_error(12); /* cudaErrorInvalidPitchValue */
    if (!is_there(to, "writes to", &called) || !is_there(from, "reads from", &called) ||
        !is_direction_right(to, from, kind, &called) ||
        !has_bytes(to, (rows - 1) * to_pitch + width, "writes", &called) ||
        !has_bytes(from, (rows - 1) * from_pitch + width, "reads", &called))
        return sim_program_error(INVALID_VALUE);
    int error = waits ? sim_program_waits() : sim_program_error(0);
    if (error)
        return error;
    open_at(to);
    open_at(from);
    for (size_t row = 0; row < rows; row++) {
        unsigned char *target = (unsigned char *)to + row * to_pitch;
        const unsigned char *source = (const unsigned char *)from + row * from_pitch;
        memmove(target, source, width);
        copy_marks(target, source, width);
    }
    operates(to, to_pitch, from, from_pitch, width, rows, stream, &called);
    if (waits)
        sim_host_waits(stream);
    close_at(to);
    close_at(from);
    return sim_program_error(0);
}

/* As memset(). Of much memory whole pages are given back, since new ones are zero. */
static void set(unsigned char *to, int value, size_t bytes) {
#ifdef __linux__
    enum { MUCH = 64 << 20 }; /* of less, each page anew takes longer */
    const struct sim_allocation *memory = sim_allocation_at(to);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (page - (uintptr_t)to % page) % page;
    if ((unsigned char)value == 0 && bytes >= MUCH && memory && !memory->is_symbol) {
        size_t pages = (bytes - before) / page * page;
        if (madvise(to + before, pages, MADV_DONTNEED) == 0) {
            memset(to, 0, before);
            memset(to + before + pages, 0, bytes - before - pages);
            return;
        }
    }
#endif
    memset(to, value, bytes);
}

int sim_memory_set(void *to, size_t pitch, int value, size_t width, size_t rows, struct sim_stream *stream,
                   struct sim_called called) {
    if (width == 0 || rows == 0)
        return sim_program_error(0);
    if (!sim_stream_exists(stream))
        return sim_program_error(INVALID_HANDLE);
    if (!is_there(to, "sets", &called))
        return sim_program_error(INVALID_VALUE);
    if (!sim_allocation_at(to)) {
        sim_program_say(&called, "sets %p, which is no memory of the GPU", to);
        return sim_program_error(INVALID_VALUE);
    }
    if (!has_bytes(to, (rows - 1) * pitch + width, "sets", &called))
        return sim_program_error(INVALID_VALUE);
    open_at(to);
    for (size_t row = 0; row < rows; row++) {
        set((unsigned char *)to + row * pitch, value, width);
        sim_memory_is_written((unsigned char *)to + row * pitch, width);
    }
    operates(to, pitch, NULL, 0, width, rows, stream, &called);
    close_at(to);
    return sim_program_error(0);
}
