/* cublasLt for programs: its product with the epilogues of a bias, ReLU and GELU. Matrices are in columns or
 * rows. It is computed in floats (in doubles where D is double or int) and rounded once, after the epilogue.
 * cuBLAS Library documentation, "Using the cuBLASLt API". What is not here is refused with a message. */
#pragma once
#include "cublas.hpp"

#define CUBLASLT_NUMERICAL_IMPL_FLAGS_MMA (0x02ull << 0)

typedef struct cublasLtContext *cublasLtHandle_t;
enum cublasLtMatmulDescAttributes_t {
    CUBLASLT_MATMUL_DESC_COMPUTE_TYPE = 0,
    CUBLASLT_MATMUL_DESC_SCALE_TYPE = 1,
    CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,
    CUBLASLT_MATMUL_DESC_TRANSA = 3,
    CUBLASLT_MATMUL_DESC_TRANSB = 4,
    CUBLASLT_MATMUL_DESC_TRANSC = 5,
    CUBLASLT_MATMUL_DESC_FILL_MODE = 6,
    CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
    CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE = 10,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE = 13,
    CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE = 14,
    CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET = 15,
    CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,
    CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,
    CUBLASLT_MATMUL_DESC_C_SCALE_POINTER = 19,
    CUBLASLT_MATMUL_DESC_D_SCALE_POINTER = 20,
    CUBLASLT_MATMUL_DESC_AMAX_D_POINTER = 21,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE = 22,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER = 23,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER = 24,
    CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25,
    CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26
};
enum cublasLtEpilogue_t {
    CUBLASLT_EPILOGUE_DEFAULT = 1,
    CUBLASLT_EPILOGUE_RELU = 2,
    CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_EPILOGUE_RELU_BIAS = 6,
    CUBLASLT_EPILOGUE_DRELU = 136,
    CUBLASLT_EPILOGUE_DRELU_BGRAD = 152,
    CUBLASLT_EPILOGUE_RELU_AUX = 130,
    CUBLASLT_EPILOGUE_RELU_AUX_BIAS = 134,
    CUBLASLT_EPILOGUE_GELU = 32,
    CUBLASLT_EPILOGUE_GELU_BIAS = 36,
    CUBLASLT_EPILOGUE_GELU_AUX = 160,
    CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
    CUBLASLT_EPILOGUE_DGELU = 192,
    CUBLASLT_EPILOGUE_DGELU_BGRAD = 208,
    CUBLASLT_EPILOGUE_BGRADA = 256,
    CUBLASLT_EPILOGUE_BGRADB = 512
};
enum cublasLtPointerMode_t {
    CUBLASLT_POINTER_MODE_HOST,
    CUBLASLT_POINTER_MODE_DEVICE,
    CUBLASLT_POINTER_MODE_DEVICE_VECTOR,
    CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO,
    CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST
};
enum cublasLtOrder_t { CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW, CUBLASLT_ORDER_COL32 };
enum cublasLtMatrixLayoutAttribute_t {
    CUBLASLT_MATRIX_LAYOUT_TYPE,
    CUBLASLT_MATRIX_LAYOUT_ORDER,
    CUBLASLT_MATRIX_LAYOUT_ROWS,
    CUBLASLT_MATRIX_LAYOUT_COLS,
    CUBLASLT_MATRIX_LAYOUT_LD,
    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
    CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET
};
enum cublasLtMatmulPreferenceAttributes_t {
    CUBLASLT_MATMUL_PREF_SEARCH_MODE = 0,
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
    CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT = 9,
    CUBLASLT_MATMUL_PREF_IMPL_MASK = 12
};
struct cublasLtMatmulDescOpaque_t {
    cublasComputeType_t compute;
    cudaDataType scalars;
    cublasLtPointerMode_t mode;
    cublasOperation_t a, b;
    cublasLtEpilogue_t epilogue;
    const void *bias;
    const float *scale_a, *scale_b, *scale_c, *scale_d;
    float *amax;
    int64_t bias_apart;
    int bias_type;
};
typedef cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
struct cublasLtMatrixLayoutOpaque_t {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t ld;
    cublasLtOrder_t order;
    int count;
    int64_t apart;
};
typedef cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
/* Ways to compute have one result here. */
struct cublasLtMatmulPreferenceOpaque_t {};
typedef cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;
struct cublasLtMatmulAlgo_t {
    uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
};

/* ---- Handles and descriptors ---- */

