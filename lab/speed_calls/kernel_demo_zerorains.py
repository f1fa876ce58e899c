"""zeroRains/CUDA-kernel-optimization-demo: products, and the sums that need no warp in step."""

from speed_calls.calls import Timed, floats, i32, integers, zeros

REPOSITORY = "zeroRains/CUDA-kernel-optimization-demo"
N, COUNT = 1024, 1 << 24


def product(file, kernel, threads, template):
    return Timed(
        f"gemm/sgemm_{file}.cu",
        f"sgemm_{kernel}_kernel",
        (N // 64, N // 64),
        threads,
        lambda: (floats(N, N), floats(N, N), zeros(N, N), N, N, N),
        template,
        ladder="product",
    )


def total(version, each):
    blocks = COUNT // (128 * each)
    make = lambda: (integers(0, 8, COUNT), zeros(blocks, dtype=i32))  # noqa: E731
    return Timed("reduce/reduce.cu", f"reduce{version}", blocks, 128, make, ladder="sum")


LAUNCHES = [
    product("1tiled2d", "blocktiling_2d", 64, (64, 64, 8, 8, 8)),
    product("2vector", "vectorize", 64, (64, 64, 8, 8, 8)),
    product("3warp_tile", "warptiling", 128, (64, 64, 8, 32, 32, 2, 1, 4, 4, 128)),
    product("4double_buffer", "double_buffering", 128, (64, 64, 8, 32, 32, 2, 1, 4, 4, 128)),
    *(total(version, 1) for version in (1, 2, 3)),
    total(4, 2),
]
