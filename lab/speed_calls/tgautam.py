"""tgautam03/CUDA-C: matrix products, a stencil in four versions, images."""

from speed_calls.calls import at, floats, up, zeros

REPOSITORY = "tgautam03/CUDA-C"
N = 1 << 24
WIDTH, HEIGHT, DEPTH = 512, 512, 256


def stencil(name, tile, block):
    return at(f"06_stencil/{name}.cu", name, ladder="stencil")[
        (up(WIDTH, tile), up(HEIGHT, tile), up(DEPTH, tile)), block
    ](lambda: (floats(DEPTH, HEIGHT, WIDTH), zeros(DEPTH, HEIGHT, WIDTH), WIDTH, HEIGHT, DEPTH))


def matmul(file, kernel, sizes, n=1024):
    return at(f"{file}.cu", kernel, ladder="matmul")[(n // 32, n // 32), (32, 32)](
        lambda: (floats(n, n), floats(n, n), zeros(n, n), *(n,) * sizes)
    )


def image(file, kernel, channels, *more):
    return at(f"{file}.cu", kernel)[(4096 // 64, 3072 // 16), (64, 16)](
        lambda: (floats(3072, 4096, channels), zeros(3072, 4096), 3072, 4096, *more)
    )


LAUNCHES = [
    at("01_vector_addition/vec_add_gpu.cu", "vec_add_kernel")[N // 256, 256](
        lambda: (*(floats(N), floats(N), zeros(N)), N)
    ),
    image("02_color_2_grayscale/c2g_gpu", "c2g_kernel", 3),
    image("03_image_blur/img_blur_gpu", "img_blur_kernel", 1, 4),
    matmul("04_sq_mat_mul/unco_sq_mat_mul_gpu", "unco_sq_mat_mul_kernel", 1),
    matmul("04_sq_mat_mul/sq_mat_mul_gpu", "sq_mat_mul_kernel", 1),
    matmul("05_tiled_mat_mul/mat_mul_gpu", "mat_mul_kernel", 3),
    matmul("05_tiled_mat_mul/tiled_mat_mul_gpu", "tiled_mat_mul_kernel", 3),
    stencil("naive_gpu_stencil", 8, (8, 8, 8)),
    stencil("tiled_gpu_stencil", 6, (8, 8, 8)),
    stencil("coarse_tiled_gpu_stencil", 30, (32, 32)),
    stencil("register_coarse_tiled_gpu_stencil", 30, (32, 32)),
]
