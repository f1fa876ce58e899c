/* fgn: GEMM -> GroupNorm -> activation chains, in C (C99, C++17).
 *
 *     y = after(GroupNorm(before(x W^T + bias)))        or without a norm        y = before(x W^T + bias)
 *
 * All tensors are row-major and contiguous. x, the weight and y have one type, and so have all vectors.
 * The same interface is built twice: for a GPU (pointers are device pointers, `stream` is a cudaStream_t) and
 * for the CPU simulator (pointers are host pointers, `stream` is ignored). As in cuBLAS and cuDNN:
 *   - a call returns a status; fgn_last_error() returns a sentence that explains it;
 *   - every argument is checked before the first launch, so a refused call writes nothing;
 *   - scratch memory is passed in: a plan (fgn_plan_chain) says how much;
 *   - nothing is allocated and nothing waits for the GPU, so a call can be captured in a CUDA graph.
 *
 * What holds for every function, unless it says otherwise:
 *   - alignment: matrices and vectors are aligned to their elements, `prepared` and the workspace to 16
 *     bytes. Matrices that are aligned to 16 bytes, as malloc() and cudaMalloc() align, are read faster;
 *   - aliasing: outputs (y, the workspace, `prepared`) may not overlap anything else that the call reads or
 *     writes. FGN_INVALID_ARGUMENT where y overlaps x, the weight, an operator's tensor or the workspace;
 *   - ownership: the library keeps no pointer of the caller's. The caller owns structs and may copy them.
 *     A plan has no pointers. The library owns strings; that of fgn_last_error() is valid until the
 *     thread's next call, all others for good;
 *   - asynchrony: on a GPU a call returns when its launches are in `stream`. All memory has to stay until
 *     they have run, and the CUDA runtime reports errors while they run. On the simulator a call
 *     returns when it is done;
 *   - threads: any thread may call any function at any time, with memory that no other call writes to. On the
 *     simulator the launches of several threads take turns;
 *   - fork: the simulator works in a child process too. CUDA does not: a child has to call exec() first.
 *
 * A call has two halves. fgn_plan_chain() is arithmetic: it divides a chain into launches for a given GPU,
 * which need not be present. fgn_run() launches a plan, as often as the caller likes. Python's cffi reads
 * this file as it stands, which is why it includes nothing. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fgn_status {
    FGN_OK = 0,
    FGN_INVALID_ARGUMENT = 1,    /* a size, count or pointer that no version accepts */
    FGN_NOT_SUPPORTED = 2,       /* valid, but not for this version or this device */
    FGN_WORKSPACE_TOO_SMALL = 3, /* fewer bytes than the plan asks for */
    FGN_LAUNCH_FAILED = 4        /* the CUDA runtime or the simulator stopped a kernel */
} fgn_status;

/* The type of the elements of x, the weight and y. Sums and statistics are float32 in all of them. */
typedef enum fgn_type { FGN_FLOAT32 = 0, FGN_FLOAT16 = 1, FGN_BFLOAT16 = 2 } fgn_type;

/* What a product may round its factors to. FGN_TF32 (of float32) and FGN_FP8 (of bfloat16) are permissions: a
 * version that has no such product, or whose other one is faster, does not use them. */
typedef enum fgn_precision {
    FGN_IEEE = 0, /* nothing: as accurate as a float32 product */
    FGN_TF32 = 1, /* 11 significant bits (tf32) */
    FGN_FP8 = 2   /* 4 significant bits (e4m3), each row of x and of the weight scaled by a power of two */
} fgn_precision;

/* The pointwise operators, as torch defines them. `v` is the value, `c` its output channel, `r` its row. NaN
 * and infinities give what torch's CUDA kernels give. */
