"""namespacemarcus/CUDA-Practice: functions of elements, softmax, norms, sums, histograms and transposes."""

from speed_calls.calls import at, f16, f32, floats, i32, integers, positive, zeros

REPOSITORY = "namespacemarcus/CUDA-Practice"
N = 1 << 24
ROWS, WIDTH = 16384, 1024


def elements(name, form, each, dtype):
    return at(f"src/{name}/{name}_kernel.cuh", f"{name}_{form}_kernel", ladder=f"{name} {form[:3]}")[
        N // (256 * each), 256
    ](lambda: (floats(N, dtype=dtype), zeros(N, dtype=dtype), N))


def of_rows(file, kernel, each, dtype, ladder, *more):
    sizes = (*more, ROWS, WIDTH) if more else (ROWS * WIDTH,)
    return at(file, kernel, template=(WIDTH // each,), ladder=ladder)[ROWS, WIDTH // each](
        lambda: (positive(ROWS, WIDTH, dtype=dtype), zeros(ROWS, WIDTH, dtype=dtype), *sizes)
    )


def histogram(form, each):
    return at("src/histogram/histogram_kernel.cuh", f"histogram_{form}_kernel", ladder="histogram")[
        N // (256 * each), 256
    ](lambda: (integers(0, 256, N), zeros(256, dtype=i32), N))


def transposed(form, each):
    return at(
        "src/transpose/matrix_transpose_loadcoal_kernel.cuh",
        f"matrix_transpose_{form}_loadcoal_kernel",
        ladder="transpose",
    )[4096 * 4096 // (256 * each), 256](lambda: (floats(4096, 4096), zeros(4096, 4096), 4096, 4096))


def total(form, each, dtype, ladder):
    return at(
        "src/reduce/reduce_kernel.cuh", f"block_all_reduce_sum_{form}_kernel", template=(256,), ladder=ladder
    )[N // (256 * each), 256](lambda: (floats(N, dtype=dtype), zeros(1), N))


def matvec(form):
    return at("src/sgemv/sgemv_kernel.cuh", f"sgemv_{form}_kernel", ladder="matvec")[(1, 8192 // 4), (32, 4)](
        lambda: (floats(8192, 4096), floats(4096), zeros(8192), 8192, 4096)
    )


SAFE, ONLINE = "src/softmax/safe_softmax_kernel.cuh", "src/softmax/safe_online_softmax_kernel.cuh"
RMS, LAYER = "src/rmsnorm/rmsnorm_kernel.cuh", "src/layernorm/layernorm_kernel.cuh"

LAUNCHES = [
    *(elements("elu", form, each, f32) for form, each in (("f32", 1), ("f32x4", 4))),
    *(
        elements("elu", form, each, f16)
        for form, each in (("f16", 1), ("f16x2", 2), ("f16x8", 8), ("f16x8_pack", 8))
    ),
    *(elements("swish", form, each, f32) for form, each in (("f32", 1), ("f32x4", 4))),
    *(
        elements("swish", form, each, f16)
        for form, each in (("f16", 1), ("f16x2", 2), ("f16x8", 8), ("f16x8_pack", 8))
    ),
    histogram("i32", 1),
    histogram("i32x4", 4),
    of_rows("src/softmax/softmax_kernel.cuh", "softmax_f32_per_token_kernel", 1, f32, "softmax"),
    of_rows("src/softmax/softmax_kernel.cuh", "softmax_f32x4_per_token_kernel", 4, f32, "softmax"),
    of_rows(SAFE, "safe_softmax_f32_per_token_kernel", 1, f32, "softmax"),
    of_rows(SAFE, "safe_softmax_f32x4_per_token_kernel", 4, f32, "softmax"),
    of_rows(ONLINE, "online_safe_softmax_f32_per_token_kernel", 1, f32, "softmax"),
    of_rows(ONLINE, "online_safe_softmax_f32x4_pack_per_token_kernel", 4, f32, "softmax"),
    of_rows(SAFE, "safe_softmax_f16_f32_per_token_kernel", 1, f16, "softmax of halves"),
    of_rows(SAFE, "safe_softmax_f16x2_f32_per_token_kernel", 2, f16, "softmax of halves"),
    of_rows(SAFE, "safe_softmax_f16x8_pack_f32_per_token_kernel", 8, f16, "softmax of halves"),
    of_rows(RMS, "rms_norm_f32_kernel", 1, f32, "RMSNorm", 1.0),
    of_rows(RMS, "rms_norm_f32x4_kernel", 4, f32, "RMSNorm", 1.0),
    of_rows(RMS, "rms_norm_f16_f32_kernel", 1, f16, "RMSNorm of halves", 1.0),
    of_rows(RMS, "rms_norm_f16x8_f32_kernel", 8, f16, "RMSNorm of halves", 1.0),
    of_rows(RMS, "rms_norm_f16x8_pack_f32_kernel", 8, f16, "RMSNorm of halves", 1.0),
    of_rows(LAYER, "layer_norm_f32_kernel", 1, f32, "LayerNorm", 1.0, 0.0),
    of_rows(LAYER, "layer_norm_f32x4_kernel", 4, f32, "LayerNorm", 1.0, 0.0),
    of_rows(LAYER, "layer_norm_f16_f16_kernel", 1, f16, "LayerNorm of halves", 1.0, 0.0),
    of_rows(LAYER, "layer_norm_f16_f32_kernel", 1, f16, "LayerNorm of halves", 1.0, 0.0),
    of_rows(LAYER, "layer_norm_f16x8_pack_f32_kernel", 8, f16, "LayerNorm of halves", 1.0, 0.0),
    transposed("f32", 1),
    transposed("f32x4", 4),
    total("f32_f32", 1, f32, "sum"),
    total("f32x4_f32", 4, f32, "sum"),
    total("f16_f32", 1, f16, "sum of halves"),
    total("f16x2_f32", 2, f16, "sum of halves"),
    total("f16x8_pack_f32", 8, f16, "sum of halves"),
    matvec("k32_f32"),
    matvec("k128_f32x4"),
]
