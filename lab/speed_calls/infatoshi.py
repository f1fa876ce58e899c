"""Infatoshi/cuda-course: additions, matrix products, a convolution, a softmax."""

from speed_calls.calls import at, floats, up, zeros

REPOSITORY = "Infatoshi/cuda-course"
FIRST = "05_Writing_your_First_Kernels"
N = 1 << 24


def addition(file, kernel, grid, block, *sizes):
    return at(file, kernel)[grid, block](lambda: (floats(N), floats(N), zeros(N), *sizes))


def matmul(file, kernel, tile, sizes, n=1024):
    return at(f"{file}.cu", kernel, ladder="matmul")[(n // tile, n // tile), (tile, tile)](
        lambda: (floats(n, n), floats(n, n), zeros(n, n), *(n,) * sizes)
    )


LAUNCHES = [
    addition(f"{FIRST}/02 Kernels/01_vector_add_v2.cu", "vector_add_gpu_1d", N // 1024, 1024, N),
    addition(
        f"{FIRST}/02 Kernels/01_vector_add_v2.cu",
        "vector_add_gpu_3d",
        (16, 32, 32),
        (16, 8, 8),
        256,
        256,
        256,
    ),
    addition("07_Faster_Matmul/unrolling_example.cu", "vectorAddNoUnroll", N // 256, 256, N),
    addition("07_Faster_Matmul/unrolling_example.cu", "vectorAddUnroll", N // 256, 256, N),
    matmul(f"{FIRST}/03 Profiling/00 nvtx_matmul", "matrixMulKernel", 16, 1),
    matmul(f"{FIRST}/03 Profiling/01_naive_matmul", "matrixMultiply", 16, 3),
    matmul(f"{FIRST}/03 Profiling/02_tiled_matmul", "matrixMultiplyOptimized", 16, 3),
    at("06_CUDA_APIs/02 CUDNN/01 Conv2d_NCHW.cu", "naiveConv2d")[(14, 14, 4 * 64), (16, 16)](
        lambda: (
            *(floats(4, 32, 224, 224), floats(64, 32, 3, 3), zeros(4, 64, 224, 224)),
            *(224, 224, 32, 64, 3, 4),
        )
    ),
    at(f"{FIRST}/05 Streams/02_stream_advanced.cu", "kernel1")[up(N, 256), 256](lambda: (floats(N), N)),
    at("06_CUDA_APIs/02 CUDNN/00 Tanh.cu", "naiveTanhKernel")[up(N, 256), 256](
        lambda: (floats(N), zeros(N), N)
    ),
]
