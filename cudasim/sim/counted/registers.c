/* The registers of wgmma: a thread's sums, and the part of x that it has. On the simulator they are places on
 * the thread's stack.
 *
 * From wgmma.mma_async until wgmma.wait_group they are in flight, and no thread may read or write them.
 * Before that, wgmma.fence has to follow the thread's own accesses to them; only products may follow products
 * directly. PTX ISA, sections "wgmma.fence" and "wgmma.wait_group". A place is known to be a register when a
 * product has used it, so accesses before the first product are not checked. */
#include "../hopper/watch_hopper.h"
#include "recorder.h"
#include <stdlib.h>

/* Consecutive registers. */
struct registers {
    uintptr_t begin;
    size_t bytes;
    uintptr_t accessed_at; /* since the latest fence; 0: not */
    bool written;
};

enum { MOST_USED = 32 };
struct used_registers {
    bool has_fenced;
    unsigned count;
    struct registers used[MOST_USED]; /* by products: the latest */
};

static struct used_registers *of_thread(struct recorder *self) {
    if (!self->registers)
        self->registers = calloc(SIM_MAX_BLOCK_THREADS, sizeof *self->registers);
    return self->registers ? &self->registers[self->thread] : NULL;
}

void registers_free(struct used_registers *registers) {
    free(registers);
}

void registers_block_begins(struct used_registers *registers) {
    for (unsigned thread = 0; registers && thread < SIM_MAX_BLOCK_THREADS; thread++)
        registers[thread].count = registers[thread].has_fenced = 0;
}

void watch_registers_fenced(void) {
    sim_hopper_here();
    struct used_registers *own = of_thread(recorder);
    if (!own)
        return;
    own->has_fenced = true;
    for (unsigned i = 0; i < own->count; i++)
        own->used[i].accessed_at = 0;
}

static void use(struct used_registers *own, const struct sim_site *site, const void *begin, size_t bytes,
                const char *what) {
    for (unsigned i = 0; i < own->count; i++) {
        struct registers *used = &own->used[i];
        if ((uintptr_t)begin - used->begin >= used->bytes && used->begin - (uintptr_t)begin >= bytes)
            continue;
        if (used->accessed_at) {
            struct sim_access_report about = {
                .kind = SIM_NO_REGISTER_FENCE, .thread = sim_worker->current, .pc = used->accessed_at};
            sim_report_access(&about,
                              "%s a register of %s that the product at %s:%d uses, and no wgmma.fence is "
                              "between",
                              used->written ? "writes" : "reads", what, site->file, site->line);
        }
        if (used->begin == (uintptr_t)begin && used->bytes == bytes)
            return;
    }
    if (own->count == MOST_USED)
        memmove(own->used, own->used + 1, --own->count * sizeof *own->used);
    own->used[own->count++] = (struct registers){(uintptr_t)begin, bytes, 0, false};
}

void watch_product_asked(const struct sim_site *site, const float *sum, const struct sim_wgmma *product) {
    sim_hopper_here();
    struct used_registers *own = of_thread(recorder);
    if (!own)
        return;
    if (!own->has_fenced)
        sim_report_call(SIM_NO_REGISTER_FENCE, site,
                        "multiplies by wgmma, and has not executed wgmma.fence before");
    use(own, site, sum, (size_t)product->columns / 2 * sizeof *sum, "the sums");
    for (unsigned i = 0; product->x_in_registers && i < 4; i++)
        if (product->register_at[i])
            use(own, site, product->register_at[i], sizeof(uint32_t), "x");
}

static bool meets(const void *begin, size_t bytes, uintptr_t address, unsigned accessed) {
    return begin && (address - (uintptr_t)begin < bytes || (uintptr_t)begin - address < accessed);
}

/* An unrolled loop has its own registers for each turn, but the simulator has one place for all: a write
 * there may belong to another turn. */
static void warn_of_write(struct sim_product *product, uintptr_t pc, size_t number) {
    struct sim_access_report about = {.kind = SIM_PENDING_SUMS, .thread = sim_worker->current, .pc = pc};
    sim_report warning;
    sim_describe_access(&warning, &about,
                        "writes register of x number %zu of the product at %s:%d, which may still read it: "
                        "nothing has waited for its group (wgmma.wait_group). That is right only where each "
                        "turn of an unrolled loop has registers of its own",
                        number, product->site->file, product->site->line);
    session_warn(&warning);
    product->asked.register_at[number] = NULL;
}

static noreturn void fault_in_flight(const struct sim_product *product, uintptr_t pc, bool writes,
                                     const char *what, size_t number) {
    struct sim_access_report report = {.kind = SIM_PENDING_SUMS, .thread = sim_worker->current, .pc = pc};
    sim_report_access(&report,
                      "%s %s %zu of the product at %s:%d, which may still run: nothing has waited for its "
                      "group (wgmma.wait_group)",
                      writes ? "writes" : "reads", what, number, product->site->file, product->site->line);
}

void registers_access(struct recorder *self, uintptr_t pc, uintptr_t address, unsigned bytes, bool writes) {
    struct sim_products *products = &sim_worker->current->products;
    for (unsigned i = 0; i < products->count; i++) {
        struct sim_product *product = &products->pending[i];
        const struct sim_wgmma *asked = &product->asked;
        if (meets(product->sum, (size_t)asked->columns / 2 * sizeof *product->sum, address, bytes))
            fault_in_flight(product, pc, writes, "sum",
                            (address - (uintptr_t)product->sum) / sizeof *product->sum);
        for (unsigned number = 0; asked->x_in_registers && number < 4; number++)
            if (meets(asked->register_at[number], sizeof(uint32_t), address, bytes)) {
                if (!writes)
                    fault_in_flight(product, pc, writes, "register of x number", number);
                warn_of_write(product, pc, number);
            }
    }
    struct used_registers *own = &self->registers[self->thread];
    for (unsigned i = 0; i < own->count; i++) {
        struct registers *used = &own->used[i];
        if (!used->accessed_at && meets((const void *)used->begin, used->bytes, address, bytes)) {
            used->accessed_at = pc;
            used->written = writes;
        }
    }
}
