/* The device's heap, and the host's functions that a kernel must not call. In a kernel malloc() and new
 * allocate device memory; the C library's own heap belongs to the program, which an overrun or a second
 * free() would end. The linker redirects the kernels' libraries from the C library's functions to these.
 *
 * A block's size is rounded up to a power of two, and a freed block is used again. */
#define _GNU_SOURCE
#include "heap.h"
#include "watch.h"
#include <sys/mman.h>

/* A GPU's heap has 8 MiB, and more if the host asks for it, which the simulator does not see. */
enum { HEAP_BYTES = 256 << 20, UNIT = 16, UNITS = HEAP_BYTES / UNIT, SIZES = 25 };

struct block {
    size_t bytes; /* that were asked for; of a free one 0 */
    struct block *next;
};
_Static_assert(sizeof(struct block) == UNIT, "what follows is aligned as malloc() promises");

static unsigned char *heap;
static size_t used;
static struct block *unused[SIZES];     /* by the power of two of their units */
static unsigned char begins[UNITS / 8]; /* a bit for each unit: whether a block begins there */

static unsigned size_of(size_t bytes) {
    size_t units = (bytes + UNIT - 1) / UNIT + 1;
    return units <= 1 ? 0 : 64 - (unsigned)__builtin_clzl(units - 1);
}

static struct block *cut_off(unsigned size) {
    size_t bytes = (size_t)UNIT << size;
    if (!heap) {
        void *got = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        heap = got == MAP_FAILED ? NULL : got;
    }
    if (!heap || bytes > HEAP_BYTES - used)
        return NULL;
    struct block *block = (struct block *)(heap + used);
    begins[used / UNIT / 8] |= (unsigned char)(1u << used / UNIT % 8);
    used += bytes;
    return block;
}

static void *allocate(size_t bytes) {
    if (bytes == 0 || bytes > HEAP_BYTES / 2)
        return NULL;
    unsigned size = size_of(bytes);
    sim_lock_for_a_moment();
    struct block *block = unused[size];
    if (block)
        unused[size] = block->next;
    else
        block = cut_off(size);
    if (block)
        block->bytes = bytes;
    sim_unlock_for_a_moment();
    if (WATCHED && block)
        watch_heap_takes(block + 1, bytes);
    return block ? block + 1 : NULL;
}

/* The block that contains an address, or NULL. */
static struct block *block_at(uintptr_t address) {
    size_t unit = (address - (uintptr_t)heap) / UNIT;
    if (!heap || address - (uintptr_t)heap >= used)
        return NULL;
    while (!(begins[unit / 8] >> unit % 8 & 1))
        unit--;
    return (struct block *)(heap + unit * UNIT);
}

bool sim_heap_find(uintptr_t address, uintptr_t *begin, size_t *bytes) {
    const struct block *block = block_at(address);
    if (!block)
        return false;
    *begin = (uintptr_t)(block + 1);
    *bytes = block->bytes;
    return true;
}

void sim_heap_bounds(uintptr_t *begin, uintptr_t *end) {
    *begin = (uintptr_t)heap;
    *end = *begin + HEAP_BYTES;
}

static void give_back(void *memory, uintptr_t pc) {
    if (!memory)
        return;
    sim_lock_for_a_moment();
    struct block *block = block_at((uintptr_t)memory);
    bool is_mine = block && block + 1 == memory && block->bytes > 0;
    if (is_mine) {
        unsigned size = size_of(block->bytes);
        block->bytes = 0;
        block->next = unused[size];
        unused[size] = block;
    }
    sim_unlock_for_a_moment();
    if (WATCHED)
        watch_heap_is_given_back();
    struct sim_access_report report = {.kind = SIM_CRASH, .thread = sim_current(sim_worker), .pc = pc};
    if (!is_mine)
        sim_report_access(
            &report, "frees %p, which is nothing that malloc() or new gave, or was freed before", memory);
}

/* ---- What kernels call instead: `__wrap_` and the C library's name, or C++'s for new and delete ----
 */

#define PC ((uintptr_t)__builtin_return_address(0))

/* What a program calls (program/wrapped.cpp), which has host code as well. */
void *sim_device_malloc(size_t bytes) {
    return allocate(bytes);
}
void sim_device_free(void *memory, uintptr_t pc) {
    give_back(memory, pc);
}

void *__wrap_malloc(size_t bytes) {
    return allocate(bytes);
}
void *__wrap_calloc(size_t count, size_t bytes) {
    size_t all;
    void *memory = __builtin_mul_overflow(count, bytes, &all) ? NULL : allocate(all);
    return memory ? memset(memory, 0, all) : NULL;
}
void *__wrap__Znwm(size_t bytes) {
    return allocate(bytes);
}
void *__wrap__Znam(size_t bytes) {
    return allocate(bytes);
}
void __wrap_free(void *memory) {
    give_back(memory, PC);
}
void __wrap__ZdlPv(void *memory) {
    give_back(memory, PC);
}
void __wrap__ZdlPvm(void *memory, size_t bytes) {
    (void)bytes;
    give_back(memory, PC);
}
void __wrap__ZdaPv(void *memory) {
    give_back(memory, PC);
}
void __wrap__ZdaPvm(void *memory, size_t bytes) {
    (void)bytes;
    give_back(memory, PC);
}

static noreturn void end(const char *what, const char *instead, uintptr_t pc) {
    struct sim_access_report report = {.kind = SIM_TRAP, .thread = sim_current(sim_worker), .pc = pc};
    sim_report_access(&report, "%s, which is the host's; a kernel can %s", what, instead);
}
noreturn void sim_device_refuses(const char *what, const char *instead, uintptr_t pc) {
    end(what, instead, pc);
}
void __wrap_exit(int status) {
    (void)status;
    end("calls exit()", "return, or __trap()", PC);
}
void __wrap__Exit(int status) {
    (void)status;
    end("calls _Exit()", "return, or __trap()", PC);
}
void __wrap__exit(int status) {
    (void)status;
    end("calls _exit()", "return, or __trap()", PC);
}
void __wrap_abort(void) {
    end("calls abort()", "return, or __trap()", PC);
}
int __wrap_system(const char *command) {
    (void)command;
    end("calls system()", "compute, and printf()", PC);
}
/* CUDA's printf() returns how many arguments its format has (CUDA C++ Programming Guide, "Formatted Output"),
 * and the C library's how many characters it has printed. */
int sim_device_printf(const char *format, va_list arguments, uintptr_t pc) {
    int count = 0;
    if (!format)
        return -1;
    sim_worker->prints_at = pc;
    vprintf(format, arguments);
    sim_worker->prints_at = 0;
    for (const char *at = strchr(format, '%'); at; at = strchr(at, '%')) {
        size_t before = strspn(++at, "-+ #0123456789.*hljztL");
        for (size_t i = 0; i < before; i++)
            count += at[i] == '*';
        at += before;
        count += *at && *at != '%';
        at += *at != 0;
    }
    return count;
}
int __wrap_printf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int count = sim_device_printf(format, arguments, (uintptr_t)__builtin_return_address(0));
    va_end(arguments);
    return count;
}
/* A kernel's clock() is the GPU's clock, and not the time that the process has used. */
clock_t __wrap_clock(void) {
    return (clock_t)sim_clock();
}
void *__wrap___cxa_allocate_exception(size_t bytes) {
    (void)bytes;
    end("throws an exception", "return a code, or __trap()", PC);
}
void __wrap___cxa_rethrow(void) {
    end("throws an exception", "return a code, or __trap()", PC);
}
