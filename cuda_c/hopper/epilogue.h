/* Who ends the tile: the warpgroups that hold its sums. From registers to y they apply, in this order: the
 * unscaling of scaled factors, bias, operators, GroupNorm, its scale and shift, operators, stores. A strip's
 * parameters are copied to shared memory while the tile is multiplied. */
#pragma once

#include "hopper/arguments.h"
#include "hopper/norm_groups.h"
#include "hopper/norm_spanning.h"
#include "hopper/norm_powers_of_two.h"
#include "hopper/ring.h"
#include "hopper/stores.h"
#include "shared/element.h"
#include "shared/apply_operator.h"

/* ---- The vectors of parameters ---- */

static __device__ __forceinline__ float *loaded_vectors(const struct hopper_args *args, unsigned char *memory,
                                                        int strip, struct configuration config) {
    return (float *)(memory + args->tiling.vectors_at) + strip * args->vectors.count * config.width;
}

/* A vector's 16-bit values arrive as words of two, at the end of the strip's part, which the floats made of
 * them fill later. There is one word more than half the columns: the first column may be the second value of
 * a word. */
static __device__ __forceinline__ uint32_t *words_of_vector(float *loaded, struct configuration config) {
    return (uint32_t *)loaded + config.width / 2 - 1;
}

static __device__ __forceinline__ int place_in_word(const void *from, int64_t column) {
    return (int)(((uintptr_t)from / sizeof(uint16_t) + (uintptr_t)column) % 2);
}

static __device__ __forceinline__ void load_words(float *loaded, const void *from, int64_t first_column,
                                                  int64_t columns, struct configuration config) {
    int i = threadIdx.x % WARPGROUP;
    int64_t column = first_column - place_in_word(from, first_column) + 2 * i, left = columns - column;
    uintptr_t address = (uintptr_t)from + sizeof(uint16_t) * (left > 0 ? column : 0);
    if (i <= config.width / 2)
        cp_async_4_partly(words_of_vector(loaded, config) + i, (const void *)(address / 4 * 4),
                          left >= 2  ? 4
                          : left > 0 ? 2
                                     : 0);
}

/* Fills the parts of vectors that are one element for all columns, which are not copied. */
static __device__ __forceinline__ void fill_ones(const struct hopper_args *args, float *loaded,
                                                 struct configuration config) {
    int i = threadIdx.x % WARPGROUP;
    fgn_type type = !args->vectors.are_16_bit           ? FGN_FLOAT32
                    : config.factors == FLOAT16_FACTORS ? FGN_FLOAT16
                                                        : FGN_BFLOAT16;
#pragma unroll 1
    for (int v = 0; args->vectors.ones >> v; v++)
        if ((args->vectors.ones >> v & 1) && i < config.width)
            loaded[v * config.width + i] = element_at(args->vectors.from[v], 0, type);
}

/* Starts to copy the part of every vector that belongs to a strip. */
static __device__ __forceinline__ void load_vectors(const struct hopper_args *args, float *loaded,
                                                    int64_t first_column, struct configuration config) {
    int i = threadIdx.x % WARPGROUP;
    bool present = first_column + i < args->out_features;
    if (!args->vectors.are_16_bit)
        fill_ones(args, loaded, config);
    for (int v = 0; v < args->vectors.count; v++, loaded += config.width) {
        const void *from = args->vectors.from[v];
        if (args->vectors.ones >> v & 1)
            continue;
        if (from && args->vectors.are_16_bit)
            load_words(loaded, from, first_column, args->out_features, config);
        else if (from && i < config.width)
            cp_async_4_or_zero(&loaded[i], (const float *)from + (present ? first_column + i : 0), present);
        else if (i < config.width)
            loaded[i] = args->vectors.constant[v];
    }
}

/* How many vectors are unpacked together: all are read before one is written. */
#define UNPACKED_TOGETHER 8

/* Makes floats of 16-bit values, once the copies have arrived. All threads of the warpgroup call it.
 */
