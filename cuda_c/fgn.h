/* fgn: GEMM -> GroupNorm -> activation chains, in C.
 *
 *     y = after(GroupNorm(before(x W^T + bias)))
 *
 * All tensors are row-major and contiguous. x, the weight and y have one type, and so have all vectors.
 * The same interface is built twice: for a GPU
 * (pointers are device pointers, `stream` is a cudaStream_t) and for the CPU simulator (pointers are
 * host pointers, `stream` is ignored). As in cuBLAS and cuDNN:
 *   - a call returns a status; fgn_last_error() has the sentence that explains it;
 *   - every argument is checked before the first launch, so a refused call writes nothing;
 *   - scratch memory is asked for with fgn_workspace_bytes() and passed in;
 *   - nothing is allocated and nothing waits for the GPU, so a call can be captured in a CUDA graph.
 *
 * Python's cffi reads this file as it stands, which is why it includes nothing. */
#pragma once

typedef enum fgn_status {
    FGN_OK = 0,
    FGN_INVALID_ARGUMENT = 1,    /* a size, count or pointer that no version accepts */
    FGN_NOT_SUPPORTED = 2,       /* valid, but not for this version or this device */
    FGN_WORKSPACE_TOO_SMALL = 3, /* fewer bytes than fgn_workspace_bytes() asked for */
    FGN_LAUNCH_FAILED = 4        /* the CUDA runtime or the simulator stopped a kernel */
} fgn_status;

/* The type of the elements of x, the weight and y. Sums and statistics are float32 in all of them. */
typedef enum fgn_type { FGN_FLOAT32 = 0, FGN_FLOAT16 = 1, FGN_BFLOAT16 = 2 } fgn_type;

/* What a product of float32 elements may round its factors to. FGN_TF32 is a permission: a version without
 * tensor cores does not use it. */
typedef enum fgn_precision {
    FGN_IEEE = 0, /* nothing: as accurate as a float32 product */
    FGN_TF32 = 1  /* 11 significant bits (tf32) */
} fgn_precision;

/* The pointwise operators, as torch defines them. `v` is the value, `c` its output channel, `r` its row. NaN
 * and infinities go where torch's CUDA kernels send them. */
typedef enum fgn_pointwise_kind {
    FGN_ADD_CHANNEL = 0,      /* v + channel[c] */
    FGN_MULTIPLY_CHANNEL = 1, /* v * channel[c] */
    FGN_HARDTANH = 2,         /* min(max(v, a), b) */
    FGN_LEAKY_RELU = 3,       /* v > 0 ? v : a * v */
    FGN_MISH = 4,             /* v * tanh(log(1 + exp(v))) */
    FGN_SILU = 5,             /* v / (1 + exp(-v)) */
    FGN_DOUBLE = 6,           /* v + v */
    FGN_RELU = 7,             /* max(v, 0) */
    FGN_SUBTRACT_CHANNEL = 8, /* v - channel[c] */
    FGN_DIVIDE_CHANNEL = 9,   /* v / channel[c] */
    FGN_PRELU = 10,           /* v > 0 ? v : channel[c] * v */
    FGN_ADD_TENSOR = 11,      /* v + tensor[r, c] */
    FGN_ADD = 12,             /* v + a */
    FGN_MULTIPLY = 13,        /* v * a */
    FGN_DIVIDE = 14,          /* v / a */
    FGN_NEG = 15,             /* -v */
    FGN_ABS = 16,             /* |v| */
    FGN_SQUARE = 17,          /* v * v */
    FGN_SQRT = 18,            /* sqrt(v) */
    FGN_EXP = 19,             /* exp(v) */
    FGN_CLAMP = 20,           /* min(max(v, a), b); its slope at a and b is 1, hardtanh's is 0 */
    FGN_THRESHOLD = 21,       /* v <= a ? b : v */
    FGN_HARDSHRINK = 22,      /* -a <= v <= a ? 0 : v */
    FGN_SOFTSHRINK = 23,      /* v > a ? v - a : v < -a ? v + a : 0 */
    FGN_HARDSIGMOID = 24,     /* min(max(v + 3, 0), 6) / 6 */
    FGN_HARDSWISH = 25,       /* v * min(max(v + 3, 0), 6) / 6 */
    FGN_SOFTSIGN = 26,        /* v / (|v| + 1) */
    FGN_SIGMOID = 27,         /* 1 / (1 + exp(-v)) */
    FGN_LOGSIGMOID = 28,      /* min(v, 0) - log(1 + exp(-|v|)) */
    FGN_TANH = 29,            /* tanh(v) */
    FGN_TANHSHRINK = 30,      /* v - tanh(v) */
    FGN_SOFTPLUS = 31,        /* a v > b ? v : log(1 + exp(a v)) / a */
    FGN_ELU = 32,             /* v > 0 ? v : a (exp(v) - 1) */
    FGN_CELU = 33,            /* v > 0 ? v : a (exp(v / a) - 1) */
    FGN_SELU = 34,            /* 1.0507009873554805 (v > 0 ? v : 1.6732632423543773 (exp(v) - 1)) */
    FGN_GELU = 35,            /* v / 2 (1 + erf(v / sqrt(2))) */
    FGN_GELU_TANH = 36        /* v / 2 (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3))) */
} fgn_pointwise_kind;

