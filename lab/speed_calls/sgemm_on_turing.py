"""yzhaiustc/Optimizing-SGEMM-on-NVIDIA-Turing-GPUs: a ladder of products of matrices by columns."""

from speed_calls.calls import at, floats

REPOSITORY = "yzhaiustc/Optimizing-SGEMM-on-NVIDIA-Turing-GPUs"
N = 2048


def sgemm(version, tile, block, n=N):
    return at(f"include/kernel{version}.cuh", f"mysgemm_v{version}", ladder="sgemm")[
        (n // tile, n // tile), block
    ](lambda: (n, n, n, 0.5, floats(n, n), floats(n, n), 2.0, floats(n, n)))


LAUNCHES = [
    sgemm(1, 32, (32, 32)),
    sgemm(2, 32, (32, 32)),
    sgemm(3, 32, 1024),
    sgemm(4, 32, 1024),
    sgemm(5, 32, 256),
    sgemm(6, 32, 256),
    sgemm(7, 64, 256),
    sgemm(8, 128, 256),
    sgemm(9, 128, 256),
    sgemm(10, 128, 256),
    sgemm(11, 128, 256),
]
