/* A chain by the C library on a GPU: y = hardtanh(GroupNorm(x W^T)), the same numbers as chain.c.
 *
 *     make install PREFIX=$HOME/fgn DEVICE=cuda
 *     export PKG_CONFIG_PATH=$HOME/fgn/lib/pkgconfig
 *     nvcc chain_gpu.c $(pkg-config --cflags --libs fgn-cuda) -Xlinker -rpath=$HOME/fgn/lib -o chain_gpu
 *     ./chain_gpu */
#include <cuda_runtime_api.h>
#include <fgn.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 4, IN = 32, OUT = 64, GROUPS = 8 };

static void expect(int holds, const char *why) {
    if (!holds) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
}

/* Memory that the GPU and this program both read and write, aligned to more than 16 bytes. */
static void *allocate(unsigned long long bytes) {
    void *memory = NULL;
    cudaError_t error = cudaMallocManaged(&memory, (size_t)bytes + 1, cudaMemAttachGlobal);
    expect(error == cudaSuccess, cudaGetErrorString(error));
    return memory;
}

int main(void) {
    float *x = allocate(sizeof(float) * BATCH * IN), *y = allocate(sizeof(float) * BATCH * OUT);
    float *weight = allocate(sizeof(float) * OUT * IN);
    void *workspace, *prepared;
    fgn_chain chain = {0};
    fgn_plan plan;
    cudaStream_t stream;
    cudaError_t error;
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
    error = cudaStreamCreate(&stream);
    expect(error == cudaSuccess, cudaGetErrorString(error));
    expect(fgn_plan_chain(FGN_BEST_VERSION, &chain, NULL, &plan) == FGN_OK, fgn_last_error());

    workspace = allocate(plan.workspace_bytes);
    prepared = allocate(plan.prepared_bytes);
    chain.prepared = prepared;
    if (plan.prepared_bytes > 0)
        expect(fgn_prepare(&plan, &chain, prepared, stream) == FGN_OK, fgn_last_error());
    expect(fgn_run(&plan, &chain, x, y, workspace, plan.workspace_bytes, stream) == FGN_OK, fgn_last_error());
    error = cudaStreamSynchronize(stream); /* fgn_run() has only launched */
    expect(error == cudaSuccess, cudaGetErrorString(error));

    for (i = 0; i < BATCH * OUT; i++)
        sum += (double)(y[i] * y[i]);
    printf("%s: the mean square of y is %.4f\n", fgn_version_at(plan.version)->name, sum / (BATCH * OUT));
    cudaFree(x), cudaFree(y), cudaFree(weight), cudaFree(workspace), cudaFree(prepared);
    return 0;
}
