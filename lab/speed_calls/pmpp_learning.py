"""psmarter/PMPP-Learning: exercises of the book Programming Massively Parallel Processors."""

from speed_calls.calls import at, floats, integers, u8, up, zeros

REPOSITORY = "psmarter/PMPP-Learning"


def call(chapter, exercise, kernel, **more):
    file = f"Exercises/Chapter{chapter:02}/Exercise{exercise:02}/solution.cu"
    return at(file, kernel, **more)


def matmul(chapter, exercise, kernel, n=1024, tile=16, wide=1, **keywords):
    return call(chapter, exercise, kernel, ladder="matmul")[(up(n, tile * wide), up(n, tile)), (tile, tile)](
        lambda: (floats(n, n), floats(n, n), zeros(n, n), n, n, n), **keywords
    )


N = 1 << 24
LAUNCHES = [
    call(2, 1, "vectorMultiply")[N // 256, 256](lambda: (zeros(N), floats(N), floats(N), N)),
    call(3, 1, "matrixMulRowKernel", ladder="matmul of rows and columns")[up(1024, 64), 64](
        lambda: (floats(1024, 1024), floats(1024, 1024), zeros(1024, 1024), 1024)
    ),
    call(3, 1, "matrixMulColKernel", ladder="matmul of rows and columns")[up(1024, 64), 64](
        lambda: (floats(1024, 1024), floats(1024, 1024), zeros(1024, 1024), 1024)
    ),
    call(3, 2, "matrixVecMulKernel")[up(8000, 256), 256](
        lambda: (floats(8000, 4000), floats(4000), zeros(8000), 8000, 4000)
    ),
    matmul(3, 3, "MatrixMulKernel"),
    call(3, 4, "rgbToGrayscaleKernel")[(up(6000, 16), up(4000, 16)), (16, 16)](
        lambda: (integers(0, 256, 4000, 6000, 3, dtype=u8), integers(0, 1, 4000, 6000, dtype=u8), 6000, 4000)
    ),
    call(3, 5, "blurKernel")[(up(3000, 16), up(2000, 16)), (16, 16)](
        lambda: (integers(0, 256, 2000, 3000, dtype=u8), integers(0, 1, 2000, 3000, dtype=u8), 3000, 2000, 3)
    ),
    matmul(5, 1, "TiledMatrixMulKernel"),
    matmul(6, 2, "MatrixMulKernel"),
    call(7, 1, "conv2d_basic_kernel")[(up(3000, 16), up(2000, 16)), (16, 16)](
        lambda: (floats(2000, 3000), floats(5, 5), zeros(2000, 3000), 2, 2000, 3000)
    ),
    call(8, 1, "stencil_kernel", ladder="stencil")[(32, 32, 32), (8, 8, 8)](
        lambda: (floats(256, 256, 256), zeros(256, 256, 256), 256, 1, 2, 3, 4, 5, 6, 7)
    ),
]
