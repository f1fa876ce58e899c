"""Maharshi-Pandya/cudacodes: softmax and products of a matrix and a vector in steps, matrix products."""

from speed_calls.calls import at, floats, up, zeros

REPOSITORY = "Maharshi-Pandya/cudacodes"
ROWS, COLUMNS = 4096, 4096


def softmax(name, step, grid, shared=0):
    return at(f"softmax/kernels/{name}_{step}.cu", f"softmax_kernel_{step}", ladder="softmax")[
        grid, 1024, shared
    ](lambda: (floats(ROWS, COLUMNS), zeros(ROWS, COLUMNS), ROWS, COLUMNS))


def matvec(name, kernel, grid, block, shared=0):
    return at(f"matvec/kernels/{name}.cu", kernel, ladder="matvec")[grid, block, shared](
        lambda: (floats(4096, 8192), floats(8192), zeros(4096), 4096, 8192)
    )


def matmul(kernel, tile, block, n=1024):
    return at("matmul/main.cu", kernel, ladder="matmul")[(up(n, tile), up(n, tile)), block](
        lambda: (floats(n, n), floats(n, n), zeros(n, n), n, n, n)
    )


LAUNCHES = [
    softmax("naive", 0, ROWS // 1024),
    softmax("online", 1, ROWS // 1024),
    softmax("sharedmem", 2, ROWS),
    softmax("shfl", 3, ROWS),
    softmax("vectorized", 4, ROWS, 128),
    matvec("naive_1", "naive_sgemv_kernel", 4, 1024),
    matvec("coalesced_warp_2", "coalesced_warp_sgmev_kernel", 4096, 32),
    matvec("coalesced_warpblock_3", "coalesced_warpblock_sgmev_kernel", 4096, 64, 8),
    matvec("vectorized_4", "vectorized_sgemv_kernel", 4096, 64, 8),
    matmul("naive_xgemm_kernel", 32, (32, 32)),
    matmul("tiled_xgemm_kernel", 32, (32, 32)),
    matmul("tiled_xgemm_1d_coarse_kernel", 64, 512),
]
