"""JustQJ/cuda-mode-learn: convolutions, histograms of letters, and products of a sparse matrix."""

import torch

from speed_calls.calls import at, floats, i8, i32, integers, up, zeros

REPOSITORY = "JustQJ/cuda-mode-learn"
SIDE, RADIUS, LETTERS = 2048, 4, 1 << 24
ROWS, FILLED = 1 << 17, 16  # numbers of each row of the sparse matrix
FOLDER = "pmpp-practices"


def convolution(kernel, tile, more):
    named = at(f"{FOLDER}/convolution/convolution-eval.cu", f"convolution_2d_{kernel}", ladder="convolution")
    return named[(up(SIDE, tile),) * 2, (32, 32)](
        lambda: (
            floats(SIDE, SIDE),
            *((floats(2 * RADIUS + 1, 2 * RADIUS + 1),) if more == 2 else ()),
            zeros(SIDE, SIDE),
            *((RADIUS,) if more else ()),
            SIDE,
            SIDE,
        )
    )


def histogram(kernel, letters=1):
    file = f"{FOLDER}/parallel-histogram/parallel-histogram-eval.cu"
    return at(file, f"histogram_{kernel}", ladder="histogram")[LETTERS // (512 * letters), 512](
        lambda: (integers(97, 123, LETTERS, dtype=i8), LETTERS, zeros(7, dtype=i32))
    )


def in_rows():
    return torch.arange(0, ROWS * FILLED + 1, FILLED, dtype=i32, device=zeros(1).device)


def sparse(kernel, matrix, after, threads=ROWS):
    named = at(f"{FOLDER}/sparse-matrix/sparse-matrix.cu", f"spmv_{kernel}_kernel", ladder="sparse product")
    return named[threads // 256, 256](
        lambda: (*matrix(), floats(ROWS * FILLED), floats(ROWS), zeros(ROWS), *after)
    )


def columns():
    return integers(0, ROWS, ROWS * FILLED)


LAUNCHES = [
    convolution("basic_kernel", 32, 2),
    convolution("constant_mem_kernel", 32, 1),
    convolution("tiled_const_mem_kernel", 24, 0),
    convolution("cached_tiled_const_mem_kernel", 32, 0),
    histogram("kernel"),
    histogram("shared_mem_kernel"),
    histogram("shared_mem_multi_contiguous_kernel", 4),
    histogram("shared_mem_multi_interleaved_kernel", 4),
    histogram("shared_mem_multi_interleaved_counter_kernel", 4),
    sparse(
        "coo",
        lambda: (in_rows()[:-1].repeat_interleave(FILLED) // FILLED, columns()),
        (ROWS * FILLED,),
        ROWS * FILLED,
    ),
    sparse("csr", lambda: (in_rows(), columns()), (ROWS, ROWS)),
    sparse("ell", lambda: (columns(),), (ROWS, ROWS, FILLED)),
]
