/* cublasLt against loops: operations, orders, batches, epilogues and floats of 8 bits. Prints what is wrong.
 */
#include "sparse.h"
#include <cublasLt.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

struct Matrix {
    cublasLtMatrixLayout_t of;
    bool by_rows;
    int ld, rows, columns;
    Matrix(cudaDataType type, int rows, int columns, bool by_rows, int count = 1)
        : by_rows(by_rows), ld((by_rows ? columns : rows) + 16), rows(rows), columns(columns) {
        TRY(cublasLtMatrixLayoutCreate(&of, type, rows, columns, ld));
        cublasLtOrder_t order = by_rows ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
        int64_t apart = size();
        TRY(cublasLtMatrixLayoutSetAttribute(of, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order));
        TRY(cublasLtMatrixLayoutSetAttribute(of, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
        TRY(cublasLtMatrixLayoutSetAttribute(of, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart,
                                             sizeof apart));
    }
    int size() const {
        return ld * (by_rows ? rows : columns);
    }
    int place(int row, int column) const {
        return by_rows ? row * ld + column : row + column * ld;
    }
    ~Matrix() {
        TRY(cublasLtMatrixLayoutDestroy(of));
    }
};
template <class V> void set(cublasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t which, V value) {
    TRY(cublasLtMatmulDescSetAttribute(of, which, &value, sizeof value));
}
static double finished(double x, cublasLtEpilogue_t epilogue) {
    if (epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
        return x > 0 ? x : 0;
    if (epilogue == CUBLASLT_EPILOGUE_GELU || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS)
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return x;
}
static std::vector<double> shown(const std::vector<double> &x) {
    return x;
}
template <class T> std::vector<double> shown(const std::vector<T> &x) {
    std::vector<double> y;
    for (T value : x)
        y.push_back((double)(float)value);
    return y;
}
template <class T> std::vector<T> rounded(size_t count) {
    std::vector<T> x;
    for (size_t i = 0; i < count; i++)
        x.push_back((T)(float)drawn<double>());
    return x;
}
/* bound: of the error, as a part of the largest number. */
template <class T, class D, class S>
void multiply(cublasLtHandle_t handle, cudaDataType type, cudaDataType out, cublasComputeType_t compute,
              cudaDataType scalars, int how, cublasLtEpilogue_t epilogue, double bound, bool is_float8) {
    const int m = 16, n = 7, k = 32, count = is_float8 ? 1 : 2;
    bool opa = is_float8 || how & 1, opb = !is_float8 && how & 2;
    Matrix a(type, opa ? k : m, opa ? m : k, how & 4, count);
    Matrix b(type, opb ? n : k, opb ? k : n, how & 8, count), d(out, m, n, how & 16, count);
    std::vector<T> x = rounded<T>(a.size() * count), y = rounded<T>(b.size() * count);
    std::vector<D> c = rounded<D>(d.size() * count), bias = rounded<D>(m);
    S alpha = (S)1.5f, beta = (S)(how & 1 ? -0.5f : 0.0f);
    float scale_a = 2, scale_b = 0.5f, scale_c = 0.25f, scale_d = 4;
    std::vector<double> left = shown(x), right = shown(y), before = shown(c), added = shown(bias);
    std::vector<double> expected = before;
    double largest = 0;
    bool has_bias = epilogue & CUBLASLT_EPILOGUE_BIAS;
    for (int batch = 0; batch < count; batch++)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                double sum = 0;
                for (int l = 0; l < k; l++)
                    sum += left[batch * a.size() + (opa ? a.place(l, i) : a.place(i, l))] *
                           right[batch * b.size() + (opb ? b.place(j, l) : b.place(l, j))];
                double &to = expected[batch * d.size() + d.place(i, j)];
                to = (float)alpha * sum * (is_float8 ? scale_a * scale_b : 1) +
                     (float)beta * to * (is_float8 ? scale_c : 1) + (has_bias ? added[i] : 0);
                to = finished(to, epilogue);
                largest = std::max(largest, fabs(to));
                to *= is_float8 ? scale_d : 1;
            }
    cublasLtMatmulDesc_t of;
    TRY(cublasLtMatmulDescCreate(&of, compute, scalars));
    set(of, CUBLASLT_MATMUL_DESC_TRANSA, opa ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(of, CUBLASLT_MATMUL_DESC_TRANSB, opb ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(of, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    T *dx = on_device(x), *dy = on_device(y);
    D *dc = on_device(c), *dbias = on_device(bias);
    float *numbers = on_device(std::vector<float>{scale_a, scale_b, scale_c, scale_d, 0});
    if (has_bias) {
        set(of, CUBLASLT_MATMUL_DESC_BIAS_POINTER, dbias);
        set(of, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, (int)out);
    }
    if (is_float8) {
        set(of, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, numbers);
        set(of, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, numbers + 1);
        set(of, CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, numbers + 2);
        set(of, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, numbers + 3);
        set(of, CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, numbers + 4);
    }
    cublasLtMatmulPreference_t wish;
    TRY(cublasLtMatmulPreferenceCreate(&wish));
    cublasLtMatmulHeuristicResult_t found;
    int number = 0;
    TRY(cublasLtMatmulAlgoGetHeuristic(handle, of, a.of, b.of, d.of, d.of, wish, 1, &found, &number));
    if (number != 1)
        printf("%d ways to multiply were found\n", number);
    TRY(cublasLtMatmul(handle, of, &alpha, dx, a.of, dy, b.of, &beta, dc, d.of, dc, d.of, &found.algo, 0, 0,
                       0));
    char what[80];
    snprintf(what, sizeof what, "type %d to %d, %d, epilogue %d", type, out, how, epilogue);
    expect(shown(on_host(dc, c.size())), expected, what, bound / 1e-14 * (is_float8 ? scale_d : 1) * largest);
    float told = on_host(numbers, 5)[4];
    if (is_float8 && fabs(told - largest) > 1e-5 * largest)
        printf("%s: the largest is %g, not %g\n", what, told, largest);
    TRY(cublasLtMatmulDescDestroy(of));
    TRY(cublasLtMatmulPreferenceDestroy(wish));
    for (void *at : {(void *)dx, (void *)dy, (void *)dbias})
        TRY(cudaFree(at));
}
int main(int argc, char **) {
    cublasLtHandle_t handle;
    TRY(cublasLtCreate(&handle));
    const cublasLtEpilogue_t epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU,
                                            CUBLASLT_EPILOGUE_BIAS,    CUBLASLT_EPILOGUE_RELU_BIAS,
                                            CUBLASLT_EPILOGUE_GELU,    CUBLASLT_EPILOGUE_GELU_BIAS};
    for (int how = 0; how < 32; how++)
        for (cublasLtEpilogue_t epilogue : epilogues) {
            multiply<float, float, float>(handle, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F, how,
                                          epilogue, 1e-6, false);
            multiply<__half, __half, float>(handle, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F,
                                            how, epilogue, 5e-4, false);
            multiply<double, double, double>(handle, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F,
                                             how, epilogue, 1e-14, false);
        }
    for (int how = 0; how < 2; how++)
        multiply<__nv_fp8_e4m3, __nv_fp8_e4m3, float>(handle, CUDA_R_8F_E4M3, CUDA_R_8F_E4M3,
                                                      CUBLAS_COMPUTE_32F, CUDA_R_32F, how,
                                                      CUBLASLT_EPILOGUE_RELU_BIAS, 0.0625, true);
    if (argc > 1) {
        cublasLtMatmulDesc_t of;
        TRY(cublasLtMatmulDescCreate(&of, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        set(of, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DGELU);
        Matrix a(CUDA_R_32F, 4, 4, false);
        float one = 1;
        if (cublasLtMatmul(handle, of, &one, 0, a.of, 0, a.of, &one, 0, a.of, 0, a.of, 0, 0, 0, 0) ==
            CUBLAS_STATUS_NOT_SUPPORTED)
            printf("refused\n");
        TRY(cublasLtMatmulDescDestroy(of));
    }
    TRY(cublasLtDestroy(handle));
}
