/* What cuBLAS computes, for cublas.hpp: level 1 and 2 by loops, level 3 and LU by the BLAS. */
#pragma once
#include "cublas.hpp"

/* ---- Arithmetic of all types ---- */

inline float sim_times(float a, float b) {
    return a * b;
}
inline double sim_times(double a, double b) {
    return a * b;
}
inline cuComplex sim_times(cuComplex a, cuComplex b) {
    return cuCmulf(a, b);
}
inline cuDoubleComplex sim_times(cuDoubleComplex a, cuDoubleComplex b) {
    return cuCmul(a, b);
}
inline float sim_plus(float a, float b) {
    return a + b;
}
inline double sim_plus(double a, double b) {
    return a + b;
}
inline cuComplex sim_plus(cuComplex a, cuComplex b) {
    return cuCaddf(a, b);
}
inline cuDoubleComplex sim_plus(cuDoubleComplex a, cuDoubleComplex b) {
    return cuCadd(a, b);
}
inline float sim_conjugate(float a) {
    return a;
}
inline double sim_conjugate(double a) {
    return a;
}
inline cuComplex sim_conjugate(cuComplex a) {
    return cuConjf(a);
}
inline cuDoubleComplex sim_conjugate(cuDoubleComplex a) {
    return cuConj(a);
}
template <class T> bool sim_is_zero(T a) {
    if constexpr (std::is_arithmetic<T>::value)
        return a == 0;
    else
        return a.x == 0 && a.y == 0;
}
/* |re| + |im|, which stands for the size of a complex number in level 1. */
template <class T> double sim_size_of(T a) {
    if constexpr (std::is_arithmetic<T>::value)
        return fabs((double)a);
    else
        return fabs((double)a.x) + fabs((double)a.y);
}
template <class T> double sim_square_of(T a) {
    if constexpr (std::is_arithmetic<T>::value)
        return (double)a * (double)a;
    else
        return (double)a.x * a.x + (double)a.y * a.y;
}
/* The element of a vector whose stride may be negative: then it begins at its end. */
template <class T> T *sim_element(T *x, int n, int stride, int i) {
    return x + (stride < 0 ? (long long)(i - n + 1) : i) * (long long)stride;
}
/* The element of op(A). */
template <class T> T sim_operand(const T *a, int lda, cublasOperation_t op, int row, int column) {
    T value = op == CUBLAS_OP_N ? a[row + (size_t)column * lda] : a[column + (size_t)row * lda];
    return op == CUBLAS_OP_C ? sim_conjugate(value) : value;
}
template <class T> void sim_wrote(T *to, int ld, int rows, int columns) {
    for (int column = 0; column < columns; column++)
        sim_memory_is_written(to + (size_t)column * ld, (size_t)rows * sizeof(T));
}
/* What the BLAS reads: nothing of it where the factor is 0. */
template <class T> void sim_reads(T factor, const T *from, int ld, int rows, int columns) {
    if (columns <= 0 || rows <= 0 || sim_is_zero(factor))
        return;
    sim_library_reads(from, ((size_t)(columns - 1) * ld + rows) * sizeof(T)); /* is all of it there? */
    for (int column = 0; column < columns; column++)
        sim_library_reads(from + (size_t)column * ld, (size_t)rows * sizeof(T));
}

/* ---- Level 1 ---- */

