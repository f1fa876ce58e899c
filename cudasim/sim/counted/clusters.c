/* Distributed shared memory: a block reads and writes the shared memory of another block of its cluster.
 *
 * Each block has a recorder with the histories of its shared memory. Accesses by another block go to the same
 * histories, so that a race is defined as everywhere else; the barrier of the cluster orders the blocks. A
 * block may exit only after all accesses of other blocks to its shared memory: its exit is compared with
 * their latest access. */
#include "../hopper/watch_hopper.h"
#include "recorder.h"

static struct recorder *recorder_of(const struct sim_cluster *cluster, unsigned rank) {
    return cluster->block[rank]->recorder;
}

bool clusters_find_place(struct recorder *self, uintptr_t address, unsigned bytes, struct place *found) {
    const struct sim_cluster *cluster = self->worker->cluster;
    for (unsigned rank = 0; cluster && rank < cluster->size; rank++) {
        struct sim_worker *owner = cluster->block[rank];
        uintptr_t own = address;
        bool is_dynamic = address - (uintptr_t)owner->shared_memory < owner->shared_memory_bytes;
        if (owner == self->worker || (!is_dynamic && !sim_statics_find(owner, address, &own)))
            continue;
        const struct place *place = place_of(owner->recorder, own, bytes);
        if (!place || place->space != COUNTED_SHARED)
            return false;
        *found = *place;
        found->begin += address - own;
        found->end += address - own;
        found->owner = owner;
        return true;
    }
    return false;
}

void clusters_reach(struct recorder *self, const struct access *access) {
    const struct sim_worker *owner = access->place->owner;
    if (self->worker->cluster->ended[owner->rank]) {
        struct sim_access_report report = {
            .kind = SIM_BLOCK_HAS_EXITED, .thread = sim_worker->current, .pc = access->pc};
        sim_report_access(&report,
                          "reaches into the shared memory of block %u of its cluster, which has exited",
                          owner->rank);
    }
    self->clusters.reach[owner->rank] = (struct reach){
        .past = {.block = self->block_number,
                 .time = self->order.now,
                 .lanes = 1u << self->thread % SIM_WARP_THREADS,
                 .what = self->thread / SIM_WARP_THREADS << PAST_WARP},
        .pc = access->pc,
        .thread = self->thread,
    };
}

/* Whether a thread of the block knows of the access, so that the block exits after it. */
static bool is_known(struct recorder *self, const struct past *past) {
    for (self->thread = 0; self->thread < self->worker->block.size; self->thread++)
        if (order_is_before(self, past))
            return true;
    return false;
}

const struct sim_worker *watch_block_exits(struct sim_worker *worker) {
    const struct sim_cluster *cluster = worker->cluster;
    for (unsigned rank = 0; rank < cluster->size; rank++) {
        const struct reach *reach = &recorder_of(cluster, rank)->clusters.reach[worker->rank];
        if (reach->past.block && !is_known(worker->recorder, &reach->past))
            return cluster->block[rank];
    }
    return NULL;
}

void watch_reached_after_exit(const struct sim_worker *exited) {
    const struct reach *reach = &recorder->clusters.reach[exited->rank];
    struct sim_access_report report = {
        .kind = SIM_BLOCK_HAS_EXITED, .thread = &sim_worker->block.threads[reach->thread], .pc = reach->pc};
    sim_report_access(
        &report,
        "reaches into the shared memory of block %u of its cluster, which may have exited by then: "
        "no barrier of the cluster comes between this access and that block's end",
        exited->rank);
}
