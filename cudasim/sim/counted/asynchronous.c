/* What Hopper's machine (../hopper/) tells the counted build: which threads waited for which, and what TMA
 * and other blocks write to shared memory. */
#include "../hopper/watch_hopper.h"
#include "history.h"
#include "recorder.h"
#include "stages.h"
#include "warp_clocks.h"

/* Memory that no thread of the block writes itself. */
static void is_written(struct sim_place place, size_t bytes) {
    struct recorder *owner = place.owner->recorder;
    const struct place *known = place_of(owner, (uintptr_t)place.pointer, (unsigned)bytes);
    if (known && known->words)
        history_written(owner, known, (uintptr_t)place.pointer, bytes);
}

static unsigned number_of(const struct sim_worker *owner, const struct sim_mbarrier *barrier) {
    return (unsigned)(barrier - owner->hopper->mbarrier);
}

static unsigned running_warp(void) {
    return clocks_warp(sim_worker, sim_worker->current);
}

/* A cluster's clocks begin with its first block. */
void watch_hopper_begins(struct sim_worker *worker) {
    if (worker->cluster && worker->rank == 0)
        clocks_begin(worker->cluster);
    stages_begin_block(worker);
    if (worker->recorder)
        ((struct recorder *)worker->recorder)->own_bytes = 0;
}

void watch_mbarrier_begins(struct sim_worker *owner, const struct sim_mbarrier *barrier, const void *pc) {
    mbarrier_access(recorder, (uintptr_t)pc, (uintptr_t)barrier->word, COUNTED_STORE);
    order_forget(recorder, barrier->word);
    if (clocks_here())
        clocks_forget_barrier(clocks_here(), clocks_barrier(owner, barrier));
}

void watch_mbarrier_used(struct sim_worker *owner, const struct sim_mbarrier *barrier, const void *pc,
                         bool waits) {
    if (owner == sim_worker)
        mbarrier_access(recorder, (uintptr_t)pc, (uintptr_t)barrier->word,
                        waits ? COUNTED_LOAD : COUNTED_ATOMIC);
}

void watch_mbarrier_arrives(struct sim_worker *owner, const struct sim_mbarrier *barrier) {
    if (owner == sim_worker)
        order_arrive(recorder, number_of(owner, barrier), barrier->word);
    if (clocks_here())
        clocks_arrive(clocks_here(), running_warp(), clocks_barrier(owner, barrier));
}

void watch_mbarrier_phase_ends(struct sim_worker *owner, const struct sim_mbarrier *barrier) {
    order_end_phase(owner->recorder, number_of(owner, barrier));
    if (clocks_here())
        clocks_end_phase(clocks_here(), clocks_barrier(owner, barrier), barrier->completed);
}

void watch_mbarrier_passed(const struct sim_mbarrier *barrier) {
    if (sim_worker->cluster && sim_worker->cluster->size > 1)
        order_all(recorder); /* threads of another block may stand between two of this one */
    order_pass(recorder, number_of(sim_worker, barrier));
    order_acquire(recorder, barrier->word); /* copies that have read global memory */
    if (clocks_here())
        clocks_pass(clocks_here(), running_warp(), clocks_barrier(sim_worker, barrier));
}

/* `arriving`: warps that have arrived and do not wait. The checks of stages treat them like waiting ones. */
static void meet(const struct sim_queue *threads, unsigned barrier, uint32_t arriving) {
    unsigned warps[CLOCK_WARPS], count = 0;
    order_warps_met(recorder, threads, barrier);
    for (const struct sim_thread *thread = threads->first; thread; thread = thread->next)
        arriving |= 1u << (thread - sim_worker->block.threads) / SIM_WARP_THREADS;
    for (; arriving; arriving &= arriving - 1)
        warps[count++] = sim_worker->rank * CLOCK_WARPS + (unsigned)__builtin_ctz(arriving);
    if (clocks_here())
        clocks_meet(clocks_here(), warps, count);
}

void watch_named_barrier_arrives(unsigned number, const void *barrier) {
    order_arrive(recorder, ORDER_MBARRIERS + number, barrier);
}

void watch_named_barrier_passed(unsigned number, const struct sim_named_barrier *barrier) {
    order_end_phase(recorder, ORDER_MBARRIERS + number);
    meet(&barrier->waiting, ORDER_MBARRIERS + number, barrier->arriving);
}

void watch_threads_met(const struct sim_queue *threads) {
    meet(threads, ORDER_NO_BARRIER, 0);
}

static unsigned add_warps_of_block(const struct sim_worker *worker, unsigned *warps, unsigned count) {
    for (unsigned warp = 0; warp * SIM_WARP_THREADS < worker->block.size; warp++)
        warps[count++] = worker->rank * CLOCK_WARPS + warp;
    return count;
}

void watch_block_met(void) {
    unsigned warps[CLOCK_WARPS];
    if (sim_worker->hopper && clocks_here())
        clocks_meet(clocks_here(), warps, add_warps_of_block(sim_worker, warps, 0));
}

/* After a barrier of the cluster it knows all initialised mbarriers; after a relaxed one only those followed
 * by fence.mbarrier_init. */
