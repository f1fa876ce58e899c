"""RazorCrest00/cuda-kernels: products, and attention of one head."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "RazorCrest00/cuda-kernels"
N, ROWS, WIDTH = 2048, 1024, 64


def product(kernel, tile, threads):
    make = lambda: (floats(N, N), floats(N, N), zeros(N, N), N)  # noqa: E731
    return at("02_matmul/matmul.cu", kernel, ladder="product")[(N // tile,) * 2, threads](make)


def attention(kernel, grid, *more):
    return at("05_fused_attention/attention.cu", kernel, ladder="attention")[grid, 128](
        lambda: (*(floats(ROWS, WIDTH) for _ in range(3)), zeros(ROWS, WIDTH), ROWS, WIDTH, 0.125, *more)
    )


LAUNCHES = [
    product("matmul_naive", 16, (16, 16)),
    product("matmul_tiled", 16, (16, 16)),
    product("matmul_reg", 64, 512),
    product("matmul_reg2d", 128, 256),
    product("matmul_vec", 128, 256),
    attention("attn_naive", ROWS // 128),
    attention("attn_online", ROWS // 128),
    attention("attn_flash", ROWS, 0),
]
