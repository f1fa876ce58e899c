/* Who multiplies: the warpgroups of two teams, by wgmma. Each has 64 rows and one strip (both for split
 * factors). The sums stay in registers; hopper/epilogue.h goes on from there.
 *
 * Cooperative teams share a tile of 128 rows. Ping-pong teams have tiles of 64 rows of their own: while one
 * team ends its tile, the other one multiplies. */
#pragma once

#include "hopper/ring.h"

/* Tells the producers of all blocks of the cluster that this warpgroup has read the stage. */
static __device__ __forceinline__ void release(const struct ring *ring, int stage, int cluster) {
    if (threadIdx.x % WARPGROUP < (unsigned)cluster)
        mbarrier_arrive_cluster(empty_barrier(ring, stage), threadIdx.x % WARPGROUP);
}

/* Multiplies 32 bytes along k of one strip. */
static __device__ __forceinline__ void multiply_32_bytes(float *sum, uint64_t x, uint64_t w, int accumulate,
                                                         struct configuration config) {
    if (config.factors == BFLOAT16_FACTORS) {
        if (config.width == 128)
            wgmma_m64n128k16_bf16(sum, x, w, accumulate);
        else if (config.width == 96)
            wgmma_m64n96k16_bf16(sum, x, w, accumulate);
        else
            wgmma_m64n64k16_bf16(sum, x, w, accumulate);
    } else if (config.factors == TF32_FACTORS) {
        if (config.width == 128)
            wgmma_m64n128k8_tf32(sum, x, w, accumulate);
        else if (config.width == 96)
            wgmma_m64n96k8_tf32(sum, x, w, accumulate);
        else
            wgmma_m64n64k8_tf32(sum, x, w, accumulate);
    } else if (config.factors == FP8_FACTORS) {
        if (config.width == 128)
            wgmma_m64n128k32_e4m3(sum, x, w, accumulate);
        else if (config.width == 96)
            wgmma_m64n96k32_e4m3(sum, x, w, accumulate);
        else
            wgmma_m64n64k32_e4m3(sum, x, w, accumulate);
    } else {
        if (config.width == 128)
            wgmma_m64n128k16_f16(sum, x, w, accumulate);
        else if (config.width == 96)
            wgmma_m64n96k16_f16(sum, x, w, accumulate);
        else
            wgmma_m64n64k16_f16(sum, x, w, accumulate);
    }
}

/* What a warpgroup multiplies: its first row of a stage's x, and its first strip of w. */
struct warpgroup_part {
    int row;
    int strip;
};

static __device__ __forceinline__ uint64_t x_of_part(const struct ring *ring, int stage,
                                                     struct warpgroup_part own) {
    return wgmma_descriptor(x_of_stage(ring, stage) + own.row * STEP_BYTES);
}

static __device__ __forceinline__ uint64_t w_of_part(const struct ring *ring, int stage, int strip,
                                                     struct configuration config) {
    return wgmma_descriptor(w_of_stage(ring, stage) + strip * config.width * STEP_BYTES);
}

/* Ping-pong teams multiply in turn: an mbarrier tells its phases apart only by their parity, so a team
 * must not wait for a stage before the other has seen all of its own. `tile` counts the team's tiles. */
static __device__ __forceinline__ void await_turn(struct barriers *barriers, int team, uint32_t tile) {
    mbarrier_wait(shared_address(&barriers->may_multiply[team]), (tile ^ (team == 0)) & 1);
}

static __device__ __forceinline__ void end_turn(struct barriers *barriers, int team) {
    if (threadIdx.x % WARPGROUP == 0)
        mbarrier_arrive(shared_address(&barriers->may_multiply[1 - team]));
}

/* sum = x W^T over `steps` steps. The products of a step are in flight while the next ones are issued. A
 * stage is free when the next step has begun. finish_multiplying() waits for the last. */
