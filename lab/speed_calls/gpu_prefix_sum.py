"""mark-poscablo/gpu-prefix-sum: scans of blocks."""

from speed_calls.calls import at, integers, u32, zeros

REPOSITORY = "mark-poscablo/gpu-prefix-sum"
N = 1 << 24


def scan(kernel, arguments, shared=0, n=N):
    return at("scan_standalone/scan.cu", kernel)[n // 2048, 1024, shared](arguments)


def numbers(n):
    return integers(0, 8, n).view(u32)


def empty(n):
    return zeros(n, dtype=u32)


LAUNCHES = [
    scan("gpu_sum_scan_blelloch", lambda: (empty(N), numbers(N), empty(N // 2048), N), 8192),
    scan(
        "gpu_prescan", lambda: (empty(N), numbers(N), empty(N // 2048), N, 2048 + 64, 2048), 4 * (2048 + 64)
    ),
    scan("gpu_add_block_sums", lambda: (empty(N), numbers(N), numbers(N // 2048), N)),
    at("scan_standalone/scan.cu", "gpu_sum_scan_naive")[64, 256](
        lambda: (empty(1 << 14), numbers(1 << 14), 1 << 14)
    ),
]
