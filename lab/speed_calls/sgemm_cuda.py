"""siboehm/SGEMM_CUDA: a ladder of float32 matrix products."""

from speed_calls.calls import at, floats, up

REPOSITORY = "siboehm/SGEMM_CUDA"


def sgemm(file, kernel, grid, block, template=None, n=2048, within=""):
    return at(f"src/kernels/{file}.cuh", kernel, template=template, ladder=f"sgemm {n}", within=within)[
        grid, block
    ](lambda: (n, n, n, 0.5, floats(n, n), floats(n, n), 2.0, floats(n, n)))


def ladder(n):
    tiles = n // 128
    return [
        sgemm("1_naive", "sgemm_naive", (up(n, 32), up(n, 32)), (32, 32), n=n),
        sgemm(
            "2_kernel_global_mem_coalesce",
            "sgemm_global_mem_coalesce",
            (up(n, 32), up(n, 32)),
            1024,
            (32,),
            n=n,
        ),
        sgemm("3_kernel_shared_mem_blocking", "sgemm_shared_mem_block", (n // 32, n // 32), 1024, (32,), n=n),
        sgemm("4_kernel_1D_blocktiling", "sgemm1DBlocktiling", (n // 64, n // 64), 512, (64, 64, 8, 8), n=n),
        sgemm("5_kernel_2D_blocktiling", "sgemm2DBlocktiling", (tiles, tiles), 256, (128, 128, 8, 8, 8), n=n),
        sgemm("6_kernel_vectorize", "sgemmVectorize", (tiles, tiles), 256, (128, 128, 8, 8, 8), n=n),
        sgemm(
            "7_kernel_resolve_bank_conflicts",
            "sgemmResolveBankConflicts",
            (tiles, tiles),
            256,
            (128, 128, 8, 8, 8),
            n=n,
        ),
        sgemm(
            "8_kernel_bank_extra_col",
            "sgemmResolveBankExtraCol",
            (tiles, tiles),
            256,
            (128, 128, 8, 8, 8),
            n=n,
        ),
        sgemm("9_kernel_autotuned", "sgemmAutotuned", (tiles, tiles), 256, (128, 128, 16, 8, 8), n=n),
        sgemm(
            "10_kernel_warptiling",
            "sgemmWarptiling",
            (tiles, tiles),
            128,
            (128, 128, 16, 64, 64, 4, 8, 4, 128),
            n=n,
        ),
    ]


LAUNCHES = [*ladder(1024), *ladder(2048)]