template <class T>
cublasStatus_t sim_axpy(cublasHandle_t handle, int n, const T *alpha, const T *x, int incx, T *y, int incy) {
    sim_scalar<T> a(handle, alpha);
    return sim_cublas(handle, [=] {
        for (int i = 0; i < n; i++) {
            T *to = sim_element(y, n, incy, i);
            *to = sim_plus(*to, sim_times(a.get(), *sim_element(x, n, incx, i)));
        }
    });
}
template <class T> cublasStatus_t sim_scal(cublasHandle_t handle, int n, const T *alpha, T *x, int incx) {
    sim_scalar<T> a(handle, alpha);
    return sim_cublas(handle, [=] {
        for (int i = 0; i < n; i++)
            x[(size_t)i * incx] = sim_times(a.get(), x[(size_t)i * incx]);
    });
}
template <class T>
cublasStatus_t sim_copy_vector(cublasHandle_t handle, int n, const T *x, int incx, T *y, int incy) {
    return sim_cublas(handle, [=] {
        for (int i = 0; i < n; i++) {
            *sim_element(y, n, incy, i) = *sim_element(x, n, incx, i);
            sim_wrote(sim_element(y, n, incy, i), 1, 1, 1);
        }
    });
}
template <class T>
cublasStatus_t sim_swap_vectors(cublasHandle_t handle, int n, T *x, int incx, T *y, int incy) {
    return sim_cublas(handle, [=] {
        for (int i = 0; i < n; i++)
            std::swap(*sim_element(y, n, incy, i), *sim_element(x, n, incx, i));
    });
}
/* Results go to host or device memory, by the handle's mode. */
template <class R> void sim_result(R *to, R value) {
    *to = value;
    sim_wrote(to, 1, 1, 1);
}
template <class T, bool conjugates>
cublasStatus_t sim_dot(cublasHandle_t handle, int n, const T *x, int incx, const T *y, int incy, T *result) {
    return sim_cublas(handle, [=] {
        T sum{};
        for (int i = 0; i < n; i++) {
            T left = *sim_element(x, n, incx, i);
            sum = sim_plus(sum,
                           sim_times(conjugates ? sim_conjugate(left) : left, *sim_element(y, n, incy, i)));
        }
        sim_result(result, sum);
    });
}
template <class T, class R>
cublasStatus_t sim_nrm2(cublasHandle_t handle, int n, const T *x, int incx, R *result) {
    return sim_cublas(handle, [=] {
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += sim_square_of(x[(size_t)i * incx]);
        sim_result(result, (R)sqrt(sum));
    });
}
template <class T, class R>
cublasStatus_t sim_asum(cublasHandle_t handle, int n, const T *x, int incx, R *result) {
    return sim_cublas(handle, [=] {
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += sim_size_of(x[(size_t)i * incx]);
        sim_result(result, (R)sum);
    });
}
/* Counted from 1; sign: 1 for the largest, -1 for the smallest. */
template <class T, int sign>
cublasStatus_t sim_extreme(cublasHandle_t handle, int n, const T *x, int incx, int *result) {
    return sim_cublas(handle, [=] {
        int best = 0;
        for (int i = 1; i < n; i++)
            if (sign * sim_size_of(x[(size_t)i * incx]) > sign * sim_size_of(x[(size_t)best * incx]))
                best = i;
        sim_result(result, n > 0 ? best + 1 : 0);
    });
}

/* ---- Level 2 ---- */

template <class T>
cublasStatus_t sim_gemv(cublasHandle_t handle, cublasOperation_t op, int m, int n, const T *alpha, const T *a,
                        int lda, const T *x, int incx, const T *beta, T *y, int incy) {
    sim_scalar<T> by(handle, alpha), before(handle, beta);
    return sim_cublas(handle, [=] {
        int rows = op == CUBLAS_OP_N ? m : n, columns = op == CUBLAS_OP_N ? n : m;
        for (int row = 0; row < rows; row++) {
            T sum{}, *to = sim_element(y, rows, incy, row);
            for (int column = 0; column < columns; column++)
                sum = sim_plus(sum, sim_times(sim_operand(a, lda, op, row, column),
                                              *sim_element(x, columns, incx, column)));
            T rest = sim_is_zero(before.get()) ? T() : sim_times(before.get(), *to);
            *to = sim_plus(sim_times(by.get(), sum), rest);
            sim_wrote(to, 1, 1, 1);
        }
    });
}
template <class T>
cublasStatus_t sim_ger(cublasHandle_t handle, int m, int n, const T *alpha, const T *x, int incx, const T *y,
                       int incy, T *a, int lda) {
    sim_scalar<T> by(handle, alpha);
    return sim_cublas(handle, [=] {
        for (int column = 0; column < n; column++)
            for (int row = 0; row < m; row++) {
                T product = sim_times(*sim_element(x, m, incx, row), *sim_element(y, n, incy, column));
                T &to = a[row + (size_t)column * lda];
                to = sim_plus(to, sim_times(by.get(), product));
            }
    });
}

