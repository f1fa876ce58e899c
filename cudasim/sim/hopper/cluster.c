/* Clusters: blocks that run together, wait for each other and reach each other's shared memory.
 *
 * The blocks of a cluster share one OS thread. Each has its own worker: its threads, fibers and shared
 * memory. A block runs until all its threads wait; then the next one goes on. When no block can, the oldest
 * copy of TMA lands. So clusters run in the same order every time. */
#include "async.h"
#include "watch_hopper.h"
#include <stdlib.h>

/* ---- What exists only once it is used ---- */

static noreturn void give_up(void) {
    sim_report_no_memory();
    sim_block_abandon();
}

struct sim_hopper *sim_hopper_here(void) {
    struct sim_worker *worker = sim_worker;
    if (worker->hopper)
        return worker->hopper;
    if (!(worker->hopper = calloc(1, sizeof *worker->hopper)))
        give_up();
    sim_cluster_here();
    if (WATCHED)
        watch_hopper_begins(worker);
    return worker->hopper;
}

static struct sim_cluster *make_cluster(struct sim_worker *first) {
    if (!first->cluster && (first->cluster = calloc(1, sizeof *first->cluster))) {
        first->cluster->size = 1;
        first->cluster->block[0] = first;
    }
    return first->cluster;
}

struct sim_cluster *sim_cluster_here(void) {
    struct sim_cluster *cluster = make_cluster(sim_worker);
    if (!cluster)
        give_up();
    return cluster;
}

uint32_t sim_cluster_rank(void) {
    return sim_worker->rank;
}

uint32_t sim_cluster_size(void) {
    return sim_cluster_here()->size;
}

void sim_wake(struct sim_worker *owner, struct sim_queue *queue) {
    for (struct sim_thread *thread = queue->first, *next; thread; thread = next) {
        next = thread->next;
        thread->state = SIM_RUNS;
        sim_queue_append(&owner->block.ready, thread);
    }
    *queue = (struct sim_queue){0};
}

/* ---- The barrier of the cluster ---- */

/* Threads that have returned are not waited for. */
static bool have_all_come(const struct sim_cluster *cluster) {
    unsigned alive = 0;
    for (unsigned rank = 0; rank < cluster->size; rank++)
        alive += cluster->block[rank]->block.size - cluster->block[rank]->block.returned;
    return cluster->at_barrier_count > 0 && cluster->at_barrier_count == alive;
}

static void pass_if_complete(struct sim_cluster *cluster) {
    if (!have_all_come(cluster))
        return;
    if (cluster->barrier_is_ordered)
        if (WATCHED)
            watch_cluster_met(cluster);
    if (WATCHED)
        watch_cluster_knows_mbarriers(cluster);
    cluster->at_barrier_count = 0;
    for (unsigned rank = 0; rank < cluster->size; rank++)
        sim_wake(cluster->block[rank], &cluster->at_barrier[rank]);
}

void sim_cluster_barrier(const struct sim_site *site, bool ordered) {
    struct sim_cluster *cluster = sim_cluster_here();
    struct sim_thread *self = sim_current(sim_worker);
    self->site = site;
    cluster->barrier_is_ordered = ordered;
    cluster->at_barrier_count++;
    sim_queue_append(&cluster->at_barrier[sim_worker->rank], self);
    self->state = SIM_WAITS_AT_CLUSTER_BARRIER;
    pass_if_complete(cluster);
    sim_block_wait(self->state, site);
}

void sim_thread_has_left(struct sim_worker *worker) {
    pass_if_complete(worker->cluster);
}

/* ---- Running ---- */

/* From now on the OS thread is this block. */
static void enter(struct sim_worker *worker) {
    sim_statics_change(sim_worker, worker);
    sim_worker = worker;
    worker->registers->sim_block_index = worker->block_index;
    worker->registers->sim_shared_memory = worker->shared_memory;
    if (WATCHED)
        watch_worker_runs(worker);
}

void sim_hopper_begin_block(struct sim_worker *worker) {
    *worker->hopper = (struct sim_hopper){.stages = worker->hopper->stages};
    if (WATCHED)
        watch_hopper_begins(worker);
}

static void forget_copies(struct sim_cluster *cluster) {
    cluster->copy_count = cluster->ended_count = 0;
    cluster->at_barrier_count = 0;
    memset(cluster->at_barrier, 0, sizeof cluster->at_barrier);
    memset(cluster->ended, 0, sizeof cluster->ended);
}

