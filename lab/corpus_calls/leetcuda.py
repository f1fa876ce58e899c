"""Calls of the kernels of xlite-dev/LeetCUDA: families of one operation by dtype and width of a load."""

import torch
import torch.nn.functional as F

from corpus_calls.calls import at, bf16, f16, floats, i8, integers, ints, u8, zeros

REPOSITORY = "xlite-dev/LeetCUDA"
HALF_A_WARP = (
    "A block of 16 threads shuffles among the 32 lanes of a warp: values of lanes that are not there."
)
BEYOND = "All lanes of the first warp read the array that has an element for each warp."
WIDTHS = {"f32": 1, "f32x4": 4, "f16": 1, "f16x2": 2, "f16x8": 8, "f16x8_pack": 8}
F8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
DTYPES = {"f32": torch.float32, "f16": f16, "bf16": bf16}


def dtype_of(kind):
    return DTYPES[kind.split("x")[0]]


def loose(kind):
    return 1e-4 if kind.startswith("f32") else 1e-2 if kind.startswith("f16") else 4e-2


def pointwise(name, function, folder=None):
    """The six kernels of an operation on every element."""
    return [
        at(f"kernels/{folder or name}/{name}.cu", f"{name}_{kind}_kernel")[8 // each, 256](
            lambda kind=kind: (
                4 * floats(2048, dtype=dtype_of(kind)),
                zeros(2048, dtype=dtype_of(kind)),
                2048,
            ),
            lambda x, *_: {1: function(x)},
            tolerance=loose(kind),
        )
        for kind, each in WIDTHS.items()
    ]


def addition(folder):
    return [
        at(f"kernels/{folder}/elementwise.cu", f"elementwise_add_{kind}_kernel")[8 // each, 256](
            lambda kind=kind: (
                floats(2048, dtype=dtype_of(kind)),
                floats(2048, dtype=dtype_of(kind)),
                zeros(2048, dtype=dtype_of(kind)),
                2048,
            ),
            lambda a, b, *_: {2: a + b},
            tolerance=loose(kind),
        )
        for kind, each in WIDTHS.items()
    ]


def embedding(kind, each):
    return at("kernels/embedding/embedding.cu", f"embedding_{kind}_kernel")[20, 64 // each](
        lambda: (
            integers(0, 50, 20),
            floats(50, 64, dtype=dtype_of(kind)),
            zeros(20 * 64, dtype=dtype_of(kind)),
            20,
            64,
        ),
        lambda index, weight, *_: {2: weight[index.long()]},
    )


