/* cuBLAS against loops: products of all kinds, a solver, reductions, a captured product: right if it says ok.
 */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <vector>

#define TRY(call)                                                                                            \
    if (int error = (int)(call)) {                                                                           \
        printf("line %d: %d\n", __LINE__, error);                                                            \
        exit(1);                                                                                             \
    }
#define EXPECT(condition)                                                                                    \
    if (!(condition)) {                                                                                      \
        printf("line %d: wrong\n", __LINE__);                                                                \
        exit(1);                                                                                             \
    }

template <class T> T *on_device(const std::vector<T> &host) {
    T *to;
    TRY(cudaMalloc(&to, host.size() * sizeof(T)));
    TRY(cudaMemcpy(to, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    return to;
}
template <class T> std::vector<T> on_host(const T *device, size_t count) {
    std::vector<T> host(count);
    TRY(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
}
static std::vector<double> drawn(size_t count) {
    std::vector<double> x(count);
    for (double &value : x)
        value = rand() / (double)RAND_MAX - 0.5;
    return x;
}
static bool is_near(double a, double b, double bound = 1e-12) {
    return fabs(a - b) <= bound;
}
__global__ void twice(double *x) {
    x[threadIdx.x] *= 2;
}

int main() {
    const int m = 7, n = 5, k = 9;
    cublasHandle_t handle;
    TRY(cublasCreate(&handle));
    std::vector<double> a = drawn(k * m), b = drawn(k * n), c = drawn(m * n);
    double *da = on_device(a), *db = on_device(b), *dc = on_device(c), alpha = 1.5, beta = -0.5;
    TRY(cublasDgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &alpha, da, k, db, k, &beta, dc, m));
    std::vector<double> product = on_host(dc, m * n);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            double sum = beta * c[i + j * m];
            for (int l = 0; l < k; l++)
                sum += alpha * a[l + i * k] * b[l + j * k];
            EXPECT(is_near(product[i + j * m], sum));
        }
    EXPECT(cublasDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, da, 1, db, k, &beta, dc, m) ==
           CUBLAS_STATUS_INVALID_VALUE);

    /* beta of 0: nobody has written the result. */
    double *fresh, zero = 0, one = 1;
    TRY(cudaMalloc(&fresh, m * n * sizeof(double)));
    TRY(cublasDgemmStridedBatched(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, 1, k, &one, da, k, 0, db, k, k, &zero,
                                  fresh, m, m, n));
    twice<<<1, m * n>>>(fresh);
    std::vector<double> doubled = on_host(fresh, m * n);
    for (int i = 0; i < m * n; i++)
        EXPECT(is_near(doubled[i], 2 / alpha * (product[i] - beta * c[i])));

    /* A triangle is solved for, from the left. */
    std::vector<double> triangle = drawn(m * m);
    for (int i = 0; i < m; i++)
        triangle[i + i * m] = 2;
    double *dt = on_device(triangle);
    TRY(cublasDtrsm(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, m, n,
                    &one, dt, m, dc, m));
    std::vector<double> solved = on_host(dc, m * n);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            double sum = 0;
            for (int l = 0; l <= i; l++)
                sum += triangle[i + l * m] * solved[l + j * m];
            EXPECT(is_near(sum, product[i + j * m], 1e-9));
        }

    /* Level 1 and 2, with strides, and a result in device memory. */
    double dot = 0, norm = 0, expected_dot = 0, expected_norm = 0, *on_gpu;
    int largest = 0;
    for (int i = 0; i < m; i++) {
        expected_dot += a[2 * i] * b[m - 1 - i];
        expected_norm += a[2 * i] * a[2 * i];
    }
    TRY(cublasDdot(handle, m, da, 2, db, -1, &dot));
    TRY(cublasDnrm2(handle, m, da, 2, &norm));
    EXPECT(is_near(dot, expected_dot) && is_near(norm, sqrt(expected_norm)));
    std::vector<double> peak = {1, -3, 2};
    double *dp = on_device(peak);
    TRY(cublasIdamax(handle, 3, dp, 1, &largest));
    EXPECT(largest == 2);
    TRY(cudaMalloc(&on_gpu, sizeof(double)));
    TRY(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
    TRY(cublasDasum(handle, 3, dp, 1, on_gpu));
    TRY(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
    EXPECT(on_host(on_gpu, 1)[0] == 6);
    TRY(cublasDgemv(handle, CUBLAS_OP_N, m, 3, &one, dt, m, dp, 1, &zero, fresh, 1));
    EXPECT(is_near(on_host(fresh, 1)[0], triangle[0] - 3 * triangle[m] + 2 * triangle[2 * m]));

    /* Halves are multiplied as floats. */
    std::vector<__half> x(m * k), y(k * n);
    for (int i = 0; i < m * k; i++)
        x[i] = __float2half((float)a[i]);
    for (int i = 0; i < k * n; i++)
        y[i] = __float2half((float)b[i]);
    __half *dx = on_device(x), *dy = on_device(y);
    float *df, f_one = 1, f_zero = 0;
    TRY(cudaMalloc(&df, m * n * sizeof(float)));
    TRY(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &f_one, dx, CUDA_R_16F, m, dy, CUDA_R_16F, k,
                     &f_zero, df, CUDA_R_32F, m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    std::vector<float> floats = on_host(df, m * n);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += (double)__half2float(x[i + l * m]) * __half2float(y[l + j * k]);
            EXPECT(is_near(floats[i + j * m], sum, 1e-5));
        }

    /* LU and the inverse, and a product in a graph. */
    double *dl = on_device(triangle), *inverse, **matrices, **inverses;
    int *pivots, *info;
    TRY(cudaMalloc(&inverse, m * m * sizeof(double)));
    TRY(cudaMalloc(&matrices, sizeof *matrices));
    TRY(cudaMalloc(&inverses, sizeof *inverses));
    TRY(cudaMalloc(&pivots, m * sizeof(int)));
    TRY(cudaMalloc(&info, sizeof(int)));
    TRY(cudaMemcpy(matrices, &dl, sizeof dl, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(inverses, &inverse, sizeof inverse, cudaMemcpyHostToDevice));
    TRY(cublasDgetrfBatched(handle, m, matrices, m, pivots, info, 1));
    TRY(cublasDgetriBatched(handle, m, matrices, m, pivots, inverses, m, info, 1));
    EXPECT(on_host(info, 1)[0] == 0);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    TRY(cudaStreamCreate(&stream));
    TRY(cublasSetStream(handle, stream));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    TRY(cublasDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, m, m, &one, dt, m, inverse, m, &zero, dl, m));
    TRY(cudaStreamEndCapture(stream, &graph));
    TRY(cudaGraphInstantiate(&ready, graph, 0));
    TRY(cudaGraphLaunch(ready, stream));
    TRY(cudaStreamSynchronize(stream));
    std::vector<double> identity = on_host(dl, m * m);
    for (int i = 0; i < m * m; i++)
        EXPECT(is_near(identity[i], i % (m + 1) == 0, 1e-9));

    TRY(cudaGraphExecDestroy(ready));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaStreamDestroy(stream));
    TRY(cublasDestroy(handle));
    void *all[] = {da, db, dc, fresh,   dt,       dp,       on_gpu, dx,
                   dy, df, dl, inverse, matrices, inverses, pivots, info};
    for (void *memory : all)
        TRY(cudaFree(memory));
    printf("ok\n");
}
