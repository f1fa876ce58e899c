/* What each warp of a launch asked of memory, if the caller wants to know. */
#pragma once
#include "access.h"

/* The tool's state. */
struct warps {
    counted_warp *all; /* of the launch */
    size_t count;
    size_t capacity;
    uint32_t block;                  /* the block that the next line is about */
    size_t own[SIM_MAX_BLOCK_WARPS]; /* where in `all` each of its warps is, plus one */
};

void warps_free(struct warps *warps);
void warps_worker_begins(struct warps *warps);
/* A warp's request of global memory or, with `wavefronts`, of shared memory. */
void warps_request(struct recorder *recorder, unsigned warp, const struct instruction *instruction,
                   unsigned sectors, unsigned wavefronts);
/* Takes what the OS threads have kept. `first`: of all recorders. */
void warps_launch_ends(struct recorder *first, uint64_t launch, counted_launch *result);