typedef enum fgn_pointwise_kind {
    FGN_ADD_CHANNEL = 0,       /* v + channel[c] */
    FGN_MULTIPLY_CHANNEL = 1,  /* v * channel[c] */
    FGN_HARDTANH = 2,          /* min(max(v, a), b) */
    FGN_LEAKY_RELU = 3,        /* v > 0 ? v : a * v */
    FGN_MISH = 4,              /* v * tanh(log(1 + exp(v))) */
    FGN_SILU = 5,              /* v / (1 + exp(-v)) */
    FGN_DOUBLE = 6,            /* v + v */
    FGN_RELU = 7,              /* max(v, 0) */
    FGN_SUBTRACT_CHANNEL = 8,  /* v - channel[c] */
    FGN_DIVIDE_CHANNEL = 9,    /* v / channel[c] */
    FGN_PRELU = 10,            /* v > 0 ? v : channel[c] * v */
    FGN_ADD_TENSOR = 11,       /* v + tensor[r, c] */
    FGN_ADD = 12,              /* v + a */
    FGN_MULTIPLY = 13,         /* v * a */
    FGN_DIVIDE = 14,           /* v / a */
    FGN_NEG = 15,              /* -v */
    FGN_ABS = 16,              /* |v| */
    FGN_SQUARE = 17,           /* v * v */
    FGN_SQRT = 18,             /* sqrt(v) */
    FGN_EXP = 19,              /* exp(v) */
    FGN_CLAMP = 20,            /* min(max(v, a), b); its slope at a and b is 1, hardtanh's is 0 */
    FGN_THRESHOLD = 21,        /* v <= a ? b : v */
    FGN_HARDSHRINK = 22,       /* -a <= v <= a ? 0 : v */
    FGN_SOFTSHRINK = 23,       /* v > a ? v - a : v < -a ? v + a : 0 */
    FGN_HARDSIGMOID = 24,      /* min(max(v + 3, 0), 6) / 6 */
    FGN_HARDSWISH = 25,        /* v * min(max(v + 3, 0), 6) / 6 */
    FGN_SOFTSIGN = 26,         /* v / (|v| + 1) */
    FGN_SIGMOID = 27,          /* 1 / (1 + exp(-v)) */
    FGN_LOGSIGMOID = 28,       /* min(v, 0) - log(1 + exp(-|v|)) */
    FGN_TANH = 29,             /* tanh(v) */
    FGN_TANHSHRINK = 30,       /* v - tanh(v) */
    FGN_SOFTPLUS = 31,         /* a v > b ? v : log(1 + exp(a v)) / a */
    FGN_ELU = 32,              /* v > 0 ? v : a (exp(v) - 1) */
    FGN_CELU = 33,             /* v > 0 ? v : a (exp(v / a) - 1) */
    FGN_SELU = 34,             /* 1.0507009873554805 (v > 0 ? v : 1.6732632423543773 (exp(v) - 1)) */
    FGN_GELU = 35,             /* v / 2 (1 + erf(v / sqrt(2))) */
    FGN_GELU_TANH = 36,        /* v / 2 (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3))) */
    FGN_DIVIDE_DEVIATION = 37, /* v / sqrt(channel[c] + a) */
    FGN_MINIMUM_CHANNEL = 38,  /* min(v, channel[c]) */
    FGN_MAXIMUM_CHANNEL = 39,  /* max(v, channel[c]) */
    FGN_MULTIPLY_TENSOR = 40   /* v * tensor[r, c] */
} fgn_pointwise_kind;

#define FGN_POINTWISE_KINDS 41

typedef struct fgn_pointwise {
    fgn_pointwise_kind kind;
    float a;
    float b;
    const void *channel; /* (out_features,) for the operators that name it, else unused */
    const void *tensor;  /* (batch, out_features) of y's type for those that name it; no chain multiplies */
    int one;             /* 1: channel has one element for all. Gradients and feature maps refuse it */
} fgn_pointwise;

#define FGN_MAX_POINTWISE 8