static __device__ __forceinline__ void unpack_vectors(const struct hopper_args *args, float *loaded,
                                                      int64_t first_column, int warpgroup,
                                                      struct configuration config) {
    int i = threadIdx.x % WARPGROUP, count = args->vectors.count;
    const void *const *from = args->vectors.from;
#pragma unroll 1
    for (int first = 0; first < count; first += UNPACKED_TOGETHER) {
        float value[UNPACKED_TOGETHER];
#pragma unroll
        for (int j = 0; j < UNPACKED_TOGETHER; j++) {
            if (first + j < count && from[first + j] && i < config.width) {
                uint32_t *words = words_of_vector(loaded + (first + j) * config.width, config);
                uint16_t bits = ((uint16_t *)words)[place_in_word(from[first + j], first_column) + i];
                value[j] =
                    config.factors == FLOAT16_FACTORS ? float_of_float16(bits) : float_of_bfloat16(bits);
            }
        }
        bar_sync(1 + warpgroup, WARPGROUP);
#pragma unroll
        for (int j = 0; j < UNPACKED_TOGETHER; j++)
            if (first + j < count && from[first + j] && i < config.width)
                loaded[(first + j) * config.width + i] = value[j];
    }
    fill_ones(args, loaded, config);
    bar_sync(1 + warpgroup, WARPGROUP);
}

static __device__ __forceinline__ const float *operand(const struct sums_place *place, int vector,
                                                       struct configuration config) {
    const void *at = dynamic_shared + place->vectors + vector * config.width * (int)sizeof(float);
    return (const float *)__builtin_assume_aligned(at, sizeof(float2));
}

/* A vector's values for the lane's columns in a block of quad_columns(). */
struct lane_operand {
    float v[8];
};

static __device__ __forceinline__ struct lane_operand lane_operand(const struct sums_place *place, int vector,
                                                                   int block, struct configuration config) {
    struct lane_operand lane = {{0.0f}};
    const float *of_block = operand(place, vector, config) + block * quad_columns(config);
#pragma unroll
    for (int i = 0; i < config.lane_columns; i += 2) {
        float2 pair = *(const float2 *)(of_block + i);
        lane.v[i] = pair.x;
        lane.v[i + 1] = pair.y;
    }
    return lane;
}

/* ---- The operators ---- */

static __device__ __forceinline__ void undo_scaling(const struct hopper_args *args,
                                                    const struct sums_place *place, float *sum,
                                                    struct configuration config) {
#pragma unroll
    for (int block = 0; block < config.width / quad_columns(config); block++) {
        struct lane_operand of_column = lane_operand(place, args->vectors.unscale, block, config);
#pragma unroll
        for (int row = 0; row < 2; row++) {
            int64_t at = place->row + 8 * row;
            float a = args->x_unscale[at < args->batch ? at : args->batch - 1];
#pragma unroll
            for (int i = 0; i < config.lane_columns; i++) {
                float *v = &sum[sum_at(block, row, i, config)];
                *v = unscaled(*v, a, of_column.v[i]);
            }
        }
    }
}

static __device__ __forceinline__ void add_to_columns(int vector, const struct sums_place *place, float *sum,
                                                      struct configuration config) {
#pragma unroll
    for (int block = 0; block < config.width / quad_columns(config); block++) {
        struct lane_operand of_column = lane_operand(place, vector, block, config);
#pragma unroll
        for (int i = 0; i < config.lane_columns; i++) {
            sum[sum_at(block, 0, i, config)] += of_column.v[i];
            sum[sum_at(block, 1, i, config)] += of_column.v[i];
        }
    }
}

static __device__ __forceinline__ void scale_and_shift_sums(const struct hopper_args *args,
                                                            const struct sums_place *place, float *sum,
                                                            struct configuration config) {
#pragma unroll
    for (int block = 0; block < config.width / quad_columns(config); block++) {
        struct lane_operand scale = lane_operand(place, args->vectors.scale, block, config);
        struct lane_operand shift = lane_operand(place, args->vectors.shift, block, config);
#pragma unroll
        for (int i = 0; i < 2 * config.lane_columns; i++) {
            int column = i % config.lane_columns;
            float *v = &sum[sum_at(block, i / config.lane_columns, column, config)];
            *v = *v * scale.v[column] + shift.v[column];
        }
    }
}

/* The column of sum[i], from the lane's first one on (the inverse of sum_at()), with 8, 4 and 2 neighbours.
 */
static __device__ __forceinline__ int column_of_sum_8(int i, int unused) {
    (void)unused;
    return i / 16 * 32 + i % 16 / 4 * 2 + i % 2;
}

