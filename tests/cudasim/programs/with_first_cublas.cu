/* cuBLAS's first interface: the host's loops compute the same. */
#include <cstdio>
#include <cmath>
#include <cublas.h>

int main() {
    const int m = 5, n = 4, k = 3;
    float a[m * k], b[n * k], c[m * n], x[7], y[7], *d_a, *d_b, *d_c, *d_x, *d_y;
    for (int i = 0; i < m * k; i++)
        a[i] = i % 7 - 3;
    for (int i = 0; i < n * k; i++)
        b[i] = i % 5 - 1;
    for (int i = 0; i < 7; i++)
        x[i] = i - 5, y[i] = 2 * i;
    cublasStatus status = cublasInit();
    cublasAlloc(m * k, sizeof *a, (void **)&d_a);
    cublasAlloc(n * k, sizeof *b, (void **)&d_b);
    cublasAlloc(m * n, sizeof *c, (void **)&d_c);
    cublasAlloc(7, sizeof *x, (void **)&d_x);
    cublasAlloc(7, sizeof *y, (void **)&d_y);
    cublasSetMatrix(m, k, sizeof *a, a, m, d_a, m);
    cublasSetMatrix(n, k, sizeof *b, b, n, d_b, n);
    cublasSetVector(7, sizeof *x, x, 1, d_x, 1);
    cublasSetVector(7, sizeof *y, y, 1, d_y, 1);
    cublasSgemm('n', 'T', m, n, k, 2.0, d_a, m, d_b, n, 0, d_c, m);
    cublasGetMatrix(m, n, sizeof *c, d_c, m, c, m);
    double wrong = 0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int l = 0; l < k; l++)
                sum += a[i + l * m] * b[j + l * n];
            wrong += fabs(c[i + j * m] - 2 * sum);
        }
    cublasSaxpy(7, 3.0f, d_x, 1, d_y, 1);
    printf("%g %g %g %d %d\n", wrong, cublasSdot(7, d_x, 1, d_x, 1), cublasSasum(7, d_y, 1),
           cublasIsamax(7, d_x, 1), (int)cublasGetError());
    cublasSgemv('?', m, k, 1, d_a, m, d_x, 1, 0, d_y, 1);
    int error = cublasGetError(), then = cublasGetError();
    printf("%d %d %d\n", error, then, (int)status);
    for (float *each : {d_a, d_b, d_c, d_x, d_y})
        cublasFree(each);
    return cublasShutdown();
}