typedef struct fgn_chain {
    long long batch;
    long long in_features;
    long long out_features;
    long long groups; /* divides out_features; 0: no norm, and all operators are in `before` */
    float eps;
    fgn_type type;
    fgn_precision precision;
    fgn_type vector_type; /* of the vectors below: FGN_FLOAT32, or `type` where a version reads that */
    int frozen;           /* 1: the caller promises that `prepared` is still this weight's */
    int x_is_split;       /* 1: x's float16 halves already are at the workspace's beginning; needs frozen */
    int can_multiply;     /* 1: the caller can make the product itself, with a library such as cuBLAS: a plan
                           * may then ask for it (fgn_plan.product_bytes). 0: no plan does */
    int before_count, after_count;
    const void *weight;     /* (out_features, in_features) */
    const void *prepared;   /* what fgn_prepare() began for the weight, where a version keeps something */
    const void *bias;       /* (out_features,) or NULL */
    const void *norm_scale; /* (out_features,) or NULL for ones */
    const void *norm_shift; /* (out_features,) or NULL for zeros */
    fgn_pointwise before[FGN_MAX_POINTWISE];
    fgn_pointwise after[FGN_MAX_POINTWISE];
} fgn_chain;

/* One rung of the ladder: a way to divide a chain into launches. */
typedef struct fgn_version {
    const char *name;
    const char *gemm;    /* the file that holds its matrix product */
    const char *norm;    /* the file that holds its GroupNorm */
    const char *summary; /* one line: what it changes from the version before */
    const char *needs;   /* what it asks of the chain or the device, or "" */
} fgn_version;

/* The table of versions, the same in every call. A version is its place in the table. */
int fgn_version_count(void);
const fgn_version *fgn_version_at(int version); /* NULL when out of range */

/* The properties of a GPU on which a plan depends. */
typedef struct fgn_device {
    int major, minor; /* the compute capability; 0.0: the simulator */
    int multiprocessors;
    long long l2_bytes;
} fgn_device;

/* This OS thread's current device; for the simulator 0.0 and as many multiprocessors as it has OS threads. */
fgn_status fgn_current_device(fgn_device *device);

/* What a launch computes: a sum of these flags, and the operators in its fgn_launch. */
typedef enum fgn_computes {
    FGN_HALVES = 1,  /* x as two float16 halves, and the weight unless its halves are kept */
    FGN_PRODUCT = 2, /* x W^T; with FGN_PARTIAL_SUMS of a part of k in each block, and else + bias */
    FGN_PARTIAL_SUMS = 4,
    FGN_ADD_SUMS = 8,        /* adds up the partial sums of the launch before, and the bias */
    FGN_STATISTICS = 16,     /* mean and deviation of each sample and group */
    FGN_NORMALISE = 32,      /* both make a GroupNorm */
    FGN_FINGERPRINT = 64,    /* whether the weight is still what was prepared */
    FGN_WEIGHT_HALVES = 128, /* the weight as two float16 halves, if it is not */
    FGN_REPACKED = 256,      /* x or the weight with rows that begin at multiples of 16 bytes */
    FGN_QUANTISED = 512      /* x in 8-bit floats, and the weight where it is not kept so */
} fgn_computes;

/* Where a launch writes. y may have an intermediate result until a later launch writes the final one. */
typedef enum fgn_writes { FGN_WRITES_Y = 0, FGN_WRITES_WORKSPACE = 1 } fgn_writes;

/* One launch of a plan. */
typedef struct fgn_launch {
    const char *kernel; /* the function's name */
    unsigned grid[3];
    unsigned block[3];
    int cluster;            /* blocks of a cluster, along x; 1: none */
    long long shared_bytes; /* dynamic shared memory of a block */

    int computes;                   /* fgn_computes */
    int before_first, before_count; /* the operators before the norm that this launch applies */
    int after_first, after_count;   /* and those after it */
    fgn_writes writes;
    int stands_by; /* 1: returns at once, unless float16 halves do not hold the values (float32 in reserve),
                    * or unless the weight has changed (FGN_WEIGHT_HALVES) */

    double operations;       /* of the products: 2 for a multiply-add, as often as a product takes several */
    long long bytes_read;    /* each byte once, however often it is asked for; vectors of parameters too, and
                              * the bias whether there is one or not */
    long long bytes_kept;    /* those of them that an earlier launch of the call has read or written */
    long long bytes_written; /* each byte once */

    int tile_rows, tile_columns; /* outputs of a block; 0: not a product */
    long long steps;             /* along k, of a block; a persistent block's for one tile */
    int step_k;                  /* elements of k in a step */
    int stages; /* steps in shared memory at a time, those on their way too; 0: none are kept there */
    int thread_rows, thread_columns; /* outputs in a thread's registers; 0: in pieces, or of tensor cores */
    long long tiles; /* that the launch computes, in parts of k counted apart: its blocks, unless
                      * they are persistent and take several */
} fgn_launch;

