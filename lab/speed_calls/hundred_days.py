"""a-hamdi/GPU: a kernel a day: layers of networks, images, grids."""

from speed_calls.calls import Timed, f64, floats, i32, integers, up, zeros

REPOSITORY = "a-hamdi/GPU"
N = 1 << 24


def day(number, file, kernel, grid, block, arguments, shared=0, ladder=""):
    return Timed(f"day {number:02}/{file}.cu", kernel, grid, block, arguments, shared=shared, ladder=ladder)


def addition(kernel, grid, block, n=4096):
    return day(
        2,
        "MatrixAdd",
        kernel,
        grid,
        block,
        lambda: (floats(n, n), floats(n, n), zeros(n, n), n),
        ladder="add",
    )


LAUNCHES = [
    addition("MatrixAdd_B", (256, 256), (16, 16)),
    addition("MatrixAdd_C", 32, 128),
    addition("MatrixAdd_D", (1, 32), (1, 128)),
    day(
        6,
        "MatrixTranspose",
        "transposeMatrix",
        (128, 128),
        (32, 32),
        lambda: (floats(4096, 4096), zeros(4096, 4096), 4096, 4096),
    ),
    day(
        7,
        "one_d_convolution_with_tiling",
        "oned_convolution_tiling_kernel",
        N // 32,
        32,
        lambda: (floats(N), zeros(N), N),
    ),
    day(
        31,
        "game_of_life",
        "gameOfLifeKernel",
        (256, 256),
        (16, 16),
        lambda: (integers(0, 2, 4096, 4096), zeros(4096, 4096, dtype=i32), 4096, 4096),
        shared=4 * 18 * 18,
    ),
    day(57, "mish", "mish_kernel", N // 256, 256, lambda: (floats(N), zeros(N), N)),
    day(
        63,
        "group_norm",
        "groupNormForward",
        (64, 8),
        256,
        lambda: (
            floats(64, 64, 64, 64),
            zeros(64, 64, 64, 64),
            floats(64),
            floats(64),
            64,
            64,
            64,
            64,
            8,
            1e-5,
        ),
        shared=2048,
    ),
    day(
        65,
        "geglu",
        "geglu_forward_kernel",
        16384,
        1024,
        lambda: (floats(N), floats(N), zeros(N), 1024),
    ),
    day(
        67,
        "poisson_solver",
        "jacobi_kernel",
        (256, 256),
        (16, 16),
        lambda: (
            zeros(4096, 4096, dtype=f64),
            floats(4096, 4096, dtype=f64),
            floats(4096, 4096, dtype=f64),
            4096,
            1e-6,
        ),
    ),
    day(
        93,
        "RMS_Normalization",
        "compute_rms",
        4096,
        256,
        lambda: (floats(4096, 4096), zeros(4096), 4096, 4096),
        1024,
    ),
    day(
        93,
        "RMS_Normalization",
        "normalize_rms",
        4096,
        256,
        lambda: (floats(4096, 4096), zeros(4096, 4096), floats(4096) + 2, 4096, 4096),
    ),
    day(
        95,
        "2D_Max_Pooling",
        "maxpool2d_kernel",
        (up(4094, 16), up(4094, 16)),
        (16, 16),
        lambda: (floats(4096, 4096), 4096, 4096, 3, 1, 0, 1, 4094, 4094, zeros(4094, 4094)),
    ),
    day(
        98, "leaky_relu", "leaky_relu_vec4_kernel", 4096, 256, lambda: (floats(N), 0.01, zeros(N), N // 4, N)
    ),
]
