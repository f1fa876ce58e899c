"""huicongyao/KernelPractices: products of matrices, histograms of ten bins, transposes, rectifiers,
rotations of positions."""

from speed_calls.calls import at, f16, floats, i32, integers, up, zeros

REPOSITORY = "huicongyao/KernelPractices"
SIDE, NUMBERS, BINS, WIDE, COUNT, LENGTH, WIDTH = 2048, 1 << 22, 10, 4096, 1 << 25, 16384, 1024


def product(kernel, tile, block, template=None):
    return at("GEMM/gemm.cu", kernel, template=template, ladder="product")[(SIDE // tile,) * 2, block](
        lambda: (floats(SIDE, SIDE), floats(SIDE, SIDE), zeros(SIDE, SIDE), SIDE, SIDE, SIDE)
    )


def histogram(kernel, each, *bins):
    block = 256 // each
    grid, shared = up(NUMBERS, 256), 4 * sum(bins)
    return at("histogram.cu", kernel, ladder="histogram")[grid, block, shared](
        lambda: (integers(0, BINS, NUMBERS), zeros(BINS, dtype=i32), NUMBERS, *bins)
    )


def transpose(kernel, grid, block, template=None, is_output_last=False):
    def arguments():
        x, y = floats(WIDE, WIDE), zeros(WIDE, WIDE)
        return (x, WIDE, WIDE, y) if is_output_last else (x, y, WIDE, WIDE)

    return at("mat_transpose.cu", kernel, template=template, ladder="transpose")[grid, block](arguments)


def rectifier(kernel, each, **dtype):
    return at("relu.cu", kernel, ladder="rectifier")[COUNT // 256 // each, 256](
        lambda: (floats(COUNT, **dtype), zeros(COUNT, **dtype), COUNT)
    )


def rotation(kernel, grid, block, each):
    return at("rope.cu", kernel, ladder="rotation")[grid, block](
        lambda: (floats(LENGTH, WIDTH), zeros(LENGTH, WIDTH), LENGTH, WIDTH // each)
    )


LAUNCHES = [
    product("sgem_naive_f32_kernel", 32, (32, 32)),
    product("sgemm_sliced_k_f32_kernel", 32, (32, 32), (32, 32, 32)),
    product("sgemm_sliced_k_f32_dbuf_kernel", 32, (32, 32), (32, 32, 32)),
    product("sgemm_sliced_k_f32x4_dbuf_kernel", 32, (16, 16), (32, 32, 32)),
    product("sgemm_t_4x4_sliced_k_f32x4_dbuf_kernel", 64, (16, 16), (64, 64, 16, 4, 4)),
    product("sgemm_t_8x8_sliced_k_f32x4_kernel", 128, (16, 16), (128, 128, 8, 8, 8)),
    histogram("histogram_i32_kernel", 1),
    histogram("histogram_i32_shared_kernel", 1, BINS),
    histogram("histogram_i32x4_kernel", 4),
    transpose("transposeNaive", (WIDE // 32,) * 2, (32, 32)),
    transpose("transposeSharedMem", (WIDE // 32,) * 2, (32, 32), (32,)),
    transpose("mat_trans_smem_swizzle_kernel", (WIDE // 32,) * 2, (32, 32), (32,), is_output_last=True),
    transpose(
        "mat_transpose_f32x4_shared_bcf_merge_write_row2col2d_kernel",
        (WIDE // 16, WIDE // 64),
        (16, 16),
        (64, 16, 1),
    ),
    rectifier("relu_f32_kernel", 1),
    rectifier("relu_f32x4_kernel", 4),
    rectifier("relu_f16x2_kernel", 2, dtype=f16),
    rotation("rope_f32_kernel", LENGTH * WIDTH // 512, 256, 2),
    rotation("rope_f32_v2_kernel", LENGTH, WIDTH // 2, 2),
    rotation("rope_f32x4_pack_kernel", LENGTH * WIDTH // 1024, 256, 4),
]