/* A version makes at most one launch for each operator and three for the rest. */
#define FGN_MAX_LAUNCHES 20
#define FGN_MAX_CHOICES 8

/* How a version runs a chain. This is plain data without the chain's pointers, to be copied and kept. */
typedef struct fgn_plan {
    int version;
    int candidate; /* of the version's ways to run the chain: 0 is the one that it expects to be fastest */
    fgn_device device;
    fgn_chain chain; /* what was planned, without its pointers */
    unsigned long long workspace_bytes;
    unsigned long long product_bytes;  /* more than 0: the workspace begins with v = x W^T + bias, (batch,
                                        * out_features) of the chain's type, which the caller has put there
                                        * before fgn_run(). Only for a chain with can_multiply */
    unsigned long long prepared_bytes; /* of the weight in a form of the version's own; 0: as it is */
    double nanoseconds;                /* what the version expects a call to take; 0: it has no model */
    int launch_count;
    fgn_launch launch[FGN_MAX_LAUNCHES];
    long long choice[FGN_MAX_CHOICES]; /* the version's own: what it needs again at the launch */
} fgn_plan;

#define FGN_BEST_VERSION -1

/* Plans how `version` runs the chain on the device; pointers in `chain` are ignored, and may be NULL.
 *
 * version: FGN_BEST_VERSION is fgn_default_version(). device: NULL is the current one; for any other one the
 * plan can be made and read, but not run. A batch of 0 has no launches.
 * FGN_NOT_SUPPORTED when the version does not run this chain on this device. */
fgn_status fgn_plan_chain(int version, const fgn_chain *chain, const fgn_device *device, fgn_plan *plan);

/* Plans another way to run the chain: 1 is second-fastest by the version's model of time, and so on.
 * FGN_NOT_SUPPORTED when there are no more; without a model there is only candidate 0. */
fgn_status fgn_plan_candidate(int version, int candidate, const fgn_chain *chain, const fgn_device *device,
                              fgn_plan *plan);

/* The version that runs this chain fastest on the device (NULL: the current one) by the authors'
 * measurements; -1 if none runs it, or the chain is invalid. */
int fgn_default_version(const fgn_chain *chain, const fgn_device *device);

/* Prepares what the version keeps of the weight, in the plan's prepared_bytes.
 *
 * A chain that is not `frozen` never computes from an old weight, whoever has written to it. Each call checks
 * on the device whether `prepared` still belongs to the weight, and makes it anew if not. So calls write to
 * `prepared`, and calls that share it must follow each other on one stream. A frozen chain only reads
 * `prepared`; after a change of the weight the caller has to prepare it again. Neither kind can use what was
 * prepared for the other. */
fgn_status fgn_prepare(const fgn_plan *plan, const fgn_chain *chain, void *prepared, void *stream);

/* The plan's launches. chain: the planned chain, now with pointers. x: (batch, in_features), y: (batch,
 * out_features). workspace: at least the plan's workspace_bytes; NULL where those are 0. If the plan has
 * product_bytes, the caller has stored the product in the workspace, or earlier work of the stream does; x,
 * the weight and the bias are then checked but not read. */
fgn_status fgn_run(const fgn_plan *plan, const fgn_chain *chain, const void *x, void *y, void *workspace,
                   unsigned long long workspace_bytes, void *stream);

