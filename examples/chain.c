/* A chain by the C library: y = hardtanh(GroupNorm(x W^T)), on the CPU simulator.
 *
 *     make install PREFIX=$HOME/fgn
 *     export PKG_CONFIG_PATH=$HOME/fgn/lib/pkgconfig
 *     cc -std=c99 -pedantic chain.c $(pkg-config --cflags --libs fgn-sim) -Wl,-rpath,$HOME/fgn/lib -o chain
 *     ./chain */
#include <fgn.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 4, IN = 32, OUT = 64, GROUPS = 8 };

int main(void) {
    static float x[BATCH * IN], weight[OUT * IN], y[BATCH * OUT];
    fgn_chain chain = {0};
    fgn_plan plan;
    void *workspace;
    double sum = 0.0;
    int i;
    for (i = 0; i < BATCH * IN; i++)
        x[i] = (float)(i % 7) - 3.0f;
    for (i = 0; i < OUT * IN; i++)
        weight[i] = (float)(i % 5) - 2.0f;
    chain.batch = BATCH, chain.in_features = IN, chain.out_features = OUT, chain.groups = GROUPS;
    chain.eps = 1e-5f;
    chain.weight = weight;
    chain.after_count = 1;
    chain.after[0].kind = FGN_HARDTANH, chain.after[0].a = -2.0f, chain.after[0].b = 2.0f;
    if (fgn_plan_chain(FGN_BEST_VERSION, &chain, NULL, &plan) != FGN_OK) {
        fprintf(stderr, "%s\n", fgn_last_error());
        return 1;
    }
    workspace = malloc((size_t)plan.workspace_bytes + 1);
    if (!workspace || fgn_run(&plan, &chain, x, y, workspace, plan.workspace_bytes, NULL) != FGN_OK) {
        fprintf(stderr, "%s\n", fgn_last_error());
        return 1;
    }
    for (i = 0; i < BATCH * OUT; i++)
        sum += (double)(y[i] * y[i]);
    printf("%s: the mean square of y is %.4f\n", fgn_version_at(plan.version)->name, sum / (BATCH * OUT));
    free(workspace);
    return 0;
}
