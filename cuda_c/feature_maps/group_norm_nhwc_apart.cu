/* GroupNorm of a few large feature maps in two launches, where a position's channels lie side by side (NHWC).
 *
 * Idea: a map of 512 x 512 positions has too few bundles of groups to fill a GPU (group_norm_nhwc.cu), and no
 * cluster holds a group of it. So each block takes all channels of some positions, and reads whole rows of
 * memory. The first launch finds the moments, the second one normalises. Between them, in the workspace, are
 * the moments of each cluster's positions and each group: a cluster combines those of its blocks first, so
 * that a block of the second launch reads an eighth as many.
 *
 * Bytes: v read twice, the second time from L2 if it is there, and y written once; 6 for each element in a
 * 16-bit type. Operations: about 8 for each element, and those before the norm twice.
 *
 * Limit: the memory's bandwidth. A map that a single launch can keep in shared memory is read once there. */
#include "feature_maps/nhwc.h"
#include "sim/launchers.h"

/* Writes the moments of each group in the cluster's positions, a part of the sample's. */
static __forceinline__ __device__ void find_moments(const struct maps_args *args, fgn_type type) {
    float4 *told = (float4 *)dynamic_shared;
    struct nhwc_place at = place_of_block(args, VALUES);
    float mean[VALUES] = {0.0f}, squares[VALUES] = {0.0f};
    float count = look(mean, squares, args, &at, VALUES, type);
    griddepcontrol_launch_dependents();
    tell(mean, squares, count, args, &at, VALUES);
    int rank = at.rank % args->cluster, part_of_sample = at.rank / args->cluster;
    float4 *parts =
        args->parts + (at.sample * (args->sharers / args->cluster) + part_of_sample) * args->maps.groups;
    int stride = WARPS * args->cluster;
#pragma unroll 1
    for (int group = threadIdx.x / LANES * args->cluster + rank; group < args->bundle; group += stride) {
        struct part part = all_of_cluster(&told[group], args->cluster);
        if (threadIdx.x % LANES == 0)
            parts[group] = told_of(part);
    }
    if (args->cluster > 1)
        barrier_cluster(); /* a block may not end while others read its shared memory */
}

/* Combines the parts of the block's sample, and writes y. */
static __forceinline__ __device__ void write_normalised(const struct maps_args *args, fgn_type type) {
    float4 *found = (float4 *)(dynamic_shared + FOUND_AT);
    struct nhwc_place at = place_of_block(args, VALUES);
    struct scale_and_shift of = ask_for_scale_and_shift(args, &at, VALUES, type);
    int count = args->sharers / args->cluster, groups = args->maps.groups;
    const float4 *parts = args->parts + at.sample * count * groups;
#pragma unroll 1
    for (int group = threadIdx.x / LANES; group < groups; group += WARPS) {
        struct part part = {0.0f, 0.0f, 0.0f};
#pragma unroll 4
        for (int i = threadIdx.x % LANES; i < count; i += LANES) {
            float4 of_part = parts[i * groups + group];
            struct part other = {of_part.x, of_part.y, of_part.z};
            part = both(part, other);
        }
        part = all_of_warp(part);
        if (threadIdx.x % LANES == 0)
            found[group] = found_of(part, args->maps.eps);
    }
    __syncthreads();
    normalise(found, of, args, &at, VALUES, type);
}

#ifdef JIT_COMPILED

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE) jit_kernel(struct maps_args given) {
    const struct maps_args args = known_maps(given);
    griddepcontrol_wait();
    if (known.is_second)
        write_normalised(&args, (fgn_type)known.type);
    else
        find_moments(&args, (fgn_type)known.type);
}

#else

#include "feature_maps/launch.h"

