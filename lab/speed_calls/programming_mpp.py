"""R100001/Programming-Massively-Parallel-Processors: the book's patterns with a benchmark for each."""

from speed_calls.calls import at, floats, i32, integers, u32, up, zeros

REPOSITORY = "R100001/Programming-Massively-Parallel-Processors"
N = 1 << 24


def call(file, kernel, **more):
    return at(f"Performance-Tests-NvBench/{file}.cuh", kernel, **more)


def reduction(version, each=1, grid=0, block=256):
    grid = grid or N // (block * each)
    return call("reduction/reduction_kernels", f"reduction{version}", template=("float",), ladder="sum")[
        grid, block, 4 * block
    ](lambda: (floats(N), N, zeros(grid)))


def scan(kernel, per_block, block, shared, *more):
    return call("scan/scan_kernels", kernel, template=("int",), ladder="scan")[N // per_block, block, shared](
        lambda: (integers(0, 9, N), zeros(N, dtype=i32), N, *more, zeros(N // per_block, dtype=i32))
    )


def histogram(kernel, shared):
    return call("histogram/histogram_kernels", kernel)[1024, 256, shared](
        lambda: (integers(0, 1024, N).view(u32), zeros(1024, dtype=u32), N, 1024)
    )


def matmul(kernel, shared=0, n=1024):
    return call("mat_mat_mul/mat_mat_mul_kernels", kernel, template=("float",))[
        (n // 16, n // 16), (16, 16), shared
    ](lambda: (floats(n, n), floats(n, n), zeros(n, n), n, n, n, n))


def matvec(kernel, shared=0):
    return call("mat_vec_mul/mat_vec_mul_kernels", kernel, template=("float",))[up(8192, 128), 128, shared](
        lambda: (zeros(8192), floats(8192, 4096), floats(4096), 8192, 4096)
    )


def addition(kernel, grid, block, n=4096):
    return call("array_add/array_add_kernels", kernel, template=("float",))[grid, block](
        lambda: (floats(n, n), floats(n, n), zeros(n, n), n, n)
    )


LAUNCHES = [
    reduction(1),
    reduction(2),
    reduction(3),
    reduction(4, 2),
    scan("Kogge_Stone_inclusive_scan", 512, 512, 4096),
    scan("Brent_Kung_inclusive_scan", 1024, 512, 4096),
    scan("three_phase_parallel_inclusive_scan", 2048, 256, 8192, 2048),
    histogram("histogram_shared", 4096),
    matmul("mat_mat_mul"),
    matmul("mat_mat_mul_tiles", 2048),
    matvec("mat_vec_mul"),
    matvec("mat_vec_mul_tiles", 512),
    addition("array_add_not_coalesced", (256, 256), (16, 16)),
    addition("array_add_coalesced", (256, 256), (16, 16)),
]
