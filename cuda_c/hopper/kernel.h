/* The kernel of rung 10 (gemm_10_hopper.cu): the three roles of a block together. Each kind of factors has a
 * file that instantiates it for every shape of tile. */
#pragma once

#include "hopper/consumer.h"
#include "hopper/epilogue.h"
#include "hopper/producer.h"
#include "ptx/griddepcontrol.h"

/* The registers of a multiprocessor, 65536, are divided evenly at first, in eights: 168 for each thread of
 * three warpgroups, 96 of five. The consumers share the registers that the producer gives back. */
#define PRODUCER_REGISTERS 40
#define CONSUMER_REGISTERS 232
#define LARGE_BLOCK_PRODUCER_REGISTERS 32
#define LARGE_BLOCK_CONSUMER_REGISTERS 112
static_assert(PRODUCER_REGISTERS + 2 * CONSUMER_REGISTERS <= 3 * 168, "more registers than there are");
static_assert(LARGE_BLOCK_PRODUCER_REGISTERS + 4 * LARGE_BLOCK_CONSUMER_REGISTERS <= 5 * 96,
              "more registers than there are");

/* Where steps are added up apart this is a constant: while one team adds up, the other one multiplies, so
 * teams are always cooperative. */
static __device__ __forceinline__ int tile_rows_known(const struct hopper_args *args,
                                                      struct configuration config) {
    return add_apart(config.factors) ? COMMON_ROWS : args->tiling.tile_rows;
}

static __device__ __forceinline__ void consume(const struct hopper_args *args, unsigned char *memory,
                                               struct ring ring, int warpgroup, struct configuration config) {
    const struct tiling *tiling = &args->tiling;
    struct barriers *barriers = barriers_of(memory);
    const int strips = strips_of_warpgroup(config), cluster = cluster_of(tiling);
    struct member member = {warpgroup / config.members, warpgroup % config.members * strips, strips,
                            cluster_ctarank(), memory};
    struct block_place in_cluster = place_in_cluster(tiling);
    bool own_tiles = has_own_tiles(tile_rows_known(args, config));
    struct warpgroup_part own = {own_tiles ? 0 : member.team * WARPGROUP_ROWS, member.first_strip};
    int cluster_tiles = cluster_tiles_of(tiling), each = gridDim.x / cluster;
    int first_cluster_tile = blockIdx.x / cluster;
    uint32_t tile = 0;
    struct distance others = distance_of(&ring, args->steps);
    if (own_tiles) {
        /* the second team begins with the second tile; each team skips the other's tiles */
        if (member.team == 1)
            skip(&ring, others);
        first_cluster_tile += member.team * each;
        each *= TEAMS;
    }
#pragma unroll 1
    for (int cluster_tile = first_cluster_tile; cluster_tile < cluster_tiles; cluster_tile += each) {
        float sum[128];
        struct tile_place place = place_of_cluster_tile(args, cluster_tile, in_cluster);
        bar_sync(1 + warpgroup, WARPGROUP); /* the last tile's vectors have been read */
        for (int strip = member.first_strip; strip < member.first_strip + strips; strip++)
            load_vectors(args, loaded_vectors(args, memory, member.team * config.strips + strip, config),
                         place.column + strip * tiling->owned, config);
        if (own_tiles)
            await_turn(barriers, member.team, tile);
        int last_stage = 0;
        if (add_apart(config.factors))
            multiply_apart(place.steps, own, &ring, cluster, sum, config);
        else
            last_stage = multiply_steps(place.steps, own, &ring, cluster, sum, config);
        if (own_tiles) {
            end_turn(barriers, member.team);
            skip(&ring, others);
        }
        if (!add_apart(config.factors))
            finish_multiplying(&ring, last_stage, cluster, sum, config);
        cp_async_wait_all();
        bar_sync(1 + warpgroup,
                 WARPGROUP); /* the parts of the vectors that all threads copied have arrived */
        if (values_of_16_bytes(config) == 8 && args->vectors.are_16_bit)
            for (int strip = member.first_strip; strip < member.first_strip + strips; strip++)
                unpack_vectors(args,
                               loaded_vectors(args, memory, member.team * config.strips + strip, config),
                               place.column + strip * tiling->owned, warpgroup, config);
        place.row += own.row;
        finish_tile(args, place, sum, &member, tile, config);
        tile++;
    }
}

static __device__ __forceinline__ void run_block(const struct hopper_args *args,
                                                 struct configuration config) {
    /* a sum and not a rounded address: so the compiler knows that it points to shared memory */
    unsigned char *memory = dynamic_shared + -shared_address(dynamic_shared) % STAGE_ALIGNMENT;
    if (config.factors == SPLIT_FLOAT32_FACTORS && (*args->x_unheld || *args->w_unheld))
        return; /* the float32 rung, which is launched after this kernel, computes the chain */
    if (threadIdx.x == 0) {
        prefetch_tensormap(&args->maps.x);
        prefetch_tensormap(&args->maps.w);
    }
    if (args->sums)
        griddepcontrol_launch_dependents();
    prepare_barriers(args, barriers_of(memory), config);
    struct ring ring = start_of_ring(args, memory, tile_rows_known(args, config));
    int warpgroup = uniform(threadIdx.x / WARPGROUP);
    if (warpgroup == 0) {
        if (config.members == 1)
            setmaxnreg_dec(PRODUCER_REGISTERS);
        else
            setmaxnreg_dec(LARGE_BLOCK_PRODUCER_REGISTERS);
        if (threadIdx.x == 0)
            produce(args, ring, config);
    } else {
        if (config.members == 1)
            setmaxnreg_inc(CONSUMER_REGISTERS);
        else
            setmaxnreg_inc(LARGE_BLOCK_CONSUMER_REGISTERS);
        consume(args, memory, ring, warpgroup - 1, config);
    }
    /* A block may not end before all that other blocks send to its shared memory has arrived. The consumers
     * have waited for moments, and the producer for arrivals of empty stages. */
    barrier_cluster_relaxed();
}

/* On a GPU each kernel has its own copy with a constant configuration. The simulator gains nothing by copies,
 * and a C compiler would take two to four times as long. */
#ifdef __CUDACC__
#define COPIED_INTO_KERNELS __device__ __forceinline__
#else
#define COPIED_INTO_KERNELS CALLED
#endif

/* A kernel's first line. The library is also built for architectures without these instructions; refusal()
 * keeps the kernels from being launched there. */
static COPIED_INTO_KERNELS void run(const struct hopper_args *args, struct configuration config) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDACC__)
    run_block(args, config);
#endif
}
