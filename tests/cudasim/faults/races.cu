/* Kernels with races, and kernels that look as if they had one; tests/cudasim/test_races.py says which are
 * which. */
#include "sim/portable.h"

struct race_args {
    int *a;
    int *b;
    int n;
};

/* ---- Races ---- */

__global__ void reads_what_a_lane_writes(struct race_args a) {
    int i = threadIdx.x;
    a.a[i] = i * i;
    a.a[i] = a.a[63 - i];
}

__global__ void adds_without_atomic(struct race_args a) {
    a.a[0] += 1;
}

__global__ void blocks_write_one_word(struct race_args a) {
    a.a[0] = (int)blockIdx.x;
}

__global__ void block_reads_what_another_writes(struct race_args a) {
    a.a[blockIdx.x * blockDim.x + threadIdx.x] = a.a[(blockIdx.x + 1) % gridDim.x * blockDim.x + threadIdx.x];
}

__global__ void reads_after_an_atomic(struct race_args a) {
    atomicAdd(&a.a[0], 1);
    a.b[threadIdx.x] = a.a[0];
}

__global__ void writes_after_an_atomic(struct race_args a) {
    if (threadIdx.x == 40)
        a.a[0] = 7;
    else
        atomicAdd(&a.a[0], 1);
}

static __device__ int total;
__global__ void blocks_share_a_variable(struct race_args a) {
    if (threadIdx.x == 0)
        total += a.n;
}

__global__ void last_block_without_fence(struct race_args a) {
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        a.a[blockIdx.x] = (int)blockIdx.x;
        is_last = atomicAdd(a.b, 1) == (int)gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0)
        for (unsigned block = 0; block < gridDim.x; block++)
            a.a[63] += a.a[block];
}

__global__ void fence_for_the_block_only(struct race_args a) {
    if (threadIdx.x > 0)
        return;
    if (blockIdx.x == 0) {
        a.a[0] = 1;
        __threadfence_block();
        atomicExch(a.b, 1);
    } else {
        while (atomicAdd(a.b, 0) == 0)
            ;
        __threadfence();
        a.a[1] = a.a[0];
    }
}

__global__ void volatile_shared_in_step(struct race_args a) {
    __shared__ volatile int sums[64];
    int i = threadIdx.x;
    sums[i] = i;
    if (i < 16)
        sums[i] += sums[i + 16];
    a.a[i] = sums[i];
}

__global__ void meets_with_too_few(struct race_args a) {
    __shared__ int values[32];
    int i = threadIdx.x;
    values[i] = i;
    if (i < 16)
        __syncwarp(0xffff);
    a.a[i] = values[31 - i];
}

__global__ void writes_what_all_read(struct race_args a) {
    a.b[threadIdx.x] = a.a[0];
    if (threadIdx.x == 5)
        a.a[0] = 3;
}

__global__ void halves_of_words(struct race_args a) {
    unsigned char *bytes = (unsigned char *)a.a;
    bytes[threadIdx.x / 2] = (unsigned char)threadIdx.x;
}

/* ---- No races ---- */

__global__ void right_last_block(struct race_args a) {
    __shared__ bool is_last;
    a.a[blockIdx.x * blockDim.x + threadIdx.x] = (int)threadIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        is_last = atomicAdd(a.b, 1) == (int)gridDim.x - 1;
    __syncthreads();
    if (is_last)
        for (unsigned block = 1; block < gridDim.x; block++)
            a.a[threadIdx.x] += a.a[block * blockDim.x + threadIdx.x];
}

__global__ void right_last_block_resets(struct race_args a) {
    if (threadIdx.x > 0)
        return;
    __threadfence();
    bool is_last = atomicAdd(a.b, 1) == (int)gridDim.x - 1;
    __threadfence();
    if (is_last)
        a.b[0] = 0;
}

