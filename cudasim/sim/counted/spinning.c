/* Deadlocks of threads that wait in their own loops: two blocks that each wait for the other's flag, a lock
 * that is never released, a barrier that counts too many.
 *
 * Only its behaviour shows that such a loop waits: in each turn its thread reads what others may change, by
 * an atomic or volatile access, and changes nothing itself. Each OS thread examines its own block whenever
 * all threads of that block have given up several turns. Any change by any thread begins a new round. It is a
 * deadlock if every running block has been examined often in one round, and again in the next, and no block
 * is left to start. The second round covers what happened between two looks in the first. It has to take a
 * while, because a thread may also calculate for long and look at a flag now and then. */
#include "../watch.h"
#include "recorder.h"
#include <pthread.h>
#include <time.h>

enum { LOOKS = 50, SECONDS = 1 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t rounds; /* of all launches */
static bool is_second_round;
static time_t round_began;
static unsigned waiting; /* blocks that have been looked at often in this round */
static struct spinner known[2];

static time_t seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void begin_round(bool is_second) {
    rounds++;
    is_second_round = is_second;
    round_began = seconds_now();
    waiting = 0;
    known[0].pc = known[1].pc = 0;
}

void spinning_launch_begins(void) {
    pthread_mutex_lock(&mutex);
    begin_round(false);
    pthread_mutex_unlock(&mutex);
}

/* Turns are measured anew in each block, so that the order of its threads does not depend on earlier
   blocks. */
void spinning_block_begins(struct spinning *self) {
    spinning_changed(self);
    self->basic_blocks = 0;
    self->latest[0].pc = self->latest[1].pc = 0;
}

void watch_change(struct sim_worker *worker) {
    if (worker->recorder)
        spinning_changed(&((struct recorder *)worker->recorder)->spinning);
}

void watch_wait(const void *pc) {
    struct spinning *self = &recorder->spinning;
    self->this_turn_waits = true;
    self->pc = (uintptr_t)pc;
}

void watch_turn_ends(void) {
    struct recorder *recorded = recorder;
    struct spinning *self = &recorded->spinning;
    const struct sim_worker *worker = recorded->worker;
    bool is_long = recorded->spinning.basic_blocks >= BASIC_BLOCKS_OF_A_TURN;
    recorded->spinning.basic_blocks = 0;
    if (!self->this_turn_waits) {
        self->other_turns |= is_long; /* the others are a sleep, or come right after one */
        return;
    }
    self->this_turn_waits = false;
    uint3 thread = worker->current->index;
    if (memcmp(&thread, &self->latest[0].thread, sizeof thread) != 0)
        self->latest[1] = self->latest[0];
    self->latest[0] = (struct spinner){thread, worker->block_index, self->pc};
}

/* Whether no thread will ever change anything. */
static bool is_deadlock(struct spinning *self, bool changed) {
    if (changed) {
        begin_round(false);
        return false;
    }
    if (self->round != rounds) {
        self->round = rounds;
        self->looks = 0;
    }
    if (self->looks < LOOKS && ++self->looks == LOOKS) {
        known[known[0].pc ? 1 : 0] = self->latest[0];
        waiting++;
    }
    if (waiting < atomic_load(&sim_launch_now.running) || seconds_now() - round_began < SECONDS)
        return false;
    if (is_second_round)
        return true;
    begin_round(true);
    return false;
}

/* The thread to name beside the one that has found the deadlock: of another block or the same one. */
static struct spinner other_than(const struct spinning *self) {
    for (unsigned i = 0; i < 2; i++)
        if (known[i].pc && memcmp(&known[i].block, &self->latest[0].block, sizeof known[i].block) != 0)
            return known[i];
    return self->latest[1];
}

void watch_block_waits(bool blocks_left) {
    struct spinning *self = &recorder->spinning;
    bool changed = blocks_left || self->other_turns || self->changes != self->changes_before;
    self->other_turns = false;
    self->changes_before = self->changes;
    pthread_mutex_lock(&mutex);
    bool is_over = is_deadlock(self, changed);
    struct spinner other = other_than(self);
    pthread_mutex_unlock(&mutex);
    if (is_over)
        fault_spinning(&self->latest[0], other.pc ? &other : NULL);
    self->latest[0].pc = self->latest[1].pc = 0;
}
