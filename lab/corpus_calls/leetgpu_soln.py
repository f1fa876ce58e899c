"""Calls of the kernels of bluecoffee8/leetgpu_soln: kept aside, nothing was tuned on it."""

import torch
import torch.nn.functional as F

from corpus_calls.calls import at, f16, floats, integers, ints, u8, zeros

REPOSITORY = "bluecoffee8/leetgpu_soln"


def run(file, kernel, **more):
    return at(f"cuda/{file}.cu", kernel, **more)


def pointwise(file, kernel, function):
    return run(file, kernel)[4, 256](
        lambda: (floats(1000), zeros(1000), 1000), lambda x, *_: {1: function(x)}
    )


def gated(file, kernel, function):
    return run(file, kernel)[2, 256](
        lambda: (floats(600), zeros(300), 300), lambda x, *_: {1: function(x[:300], x[300:])}
    )


def transpose(version, block, template):
    return run("matrix_transpose", f"matrix_transpose_kernel{version}", template=template)[(3, 3), block](
        lambda: (floats(96, 96), zeros(96 * 96), 96, 96), lambda x, *_: {1: x.T}
    )


def matmul(kernel, grid, block, template=None, m=128, n=64, k=128):
    """C of m × k from A of m × n and B of n × k."""
    return run("matmul", kernel, template=template)[grid, block](
        lambda: (floats(m, n), floats(n, k), zeros(m * k), m, n, k), lambda a, b, *_: {2: a @ b}
    )


RUNS = [
    run("categorical_ce_loss", "CE")[30, 32](
        lambda: (floats(30, 50), integers(0, 50, 30), zeros(1), 30, 50),
        lambda x, labels, *_: {2: F.cross_entropy(x, labels.long())},
    ),
    run("clip", "clip_kernel")[4, 256](
        lambda: (floats(1000), zeros(1000), -0.5, 0.25, 1000), lambda x, *_: {1: x.clamp(-0.5, 0.25)}
    ),
    run("color_inversion", "invert_kernel")[2, 256](
        lambda: (integers(0, 256, 300, 4, dtype=u8), 20, 15),
        lambda x, *_: {0: torch.cat((255 - x[:, :3], x[:, 3:]), 1)},
    ),
    run("conv1d", "convolution_1d_kernel")[2, 128](
        lambda: (floats(200), floats(7), zeros(194), 200, 7),
        lambda x, k, *_: {2: F.conv1d(x[None, None], k[None, None])},
    ),
    run("conv1d", "convolution_1d_kernel_v2", template=(128,))[2, 128](
        lambda: (floats(200), floats(7), zeros(194), 200, 7),
        lambda x, k, *_: {2: F.conv1d(x[None, None], k[None, None])},
    ),
    run("count_array_element", "kernel")[4, 256](
        lambda: (integers(0, 4, 1001), ints(1), 1001, 2), lambda x, *_: {1: (x == 2).sum()}
    ),
    run("dot_product", "dotproduct")[4, 256](
        lambda: (floats(1000), floats(1000), zeros(1), 1000), lambda a, b, *_: {2: a @ b}
    ),
    gated("geglu", "geglu_kernel", lambda a, b: a * F.gelu(b)),
    gated("swiglu", "swiglu_kernel", lambda a, b: F.silu(a) * b),
    run("gemm", "matmul_v5", template=(64, 8, 64, 8, 8))[(2, 2), 64](
        lambda: (
            *(floats(128, 64, dtype=f16), floats(64, 128, dtype=f16), floats(128, 128, dtype=f16)),
            *(128, 64, 128, 0.5, 2.0),
        ),
        lambda a, b, c, *_: {2: a @ b / 2 + 2 * c},
        tolerance=1e-2,
    ),
    run("histogram", "histogram_kernel")[1, 512, 1200](
        lambda: (integers(0, 300, 1501), ints(300), 1501, 300), lambda x, *_: {1: x.bincount(minlength=300)}
    ),
    run("interleave", "interleave_kernel")[4, 256](
        lambda: (floats(1000), floats(1000), zeros(2000), 1000), lambda a, b, *_: {2: torch.stack((a, b), 1)}
    ),
    pointwise("leaky_relu", "leaky_relu_kernel", F.leaky_relu),
    pointwise("relu", "relu_kernel", torch.relu),
    pointwise("sigmoid", "sigmoid_kernel", torch.sigmoid),
    pointwise("silu", "silu_kernel", F.silu),
    matmul("matmul_v1", (5, 5), (16, 16), m=70, n=50, k=80),
    matmul("matmul_v4", (2, 2), 512, (64, 8, 64, 8)),
    matmul("matmul_v5", (2, 2), 64, (64, 8, 64, 8, 8)),
    run("matrix_addition", "matrix_add")[4, 256](
        lambda: (floats(30, 30), floats(30, 30), zeros(900), 30), lambda a, b, *_: {2: a + b}
    ),
    transpose("", (32, 32), None),
    transpose("_v1", (32, 32), (32,)),
    transpose("_v2", (32, 32), (32,)),
    transpose("_v3", (32, 8), (32, 4)),
    transpose("_v4", (32, 8), (32, 4)),
    run("rainbow_table", "fnv1a_hash_kernel")[1, 256](
        lambda: (integers(0, 1, 100), zeros(100, dtype=torch.uint32), 100, 1),
        lambda *_: {1: torch.full((100,), 2166136261 * 16777619**4 % 2**32)},
    ),
    run("reverse_array", "reverse_array")[2, 256](lambda: (floats(301), 301), lambda x, _: {0: x.flip(0)}),
    run("sparse_mat_vec_mul", "matvecmul")[40, 32](
        lambda: (floats(40, 50).relu(), floats(50), zeros(40), 40, 50), lambda a, x, *_: {2: a @ x}
    ),
    run("vector_addition", "vector_add")[4, 256](
        lambda: (floats(1000), floats(1000), zeros(1000), 1000), lambda a, b, *_: {2: a + b}
    ),
]