__global__ void right_volatile_flag(struct race_args a) {
    volatile int *flag = a.b;
    if (threadIdx.x > 0)
        return;
    if (blockIdx.x == 0) {
        a.a[0] = 1;
        __threadfence();
        flag[0] = 1;
    } else if (blockIdx.x == 1) {
        while (flag[0] == 0)
            ;
        __threadfence();
        a.a[1] = a.a[0];
    }
}

__global__ void right_lock(struct race_args a) {
    if (threadIdx.x > 0)
        return;
    while (atomicCAS(a.b, 0, 1) != 0)
        ;
    __threadfence();
    a.a[0] += 1;
    __threadfence();
    atomicExch(a.b, 0);
}

__global__ void right_grid_barrier(struct race_args a) {
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), all = (int)(gridDim.x * blockDim.x);
    for (int round = 1; round <= 3; round++) {
        int *from = round % 2 ? a.a : a.a + a.n / 2, *to = round % 2 ? a.a + a.n / 2 : a.a;
        to[i] = from[(i + 1) % all] + 1;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(a.b, 1);
            while (atomicAdd(a.b, 0) < round * (int)gridDim.x)
                ;
            __threadfence();
        }
        __syncthreads();
    }
}

__global__ void right_warp_sync(struct race_args a) {
    __shared__ int values[64];
    int i = threadIdx.x;
    values[i] = i;
    __syncwarp();
    int other = values[i ^ 5];
    __syncwarp();
    values[i] = other;
    a.a[i] = __shfl_xor_sync(0xffffffff, values[i], 1);
}

__global__ void right_volatile_in_block(struct race_args a) {
    volatile int *flag = a.b;
    if (threadIdx.x == 0) {
        a.a[0] = 4;
        __threadfence_block();
        flag[0] = 1;
    } else if (threadIdx.x == 32) {
        while (flag[0] == 0)
            ;
        __threadfence_block();
        a.a[1] = a.a[0];
    }
}

__global__ void right_bytes(struct race_args a) {
    ((unsigned char *)a.a)[blockIdx.x * blockDim.x + threadIdx.x] = (unsigned char)threadIdx.x;
}

__global__ void right_early_return(struct race_args a) {
    __shared__ int values[64];
    int i = threadIdx.x;
    if (i >= 50)
        return;
    values[i] = i;
    __syncthreads();
    a.a[i] = values[49 - i];
}

__global__ void right_two_barriers(struct race_args a) {
    __shared__ int values[64];
    int i = threadIdx.x;
    values[i] = i;
    if (i < 32)
        __syncthreads();
    else
        __syncthreads();
    a.a[i] = values[63 - i];
}

__global__ void writes_the_same_value(struct race_args a) {
    __shared__ int any;
    any = 0;
    __syncthreads();
    if (threadIdx.x % 2)
        any = 1;
    __syncthreads();
    a.a[threadIdx.x] = any;
}

/* ---- Other faults ---- */

__global__ void two_barriers_in_a_warp(struct race_args a) {
    if (threadIdx.x < 16)
        __syncthreads();
    else
        __syncthreads();
    a.a[threadIdx.x] = 1;
}

__global__ void shuffles_from_outside_the_mask(struct race_args a) {
    if (threadIdx.x < 16)
        a.a[threadIdx.x] = __shfl_down_sync(0xffff, (int)threadIdx.x, 1);
}

static __constant__ int limits[4];
__global__ void writes_a_constant(struct race_args a) {
    limits[a.n % 4] = 1;
}

__global__ void too_much_shared_memory(struct race_args a) {
    __shared__ int large[12000], more[1000];
    large[threadIdx.x] = more[threadIdx.x] = 1;
    a.a[threadIdx.x] = large[threadIdx.x] + more[threadIdx.x];
}

__global__ void overruns_a_local_array(struct race_args a) {
    int local[4] = {0};
    int *p = local;
    for (int i = 0; i < a.n; i++)
        p[i] = i;
    a.a[threadIdx.x] = p[threadIdx.x % 4];
}