void watch_cluster_knows_mbarriers(const struct sim_cluster *cluster) {
    for (unsigned rank = 0; rank < cluster->size; rank++) {
        struct sim_worker *worker = cluster->block[rank];
        for (unsigned i = 0; worker->hopper && i < worker->hopper->mbarriers; i++) {
            const struct sim_mbarrier *barrier = &worker->hopper->mbarrier[i];
            if (cluster->barrier_is_ordered || barrier->is_fenced)
                is_written((struct sim_place){worker, (unsigned char *)barrier->word}, sizeof(uint64_t));
        }
    }
}

void watch_cluster_met(const struct sim_cluster *cluster) {
    unsigned warps[SIM_MOST_CLUSTER * CLOCK_WARPS], count = 0;
    struct recorder *recorders[SIM_MOST_CLUSTER];
    for (unsigned rank = 0; rank < cluster->size; rank++)
        recorders[rank] = cluster->block[rank]->recorder;
    order_cluster(recorders, cluster->size);
    for (unsigned rank = 0; rank < cluster->size; rank++) {
        count = add_warps_of_block(cluster->block[rank], warps, count);
    }
    if (clocks_here())
        clocks_meet(clocks_here(), warps, count);
}

/* A read of memory that nobody will write any more is reported first: it may be the cause of the deadlock. */
void watch_deadlock(void) {
    history_settle_read(recorder);
}

void watch_proxy_fence(void) {
    sim_hopper_here();
    if (clocks_here())
        clocks_fence(clocks_here(), running_warp());
}

void watch_copy_begins(const struct sim_site *site, const struct sim_tensor_copy *copy, struct sim_place to,
                       const struct sim_mbarrier *barrier) {
    is_written(to, sim_box_bytes(&copy->box));
    stages_copy(site, copy, to, barrier);
}

void watch_copy_is_counted(const void *pc, const struct sim_tensor_copy *copy) {
    (void)pc;
    requests_tensor_copy(&recorder->requests, sim_box_bytes(&copy->box));
}

/* ---- Stores of TMA ---- */

/* The object on which a group of the running thread's stores completes; no kernel has this address. */
static const void *object_of(unsigned group) {
    uintptr_t number =
        (uintptr_t)recorder->block_number << 17 | (uintptr_t)recorder->thread << 4 | group % 16;
    return (const void *)((uintptr_t)1 << 63 | number << 3);
}

static void writes_to_global_memory(const struct sim_store *store) {
    const struct sim_box *box = &store->box;
    counted_operation operation = store->operation == SIM_ATOMIC_EXCHANGE ? COUNTED_STORE : COUNTED_ATOMIC;
    struct agent agent = order_asynchronous(recorder, object_of(store->group));
    size_t element = box->map.element_bytes;
    unsigned first, end;
    sim_box_columns(box, &first, &end);
    for (size_t row = 0; first < end && row < sim_box_rows(box); row++) {
        uintptr_t to = (uintptr_t)sim_row_of_tensor(box, row);
        if (to)
            async_access(recorder, (uintptr_t)store->pc,
                         to + (uintptr_t)(((int64_t)box->coordinate[0] + first) * (int64_t)element),
                         (unsigned)((end - first) * element), operation, agent);
    }
}

void watch_store_begins(const struct sim_store *store) {
    requests_tensor_store(&recorder->requests, sim_box_bytes(&store->box));
    stages_store(store);
    writes_to_global_memory(store);
}

void watch_store_has_read(const struct sim_store *store) {
    stages_store_has_read(store);
}

void watch_stores_end(const struct sim_store *stores, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if (i == 0 || stores[i].group != stores[i - 1].group)
            order_acquire(recorder, object_of(stores[i].group));
}

void watch_store_is_left(const struct sim_store *store, bool is_committed) {
    struct sim_access_report about = {
        .kind = SIM_STAGE_RACE, .thread = sim_worker->current, .pc = (uintptr_t)store->pc};
    sim_report warning;
    sim_describe_access(
        &warning, &about,
        "asks TMA to store from shared memory%s and returns without waiting until the store "
        "has read it (cp.async.bulk.wait_group.read 0): when the block ends, another one gets "
        "its shared memory",
        is_committed ? "" : ", does not commit the store to a group");
    session_warn(&warning);
}

/* ---- Other blocks ---- */

void watch_copy_reads(const struct sim_tensor_copy *copy, struct sim_worker *owner,
                      const struct sim_mbarrier *barrier) {
    stages_copy_reads(copy, owner, barrier);
    watch_mbarrier_arrives(owner, barrier);
}

/* A thread that waits for the store's bytes also comes after everything that the storing thread did
   before. */
void watch_store_to_block(const void *pc, const struct sim_site *site, struct sim_place to, unsigned bytes,
                          const struct sim_mbarrier *barrier) {
    (void)pc;
    is_written(to, bytes);
    stages_store_from_block(site, to, barrier);
    watch_mbarrier_arrives(to.owner, barrier);
}

/* wgmma reads 64 rows of x and a row of w for each column, 32 bytes of each. */
void watch_product(const struct sim_product *product, const struct sim_thread *warpgroup) {
    enum { ROWS = 64, ROW_BYTES = 32 };
    sim_hopper_here();
    unsigned rows = product->asked.x_in_registers ? 0 : ROWS;
    requests_product(&recorder->requests, (rows + (unsigned)product->asked.columns) * ROW_BYTES);
    stages_product(product, warpgroup);
}
