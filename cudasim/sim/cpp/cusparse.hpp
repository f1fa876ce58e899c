/* cuSPARSE for programs: its descriptors and its generic functions, for matrices in CSR, CSC and COO, by
 * loops that sum up in doubles and round once. cuSPARSE Library documentation. What is computed is in
 * cusparse_functions.hpp, cusparse_matrices.hpp and cusparse_conversions.hpp. */
#pragma once
#include "library_work.hpp"
#include <algorithm>
#include <map>
#include <numeric>

#define CUSPARSE_VERSION 12500
#define CUSPARSE_VER_MAJOR 12
#define CUSPARSE_VER_MINOR 5
#define CUSPARSE_VER_PATCH 0
#define CUSPARSE_VER_BUILD 0

enum cusparseStatus_t {
    CUSPARSE_STATUS_SUCCESS = 0,
    CUSPARSE_STATUS_NOT_INITIALIZED = 1,
    CUSPARSE_STATUS_ALLOC_FAILED = 2,
    CUSPARSE_STATUS_INVALID_VALUE = 3,
    CUSPARSE_STATUS_ARCH_MISMATCH = 4,
    CUSPARSE_STATUS_MAPPING_ERROR = 5,
    CUSPARSE_STATUS_EXECUTION_FAILED = 6,
    CUSPARSE_STATUS_INTERNAL_ERROR = 7,
    CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED = 8,
    CUSPARSE_STATUS_ZERO_PIVOT = 9,
    CUSPARSE_STATUS_NOT_SUPPORTED = 10,
    CUSPARSE_STATUS_INSUFFICIENT_RESOURCES = 11
};
enum cusparsePointerMode_t { CUSPARSE_POINTER_MODE_HOST, CUSPARSE_POINTER_MODE_DEVICE };
enum cusparseAction_t { CUSPARSE_ACTION_SYMBOLIC, CUSPARSE_ACTION_NUMERIC };
enum cusparseMatrixType_t {
    CUSPARSE_MATRIX_TYPE_GENERAL,
    CUSPARSE_MATRIX_TYPE_SYMMETRIC,
    CUSPARSE_MATRIX_TYPE_HERMITIAN,
    CUSPARSE_MATRIX_TYPE_TRIANGULAR
};
enum cusparseFillMode_t { CUSPARSE_FILL_MODE_LOWER, CUSPARSE_FILL_MODE_UPPER };
enum cusparseDiagType_t { CUSPARSE_DIAG_TYPE_NON_UNIT, CUSPARSE_DIAG_TYPE_UNIT };
enum cusparseIndexBase_t { CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_INDEX_BASE_ONE };
enum cusparseOperation_t {
    CUSPARSE_OPERATION_NON_TRANSPOSE,
    CUSPARSE_OPERATION_TRANSPOSE,
    CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE
};
enum cusparseDirection_t { CUSPARSE_DIRECTION_ROW, CUSPARSE_DIRECTION_COLUMN };
enum cusparseIndexType_t { CUSPARSE_INDEX_16U = 1, CUSPARSE_INDEX_32I = 2, CUSPARSE_INDEX_64I = 3 };
enum cusparseFormat_t {
    CUSPARSE_FORMAT_CSR = 1,
    CUSPARSE_FORMAT_CSC = 2,
    CUSPARSE_FORMAT_COO = 3,
    CUSPARSE_FORMAT_BLOCKED_ELL = 5,
    CUSPARSE_FORMAT_BSR = 6,
    CUSPARSE_FORMAT_SLICED_ELLPACK = 7
};
enum cusparseOrder_t { CUSPARSE_ORDER_COL = 1, CUSPARSE_ORDER_ROW = 2 };
enum cusparseSpMatAttribute_t { CUSPARSE_SPMAT_FILL_MODE, CUSPARSE_SPMAT_DIAG_TYPE };
/* Ways to compute, which have one result here. */
enum cusparseSpMVAlg_t {
    CUSPARSE_SPMV_ALG_DEFAULT,
    CUSPARSE_MV_ALG_DEFAULT = 0,
    CUSPARSE_SPMV_COO_ALG1 = 1,
    CUSPARSE_SPMV_CSR_ALG1 = 2,
    CUSPARSE_SPMV_CSR_ALG2 = 3,
    CUSPARSE_SPMV_COO_ALG2 = 4
};
enum cusparseSpMMAlg_t {
    CUSPARSE_SPMM_ALG_DEFAULT,
    CUSPARSE_SPMM_COO_ALG1 = 1,
    CUSPARSE_SPMM_COO_ALG2 = 2,
    CUSPARSE_SPMM_COO_ALG3 = 3,
    CUSPARSE_SPMM_CSR_ALG1 = 4,
    CUSPARSE_SPMM_COO_ALG4 = 5,
    CUSPARSE_SPMM_CSR_ALG2 = 6,
    CUSPARSE_SPMM_CSR_ALG3 = 12
};
enum cusparseSDDMMAlg_t { CUSPARSE_SDDMM_ALG_DEFAULT };
enum cusparseSpSVAlg_t { CUSPARSE_SPSV_ALG_DEFAULT };
enum cusparseSpSMAlg_t { CUSPARSE_SPSM_ALG_DEFAULT };
enum cusparseSpGEMMAlg_t {
    CUSPARSE_SPGEMM_DEFAULT,
    CUSPARSE_SPGEMM_ALG1 = 3,
    CUSPARSE_SPGEMM_ALG2 = 4,
    CUSPARSE_SPGEMM_ALG3 = 5
};
enum cusparseSparseToDenseAlg_t { CUSPARSE_SPARSETODENSE_ALG_DEFAULT };
enum cusparseDenseToSparseAlg_t { CUSPARSE_DENSETOSPARSE_ALG_DEFAULT };
enum cusparseCsr2CscAlg_t { CUSPARSE_CSR2CSC_ALG_DEFAULT = 1, CUSPARSE_CSR2CSC_ALG1 = 1 };

