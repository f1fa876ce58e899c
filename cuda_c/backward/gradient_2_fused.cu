/* The gradient before the product, rung 2: one pass.
 *
 * Idea: a team of threads (channels.h) holds v and dy of a (row, group) in registers, computes h, n and z
 * from v once more, follows the chain rule back from dy, and stores G (back_through_row.h). The team
 * exchanges GroupNorm's two sums. Meanwhile cp.async loads the next two rows (row_ring.h). The threads
 * keep their channels and go down the rows, so one thread accumulates each sum over a column in its own
 * place of shared memory. At the end a block adds up its rows and writes one partial sum for each channel;
 * a second kernel adds up the blocks' sums. Both add in a fixed order, without atomics. If one block has
 * all rows of its columns, there is no second launch. Sums that do not fit into shared memory need another
 * pass.
 *
 * A team cannot hold a group of more than SEGMENT channels: an earlier kernel reads v and dy for the group's
 * two sums, and this kernel works on its segments one by one.
 *
 * Bytes: v and dy read once, G written once: 12 for each element, 6 in a 16-bit type; the partial sums are
 * few beside that. Operations: some 30 for each element and what the chain's operators cost, twice.
 *
 * Limit: the latency of one row's chain of dependent instructions, which many warps would hide. So the sums
 * are not in registers, and rare operators, which need more registers, have their own kernels: a thread has
 * 80 registers, a multiprocessor 24 warps. One kernel of 300 KB for all operators, with 128 registers and 16
 * warps, took 1.26 times as long on an H200 (geometric mean of 26 tensors), and 1.6 to 2.1 times for small
 * ones. Large tensors use between a seventh (with exponentials) and a half (float32, without) of the memory
 * bandwidth. */
#include "backward/backward.h"
#include "backward/gradient_jit.h"
#include "sim/launchers.h"

__global__ void __launch_bounds__(THREADS, MOST_BLOCKS)
    fused_gradient_float32_8_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 8, FGN_FLOAT32, true);
}

__global__ void __launch_bounds__(THREADS, MOST_BLOCKS)
    fused_gradient_float32_4_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 4, FGN_FLOAT32, true);
}

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    fused_gradient_float32_2_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 2, FGN_FLOAT32, true);
}

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    fused_gradient_float32_1_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 1, FGN_FLOAT32, true);
}

__global__ void __launch_bounds__(THREADS, MOST_BLOCKS)
    fused_gradient_float16_8_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 8, FGN_FLOAT16, true);
}

__global__ void __launch_bounds__(THREADS, MOST_BLOCKS)
    fused_gradient_float16_4_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 4, FGN_FLOAT16, true);
}

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    fused_gradient_float16_2_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 2, FGN_FLOAT16, true);
}

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    fused_gradient_float16_1_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 1, FGN_FLOAT16, true);
}

__global__ void __launch_bounds__(THREADS, MOST_BLOCKS)
    fused_gradient_bfloat16_8_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 8, FGN_BFLOAT16, true);
}

__global__ void __launch_bounds__(THREADS, MOST_BLOCKS)
    fused_gradient_bfloat16_4_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 4, FGN_BFLOAT16, true);
}

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    fused_gradient_bfloat16_2_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 2, FGN_BFLOAT16, true);
}

__global__ void __launch_bounds__(THREADS, FEWER_BLOCKS)
    fused_gradient_bfloat16_1_kernel(struct fused_gradient_args args) {
    gradient_of_width(&args, 1, FGN_BFLOAT16, true);
}

/* The two sums of each (row, group), for groups of several segments: a block for each. */
__global__ void __launch_bounds__(THREADS) group_sums_kernel(struct fused_gradient_args args) {
    __shared__ float exchanged[2 * WARPS];
    __shared__ float4 of_vectors[2][FLOAT4_OF_THREAD * THREADS];
    const struct scale_and_shift vectors = {of_vectors[0], of_vectors[1]};
    const struct chain_gradient *gradient = &args.gradient;
    int64_t row = blockIdx.x / args.division.groups;
    int group = blockIdx.x % args.division.groups;
    float sums[2] = {0.0f, 0.0f};
    const struct operand_gradients none = {gradient->sums.after, gradient->after_tensor};
    for (int part = 0; part < args.division.parts; part++) {
        struct gradient_row place = {channels_of(&args.division, group * args.division.parts + part),
                                     row * gradient->channels, gradient->type, gradient->vector_type, false};
        __syncthreads(); /* the vectors of the segment before are read */
        share_vector(vectors.scale, gradient->scale, 1.0f, &place.channels, gradient->vector_type,
                     gradient->type);
        share_vector(vectors.shift, gradient->shift, 0.0f, &place.channels, gradient->vector_type,
                     gradient->type);
        __syncthreads();
        float n[VALUES], dy[VALUES];
        struct row_words words;
        load_row(&words, gradient, row, group, &place);
        values_of(n, &words.v, &place.channels, gradient->type);
        values_of(dy, &words.dy, &place.channels, gradient->type);
        back_to_norm(gradient, n, dy, words.moments, &vectors, none, &place, threadIdx.x);
        add_to_group_sums(sums, dy, n, &vectors, &place.channels);
    }
    sums_of_team(sums, 2, THREADS, threadIdx.x, exchanged);
    if (threadIdx.x == 0)
        args.group_sums[blockIdx.x] = make_float2(sums[0], sums[1]);
}

