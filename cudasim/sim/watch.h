/* The events that the simulator reports to the tools that watch a launch (counted/), before they happen. The
 * plain build has no tools, so every call here and in hopper/watch_hopper.h is behind `if (WATCHED)`, which
 * compiles to nothing there.
 *
 * A tool is a header and a C file in counted/. Its header has a struct, the tool's state for one OS thread,
 * which is a member of `struct recorder` (counted/recorder.h), and a function for each event that it
 * subscribes to, named after both: `spinning_block_begins()`. It subscribes by a line in the event's
 * function: counted/watch.c (blocks, threads, barriers), counted/launches.c (launches, OS threads),
 * counted/access.c (loads and stores, which the compiler calls), counted/asynchronous.c (Hopper). Tools are
 * called directly, one after the other, so small and frequent functions are `static inline` in the header.
 * One tool publishes its own event, a warp's request: counted/requests.c. docs/watching.md has an example.
 */
#pragma once
#include "machine.h"

#ifdef SIM_COUNTED
enum { WATCHED = true };
#define SIM_CALLER __builtin_return_address(0)
#else
enum { WATCHED = false };
#define SIM_CALLER NULL
#endif

/* ---- Launches, and the OS threads that run their blocks ---- */

bool watch_launch_begins(const struct sim_launch *launch); /* false when there is no memory for it */
void watch_launch_ends(const struct sim_launch *launch);
bool watch_worker_begins(struct sim_worker *worker); /* its part of a launch; false as above */
void watch_worker_runs(struct sim_worker *worker);   /* on this OS thread from now on */
void watch_worker_ends(struct sim_worker *worker);   /* for good */
void watch_more_workers(void); /* another OS thread is to run blocks of the launch, besides the running one */

/* ---- Blocks and threads ---- */

void watch_block_begins(struct sim_worker *worker);
void watch_block_abandoned(void);
/* From now on, until another does. */
void watch_thread_runs(struct sim_worker *worker, const struct sim_thread *thread);
void watch_kernel_begins(struct sim_worker *worker); /* in the running thread, which has its fiber's stack */
/* All started threads wait or have returned, and they are whole warps. Returns true if that made some of them
 * ready. */
bool watch_all_stopped(void);

/* ---- What orders threads ---- */

void watch_barrier_reached(const struct sim_thread *thread);
void watch_barrier_passed(void);
void watch_lanes_met(unsigned warp, unsigned lanes);
void watch_warp_operations(unsigned more); /* of the warp that has just met */
/* By the one thread that comes for its block. `object`: of this phase and not of the next. */
void watch_grid_barrier_reached(const void *object);
void watch_grid_barrier_passed(const void *object);
void watch_fence(bool in_block); /* by the running thread; in_block: its scope is the block, not the grid */

/* ---- Accesses: before they are made; `pc` is the return address of the call in the kernel. Loads and stores
 * of a kernel's own text come from the compiler's instrumentation, to counted/access.c. ---- */

void watch_atomic(const void *pc, const volatile void *address, unsigned bytes, bool in_block);
/* It has read the value that it will replace, unless another OS thread is first; then it comes here again. */
void watch_atomic_replaces(const void *pc, const volatile void *address, unsigned bytes, bool in_block);
void watch_range(const void *pc, const void *address, size_t bytes, bool writes);
/* Accesses of host code while it does a kernel's work (program/libraries.c); NULL at all other times.
 * is_copy: the bytes are only copied. */
extern void (*watch_library)(uintptr_t address, size_t bytes, bool writes, bool is_copy);
void watch_copy_asked(const void *pc, const void *global, unsigned bytes);
/* Its target belongs to the copy from the request until it lands: no thread may read or write there. */
void watch_copy_is_pending(const void *pc, const void *shared, unsigned bytes);
void watch_copy_lands(const void *pc, const void *shared, unsigned bytes);
/* An asynchronous copy (the async proxy) that the running thread has asked for reads or writes memory. It
 * comes after what the thread did before, and before what a thread does after it has waited for the copy's
 * mbarrier. Nothing else orders it, not even a barrier. cudasim/docs/memory_model.md has the model.
 */
void watch_async_access(const void *pc, const void *address, unsigned bytes, bool writes,
                        const void *completes_on);

/* ---- The device's heap ---- */

void watch_heap_takes(const void *memory, size_t bytes); /* for a block that malloc() is about to return */
void watch_heap_is_given_back(void);                     /* a block of it, by the running thread */

/* ---- Threads that wait in their own loops ---- */

void watch_change(struct sim_worker *worker); /* its running thread changes memory or returns */
void watch_wait(const void *pc);              /* it waits in a loop, there */
void watch_turn_ends(void);                   /* it gives its turn up */
void watch_block_waits(bool blocks_left); /* all threads of its block have given up several turns, and blocks
                                             of the launch have not started */

void watch_shift(const void *pc, unsigned bits, unsigned count); /* by more than the number's bits */
