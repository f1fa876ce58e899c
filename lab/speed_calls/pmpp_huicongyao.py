"""huicongyao/PMPP: scans of sections of 512, products of a sparse matrix, stencils of a volume, histograms of
letters."""

import torch

from speed_calls import calls
from speed_calls.calls import at, floats, i8, i32, integers, u32, up, zeros

REPOSITORY = "huicongyao/PMPP"
COUNT, LETTERS, ROWS, EACH, SIDE = 1 << 22, 1 << 24, 1 << 18, 16, 256


def scan(kernel, block):
    return at("11_2_parallel_scan.cu", kernel, ladder="scan")[COUNT // 512, block](
        lambda: (floats(COUNT), zeros(COUNT), COUNT)
    )


def counted(end, step=1):
    return torch.arange(0, end, step, dtype=i32, device=calls.device)


def columns():
    return integers(0, ROWS, ROWS * EACH).view(u32)


def by_places():
    row = counted(ROWS).repeat_interleave(EACH).view(u32)
    return (row, columns(), floats(ROWS * EACH), ROWS * EACH), floats(ROWS), zeros(ROWS)


def by_rows():
    begins = counted((ROWS + 1) * EACH, EACH).view(u32)
    return (ROWS, begins, columns(), floats(ROWS * EACH)), floats(ROWS), zeros(ROWS)


def sparse(file, kernel, threads, block, make):
    return at(f"{file}_kernel.cu", f"{kernel}_kernel", ladder="sparse product")[threads // block, block](make)


def stencil(file, kernel, grid, block):
    return at(f"8_{file}.cu", f"stencil_kernel{kernel}", ladder="stencil")[grid, block](
        lambda: (floats(SIDE, SIDE, SIDE), zeros(SIDE, SIDE, SIDE), SIDE)
    )


def letters(file, kernel, blocks):
    return at(f"9_{file}.cu", kernel, ladder="histogram")[blocks, 256](
        lambda: (integers(97, 123, LETTERS, dtype=i8), LETTERS, zeros(7 * blocks, dtype=u32))
    )


LAUNCHES = [
    scan("Koggle_Stone_scan_kernel", 512),
    scan("Brent_Kung_scan_kernel", 256),
    sparse("14_2_spmv_coo", "spmv_coo", ROWS * EACH, 256, by_places),
    sparse("14_3_spmv_csr", "spmv_csr", ROWS, 128, by_rows),
    stencil("2_basic_stencil_sweep_kernel", "", (up(SIDE, 10),) * 3, (10, 10, 10)),
    stencil("5_stencil_register_tiling", "_register_tiling", (up(SIDE, 30),) * 3, (32, 32)),
    letters("1_simple_histogram", "histo_kernel", LETTERS // 256),
    letters("4_privatization_histogram", "histo_private_kernel", LETTERS // 256),
    letters("4_privatization_histogram", "histo_private_kernel_shared_mem", LETTERS // 256),
    letters("5_coarsening", "histo_private_kernel", up(LETTERS, 256 * 3)),
    letters("5_coarsening", "histo_private_kernel_2", 1024),
    letters("6_aggregated_histogram", "histo_private_kernel", 1024),
]
