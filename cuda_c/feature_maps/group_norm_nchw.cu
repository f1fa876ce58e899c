/* GroupNorm of feature maps in one launch, where a channel's positions lie side by side (NCHW).
 *
 * Idea: a group of a sample is one piece of memory, of channels / groups times positions elements, and is
 * read once. The blocks of a cluster share it, because it is too large for one block's shared memory or there
 * are fewer groups than multiprocessors. Each block keeps its part in shared memory, in float32, and tells
 * the others its mean and its sum of squared differences from the mean. The residual or the convolution's
 * bias before the norm, and the activation behind it, are applied on the way.
 *
 * Bytes: v read once and y written once, 4 for each element in a 16-bit type. torch's own GroupNorm reads v
 * twice, and each operator around it reads and writes all of it again. Operations: about 8 for each element.
 *
 * Limit: too few warps in flight for the memory's latency: a kernel that is compiled for its call (jit/jit.h)
 * reaches two fifths of an H200's bandwidth with large maps, and the library's own half of that, which is
 * bound by the issue of instructions (lab/README.md). For small maps it is the launch and the cluster's
 * barriers. Without clusters (before compute capability 9.0) a block has a whole group. What does not fit in
 * shared memory it reads twice, the second time from L2 if it is there: one sample of 512 x 512 positions
 * takes 1.75 times as long as torch.compile's kernels, which divide it among more blocks. */
#include "feature_maps/feature_maps.h"
#include "sim/launchers.h"

/* Shared memory has, in this order: the block's moments for its cluster, the cluster's moments, those of the
 * block's warps, and the values that it keeps. */
#define OF_WARPS 2
#define HELD_AT ((OF_WARPS + WARPS) * (int)sizeof(float4))

/* The place of a block and of a thread. */
struct nchw_place {
    int64_t slab; /* a sample's group, of all of them */
    int rank;     /* of the block in its cluster */
    int size;     /* elements of a group */
    int first;    /* of them, the thread's first */
};

/* The channel and the position of a slot's first value, followed from one slot to the next. */
struct walk {
    int channel, position;
    int more_channels, more_positions; /* of a step */
};

static __forceinline__ __device__ struct walk walk_from(const struct feature_maps *maps,
                                                        const struct nchw_place *at, int per_slot) {
    int positions = (int)maps->positions, in_group = at->first / positions;
    int first_channel = (int)(at->slab % maps->groups) * (maps->channels / maps->groups);
    struct walk walk = {first_channel + in_group, at->first - in_group * positions, per_slot / positions,
                        per_slot % positions};
    return walk;
}

static __forceinline__ __device__ void step_on(struct walk *walk, int positions) {
    walk->channel += walk->more_channels;
    walk->position += walk->more_positions;
    if (walk->position >= positions) {
        walk->position -= positions;
        walk->channel++;
    }
}

/* Slots lie one after the other; in each the threads have a vector each, side by side. */
static __forceinline__ __device__ struct map_place
place_of_slot(const struct maps_args *args, const struct nchw_place *at, int slot, int width, fgn_type type) {
    int element = at->first + slot * args->threads * width;
    bool present = slot < args->slots && element < at->size;
    struct map_place place =
        place_at(&args->maps, at->slab * at->size + (present ? element : 0), present, width, type);
    place.sample = at->slab / args->maps.groups;
    return place;
}

static __forceinline__ __device__ void set_channels(struct map_place *place, const struct walk *walk,
                                                    const struct feature_maps *maps) {
    int left = (int)maps->positions - walk->position;
    place->channel = place->row.channels.count ? walk->channel : 0;
    place->border = place->row.channels.count && left < VALUES ? left : VALUES;
}

/* Loads the slots from `first` on, except those below `held`. */
static __forceinline__ __device__ void ask_for_slots(struct words *words, const struct maps_args *args,
                                                     const struct nchw_place *at, int first, int held,
                                                     int width, fgn_type type) {
#pragma unroll
    for (int i = 0; i < SLOTS_ON_THEIR_WAY; i++) {
        struct map_place place = place_of_slot(args, at, first + i, width, type);
        if (first + i >= held)
            load_words(&words[i], args->maps.v, place.row.row_start, &place.row.channels, type);
    }
}

