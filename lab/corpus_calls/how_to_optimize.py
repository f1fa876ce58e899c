"""Calls of the kernels of Liu-xiandong/How_to_optimize_in_GPU."""

import torch

from corpus_calls.calls import at, blocks_of, floats, zeros

REPOSITORY = "Liu-xiandong/How_to_optimize_in_GPU"
LANES_IN_STEP = (
    "The last warp adds through volatile memory without __syncwarp(): lanes do not run in step since Volta."
)


def reduce(version, name, kernel, each, template=None, count=None, bug=""):
    """Sums of blocks of 256 threads, `each` numbers in a block."""
    rest = () if count is None else (count,)
    return at(f"reduce/reduce_v{version}_{name}.cu", kernel, template=template)[4096 // each, 256](
        lambda: (floats(4096), zeros(4096 // each), *rest),
        lambda x, *_: {1: blocks_of(x, each).sum(1)},
        bug=bug,
    )


def sgemv(version, n, template=None, rows_per_block=4):
    return at(f"sgemv/Sgemv_v{version}.cu", f"Sgemv_v{version}", template=template)[
        40 // rows_per_block, (32, 4)
    ](lambda: (floats(40, n), floats(n), zeros(40), 40, n), lambda a, x, *_: {2: a @ x})


def add(kernel, each):
    return at("elementwise/elementwise_add.cu", kernel)[8 // each, 256](
        lambda: (floats(2048), floats(2048), zeros(2048)), lambda a, b, _: {2: a + b}
    )


def sgemm(version):
    return at(f"sgemm/sgemm_v{version}.cu", "Sgemm", template=(128, 8, 128, 8, 8, False))[(1, 1), (16, 16)](
        lambda: (floats(128, 48), floats(48, 128), zeros(128, 128), 128, 128, 48), lambda a, b, *_: {2: a @ b}
    )


def sparse(rows, columns):
    """A matrix, and its offsets, columns and values as CSR."""
    a = floats(rows, columns)
    a = torch.where(a > 0.5, a, 0.0)
    csr = a.to_sparse_csr()
    return a, csr.crow_indices().int(), csr.col_indices().int(), csr.values().contiguous()


def dense(offsets, columns, values, width):
    return torch.sparse_csr_tensor(
        offsets.long(), columns.long(), values, (len(offsets) - 1, width)
    ).to_dense()


def spmm(kernel, template, rest):
    return at("spmm/spmm.cu", kernel, template=template)[(1, 30), 64](
        lambda: (30, *sparse(30, 40)[1:], floats(40, 64), zeros(30, 64), *rest),
        lambda m, o, c, v, b, *_: {5: dense(o, c, v, 40) @ b},
    )


RUNS = [
    add("add", 1),
    add("vec2_add", 2),
    add("vec4_add", 4),
    reduce(0, "baseline", "reduce0", 256),
    reduce(1, "no_divergence_branch", "reduce1", 256),
    reduce(2, "no_bank_conflict", "reduce2", 256),
    reduce(3, "add_during_load", "reduce3", 512),
    reduce(4, "unroll_last_warp", "reduce4", 512, bug=LANES_IN_STEP),
    reduce(5, "completely_unroll", "reduce5", 512, (256,), bug=LANES_IN_STEP),
    reduce(6, "multi_add", "reduce6", 1024, (256, 4), 4096, bug=LANES_IN_STEP),
    reduce(7, "shuffle", "reduce7", 1024, (256, 4), 4096),
    sgemm(1),
    sgemm(3),
    sgemv(0, 96),
    sgemv(1, 256),
    sgemv(2, 16, (2,), rows_per_block=8),
    spmm("My_spmm_csr_vector_kernel_v0", (64,), (64, 64)),
    spmm("My_spmm_csr_vector_kernel_v1", (64, 128, 64), (30, 64, 40)),
    at("spmv/spmv.cu", "My_spmv_csr_kernel", template=("int", "float", 32, 8))[2, 256](
        lambda: (60, *sparse(60, 50)[1:], floats(50), zeros(60)),
        lambda m, o, c, v, x, _: {5: dense(o, c, v, 50) @ x},
    ),
]