/* The first block's worker is the OS thread's own; the others' are made here and kept. */
static bool have_workers(struct sim_worker *first, unsigned size) {
    struct sim_cluster *cluster = make_cluster(first);
    if (!cluster)
        return false;
    for (unsigned rank = 1; rank < size; rank++) {
        if (!cluster->block[rank] && !(cluster->block[rank] = sim_worker_create()))
            return false;
        struct sim_worker *worker = cluster->block[rank];
        worker->cluster = cluster;
        worker->rank = rank;
        if (!sim_worker_has_shared_memory(worker, sim_launch_now.dynamic_shared_bytes) ||
            (WATCHED && worker->launch != sim_launch_now.number && !watch_worker_begins(worker)))
            return false;
        worker->launch = sim_launch_now.number;
    }
    cluster->size = size;
    return true;
}

static void abandon_all(struct sim_cluster *cluster) {
    for (unsigned rank = 0; rank < cluster->size; rank++) {
        enter(cluster->block[rank]);
        sim_block_clean(cluster->block[rank]);
    }
    forget_copies(cluster);
}

/* No thread waits for a copy that is still in flight to this block. */
static void check_copies_to(const struct sim_cluster *cluster, unsigned rank) {
    for (unsigned i = 0; i < cluster->copy_count; i++)
        if (cluster->copies[i].blocks >> rank & 1)
            sim_report_of(
                SIM_BLOCK_HAS_EXITED, &cluster->block[rank]->block.threads[0], cluster->copies[i].site,
                "and all others of its block have exited, and a copy to its shared memory is still on "
                "its way");
}

/* Gives each block that can go on one turn; false if one was abandoned. `any`: whether one could go on. */
static bool take_turns(struct sim_cluster *cluster, bool *any) {
    *any = false;
    for (unsigned rank = 0; rank < cluster->size; rank++) {
        struct sim_worker *worker = cluster->block[rank];
        if (cluster->ended[rank] || !sim_block_can_go_on(&worker->block))
            continue;
        *any = true;
        enter(worker);
        enum sim_progress progress = sim_block_go_on(worker);
        if (progress == SIM_BLOCK_ENDED) {
            cluster->ended[rank] = true;
            cluster->ended_count++;
            check_copies_to(cluster, rank);
            const struct sim_worker *reaching = WATCHED ? watch_block_exits(worker) : NULL;
            if (reaching) {
                enter(cluster->block[reaching->rank]);
                if (WATCHED)
                    watch_reached_after_exit(worker);
            }
        }
        if (progress == SIM_BLOCK_ABANDONED || sim_is_stopping())
            return false;
    }
    return true;
}

noreturn void sim_cluster_abandon(void) {
    longjmp(sim_worker->cluster->home, 1);
}

static bool run_together(struct sim_cluster *cluster) {
    if (setjmp(cluster->home))
        return false;
    while (cluster->ended_count < cluster->size) {
        bool any;
        if (!take_turns(cluster, &any))
            return false;
        if (any || sim_land_next_copy(cluster))
            continue;
        for (unsigned rank = 0; rank < cluster->size; rank++)
            if (!cluster->ended[rank]) {
                enter(cluster->block[rank]);
                sim_report_deadlock(cluster->block[rank]);
                return false;
            }
    }
    return true;
}

bool sim_cluster_run(struct sim_worker *worker, uint64_t number) {
    unsigned size = sim_launch_now.cluster;
    if (size > 1 && !have_workers(worker, size)) {
        sim_report_no_memory();
        return false;
    }
    worker->rank = 0;
    worker->block_index = sim_index_of_block(number);
    if (size == 1) {
        if (worker->cluster) {
            worker->cluster->size = 1;
            forget_copies(worker->cluster);
        }
        worker->registers->sim_block_index = worker->block_index;
        if (!sim_block_run(worker))
            return false;
        if (worker->cluster)
            check_copies_to(worker->cluster, 0);
        return !sim_is_stopping();
    }
    struct sim_cluster *cluster = worker->cluster;
    forget_copies(cluster);
    for (unsigned rank = 0; rank < size; rank++) {
        cluster->block[rank]->block_index = sim_index_of_block(number + rank);
        enter(cluster->block[rank]);
        sim_block_begin(cluster->block[rank]);
    }
    bool ran = run_together(cluster);
    if (!ran)
        abandon_all(cluster);
    enter(worker);
    for (unsigned rank = 0; rank < size; rank++)
        sim_statics_forget(cluster->block[rank]);
    return ran;
}

void sim_cluster_free(struct sim_worker *worker) {
    if (worker->rank == 0 && worker->cluster) {
        for (unsigned rank = 1; rank < SIM_MOST_CLUSTER; rank++)
            if (worker->cluster->block[rank])
                sim_worker_free(worker->cluster->block[rank]);
        free(worker->cluster->copies);
        free(worker->cluster->clocks);
        free(worker->cluster);
    }
    if (worker->hopper)
        free(worker->hopper->stages);
    free(worker->hopper);
}