__global__ void overruns_into_its_neighbour(struct race_args a) {
    __shared__ int first[32], second[32];
    int *p = first;
    second[threadIdx.x] = 1;
    p[threadIdx.x + 8] = 2;
    __syncthreads();
    a.a[threadIdx.x] = second[threadIdx.x];
}

LAUNCHER(reads_what_a_lane_writes, struct race_args)
LAUNCHER(adds_without_atomic, struct race_args)
LAUNCHER(blocks_write_one_word, struct race_args)
LAUNCHER(block_reads_what_another_writes, struct race_args)
LAUNCHER(reads_after_an_atomic, struct race_args)
LAUNCHER(writes_after_an_atomic, struct race_args)
LAUNCHER(blocks_share_a_variable, struct race_args)
LAUNCHER(last_block_without_fence, struct race_args)
LAUNCHER(fence_for_the_block_only, struct race_args)
LAUNCHER(volatile_shared_in_step, struct race_args)
LAUNCHER(meets_with_too_few, struct race_args)
LAUNCHER(writes_what_all_read, struct race_args)
LAUNCHER(halves_of_words, struct race_args)
LAUNCHER(right_last_block, struct race_args)
LAUNCHER(right_last_block_resets, struct race_args)
LAUNCHER(right_volatile_flag, struct race_args)
LAUNCHER(right_lock, struct race_args)
LAUNCHER(right_grid_barrier, struct race_args)
LAUNCHER(right_warp_sync, struct race_args)
LAUNCHER(right_volatile_in_block, struct race_args)
LAUNCHER(right_bytes, struct race_args)
LAUNCHER(right_early_return, struct race_args)
LAUNCHER(right_two_barriers, struct race_args)
LAUNCHER(writes_the_same_value, struct race_args)
LAUNCHER(two_barriers_in_a_warp, struct race_args)
LAUNCHER(shuffles_from_outside_the_mask, struct race_args)
LAUNCHER(writes_a_constant, struct race_args)
LAUNCHER(too_much_shared_memory, struct race_args)
LAUNCHER(overruns_a_local_array, struct race_args)
LAUNCHER(overruns_into_its_neighbour, struct race_args)

typedef cudaError_t (*launcher)(dim3, dim3, size_t, cudaStream_t, struct race_args);
struct race_case {
    const char *name;
    launcher launch;
};
#define CASE(kernel) {#kernel, launch_##kernel}
static const struct race_case cases[] = {
    CASE(reads_what_a_lane_writes),
    CASE(adds_without_atomic),
    CASE(blocks_write_one_word),
    CASE(block_reads_what_another_writes),
    CASE(reads_after_an_atomic),
    CASE(writes_after_an_atomic),
    CASE(blocks_share_a_variable),
    CASE(last_block_without_fence),
    CASE(fence_for_the_block_only),
    CASE(volatile_shared_in_step),
    CASE(meets_with_too_few),
    CASE(writes_what_all_read),
    CASE(halves_of_words),
    CASE(right_last_block),
    CASE(right_last_block_resets),
    CASE(right_volatile_flag),
    CASE(right_lock),
    CASE(right_grid_barrier),
    CASE(right_warp_sync),
    CASE(right_volatile_in_block),
    CASE(right_bytes),
    CASE(right_early_return),
    CASE(right_two_barriers),
    CASE(writes_the_same_value),
    CASE(two_barriers_in_a_warp),
    CASE(shuffles_from_outside_the_mask),
    CASE(writes_a_constant),
    CASE(too_much_shared_memory),
    CASE(overruns_a_local_array),
    CASE(overruns_into_its_neighbour),
};

/* -1: there is no kernel of that name. */
int launch_race(const char *name, int blocks, int threads, int *a, int *b, int n);
int launch_race(const char *name, int blocks, int threads, int *a, int *b, int n) {
    dim3 grid = {(unsigned)blocks, 1, 1}, block = {(unsigned)threads, 1, 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, name) == 0)
            return cases[i].launch(grid, block, 0, NULL, (struct race_args){a, b, n});
    return -1;
}
