"""Yash-Desh/CUDA-Practice: products, sums and scans of a book's patterns."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "Yash-Desh/CUDA-Practice"
N, LONG = 2048, 1 << 24
PATTERNS = "1_parallel_patterns"


def product(file, kernel, columns=32):
    make = lambda: (floats(N, N), floats(N, N), zeros(N, N), N)  # noqa: E731
    return at(f"{PATTERNS}/03_matmul/{file}.cu", kernel, ladder="product")[(N // columns, N // 32), (32, 32)](
        make
    )


def total(file, each):
    make = lambda: (floats(LONG), zeros(LONG // each), LONG)  # noqa: E731
    name = f"{PATTERNS}/06_reduction/{file}.cu"
    return at(name, "reduce_kernel", ladder="sum")[LONG // each, 1024](make)


def scan(file, each):
    make = lambda: (floats(LONG), zeros(LONG), zeros(LONG // each), LONG)  # noqa: E731
    return at(f"{PATTERNS}/07_scan/{file}.cu", "scan_kernel", ladder="scan of blocks")[LONG // each, 1024](
        make
    )


LAUNCHES = [
    product("4_matmul", "matmul_kernel"),
    product("5_matmul_tiled", "matmul_tiled_kernel"),
    product("6_matmul_tiled_thread_coarsening", "matmul_tiled_kernel", 128),
    total("13_reduction", 2048),
    total("14_reduction_mem_coalescing", 2048),
    total("15_reduction_shared_mem", 2048),
    total("16_reduction_thread_coarsening", 8192),
    scan("19_scan_kogge_stone_double_buffering", 1024),
    scan("20_excl_scan_kogge_stone", 1024),
    scan("24_scan_kogge_stone_thread_coarsening", 8192),
]
