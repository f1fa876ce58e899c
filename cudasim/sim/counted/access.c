/* What the compiler calls before every load and store of a kernel.
 *
 * The simulator looks the access up (is it in memory that the kernel may touch?), checks it, and appends it
 * to its thread's log. Nearly always the instruction has accessed the same array just before, so the lookup
 * is a small table by program counter. A kernel's stack and parameters are registers or constant memory on a
 * GPU: they are not counted.
 *
 * A thread whose log is full waits until the other lanes of its warp have come as far and their logs have
 * been merged. So a log needs little memory however long a kernel runs. */
#include "../watch.h"
#include "quick_checks.h"
#include "recorder.h"
#include "stages.h"

_Thread_local struct recorder *recorder;
void (*watch_library)(uintptr_t address, size_t bytes, bool writes, bool is_copy);

const struct known_site unknown_sites[KNOWN_SITES];

/* Where the slot of a key is in a table. The key and its slot's size have as many bits to shift by. */
static inline __attribute__((always_inline)) size_t slot_offset(instruction_key key) {
    _Static_assert(sizeof(struct known_site) == 1 << KEY_PART_BITS, "a shift by less or more");
    return (key ^ key << KEY_PART_BITS) & (KNOWN_SITES - 1) * sizeof(struct known_site);
}
static struct known_site *slot_of(struct recorder *self, instruction_key key) {
    return (struct known_site *)(void *)((char *)self->known + slot_offset(key));
}

static bool is_on_stack(const struct recorder *self, uintptr_t address) {
    const struct sim_fiber *fiber = self->worker->fiber;
    return address - (uintptr_t)fiber->stack < fiber->stack_bytes;
}

/* A lookup takes the loader's lock and malloc's, and a crash would leave them locked for ever. So a stack
 * without enough room is reported before. So is a stack pointer that no call has made, after a jump into the
 * middle of a function. */
static void have_stack(const struct recorder *self, uintptr_t pc, uintptr_t here) {
    enum { ROOM = 16 << 10, ALIGNMENT = 16 };
    struct sim_access_report access = {.kind = SIM_CRASH, .thread = self->worker->current, .pc = pc};
    if (!is_on_stack(self, here))
        return;
    if (here % ALIGNMENT != 0)
        sim_report_access(&access, "goes astray: it has come to the middle of a function");
    if (here - (uintptr_t)self->worker->fiber->stack < ROOM)
        sim_report_overflow(&access);
}

/* Fills in the slot for an access that it does not describe yet. */
static __attribute__((noinline)) void learn(struct recorder *self, struct known_site *known,
                                            instruction_key key, uintptr_t pc, uintptr_t address,
                                            unsigned bytes, counted_operation operation) {
    have_stack(self, pc, (uintptr_t)__builtin_frame_address(0));
    struct place *place = place_of(self, address, bytes);
    struct access access = {.pc = pc,
                            .address = address,
                            .bytes = bytes,
                            .operation = operation,
                            .place = place,
                            .thread = self->thread};
    if (!place && (address & (bytes - 1)) && (access.place = place_of(self, address, 1)))
        fault_misaligned(self, &access); /* wherever it would have ended */
    if (!place)
        fault_out_of_bounds(self, &access);
    if (place->is_constant && operation != COUNTED_LOAD)
        fault_constant(self, &access);
    unsigned site = 0;
    counted_space space = place->is_constant && self->sample.is_on ? COUNTED_CONSTANT : place->space;
    if (space != COUNTED_NOTHING) {
        struct instruction instruction = {key, pc, space, operation, bytes};
        site = site_of(self, &instruction, place);
    }
    *known = (struct known_site){.key = key,
                                 .begin = place->begin,
                                 .last = place->end - place->begin - bytes,
                                 .place = place,
                                 .site = site,
                                 .instruction = (uint16_t)self->sites[site].instruction,
                                 .granule_bits = (uint8_t)place->granule_bits,
                                 .written = place->written};
    if (operation == COUNTED_ATOMIC || bytes < 1u << place->granule_bits || place->owner)
        return;
    known->cells = place->cells;
    bool is_one = place->cells && bytes == 1u << place->granule_bits && place->begin % bytes == 0;
    known->granules = is_one ? (place->end - place->begin) / bytes : 0;
    known->has_words = place->words && place->begin % WORD_BYTES == 0;
}

