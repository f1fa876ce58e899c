"""gau-nernst/learn-cuda: matrix products without tensor cores."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "gau-nernst/learn-cuda"
N = 2048


def product(version, grid, block, template=None):
    return at("02a_matmul_simt/matmul.cu", f"matmul_v{version}_kernel", template=template, ladder="product")[
        grid, block
    ](lambda: (floats(N, N), floats(N, N), zeros(N, N), N, N, N))


SQUARE = (N // 32, N // 32)
LAUNCHES = [
    product(1, SQUARE, (32, 32)),
    product(2, SQUARE, (32, 32), (32,)),
    product(3, (N // 128) ** 2, 256, (256, 128, 128, 32)),
    product(4, (N // 128) ** 2, 256, (128, 128, 32, 8, 8)),
    product(5, N // 128 * N // 64, 256, (128, 64, 64, 32, 32, 16, 32, 4)),
    product(6, (N // 128) ** 2, 128, (128, 128, 16, 64, 64, 16, 32, 4, "false")),
    product(6, N // 64 * N // 128, 64, (64, 128, 8, 64, 64, 32, 32, 4, "true")),
]
