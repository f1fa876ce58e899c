/* What the counted build is told of Hopper's machine (../hopper/): who waited for whom, and what TMA and
 * other blocks write to shared memory. */
#include "../hopper/watch_hopper.h"
#include "recorder.h"

/* Memory that no thread of the block writes itself. */
static void is_written(struct sim_place place, size_t bytes) {
    struct recorder *owner = place.owner->recorder;
    const struct place *known = place_of(owner, (uintptr_t)place.pointer, (unsigned)bytes);
    if (known && known->shadow)
        shadow_written(owner, known, (uintptr_t)place.pointer, bytes);
}

void watch_mbarrier_written(const void *pc, const void *word) {
    (void)pc;
    is_written((struct sim_place){sim_worker, (unsigned char *)(uintptr_t)word}, sizeof(uint64_t));
}

void watch_mbarrier_arrives(struct sim_worker *owner, const struct sim_mbarrier *barrier) {
    (void)owner, (void)barrier;
}

void watch_mbarrier_phase_ends(struct sim_worker *owner, const struct sim_mbarrier *barrier) {
    (void)owner, (void)barrier;
}

void watch_mbarrier_passed(const struct sim_site *site, const struct sim_mbarrier *barrier, bool at_once) {
    (void)site, (void)barrier, (void)at_once;
    shadow_order(recorder);
}

void watch_threads_met(const struct sim_queue *threads) {
    (void)threads;
    shadow_order(recorder);
}

void watch_cluster_met(const struct sim_cluster *cluster) {
    for (unsigned rank = 0; rank < cluster->size; rank++)
        shadow_order(cluster->block[rank]->recorder);
}

void watch_proxy_fence(void) {}

void watch_copy_begins(const struct sim_site *site, const struct sim_tensor_copy *copy, struct sim_place to,
                       const struct sim_mbarrier *barrier) {
    (void)site, (void)barrier;
    size_t bytes = copy->map.element_bytes;
    for (unsigned i = 0; i < copy->map.rank; i++)
        bytes *= copy->map.box[i];
    is_written(to, bytes);
}

void watch_copy_is_counted(const void *pc, const struct sim_tensor_copy *copy) {
    (void)pc, (void)copy;
}

void watch_store_to_block(const void *pc, const struct sim_site *site, struct sim_place to, unsigned bytes,
                          const struct sim_mbarrier *barrier) {
    (void)pc, (void)site, (void)barrier;
    is_written(to, bytes);
}

void watch_load_from_block(const void *pc, const struct sim_site *site, struct sim_place from,
                           unsigned bytes) {
    (void)pc, (void)site, (void)from, (void)bytes;
}

void watch_product(const struct sim_product *product, const struct sim_thread *warpgroup) {
    (void)product, (void)warpgroup;
}
