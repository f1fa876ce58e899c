"""sunjiabin17/cuda-example: six transposes."""

from speed_calls.calls import Timed, floats, i32, integers, zeros

REPOSITORY = "sunjiabin17/cuda-example"
N = 4096


def transpose(file, kernel, tile, block, make):
    return Timed(
        f"implementations/07_matrix_transpose/{file}.cu",
        kernel,
        (N // tile, N // block[1]),
        block,
        make,
        ladder="transpose",
    )


def direct(kernel, each=1):
    make = lambda: (floats(N, N), zeros(N, N), N, N)  # noqa: E731
    return transpose("01_matrix_transpose", kernel, 32 * each, (32, 32), make)


def shared(kernel):
    make = lambda: (integers(0, 8, N, N), zeros(N, N, dtype=i32), N, N)  # noqa: E731
    return transpose("02_matrix_transpose_smem", kernel, 64, (64, 8), make)


LAUNCHES = [
    direct("read_coalesced_write_stride_matrix_transpose"),
    direct("read_stride_write_coalesced_matrix_transpose"),
    direct("transposeUnroll4Row", 4),
    direct("transpose_diagonal_row"),
    shared("transpose_smem"),
    shared("transpose_smem_pad"),
]
