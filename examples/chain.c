/* A chain by the C library: y = hardtanh(GroupNorm(x W^T)), on the CPU simulator.
 *
 *     make install PREFIX=$HOME/fgn
 *     cc -std=c99 -pedantic chain.c $(PKG_CONFIG_PATH=$HOME/fgn/lib/pkgconfig pkg-config --cflags --libs fgn-sim) \
 *         -Wl,-rpath,$HOME/fgn/lib -o chain && ./chain */
#include <fgn.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 4, IN = 32, OUT = 64, GROUPS = 8 };

/* The kernels read 16 bytes at a time, so arrays are aligned to as many; malloc() does so. */
static float *array(int count) {
    float *values = malloc((size_t)count * sizeof *values);
    int i;
    for (i = 0; values && i < count; i++)
        values[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    return values;
}

int main(void) {
    float *x = array(BATCH * IN), *weight = array(OUT * IN), *y = array(BATCH * OUT);
    fgn_chain chain = {0};
    unsigned long long bytes = 0;
    int version, i;
    void *workspace;
    double sum = 0.0;
    chain.batch = BATCH, chain.in_features = IN, chain.out_features = OUT, chain.groups = GROUPS;
    chain.eps = 1e-5f;
    chain.weight = weight;
    chain.after_count = 1;
    chain.after[0].kind = FGN_HARDTANH, chain.after[0].a = -2.0f, chain.after[0].b = 2.0f;
    version = fgn_default_version(&chain);
    if (!x || !weight || !y || fgn_workspace_bytes(version, &chain, &bytes) != FGN_OK)
        return 1;
    workspace = malloc(bytes + 1);
    if (fgn_forward(version, &chain, x, y, workspace, bytes, NULL) != FGN_OK) {
        fprintf(stderr, "%s\n", fgn_last_error());
        return 1;
    }
    for (i = 0; i < BATCH * OUT; i++)
        sum += (double)y[i];
    printf("%s: the mean of y is %.6f\n", fgn_version_at(version)->name, sum / (BATCH * OUT));
    free(workspace), free(x), free(weight), free(y);
    return 0;
}
