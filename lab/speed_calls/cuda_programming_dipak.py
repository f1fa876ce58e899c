"""Dipak22/CUDA-Programming: histograms of letters, by blocks of eight threads."""

from speed_calls.calls import Timed, i8, integers, u32, zeros

REPOSITORY = "Dipak22/CUDA-Programming"
N = 1 << 21


def histogram(file, kernel="hist_kernel", threads=8):
    make = lambda: (integers(97, 123, N, dtype=i8), N, zeros(7, dtype=u32))  # noqa: E731
    return Timed(f"hist_{file}.cu", kernel, N // threads, threads, make, ladder="histogram")


LAUNCHES = [
    histogram("atomic", "calc_hist", 256),
    histogram("atomicShared"),
    histogram("interleaved_part"),
    histogram("thread_coarsing_with_part"),
]
