/* The gradient before the product, rung 1: a kernel for each operator.
 *
 * Idea: the chain rule as a framework without a compiler runs it. First every value of the forward is
 * computed again and written to memory: the input of each operator, n and z. Then each operator's derivative
 * is a kernel that changes the gradient in place; GroupNorm's is two, one thread for the sums of a (row,
 * group), then one thread for each element; and every sum over a column is a kernel in which one thread walks
 * down the column.
 *
 * Bytes: with p operators about 8 (p + 2) for each element on the way there and 12 (p + 2) on the way back.
 *
 * Limit: memory bandwidth. The column sums have one thread for each column, which is too few threads.
 *
 * Next (gradient_2_fused.cu): one pass that reads v and dy once and writes G once. */
#include "backward/backward.h"
#include "shared/apply_operators.h"
#include "shared/pointwise_slopes.h"

#define THREADS 256
#define RUN 32 /* terms of a short sum; the sum is one of short sums, as in gemm_1_naive.cu */

/* One kernel's tensors, all float32 and (batch, channels). */
struct element_args {
    const float *from;
    const float *with;
    float *to;
    int64_t batch;
    int64_t channels;
    int64_t groups;
    const struct kept_moments *moments;
    const float *scale;
    const float *shift;
    const float *sums;     /* (batch, groups, 2) */
    struct operators step; /* one, or none */
};

static inline __device__ int64_t element_of_thread(void) {
    return (int64_t)blockIdx.x * THREADS + threadIdx.x;
}

static inline __device__ int64_t group_of(const struct element_args *args, int64_t index) {
    int64_t row = index / args->channels, channel = index % args->channels;
    return row * args->groups + channel / (args->channels / args->groups);
}

/* The element's operand in the step's vector or tensor. */
static inline __device__ float operand_of(const struct element_args *args, int64_t index) {
    const fgn_pointwise *step = &args->step.step[0];
    if (step->tensor)
        return ((const float *)step->tensor)[index];
    return step->channel ? ((const float *)step->channel)[index % args->channels] : 0.0f;
}

/* to = step(from) */
__global__ void naive_step_kernel(struct element_args args) {
    int64_t index = element_of_thread();
    if (index >= args.batch * args.channels)
        return;
    float value = args.from[index];
    struct value_place at = {index / args.channels, index % args.channels, 0, 0, args.batch};
    apply_operators(&args.step, &value, 1, at);
    args.to[index] = value;
}

/* to = n of from */
__global__ void naive_normalised_kernel(struct element_args args) {
    int64_t index = element_of_thread();
    if (index >= args.batch * args.channels)
        return;
    struct kept_moments moments = args.moments[group_of(&args, index)];
    args.to[index] = (args.from[index] - moments.mean) * moments.inverse_deviation;
}

/* to = from * scale + shift */
__global__ void naive_affine_kernel(struct element_args args) {
    int64_t index = element_of_thread();
    if (index >= args.batch * args.channels)
        return;
    int64_t channel = index % args.channels;
    float scale = args.scale ? args.scale[channel] : 1.0f;
    float shift = args.shift ? args.shift[channel] : 0.0f;
    args.to[index] = args.from[index] * scale + shift;
}

/* to = from times the step's derivative at `with`. A clipped value gives 0, even a NaN, as in torch. */
__global__ void naive_derivative_kernel(struct element_args args) {
    int64_t index = element_of_thread();
    if (index >= args.batch * args.channels)
        return;
    float slope = slope_of(&args.step.step[0], args.with[index], operand_of(&args, index));
    args.to[index] = slope == 0.0f ? 0.0f : args.from[index] * slope;
}

/* to = from times the step's derivative by its operand, at `with` */
__global__ void naive_operand_derivative_kernel(struct element_args args) {
    int64_t index = element_of_thread();
    if (index >= args.batch * args.channels)
        return;
    float slope = operand_slope_of(&args.step.step[0], args.with[index], operand_of(&args, index));
    args.to[index] = args.from[index] * slope;
}

/* to[0], to[1] = the sums of dn and of dn n over a (row, group), where from is dz and with is n */
__global__ void naive_group_sums_kernel(struct element_args args) {
    int64_t index = element_of_thread();
    if (index >= args.batch * args.groups)
        return;
    int64_t size = args.channels / args.groups, first = index * size;
    float sum = 0.0f, sum_with_n = 0.0f;
    for (int64_t i = first; i < first + size; i++) {
        float dn = args.from[i] * (args.scale ? args.scale[i % args.channels] : 1.0f);
        sum += dn;
        sum_with_n += dn * args.with[i];
    }
    args.to[2 * index] = sum;
    args.to[2 * index + 1] = sum_with_n;
}

