"""karpathy/llm.c, dev/cuda: several versions of each part of a transformer."""

from speed_calls.calls import at, floats, integers, positive, up, zeros

REPOSITORY = "karpathy/llm.c"
B, T, C, HEADS, V = 8, 1024, 768, 12, 50257
ROWS = B * T


def call(file, kernel, **more):
    return at(f"dev/cuda/{file}.cu", kernel, **more)


def layer_norm(kernel, grid, block, shared=0):
    return call("layernorm_forward", kernel, ladder="layernorm")[grid, block, shared](
        lambda: (zeros(ROWS, C), zeros(ROWS), zeros(ROWS), floats(ROWS, C), floats(C), floats(C), ROWS, C)
    )


def softmax(kernel, grid, block, shared=0, columns=4096, rows=4096):
    return call("softmax_forward", kernel, ladder="softmax")[grid, block, shared](
        lambda: (zeros(rows, columns), floats(rows, columns), rows, columns)
    )


def attention():
    qkv = lambda: floats(B, T, 3 * C)  # noqa: E731
    total = B * HEADS * T
    return [
        call("attention_forward", "attention_query_key_kernel1")[up(total * T, 256), 256](
            lambda: (zeros(B, HEADS, T, T), qkv(), B, T, C, HEADS)
        ),
        call("attention_forward", "attention_softmax_kernel1")[up(total, 256), 256](
            lambda: (zeros(B, HEADS, T, T), floats(B, HEADS, T, T), B, T, HEADS)
        ),
        call("attention_forward", "attention_value_kernel1")[up(total, 256), 256](
            lambda: (zeros(B, T, C), positive(B, HEADS, T, T), qkv(), B, T, C, HEADS)
        ),
        call("attention_forward", "softmax_forward_kernel5")[up(total * 32, 256), 256](
            lambda: (zeros(B, HEADS, T, T), 0.125, floats(B, HEADS, T, T), B * HEADS, T)
        ),
        call("attention_forward", "permute_kernel")[up(ROWS * C, 256), 256](
            lambda: (zeros(ROWS * C), zeros(ROWS * C), zeros(ROWS * C), qkv(), B, T, HEADS, C // HEADS)
        ),
        call("attention_forward", "unpermute_kernel")[up(ROWS * C, 256), 256](
            lambda: (floats(ROWS * C), zeros(ROWS * C), B, T, HEADS, C // HEADS)
        ),
        call("attention_forward", "scale_kernel")[up(total * T, 256), 256](
            lambda: (floats(B, HEADS, T, T), 0.125, B, HEADS, T)
        ),
    ]


LAUNCHES = [
    call("adamw", "adamw_kernel1", ladder="adamw")[up(1 << 24, 512), 512](
        lambda: (
            *(floats(1 << 24), floats(1 << 24), floats(1 << 24), positive(1 << 24), 1 << 24),
            *(1e-3, 0.9, 0.999, 0.1, 0.001, 1e-8, 0.01),
        )
    ),
    call("adamw", "adamw_kernel2", ladder="adamw")[up(1 << 24, 512), 512](
        lambda: (
            *(floats(1 << 24), floats(1 << 24), floats(1 << 24), positive(1 << 24), 1 << 24),
            *(1e-3, 0.9, 0.999, 0.1, 0.001, 1e-8, 0.01),
        )
    ),
    *attention(),
    call("crossentropy_softmax_backward", "crossentropy_softmax_backward_kernel1")[up(1024 * V, 256), 256](
        lambda: (zeros(1024, V), floats(1024), positive(1024, V), integers(0, V, 1024), 1, 1024, V)
    ),
    call("classifier_fused", "fused_classifier_kernel1")[1024, 256](
        lambda: (
            *(zeros(1024, 50304), zeros(1024), floats(1024, 50304), floats(1024), integers(0, V, 1024)),
            *(1, 1024, V, 50304),
        )
    ),
    call("encoder_backward", "encoder_backward_kernel1")[up(ROWS * C, 256), 256](
        lambda: (zeros(V, C), zeros(T, C), floats(ROWS, C), integers(0, V, ROWS), B, T, C)
    ),
    layer_norm("layernorm_forward_kernel1", up(ROWS, 256), 256),
    layer_norm("layernorm_forward_kernel3", up(ROWS * 32, 256), 256),
    layer_norm("layernorm_forward_kernel4", up(ROWS * 32, 256), 256),
    layer_norm("layernorm_forward_kernel5", ROWS, 256),
    call("layernorm_forward", "mean_kernel")[ROWS, 128, 512](
        lambda: (zeros(ROWS), floats(ROWS, C), ROWS, C, 128)
    ),
    call("layernorm_forward", "normalization_kernel")[up(ROWS * C, 256), 256](
        lambda: (zeros(ROWS, C), floats(ROWS, C), floats(ROWS), floats(ROWS), floats(C), floats(C), B, T, C)
    ),
    call("layernorm_backward", "layernorm_backward_kernel1")[up(ROWS, 64), 64](
        lambda: (
            *(zeros(ROWS, C), zeros(C), zeros(C), floats(ROWS, C), floats(ROWS, C), floats(C)),
            *(floats(ROWS), floats(ROWS), B, T, C),
        )
    ),
    call("matmul_backward", "matmul_backward_bias_kernel_naive", ladder="bias backward")[3 * C // 64, 64](
        lambda: (zeros(3 * C), floats(ROWS, 3 * C), B, T, 3 * C)
    ),
    call("matmul_forward", "matmul_forward_kernel1", ladder="matmul")[
        (up(ROWS, 16), up(4 * C, 16)), (16, 16)
    ](lambda: (zeros(ROWS, 4 * C), floats(ROWS, C), floats(4 * C, C), floats(4 * C), ROWS, C, 4 * C)),
    call("matmul_forward", "matmul_forward_kernel4", ladder="matmul")[
        (up(ROWS, 128), up(4 * C, 128)), (16, 16)
    ](lambda: (zeros(ROWS, 4 * C), floats(ROWS, C), floats(4 * C, C), floats(4 * C), C, 4 * C)),
    call("matmul_forward", "add_bias")[up(ROWS * C, 256), 256](
        lambda: (floats(ROWS, 4 * C), floats(4 * C), B, T, 4 * C)
    ),
    call("permute", "permute_kernel")[up(1 << 24, 256), 256](
        lambda: (floats(1 << 24), zeros(1 << 24), 64, 128, 64, 32)
    ),
    softmax("softmax_forward_kernel1", up(4096, 256), 256),
    softmax("softmax_forward_kernel2", 4096, 256, 1024),
    softmax("softmax_forward_kernel3", 4096, 32),
    softmax("softmax_forward_kernel4", 4096, 256, 2 * 8 * 4),
    softmax("softmax_forward_online_kernel1", up(4096, 256), 256),
    softmax("softmax_forward_kernel7", 4096, 256, 2 * 8 * 4),
    call("global_norm", "norm_kernel1", ladder="norm", template=("float",))[132 * 4, 512](
        lambda: (zeros(1), floats(1 << 25), 1 << 25)
    ),
    call("global_norm", "norm_kernel2", ladder="norm", template=("float",))[132 * 4, 512](
        lambda: (zeros(1), floats(1 << 25), 1 << 25)
    ),
]