#define FGN_POINTWISE_KINDS 37

typedef struct fgn_pointwise {
    fgn_pointwise_kind kind;
    float a;
    float b;
    const void *channel; /* (out_features,) for the operators that name it, else unused */
    const void *tensor;  /* (batch, out_features) of y's type for the operator that names it, else unused */
} fgn_pointwise;

#define FGN_MAX_POINTWISE 8

typedef struct fgn_chain {
    long long batch;
    long long in_features;
    long long out_features;
    long long groups; /* divides out_features; 0: no norm and no operators, the product alone */
    float eps;
    fgn_type type;
    fgn_precision precision;
    fgn_type vector_type; /* of the vectors below: FGN_FLOAT32, or `type` where a version reads that */
    int before_count;
    int after_count;
    const void *weight;     /* (out_features, in_features) */
    const void *prepared;   /* what fgn_prepare() wrote for the weight, where a version wants that */
    const void *bias;       /* (out_features,) or NULL */
    const void *norm_scale; /* (out_features,) or NULL for ones */
    const void *norm_shift; /* (out_features,) or NULL for zeros */
    fgn_pointwise before[FGN_MAX_POINTWISE];
    fgn_pointwise after[FGN_MAX_POINTWISE];
} fgn_chain;

/* One rung of the ladder: how a chain is cut into launches. */
typedef struct fgn_version {
    const char *name;
    const char *gemm;    /* the file that holds its matrix product */
    const char *norm;    /* the file that holds its GroupNorm */
    const char *summary; /* one line: what it changes from the version before */
    const char *needs;   /* what it asks of the chain or the device, or "" */
} fgn_version;

int fgn_version_count(void);
const fgn_version *fgn_version_at(int version); /* NULL when out of range */

/* The version that is fastest for this chain by the authors' measurements, among those that run it here. */
int fgn_default_version(const fgn_chain *chain);

/* FGN_OK when `version` runs this chain on the current device; pointers in `chain` may be NULL here. */
fgn_status fgn_supports(int version, const fgn_chain *chain);
/* The number of kernels that fgn_forward() launches. */
fgn_status fgn_launch_count(int version, const fgn_chain *chain, int *launches);
fgn_status fgn_workspace_bytes(int version, const fgn_chain *chain, unsigned long long *bytes);

/* Some versions want the weight in a form of their own, made once and used while the weight stays the same:
 * fgn_prepared_bytes() is what it takes (0: nothing to prepare), fgn_prepare() writes it. */
fgn_status fgn_prepared_bytes(int version, const fgn_chain *chain, unsigned long long *bytes);
fgn_status fgn_prepare(int version, const fgn_chain *chain, void *prepared, void *stream);

/* x: (batch, in_features), y: (batch, out_features). y may not overlap x. */
fgn_status fgn_forward(int version, const fgn_chain *chain, const void *x, void *y, void *workspace,
                       unsigned long long workspace_bytes, void *stream);

/* The version's GroupNorm alone, on float32 x: (batch, channels); needs fgn_group_norm_workspace_bytes(). */
fgn_status fgn_group_norm_workspace_bytes(int version, long long batch, long long groups,
                                          unsigned long long *bytes);
fgn_status fgn_group_norm(int version, long long batch, long long channels, long long groups, float eps,
                          const float *x, const float *norm_scale, const float *norm_shift, float *y,
                          void *workspace, unsigned long long workspace_bytes, void *stream);

/* The explanation of this OS thread's last status other than FGN_OK; valid until its next call. */
const char *fgn_last_error(void);