/* The moments of VALUES values, or of the first one alone. It adds neighbours first, so that equal values
 * have exactly that mean. */
static __forceinline__ __device__ struct part part_of(const float *value, int width) {
    if (width == 1) {
        struct part one = {1.0f, value[0], 0.0f};
        return one;
    }
    float low = (value[0] + value[1]) + (value[2] + value[3]);
    float high = (value[4] + value[5]) + (value[6] + value[7]);
    struct part part = {VALUES, (low + high) * (1.0f / VALUES), 0.0f};
#pragma unroll
    for (int j = 0; j < VALUES; j++) {
        float difference = value[j] - part.mean;
        part.squares += difference * difference;
    }
    return part;
}

static __forceinline__ __device__ struct part look(const struct maps_args *args, const struct nchw_place *at,
                                                   int width, fgn_type type) {
    const struct feature_maps *maps = &args->maps;
    struct walk walk = walk_from(maps, at, args->threads * width);
    struct part part = {0.0f, 0.0f, 0.0f};
#pragma unroll 1
    for (int first = 0; first < args->slots; first += SLOTS_ON_THEIR_WAY) {
        struct words words[SLOTS_ON_THEIR_WAY];
        ask_for_slots(words, args, at, first, 0, width, type);
#pragma unroll
        for (int i = 0; i < SLOTS_ON_THEIR_WAY; i++) {
            struct map_place place = place_of_slot(args, at, first + i, width, type);
            if (place.row.channels.count == 0)
                break;
            set_channels(&place, &walk, maps);
            step_on(&walk, (int)maps->positions);
            float value[VALUES];
            first_values(value, &words[i], args, first + i, &place, type, false);
            part = both(part, part_of(value, width));
        }
    }
    return part;
}

/* Tells the cluster the block's moments, and returns the cluster's. */
static __forceinline__ __device__ struct part share(struct part part, int threads, int cluster) {
    float4 *told = (float4 *)dynamic_shared, *of_warps = told + OF_WARPS;
    int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES, warps = threads / LANES;
    part = all_of_warp(part);
    if (lane == 0)
        of_warps[warp] = told_of(part);
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int other = 1; other < warps; other++) {
            struct part of_other = {of_warps[other].x, of_warps[other].y, of_warps[other].z};
            part = both(part, of_other);
        }
        told[0] = told_of(part);
    }
    barrier_of(cluster);
    if (warp == 0) {
        part = all_of_cluster(told, cluster);
        if (lane == 0)
            told[1] = told_of(part);
    }
    __syncthreads();
    part.count = told[1].x;
    part.mean = told[1].y;
    part.squares = told[1].z;
    return part;
}

/* y = after((u - mean) / deviation * scale + shift). */
static __forceinline__ __device__ void write_y(const struct maps_args *args, const struct nchw_place *at,
                                               struct part all, int width, fgn_type type) {
    const struct feature_maps *maps = &args->maps;
    struct walk walk = walk_from(maps, at, args->threads * width);
    float inverse_deviation = inverse_deviation_of(all, maps->eps);
#pragma unroll 1
    for (int first = 0; first < args->slots; first += SLOTS_ON_THEIR_WAY) {
        struct words words[SLOTS_ON_THEIR_WAY];
        ask_for_slots(words, args, at, first, args->held_slots, width, type);
#pragma unroll
        for (int i = 0; i < SLOTS_ON_THEIR_WAY; i++) {
            struct map_place place = place_of_slot(args, at, first + i, width, type);
            if (place.row.channels.count == 0)
                break;
            set_channels(&place, &walk, maps);
            step_on(&walk, (int)maps->positions);
            float value[VALUES], scale[VALUES], shift[VALUES];
            load_of_channels(scale, maps->scale, 0, 1.0f, &place, false);
            load_of_channels(shift, maps->shift, 0, 0.0f, &place, false);
            values_again(value, &words[i], args, first + i, &place, type, false);
#pragma unroll
            for (int j = 0; j < VALUES; j++)
                value[j] = (value[j] - all.mean) * inverse_deviation * scale[j] + shift[j];
            store_y(value, maps, &place, type, false);
        }
    }
}