inline cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    return *handle = (cublasLtHandle_t) new cublasContext(), CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    return delete (cublasContext *)handle, CUBLAS_STATUS_SUCCESS;
}
inline size_t cublasLtGetVersion() {
    return 130000;
}
inline cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t of, cublasComputeType_t compute,
                                             cudaDataType scalars) {
    *of = {};
    of->compute = compute, of->scalars = scalars;
    of->epilogue = CUBLASLT_EPILOGUE_DEFAULT, of->bias_type = -1;
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *of, cublasComputeType_t compute,
                                               cudaDataType scalars) {
    return cublasLtMatmulDescInit(*of = new cublasLtMatmulDescOpaque_t, compute, scalars);
}
inline constexpr sim_destroys<cublasStatus_t, cublasLtMatmulDescOpaque_t> cublasLtMatmulDescDestroy;
/* An attribute, and the member of a descriptor that it sets. */
struct sim_lt_attribute {
    int which;
    void *to;
    size_t bytes;
    template <class T> sim_lt_attribute(int which, T &to) : which(which), to((void *)&to), bytes(sizeof to) {}
};
inline cublasStatus_t sim_lt_set(const char *function, std::initializer_list<sim_lt_attribute> all, int which,
                                 const void *from, size_t bytes) {
    for (const sim_lt_attribute &one : all)
        if (one.which == which && bytes != one.bytes)
            return CUBLAS_STATUS_INVALID_VALUE;
        else if (one.which == which)
            return memcpy(one.to, from, bytes), CUBLAS_STATUS_SUCCESS;
    return sim_library_lacks(function, "attribute", which), CUBLAS_STATUS_NOT_SUPPORTED;
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of,
                                                     cublasLtMatmulDescAttributes_t which, const void *from,
                                                     size_t bytes) {
    if (which == CUBLASLT_MATMUL_DESC_FAST_ACCUM || which == CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET)
        return CUBLAS_STATUS_SUCCESS; /* how exact it is, and where it runs */
    return sim_lt_set(__func__,
                      {{CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, of->compute},
                       {CUBLASLT_MATMUL_DESC_SCALE_TYPE, of->scalars},
                       {CUBLASLT_MATMUL_DESC_POINTER_MODE, of->mode},
                       {CUBLASLT_MATMUL_DESC_TRANSA, of->a},
                       {CUBLASLT_MATMUL_DESC_TRANSB, of->b},
                       {CUBLASLT_MATMUL_DESC_EPILOGUE, of->epilogue},
                       {CUBLASLT_MATMUL_DESC_BIAS_POINTER, of->bias},
                       {CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, of->bias_apart},
                       {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, of->bias_type},
                       {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, of->scale_a},
                       {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, of->scale_b},
                       {CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, of->scale_c},
                       {CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, of->scale_d},
                       {CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, of->amax}},
                      which, from, bytes);
}
inline cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t of, cudaDataType type, uint64_t rows,
                                               uint64_t columns, int64_t ld) {
    return *of = {type, rows, columns, ld, CUBLASLT_ORDER_COL, 1, 0}, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *of, cudaDataType type, uint64_t rows,
                                                 uint64_t columns, int64_t ld) {
    return cublasLtMatrixLayoutInit(*of = new cublasLtMatrixLayoutOpaque_t, type, rows, columns, ld);
}
inline constexpr sim_destroys<cublasStatus_t, cublasLtMatrixLayoutOpaque_t> cublasLtMatrixLayoutDestroy;
inline cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t of,
                                                       cublasLtMatrixLayoutAttribute_t which,
                                                       const void *from, size_t bytes) {
    return sim_lt_set(__func__,
                      {{CUBLASLT_MATRIX_LAYOUT_TYPE, of->type},
                       {CUBLASLT_MATRIX_LAYOUT_ORDER, of->order},
                       {CUBLASLT_MATRIX_LAYOUT_ROWS, of->rows},
                       {CUBLASLT_MATRIX_LAYOUT_COLS, of->columns},
                       {CUBLASLT_MATRIX_LAYOUT_LD, of->ld},
                       {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, of->count},
                       {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, of->apart}},
                      which, from, bytes);
}
inline constexpr sim_ignores<cublasStatus_t, cublasLtMatmulPreference_t> cublasLtMatmulPreferenceInit;
inline constexpr sim_creates<cublasStatus_t, cublasLtMatmulPreferenceOpaque_t> cublasLtMatmulPreferenceCreate;
inline constexpr sim_destroys<cublasStatus_t, cublasLtMatmulPreferenceOpaque_t>
    cublasLtMatmulPreferenceDestroy;