/* ---- Level 3 ---- */

template <class T>
void sim_product(cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k, T alpha, const T *a,
                 int lda, const T *b, int ldb, T beta, T *c, int ldc) {
    sim_blas_int sizes[] = {m, n, k, lda, ldb, ldc};
    sim_reads(alpha, a, lda, opa == CUBLAS_OP_N ? m : k, opa == CUBLAS_OP_N ? k : m);
    sim_reads(alpha, b, ldb, opb == CUBLAS_OP_N ? k : n, opb == CUBLAS_OP_N ? n : k);
    sim_reads(beta, c, ldc, m, n);
    sim_blas<T>::gemm(sim_letter(opa), sim_letter(opb), &sizes[0], &sizes[1], &sizes[2], &alpha, a, &sizes[3],
                      b, &sizes[4], &beta, c, &sizes[5]);
    sim_wrote(c, ldc, m, n);
}
template <class T>
cublasStatus_t sim_gemm(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m, int n,
                        int k, const T *alpha, const T *a, int lda, const T *b, int ldb, const T *beta, T *c,
                        int ldc) {
    sim_scalar<T> by(handle, alpha), before(handle, beta);
    if (m < 0 || n < 0 || k < 0 || lda < (opa == CUBLAS_OP_N ? m : k) || ldb < (opb == CUBLAS_OP_N ? k : n) ||
        ldc < m)
        return CUBLAS_STATUS_INVALID_VALUE;
    return sim_cublas(
        handle, [=] { sim_product(opa, opb, m, n, k, by.get(), a, lda, b, ldb, before.get(), c, ldc); });
}
template <class T>
cublasStatus_t sim_gemm_strided(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m,
                                int n, int k, const T *alpha, const T *a, int lda, long long stride_a,
                                const T *b, int ldb, long long stride_b, const T *beta, T *c, int ldc,
                                long long stride_c, int count) {
    sim_scalar<T> by(handle, alpha), before(handle, beta);
    return sim_cublas(handle, [=] {
        for (int i = 0; i < count; i++)
            sim_product(opa, opb, m, n, k, by.get(), a + i * stride_a, lda, b + i * stride_b, ldb,
                        before.get(), c + i * stride_c, ldc);
    });
}
template <class T>
cublasStatus_t sim_gemm_batched(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m,
                                int n, int k, const T *alpha, const T *const a[], int lda, const T *const b[],
                                int ldb, const T *beta, T *const c[], int ldc, int count) {
    sim_scalar<T> by(handle, alpha), before(handle, beta);
    return sim_cublas(handle, [=] {
        for (int i = 0; i < count; i++)
            sim_product(opa, opb, m, n, k, by.get(), a[i], lda, b[i], ldb, before.get(), c[i], ldc);
    });
}
template <class T>
cublasStatus_t sim_trsm(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,
                        cublasOperation_t op, cublasDiagType_t diagonal, int m, int n, const T *alpha,
                        const T *a, int lda, T *b, int ldb) {
    sim_scalar<T> by(handle, alpha);
    return sim_cublas(handle, [=] {
        sim_blas_int sizes[] = {m, n, lda, ldb};
        T scale = by.get();
        sim_reads(scale, b, ldb, m, n);
        sim_blas<T>::trsm(sim_letter(side), sim_letter(fill), sim_letter(op), sim_letter(diagonal), &sizes[0],
                          &sizes[1], &scale, a, &sizes[2], b, &sizes[3]);
    });
}
/* Out of place, other than the BLAS's. */
template <class T>
cublasStatus_t sim_trmm(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,
                        cublasOperation_t op, cublasDiagType_t diagonal, int m, int n, const T *alpha,
                        const T *a, int lda, const T *b, int ldb, T *c, int ldc) {
    sim_scalar<T> by(handle, alpha);
    return sim_cublas(handle, [=] {
        sim_blas_int sizes[] = {m, n, lda, ldc};
        T scale = by.get();
        for (int column = 0; column < n && b != c; column++)
            memcpy(c + (size_t)column * ldc, b + (size_t)column * ldb, (size_t)m * sizeof(T));
        sim_blas<T>::trmm(sim_letter(side), sim_letter(fill), sim_letter(op), sim_letter(diagonal), &sizes[0],
                          &sizes[1], &scale, a, &sizes[2], c, &sizes[3]);
        sim_wrote(c, ldc, m, n);
    });
}
template <class T>
cublasStatus_t sim_symm(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill, int m, int n,
                        const T *alpha, const T *a, int lda, const T *b, int ldb, const T *beta, T *c,
                        int ldc) {
    sim_scalar<T> by(handle, alpha), before(handle, beta);
    return sim_cublas(handle, [=] {
        sim_blas_int sizes[] = {m, n, lda, ldb, ldc};
        T scale = by.get(), rest = before.get();
        sim_reads(scale, b, ldb, m, n);
        sim_reads(rest, c, ldc, m, n);
        sim_blas<T>::symm(sim_letter(side), sim_letter(fill), &sizes[0], &sizes[1], &scale, a, &sizes[2], b,
                          &sizes[3], &rest, c, &sizes[4]);
        sim_wrote(c, ldc, m, n);
    });
}
/* Only one triangle is written, and the other one stays as it was. */
template <class T>
cublasStatus_t sim_syrk(cublasHandle_t handle, cublasFillMode_t fill, cublasOperation_t op, int n, int k,
                        const T *alpha, const T *a, int lda, const T *beta, T *c, int ldc) {
    sim_scalar<T> by(handle, alpha), before(handle, beta);
    return sim_cublas(handle, [=] {
        sim_blas_int sizes[] = {n, k, lda, ldc};
        T scale = by.get(), rest = before.get();
        sim_reads(scale, a, lda, op == CUBLAS_OP_N ? n : k, op == CUBLAS_OP_N ? k : n);
        sim_blas<T>::syrk(sim_letter(fill), sim_letter(op), &sizes[0], &sizes[1], &scale, a, &sizes[2], &rest,
                          c, &sizes[3]);
        for (int column = 0; column < n; column++) {
            int from = fill == CUBLAS_FILL_MODE_LOWER ? column : 0;
            int to = fill == CUBLAS_FILL_MODE_LOWER ? n : column + 1;
            sim_wrote(c + from + (size_t)column * ldc, ldc, to - from, 1);
        }
    });
}
template <class T>
cublasStatus_t sim_geam(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m, int n,
                        const T *alpha, const T *a, int lda, const T *beta, const T *b, int ldb, T *c,
                        int ldc) {
    sim_scalar<T> by(handle, alpha), other(handle, beta);
    return sim_cublas(handle, [=] {
        for (int column = 0; column < n; column++)
            for (int row = 0; row < m; row++) {
                T sum{};
                if (!sim_is_zero(by.get()))
                    sum = sim_times(by.get(), sim_operand(a, lda, opa, row, column));
                if (!sim_is_zero(other.get()))
                    sum = sim_plus(sum, sim_times(other.get(), sim_operand(b, ldb, opb, row, column)));
                c[row + (size_t)column * ldc] = sum;
            }
        sim_wrote(c, ldc, m, n);
    });
}