/* fgn_plan_chain() and fgn_run() in one. With can_multiply the version may expect the product in the
 * workspace, so such a caller plans first and checks product_bytes. */
fgn_status fgn_forward(int version, const fgn_chain *chain, const void *x, void *y, void *workspace,
                       unsigned long long workspace_bytes, void *stream);

/* Runs the version's GroupNorm on float32 x: (batch, channels); needs fgn_group_norm_workspace_bytes(). */
fgn_status fgn_group_norm_workspace_bytes(int version, long long batch, long long groups,
                                          unsigned long long *bytes);
fgn_status fgn_group_norm(int version, long long batch, long long channels, long long groups, float eps,
                          const float *x, const float *norm_scale, const float *norm_shift, float *y,
                          void *workspace, unsigned long long workspace_bytes, void *stream);

/* ---- Functions of rows ----
 *
 *     y = after(f(before(v)))
 *
 * f, such as softmax, is over the features of each row of v, (batch, features), or over each window of them.
 * It starts after the product has ended, because it needs a whole row for one value. */
typedef enum fgn_row_function {
    FGN_ROW_SUM = 0, /* these give one value for each window: y is (batch, features / window) */
    FGN_ROW_MEAN = 1,
    FGN_ROW_MAX = 2,
    FGN_ROW_MIN = 3,
    FGN_ROW_LENGTH = 4, /* sqrt(sum of v * v) */
    FGN_LOGSUMEXP = 5,  /* log(sum of exp(v)) */
    FGN_SOFTMAX = 6,    /* exp(v) / sum of exp(v); these give one for each value: y is as v */
    FGN_LOG_SOFTMAX = 7,
    FGN_RMS_NORM = 8,   /* v / sqrt(mean of v * v + eps) */
    FGN_LAYER_NORM = 9, /* (v - mean) / sqrt(variance + eps); scale and shift are operators after it */
    FGN_VALUES = 10     /* v itself: the operators alone, which may read v again */
} fgn_row_function;

#define FGN_ROW_FUNCTIONS 11

typedef struct fgn_rows {
    long long batch, features;
    long long window; /* features; or fewer, as in pooling: the last features % window are no window's then,
                       * and softmax and the norms take only divisors */
    fgn_row_function function;
    float eps;
    fgn_type type;        /* of v, y and tensors. Sums are float32 in all of them */
    fgn_type vector_type; /* FGN_FLOAT32 or `type` */
    int before_count, after_count;
    fgn_pointwise before[FGN_MAX_POINTWISE]; /* their vectors are (features,) */
    fgn_pointwise after[FGN_MAX_POINTWISE];  /* (features,), or a window's; tensor NULL: f's result again */
    /* 0 except for FGN_VALUES: the length of v's rows in memory (0: features), and the elements where the
     * values begin and where operators without a tensor read v again. */
    long long v_features, first, again;
    /* 1: y is (batch, 1). f and `second`, which is over all windows of a row, reduce; the operators `after`
     * from number before_second on follow `second`, and have no operands. */
    int has_second, before_second;
    fgn_row_function second;
} fgn_rows;

/* One launch, without a workspace. v and y: as above. between: NULL, or where u = before(v) is written,
 * shaped like v: a transformer's next block adds to this sum. NaN and infinities give what torch's functions
 * of these names give. */
fgn_status fgn_rows_forward(const fgn_rows *rows, const void *v, void *between, void *y, void *stream);

/* ---- Feature maps: y = after(GroupNorm(before(v))) ----
 *
 * v is what a convolution makes, (batch, channels, positions) for any number of dimensions of positions, and
 * a group's statistics are over its channels and all positions. */
