/* The host's side of feature maps: how a launch divides them, and its functions for the C API. */
#pragma once

#include "feature_maps/feature_maps.h"
#include "shared/checks.h"
#include "shared/plan.h"

static inline bool has_tensors(const struct operators *list) {
    for (int i = 0; i < list->count; i++)
        if (list->step[i].tensor)
            return true;
    return false;
}

/* Divides the elements of a block's groups among the blocks of a cluster, and sets what they hold: v, which
 * takes half the room in 16-bit types, or u where a tensor would have to be read again for it. blocks: for a
 * cluster of one. per_slot: the elements that a block has in one slot. */
static inline void divide_among_cluster(struct maps_args *args, int64_t blocks, int64_t elements,
                                        int64_t per_slot, const fgn_device *device) {
    args->holds_u = has_tensors(&args->maps.before);
    args->halves = args->holds_u || args->maps.type == FGN_FLOAT32 ? 2 : 1;
    int64_t most = most_shared_bytes(device) / BLOCKS_AT_ONCE - args->held_at;
    int64_t slot_bytes = args->threads * args->halves * (int64_t)sizeof(uint4);
    bool has_clusters = is_simulator(device) || device->major >= 9;
    args->cluster = 1;
    while (has_clusters && args->cluster < MOST_CLUSTER_OF_MAPS) {
        int64_t slots = tiles(elements, per_slot * args->cluster);
        bool idle = slots > 2 && blocks * args->cluster < BLOCKS_AT_ONCE * MULTIPROCESSORS;
        if (!idle && slots * slot_bytes <= most)
            break;
        args->cluster *= 2;
    }
    args->sharers = args->cluster;
    args->slots = (int)tiles(elements, per_slot * args->cluster);
    args->held_slots = (int)(args->slots * slot_bytes <= most ? args->slots : most / slot_bytes);
}

static inline int shared_bytes_of_maps(const struct maps_args *args) {
    return args->held_at + args->held_slots * args->threads * args->halves * (int)sizeof(uint4);
}

/* Launches the kernel of this file that was compiled for the call, if there is one. cluster: of the launch's
 * blocks. */
static inline bool launched_maps_jit(const char *file, const struct maps_args *args, unsigned blocks,
                                     int cluster, cudaStream_t stream, cudaError_t *error) {
    const struct feature_maps *maps = &args->maps;
    const struct maps_facts facts = {
        (int)maps->type,
        (int)maps->vector_type,
        maps->channels,
        maps->groups,
        (int)maps->positions,
        maps->between != NULL,
        maps->scale != NULL,
        maps->shift != NULL,
        (int)maps->before_samples,
        (int)maps->after_samples,
        args->threads,
        args->width,
        args->cluster,
        args->sharers,
        args->slots,
        args->held_slots,
        args->held_at,
        args->halves,
        args->holds_u,
        args->bundle,
        args->is_second,
        known_list_of(&maps->before),
        known_list_of(&maps->after),
    };
    const dim3 grid = {blocks, 1, 1}, block = {(unsigned)args->threads, 1, 1};
    const struct jit_call call = {file,
                                  (const int *)&facts,
                                  sizeof facts / sizeof(int),
                                  args,
                                  grid,
                                  block,
                                  shared_bytes_of_maps(args),
                                  0,
                                  cluster};
    return launched_jit(&call, stream, error);
}

/* Each one launches its kernel and returns the launch's error. */
cudaError_t group_norm_nchw(const struct feature_maps *maps, const fgn_device *device, cudaStream_t stream);
cudaError_t group_norm_nhwc(const struct feature_maps *maps, const fgn_device *device, cudaStream_t stream);

/* Whether a block's threads have all channels of a group, which group_norm_nhwc() needs. */
bool has_bundles(const struct feature_maps *maps);

/* Whether the maps are better normalised in two launches, and the bytes of the workspace between them: 0
 * where two launches cannot do it. */
bool is_better_apart(const struct feature_maps *maps, const fgn_device *device);
int64_t workspace_of_maps_apart(const struct feature_maps *maps, const fgn_device *device);
cudaError_t group_norm_nhwc_apart(const struct feature_maps *maps, void *workspace, const fgn_device *device,
                                  cudaStream_t stream);