/* to = dh, where from is dz and with is n */
__global__ void naive_norm_derivative_kernel(struct element_args args) {
    int64_t index = element_of_thread();
    if (index >= args.batch * args.channels)
        return;
    int64_t group = group_of(&args, index), size = args.channels / args.groups;
    float dn = args.from[index] * (args.scale ? args.scale[index % args.channels] : 1.0f);
    float mean = (args.sums[2 * group] + args.with[index] * args.sums[2 * group + 1]) / size;
    args.to[index] = (dn - mean) * args.moments[group].inverse_deviation;
}

/* to[channel] = the sum over the column of from, or of from * with */
__global__ void naive_column_sum_kernel(struct element_args args) {
    int64_t channel = element_of_thread();
    if (channel >= args.channels)
        return;
    float sum = 0.0f;
    for (int64_t start = 0; start < args.batch; start += RUN) {
        int64_t end = start + RUN < args.batch ? start + RUN : args.batch;
        float run = 0.0f;
        for (int64_t row = start; row < end; row++) {
            int64_t index = row * args.channels + channel;
            run += args.with ? args.from[index] * args.with[index] : args.from[index];
        }
        sum += run;
    }
    args.to[channel] = sum;
}

LAUNCHER(naive_step_kernel, struct element_args)
LAUNCHER(naive_normalised_kernel, struct element_args)
LAUNCHER(naive_affine_kernel, struct element_args)
LAUNCHER(naive_derivative_kernel, struct element_args)
LAUNCHER(naive_operand_derivative_kernel, struct element_args)
LAUNCHER(naive_group_sums_kernel, struct element_args)
LAUNCHER(naive_norm_derivative_kernel, struct element_args)
LAUNCHER(naive_column_sum_kernel, struct element_args)

/* ---- The host: launches one after the other, and the first error ends them ---- */

typedef cudaError_t (*launch_function)(dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                                       cudaStream_t stream, struct element_args args);

struct sequence {
    struct element_args args; /* what all launches have in common */
    cudaStream_t stream;
    cudaError_t error;
};

static void run(struct sequence *sequence, launch_function launch, int64_t threads, const float *from,
                const float *with, float *to) {
    if (sequence->error != cudaSuccess)
        return;
    struct element_args args = sequence->args;
    args.from = from;
    args.with = with;
    args.to = to;
    dim3 grid = {(unsigned)tiles(threads, THREADS), 1, 1};
    dim3 block = {THREADS, 1, 1};
    sequence->error = launch(grid, block, 0, sequence->stream, args);
}

static void run_elements(struct sequence *sequence, launch_function launch, const float *from,
                         const float *with, float *to) {
    run(sequence, launch, sequence->args.batch * sequence->args.channels, from, with, to);
}

/* The sum into a slot, if it is wanted. */
static void run_column_sum(struct sequence *sequence, const struct column_sums *sums, int slot,
                           const float *from, const float *with) {
    if (slot != NO_SUM)
        run(sequence, launch_naive_column_sum_kernel, sequence->args.channels, from, with,
            (float *)sums->to[slot]);
}

static void set_step(struct sequence *sequence, const struct operators *list, int i) {
    sequence->args.step = *list;
    sequence->args.step.count = 1;
    sequence->args.step.step[0] = list->step[i];
}

/* Computes the input of each operator of the list, and the result. input[0] exists
 * already. */
static float *run_list(struct sequence *sequence, const struct operators *list, const float **input,
                       float *memory, int64_t elements) {
    for (int i = 0; i < list->count; i++) {
        set_step(sequence, list, i);
        run_elements(sequence, launch_naive_step_kernel, input[i], NULL, memory);
        input[i + 1] = memory;
        memory += elements;
    }
    return memory;
}

/* Where the gradients of a list's operands go, and memory for an unfinished one. */
struct naive_operand_gradients {
    const struct column_sums *sums;
    const int *slot;
    void *const *tensor;
    float *memory;
};