def reduction(kind, accumulator, each, pack=""):
    return at(
        "kernels/reduce/block_all_reduce.cu",
        f"block_all_reduce_sum_{kind}{pack}_{accumulator}_kernel",
        template=(256 // each,),
    )[8, 256 // each](
        lambda: (floats(2048, dtype=dtype_of(kind)).abs(), zeros(1), 2048),
        lambda x, *_: {1: x.sum()},
        tolerance=max(loose(kind), loose(accumulator)),
    )


def float8_reduction(kind, each, pack=""):
    return at(
        "kernels/reduce/block_all_reduce.cu",
        f"block_all_reduce_sum_fp8_{kind}{pack}_f16_kernel",
        template=(256 // each,),
    )[8, 256 // each](
        lambda: (floats(2048).abs().to(F8[kind]).view(u8), zeros(1), 2048),
        lambda x, *_: {1: x.view(F8[kind]).double().sum()},
        tolerance=1e-2,
        bug=HALF_A_WARP if each == 16 else "",
    )


def integer_reduction(kernel, each):
    return at(
        "kernels/reduce/block_all_reduce.cu", f"block_all_reduce_sum_{kernel}_kernel", template=(256 // each,)
    )[8, 256 // each](
        lambda: (integers(-128, 128, 2048, dtype=i8), ints(1), 2048),
        lambda x, *_: {1: x.sum()},
        bug=HALF_A_WARP if each == 16 else "",
    )


def dot(kind, each, pack=""):
    return at(
        "kernels/dot-product/dot_product.cu", f"dot_prod_{kind}{pack}_f32_kernel", template=(256 // each,)
    )[8, 256 // each](
        lambda: (
            floats(2048, dtype=dtype_of(kind)).abs(),
            floats(2048, dtype=dtype_of(kind)).abs(),
            zeros(1),
            2048,
        ),
        lambda a, b, *_: {2: a @ b},
        tolerance=loose(kind),
    )


def rows(file, kernel, kind, each, function, *scalars, bug=""):
    """A normalisation of rows, or their softmax: a block for each row."""
    sizes = (20, 256) if scalars else (256,)
    return at(f"kernels/{file}.cu", f"{kernel}_kernel", template=(256 // each,))[20, 256 // each](
        lambda: (
            floats(20, 256, dtype=dtype_of(kind)),
            zeros(5120, dtype=dtype_of(kind)),
            *scalars,
            *(sizes if scalars else (5120,)),
        ),
        lambda x, *_: {1: function(x)},
        tolerance=loose(kind),
        bug=bug,
    )


def layer_norm(kind, accumulator, each):
    return rows(
        "layer-norm/layer_norm",
        f"layer_norm_{kind}_{accumulator}".rstrip("_"),
        kind,
        each,
        lambda x: F.layer_norm(x, (256,)) * 1.5 + 0.5,
        1.5,
        0.5,
    )


def rms_norm(kind, accumulator, each):
    return rows(
        "rms-norm/rms_norm",
        f"rms_norm_{kind}_{accumulator}".rstrip("_"),
        kind,
        each,
        lambda x: F.rms_norm(x, (256,)) * 1.5,
        1.5,
    )


def softmax(kernel, kind, each):
    return rows(
        "softmax/softmax",
        f"{kernel}_per_token",
        kind,
        each,
        lambda x: x.softmax(1),
        bug=BEYOND if kernel.startswith("online") else "",
    )


def transpose(kernel, grid, block):
    return at("kernels/mat-transpose/mat_transpose.cu", f"mat_transpose_{kernel}_kernel")[grid, block](
        lambda: (floats(64, 64), zeros(4096), 64, 64), lambda x, *_: {1: x.T}
    )


def gemm(file, kernel, block, grid=(1, 1), m=128, n=128, k=64, columns=False, template=None, shared=0):
    """columns: B is stored by columns."""
    dtype = torch.float32 if kernel.startswith("sgemm") else f16
    tolerance = 1e-4 if kernel.startswith("sgemm_") and "wmma" not in kernel else 3e-2
    return at(f"kernels/{file}.cu", f"{kernel}_kernel", template=template)[grid, block, shared](
        lambda: (
            floats(m, k, dtype=dtype),
            floats(*((n, k) if columns else (k, n)), dtype=dtype),
            zeros(m, n, dtype=dtype),
            *(m, n, k),
        ),
        lambda a, b, *_: {2: a @ (b.T if columns else b)},
        tolerance=tolerance,
    )


def matrix_vector(file, kernel, k, dtype, rows_per_block=4, template=None):
    return at(f"kernels/{file}.cu", f"{kernel}_kernel", template=template)[40 // rows_per_block, (32, 4)](
        lambda: (floats(40, k, dtype=dtype), floats(k, dtype=dtype), zeros(40, dtype=dtype), 40, k),
        lambda a, x, *_: {2: a @ x},
        tolerance=1e-2 if dtype == f16 else 1e-4,
    )


def rotated(x):
    """Rotary embedding of rows of 64 by their numbers."""
    angle = torch.arange(20.0, dtype=x.dtype)[:, None] / 10000 ** (torch.arange(32, dtype=x.dtype) / 32)
    pairs = torch.view_as_complex(x.view(20, 32, 2))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle))


def rope(kernel, grid, block, n):
    return at("kernels/rope/rope.cu", f"rope_{kernel}_kernel")[grid, block](
        lambda: (floats(20, 64), zeros(1280), 20, n), lambda x, *_: {1: rotated(x)}
    )


def histogram(file, kernel, each):
    return at(file, kernel)[8 // each, 256](
        lambda: (integers(0, 50, 2048), ints(50), 2048), lambda x, *_: {1: x.bincount(minlength=50)}
    )


def notes(kernel, each, arguments, expected, template=None):
    return at("kernels/notes-v1.cu", kernel, template=template)[16, 128 // each](arguments, expected)


def one_to_one():
    return floats(2048), zeros(2048), 2048


def two_to_sum():
    return floats(2048), floats(2048), zeros(1), 2048


HARD = {"hardshrink": F.hardshrink, "hardswish": F.hardswish}
SMOOTH = {
    "elu": F.elu,
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "swish": F.silu,
}
HGEMM, SGEMM = "hgemm/naive/hgemm", "sgemm/sgemm"
WMMA, MMA = "hgemm/wmma/hgemm_wmma", "hgemm/mma/basic/hgemm_mma"

RUNS = [
    *(run for name, function in (HARD | SMOOTH).items() for run in pointwise(name, function)),
    *pointwise("relu", torch.relu, "nvidia-nsight"),
    *addition("elementwise"),
    *addition("nvidia-nsight"),
    *(embedding(kind, each) for kind, each in (WIDTHS | {"f32x4_pack": 4}).items() if kind != "f16x2"),
    *(reduction(kind, "f32", each) for kind, each in (("f32", 1), ("f32x4", 4), ("f16", 1), ("f16x2", 2))),
    *(reduction(kind, "f32", each) for kind, each in (("bf16", 1), ("bf16x2", 2))),
    *(reduction(kind, "f16", each) for kind, each in (("f16", 1), ("f16x2", 2))),
    *(reduction(kind, "bf16", each) for kind, each in (("bf16", 1), ("bf16x2", 2))),
    *(reduction("f16x8", accumulator, 8, "_pack") for accumulator in ("f16", "f32")),
    *(reduction("bf16x8", accumulator, 8, "_pack") for accumulator in ("bf16", "f32")),
    *(float8_reduction(kind, each, pack) for kind in F8 for each, pack in ((1, ""), (16, "x16_pack"))),
    integer_reduction("i8_i32", 1),
    integer_reduction("i8x16_pack_i32", 16),
    *(dot(kind, each) for kind, each in (("f32", 1), ("f32x4", 4), ("f16", 1), ("f16x2", 2))),
    dot("f16x8", 8, "_pack"),
    layer_norm("f32", "", 1),
    layer_norm("f32x4", "", 4),
    *(layer_norm(kind, "f16", each) for kind, each in WIDTHS.items() if kind.startswith("f16")),
    layer_norm("f16", "f32", 1),
    layer_norm("f16x8_pack", "f32", 8),
    rms_norm("f32", "", 1),
    rms_norm("f32x4", "", 4),
    *(rms_norm(kind, "f16", each) for kind, each in WIDTHS.items() if kind.startswith("f16")),
    *(rms_norm(kind, "f32", each) for kind, each in WIDTHS.items() if kind in ("f16", "f16x8", "f16x8_pack")),
    *(
        softmax(kernel, kind, each)
        for kernel, kind, each in (
            ("softmax_f32", "f32", 1),
            ("softmax_f32x4", "f32", 4),
            ("safe_softmax_f32", "f32", 1),
            ("safe_softmax_f32x4", "f32", 4),
            ("safe_softmax_f16_f32", "f16", 1),
            ("safe_softmax_f16x2_f32", "f16", 2),
            ("safe_softmax_f16x8_pack_f32", "f16", 8),
            ("online_safe_softmax_f32", "f32", 1),
            ("online_safe_softmax_f32x4_pack", "f32", 4),
        )
    ),
    transpose("f32_col2row", 16, 256),
    transpose("f32_row2col", 16, 256),
    transpose("f32x4_col2row", 4, 256),
    transpose("f32x4_row2col", 4, 256),
    transpose("f32_diagonal2d", (4, 4), (16, 16)),
    transpose("f32_col2row2d", (4, 4), (16, 16)),
    transpose("f32_row2col2d", (4, 4), (16, 16)),
    *(transpose(f"f32x4_{name}col2row2d", (1, 4), (16, 16)) for name in ("", "shared_", "shared_bcf_")),
    *(
        transpose(f"f32x4_{name}row2col2d", (4, 1), (16, 16))
        for name in ("", "shared_", "shared_bcf_", "shared_bcf_merge_write_")
    ),
    gemm(SGEMM, "sgemm_naive_f32", (32, 32), (2, 3), 90, 60, 50),
    gemm(SGEMM, "sgemm_sliced_k_f32", (32, 32), (4, 4)),
    *(gemm(SGEMM, f"sgemm_t_8x8_sliced_k_f32x4{name}", (16, 16)) for name in ("", "_bcf", "_bcf_dbuf")),
    *(
        gemm("sgemm/sgemm_async", f"sgemm_t_8x4_sliced_k16_f32x4_bcf_dbuf{name}", (16, 8), (2, 2))
        for name in ("", "_async")
    ),
    *(
        gemm("sgemm/sgemm_async", f"sgemm_t_8x8_sliced_k16_f32x4_bcf_dbuf{name}", (16, 16))
        for name in ("", "_async")
    ),
    *(
        gemm("sgemm/sgemm_async", f"sgemm_t_8x16_sliced_k16_f32x4_bcf_dbuf{name}", (16, 16), n=256)
        for name in ("", "_async")
    ),
    gemm(HGEMM, "hgemm_naive_f16", (32, 32), (2, 3), 90, 60, 50),
    gemm(HGEMM, "hgemm_sliced_k_f16", (32, 32), (4, 4)),
    *(
        gemm(HGEMM, f"hgemm_t_8x8_sliced_k_{name}", (16, 16))
        for name in (
            "f16x4",
            "f16x4_pack",
            "f16x4_bcf",
            "f16x4_pack_bcf",
            "f16x8_pack_bcf",
            "f16x8_pack_bcf_dbuf",
        )
    ),
    *(
        gemm(f"{HGEMM}_async", f"hgemm_t_8x8_sliced_{k}_f16x8_pack_dbuf{name}", (16, 16))
        for k in ("k16", "k32")
        for name in ("", "_async")
    ),
    *(
        gemm(f"{HGEMM}_async", f"hgemm_t_16x8_sliced_k32_f16x8_pack_dbuf{name}", (16, 8))
        for name in ("", "_async")
    ),
    gemm(WMMA, "hgemm_wmma_m16n16k16_naive", 32, (8, 8)),
    gemm(WMMA, "hgemm_wmma_m16n16k16_mma4x2", 256, (4, 2)),
    gemm(WMMA, "hgemm_wmma_m16n16k16_mma4x2_warp2x4", 256),
    gemm(WMMA, "hgemm_wmma_m16n16k16_mma4x2_warp2x4_dbuf_async", 256),
    gemm(WMMA, "hgemm_wmma_m32n8k16_mma2x4_warp2x4_dbuf_async", 256),
    gemm(f"{WMMA}_stage", "hgemm_wmma_m16n16k16_mma4x2_warp2x4_stages", 256),
    gemm(MMA, "hgemm_mma_m16n8k16_naive", 32, (16, 8)),
    gemm(MMA, "hgemm_mma_m16n8k16_mma2x4_warp4x4", 256),
    gemm(
        f"{MMA}_stage_tn",
        "hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_dsmem_tn",
        256,
        columns=True,
        shared=65536,
    ),
    gemm(
        "hgemm/mma/swizzle/hgemm_mma_stage_tn_swizzle",
        "hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_dsmem_tn_swizzle",
        256,
        columns=True,
        shared=65536,
    ),
    gemm("swizzle/hgemm_mma_swizzle", "hgemm_mma_m16n8k16_naive", 32, (16, 8)),
    gemm("swizzle/hgemm_mma_swizzle", "hgemm_mma_m16n8k16_naive_smem_swizzle", 32, (16, 8)),
    gemm("swizzle/hgemm_mma_swizzle", "hgemm_mma_m16n8k16_mma2x4_warp4x4", 256),
    gemm("swizzle/hgemm_mma_swizzle", "hgemm_mma_m16n8k16_mma2x4_warp4x4_smem_swizzle", 256),
    *(
        gemm(
            "sgemm/sgemm_wmma_tf32_stage",
            f"sgemm_wmma_m16n16k8_mma4x2_warp2x4_stages{name}",
            256,
            shared=shared,
        )
        for name, shared in (("", 0), ("_dsmem", 65536))
    ),
    matrix_vector("hgemv/hgemv", "hgemv_k32_f16", 96, f16),
    matrix_vector("hgemv/hgemv", "hgemv_k128_f16x4", 256, f16),
    matrix_vector("hgemv/hgemv", "hgemv_k16_f16", 16, f16, 8, (2,)),
    matrix_vector("sgemv/sgemv", "sgemv_k32_f32", 96, torch.float32),
    matrix_vector("sgemv/sgemv", "sgemv_k128_f32x4", 256, torch.float32),
    matrix_vector("sgemv/sgemv", "sgemv_k16_f32", 16, torch.float32, 8, (2,)),
    rope("f32", 5, 128, 32),
    rope("f32_v2", 20, 32, 32),
    rope("f32x4_pack", 5, 64, 16),
    histogram("kernels/histogram/histogram.cu", "histogram_i32_kernel", 1),
    histogram("kernels/histogram/histogram.cu", "histogram_i32x4_kernel", 4),
    *(
        at("kernels/swizzle/mat_trans_swizzle.cu", f"mat_trans_smem_{name}_kernel")[(2, 3), (32, 32)](
            lambda: (integers(0, 999, 96, 64), 96, 64, ints(96 * 64)), lambda x, *_: {3: x.T}
        )
        for name in ("naive", "padding", "swizzle")
    ),
    *(
        notes(f"relu{name}", each, one_to_one, lambda x, *_: {1: x.relu()})
        for name, each in (("", 1), ("_vec4", 4))
    ),
    *(
        notes(f"sigmoid{name}", each, one_to_one, lambda x, *_: {1: x.sigmoid()})
        for name, each in (("", 1), ("_vec4", 4))
    ),
    *(
        notes(f"dot{name}", each, two_to_sum, lambda a, b, *_: {2: a @ b}, (128 // each,))
        for name, each in (("", 1), ("_vec4", 4))
    ),
    *(
        notes(
            f"block_all_reduce_sum{name}",
            each,
            lambda: (floats(2048), zeros(1), 2048),
            lambda x, *_: {1: x.sum()},
            (128 // each,),
        )
        for name, each in (("", 1), ("_vec4", 4))
    ),
    *(
        notes(
            f"elementwise_add{name}",
            each,
            lambda: (floats(2048), floats(2048), zeros(2048), 2048),
            lambda a, b, *_: {2: a + b},
        )
        for name, each in (("", 1), ("_vec4", 4))
    ),
    *(
        notes(
            f"rms_norm{name}",
            each,
            lambda: (floats(16, 128), zeros(2048), 1.5, 16, 128),
            lambda x, *_: {1: F.rms_norm(x, (128,)) * 1.5},
            (128 // each,),
        )
        for name, each in (("", 1), ("_vec4", 4))
    ),
]