/* Adds the row blocks' partial sums. A warp has 32 channels; each warp of a block takes every eighth row
 * block. */
__global__ void __launch_bounds__(THREADS) column_sums_kernel(struct fused_gradient_args args) {
    __shared__ float partial[WARPS][LANES];
    const struct column_sums *sums = &args.gradient.sums;
    int64_t channels = args.gradient.channels, channel = (int64_t)blockIdx.x * LANES + threadIdx.x;
    int slot = blockIdx.y;
    float sum = 0.0f;
    griddepcontrol_wait();
    if (channel < channels)
        for (int row_block = threadIdx.y; row_block < args.row_blocks; row_block += WARPS)
            sum += args.partial[((int64_t)row_block * sums->count + slot) * channels + channel];
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || channel >= channels)
        return;
    for (int warp = 1; warp < WARPS; warp++)
        sum += partial[warp][threadIdx.x];
    store_element(sums->to[slot], channel, sum, args.gradient.vector_type);
}

EARLY_LAUNCHER(fused_gradient_float32_8_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(fused_gradient_float32_4_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(fused_gradient_float32_2_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(fused_gradient_float32_1_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(fused_gradient_float16_8_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(fused_gradient_float16_4_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(fused_gradient_float16_2_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(fused_gradient_float16_1_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(fused_gradient_bfloat16_8_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(fused_gradient_bfloat16_4_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(fused_gradient_bfloat16_2_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(fused_gradient_bfloat16_1_kernel, struct fused_gradient_args)
LAUNCHER(group_sums_kernel, struct fused_gradient_args)
EARLY_LAUNCHER(column_sums_kernel, struct fused_gradient_args)

/* ---- The host ---- */

/* As many blocks as a large GPU holds at once. A block has at least FEWEST_ROWS rows, so that its final
 * writes matter little. If rows are few, one block takes all and saves the second launch. */
#define FEWEST_ROWS 4
#define STEPS_OF_ONE_BLOCK 2

static int64_t rows_of_block_for(const struct division *division, int64_t batch, int blocks) {
    int64_t row_blocks = most_row_blocks(blocks * MULTIPROCESSORS, division),
            at_once = rows_at_once(division);
    int64_t steps = tiles(batch, at_once), fewest = tiles(FEWEST_ROWS, at_once);
    if (steps <= STEPS_OF_ONE_BLOCK)
        return at_once * STEPS_OF_ONE_BLOCK;
    return at_once * (tiles(steps, row_blocks) < fewest ? fewest : tiles(steps, row_blocks));
}

/* Few rows are one step of one block, if half a warp or less per row allows that: a step takes 3
 * microseconds, much of a small call. */
static int across_of(const struct division *division, int64_t batch) {
    int across = division->across;
    while (across > division->team && batch > THREADS / across)
        across /= 2;
    return batch <= THREADS / across ? across : division->across;
}

static bool tensors_are_aligned(void *const *tensor) {
    bool aligned = true;
    for (int i = 0; i < FGN_MAX_POINTWISE; i++)
        aligned = aligned && is_aligned_16(tensor[i]);
    return aligned;
}

/* The operators of most chains: every kernel has their code. The others need many registers: a multiprocessor
 * holds two blocks of a kernel with them, and three of one without. */
static bool is_common(fgn_pointwise_kind kind) {
    return kind == FGN_ADD_CHANNEL || kind == FGN_ADD_TENSOR || kind == FGN_HARDTANH ||
           kind == FGN_LEAKY_RELU || kind == FGN_DOUBLE || kind == FGN_RELU || kind == FGN_MISH ||
           kind == FGN_SILU || kind == FGN_GELU || kind == FGN_GELU_TANH;
}

static bool are_common(const struct operators *list) {
    bool common = true;
    for (int i = 0; i < list->count; i++)
        common = common && is_common(list->step[i].kind);
    return common;
}

static int blocks_of(const struct fused_gradient_args *args) {
    return args->only_common && args->division.width >= 4 ? MOST_BLOCKS : FEWER_BLOCKS;
}

static struct fused_gradient_args fused_args_of(const struct chain_gradient *gradient, void *workspace) {
    bool aligned = is_aligned_16(gradient->v) && is_aligned_16(gradient->dy) && is_aligned_16(gradient->g) &&
                   tensors_are_aligned(gradient->before_tensor) &&
                   tensors_are_aligned(gradient->after_tensor) &&
                   vectors_are_aligned(gradient->scale, gradient->shift, &gradient->before, &gradient->after);
    struct fused_gradient_args args;
    memset(&args, 0, sizeof args);
    args.gradient = *gradient;
    args.division = division_of(gradient->channels, gradient->groups, aligned);
    args.division.across = across_of(&args.division, gradient->batch);
    args.strips = strips_of(&args.division);
    args.only_common = are_common(&gradient->before) && are_common(&gradient->after);
    args.rows_of_block = rows_of_block_for(&args.division, gradient->batch, blocks_of(&args));
    args.row_blocks = (int)tiles(gradient->batch, args.rows_of_block);
    args.one_over_size = 1.0f / args.division.group_size;
    args.group_sums = (float2 *)workspace;
    int64_t groups = args.division.parts > 1 ? gradient->batch * (int64_t)args.division.groups : 0;
    args.partial = (float *)(args.group_sums + groups);
    return args;
}

unsigned long long gradient_2_fused_bytes(const struct chain_gradient *gradient) {
    struct fused_gradient_args args = fused_args_of(gradient, NULL);
    unsigned long long bytes = (unsigned long long)(uintptr_t)args.partial;
    if (args.row_blocks > 1)
        bytes += sizeof(float) * args.row_blocks * gradient->sums.count * gradient->channels;
    return bytes;
}

static struct gradient_kernel common_gradient_kernel(fgn_type type, int width) {
    static const struct gradient_kernel kernels[3][4] = {
        {{(const void *)fused_gradient_float32_1_kernel, launch_fused_gradient_float32_1_kernel},
         {(const void *)fused_gradient_float32_2_kernel, launch_fused_gradient_float32_2_kernel},
         {(const void *)fused_gradient_float32_4_kernel, launch_fused_gradient_float32_4_kernel},
         {(const void *)fused_gradient_float32_8_kernel, launch_fused_gradient_float32_8_kernel}},
        {{(const void *)fused_gradient_float16_1_kernel, launch_fused_gradient_float16_1_kernel},
         {(const void *)fused_gradient_float16_2_kernel, launch_fused_gradient_float16_2_kernel},
         {(const void *)fused_gradient_float16_4_kernel, launch_fused_gradient_float16_4_kernel},
         {(const void *)fused_gradient_float16_8_kernel, launch_fused_gradient_float16_8_kernel}},
        {{(const void *)fused_gradient_bfloat16_1_kernel, launch_fused_gradient_bfloat16_1_kernel},
         {(const void *)fused_gradient_bfloat16_2_kernel, launch_fused_gradient_bfloat16_2_kernel},
         {(const void *)fused_gradient_bfloat16_4_kernel, launch_fused_gradient_bfloat16_4_kernel},
         {(const void *)fused_gradient_bfloat16_8_kernel, launch_fused_gradient_bfloat16_8_kernel}},
    };
    int of_type = type == FGN_FLOAT32 ? 0 : type == FGN_FLOAT16 ? 1 : 2;
    return kernels[of_type][log2_of(width)];
}

/* The fixed shared memory of a kernel, and what a multiprocessor keeps of each block's. */
#define FIXED_SHARED_BYTES (MOST_EXCHANGED * sizeof(float) + (1 << 10))
#define BYTES_OF_SUM (VALUES * THREADS * sizeof(float))

/* More sums leave room for fewer than FEWER_BLOCKS blocks. */
#define MOST_SUMS_OF_PASS 8

static cudaError_t shared_bytes_of_device(size_t *bytes) {
    int device, most;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    *bytes = error == cudaSuccess ? (size_t)most : 0;
    return error;
}

/* The dynamic shared memory of a launch without its sums: scale, shift and the ring. */
static size_t other_bytes(const struct fused_gradient_args *args, int stages) {
    size_t of_stage = args->gradient.type == FGN_FLOAT32 ? BYTES_OF_STAGE(4) : BYTES_OF_STAGE(2);
    return 2 * (size_t)args->division.across * VALUES * sizeof(float) + stages * of_stage;
}

/* How many sums a launch with one stage has room for: three or more on a GPU of 64 KB. */
static int sums_of_pass(const struct fused_gradient_args *args, size_t most) {
    size_t room = (most - FIXED_SHARED_BYTES - other_bytes(args, 1)) / BYTES_OF_SUM;
    return room < MOST_SUMS_OF_PASS ? (int)room : MOST_SUMS_OF_PASS;
}

static int slot_in_pass(int slot, int first, int count) {
    return slot >= first && slot < first + count ? slot - first : NO_SUM;
}

/* Takes up to `count` of the sums from slot `first` on. Only the first pass writes tensors.
 */
static struct fused_gradient_args pass_of(const struct fused_gradient_args *args, int first, int count) {
    struct fused_gradient_args pass = *args;
    const struct column_sums *all = &args->gradient.sums;
    struct column_sums *sums = &pass.gradient.sums;
    sums->count = all->count - first < count ? all->count - first : count;
    sums->bias = slot_in_pass(all->bias, first, count);
    sums->scale = slot_in_pass(all->scale, first, count);
    sums->shift = slot_in_pass(all->shift, first, count);
    for (int slot = 0; slot < sums->count; slot++)
        sums->to[slot] = all->to[first + slot];
    for (int i = 0; i < FGN_MAX_POINTWISE; i++) {
        sums->before[i] = slot_in_pass(all->before[i], first, count);
        sums->after[i] = slot_in_pass(all->after[i], first, count);
        if (first > 0)
            pass.gradient.before_tensor[i] = pass.gradient.after_tensor[i] = NULL;
    }
    if (first > 0)
        pass.gradient.g = NULL;
    return pass;
}

/* The ring has as many stages as fit beside a multiprocessor's other blocks, but at least one. */
static cudaError_t launch_fused_gradient(struct fused_gradient_args args, size_t most, cudaStream_t stream) {
    size_t of_sums = args.gradient.sums.count * BYTES_OF_SUM;
    args.stages = MOST_STAGES;
    while (args.stages > 1 &&
           of_sums + other_bytes(&args, args.stages) + FIXED_SHARED_BYTES > most / blocks_of(&args))
        args.stages--;
    size_t shared_bytes = of_sums + other_bytes(&args, args.stages);
    dim3 grid = {(unsigned)args.strips, (unsigned)args.row_blocks, 1};
    dim3 block = {(unsigned)args.division.across, (unsigned)rows_at_once(&args.division), 1};
    const struct gradient_facts facts = facts_of_gradient(&args, blocks_of(&args));
    const struct jit_call call = {"backward/gradient_jit.h",
                                  (const int *)&facts,
                                  sizeof facts / sizeof(int),
                                  &args,
                                  grid,
                                  block,
                                  (int)shared_bytes,
                                  0,
                                  1};
    cudaError_t error;
    if (launched_jit(&call, stream, &error))
        return error;
    if (!args.only_common)
        args.division.width = args.division.width >= 4 ? 4 : 1; /* the same channels in narrower vectors */
    struct gradient_kernel kernel = args.only_common
                                        ? common_gradient_kernel(args.gradient.type, args.division.width)
                                        : rare_gradient_kernel(args.gradient.type, args.division.width);
    error =
        cudaFuncSetAttribute(kernel.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    return error == cudaSuccess ? kernel.launch(grid, block, shared_bytes, stream, true, args) : error;
}

static cudaError_t launch_column_sums(const struct fused_gradient_args *args, cudaStream_t stream) {
    const struct chain_gradient *gradient = &args->gradient;
    if (args->row_blocks == 1 || gradient->sums.count == 0)
        return cudaSuccess;
    dim3 grid = {(unsigned)tiles(gradient->channels, LANES), (unsigned)gradient->sums.count, 1};
    dim3 block = {LANES, WARPS, 1};
    return launch_column_sums_kernel(grid, block, 0, stream, true, *args);
}

static cudaError_t launch_group_sums(const struct fused_gradient_args *args, cudaStream_t stream) {
    const struct chain_gradient *gradient = &args->gradient;
    if (args->division.parts == 1 || gradient->groups == 0)
        return cudaSuccess;
    struct fused_gradient_args without_sums = *args; /* and without gradients of tensors */
    for (int i = 0; i < FGN_MAX_POINTWISE; i++) {
        without_sums.gradient.sums.after[i] = NO_SUM;
        without_sums.gradient.after_tensor[i] = NULL;
    }
    dim3 grid = {(unsigned)(gradient->batch * gradient->groups), 1, 1};
    dim3 block = {THREADS, 1, 1};
    return launch_group_sums_kernel(grid, block, 0, stream, without_sums);
}

cudaError_t gradient_2_fused(const struct chain_gradient *gradient, void *workspace, cudaStream_t stream) {
    struct fused_gradient_args args = fused_args_of(gradient, workspace);
    size_t most = 0;
    cudaError_t error = shared_bytes_of_device(&most);
    if (error == cudaSuccess)
        error = launch_group_sums(&args, stream);
    int first = 0, sums = error == cudaSuccess ? sums_of_pass(&args, most) : 1;
    do {
        struct fused_gradient_args pass = pass_of(&args, first, sums);
        if (error == cudaSuccess)
            error = launch_fused_gradient(pass, most, stream);
        if (error == cudaSuccess)
            error = launch_column_sums(&pass, stream);
        first += sums;
    } while (first < gradient->sums.count);
    return error;
}
