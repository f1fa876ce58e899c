"""Calls of the kernels of siboehm/SGEMM_CUDA, with its own tiles; most ask for sizes that these divide."""

from corpus_calls.calls import at, floats

REPOSITORY = "siboehm/SGEMM_CUDA"


def sgemm(file, kernel, grid, block, template=None, m=128, n=128, k=48, within=""):
    return at(f"src/kernels/{file}.cuh", kernel, template=template, within=within)[grid, block](
        lambda: (m, n, k, 0.5, floats(m, k), floats(k, n), 2.0, floats(m, n)),
        lambda m, n, k, alpha, a, b, beta, c: {7: alpha * (a @ b) + beta * c},
    )


RUNS = [
    sgemm("1_naive", "sgemm_naive", (4, 4), (32, 32), m=100, n=120, k=50),
    sgemm(
        "2_kernel_global_mem_coalesce", "sgemm_global_mem_coalesce", (4, 4), 1024, (32,), m=100, n=120, k=50
    ),
    sgemm("3_kernel_shared_mem_blocking", "sgemm_shared_mem_block", (4, 4), 1024, (32,), k=64),
    sgemm("4_kernel_1D_blocktiling", "sgemm1DBlocktiling", (2, 2), 512, (64, 64, 8, 8)),
    sgemm("5_kernel_2D_blocktiling", "sgemm2DBlocktiling", (1, 1), 256, (128, 128, 8, 8, 8)),
    sgemm("6_kernel_vectorize", "sgemmVectorize", (1, 1), 256, (128, 128, 8, 8, 8)),
    sgemm("7_kernel_resolve_bank_conflicts", "sgemmResolveBankConflicts", (1, 1), 256, (128, 128, 8, 8, 8)),
    sgemm("8_kernel_bank_extra_col", "sgemmResolveBankExtraCol", (1, 1), 256, (128, 128, 8, 8, 8)),
    sgemm("9_kernel_autotuned", "sgemmAutotuned", (1, 1), 256, (128, 128, 16, 8, 8)),
    sgemm("10_kernel_warptiling", "sgemmWarptiling", (1, 1), 128, (128, 128, 16, 64, 64, 4, 8, 4, 128)),
    sgemm(
        "11_kernel_double_buffering",
        "sgemmDoubleBuffering",
        (1, 1),
        256,
        (128, 256, 16, 128, 32, 1, 8, 8, 256),
        n=256,
        within="src/runner.cu",
    ),
    sgemm(
        "12_kernel_double_buffering",
        "runSgemmDoubleBuffering2",
        (1, 1),
        128,
        (128, 128, 16, 64, 64, 4, 8, 4, 128),
        within="src/runner.cu",
    ),
]
