/* What the compiler calls at the beginning of every basic block of a kernel: here a thread gives up its turn
 * now and then, and the places where the turns of loops end are noted. */
#include "../watch.h"
#include "recorder.h"

/* Whether a thread that gets to `pc` begins another turn of a loop: it has been there before, and since then
 * nowhere that stands before it. (Compilers also move basic blocks out of their place and jump back from
 * there.) */
static bool begins_turn(struct log *log, uintptr_t pc) {
    uint32_t basic_block = (uint32_t)pc;
    unsigned count = log->basic_blocks_passed;
    while (count > 0 && log->passed[count - 1] > basic_block)
        count--;
    bool before = count > 0 && log->passed[count - 1] == basic_block;
    if (!before && count < MOST_BASIC_BLOCKS_PASSED)
        log->passed[count++] = basic_block;
    log->basic_blocks_passed = count;
    return before;
}

/* Done in every basic block where launches are counted, and now and then where they are only checked. */
static __attribute__((noinline)) void look_around(struct recorder *self, uintptr_t pc) {
    self->basic_blocks += self->counts ? 1 : BASIC_BLOCKS_OF_A_LOOK;
    self->until_look = self->counts ? 0 : BASIC_BLOCKS_OF_A_LOOK;
    if (self->waiting_write.is_there)
        history_settle_write(self);
    if (sim_is_stopping())
        sim_block_abandon();
    if (self->basic_blocks >= BASIC_BLOCKS_OF_A_TURN)
        sim_end_turn();
    if (!self->counts)
        return;
    struct log *log = self->log;
    uintptr_t end = log->place;
    log->place = pc;
    if (!begins_turn(log, pc))
        return;
    if (log->count == 0 || log->entry[log->count - 1] != end)
        append(self, end);
}

static __attribute__((noinline)) void look_without_note(uintptr_t pc) {
    if (recorder && --recorder->until_look <= 0) /* else host code of a kernel file */
        look_around(recorder, pc);
}

/* -fsanitize-coverage=trace-pc: a basic block of the kernel begins. Lanes that skip a part of a loop's
 * body wait for the others at its end: so the log says where a turn ended, unless the one before it ended
 * there too and nothing was accessed since. */
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
