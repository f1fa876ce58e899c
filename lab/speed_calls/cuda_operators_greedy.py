"""Greedy-cy/orin-cuda-operator-library: attention, products of matrices, sums, norms of rows,
softmax of rows."""

from speed_calls.calls import at, floats, up, zeros

REPOSITORY = "Greedy-cy/orin-cuda-operator-library"
HEADS, LENGTH, DEPTH, SIDE, COUNT, TOKENS, HIDDEN, ROWS, COLUMNS = (
    16,
    512,
    64,
    2048,
    1 << 25,
    8192,
    2048,
    16384,
    1024,
)


def attention(version, kernel, rows, buffers, template=None):
    named = at(f"attention/attention_v{version}.cu", kernel, template=template, ladder="attention")
    shared = buffers * 32 * DEPTH * 4
    return named[(HEADS, LENGTH // rows), 32 * rows, shared](
        lambda: (
            *(floats(HEADS, LENGTH, DEPTH) for _ in range(3)),
            zeros(HEADS, LENGTH, DEPTH),
            HEADS,
            LENGTH,
            DEPTH,
            False,
        )
    )


def product(version, kernel, tile, block, template=None):
    named = at(f"gemm/gemm_v{version}.cu", kernel, template=template, ladder="product")
    return named[(SIDE // tile,) * 2, block](
        lambda: (floats(SIDE, SIDE), floats(SIDE, SIDE), zeros(SIDE, SIDE), SIDE, SIDE, SIDE)
    )


def total(version, kernel):
    shared = 0 if version == 0 else 1024
    return at(f"reduce/reduce_v{version}.cu", kernel, ladder="sum")[132 * 8, 256, shared](
        lambda: (floats(COUNT), zeros(1), COUNT)
    )


def norm(version, kernel, shared, sizes, template=None):
    named = at(f"rmsnorm/rmsnorm_v{version}.cu", kernel, template=template, ladder="norm")
    return named[TOKENS, 256, shared](
        lambda: (floats(TOKENS, HIDDEN), floats(HIDDEN), zeros(TOKENS, HIDDEN), *sizes, 1e-5)
    )


def softmax(version, kernel, shared, rows=1):
    sizes = (COLUMNS,) if rows == 1 else (ROWS, COLUMNS)
    return at(f"softmax/softmax_v{version}.cu", kernel, ladder="softmax")[up(ROWS, rows), 256, shared](
        lambda: (floats(ROWS, COLUMNS), zeros(ROWS, COLUMNS), *sizes)
    )


LAUNCHES = [
    attention(2, "attention_online_kernel", 8, 2),
    attention(3, "attention_tuned_kernel", 16, 2, (16, 32)),
    attention(4, "attention_paired_kernel", 16, 2, (16, 32)),
    attention(5, "attention_cp_async_kernel", 16, 4, (16, 32)),
    product(0, "sgemm_naive_kernel", 16, (16, 16)),
    product(1, "sgemm_tiled_kernel", 16, (16, 16)),
    product(2, "sgemm_register_blocked_kernel", 64, 256),
    product(3, "sgemm_vectorized_kernel", 64, 256, (True,)),
    product(4, "sgemm_double_buffer_kernel", 64, 256),
    product(5, "sgemm_cp_async_kernel", 64, 256),
    total(0, "reduce_atomic_kernel"),
    total(1, "reduce_shared_kernel"),
    total(2, "reduce_shuffle_kernel"),
    total(3, "reduce_ilp4_kernel"),
    total(4, "reduce_float4_kernel"),
    norm(1, "rmsnorm_fused_tree_kernel", 1024, (HIDDEN,)),
    norm(2, "rmsnorm_fused_shuffle_kernel", 32, (HIDDEN,)),
    norm(3, "rmsnorm_float4_kernel", 32, (HIDDEN // 4, HIDDEN)),
    softmax(0, "softmax_shared_kernel", 1024),
    softmax(1, "softmax_shuffle_kernel", 32),
    softmax(2, "softmax_float4_kernel", 32),
    softmax(3, "softmax_warp_kernel", 0, 8),
    softmax(4, "softmax_block_cached_float4_kernel", 32),
]