inline constexpr sim_ignores<cublasStatus_t, cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                             const void *, size_t>
    cublasLtMatmulPreferenceSetAttribute;

/* ---- The product ---- */

inline bool sim_is_float8(cudaDataType type) {
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}
inline bool sim_lt_has(const cublasLtMatmulDescOpaque_t &of,
                       std::initializer_list<cublasLtMatrixLayoutOpaque_t> matrices) {
    const char *function = "cublasLtMatmul";
    for (const cublasLtMatrixLayoutOpaque_t &matrix : matrices) {
        if (!sim_has_product(matrix.type) && !sim_is_float8(matrix.type))
            return sim_library_lacks(function, "matrix of the type", matrix.type), false;
        if (matrix.order != CUBLASLT_ORDER_COL && matrix.order != CUBLASLT_ORDER_ROW)
            return sim_library_lacks(function, "matrix of the order", matrix.order), false;
    }
    if (matrices.end()[-1].type == CUDA_R_8I)
        return sim_library_lacks(function, "result of the type", CUDA_R_8I), false;
    if (of.mode != CUBLASLT_POINTER_MODE_HOST && of.mode != CUBLASLT_POINTER_MODE_DEVICE)
        return sim_library_lacks(function, "pointer mode", of.mode), false;
    if ((of.epilogue & ~(CUBLASLT_EPILOGUE_DEFAULT | CUBLASLT_EPILOGUE_RELU_BIAS | CUBLASLT_EPILOGUE_GELU)) ||
        (of.epilogue & CUBLASLT_EPILOGUE_BIAS && of.bias_type == -1 &&
         sim_is_float8(matrices.end()[-1].type)))
        return sim_library_lacks(function, "epilogue without its bias's type, or none at all,", of.epilogue),
               false;
    return true;
}
/* GPUs multiply floats of 8 bits where A is turned and B is not, and nothing else. */
inline bool sim_lt_fits(const cublasLtMatmulDescOpaque_t &of, const cublasLtMatrixLayoutOpaque_t &a,
                        const cublasLtMatrixLayoutOpaque_t &b) {
    return !sim_is_float8(a.type) || (of.a == CUBLAS_OP_T && of.b == CUBLAS_OP_N && a.rows % 16 == 0 &&
                                      a.ld % 16 == 0 && b.ld % 16 == 0);
}
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t of,
                                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                     cublasLtMatmulPreference_t, int wanted,
                                                     cublasLtMatmulHeuristicResult_t *results, int *found) {
    *found = 0;
    if (!sim_lt_has(*of, {*a, *b, *c, *d}) || !sim_lt_fits(*of, *a, *b))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (wanted > 0)
        results[(*found)++] = {};
    return CUBLAS_STATUS_SUCCESS;
}
inline size_t sim_lt_place(const cublasLtMatrixLayoutOpaque_t &of, size_t row, size_t column) {
    return of.order == CUBLASLT_ORDER_COL ? row + column * (size_t)of.ld : row * (size_t)of.ld + column;
}
/* op(matrix), in columns. */
template <class W>
std::vector<W> sim_lt_matrix(const void *from, const cublasLtMatrixLayoutOpaque_t &of, bool is_turned,
                             int batch) {
    size_t rows = is_turned ? of.columns : of.rows, columns = is_turned ? of.rows : of.columns;
    std::vector<W> matrix(rows * columns);
    for (size_t column = 0; column < columns; column++)
        for (size_t row = 0; row < rows; row++) {
            size_t at = is_turned ? sim_lt_place(of, column, row) : sim_lt_place(of, row, column);
            matrix[row + column * rows] =
                sim_read_as<W>(from, of.type, (size_t)(batch * of.apart * (of.count > 1)) + at);
        }
    return matrix;
}
template <class W> W sim_lt_epilogue(int epilogue, W x) {
    if (epilogue & CUBLASLT_EPILOGUE_RELU)
        return x > 0 || x != x ? x : 0;
    if (epilogue & CUBLASLT_EPILOGUE_GELU)
        return x / 2 * (1 + std::tanh((W)0.7978845608028654 * (x + (W)0.044715 * x * x * x)));
    return x;
}
template <class W> struct sim_lt_product {
    cublasLtMatmulDescOpaque_t of;
    const void *a, *b, *c;
    void *d;
    cublasLtMatrixLayoutOpaque_t layout_a, layout_b, layout_c, layout_d;
    void run(W alpha, W beta) const {
        float largest = 0;
        for (int batch = 0; batch < layout_d.count; batch++) {
            size_t m = layout_d.rows, n = layout_d.columns;
            size_t k = of.a == CUBLAS_OP_N ? layout_a.columns : layout_a.rows;
            std::vector<W> x = sim_lt_matrix<W>(a, layout_a, of.a != CUBLAS_OP_N, batch);
            std::vector<W> y = sim_lt_matrix<W>(b, layout_b, of.b != CUBLAS_OP_N, batch), z(m * n);
            if (beta != 0)
                z = sim_lt_matrix<W>(c, layout_c, false, batch);
            sim_product(CUBLAS_OP_N, CUBLAS_OP_N, (int)m, (int)n, (int)k, alpha, x.data(), (int)m, y.data(),
                        (int)k, beta, z.data(), (int)m);
            for (size_t column = 0; column < n; column++)
                for (size_t row = 0; row < m; row++) {
                    W value = z[row + column * m];
                    if (of.epilogue & CUBLASLT_EPILOGUE_BIAS) {
                        cudaDataType type = of.bias_type == -1 ? layout_d.type : (cudaDataType)of.bias_type;
                        value += sim_read_as<W>(of.bias, type, (size_t)(batch * of.bias_apart) + row);
                    }
                    value = sim_lt_epilogue(of.epilogue, value);
                    largest = std::max(largest, (float)std::abs(value));
                    if (of.scale_d && sim_is_float8(layout_d.type))
                        value *= *of.scale_d;
                    size_t at = (size_t)(batch * layout_d.apart) + sim_lt_place(layout_d, row, column);
                    sim_write_as(d, layout_d.type, at, value);
                }
        }
        if (of.amax)
            sim_result(of.amax, largest);
    }
};
inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t of, const void *alpha,
                                     const void *a, cublasLtMatrixLayout_t layout_a, const void *b,
                                     cublasLtMatrixLayout_t layout_b, const void *beta, const void *c,
                                     cublasLtMatrixLayout_t layout_c, void *d,
                                     cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t *, void *,
                                     size_t, cudaStream_t stream) {
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    bool turns_a = of->a != CUBLAS_OP_N, turns_b = of->b != CUBLAS_OP_N;
    const cublasLtMatrixLayoutOpaque_t &of_a = *layout_a, &of_b = *layout_b, &of_c = *layout_c,
                                       &of_d = *layout_d;
    if ((turns_a ? of_a.columns : of_a.rows) != of_d.rows ||
        (turns_b ? of_b.rows : of_b.columns) != of_d.columns ||
        (turns_a ? of_a.rows : of_a.columns) != (turns_b ? of_b.columns : of_b.rows) ||
        of_c.rows != of_d.rows || of_c.columns != of_d.columns ||
        (of->epilogue & CUBLASLT_EPILOGUE_BIAS && !of->bias))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!sim_lt_has(*of, {of_a, of_b, of_c, of_d}) || !sim_lt_fits(*of, of_a, of_b))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    bool is_on_device = of->mode == CUBLASLT_POINTER_MODE_DEVICE,
         is_wide = of_d.type == CUDA_R_64F || of_d.type == CUDA_R_32I;
    double by = is_on_device ? 0 : sim_read_as<double>(alpha, of->scalars, 0);
    double before = is_on_device ? 0 : sim_read_as<double>(beta, of->scalars, 0);
    sim_library_work(stream, [=, of = *of, of_a = of_a, of_b = of_b, of_c = of_c, of_d = of_d] {
        double scale = is_on_device ? sim_read_as<double>(alpha, of.scalars, 0) : by;
        double rest = is_on_device ? sim_read_as<double>(beta, of.scalars, 0) : before;
        if (sim_is_float8(of_a.type))
            scale *= (of.scale_a ? *of.scale_a : 1.0f) * (of.scale_b ? *of.scale_b : 1.0f);
        if (of.scale_c && sim_is_float8(of_c.type))
            rest *= *of.scale_c;
        auto in = [&](auto one) {
            using W = decltype(one);
            sim_lt_product<W>{of, a, b, c, d, of_a, of_b, of_c, of_d}.run((W)scale, (W)rest);
        };
        if (is_wide)
            in(0.0);
        else
            in(0.0f);
    });
    return CUBLAS_STATUS_SUCCESS;
}