static __attribute__((noinline)) void check(struct recorder *self, const struct known_site *known,
                                            uintptr_t pc, uintptr_t address, unsigned bytes,
                                            counted_operation operation, uint32_t flags) {
    places_look_again(self, known->place, address);
    struct access access = {.pc = pc,
                            .address = address,
                            .bytes = bytes,
                            .operation = operation,
                            .place = known->place,
                            .instruction = known->instruction,
                            .flags = flags,
                            .thread = self->thread,
                            .time = self->order.now};
    if (address & (bytes - 1))
        fault_misaligned(self, &access);
    if (known->place->written)
        unwritten_access(self, &access);
    if (known->place->owner)
        clusters_reach(self, &access);
    if (known->place->history)
        history_check(self, &access);
}

/* Everything about an access. `kind`: its bytes, operation << KIND_OPERATION and flags of history.h, packed
 * so that the arguments fit in registers. */
enum { KIND_BYTES_MASK = 31, KIND_OPERATION = 8, KIND_OPERATION_MASK = 3 };
static __attribute__((noinline)) void access_memory(struct recorder *self, instruction_key key,
                                                    uintptr_t address, uint32_t kind) {
    uintptr_t pc = (uintptr_t)(key >> KEY_PART_BITS);
    unsigned bytes = kind & KIND_BYTES_MASK;
    counted_operation operation = (counted_operation)(kind >> KIND_OPERATION & KIND_OPERATION_MASK);
    uint32_t flags = kind & (PAST_STRONG | PAST_IN_BLOCK | PAST_VOLATILE);
    history_settle_write(self, &self->history);
    struct known_site *known = slot_of(self, key);
    if (known->key != key || address - known->begin > known->last) {
        if (is_on_stack(self, address)) {
            if (self->registers)
                registers_access(self, pc, address, bytes, operation != COUNTED_LOAD);
            if (address + bytes > (uintptr_t)self->worker->fiber->kernel_top)
                fault_local(self, pc, operation);
            return;
        }
        learn(self, known, key, pc, address, bytes, operation);
    }
    if (known->site == 0)
        return;
    if (operation == COUNTED_STORE)
        spinning_changed(&self->spinning);
    if (self->worker->hopper != NULL && known->place->space == COUNTED_SHARED && !known->place->owner)
        stages_access(self->worker, pc, address, operation);
    bool is_checked = !self->sample.is_on; /* a sample tells no faults but those that end the launch anyway */
    bool is_plain = !flags && !(address & (bytes - 1));
    if (is_checked && !(is_plain && is_quick(self, known, address, bytes, operation)))
        check(self, known, pc, address, bytes, operation, flags);
    if (!self->requests.is_on)
        return;
    requests_access(&self->requests, pc, known->site, address);
    trace_access(&self->trace, self->thread, address, bytes, operation);
}

/* Any access that is not one to a single granule of global memory. */
static __attribute__((noinline)) void access_otherwise(struct recorder *self, instruction_key key,
                                                       uintptr_t address, uint32_t kind) {
    const struct known_site *known = slot_of(self, key);
    unsigned bytes = kind & KIND_BYTES_MASK;
    bool is_aligned_load = kind == bytes && !(address & (bytes - 1));
    if (!is_aligned_load || self->until_look <= 0 || known->key != key ||
        address - known->begin > known->last || !is_quick(self, known, address, bytes, COUNTED_LOAD))
        access_memory(self, key, address, kind);
}

/* An access to a single granule of global memory. */
static __attribute__((noinline)) void access_granule(struct recorder *self, const struct known_site *known,
                                                     uintptr_t address, uint32_t kind) {
    bool writes = kind >> KIND_OPERATION & KIND_OPERATION_MASK;
    struct past *cell = known->cells + ((address - known->begin) >> known->granule_bits);
    unsigned bytes = kind & KIND_BYTES_MASK;
    if (!(self->is_alone && replaces_only(self, known, cell, address, writes, 0)) &&
        !are_taken(self, known, address, bytes, writes))
        access_memory(self, known->key, address, kind);
    else if (writes)
        spinning_changed(&self->spinning);
}

