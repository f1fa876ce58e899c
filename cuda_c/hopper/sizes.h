/* Sizes of tiles, and what a block has in shared memory: what the host's arithmetic (plan.h) and the kernel
 * share. */
#pragma once

#include "shared/portable.h"
#include "shared/rung.h"
#include "shared/team.h"

#define WARPGROUP 128
#define TEAMS 2
#define WARPGROUP_ROWS 64
#define COMMON_ROWS (TEAMS * WARPGROUP_ROWS) /* of a tile of both */
#define TILE_COLUMNS 256
#define NARROW_COLUMNS 128
#define STEP_BYTES 128 /* of each row: one swizzle atom wide */
#define PAIR 2         /* blocks in a cluster */

/* The ring has as many slots as there is room for. */
#define RING_BYTES (200 * 1024)
#define MOST_SLOTS 8

/* How the factors are multiplied. SPLIT_FLOAT32: two float16 halves of each (halves.h), three products. */
enum factors { BFLOAT16_FACTORS, FLOAT16_FACTORS, TF32_FACTORS, SPLIT_FLOAT32_FACTORS };

/* What is multiplied: constants wherever they are used. */
struct product {
    enum factors factors;
    int columns;           /* of a tile */
    int warpgroup_columns; /* of which a warpgroup has all, or one half */
};

#define MOST_MEMBERS 2

/* The warpgroups of a team. */
static __host__ __device__ __forceinline__ int members_of(struct product product) {
    return product.columns / product.warpgroup_columns;
}

/* Statistics of rows, of groups that several warpgroups have pieces of (hopper/norm.h). */
#define MOST_PIECES (PAIR * MOST_MEMBERS)

struct exchange {
    float2 moments[MOST_PIECES][TEAMS][WARPGROUP_ROWS];
};

struct hopper_memory {
    unsigned char ring[RING_BYTES];
    struct exchange exchange[2];
    uint64_t full[MOST_SLOTS];
    uint64_t empty[MOST_SLOTS];
    uint64_t exchanged[TEAMS];
    uint64_t may_multiply[TEAMS];
};

/* The swizzle is a function of the address: slots begin at multiples of 1024 bytes. */
#define SLOT_ALIGNMENT 1024
