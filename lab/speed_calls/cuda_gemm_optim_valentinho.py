"""valentinho02/cuda-gemm-optim: stencils, histograms, two ways through a matrix, products."""

from speed_calls.calls import at, floats, integers, u8, u32, zeros

REPOSITORY = "valentinho02/cuda-gemm-optim"
SIDE, COUNT, N = 4096, 1 << 22, 1024


def over(file, kernel, ladder, *more):
    return at(f"src/{file}.cu", kernel, ladder=ladder)[(SIDE // 32, SIDE // 32), (32, 32)](
        lambda: (floats(SIDE, SIDE), zeros(SIDE, SIDE), SIDE, SIDE, *more)
    )


def histogram(kernel, blocks):
    return at("src/histogram.cu", f"histogram_{kernel}", ladder="histogram")[blocks, 256](
        lambda: (integers(0, 256, COUNT, dtype=u8), zeros(256, dtype=u32), COUNT)
    )


def product(file, kernel, block):
    return at(f"src/{file}.cu", kernel, ladder="product")[(N // 32, N // 32), block](
        lambda: (floats(N, N), floats(N, N), zeros(N, N), N)
    )


LAUNCHES = [
    over("2D_stencil_tiling", "stencil_2d_naive_kernel", "stencil", 0.5, 0.125),
    over("2D_stencil_tiling", "stencil_2d_kernel", "stencil", 0.5, 0.125),
    histogram("global_naive", COUNT // 256),
    histogram("privatized_kernel", COUNT // 256),
    histogram("coarsened_kernel", 132 * 32),
    over("memory_coalescing", "coalescedKernel", "scaling"),
    over("memory_coalescing", "uncoalescedKernel", "scaling"),
    product("v1_naive", "sgemm_naive", (32, 32)),
    product("v2_tiling", "sgemm_shared_tiling", (32, 32)),
    product("v3_registerBlocking", "sgemm_register_blocking", (8, 8)),
]
