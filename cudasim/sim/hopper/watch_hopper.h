/* The events of Hopper's machine; ../watch.h has those of the rest of the simulator. */
#pragma once
#include "../watch.h"
#include "async.h"

void watch_hopper_begins(struct sim_worker *worker); /* in its block, or with it */
void watch_mbarrier_begins(struct sim_worker *owner, const struct sim_mbarrier *barrier, const void *pc);
/* The running thread is about to arrive or to wait: the memory model has to order the mbarrier's
 * initialisation before this, and not only the chance of the run. */
void watch_mbarrier_used(struct sim_worker *owner, const struct sim_mbarrier *barrier, const void *pc,
                         bool waits);
/* The running thread arrives; the phase ends; a thread that waited for its end, or found it ended, goes on.
 */
void watch_mbarrier_arrives(struct sim_worker *owner, const struct sim_mbarrier *barrier);
void watch_mbarrier_phase_ends(struct sim_worker *owner, const struct sim_mbarrier *barrier);
void watch_mbarrier_passed(const struct sim_mbarrier *barrier);
struct sim_named_barrier;
void watch_named_barrier_arrives(unsigned number, const void *barrier); /* and does not wait */
void watch_named_barrier_passed(unsigned number, const struct sim_named_barrier *barrier);
void watch_threads_met(const struct sim_queue *threads); /* at a barrier of a part of the block */
void watch_block_met(void);                              /* at __syncthreads() */
void watch_cluster_met(const struct sim_cluster *cluster);
void watch_cluster_knows_mbarriers(const struct sim_cluster *cluster); /* at a relaxed barrier, too */
/* All threads of a block have returned. Returns another block that may have accessed its shared memory
 * afterwards, or NULL. The next function reports that, when the other block runs. */
const struct sim_worker *watch_block_exits(struct sim_worker *worker);
void watch_reached_after_exit(const struct sim_worker *exited);
void watch_deadlock(void); /* is about to be reported, of the running block */
void watch_proxy_fence(void);
/* A copy to a block, which an mbarrier counts, is asked for. The second is called once for all blocks. */
void watch_copy_begins(const struct sim_site *site, const struct sim_tensor_copy *copy, struct sim_place to,
                       const struct sim_mbarrier *barrier);
void watch_copy_is_counted(const void *pc, const struct sim_tensor_copy *copy);
/* The same for a copy that will read the running block's shared memory, until that mbarrier's phase ends. */
void watch_copy_reads(const struct sim_tensor_copy *copy, struct sim_worker *owner,
                      const struct sim_mbarrier *barrier);
/* The running thread asks for a box to be stored; it knows that the box has been read; it has waited for the
 * first `count` stores; or it has returned without waiting. */
void watch_store_begins(const struct sim_store *store);
void watch_store_has_read(const struct sim_store *store);
void watch_stores_end(const struct sim_store *stores, unsigned count);
void watch_store_is_left(const struct sim_store *store, bool is_committed);
void watch_store_to_block(const void *pc, const struct sim_site *site, struct sim_place to, unsigned bytes,
                          const struct sim_mbarrier *barrier);
/* The running thread asks for a product; it has executed wgmma.fence. */
void watch_product_asked(const struct sim_site *site, const float *sum, const struct sim_wgmma *product);
void watch_registers_fenced(void);
/* A warpgroup's product is about to read shared memory. */
void watch_product(const struct sim_product *product, const struct sim_thread *warpgroup);