static __device__ __forceinline__ int column_of_sum_4(int i, int unused) {
    (void)unused;
    return i / 8 * 16 + i % 8 / 4 * 2 + i % 2;
}

static __device__ __forceinline__ int column_of_sum_2(int i, int unused) {
    (void)unused;
    return i / 4 * 8 + i % 2;
}

static __device__ __forceinline__ void apply_to_sums(const struct operators *list, const int *vector,
                                                     const struct sums_place *place, float *sum,
                                                     struct configuration config) {
    place_function column_of_sum = config.lane_columns == 8   ? column_of_sum_8
                                   : config.lane_columns == 4 ? column_of_sum_4
                                                              : column_of_sum_2;
#pragma unroll 1
    for (int i = 0; i < list->count; i++)
        if (is_kind(&list->step[i], FGN_ADD_CHANNEL))
            add_to_columns(vector[i], place, sum, config);
        else
            apply_operator_with(&list->step[i], sum, strip_sums(config), operand(place, vector[i], config),
                                column_of_sum, 0);
}

/* ---- The end of a tile ---- */

/* The place of a warpgroup in its block. */
struct member {
    int team;
    int first_strip; /* of the tile */
    int strips;
    uint32_t rank; /* of the block in the cluster */
    unsigned char *memory;
};

/* A strip of the team's tile: `place` is what all configurations need, and `tile` counts the team's tiles.
 * The rest is the strip's part of groups that span several strips. */
static __device__ __forceinline__ struct sums_place place_of_strip(const struct hopper_args *args,
                                                                   const struct member *member,
                                                                   struct tile_place tile, int strip,
                                                                   struct configuration config) {
    const struct tiling *tiling = &args->tiling;
    int number = member->first_strip + strip, lane = threadIdx.x % 32;
    struct sums_place place;
    place.row = tile.row + (int)threadIdx.x % WARPGROUP / 32 * 16 + lane / QUAD;
    place.column = tile.column + number * tiling->owned;
    int64_t left = args->out_features - place.column;
    place.owned = tiling->owned;
    if (tiling->group_strips > 1) {
        int of_group = (tile.column + number * tiling->owned) % args->group_size;
        int of_strip = args->group_size - of_group;
        place.owned = of_strip < place.owned ? of_strip : place.owned;
    }
    place.owned = left < place.owned ? (int)left : place.owned;
    int loaded = member->team * config.strips + number;
    const float *vectors = loaded_vectors(args, member->memory, loaded, config);
    place.vectors = (int)((unsigned char *)(vectors + lane % QUAD * config.lane_columns) - dynamic_shared);
    return place;
}

static __device__ __forceinline__ float2 *moments_of(const struct hopper_args *args,
                                                     const struct member *member) {
    int row = threadIdx.x % WARPGROUP / 32 * 16 + threadIdx.x % 32 / QUAD;
    return (float2 *)(member->memory + args->tiling.moments_at) + row;
}

static __device__ __forceinline__ void normalise_whole_groups(const struct hopper_args *args,
                                                              const struct member *member,
                                                              const struct sums_place *place, int strip,
                                                              float *sum, struct configuration config) {
    if (is_sorted(config)) {
        normalise_powers_of_two(sum, args->group_size, args->eps, config);
        return;
    }
    int most = args->tiling.owned / args->group_size;
    int number = member->team * config.strips + member->first_strip + strip;
    struct groups groups = {args->group_size, place->owned / args->group_size,
                            __fdividef(1.0f, args->group_size), args->eps,
                            moments_of(args, member) + number * most * WARPGROUP_ROWS};
    if (groups.count > 0)
        normalise_any_groups(sum, &groups, config);
}

static __device__ __forceinline__ struct spanning_group
spanning_group_of(const struct hopper_args *args, const struct member *member, const struct sums_place *place,
                  int strip, uint32_t tile, struct configuration config) {
    const struct tiling *tiling = &args->tiling;
    bool in_cluster = tiling->group_strips > config.strips;
    struct barriers *barriers = barriers_of(member->memory);
    struct spanning_group group;
    int beside = member->rank % tiling->column_blocks;
    group.number = (in_cluster ? beside * config.strips : 0) + member->first_strip + strip;
    group.count = tiling->group_strips;
    group.columns = place->owned;
    group.most_columns = tiling->owned;
    group.size = args->group_size;
    group.first_block = in_cluster ? member->rank - beside : member->rank;
    group.blocks = in_cluster ? tiling->column_blocks : 1;
    group.moments =
        moments_of(args, member) + (tile % 2 * TEAMS + member->team) * tiling->group_strips * WARPGROUP_ROWS;
    group.exchanged = shared_address(&barriers->exchanged[tile % 2][member->team]);
    return group;
}

