// A product by cuBLAS of matrices that are right, unwritten or too small: the first argument says which.
#include "check.h"
#include <cublas_v2.h>
#include <string>
int main(int count, char **arguments) {
    const std::string which = count > 1 ? arguments[1] : "";
    const int n = 8;
    float host[n * n], one = 1, zero = 0, *a, *b, *c;
    for (int i = 0; i < n * n; i++)
        host[i] = i % 5;
    cublasHandle_t handle;
    cublasCreate(&handle);
    CHECK(cudaMalloc(&a, sizeof host));
    CHECK(cudaMalloc(&b, which == "small" ? sizeof host / 2 : sizeof host));
    CHECK(cudaMalloc(&c, sizeof host));
    CHECK(cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice));
    if (which != "unwritten")
        CHECK(cudaMemcpy(b, host, which == "small" ? sizeof host / 2 : sizeof host, cudaMemcpyHostToDevice));
    cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, which == "sum" ? &one : &zero, c,
                n);
    CHECK(cudaMemcpy(host, c, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(c));
    return cublasDestroy(handle);
}