static __device__ __forceinline__ int multiply_steps(int steps, struct warpgroup_part own, struct ring *ring,
                                                     int cluster, float *sum, struct configuration config) {
    int last = ring->stage;
#pragma unroll
    for (int i = 0; i < strip_sums(config); i++)
        sum[i] = 0.0f;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        mbarrier_wait(full_barrier(ring, ring->stage), ring->phase);
        uint64_t x = x_of_part(ring, ring->stage, own);
        uint64_t w = w_of_part(ring, ring->stage, own.strip, config);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEP_BYTES / 32; i++)
            multiply_32_bytes(sum, descriptor_plus(x, i * 32), descriptor_plus(w, i * 32), 1, config);
        wgmma_commit_group();
        wgmma_wait_group(1);
        if (step > 0)
            release(ring, last, cluster);
        last = ring->stage;
        next(ring);
    }
    return last;
}

static __device__ __forceinline__ void finish_multiplying(const struct ring *ring, int last_stage,
                                                          int cluster, float *sum,
                                                          struct configuration config) {
    wgmma_wait_group(0);
    hold_registers(sum, strip_sums(config));
    release(ring, last_stage, cluster);
}

/* part (+)= x W^T of a step, 128 bytes along k, and one strip. */
static __device__ __forceinline__ void multiply_part(const struct ring *ring, int stage,
                                                     struct warpgroup_part own, int strip, int accumulate,
                                                     float *part, struct configuration config) {
    uint64_t x = x_of_part(ring, stage, own), w = w_of_part(ring, stage, strip, config);
#pragma unroll
    for (int i = 0; i < STEP_BYTES / 32; i++)
        multiply_32_bytes(part, descriptor_plus(x, i * 32), descriptor_plus(w, i * 32), accumulate || i > 0,
                          config);
}

/* The same for two halves of each factor, which are in two stages: low times high, and then high times high.
 */
static __device__ __forceinline__ void multiply_split_part(const struct ring *ring, int high, int low,
                                                           struct warpgroup_part own, int strip, float *part,
                                                           struct configuration config) {
    uint64_t x_high = x_of_part(ring, high, own), w_high = w_of_part(ring, high, strip, config);
    uint64_t x_low = x_of_part(ring, low, own), w_low = w_of_part(ring, low, strip, config);
#pragma unroll
    for (int i = 0; i < STEP_BYTES / 32; i++) {
        int along = i * 32;
        multiply_32_bytes(part, descriptor_plus(x_high, along), descriptor_plus(w_low, along), i > 0, config);
        multiply_32_bytes(part, descriptor_plus(x_low, along), descriptor_plus(w_high, along), 1, config);
    }
    multiply_part(ring, high, own, strip, 1, part, config);
}

static __device__ __forceinline__ int take_stage(struct ring *ring) {
    int stage = ring->stage;
    mbarrier_wait(full_barrier(ring, stage), ring->phase);
    next(ring);
    return stage;
}

/* The same where steps are added up apart. Tensor cores drop the last bits of a sum that they add to: of
 * float32 what is below its own precision, of 8-bit factors all but about 14 bits. So a step's sums (64
 * values of k in three products, or 128 values of 8 bits) begin at zero and are added to the others by
 * ordinary additions, which round. While one warpgroup adds, the other keeps the tensor cores busy. */
static __device__ __forceinline__ void multiply_apart(int steps, struct warpgroup_part own, struct ring *ring,
                                                      int cluster, float *sum, struct configuration config) {
    const int sums = strip_sums(config);
    const bool split = config.factors == SPLIT_FLOAT32_FACTORS;
#pragma unroll
    for (int i = 0; i < strips_of_warpgroup(config) * sums; i++)
        sum[i] = 0.0f;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        int stage = take_stage(ring), low_stage = split ? take_stage(ring) : stage;
#pragma unroll
        for (int strip = 0; strip < strips_of_warpgroup(config); strip++) {
            float part[WIDEST_STRIP / 2];
            wgmma_fence();
            if (split)
                multiply_split_part(ring, stage, low_stage, own, own.strip + strip, part, config);
            else
                multiply_part(ring, stage, own, own.strip + strip, 0, part, config);
            wgmma_commit_group();
            wgmma_wait_group(0);
#pragma unroll
            for (int i = 0; i < sums; i++)
                sum[strip * sums + i] += part[i];
        }
        release(ring, stage, cluster);
        if (split)
            release(ring, low_stage, cluster);
    }
}
