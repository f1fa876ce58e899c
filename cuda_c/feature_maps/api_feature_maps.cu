/* GroupNorm of feature maps in the C API: the checks of a call, and its launches. */
#include "feature_maps/launch.h"

static fgn_status check_maps(const fgn_feature_maps *maps) {
    if (!maps)
        return fail(FGN_INVALID_ARGUMENT, "maps is NULL");
    if (maps->batch < 0 || maps->channels < 1 || maps->channels > MOST_OF_GROUP || maps->positions < 1 ||
        maps->positions > MOST_OF_GROUP)
        return fail(FGN_INVALID_ARGUMENT,
                    "batch, channels and positions are %lld, %lld and %lld, expected 0 or more, and 1 to %d",
                    maps->batch, maps->channels, maps->positions, MOST_OF_GROUP);
    fgn_status status = check_groups(maps->groups, maps->channels);
    if (status == FGN_OK)
        status = check_types(maps->type, maps->vector_type);
    if (status == FGN_OK)
        status = check_operators("before", maps->before_count, maps->before);
    if (status == FGN_OK)
        status = check_operators("after", maps->after_count, maps->after);
    if (status == FGN_OK &&
        (reads_one(maps->before_count, maps->before) || reads_one(maps->after_count, maps->after)))
        status = fail(FGN_NOT_SUPPORTED, "a vector has one element (one), expected one for each channel");
    if (status != FGN_OK)
        return status;
    if (maps->channels / maps->groups > MOST_OF_GROUP / maps->positions)
        return fail(FGN_NOT_SUPPORTED, "a group has more than %d elements", MOST_OF_GROUP);
    if (maps->batch > INT32_MAX / MOST_CLUSTER_OF_MAPS / maps->groups)
        return fail(FGN_NOT_SUPPORTED, "the batch of %lld has more groups than a launch has blocks",
                    maps->batch);
    return FGN_OK;
}

static struct feature_maps maps_of(const fgn_feature_maps *maps, const void *v, void *between, void *y) {
    struct operators before = list_of(maps->type, maps->channels, maps->before_count, maps->before);
    struct operators after = list_of(maps->type, maps->channels, maps->after_count, maps->after);
    struct feature_maps of = {v,
                              y,
                              between,
                              maps->type,
                              maps->vector_type,
                              maps->scale,
                              maps->shift,
                              maps->eps,
                              maps->batch,
                              (int)maps->channels,
                              (int)maps->groups,
                              maps->positions,
                              without_others(before),
                              without_others(after),
                              maps->before_samples,
                              maps->after_samples};
    return of;
}

static fgn_status check_tensors(int count, const fgn_pointwise *step, int64_t bytes, const void *written) {
    fgn_status status = FGN_OK;
    for (int i = 0; i < count && status == FGN_OK; i++)
        if (takes_tensor(&step[i]))
            status = check_no_overlap("an operator's tensor", step[i].tensor, bytes, written, bytes);
    return status;
}

/* Checks that no output overlaps an input. */
static fgn_status check_written(const fgn_feature_maps *maps, const void *v, int64_t bytes, const char *name,
                                const void *written) {
    fgn_status status = check_aligned(name, written, (int)element_bytes(maps->type));
    if (status == FGN_OK && overlap(v, bytes, written, bytes))
        status = fail(FGN_INVALID_ARGUMENT, "%s overlaps v, expected memory of its own", name);
    if (status == FGN_OK)
        status = check_tensors(maps->before_count, maps->before, bytes, written);
    if (status == FGN_OK)
        status = check_tensors(maps->after_count, maps->after, bytes, written);
    return status;
}

fgn_status fgn_feature_maps_workspace_bytes(const fgn_feature_maps *maps, unsigned long long *bytes) {
    if (!bytes)
        return fail(FGN_INVALID_ARGUMENT, "bytes is NULL");
    fgn_status status = check_maps(maps);
    fgn_device device;
    if (status == FGN_OK)
        status = fgn_current_device(&device);
    if (status != FGN_OK)
        return status;
    struct feature_maps of = maps_of(maps, NULL, NULL, NULL);
    bool is_apart =
        maps->channels_last && maps->batch > 0 && has_bundles(&of) && is_better_apart(&of, &device);
    *bytes = is_apart ? (unsigned long long)workspace_of_maps_apart(&of, &device) : 0;
    return FGN_OK;
}

fgn_status fgn_feature_maps_forward(const fgn_feature_maps *maps, const void *v, void *between, void *y,
                                    void *workspace, unsigned long long workspace_bytes, void *stream) {
    fgn_status status = check_maps(maps);
    if (status != FGN_OK || maps->batch == 0)
        return status;
    int64_t bytes = element_bytes(maps->type) * maps->batch * maps->channels * maps->positions;
    status = check_aligned("v", v, (int)element_bytes(maps->type));
    if (status == FGN_OK)
        status = check_vector("scale", maps->scale, maps->vector_type);
    if (status == FGN_OK)
        status = check_vector("shift", maps->shift, maps->vector_type);
    if (status == FGN_OK)
        status = check_operands("before", maps->before_count, maps->before, maps->vector_type, maps->type);
    if (status == FGN_OK)
        status = check_operands("after", maps->after_count, maps->after, maps->vector_type, maps->type);
    if (status == FGN_OK)
        status = check_written(maps, v, bytes, "y", y);
    if (status == FGN_OK && between)
        status = check_written(maps, v, bytes, "between", between);
    if (status == FGN_OK && between && overlap(between, bytes, y, bytes))
        status = fail(FGN_INVALID_ARGUMENT, "between overlaps y, expected memory of its own");
    struct feature_maps of = maps_of(maps, v, between, y);
    if (status == FGN_OK && maps->channels_last && !has_bundles(&of))
        status =
            fail(FGN_NOT_SUPPORTED,
                 "groups of %lld channels, side by side in memory, are too many for a block: expected at "
                 "most %d vectors",
                 maps->channels / maps->groups, THREADS);
    fgn_device device;
    if (status == FGN_OK)
        status = fgn_current_device(&device);
    if (status != FGN_OK)
        return status;
    if (maps->channels_last && is_better_apart(&of, &device)) {
        unsigned long long needed = (unsigned long long)workspace_of_maps_apart(&of, &device);
        if (needed > 0 && workspace_bytes >= needed && is_aligned_16(workspace))
            return status_of(group_norm_nhwc_apart(&of, workspace, &device, (cudaStream_t)stream),
                             "feature maps");
    }
    return status_of(
        (maps->channels_last ? group_norm_nhwc : group_norm_nchw)(&of, &device, (cudaStream_t)stream),
        "feature maps");
}