/* ---- LU ---- */

template <class T>
cublasStatus_t sim_getrf(cublasHandle_t handle, int n, T *const a[], int lda, int *pivots, int *info,
                         int count) {
    return sim_cublas(handle, [=] {
        std::vector<sim_blas_int> rows(n);
        for (int i = 0; i < count; i++) {
            sim_blas_int sizes[] = {n, lda}, failed = 0;
            sim_blas<T>::getrf(&sizes[0], &sizes[0], a[i], &sizes[1], rows.data(), &failed);
            for (int row = 0; pivots && row < n; row++)
                sim_result(&pivots[(size_t)i * n + row], (int)rows[row]);
            sim_result(&info[i], (int)failed);
        }
    });
}
template <class T>
cublasStatus_t sim_getri(cublasHandle_t handle, int n, const T *const a[], int lda, const int *pivots,
                         T *const c[], int ldc, int *info, int count) {
    return sim_cublas(handle, [=] {
        for (int i = 0; i < count; i++) {
            std::vector<sim_blas_int> rows(n);
            for (int row = 0; row < n; row++)
                rows[row] = pivots ? pivots[(size_t)i * n + row] : row + 1;
            for (int column = 0; column < n; column++)
                memcpy(c[i] + (size_t)column * ldc, a[i] + (size_t)column * lda, (size_t)n * sizeof(T));
            std::vector<T> work((size_t)n * n);
            sim_blas_int sizes[] = {n, ldc, (sim_blas_int)work.size()}, failed = 0;
            sim_blas<T>::getri(&sizes[0], c[i], &sizes[1], rows.data(), work.data(), &sizes[2], &failed);
            sim_wrote(c[i], ldc, n, n);
            sim_result(&info[i], (int)failed);
        }
    });
}