struct cusparseContext {
    cudaStream_t stream;
    cusparsePointerMode_t mode;
};
typedef cusparseContext *cusparseHandle_t;
struct cusparseMatDescr {
    cusparseMatrixType_t type;
    cusparseFillMode_t fill;
    cusparseDiagType_t diagonal;
    cusparseIndexBase_t base;
};
typedef cusparseMatDescr *cusparseMatDescr_t;
struct cusparseSpVecDescr {
    int64_t size, nnz;
    void *indices, *values;
    cusparseIndexType_t index;
    cusparseIndexBase_t base;
    cudaDataType type;
};
/* offsets: the rows of COO. indices: those of rows in CSC, else of columns. */
struct cusparseSpMatDescr {
    cusparseFormat_t format;
    int64_t rows, columns, nnz;
    void *offsets, *indices, *values;
    cusparseIndexType_t offset, index;
    cusparseIndexBase_t base;
    cudaDataType type;
    cusparseFillMode_t fill = CUSPARSE_FILL_MODE_LOWER;
    cusparseDiagType_t diagonal = CUSPARSE_DIAG_TYPE_NON_UNIT;
    int count = 1;
    int64_t offsets_apart = 0, values_apart = 0;
};
/* A vector is a matrix of one column. */
struct cusparseDnMatDescr {
    int64_t rows, columns, ld;
    void *values;
    cudaDataType type;
    cusparseOrder_t order;
    int count;
    int64_t apart;
};
struct cusparseDnVecDescr : cusparseDnMatDescr {};
typedef cusparseSpVecDescr *cusparseSpVecDescr_t;
typedef cusparseSpMatDescr *cusparseSpMatDescr_t;
typedef cusparseDnMatDescr *cusparseDnMatDescr_t;
typedef cusparseDnVecDescr *cusparseDnVecDescr_t;
typedef const cusparseSpVecDescr *cusparseConstSpVecDescr_t;
typedef const cusparseSpMatDescr *cusparseConstSpMatDescr_t;
typedef const cusparseDnMatDescr *cusparseConstDnMatDescr_t;
typedef const cusparseDnVecDescr *cusparseConstDnVecDescr_t;

/* ---- Handles and descriptors ---- */

