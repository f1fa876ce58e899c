/* cuBLAS for programs: products and solvers by numpy's BLAS (cudasim/programs/blas.py finds it), the rest by
 * loops. Matrices are column-major, as in Fortran. cuBLAS Library documentation.
 *
 * Numbers of 16 bits are multiplied as floats, and rounded once at the end. Not here: symmetric and banded
 * matrices of level 2. cublasLt.hpp has cublasLt. */
#pragma once
#include "library_work.hpp"

#define CUBLAS_API_H_ /* by which others know that it is there */
#ifndef SIM_BLAS
#error                                                                                                       \
    "cuBLAS needs a BLAS: that of numpy's wheels (pip install numpy), or libopenblas or libblas of the system"
#endif

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C, CUBLAS_OP_HERMITAN = CUBLAS_OP_C };
enum cublasFillMode_t { CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER, CUBLAS_FILL_MODE_FULL };
enum cublasDiagType_t { CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT };
enum cublasSideMode_t { CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE };
enum cublasAtomicsMode_t { CUBLAS_ATOMICS_NOT_ALLOWED, CUBLAS_ATOMICS_ALLOWED };
enum cublasMath_t {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_TENSOR_OP_MATH = 1,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_TF32_TENSOR_OP_MATH = 3,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
};
enum cublasGemmAlgo_t {
    CUBLAS_GEMM_DFALT = -1,
    CUBLAS_GEMM_DEFAULT = -1,
    CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99
};
enum cublasComputeType_t {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_16F_PEDANTIC = 65,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_64F_PEDANTIC = 71,
    CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32I_PEDANTIC = 73,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
struct cublasContext {
    cudaStream_t stream;
    cublasPointerMode_t mode;
    cublasMath_t math;
};
typedef cublasContext *cublasHandle_t;

/* ---- The BLAS ---- */

template <class T>
using sim_gemm_of = void(const char *, const char *, const sim_blas_int *, const sim_blas_int *,
                         const sim_blas_int *, const T *, const T *, const sim_blas_int *, const T *,
                         const sim_blas_int *, const T *, T *, const sim_blas_int *);
template <class T>
using sim_triangle_of = void(const char *, const char *, const char *, const char *, const sim_blas_int *,
                             const sim_blas_int *, const T *, const T *, const sim_blas_int *, T *,
                             const sim_blas_int *);
template <class T>
using sim_symm_of = void(const char *, const char *, const sim_blas_int *, const sim_blas_int *, const T *,
                         const T *, const sim_blas_int *, const T *, const sim_blas_int *, const T *, T *,
                         const sim_blas_int *);
template <class T>
using sim_syrk_of = void(const char *, const char *, const sim_blas_int *, const sim_blas_int *, const T *,
                         const T *, const sim_blas_int *, const T *, T *, const sim_blas_int *);
template <class T>
using sim_getrf_of = void(const sim_blas_int *, const sim_blas_int *, T *, const sim_blas_int *,
                          sim_blas_int *, sim_blas_int *);
template <class T>
using sim_getri_of = void(const sim_blas_int *, T *, const sim_blas_int *, const sim_blas_int *, T *,
                          const sim_blas_int *, sim_blas_int *);
extern "C" {
sim_gemm_of<float> SIM_BLAS(sgemm);
sim_gemm_of<double> SIM_BLAS(dgemm);
sim_gemm_of<cuComplex> SIM_BLAS(cgemm);
sim_gemm_of<cuDoubleComplex> SIM_BLAS(zgemm);
sim_triangle_of<float> SIM_BLAS(strsm), SIM_BLAS(strmm);
sim_triangle_of<double> SIM_BLAS(dtrsm), SIM_BLAS(dtrmm);
sim_symm_of<float> SIM_BLAS(ssymm);
sim_symm_of<double> SIM_BLAS(dsymm);
sim_syrk_of<float> SIM_BLAS(ssyrk);
sim_syrk_of<double> SIM_BLAS(dsyrk);
sim_getrf_of<float> SIM_BLAS(sgetrf);
sim_getrf_of<double> SIM_BLAS(dgetrf);
sim_getri_of<float> SIM_BLAS(sgetri);
sim_getri_of<double> SIM_BLAS(dgetri);
}
template <class T> struct sim_blas;
template <> struct sim_blas<float> {
    static constexpr auto gemm = SIM_BLAS(sgemm);
    static constexpr auto trsm = SIM_BLAS(strsm), trmm = SIM_BLAS(strmm);
    static constexpr auto symm = SIM_BLAS(ssymm);
    static constexpr auto syrk = SIM_BLAS(ssyrk);
    static constexpr auto getrf = SIM_BLAS(sgetrf);
    static constexpr auto getri = SIM_BLAS(sgetri);
};
template <> struct sim_blas<double> {
    static constexpr auto gemm = SIM_BLAS(dgemm);
    static constexpr auto trsm = SIM_BLAS(dtrsm), trmm = SIM_BLAS(dtrmm);
    static constexpr auto symm = SIM_BLAS(dsymm);
    static constexpr auto syrk = SIM_BLAS(dsyrk);
    static constexpr auto getrf = SIM_BLAS(dgetrf);
    static constexpr auto getri = SIM_BLAS(dgetri);
};
template <> struct sim_blas<cuComplex> {
    static constexpr auto gemm = SIM_BLAS(cgemm);
};
template <> struct sim_blas<cuDoubleComplex> {
    static constexpr auto gemm = SIM_BLAS(zgemm);
};
inline const char *sim_letter(cublasOperation_t operation) {
    return operation == CUBLAS_OP_N ? "N" : operation == CUBLAS_OP_T ? "T" : "C";
}
inline const char *sim_letter(cublasFillMode_t fill) {
    return fill == CUBLAS_FILL_MODE_LOWER ? "L" : "U";
}
inline const char *sim_letter(cublasSideMode_t side) {
    return side == CUBLAS_SIDE_LEFT ? "L" : "R";
}
inline const char *sim_letter(cublasDiagType_t diagonal) {
    return diagonal == CUBLAS_DIAG_UNIT ? "U" : "N";
}

/* ---- Handles ---- */

inline constexpr sim_creates<cublasStatus_t, cublasContext> cublasCreate;
inline constexpr sim_destroys<cublasStatus_t, cublasContext> cublasDestroy;
inline constexpr sim_sets<cublasStatus_t, &cublasContext::stream> cublasSetStream;
inline constexpr sim_tells<cublasStatus_t, &cublasContext::stream> cublasGetStream;
inline constexpr sim_sets<cublasStatus_t, &cublasContext::mode> cublasSetPointerMode;
inline constexpr sim_tells<cublasStatus_t, &cublasContext::mode> cublasGetPointerMode;
inline constexpr sim_sets<cublasStatus_t, &cublasContext::math> cublasSetMathMode;
inline constexpr sim_tells<cublasStatus_t, &cublasContext::math> cublasGetMathMode;
inline constexpr sim_ignores<cublasStatus_t, cublasHandle_t, cublasAtomicsMode_t> cublasSetAtomicsMode;
inline constexpr sim_ignores<cublasStatus_t, cublasHandle_t, void *, size_t> cublasSetWorkspace;
inline cublasStatus_t cublasGetVersion(cublasHandle_t, int *version) {
    return *version = 130000, CUBLAS_STATUS_SUCCESS;
}
inline const char *cublasGetStatusName(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
        return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}
inline const char *cublasGetStatusString(cublasStatus_t status) {
    return cublasGetStatusName(status);
}

template <class F> cublasStatus_t sim_cublas(cublasHandle_t handle, F work) {
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    sim_library_work(handle->stream, work);
    return CUBLAS_STATUS_SUCCESS;
}
/* The value of alpha or beta, which is read at the call if it is in host memory. */
template <class T> struct sim_scalar {
    const T *at;
    T value;
    sim_scalar(cublasHandle_t handle, const T *from)
        : at(handle && handle->mode == CUBLAS_POINTER_MODE_DEVICE ? from : 0), value(at ? T() : *from) {}
    T get() const {
        return at ? *at : value;
    }
};

/* ---- Vectors and matrices between host and device ---- */

inline cublasStatus_t sim_copied(cudaError_t error) {
    return error ? CUBLAS_STATUS_MAPPING_ERROR : CUBLAS_STATUS_SUCCESS;
}
SIM_HOST cublasStatus_t cublasSetMatrix(int rows, int columns, int bytes, const void *from, int from_rows,
                                        void *to, int to_rows, SIM_CALLED) {
    return sim_copied(cudaMemcpy2D(to, (size_t)to_rows * bytes, from, (size_t)from_rows * bytes,
                                   (size_t)rows * bytes, columns, cudaMemcpyHostToDevice, sim_file,
                                   sim_line));
}
SIM_HOST cublasStatus_t cublasGetMatrix(int rows, int columns, int bytes, const void *from, int from_rows,
                                        void *to, int to_rows, SIM_CALLED) {
    return sim_copied(cudaMemcpy2D(to, (size_t)to_rows * bytes, from, (size_t)from_rows * bytes,
                                   (size_t)rows * bytes, columns, cudaMemcpyDeviceToHost, sim_file,
                                   sim_line));
}
SIM_HOST cublasStatus_t cublasSetVector(int count, int bytes, const void *from, int from_stride, void *to,
                                        int to_stride, SIM_CALLED) {
    return cublasSetMatrix(1, count, bytes, from, from_stride, to, to_stride, sim_file, sim_line);
}
SIM_HOST cublasStatus_t cublasGetVector(int count, int bytes, const void *from, int from_stride, void *to,
                                        int to_stride, SIM_CALLED) {
    return cublasGetMatrix(1, count, bytes, from, from_stride, to, to_stride, sim_file, sim_line);
}
#include "cublas_functions.hpp"
