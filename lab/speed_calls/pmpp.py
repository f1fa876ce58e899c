"""m2papierz/pmpp: kernels of the book Programming Massively Parallel Processors."""

from speed_calls.calls import at, floats, integers, u8, up, zeros

REPOSITORY = "m2papierz/pmpp"
N = 1 << 24


def call(chapter, file, kernel, **more):
    return at(f"chapters/ch{chapter:02}/{file}.cu", kernel, **more)


def matmul(chapter, file, tile, wide=1, n=1024, **keywords):
    grid = (up(n, tile * wide), up(n, tile))
    arguments = lambda: (floats(n, n), floats(n, n), zeros(n, n), n, n, n)  # noqa: E731
    return call(chapter, file, "matMulKernel", ladder="matmul")[grid, (tile, tile)](arguments, **keywords)


LAUNCHES = [
    call(2, "vec_add", "vecAddKernel")[N // 256, 256](lambda: (floats(N), floats(N), zeros(N), N)),
    call(3, "blur", "blurKernel")[(up(3000, 16), up(2000, 16)), (16, 16)](
        lambda: (
            integers(0, 256, 2000, 3000, 3, dtype=u8),
            integers(0, 1, 2000, 3000, 3, dtype=u8),
            3000,
            2000,
        )
    ),
    matmul(3, "matmul", 16),
    matmul(5, "matmul_tiled", 16),
    matmul(6, "matmul_thread_coarsening", 32, wide=4),
    matmul(6, "matmul_corner_turning", 32),
]