inline constexpr sim_creates<cusparseStatus_t, cusparseContext> cusparseCreate;
inline constexpr sim_destroys<cusparseStatus_t, cusparseContext> cusparseDestroy;
inline constexpr sim_sets<cusparseStatus_t, &cusparseContext::stream> cusparseSetStream;
inline constexpr sim_tells<cusparseStatus_t, &cusparseContext::stream> cusparseGetStream;
inline constexpr sim_sets<cusparseStatus_t, &cusparseContext::mode> cusparseSetPointerMode;
inline constexpr sim_tells<cusparseStatus_t, &cusparseContext::mode> cusparseGetPointerMode;
inline constexpr sim_creates<cusparseStatus_t, cusparseMatDescr> cusparseCreateMatDescr;
inline constexpr sim_destroys<cusparseStatus_t, cusparseMatDescr> cusparseDestroyMatDescr;
inline constexpr sim_sets<cusparseStatus_t, &cusparseMatDescr::type> cusparseSetMatType;
inline constexpr sim_sets<cusparseStatus_t, &cusparseMatDescr::fill> cusparseSetMatFillMode;
inline constexpr sim_sets<cusparseStatus_t, &cusparseMatDescr::diagonal> cusparseSetMatDiagType;
inline constexpr sim_sets<cusparseStatus_t, &cusparseMatDescr::base> cusparseSetMatIndexBase;
inline cusparseStatus_t cusparseGetVersion(cusparseHandle_t, int *version) {
    return *version = CUSPARSE_VERSION, CUSPARSE_STATUS_SUCCESS;
}
inline const char *cusparseGetErrorName(cusparseStatus_t status) {
    static const char *const names[] = {"CUSPARSE_STATUS_SUCCESS",
                                        "CUSPARSE_STATUS_NOT_INITIALIZED",
                                        "CUSPARSE_STATUS_ALLOC_FAILED",
                                        "CUSPARSE_STATUS_INVALID_VALUE",
                                        "CUSPARSE_STATUS_ARCH_MISMATCH",
                                        "CUSPARSE_STATUS_MAPPING_ERROR",
                                        "CUSPARSE_STATUS_EXECUTION_FAILED",
                                        "CUSPARSE_STATUS_INTERNAL_ERROR",
                                        "CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED",
                                        "CUSPARSE_STATUS_ZERO_PIVOT",
                                        "CUSPARSE_STATUS_NOT_SUPPORTED",
                                        "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES"};
    return names[status];
}
inline const char *cusparseGetErrorString(cusparseStatus_t status) {
    return cusparseGetErrorName(status);
}

inline bool sim_sparse_has(const char *function, cudaDataType type) {
    switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
    case CUDA_R_32F:
    case CUDA_R_64F:
    case CUDA_C_32F:
    case CUDA_C_64F:
        return true;
    default:
        return sim_library_lacks(function, "values of the type", type), false;
    }
}
inline bool sim_sparse_has(const char *function, cusparseIndexType_t type) {
    if (type != CUSPARSE_INDEX_32I && type != CUSPARSE_INDEX_64I)
        return sim_library_lacks(function, "indices of the type", type), false;
    return true;
}
inline cusparseStatus_t sim_sparse_create(const char *function, cusparseSpMatDescr_t *to,
                                          cusparseSpMatDescr of) {
    if (!sim_sparse_has(function, of.type) || !sim_sparse_has(function, of.index) ||
        !sim_sparse_has(function, of.offset))
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    if (of.rows < 0 || of.columns < 0 || of.nnz < 0)
        return CUSPARSE_STATUS_INVALID_VALUE;
    return *to = new cusparseSpMatDescr(of), CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t *to, int64_t rows, int64_t columns,
                                          int64_t nnz, void *offsets, void *indices, void *values,
                                          cusparseIndexType_t offset, cusparseIndexType_t index,
                                          cusparseIndexBase_t base, cudaDataType type) {
    return sim_sparse_create(
        __func__, to,
        {CUSPARSE_FORMAT_CSR, rows, columns, nnz, offsets, indices, values, offset, index, base, type});
}
inline cusparseStatus_t cusparseCreateCsc(cusparseSpMatDescr_t *to, int64_t rows, int64_t columns,
                                          int64_t nnz, void *offsets, void *indices, void *values,
                                          cusparseIndexType_t offset, cusparseIndexType_t index,
                                          cusparseIndexBase_t base, cudaDataType type) {
    return sim_sparse_create(
        __func__, to,
        {CUSPARSE_FORMAT_CSC, rows, columns, nnz, offsets, indices, values, offset, index, base, type});
}
inline cusparseStatus_t cusparseCreateCoo(cusparseSpMatDescr_t *to, int64_t rows, int64_t columns,
                                          int64_t nnz, void *row_of, void *column_of, void *values,
                                          cusparseIndexType_t index, cusparseIndexBase_t base,
                                          cudaDataType type) {
    return sim_sparse_create(
        __func__, to,
        {CUSPARSE_FORMAT_COO, rows, columns, nnz, row_of, column_of, values, index, index, base, type});
}
inline constexpr sim_destroys<cusparseStatus_t, cusparseSpMatDescr> cusparseDestroySpMat;
inline cusparseStatus_t cusparseSpMatGetSize(cusparseConstSpMatDescr_t of, int64_t *rows, int64_t *columns,
                                             int64_t *nnz) {
    return *rows = of->rows, *columns = of->columns, *nnz = of->nnz, CUSPARSE_STATUS_SUCCESS;
}
inline constexpr sim_tells<cusparseStatus_t, &cusparseSpMatDescr::format> cusparseSpMatGetFormat;
inline constexpr sim_tells<cusparseStatus_t, &cusparseSpMatDescr::base> cusparseSpMatGetIndexBase;
inline constexpr sim_tells<cusparseStatus_t, &cusparseSpMatDescr::values> cusparseSpMatGetValues;
inline constexpr sim_sets<cusparseStatus_t, &cusparseSpMatDescr::values> cusparseSpMatSetValues;
inline cusparseStatus_t sim_sparse_point(cusparseSpMatDescr_t of, void *offsets, void *indices,
                                         void *values) {
    of->offsets = offsets, of->indices = indices, of->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}