/* Announces the moments of a tile's strips. Another block can be at most one tile ahead, because it needs the
 * moments that this one sends. So two sets are enough. */
static __device__ __forceinline__ void expect_moments(const struct hopper_args *args,
                                                      const struct member *member, uint32_t tile) {
    struct barriers *barriers = barriers_of(member->memory);
    if (member->first_strip == 0 && threadIdx.x % WARPGROUP == 0)
        mbarrier_arrive_expect_tx(shared_address(&barriers->exchanged[tile % 2][member->team]),
                                  args->tiling.group_strips * WARPGROUP_ROWS * (int)sizeof(float2));
}

static __device__ __forceinline__ void swap_strips(float *sum, struct configuration config) {
    int count = strip_sums(config);
#pragma unroll
    for (int i = 0; i < count; i++) {
        float v = sum[i];
        sum[i] = sum[count + i];
        sum[count + i] = v;
    }
}

/* Stores the sums as they are: a second launch ends the chain. */
static __device__ __forceinline__ void leave_sums(const struct hopper_args *args, struct tile_place tile,
                                                  float *sum, const struct member *member,
                                                  struct configuration config) {
    const int strips = strips_of_warpgroup(config);
#pragma unroll 1
    for (int strip = 0; strip < strips; strip++) {
        struct sums_place place = place_of_strip(args, member, tile, strip, config);
        if (are_scaled(config.factors))
            undo_scaling(args, &place, sum, config);
        store_unfinished(args, &place, tile.split, sum, config);
        if (strips > 1)
            swap_strips(sum, config);
    }
}

/* From the sums of a warpgroup's strips to their part of y, in two halves: up to the norm, and from there on.
 * The halves are turns of one loop, so that the operators' code exists once. Two strips of a warpgroup take
 * turns in the same registers. For groups that span strips, the first half sends the moments of all strips,
 * before any thread waits for them. */
static __device__ __forceinline__ void finish_tile(const struct hopper_args *args, struct tile_place tile,
                                                   float *sum, const struct member *member,
                                                   uint32_t tile_number, struct configuration config) {
    if (args->sums) {
        leave_sums(args, tile, sum, member, config);
        return;
    }
    bool has_norm = args->group_size > 0, spans_strips = has_norm && args->tiling.group_strips > 1;
    const int strips = strips_of_warpgroup(config);
    if (spans_strips)
        expect_moments(args, member, tile_number);
    struct sums_place place = place_of_strip(args, member, tile, 0, config);
#pragma unroll 1
    for (int turn = 0; turn < 2 * strips; turn++) {
        bool is_first_half = turn < strips;
        int strip = turn % strips;
        if (strips > 1)
            place = place_of_strip(args, member, tile, strip, config);
        struct spanning_group group = spanning_group_of(args, member, &place, strip, tile_number, config);
        if (is_first_half) {
            if (are_scaled(config.factors))
                undo_scaling(args, &place, sum, config);
            if (args->vectors.bias != NO_VECTOR)
                add_to_columns(args->vectors.bias, &place, sum, config);
        } else if (has_norm) {
            if (spans_strips) {
                mbarrier_wait(group.exchanged, tile_number / 2 & 1);
                normalise_spanning(sum, &group, args->eps, config);
            }
            scale_and_shift_sums(args, &place, sum, config);
        }
        apply_to_sums(is_first_half ? &args->before : &args->after,
                      is_first_half ? args->vectors.before : args->vectors.after, &place, sum, config);
        if (is_first_half && spans_strips)
            send_moments(sum, &group, config);
        else if (is_first_half && has_norm)
            normalise_whole_groups(args, member, &place, strip, sum, config);
        else if (!is_first_half)
            store_sums(args, &place, sum, config);
        if (strips > 1)
            swap_strips(sum, config);
    }
}
