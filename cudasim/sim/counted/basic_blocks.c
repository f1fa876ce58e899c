/* What the compiler calls at the beginning of every basic block of a kernel: here a thread gives up its turn
 * now and then, and the log notes the ends of loops' turns. */
#include "../watch.h"
#include "recorder.h"

/* Done in every basic block where launches are counted, and now and then where they are only checked. */
static __attribute__((noinline)) void look_around(struct recorder *self, uintptr_t pc) {
    bool counts = self->requests.is_on;
    atomic_store_explicit(&self->at, pc, memory_order_relaxed);
    look_after(self, counts ? 0 : BASIC_BLOCKS_OF_A_LOOK);
    history_settle_write(self, &self->history);
    if (sim_is_stopping())
        sim_block_abandon();
    spinning_basic_blocks(&self->spinning, counts ? 1 : BASIC_BLOCKS_OF_A_LOOK);
    if (counts)
        requests_basic_block(&self->requests, pc);
    if (self->sample.is_on)
        sample_basic_block(&self->sample, pc, self->thread);
}

static __attribute__((noinline)) void look_without_note(uintptr_t pc) {
    if (recorder && --recorder->until_look <= 0) /* else host code of a kernel file */
        look_around(recorder, pc);
}

/* -fsanitize-coverage=trace-pc: a basic block of the kernel begins. Lanes that skip a part of a loop's body
 * wait for the others at its end. So the log notes where a turn ended, unless the turn before ended there too
 * without an access since. */
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
    uintptr_t pc = (uintptr_t)__builtin_return_address(0);
    void **note = sim_note_at(sim_stack_pointer());
    struct recorder *self = note ? *note : NULL;
    if (!note)
        look_without_note(pc);
    else if (__builtin_expect(--self->until_look <= 0, 0))
        look_around(self, pc);
}