typedef struct fgn_feature_maps {
    long long batch, channels, positions;
    long long groups;  /* divides channels */
    int channels_last; /* 1: in memory v, y and tensors are (batch, positions, channels) */
    float eps;
    fgn_type type;        /* of v, y and tensors. Sums are float32 in all of them */
    fgn_type vector_type; /* FGN_FLOAT32 or `type` */
    int before_count, after_count;
    const void *scale, *shift; /* (channels,) or NULL for ones and zeros */
    /* Bit i: the vector of before[i] (after[i]) is (batch, channels), not one of (channels,) for all. */
    unsigned before_samples, after_samples;
    fgn_pointwise before[FGN_MAX_POINTWISE]; /* tensors are as v */
    fgn_pointwise after[FGN_MAX_POINTWISE];
} fgn_feature_maps;

/* Sets bytes of a workspace with which a few large maps with channels_last take two faster launches; or 0. */
fgn_status fgn_feature_maps_workspace_bytes(const fgn_feature_maps *maps, unsigned long long *bytes);

/* v, between, y: as of fgn_rows_forward(). workspace: aligned to 16 bytes, or NULL. FGN_NOT_SUPPORTED for
 * groups of over 2^30 elements, or over 256 vectors with channels_last (2048 channels, if aligned to 16). */
fgn_status fgn_feature_maps_forward(const fgn_feature_maps *maps, const void *v, void *between, void *y,
                                    void *workspace, unsigned long long workspace_bytes, void *stream);

/* ---- Training ----
 *
 * Two calls of the forward keep what the backward needs: fgn_forward() of the product alone (the chain with
 * groups 0 and no operators) writes v = x W^T + bias, and fgn_norm_forward() computes y from it:
 *     y = after(GroupNorm(before(v)))
 * They keep v, (batch, out_features) of the chain's type, and moments, (batch, groups, 2) float32: for each
 * row and group its mean and 1 / deviation. Without a norm y is before(v), and moments may be NULL. */
fgn_status fgn_norm_forward(const fgn_chain *chain, const void *v, void *y, float *moments, void *stream);

/* Where to write the gradients. One that is NULL is not computed. */
typedef struct fgn_gradients {
    void *product; /* (batch, out_features), of the chain's type: dL/dv, needed for x's and weight's */
    void *x;       /* (batch, in_features), of the chain's type */
    void *weight;  /* (out_features, in_features), of the chain's type */
    void *bias;    /* (out_features,), and so are the others; of the chain's vector_type */
    void *norm_scale, *norm_shift;
    /* Of the operators that have a channel vector, and of those that have a tensor, (batch, out_features). */
    void *before_channel[FGN_MAX_POINTWISE], *after_channel[FGN_MAX_POINTWISE];
    void *before_tensor[FGN_MAX_POINTWISE], *after_tensor[FGN_MAX_POINTWISE];
} fgn_gradients;

/* The rungs of the backward, a ladder of its own. */
typedef struct fgn_backward_version {
    const char *name;
    const char *gradient; /* the file that makes dL/dv and the vectors' gradients */
    const char *product;  /* the file that makes the gradients of x and the weight */
    const char *summary;
    const char *needs;
} fgn_backward_version;

int fgn_backward_count(void);
const fgn_backward_version *fgn_backward_at(int version); /* NULL when out of range */

/* chain: the forward's, with its pointers; x's gradient reads the weight, but nothing prepared. gradients: x
 * and weight need product. For the product alone (groups 0, no operators) dL/dv is dy: product is then not
 * written, and may be NULL. */
fgn_status fgn_backward_workspace_bytes(int version, const fgn_chain *chain, const fgn_gradients *gradients,
                                        unsigned long long *bytes);

/* x: as in the forward, read for the weight's gradient. v, moments: what the forward kept; moments are unused
 * without a norm, and v of the product alone. dy: (batch, out_features), of the chain's type, contiguous.
 * Nothing may overlap. Sums over the batch are added up in the same order in every call. */
fgn_status fgn_backward(int version, const fgn_chain *chain, const void *x, const void *v,
                        const float *moments, const void *dy, const fgn_gradients *gradients, void *workspace,
                        unsigned long long workspace_bytes, void *stream);

/* The explanation of this OS thread's last status other than FGN_OK; valid until its next call. */
const char *fgn_last_error(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
