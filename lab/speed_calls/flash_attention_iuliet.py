"""iuliet716/flash-attention-cuda-from-scratch: softmaxes in place, and attention in one launch."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "iuliet716/flash-attention-cuda-from-scratch"
ROWS, N, HEADS, WIDTH = 8192, 1024, 8, 64


def softmax(step, name, each):
    make = lambda: (floats(ROWS, N), N, ROWS)  # noqa: E731
    return at(f"steps/{step}/kernels.cu", f"{name}_softmax_kernel", ladder="softmax")[ROWS // each, 256](make)


def attention(step):
    return at(f"steps/{step}/kernels.cu", "fused_attention_kernel", ladder="attention")[
        (N // 8, HEADS), 256, 4 * (8 + 2 * 32) * WIDTH
    ](
        lambda: (
            *(floats(HEADS, N, WIDTH) for _ in range(3)),
            zeros(HEADS, N, WIDTH),
            N,
            WIDTH,
            0.125,
        )
    )


LAUNCHES = [
    softmax("00_naive", "naive", 256),
    softmax("02_warp_softmax", "warp", 8),
    softmax("03_online_softmax", "online", 8),
    *(attention(step) for step in ("04_naive_fused", "05_vectorized_load", "06_swizzling")),
]
