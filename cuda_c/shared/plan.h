/* How a rung fills its plan: what each launch is, computes and moves. This is arithmetic only.
 *
 * A byte counts once, however often a kernel asks for it. The products' inputs and the parameter
 * vectors come from memory; bytes that an earlier launch has read or written also count in
 * bytes_kept. */
#pragma once

#include "shared/rung.h"

static inline int64_t element_bytes(fgn_type type) {
    return type == FGN_FLOAT32 ? 4 : 2;
}

static inline int64_t outputs_of(const fgn_chain *chain) {
    return chain->batch * chain->out_features;
}

/* The dynamic shared memory that a block may have (CUDA C++ Programming Guide, "Technical Specifications per
 * Compute Capability"). */
static inline int64_t most_shared_bytes(const fgn_device *device) {
    if (is_simulator(device) || device->major == 9 || device->major == 10)
        return 227 << 10;
    if (device->major == 8)
        return device->minor == 0 || device->minor == 7 ? 163 << 10 : 99 << 10;
    return device->major > 8 ? 99 << 10 : 64 << 10;
}

/* The bytes of one parameter vector. */
static inline int64_t vector_bytes(const fgn_chain *chain) {
    return element_bytes(chain->vector_type) * chain->out_features;
}

/* ---- What a model of time asks about a chain ---- */

/* Whether an operator computes an exponential or a root, which takes longer than all others. */
static inline bool has_exponential(fgn_pointwise_kind kind) {
    switch (kind) {
    case FGN_ADD_CHANNEL:
    case FGN_MULTIPLY_CHANNEL:
    case FGN_HARDTANH:
    case FGN_LEAKY_RELU:
    case FGN_DOUBLE:
    case FGN_SUBTRACT_CHANNEL:
    case FGN_RELU:
    case FGN_CLAMP:
    case FGN_PRELU:
    case FGN_MINIMUM_CHANNEL:
    case FGN_MAXIMUM_CHANNEL:
    case FGN_ADD_TENSOR:
    case FGN_ADD:
    case FGN_MULTIPLY:
    case FGN_DIVIDE:
        return false;
    default:
        return true;
    }
}

/* The number of such operators in a chain. */
static inline int exponentials_of(const fgn_chain *chain) {
    int exponentials = 0;
    for (int i = 0; i < chain->before_count; i++)
        exponentials += has_exponential(chain->before[i].kind);
    for (int i = 0; i < chain->after_count; i++)
        exponentials += has_exponential(chain->after[i].kind);
    return exponentials;
}

/* ---- The launches of a plan ---- */

/* Adds a launch, of blocks and threads in a row. */
static inline fgn_launch *add_launch(fgn_plan *plan, const char *kernel, int64_t blocks, int threads) {
    fgn_launch *launch = &plan->launch[plan->launch_count++];
    memset(launch, 0, sizeof *launch);
    launch->kernel = kernel;
    launch->grid[0] = (unsigned)blocks;
    launch->grid[1] = launch->grid[2] = 1;
    launch->block[0] = (unsigned)threads;
    launch->block[1] = launch->block[2] = 1;
    launch->cluster = 1;
    return launch;
}

static inline dim3 grid_of(const fgn_launch *launch) {
    dim3 grid = {launch->grid[0], launch->grid[1], launch->grid[2]};
    return grid;
}

static inline dim3 block_of(const fgn_launch *launch) {
    dim3 block = {launch->block[0], launch->block[1], launch->block[2]};
    return block;
}

