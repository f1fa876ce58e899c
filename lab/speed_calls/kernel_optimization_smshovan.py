"""SMShovan/CUDA-Kernel-Optimization: four products."""

from speed_calls.calls import Timed, floats, zeros

REPOSITORY = "SMShovan/CUDA-Kernel-Optimization"
N = 1024
BLOCKED = "3. Shared Memory Cache-Blocking"


def product(file, kernel, block, *more):
    return Timed(
        f"Matrix Multiplication/{file}.cu",
        kernel,
        (N // 16, N // 16),
        block,
        lambda: (floats(N, N), floats(N, N), zeros(N, N), N, *more),
        ladder="product",
    )


LAUNCHES = [
    product(
        "3. Shared Memory Cache-Blocking/3. Shared Memory Cache-Blocking",
        "matMulShared",
        (16, 16),
        N,
        1.0,
        0.0,
    ),
    product(
        "6. Vectorize SMEM and GMEM accesses/6. Vectorized Read",
        "matMul2DCoarsenedVectorized",
        (4, 4),
        *(N, N, 1.0, 0.0),
    ),
    product("Global Memory Coalescing/2. Global Memory Coalescing", "matMulNaive", 256),
    product("Naive/1 Naive", "matMulNaive", (16, 16)),
]