inline constexpr auto cusparseCsrSetPointers = sim_sparse_point;
inline constexpr auto cusparseCscSetPointers = sim_sparse_point;
inline constexpr auto cusparseCooSetPointers = sim_sparse_point;
inline cusparseStatus_t cusparseCsrSetStridedBatch(cusparseSpMatDescr_t of, int count, int64_t offsets,
                                                   int64_t values) {
    return of->count = count, of->offsets_apart = offsets, of->values_apart = values, CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseCooSetStridedBatch(cusparseSpMatDescr_t of, int count, int64_t values) {
    return of->count = count, of->offsets_apart = values, of->values_apart = values, CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t of, cusparseSpMatAttribute_t which,
                                                  void *value, size_t) {
    if (which == CUSPARSE_SPMAT_FILL_MODE)
        of->fill = *(cusparseFillMode_t *)value;
    else
        of->diagonal = *(cusparseDiagType_t *)value;
    return CUSPARSE_STATUS_SUCCESS;
}

inline cusparseStatus_t cusparseCreateSpVec(cusparseSpVecDescr_t *to, int64_t size, int64_t nnz,
                                            void *indices, void *values, cusparseIndexType_t index,
                                            cusparseIndexBase_t base, cudaDataType type) {
    if (!sim_sparse_has(__func__, type) || !sim_sparse_has(__func__, index))
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    return *to = new cusparseSpVecDescr{size, nnz, indices, values, index, base, type},
           CUSPARSE_STATUS_SUCCESS;
}
inline constexpr sim_destroys<cusparseStatus_t, cusparseSpVecDescr> cusparseDestroySpVec;
inline constexpr sim_sets<cusparseStatus_t, &cusparseSpVecDescr::values> cusparseSpVecSetValues;
inline constexpr sim_tells<cusparseStatus_t, &cusparseSpVecDescr::values> cusparseSpVecGetValues;
inline cusparseStatus_t cusparseCreateDnVec(cusparseDnVecDescr_t *to, int64_t size, void *values,
                                            cudaDataType type) {
    if (!sim_sparse_has(__func__, type))
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    return *to = new cusparseDnVecDescr{{size, 1, size, values, type, CUSPARSE_ORDER_COL, 1, 0}},
           CUSPARSE_STATUS_SUCCESS;
}
inline constexpr sim_destroys<cusparseStatus_t, cusparseDnVecDescr> cusparseDestroyDnVec;
inline constexpr sim_sets<cusparseStatus_t, &cusparseDnVecDescr::values, cusparseDnVecDescr>
    cusparseDnVecSetValues;
inline constexpr sim_tells<cusparseStatus_t, &cusparseDnVecDescr::values, cusparseDnVecDescr>
    cusparseDnVecGetValues;
inline cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t *to, int64_t rows, int64_t columns,
                                            int64_t ld, void *values, cudaDataType type,
                                            cusparseOrder_t order) {
    if (!sim_sparse_has(__func__, type))
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    if (rows < 0 || columns < 0 || ld < (order == CUSPARSE_ORDER_COL ? rows : columns))
        return CUSPARSE_STATUS_INVALID_VALUE;
    return *to = new cusparseDnMatDescr{rows, columns, ld, values, type, order, 1, 0},
           CUSPARSE_STATUS_SUCCESS;
}
inline constexpr sim_destroys<cusparseStatus_t, cusparseDnMatDescr> cusparseDestroyDnMat;
inline constexpr sim_sets<cusparseStatus_t, &cusparseDnMatDescr::values> cusparseDnMatSetValues;
inline constexpr sim_tells<cusparseStatus_t, &cusparseDnMatDescr::values> cusparseDnMatGetValues;
inline cusparseStatus_t cusparseDnMatSetStridedBatch(cusparseDnMatDescr_t of, int count, int64_t apart) {
    return of->count = count, of->apart = apart, CUSPARSE_STATUS_SUCCESS;
}

#include "cusparse_conversions.hpp"
#include "cusparse_functions.hpp"
#include "cusparse_matrices.hpp"
