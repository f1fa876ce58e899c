"""xlite-dev/LeetCUDA: families of one operation by dtype and width of a load."""

from speed_calls.calls import at, bf16, f16, f32, floats, i8, integers, positive, zeros

REPOSITORY = "xlite-dev/LeetCUDA"
WIDTHS = {"f32": 1, "f32x4": 4, "f16": 1, "f16x2": 2, "f16x8": 8, "f16x8_pack": 8}
N = 1 << 24


def dtype_of(kind):
    return {"f32": f32, "f16": f16, "bf16": bf16}[kind.split("x")[0]]


def pointwise(name, kinds=WIDTHS):
    return [
        at(f"kernels/{name}/{name}.cu", f"{name}_{kind}_kernel", ladder=f"{name} {kind[:3]}")[
            N // 256 // WIDTHS[kind], 256
        ](lambda kind=kind: (4 * floats(N, dtype=dtype_of(kind)), zeros(N, dtype=dtype_of(kind)), N))
        for kind in kinds
    ]


def addition(kind):
    return at(
        "kernels/elementwise/elementwise.cu", f"elementwise_add_{kind}_kernel", ladder=f"add {kind[:3]}"
    )[N // 256 // WIDTHS[kind], 256](
        lambda: (
            floats(N, dtype=dtype_of(kind)),
            floats(N, dtype=dtype_of(kind)),
            zeros(N, dtype=dtype_of(kind)),
            N,
        )
    )


def embedding(kind, each, width=1024):
    return at("kernels/embedding/embedding.cu", f"embedding_{kind}_kernel", ladder=f"embedding {kind[:3]}")[
        20000, width // each
    ](
        lambda: (
            *(integers(0, 30000, 20000), floats(30000, width, dtype=dtype_of(kind))),
            *(zeros(20000 * width, dtype=dtype_of(kind)), 20000, width),
        )
    )


