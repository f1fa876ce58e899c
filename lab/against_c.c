/* The loops of against_c.cu as a C program would have them: against_c NAME SIZE TIMES. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static float reduction(const float *x, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

static void stencil(const float *restrict x, float *restrict y, int n) {
    for (int row = 1; row < n - 1; row++)
        for (int column = 1; column < n - 1; column++) {
            const float *at = &x[row * n + column];
            y[row * n + column] = 0.2f * (at[0] + at[-1] + at[1] + at[-n] + at[n]);
        }
}

static void saxpy(const float *restrict x, float *restrict y, int n) {
    for (int i = 0; i < n; i++)
        y[i] = 2 * x[i] + y[i];
}

static void three(const float *restrict x, float *restrict y, int n) {
    for (int i = 1; i < n - 1; i++)
        y[i] = 0.25f * x[i - 1] + 0.5f * x[i] + 0.25f * x[i + 1];
}

static void product(const float *restrict a, const float *restrict b, float *restrict c, int n) {
    for (int row = 0; row < n; row++)
        for (int column = 0; column < n; column++) {
            float sum = 0;
            for (int k = 0; k < n; k++)
                sum += a[row * n + k] * b[k * n + column];
            c[row * n + column] = sum;
        }
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

int main(int count, char **arguments) {
    if (count < 4)
        return 2;
    int n = atoi(arguments[2]), times = atoi(arguments[3]);
    size_t elements = (size_t)n * (size_t)n;
    float *x = malloc(elements * sizeof *x), *y = malloc(elements * sizeof *y);
    for (size_t i = 0; i < elements; i++)
        x[i] = y[i] = 1;
    double best = 1e9;
    for (int i = 0; i < times; i++) {
        double begin = now();
        if (strcmp(arguments[1], "reduction") == 0)
            y[0] = reduction(x, (int)elements);
        else if (strcmp(arguments[1], "stencil") == 0)
            stencil(x, y, n);
        else if (strcmp(arguments[1], "saxpy") == 0)
            saxpy(x, y, (int)elements);
        else if (strcmp(arguments[1], "three") == 0)
            three(x, y, (int)elements);
        else
            product(x, x, y, n);
        __asm__ volatile("" : : "g"(y) : "memory"); /* the result is used */
        double seconds = now() - begin;
        best = seconds < best ? seconds : best;
    }
    printf("%.9f\n", best);
}
