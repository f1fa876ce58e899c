/* What the simulator tells the counted build (counted/) while a launch runs. In the plain build, which is
 * compiled without SIM_COUNTED, there is nobody to tell and these calls are nothing. */
#pragma once
#include "machine.h"

#ifdef SIM_COUNTED

enum { WATCHED = true };

bool watch_launch_begins(const struct sim_launch *launch); /* false when there is no memory for it */
void watch_launch_ends(const struct sim_launch *launch);
bool watch_worker_begins(struct sim_worker *worker); /* its part of a launch; false as above */
void watch_worker_runs(struct sim_worker *worker);   /* on this OS thread from now on */
void watch_worker_ends(struct sim_worker *worker);   /* for good */
void watch_more_workers(void); /* another OS thread is to run blocks of the launch, besides the running one */
void watch_block_begins(struct sim_worker *worker);
void watch_block_abandoned(void);
void watch_thread_runs(const struct sim_thread *thread); /* from now on, until another does */
void watch_kernel_begins(const struct sim_fiber *fiber); /* in the running thread, which has that stack */
/* All threads that have started wait or have returned, and they are whole warps. True when that made some
 * of them ready. */
bool watch_all_stopped(void);
void watch_barrier_reached(const struct sim_thread *thread);
void watch_barrier_passed(void);
void watch_lanes_met(unsigned warp, unsigned lanes);
void watch_warp_operations(unsigned more);           /* of the warp that has just met */
void watch_grid_barrier_reached(const void *object); /* by the one thread that comes for its block */
void watch_grid_barrier_passed(const void *object);
/* For deadlocks of threads that wait in loops of their own (counted/spinning.c). The running thread changes
 * memory or returns; it waits in a loop, at `pc`; it gives its turn up; all threads of its block have given
 * up several turns, and `blocks_left` of the launch have not started. */
void watch_change(void);
void watch_wait(const void *pc);
void watch_turn_ends(void);
void watch_block_waits(bool blocks_left);
void watch_shift(const void *pc, unsigned bits, unsigned count); /* of a number of so many bits by more */
void watch_fence(bool in_block); /* by the running thread; in_block: its scope is the block, not the grid */
/* Before the access; `pc` is the return address of the call in the kernel. */
void watch_atomic(const void *pc, const volatile void *address, unsigned bytes, bool in_block);
void watch_range(const void *pc, const void *address, size_t bytes, bool writes);
void watch_copy_asked(const void *pc, const void *global, unsigned bytes);
/* Where it goes is the copy's from when it is asked for until it lands: nobody may read or write there. */
void watch_copy_is_pending(const void *pc, const void *shared, unsigned bytes);
void watch_copy_lands(const void *pc, const void *shared, unsigned bytes);

/* An asynchronous copy (the async proxy) that the running thread has asked for reads or writes memory. It
 * comes after what the thread did before, and before what a thread does after it has waited for the mbarrier
 * that the copy completes on; nothing else orders it, a barrier neither. cudasim/docs/memory_model.md has the
 * model.
 */
void watch_async_access(const void *pc, const void *address, unsigned bytes, bool writes,
                        const void *completes_on);

#define SIM_CALLER __builtin_return_address(0)

#else

enum { WATCHED = false };

static inline bool watch_launch_begins(const struct sim_launch *launch) {
    (void)launch;
    return true;
}
static inline void watch_launch_ends(const struct sim_launch *launch) {
    (void)launch;
}
static inline bool watch_worker_begins(struct sim_worker *worker) {
    (void)worker;
    return true;
}
static inline void watch_worker_runs(struct sim_worker *worker) {
    (void)worker;
}
static inline void watch_worker_ends(struct sim_worker *worker) {
    (void)worker;
}
static inline void watch_more_workers(void) {}
static inline void watch_block_begins(struct sim_worker *worker) {
    (void)worker;
}
static inline void watch_block_abandoned(void) {}
static inline void watch_thread_runs(const struct sim_thread *thread) {
    (void)thread;
}
static inline void watch_kernel_begins(const struct sim_fiber *fiber) {
    (void)fiber;
}
static inline bool watch_all_stopped(void) {
    return false;
}
static inline void watch_barrier_reached(const struct sim_thread *thread) {
    (void)thread;
}
static inline void watch_barrier_passed(void) {}
static inline void watch_lanes_met(unsigned warp, unsigned lanes) {
    (void)warp, (void)lanes;
}
static inline void watch_warp_operations(unsigned more) {
    (void)more;
}
static inline void watch_grid_barrier_reached(const void *object) {
    (void)object;
}
static inline void watch_grid_barrier_passed(const void *object) {
    (void)object;
}
static inline void watch_change(void) {}
static inline void watch_wait(const void *pc) {
    (void)pc;
}
static inline void watch_turn_ends(void) {}
static inline void watch_block_waits(bool blocks_left) {
    (void)blocks_left;
}
static inline void watch_shift(const void *pc, unsigned bits, unsigned count) {
    (void)pc, (void)bits, (void)count;
}
static inline void watch_fence(bool in_block) {
    (void)in_block;
}
static inline void watch_atomic(const void *pc, const volatile void *address, unsigned bytes, bool in_block) {
    (void)pc, (void)address, (void)bytes, (void)in_block;
}
static inline void watch_async_access(const void *pc, const void *address, unsigned bytes, bool writes,
                                      const void *completes_on) {
    (void)pc, (void)address, (void)bytes, (void)writes, (void)completes_on;
}
static inline void watch_range(const void *pc, const void *address, size_t bytes, bool writes) {
    (void)pc, (void)address, (void)bytes, (void)writes;
}
static inline void watch_copy_asked(const void *pc, const void *global, unsigned bytes) {
    (void)pc, (void)global, (void)bytes;
}
static inline void watch_copy_is_pending(const void *pc, const void *shared, unsigned bytes) {
    (void)pc, (void)shared, (void)bytes;
}
static inline void watch_copy_lands(const void *pc, const void *shared, unsigned bytes) {
    (void)pc, (void)shared, (void)bytes;
}

#define SIM_CALLER NULL

#endif
