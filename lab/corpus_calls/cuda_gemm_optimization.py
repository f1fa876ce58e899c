"""Calls of the kernels of leimao/CUDA-GEMM-Optimization: its own tiles, most at sizes they do not divide."""

from corpus_calls.calls import at, f16, floats

REPOSITORY = "leimao/CUDA-GEMM-Optimization"
TILED = "2d_block_tiling"
LANES = f"{TILED}_1d_thread_tiling"
THREADS = f"{TILED}_2d_thread_tiling"
WARPS = f"{TILED}_2d_warp_tiling_2d_thread_tiling_matrix_transpose"
VECTORS = "_vectorized_memory_access"
MASK = (
    "Columns beyond the last one are masked out of a vector of 4 by more than 4: a write below a local array."
)
TILES = (
    "It is given the threads of a warp where it expects the tiles of a thread: registers beyond their array."
)
BLOCKS_128 = (128, 128, 16)
WARP_TILES = (*BLOCKS_128, 32, 64, 8, 8, 4, 8)
WMMA_TILES = (*BLOCKS_128, 16, 16, 32, 64, 16, 16, 16, 256)


def gemm(file, kernel, tiles, grid, block, dtype="float", m=100, n=120, k=72, bug=""):
    kind = {"dtype": f16} if dtype == "__half" else {}
    return at(f"src/{file}.cu", kernel, template=(dtype, *tiles))[grid, block](
        lambda: (
            m,
            n,
            k,
            0.5,
            floats(m, k, **kind),
            k,
            floats(k, n, **kind),
            n,
            2.0,
            floats(m, n, **kind),
            n,
        ),
        lambda m, n, k, alpha, a, lda, b, ldb, beta, c, ldc: {9: alpha * (a @ b) + beta * c},
        bug=bug,
        tolerance=3e-3 if dtype == "__half" else 1e-4,
    )


RUNS = [
    gemm("00_non_coalesced_global_memory_access", "gemm_v00", (), (4, 4), (32, 32)),
    gemm("01_coalesced_global_memory_access", "gemm_v01", (), (4, 4), (32, 32)),
    gemm(f"02_{TILED}", "gemm_v02", (32, 32, 32), (4, 4), (32, 32)),
    gemm(f"02_{TILED}{VECTORS}", "gemm_v02_vectorized", (32, 32, 32), (4, 4), (32, 32), bug=MASK),
    gemm(f"03_{LANES}", "gemm_v03", (64, 64, 8, 8), (2, 2), 512),
    gemm(f"03_{LANES}{VECTORS}", "gemm_v03_vectorized", (64, 64, 8, 8), (2, 2), 512),
    gemm(f"04_{THREADS}", "gemm_v04", (*BLOCKS_128, 8, 8), 1, 256),
    gemm(f"04_{THREADS}{VECTORS}", "gemm_v04_vectorized", (*BLOCKS_128, 8, 8), 1, 256, m=128, n=128),
    gemm(f"05_{THREADS}_matrix_transpose", "gemm_v05", (*BLOCKS_128, 8, 8), 1, 256),
    gemm(
        f"05_{THREADS}_matrix_transpose{VECTORS}",
        "gemm_v05_vectorized",
        (*BLOCKS_128, 8, 8),
        1,
        256,
        bug=MASK,
    ),
    gemm(f"06_{WARPS}", "gemm_v06", WARP_TILES, 1, 256, m=128, n=128, k=64, bug=TILES),
    gemm(f"06_{WARPS}{VECTORS}", "gemm_v06_vectorized", WARP_TILES, 1, 256, m=128, n=128, k=64, bug=TILES),
    gemm(
        f"06_{WARPS}{VECTORS}_double_buffered",
        "gemm_v06_vectorized_double_buffered",
        WARP_TILES,
        1,
        256,
        m=128,
        n=128,
        k=64,
        bug=TILES,
    ),
    gemm(f"07_{WARPS}_wmma", "gemm_v07", WMMA_TILES, 1, 256, "__half", m=128, n=128, k=64),
    gemm(
        f"07_{WARPS}_wmma{VECTORS}", "gemm_v07_vectorized", WMMA_TILES, 1, 256, "__half", m=128, n=128, k=64
    ),
    gemm(
        f"07_{WARPS}_wmma{VECTORS}_double_buffered",
        "gemm_v07_vectorized_double_buffered",
        WMMA_TILES,
        1,
        256,
        "__half",
        m=128,
        n=128,
        k=64,
    ),
]
