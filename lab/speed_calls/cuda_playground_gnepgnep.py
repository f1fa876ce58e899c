"""gnepgnep/cuda-playground: a bias and ReLU, sums of rows that need no warp in step, transposes."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "gnepgnep/cuda-playground"
ROWS, COLUMNS, SIDE = 8192, 1024, 4096


def relu(kernel, *more):
    return at("ops/add_bias_relu.cu", kernel, template=("float",), ladder="relu")[ROWS, 1024](
        lambda: (floats(ROWS, COLUMNS), floats(COLUMNS), zeros(ROWS, COLUMNS), COLUMNS, *more)
    )


def total(version, block, words):
    kernel = f"ReduceKernel{version}"
    return at("ops/reduce_sum.cu", kernel, template=("float",), ladder="sum")[ROWS, block, 4 * words](
        lambda: (floats(ROWS, COLUMNS), zeros(ROWS), ROWS, COLUMNS)
    )


def transpose(version):
    kernel = f"TransposeKernel{version}"
    grid = (SIDE // 32, SIDE // 32)
    return at("ops/transpose.cu", kernel, template=("float",), ladder="transpose")[grid, (32, 32)](
        lambda: (floats(SIDE, SIDE), zeros(SIDE, SIDE), SIDE, SIDE)
    )


LAUNCHES = [
    relu("AddBiasRelu0Kernel"),
    relu("AddBiasReluKernel1", ROWS * COLUMNS),
    *(total(version, 1024, 1024) for version in (1, 2, 3)),
    total(4, 512, 512),
    *(total(version, 512, 0) for version in (6, 7)),
    *(transpose(version) for version in (0, 1, 2)),
]
