"""Calls of the kernels of Bruce-Lee-LY/cuda_hgemm: B by columns, cp.async, ldmatrix, mma and wmma."""

from corpus_calls.calls import at, f16, floats, zeros

REPOSITORY = "Bruce-Lee-LY/cuda_hgemm"


def hgemm(file, kernel, grid=(16, 1, 1), block=256, stages=1, bug="", m=256, n=128, k=128):
    shared = 65536 if stages <= 2 else stages * 30720
    return at(f"src/{file}.cu", f"{kernel}Kernel")[
        grid, block, 0 if block == 32 or file == "simt_naive" else shared + 8192
    ](
        lambda: (floats(m, k, dtype=f16), floats(n, k, dtype=f16), zeros(m, n, dtype=f16), m, n, k),
        lambda a, b, *_: {2: a @ b.T},
        bug=bug,
        tolerance=3e-2,
    )


RUNS = [
    hgemm(
        "simt_naive",
        "simtNaive",
        (5, 7),
        (16, 16),
        m=100,
        n=70,
        k=50,
        bug="Its guard returns when row and column are both outside; it has to when either is.",
    ),
    hgemm("mma/mma_naive", "mmaNaive", (10, 7), 32, m=112, n=80, k=48),
    hgemm("mma/mma_base", "mmaBase"),
    hgemm("mma/mma_permuted", "mmaPermuted"),
    hgemm("mma/mma_async", "mmaAsync"),
    hgemm("mma/mma_async_pg2s", "mmaAsyncPg2s"),
    hgemm("mma/mma_async_pg2s_ps2r", "mmaAsyncPg2sPs2r"),
    hgemm("mma/mma_async_stage2", "mmaAsyncStage2"),
    hgemm("mma/mma_async_stage3", "mmaAsyncStage3", stages=3),
    hgemm("mma/mma_async_stage4", "mmaAsyncStage4", stages=4),
    hgemm("wmma/wmma_naive", "wmmaNaive", (5, 7), 32, m=112, n=80, k=48),
    hgemm("wmma/wmma_base", "wmmaBase"),
    hgemm("wmma/wmma_padding", "wmmaPadding"),
    hgemm("wmma/wmma_async", "wmmaAsync"),
    hgemm("wmma/wmma_async_pg2s", "wmmaAsyncPg2s"),
    hgemm("wmma/wmma_async_pg2s_ps2r", "wmmaAsyncPg2sPs2r"),
    hgemm("wmma/wmma_async_stage2", "wmmaAsyncStage2"),
    hgemm("wmma/wmma_async_stage3", "wmmaAsyncStage3", stages=3),
]