static __forceinline__ __device__ void norm_of_group(const struct maps_args *args, int width, fgn_type type) {
    const struct feature_maps *maps = &args->maps;
    struct nchw_place at;
    at.slab = blockIdx.x / (unsigned)args->cluster;
    at.rank = blockIdx.x % (unsigned)args->cluster;
    at.size = maps->channels / maps->groups * (int)maps->positions;
    at.first = (at.rank * args->slots * args->threads + (int)threadIdx.x) * width;
    struct part all = share(look(args, &at, width, type), args->threads, args->cluster);
    write_y(args, &at, all, width, type);
    if (args->cluster > 1)
        barrier_cluster(); /* a block may not end while others read its shared memory */
}

#ifdef JIT_COMPILED

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE) jit_kernel(struct maps_args given) {
    const struct maps_args args = known_maps(given);
    griddepcontrol_wait();
    norm_of_group(&args, known.width, (fgn_type)known.type);
}

#else

#include "feature_maps/launch.h"

#ifdef __CUDACC__

static __forceinline__ __device__ void norm_of_type(const struct maps_args *args, fgn_type type) {
    if (args->width == VALUES)
        norm_of_group(args, VALUES, type);
    else
        norm_of_group(args, 1, type);
}

#else

/* On the simulator all kernels share one copy of the code, which is compiled once. */
static CALLED __device__ void norm_of_type(const struct maps_args *args, fgn_type type) {
    norm_of_group(args, args->width, type);
}

#endif

__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE) nchw_float32_kernel(struct maps_args args) {
    norm_of_type(&args, FGN_FLOAT32);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE) nchw_float16_kernel(struct maps_args args) {
    norm_of_type(&args, FGN_FLOAT16);
}

__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE) nchw_bfloat16_kernel(struct maps_args args) {
    norm_of_type(&args, FGN_BFLOAT16);
}

CLUSTER_LAUNCHER(nchw_float32_kernel, struct maps_args)
CLUSTER_LAUNCHER(nchw_float16_kernel, struct maps_args)
CLUSTER_LAUNCHER(nchw_bfloat16_kernel, struct maps_args)

/* ---- The host ---- */

cudaError_t group_norm_nchw(const struct feature_maps *maps, const fgn_device *device, cudaStream_t stream) {
    static bool allowed[3][MOST_DEVICES];
    static const void *const kernels[] = {(const void *)nchw_float32_kernel,
                                          (const void *)nchw_float16_kernel,
                                          (const void *)nchw_bfloat16_kernel};
    static cudaError_t (*const launch[])(dim3, dim3, size_t, cudaStream_t, int, struct maps_args) = {
        launch_nchw_float32_kernel, launch_nchw_float16_kernel, launch_nchw_bfloat16_kernel};
    int64_t size = maps->channels / maps->groups * maps->positions, slabs = maps->batch * maps->groups;
    bool aligned = is_aligned_16(maps->v) && is_aligned_16(maps->y) && is_aligned_16(maps->between);
    struct maps_args args = {*maps, THREADS, 1, 1, 1, 1, 1, HELD_AT, 1, false, 1, false, NULL};
    for (int i = 0; i < maps->before.count; i++)
        aligned = aligned && is_aligned_16(maps->before.step[i].tensor);
    for (int i = 0; i < maps->after.count; i++)
        aligned = aligned && is_aligned_16(maps->after.step[i].tensor);
    if (aligned && size % VALUES == 0 && maps->positions >= VALUES) /* a vector has two channels at most */
        args.width = VALUES;
    args.threads = power_of_two_above(tiles(size, args.width), THREADS);
    args.threads = args.threads < LANES ? LANES : args.threads;
    divide_among_cluster(&args, slabs, size, args.threads * args.width, device);
    const dim3 grid = {(unsigned)(slabs * args.cluster), 1, 1}, block = {(unsigned)args.threads, 1, 1};
    cudaError_t error = cudaSuccess;
    if (launched_maps_jit("feature_maps/group_norm_nchw.cu", &args, grid.x, args.cluster, stream, &error))
        return error;
    error = allow_shared_memory(kernels[maps->type], device, allowed[maps->type]);
    if (error != cudaSuccess)
        return error;
    return launch[maps->type](grid, block, shared_bytes_of_maps(&args), stream, args.cluster, args);
}

#endif