/* Goes from the last operator to the first and returns where the gradient is afterwards. */
static const float *run_derivatives(struct sequence *sequence, const struct operators *list,
                                    const float *const *input, struct naive_operand_gradients operands,
                                    const float *gradient, float *to) {
    for (int i = list->count - 1; i >= 0; i--) {
        set_step(sequence, list, i);
        if (operands.slot[i] != NO_SUM) {
            run_elements(sequence, launch_naive_operand_derivative_kernel, gradient, input[i],
                         operands.memory);
            run_column_sum(sequence, operands.sums, operands.slot[i], operands.memory, NULL);
        }
        if (operands.tensor[i])
            run_elements(sequence, launch_naive_operand_derivative_kernel, gradient, input[i],
                         (float *)operands.tensor[i]);
        run_elements(sequence, launch_naive_derivative_kernel, gradient, input[i], to);
        gradient = to;
    }
    return gradient;
}

static int64_t elements_of(const struct chain_gradient *gradient) {
    return gradient->batch * gradient->channels;
}

/* The results of all operators, n, z, the current gradient, an operand's gradient, and the groups' sums.
 */
unsigned long long gradient_1_naive_bytes(const struct chain_gradient *gradient) {
    unsigned long long tensors = gradient->before.count + gradient->after.count + 4;
    unsigned long long floats = tensors * elements_of(gradient) + 2ull * gradient->batch * gradient->groups;
    return gradient->groups > 0 || gradient->before.count > 0 ? floats * sizeof(float) : 0;
}

cudaError_t gradient_1_naive(const struct chain_gradient *gradient, void *workspace, cudaStream_t stream) {
    struct sequence sequence;
    memset(&sequence, 0, sizeof sequence);
    sequence.args.batch = gradient->batch;
    sequence.args.channels = gradient->channels;
    sequence.args.groups = gradient->groups;
    sequence.args.moments = gradient->moments;
    sequence.args.scale = (const float *)gradient->scale;
    sequence.args.shift = (const float *)gradient->shift;
    sequence.stream = stream;
    sequence.error = cudaSuccess;
    const struct column_sums *sums = &gradient->sums;
    const float *dy = (const float *)gradient->dy;
    if (gradient->groups == 0 && gradient->before.count == 0) {
        run_column_sum(&sequence, sums, sums->bias, dy, NULL);
        return sequence.error;
    }

    int64_t elements = elements_of(gradient);
    const float *before[FGN_MAX_POINTWISE + 1] = {(const float *)gradient->v};
    const float *after[FGN_MAX_POINTWISE + 1];
    float *memory = run_list(&sequence, &gradient->before, before, (float *)workspace, elements);
    if (gradient->groups == 0) {
        float *g = gradient->g ? (float *)gradient->g : memory;
        struct naive_operand_gradients operands = {sums, sums->before, gradient->before_tensor,
                                                   memory + elements};
        const float *dv = run_derivatives(&sequence, &gradient->before, before, operands, dy, g);
        run_column_sum(&sequence, sums, sums->bias, dv, NULL);
        return sequence.error;
    }
    float *n = memory, *z = n + elements;
    run_elements(&sequence, launch_naive_normalised_kernel, before[gradient->before.count], NULL, n);
    run_elements(&sequence, launch_naive_affine_kernel, n, NULL, z);
    after[0] = z;
    float *rest = run_list(&sequence, &gradient->after, after, z + elements, elements);
    float *g = gradient->g ? (float *)gradient->g : rest;
    float *of_operand = rest + elements, *group_sums = of_operand + elements;
    sequence.args.sums = group_sums;
    struct naive_operand_gradients of_before = {sums, sums->before, gradient->before_tensor, of_operand};
    struct naive_operand_gradients of_after = {sums, sums->after, gradient->after_tensor, of_operand};

    const float *dz = run_derivatives(&sequence, &gradient->after, after, of_after, dy, g);
    run_column_sum(&sequence, sums, sums->scale, dz, n);
    run_column_sum(&sequence, sums, sums->shift, dz, NULL);
    run(&sequence, launch_naive_group_sums_kernel, gradient->batch * gradient->groups, dz, n, group_sums);
    run_elements(&sequence, launch_naive_norm_derivative_kernel, dz, n, g);
    run_derivatives(&sequence, &gradient->before, before, of_before, g, g);
    run_column_sum(&sequence, sums, sums->bias, g, NULL);
    return sequence.error;
}