/* Slow path: no recorder is noted on this stack. This OS thread's recorder is used, if it has one. */
static __attribute__((noinline)) void access_without_note(instruction_key key, uintptr_t address,
                                                          uint32_t kind) {
    if (recorder)
        access_memory(recorder, key, address, kind);
    else if (watch_library)
        watch_library(address, kind & KIND_BYTES_MASK,
                      (kind >> KIND_OPERATION & KIND_OPERATION_MASK) != COUNTED_LOAD, false);
}

/* A checked launch spends most of its time here, so rare cases are elsewhere, and not even registers are
 * saved. */
static inline __attribute__((always_inline)) void on_access(uintptr_t pc, unsigned part, uintptr_t address,
                                                            unsigned bytes, counted_operation operation,
                                                            uint32_t flags) {
    void **note = sim_note_at(sim_stack_pointer());
    instruction_key key = (instruction_key)pc << KEY_PART_BITS | part;
    uint32_t kind = bytes | (uint32_t)operation << KIND_OPERATION | flags;
    if (!note) {
        access_without_note(key, address, kind);
        return;
    }
    struct recorder *self = *note;
    const char *sites = (const char *)self->quick + slot_offset(key);
    const struct known_site *known = (const struct known_site *)(const void *)sites;
    /* An unaligned offset is a very large one, turned by the bits that should be zeros. */
    uintptr_t offset = address - known->begin, bits = (uintptr_t)__builtin_ctz(bytes);
    uintptr_t granule = offset >> bits | offset << (-bits & 63);
    if (known->key == key && granule < known->granules && operation != COUNTED_ATOMIC && !flags) {
        struct past *cell = known->cells + granule;
        uint32_t what = __atomic_load_n(&cell->what, __ATOMIC_ACQUIRE);
        bool is_load = operation == COUNTED_LOAD;
        if (is_load && (is_settled(self, cell, what) || (self->is_alone && joins(self, cell, what))))
            return;
        access_granule(self, known, address, kind);
    } else if (address - self->stack + bytes > self->own_bytes) {
        access_otherwise(self, key, address, kind);
    }
}

/* A volatile access orders nothing by itself, but with fences before and after it, it hands on what a thread
 * knows. */
static inline __attribute__((always_inline)) void on_volatile(uintptr_t pc, uintptr_t address, unsigned bytes,
                                                              counted_operation operation) {
    on_access(pc, 0, address, bytes, operation, PAST_STRONG | PAST_VOLATILE);
    if (!recorder || is_on_stack(recorder, address))
        return;
    watch_wait((const void *)pc);
    if (operation == COUNTED_LOAD)
        order_strong_read(recorder, address);
    else
        order_strong_write(recorder, address, false, false);
}

/* The number of a part, beneath its access's program counter. Its width is in it: what is known of a site, as
 * its bounds and that it accesses whole granules, is known of one width. */
static unsigned numbered(unsigned part, unsigned width) {
    enum { WIDTHS = 5, MOST_PARTS = (1 << KEY_PART_BITS) / WIDTHS };
    return part % MOST_PARTS * WIDTHS + (unsigned)__builtin_ctz(width);
}

/* An access of unknown alignment or odd size: a GPU divides it into several, each as wide as the size and the
 * address allow, and no wider than `widest`. */
static void on_parts(uintptr_t pc, uintptr_t address, size_t bytes, counted_operation operation,
                     unsigned widest) {
    uintptr_t multiples = address | bytes | widest;
    unsigned width = (unsigned)(multiples & -multiples);
    struct recorder *self = recorder; /* NULL in host code of a kernel file */
    if (self)
        history_announce(self, &self->history, true);
    for (unsigned part = 0; bytes > 0; bytes -= width, address += width, part++)
        on_access(pc, numbered(part, width), address, width, operation, 0);
    if (self)
        history_announce(self, &self->history, false);
}

static void on_range(uintptr_t pc, uintptr_t address, size_t bytes, counted_operation operation) {
    on_parts(pc, address, bytes, operation, 16);
}

/* An access that the compiler knows to be aligned to less than its size (or less than 8, of 16 bytes). A
 * GPU's compiler knows too, and makes parts of at most half the size, or 4 bytes, whatever the address is.
 * clang reads a struct of three floats as 8 bytes and 4. */
static unsigned widest_unaligned(unsigned bytes) {
#ifdef __clang__
    if (bytes == 16)
        return bytes; /* a float4 in an array of floats: of the array it knows less than the kernel says */
#endif
    return bytes >= 8 ? 4 : bytes > 1 ? bytes / 2 : 1;
}