/* ---- Products of other types: converted to floats, or to doubles where one of them is ---- */

template <class W>
std::vector<W> sim_matrix_as(const void *from, cudaDataType type, size_t first, int rows, int columns,
                             int ld) {
    std::vector<W> matrix((size_t)rows * columns);
    for (int column = 0; column < columns; column++)
        for (int row = 0; row < rows; row++)
            matrix[row + (size_t)column * rows] =
                sim_read_as<W>(from, type, first + row + (size_t)column * ld);
    return matrix;
}
template <class W> struct sim_mixed_product {
    cublasOperation_t opa, opb;
    int m, n, k;
    const void *a, *b;
    void *c;
    cudaDataType type_a, type_b, type_c;
    int lda, ldb, ldc;
    void run(W alpha, W beta, size_t at_a, size_t at_b, size_t at_c) const {
        int rows_a = opa == CUBLAS_OP_N ? m : k, rows_b = opb == CUBLAS_OP_N ? k : n;
        std::vector<W> x = sim_matrix_as<W>(a, type_a, at_a, rows_a, m + k - rows_a, lda);
        std::vector<W> y = sim_matrix_as<W>(b, type_b, at_b, rows_b, k + n - rows_b, ldb);
        std::vector<W> z((size_t)m * n);
        if (beta != 0)
            z = sim_matrix_as<W>(c, type_c, at_c, m, n, ldc);
        sim_product(opa, opb, m, n, k, alpha, x.data(), rows_a, y.data(), rows_b, beta, z.data(), m);
        for (int column = 0; column < n; column++)
            for (int row = 0; row < m; row++)
                sim_write_as(c, type_c, at_c + row + (size_t)column * ldc, z[row + (size_t)column * m]);
    }
};
inline bool sim_has_product(cudaDataType type) {
    return type == CUDA_R_32F || type == CUDA_R_64F || type == CUDA_R_16F || type == CUDA_R_16BF ||
           type == CUDA_R_8I || type == CUDA_R_32I;
}
/* scalars: the type of alpha and beta. */
inline cublasStatus_t sim_gemm_of_types(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb,
                                        int m, int n, int k, const void *alpha, const void *a,
                                        cudaDataType type_a, int lda, long long stride_a, const void *b,
                                        cudaDataType type_b, int ldb, long long stride_b, const void *beta,
                                        void *c, cudaDataType type_c, int ldc, long long stride_c, int count,
                                        cudaDataType scalars) {
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!sim_has_product(type_a) || !sim_has_product(type_b) || !sim_has_product(type_c) ||
        type_c == CUDA_R_8I) /* which no GPU's cuBLAS writes */
        return CUBLAS_STATUS_NOT_SUPPORTED;
    bool is_on_device = handle->mode == CUBLAS_POINTER_MODE_DEVICE;
    double by = is_on_device ? 0 : sim_read_as<double>(alpha, scalars, 0);
    double before = is_on_device ? 0 : sim_read_as<double>(beta, scalars, 0);
    return sim_cublas(handle, [=] {
        double scale = is_on_device ? sim_read_as<double>(alpha, scalars, 0) : by;
        double rest = is_on_device ? sim_read_as<double>(beta, scalars, 0) : before;
        auto all = [&](auto one) {
            using W = decltype(one);
            sim_mixed_product<W> product = {opa, opb,    m,      n,      k,   a,   b,
                                            c,   type_a, type_b, type_c, lda, ldb, ldc};
            for (int i = 0; i < count; i++)
                product.run((W)scale, (W)rest, (size_t)(i * stride_a), (size_t)(i * stride_b),
                            (size_t)(i * stride_c));
        };
        if (type_c == CUDA_R_64F || type_c == CUDA_R_32I) /* sums of integers are exact in doubles */
            all(0.0);
        else
            all(0.0f);
    });
}
inline cudaDataType sim_scalars_of(cublasComputeType_t compute) {
    return compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC   ? CUDA_R_64F
           : compute == CUBLAS_COMPUTE_16F || compute == CUBLAS_COMPUTE_16F_PEDANTIC ? CUDA_R_16F
           : compute == CUBLAS_COMPUTE_32I || compute == CUBLAS_COMPUTE_32I_PEDANTIC ? CUDA_R_32I
                                                                                     : CUDA_R_32F;
}
template <class Compute> cudaDataType sim_scalar_type(Compute compute) {
    if constexpr (std::is_same<Compute, cudaDataType>::value)
        return compute; /* until CUDA 10 */
    else
        return sim_scalars_of(compute);
}
template <class Compute>
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m, int n,
                            int k, const void *alpha, const void *a, cudaDataType type_a, int lda,
                            const void *b, cudaDataType type_b, int ldb, const void *beta, void *c,
                            cudaDataType type_c, int ldc, Compute compute, cublasGemmAlgo_t) {
    return sim_gemm_of_types(handle, opa, opb, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta, c,
                             type_c, ldc, 0, 1, sim_scalar_type(compute));
}
template <class Compute>
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb,
                                          int m, int n, int k, const void *alpha, const void *a,
                                          cudaDataType type_a, int lda, long long stride_a, const void *b,
                                          cudaDataType type_b, int ldb, long long stride_b, const void *beta,
                                          void *c, cudaDataType type_c, int ldc, long long stride_c,
                                          int count, Compute compute, cublasGemmAlgo_t) {
    return sim_gemm_of_types(handle, opa, opb, m, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb,
                             stride_b, beta, c, type_c, ldc, stride_c, count, sim_scalar_type(compute));
}
inline cublasStatus_t cublasHgemm(cublasHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, int m,
                                  int n, int k, const __half *alpha, const __half *a, int lda,
                                  const __half *b, int ldb, const __half *beta, __half *c, int ldc) {
    return sim_gemm_of_types(handle, opa, opb, m, n, k, alpha, a, CUDA_R_16F, lda, 0, b, CUDA_R_16F, ldb, 0,
                             beta, c, CUDA_R_16F, ldc, 0, 1, CUDA_R_16F);
}
inline cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t handle, cublasOperation_t opa,
                                                cublasOperation_t opb, int m, int n, int k,
                                                const __half *alpha, const __half *a, int lda,
                                                long long stride_a, const __half *b, int ldb,
                                                long long stride_b, const __half *beta, __half *c, int ldc,
                                                long long stride_c, int count) {
    return sim_gemm_of_types(handle, opa, opb, m, n, k, alpha, a, CUDA_R_16F, lda, stride_a, b, CUDA_R_16F,
                             ldb, stride_b, beta, c, CUDA_R_16F, ldc, stride_c, count, CUDA_R_16F);
}
inline cublasStatus_t cublasDotEx(cublasHandle_t handle, int n, const void *x, cudaDataType type_x, int incx,
                                  const void *y, cudaDataType type_y, int incy, void *result,
                                  cudaDataType type, cudaDataType) {
    if (!sim_has_product(type_x) || !sim_has_product(type_y) || !sim_has_product(type))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return sim_cublas(handle, [=] {
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += sim_read_as<double>(x, type_x, (size_t)i * incx) *
                   sim_read_as<double>(y, type_y, (size_t)i * incy);
        sim_write_as(result, type, 0, sum);
    });
}

