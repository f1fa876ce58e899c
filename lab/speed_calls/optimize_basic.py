"""VVinstonSmith/Optimize-basic-CUDA-kernels: products with a vector, and sums."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "VVinstonSmith/Optimize-basic-CUDA-kernels"
SIDE = 4096
N = 1 << 24
BLOCK = 256


def matvec(version, grid, block, template=None):
    return at("gemv/kernels.cu", f"Sgemv_v{version}", template=template, ladder="matvec")[grid, block](
        lambda: (floats(SIDE, SIDE), floats(SIDE), zeros(SIDE), SIDE, SIDE)
    )


def total(version, per_block, *template):
    return at("reduce/reduce_kernel.cu", f"reduce_v{version}", template=(BLOCK, *template), ladder="sum")[
        N // per_block, BLOCK
    ](lambda: (floats(N), zeros(N // per_block)))


LAUNCHES = [
    matvec(0, SIDE // 8, (32, 8)),
    matvec(1, SIDE // 8, (32, 8)),
    matvec(2, SIDE // 16, (32, 8)),
    matvec(3, SIDE // 4, (128, 4), (128, 4)),
    *(total(version, BLOCK) for version in (0, 1, 2)),
    *(total(version, 2 * BLOCK) for version in (3, 4, 5)),
    total(6, 16 * BLOCK, 8),
]
