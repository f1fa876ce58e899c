"""Enjia/CUDA-Kernel-Cases-of-Optimization-Techniques-for-GPU-Programming: pairs, one of each mended."""

from speed_calls.calls import at, floats, i32, integers, positive, u8, zeros

REPOSITORY = "Enjia/CUDA-Kernel-Cases-of-Optimization-Techniques-for-GPU-Programming"
N = 1 << 24


def over(file, kernel, make, ladder="", each=1, shared=0):
    return at(file, kernel, ladder=ladder)[N // (256 * each), 256, shared](make)


def total(file, kernel):
    return over(file, kernel, lambda: (floats(N), zeros(N // 512), N), "sum", 2)


def one_to_one(file, kernel, ladder, each=1, shared=0):
    return over(file, kernel, lambda: (positive(N), zeros(N), N), ladder, each, shared)


def transposed(kernel):
    grid = (128, 128)
    make = lambda: (floats(4096, 4096), zeros(4096, 4096), 4096)  # noqa: E731
    return at("07_spatial_tiling.cu", kernel, ladder="transpose")[grid, (32, 32)](make)


LAUNCHES = [
    over(
        "01_use_specialized_memory.cu", "conv_global", lambda: (floats(N), zeros(N), floats(9), N), "filter"
    ),
    one_to_one("01_use_specialized_memory.cu", "conv_const", "filter"),
    *(total("02_use_warp_primitives.cu", kernel) for kernel in ("reduce_shared", "reduce_warp")),
    *(total("12_loop_unrolling.cu", kernel) for kernel in ("reduce_no_unroll", "reduce_unroll")),
    one_to_one("03_register_blocking.cu", "stencil1", "stencil"),
    one_to_one("03_register_blocking.cu", "stencil2", "stencil", 2),
    over(
        "05_recompute_instead_of_memory.cu",
        "use_index_array",
        lambda: (floats(N), integers(0, N, N), zeros(N), N),
    ),
    one_to_one("05_recompute_instead_of_memory.cu", "recompute_index", ""),
    transposed("transpose_naive"),
    transposed("transpose_tile"),
    one_to_one("09_prefetching.cu", "simple_compute", "affine"),
    one_to_one("09_prefetching.cu", "prefetch_compute", "affine", shared=1024),
    one_to_one("10_data_compression.cu", "compute_float", "affine"),
    one_to_one("11_precomputation.cu", "compute_sin", "sine"),
    one_to_one("11_precomputation.cu", "compute_lut", "sine"),
    over("17_vectorization.cu", "add_scalar", lambda: (floats(N), floats(N), zeros(N), N), "add"),
    over("17_vectorization.cu", "add_vec4", lambda: (floats(N), floats(N), zeros(N), N // 4), "add", each=4),
    over(
        "25_reduce_atomic_ops.cu",
        "hist_global",
        lambda: (integers(0, 256, N, dtype=u8), zeros(256, dtype=i32), N),
        "bytes",
    ),
    over(
        "25_reduce_atomic_ops.cu",
        "hist_block",
        lambda: (integers(0, 256, N, dtype=u8), zeros(256, dtype=i32), N),
        "bytes",
    ),
]
