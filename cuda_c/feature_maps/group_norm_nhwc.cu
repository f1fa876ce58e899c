/* GroupNorm of feature maps in one launch, where a position's channels lie side by side (NHWC, which torch
 * calls channels_last).
 *
 * Idea: as group_norm_nchw.cu, but a group is not contiguous (nhwc.h). A memory sector is 32 bytes, but 10
 * channels of 16 bits are only 20. So a block's bundle of groups has at least 64 bytes of each position.
 *
 * Bytes, operations and limit: as group_norm_nchw.cu. A few samples with many positions have few bundles, and
 * a cluster has at most eight blocks: group_norm_nhwc_apart.cu takes those. */
#include "feature_maps/nhwc.h"
#include "sim/launchers.h"

#define FEWEST_BYTES 64 /* of a position's channels in a bundle; half of it where blocks would be few */

static __forceinline__ __device__ void norm_of_bundle(const struct maps_args *args, int width,
                                                      fgn_type type) {
    float4 *told = (float4 *)dynamic_shared, *found = (float4 *)(dynamic_shared + FOUND_AT);
    struct nhwc_place at = place_of_block(args, width);
    struct scale_and_shift of = ask_for_scale_and_shift(args, &at, width, type);
    float mean[VALUES] = {0.0f}, squares[VALUES] = {0.0f};
    float count = look(mean, squares, args, &at, width, type);
    tell(mean, squares, count, args, &at, width);
#pragma unroll 1
    for (int group = threadIdx.x / LANES; group < args->bundle; group += WARPS) {
        struct part part = all_of_cluster(&told[group], args->cluster);
        if (threadIdx.x % LANES == 0)
            found[group] = found_of(part, args->maps.eps);
    }
    __syncthreads();
    normalise(found, of, args, &at, width, type);
    if (args->cluster > 1)
        barrier_cluster(); /* a block may not end while others read its shared memory */
}

#ifdef JIT_COMPILED

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE) jit_kernel(struct maps_args given) {
    const struct maps_args args = known_maps(given);
    griddepcontrol_wait();
    norm_of_bundle(&args, known.width, (fgn_type)known.type);
}

#else

#include "feature_maps/launch.h"

#ifdef __CUDACC__

static __forceinline__ __device__ void norm_of_type(const struct maps_args *args, fgn_type type) {
    if (args->width == VALUES)
        norm_of_bundle(args, VALUES, type);
    else
        norm_of_bundle(args, 1, type);
}

#else

/* On the simulator all kernels share one copy of the code, which is compiled once. */
static CALLED __device__ void norm_of_type(const struct maps_args *args, fgn_type type) {
    norm_of_bundle(args, args->width, type);
}

#endif

__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE) nhwc_float32_kernel(struct maps_args args) {
    norm_of_type(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE) nhwc_float16_kernel(struct maps_args args) {
    norm_of_type(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE) nhwc_bfloat16_kernel(struct maps_args args) {
    norm_of_type(&args, FGN_BFLOAT16);
}

CLUSTER_LAUNCHER(nhwc_float32_kernel, struct maps_args)
CLUSTER_LAUNCHER(nhwc_float16_kernel, struct maps_args)
CLUSTER_LAUNCHER(nhwc_bfloat16_kernel, struct maps_args)

/* ---- The host ---- */

/* Sets the groups of a bundle and the width of its vectors. It takes the smallest bundle of whole vectors
 * that is wide enough, else the widest of whole vectors, else one of single elements. 0 if none fits a
 * block. */
static struct maps_args bundle_of(const struct feature_maps *maps) {
    struct maps_args args = {*maps, THREADS, 1, 1, 1, 1, 1, HELD_AT, 1, false, 0, false, NULL};
    bool aligned = is_aligned_16(maps->v) && is_aligned_16(maps->y) && is_aligned_16(maps->between) &&
                   vectors_are_aligned(maps->scale, maps->shift, &maps->before, &maps->after) &&
                   maps->channels % VALUES == 0;
    int size = maps->channels / maps->groups;
    for (int bundle = 1; bundle <= maps->groups && bundle <= MOST_OF_BUNDLE; bundle++) {
        int channels = bundle * size, width = aligned && channels % VALUES == 0 ? VALUES : 1;
        if (maps->groups % bundle != 0 || channels / width > THREADS || width < args.width)
            continue;
        args.bundle = bundle;
        args.width = width;
        int64_t bytes = channels * element_bytes(maps->type);
        int64_t blocks = maps->batch * (maps->groups / bundle) * MOST_CLUSTER_OF_MAPS;
        if (width == VALUES && bytes >= (blocks < 2 * MULTIPROCESSORS ? FEWEST_BYTES / 2 : FEWEST_BYTES))
            break;
    }
    return args;
}

bool has_bundles(const struct feature_maps *maps) {
    return bundle_of(maps).bundle > 0;
}

static struct maps_args division_of_maps(const struct feature_maps *maps, const fgn_device *device) {
    struct maps_args args = bundle_of(maps);
    int across = maps->channels / maps->groups * args.bundle / args.width;
    int64_t bundles = maps->batch * (maps->groups / args.bundle);
    divide_among_cluster(&args, bundles, maps->positions, THREADS / across, device);
    return args;
}

/* One launch would leave multiprocessors idle, or would read v twice as two launches do. */
bool is_better_apart(const struct feature_maps *maps, const fgn_device *device) {
    struct maps_args args = division_of_maps(maps, device);
    int64_t blocks = maps->batch * (maps->groups / args.bundle) * args.cluster;
    return args.width == VALUES && (blocks < 2 * MULTIPROCESSORS || args.held_slots < args.slots);
}

cudaError_t group_norm_nhwc(const struct feature_maps *maps, const fgn_device *device, cudaStream_t stream) {
    static bool allowed[3][MOST_DEVICES];
    static const void *const kernels[] = {(const void *)nhwc_float32_kernel,
                                          (const void *)nhwc_float16_kernel,
                                          (const void *)nhwc_bfloat16_kernel};
    static cudaError_t (*const launch[])(dim3, dim3, size_t, cudaStream_t, int, struct maps_args) = {
        launch_nhwc_float32_kernel, launch_nhwc_float16_kernel, launch_nhwc_bfloat16_kernel};
    struct maps_args args = division_of_maps(maps, device);
    const dim3 grid = {(unsigned)(maps->batch * (maps->groups / args.bundle) * args.cluster), 1, 1},
               block = {THREADS, 1, 1};
    cudaError_t error = cudaSuccess;
    if (launched_maps_jit("feature_maps/group_norm_nhwc.cu", &args, grid.x, args.cluster, stream, &error))
        return error;
    error = allow_shared_memory(kernels[maps->type], device, allowed[maps->type]);
    if (error != cudaSuccess)
        return error;
    return launch[maps->type](grid, block, shared_bytes_of_maps(&args), stream, args.cluster, args);
}

#endif