#define PC ((uintptr_t)__builtin_return_address(0))

#define DEFINE_ACCESS(bytes)                                                                                 \
    void __tsan_read##bytes(void *address);                                                                  \
    void __tsan_read##bytes(void *address) {                                                                 \
        on_access(PC, 0, (uintptr_t)address, bytes, COUNTED_LOAD, 0);                                        \
    }                                                                                                        \
    void __tsan_write##bytes(void *address);                                                                 \
    void __tsan_write##bytes(void *address) {                                                                \
        on_access(PC, 0, (uintptr_t)address, bytes, COUNTED_STORE, 0);                                       \
    }                                                                                                        \
    void __tsan_unaligned_read##bytes(void *address);                                                        \
    void __tsan_unaligned_read##bytes(void *address) {                                                       \
        on_parts(PC, (uintptr_t)address, bytes, COUNTED_LOAD, widest_unaligned(bytes));                      \
    }                                                                                                        \
    void __tsan_unaligned_write##bytes(void *address);                                                       \
    void __tsan_unaligned_write##bytes(void *address) {                                                      \
        on_parts(PC, (uintptr_t)address, bytes, COUNTED_STORE, widest_unaligned(bytes));                     \
    }                                                                                                        \
    void __tsan_volatile_read##bytes(void *address);                                                         \
    void __tsan_volatile_read##bytes(void *address) {                                                        \
        on_volatile(PC, (uintptr_t)address, bytes, COUNTED_LOAD);                                            \
    }                                                                                                        \
    void __tsan_volatile_write##bytes(void *address);                                                        \
    void __tsan_volatile_write##bytes(void *address) {                                                       \
        on_volatile(PC, (uintptr_t)address, bytes, COUNTED_STORE);                                           \
    }

DEFINE_ACCESS(1)
DEFINE_ACCESS(2)
DEFINE_ACCESS(4)
DEFINE_ACCESS(8)
DEFINE_ACCESS(16)

void __tsan_read_range(void *address, size_t bytes);
void __tsan_read_range(void *address, size_t bytes) {
    on_range(PC, (uintptr_t)address, bytes, COUNTED_LOAD);
}
void __tsan_write_range(void *address, size_t bytes);
void __tsan_write_range(void *address, size_t bytes) {
    on_range(PC, (uintptr_t)address, bytes, COUNTED_STORE);
}

void watch_range(const void *pc, const void *address, size_t bytes, bool writes) {
    if (!recorder && watch_library) {
        watch_library((uintptr_t)address, bytes, writes, true);
        return;
    }
    on_range((uintptr_t)pc, (uintptr_t)address, bytes, writes ? COUNTED_STORE : COUNTED_LOAD);
}

/* clang calls these for copies that it compiles to calls. */
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    on_range(PC, (uintptr_t)from, bytes, COUNTED_LOAD);
    on_range(PC, (uintptr_t)to, bytes, COUNTED_STORE);
    return memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    on_range(PC, (uintptr_t)from, bytes, COUNTED_LOAD);
    on_range(PC, (uintptr_t)to, bytes, COUNTED_STORE);
    return memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes) {
    on_range(PC, (uintptr_t)to, bytes, COUNTED_STORE);
    return memset(to, value, bytes);
}

/* The compiler also calls this at a program's start. */
void __tsan_init(void);
void __tsan_init(void) {}

/* ---- Accesses that the simulator makes for the kernel ---- */

void watch_atomic(const void *pc, const volatile void *address, unsigned bytes, bool in_block) {
    on_access((uintptr_t)pc, 0, (uintptr_t)address, bytes, COUNTED_ATOMIC,
              PAST_STRONG | (in_block ? PAST_IN_BLOCK : 0));
    watch_wait(pc);
    order_strong_write(recorder, (uintptr_t)address, in_block, true);
    order_strong_read(recorder, (uintptr_t)address);
}

/* The history takes its latest atomic operation for the last in the order. Two OS threads may come to the
 * history in one order and to the memory in the other. So each comes to the history again between its read
 * and its swap, which fails if the other's swap was between the two. */
