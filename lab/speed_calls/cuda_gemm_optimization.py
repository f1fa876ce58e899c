"""leimao/CUDA-GEMM-Optimization: another ladder, in float32 and on tensor cores."""

from speed_calls.calls import at, f16, f32, floats, up

REPOSITORY = "leimao/CUDA-GEMM-Optimization"
TILED = "2d_block_tiling"
LANES = f"{TILED}_1d_thread_tiling"
THREADS = f"{TILED}_2d_thread_tiling"
WARPS = f"{TILED}_2d_warp_tiling_2d_thread_tiling_matrix_transpose"
VECTORS = "_vectorized_memory_access"
BLOCKS_128 = (128, 128, 16)
WMMA_TILES = (*BLOCKS_128, 16, 16, 32, 64, 16, 16, 16, 256)
N = 2048


def gemm(file, kernel, tiles, tile, block, dtype="float", n=N):
    kind = f16 if dtype == "__half" else f32
    grid = (up(n, tile), up(n, tile))
    return at(
        f"src/{file}.cu",
        kernel,
        template=(dtype, *tiles),
        ladder=f"gemm {'float16' if kind == f16 else 'float32'}",
    )[grid, block](
        lambda: (
            *(n, n, n, 0.5),
            *(floats(n, n, dtype=kind), n, floats(n, n, dtype=kind), n),
            *(2.0, floats(n, n, dtype=kind), n),
        )
    )


LAUNCHES = [
    gemm("00_non_coalesced_global_memory_access", "gemm_v00", (), 32, (32, 32)),
    gemm("01_coalesced_global_memory_access", "gemm_v01", (), 32, (32, 32)),
    gemm(f"02_{TILED}", "gemm_v02", (32, 32, 32), 32, (32, 32)),
    gemm(f"03_{LANES}", "gemm_v03", (64, 64, 8, 8), 64, 512),
    gemm(f"03_{LANES}{VECTORS}", "gemm_v03_vectorized", (64, 64, 8, 8), 64, 512),
    gemm(f"04_{THREADS}", "gemm_v04", (*BLOCKS_128, 8, 8), 128, 256),
    gemm(f"04_{THREADS}{VECTORS}", "gemm_v04_vectorized", (*BLOCKS_128, 8, 8), 128, 256),
    gemm(f"05_{THREADS}_matrix_transpose", "gemm_v05", (*BLOCKS_128, 8, 8), 128, 256),
    gemm(f"07_{WARPS}_wmma", "gemm_v07", WMMA_TILES, 128, 256, "__half"),
    gemm(f"07_{WARPS}_wmma{VECTORS}", "gemm_v07_vectorized", WMMA_TILES, 128, 256, "__half"),
    gemm(
        f"07_{WARPS}_wmma{VECTORS}_double_buffered",
        "gemm_v07_vectorized_double_buffered",
        WMMA_TILES,
        128,
        256,
        "__half",
    ),
]