/* The launch divides the product into tiles of this many outputs and steps of `step_k` along k. */
static inline void set_tile(fgn_launch *launch, int64_t rows, int64_t columns, int64_t in_features,
                            int64_t step_k) {
    launch->tile_rows = (int)rows;
    launch->tile_columns = (int)columns;
    launch->steps = tiles(in_features, step_k);
    launch->step_k = (int)step_k;
    launch->tiles = (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
}

/* The launch keeps `stages` steps of the tile in shared memory, and each thread has its own outputs. */
static inline void set_stages(fgn_launch *launch, int stages, int thread_rows, int thread_columns) {
    launch->stages = stages;
    launch->thread_rows = thread_rows;
    launch->thread_columns = thread_columns;
}

/* ---- What a launch computes, and reads for it ---- */

/* An earlier launch has read or written `kept` of these bytes. */
static inline void add_read(fgn_launch *launch, int64_t bytes, int64_t kept) {
    launch->bytes_read += bytes;
    launch->bytes_kept += kept;
}

static inline void add_written(fgn_launch *launch, int64_t bytes, fgn_writes where) {
    launch->bytes_written += bytes;
    launch->writes = where;
}

/* What operators read beside the values: vectors, and tensors of y's shape. */
static inline void add_operands(fgn_launch *launch, const fgn_chain *chain, const fgn_pointwise *step,
                                int count) {
    for (int i = 0; i < count; i++)
        if (takes_channel(&step[i]))
            add_read(launch, vector_bytes(chain), 0);
        else if (takes_tensor(&step[i]))
            add_read(launch, element_bytes(chain->type) * outputs_of(chain), 0);
}

/* x W^T, of x and the weight as they are. */
static inline void add_product(fgn_launch *launch, const fgn_chain *chain) {
    launch->computes |= FGN_PRODUCT;
    launch->operations = 2.0 * outputs_of(chain) * chain->in_features;
    add_read(launch, element_bytes(chain->type) * chain->in_features * (chain->batch + chain->out_features),
             0);
}

static inline void add_bias_vector(fgn_launch *launch, const fgn_chain *chain) {
    add_read(launch, vector_bytes(chain), 0);
}

static inline void add_before(fgn_launch *launch, const fgn_chain *chain, int first, int count) {
    launch->before_first = first;
    launch->before_count = count;
    add_operands(launch, chain, chain->before + first, count);
}

static inline void add_after(fgn_launch *launch, const fgn_chain *chain, int first, int count) {
    launch->after_first = first;
    launch->after_count = count;
    add_operands(launch, chain, chain->after + first, count);
}

/* The chain's norm, with its scale and shift. */
static inline void add_norm(fgn_launch *launch, const fgn_chain *chain) {
    if (chain->groups == 0)
        return;
    launch->computes |= FGN_STATISTICS | FGN_NORMALISE;
    add_read(launch, 2 * vector_bytes(chain), 0);
}

/* All that follows the product's sums: bias, operators, norm, operators. */
static inline void add_ending(fgn_launch *launch, const fgn_chain *chain) {
    add_bias_vector(launch, chain);
    add_before(launch, chain, 0, chain->before_count);
    add_norm(launch, chain);
    add_after(launch, chain, 0, chain->after_count);
}

static inline void add_y(fgn_launch *launch, const fgn_chain *chain) {
    add_written(launch, element_bytes(chain->type) * outputs_of(chain), FGN_WRITES_Y);
}

/* ---- Launching ---- */

#define MOST_DEVICES 64

/* Allows a kernel all the dynamic shared memory of a block, which more than 48 KiB need once for each kernel
 * and device. `allowed`: the devices on which this kernel has that permission. */
static inline cudaError_t allow_shared_memory(const void *kernel, const fgn_device *device,
                                              bool allowed[MOST_DEVICES]) {
#ifndef __CUDACC__
    (void)kernel, (void)device, (void)allowed;
    return cudaSuccess; /* on the simulator every kernel may have all of it */
#else
    int number;
    cudaError_t error = cudaGetDevice(&number);
    if (error != cudaSuccess)
        return error;
    bool known = number < MOST_DEVICES;
    if (known && __atomic_load_n(&allowed[number], __ATOMIC_RELAXED))
        return cudaSuccess;
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)most_shared_bytes(device));
    if (error == cudaSuccess && known)
        __atomic_store_n(&allowed[number], true, __ATOMIC_RELAXED);
    return error;
#endif
}