/* ---- By name: as they are, or without handles ---- */

#ifdef SIM_CUBLAS_WITHOUT_HANDLES
#include "cublas_without_handles.hpp"
#else
template <class F> constexpr F sim_by_name(F function) {
    return function;
}
template <class R, class F> constexpr F sim_telling(F function) {
    return function;
}
#endif
#define SIM_FOR_REALS(name, function)                                                                        \
    inline constexpr auto cublasS##name = sim_by_name(function<float>);                                      \
    inline constexpr auto cublasD##name = sim_by_name(function<double>);
#define SIM_FOR_ALL(name, function)                                                                          \
    SIM_FOR_REALS(name, function)                                                                            \
    inline constexpr auto cublasC##name = sim_by_name(function<cuComplex>);                                  \
    inline constexpr auto cublasZ##name = sim_by_name(function<cuDoubleComplex>);
SIM_FOR_ALL(axpy, sim_axpy)
SIM_FOR_ALL(scal, sim_scal)
SIM_FOR_ALL(copy, sim_copy_vector)
SIM_FOR_REALS(swap, sim_swap_vectors)
SIM_FOR_ALL(gemv, sim_gemv)
SIM_FOR_REALS(ger, sim_ger)
SIM_FOR_ALL(gemm, sim_gemm)
SIM_FOR_REALS(trsm, sim_trsm)
SIM_FOR_REALS(symm, sim_symm)
SIM_FOR_REALS(syrk, sim_syrk)
inline constexpr auto cublasSdot = sim_telling<float>(sim_dot<float, false>);
inline constexpr auto cublasDdot = sim_telling<double>(sim_dot<double, false>);
inline constexpr auto cublasSnrm2 = sim_telling<float>(sim_nrm2<float, float>);
inline constexpr auto cublasDnrm2 = sim_telling<double>(sim_nrm2<double, double>);
inline constexpr auto cublasSasum = sim_telling<float>(sim_asum<float, float>);
inline constexpr auto cublasDasum = sim_telling<double>(sim_asum<double, double>);
inline constexpr auto cublasIsamax = sim_telling<int>(sim_extreme<float, 1>);
inline constexpr auto cublasIdamax = sim_telling<int>(sim_extreme<double, 1>);
inline constexpr auto cublasIsamin = sim_telling<int>(sim_extreme<float, -1>);
inline constexpr auto cublasIdamin = sim_telling<int>(sim_extreme<double, -1>);
#ifndef SIM_CUBLAS_WITHOUT_HANDLES
inline constexpr auto cublasCdotu = sim_dot<cuComplex, false>;
inline constexpr auto cublasCdotc = sim_dot<cuComplex, true>;
inline constexpr auto cublasZdotu = sim_dot<cuDoubleComplex, false>;
inline constexpr auto cublasZdotc = sim_dot<cuDoubleComplex, true>;
inline constexpr auto cublasScnrm2 = sim_nrm2<cuComplex, float>;
inline constexpr auto cublasDznrm2 = sim_nrm2<cuDoubleComplex, double>;
inline constexpr auto cublasIcamax = sim_extreme<cuComplex, 1>;
inline constexpr auto cublasIzamax = sim_extreme<cuDoubleComplex, 1>;
SIM_FOR_ALL(gemmStridedBatched, sim_gemm_strided)
SIM_FOR_REALS(gemmBatched, sim_gemm_batched)
SIM_FOR_REALS(trmm, sim_trmm)
SIM_FOR_REALS(geam, sim_geam)
SIM_FOR_REALS(getrfBatched, sim_getrf)
SIM_FOR_REALS(getriBatched, sim_getri)
#endif
#undef SIM_FOR_ALL
#undef SIM_FOR_REALS