void watch_atomic_replaces(const void *pc, const volatile void *address, unsigned bytes, bool in_block) {
    struct recorder *self = recorder;
    instruction_key key = (instruction_key)(uintptr_t)pc << KEY_PART_BITS;
    const struct known_site *known = slot_of(self, key);
    bool is_known = known->key == key && (uintptr_t)address - known->begin <= known->last;
    if (self->is_alone || !is_known || known->site == 0 || !known->place->cells)
        return; /* other OS threads come to global memory only */
    places_look_again(self, known->place, (uintptr_t)address);
    struct access access = {.pc = (uintptr_t)pc,
                            .address = (uintptr_t)address,
                            .bytes = bytes,
                            .operation = COUNTED_ATOMIC,
                            .place = known->place,
                            .instruction = known->instruction,
                            .flags = PAST_STRONG | (in_block ? PAST_IN_BLOCK : 0),
                            .thread = self->thread,
                            .time = self->order.now};
    atomic_thread_fence(memory_order_seq_cst);
    history_check(self, &access);
    atomic_thread_fence(memory_order_seq_cst);
}

void watch_copy_asked(const void *pc, const void *global, unsigned bytes) {
    on_access((uintptr_t)pc, numbered(0, bytes), (uintptr_t)global, bytes, COUNTED_LOAD, 0);
}

void watch_copy_is_pending(const void *pc, const void *shared, unsigned bytes) {
    struct recorder *self = recorder;
    struct access access = {.pc = (uintptr_t)pc,
                            .address = (uintptr_t)shared,
                            .bytes = bytes,
                            .operation = COUNTED_STORE,
                            .place = place_of(self, (uintptr_t)shared, bytes),
                            .thread = SIM_MAX_BLOCK_THREADS + self->thread % SIM_WARP_THREADS,
                            .time = UINT32_MAX}; /* after all that anybody knows of */
    if (!access.place || !access.place->words || bytes < WORD_BYTES)
        return; /* the copy's landing is checked like any store */
    struct instruction instruction = {(instruction_key)pc << KEY_PART_BITS | numbered(1, bytes), access.pc,
                                      COUNTED_SHARED, COUNTED_STORE, bytes};
    access.instruction = self->sites[site_of(self, &instruction, access.place)].instruction;
    history_check(self, &access);
}

void watch_copy_lands(const void *pc, const void *shared, unsigned bytes) {
    const struct place *place = place_of(recorder, (uintptr_t)shared, bytes);
    if (place && place->words)
        history_written(recorder, place, (uintptr_t)shared, bytes);
    on_access((uintptr_t)pc, numbered(1, bytes), (uintptr_t)shared, bytes, COUNTED_STORE, 0);
}

void async_access(struct recorder *self, uintptr_t pc, uintptr_t address, unsigned bytes,
                  counted_operation operation, struct agent agent) {
    struct access access = {.pc = pc,
                            .address = address,
                            .bytes = bytes,
                            .operation = operation,
                            .place = place_of(self, address, bytes),
                            .flags = operation == COUNTED_ATOMIC ? PAST_STRONG : 0,
                            .thread = self->thread};
    if (!access.place)
        fault_out_of_bounds(self, &access);
    struct place *place = access.place;
    struct instruction instruction = {(instruction_key)pc << KEY_PART_BITS | (2 + (unsigned)operation), pc,
                                      place->space, operation, bytes};
    access.instruction = self->sites[site_of(self, &instruction, place)].instruction;
    access.thread = agent.thread;
    access.time = agent.time;
    if (place->written)
        unwritten_access(self, &access);
    if (place->history)
        history_check(self, &access);
}

void mbarrier_access(struct recorder *self, uintptr_t pc, uintptr_t word, counted_operation operation) {
    struct access access = {.pc = pc,
                            .address = word,
                            .bytes = sizeof(uint64_t),
                            .operation = operation,
                            .place = place_of(self, word, sizeof(uint64_t)),
                            .flags = operation == COUNTED_STORE ? 0 : PAST_STRONG,
                            .thread = self->thread,
                            .time = self->order.now};
    if (!access.place || !access.place->history)
        return;
    struct instruction instruction = {(instruction_key)pc << KEY_PART_BITS, pc, access.place->space,
                                      operation, sizeof(uint64_t)};
    access.instruction = self->sites[site_of(self, &instruction, access.place)].instruction;
    history_check(self, &access);
}