def reduction(kind, accumulator, each, pack=""):
    return at(
        "kernels/reduce/block_all_reduce.cu",
        f"block_all_reduce_sum_{kind}{pack}_{accumulator}_kernel",
        template=(256 // each,),
        ladder=f"sum {kind[:3]}",
    )[N // 256, 256 // each](lambda: (positive(N, dtype=dtype_of(kind)), zeros(1), N))


def dot(kind, each, pack=""):
    return at(
        "kernels/dot-product/dot_product.cu",
        f"dot_prod_{kind}{pack}_f32_kernel",
        template=(256 // each,),
        ladder=f"dot {kind[:3]}",
    )[N // 256, 256 // each](
        lambda: (positive(N, dtype=dtype_of(kind)), positive(N, dtype=dtype_of(kind)), zeros(1), N)
    )


def rows(file, kernel, kind, each, *scalars, count=30000, width=1024):
    sizes = (count, width) if scalars else (count * width,)
    return at(
        f"kernels/{file}.cu",
        f"{kernel}_kernel",
        template=(width // each,),
        ladder=f"{file.split('/')[0]} {kind[:3]}",
    )[count, width // each](
        lambda: (
            *(floats(count, width, dtype=dtype_of(kind)), zeros(count * width, dtype=dtype_of(kind))),
            *(*scalars, *sizes),
        )
    )


def transpose(kernel, grid, block, n=4096):
    return at("kernels/mat-transpose/mat_transpose.cu", f"mat_transpose_{kernel}_kernel", ladder="transpose")[
        grid, block
    ](lambda: (floats(n, n), zeros(n * n), n, n))


def gemm(file, kernel, block, grid, n=2048, template=None, dtype=f32, shared=0):
    return at(f"kernels/{file}.cu", f"{kernel}_kernel", template=template, ladder=file.split("/")[-1])[
        grid, block, shared
    ](lambda: (floats(n, n, dtype=dtype), floats(n, n, dtype=dtype), zeros(n, n, dtype=dtype), n, n, n))


def matrix_vector(file, kernel, k, dtype, rows_per_block=4, m=40000):
    return at(f"kernels/{file}.cu", f"{kernel}_kernel")[m // rows_per_block, (32, 4)](
        lambda: (floats(m, k, dtype=dtype), floats(k, dtype=dtype), zeros(m, dtype=dtype), m, k)
    )


def histogram(kernel, each):
    return at("kernels/histogram/histogram.cu", kernel, ladder="histogram")[N // 256 // each, 256](
        lambda: (integers(0, 5000, N), integers(0, 1, 5000), N)
    )


T = 4096
LAUNCHES = [
    *pointwise("gelu"),
    *pointwise("relu"),
    *pointwise("elu"),
    *pointwise("sigmoid", ("f32", "f32x4", "f16", "f16x8_pack")),
    *(addition(kind) for kind in WIDTHS),
    embedding("f32", 1),
    embedding("f32x4", 4),
    embedding("f16", 1),
    embedding("f16x8", 8),
    reduction("f32", "f32", 1),
    reduction("f32x4", "f32", 4),
    reduction("f16", "f32", 1),
    reduction("f16x2", "f32", 2),
    reduction("bf16", "f32", 1),
    reduction("f16x8", "f32", 8, "_pack"),
    dot("f32", 1),
    dot("f32x4", 4),
    dot("f16", 1),
    dot("f16x2", 2),
    rows("layer-norm/layer_norm", "layer_norm_f32", "f32", 1, 1.5, 0.5),
    rows("layer-norm/layer_norm", "layer_norm_f32x4", "f32", 4, 1.5, 0.5),
    rows("layer-norm/layer_norm", "layer_norm_f16_f16", "f16", 1, 1.5, 0.5),
    rows("layer-norm/layer_norm", "layer_norm_f16x2_f16", "f16", 2, 1.5, 0.5),
    rows("layer-norm/layer_norm", "layer_norm_f16x8_pack_f32", "f16", 8, 1.5, 0.5),
    rows("rms-norm/rms_norm", "rms_norm_f32", "f32", 1, 1.5),
    rows("rms-norm/rms_norm", "rms_norm_f32x4", "f32", 4, 1.5),
    rows("rms-norm/rms_norm", "rms_norm_f16x8_pack_f32", "f16", 8, 1.5),
    rows("softmax/softmax", "softmax_f32_per_token", "f32", 1),
    rows("softmax/softmax", "softmax_f32x4_per_token", "f32", 4),
    rows("softmax/softmax", "safe_softmax_f32_per_token", "f32", 1),
    rows("softmax/softmax", "safe_softmax_f32x4_per_token", "f32", 4),
    transpose("f32_col2row", T * T // 256, 256),
    transpose("f32_row2col", T * T // 256, 256),
    transpose("f32x4_col2row", T * T // 1024, 256),
    transpose("f32x4_row2col", T * T // 1024, 256),
    gemm("sgemm/sgemm", "sgemm_naive_f32", (32, 32), (64, 64)),
    gemm("sgemm/sgemm", "sgemm_sliced_k_f32", (32, 32), (64, 64)),
    gemm("sgemm/sgemm", "sgemm_t_8x8_sliced_k_f32x4", (16, 16), (16, 16)),
    gemm("sgemm/sgemm", "sgemm_t_8x8_sliced_k_f32x4_bcf", (16, 16), (16, 16)),
    gemm("hgemm/naive/hgemm", "hgemm_naive_f16", (32, 32), (64, 64), dtype=f16),
    gemm("hgemm/naive/hgemm", "hgemm_sliced_k_f16", (32, 32), (64, 64), dtype=f16),
    gemm("hgemm/naive/hgemm", "hgemm_t_8x8_sliced_k_f16x4", (16, 16), (16, 16), dtype=f16),
    matrix_vector("sgemv/sgemv", "sgemv_k32_f32", 1024, f32),
    matrix_vector("sgemv/sgemv", "sgemv_k128_f32x4", 1024, f32),
    matrix_vector("hgemv/hgemv", "hgemv_k32_f16", 2048, f16),
    matrix_vector("hgemv/hgemv", "hgemv_k128_f16x4", 2048, f16),
    histogram("histogram_i32_kernel", 1),
    histogram("histogram_i32x4_kernel", 4),
    at("kernels/reduce/block_all_reduce.cu", "block_all_reduce_sum_i8_i32_kernel", template=(256,))[
        N // 256, 256
    ](lambda: (integers(-128, 128, N, dtype=i8), integers(0, 1, 1), N)),
]