__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    nhwc_moments_float32_kernel(struct maps_args args) {
    find_moments(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    nhwc_moments_float16_kernel(struct maps_args args) {
    find_moments(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    nhwc_moments_bfloat16_kernel(struct maps_args args) {
    find_moments(&args, FGN_BFLOAT16);
}

CLUSTER_LAUNCHER(nhwc_moments_float32_kernel, struct maps_args)
CLUSTER_LAUNCHER(nhwc_moments_float16_kernel, struct maps_args)
CLUSTER_LAUNCHER(nhwc_moments_bfloat16_kernel, struct maps_args)

__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    nhwc_normalise_float32_kernel(struct maps_args args) {
    write_normalised(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    nhwc_normalise_float16_kernel(struct maps_args args) {
    write_normalised(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    nhwc_normalise_bfloat16_kernel(struct maps_args args) {
    write_normalised(&args, FGN_BFLOAT16);
}

LAUNCHER(nhwc_normalise_float32_kernel, struct maps_args)
LAUNCHER(nhwc_normalise_float16_kernel, struct maps_args)
LAUNCHER(nhwc_normalise_bfloat16_kernel, struct maps_args)

/* ---- The host ---- */

/* From so many elements on two launches are faster than one that leaves multiprocessors idle. */
#define FEWEST_APART (1 << 20)

/* How the two launches divide maps, whatever their memory's alignment; 0 sharers where they cannot. As many
 * clusters share a sample as the multiprocessors hold at once. */
static struct maps_args division_apart(const struct feature_maps *maps, const fgn_device *device) {
    struct maps_args args = {*maps,   THREADS, VALUES, MOST_CLUSTER_OF_MAPS, 0,     1,   0,
                             HELD_AT, 1,       false,  maps->groups,         false, NULL};
    bool has_clusters = is_simulator(device) || device->major >= 9;
    int64_t across = maps->channels / VALUES;
    if (!has_clusters || maps->channels % VALUES || across > THREADS || maps->groups > MOST_OF_BUNDLE ||
        maps->batch * maps->channels * maps->positions < FEWEST_APART)
        return args;
    int64_t rows = THREADS / across, clusters = BLOCKS_AT_ONCE * MULTIPROCESSORS / args.cluster / maps->batch;
    int64_t most = maps->positions / (rows * args.cluster);
    clusters = clusters < most ? clusters : most;
    if (clusters < 1)
        return args;
    args.sharers = (int)clusters * args.cluster;
    args.slots = (int)tiles(maps->positions, rows * args.sharers);
    return args;
}

int64_t workspace_of_maps_apart(const struct feature_maps *maps, const fgn_device *device) {
    struct maps_args args = division_apart(maps, device);
    return maps->batch * (args.sharers / args.cluster) * maps->groups * (int64_t)sizeof(float4);
}

cudaError_t group_norm_nhwc_apart(const struct feature_maps *maps, void *workspace, const fgn_device *device,
                                  cudaStream_t stream) {
    static cudaError_t (*const find[])(dim3, dim3, size_t, cudaStream_t, int, struct maps_args) = {
        launch_nhwc_moments_float32_kernel, launch_nhwc_moments_float16_kernel,
        launch_nhwc_moments_bfloat16_kernel};
    static cudaError_t (*const write[])(dim3, dim3, size_t, cudaStream_t, struct maps_args) = {
        launch_nhwc_normalise_float32_kernel, launch_nhwc_normalise_float16_kernel,
        launch_nhwc_normalise_bfloat16_kernel};
    static const char file[] = "feature_maps/group_norm_nhwc_apart.cu";
    struct maps_args args = division_apart(maps, device);
    args.parts = (float4 *)workspace;
    const dim3 grid = {(unsigned)(maps->batch * args.sharers), 1, 1}, block = {THREADS, 1, 1};
    cudaError_t error = cudaSuccess;
    if (!launched_maps_jit(file, &args, grid.x, args.cluster, stream, &error))
        error = find[maps->type](grid, block, shared_bytes_of_maps(&args), stream, args.cluster, args);
    args.is_second = true;
    args.maps.between = NULL; /* it is written */
    if (error == cudaSuccess && !launched_maps_jit(file, &args, grid.x, 1, stream, &error))
        error = write[maps->type](grid, block, shared_bytes_of_maps(&args), stream, args);
    return error;
}

#endif
