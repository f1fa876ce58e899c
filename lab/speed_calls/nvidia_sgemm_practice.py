"""wangzyon/NVIDIA_SGEMM_PRACTICE: a ladder of float32 matrix products."""

from speed_calls.calls import at, floats

REPOSITORY = "wangzyon/NVIDIA_SGEMM_PRACTICE"
N = 2048


def sgemm(version, tile, block, template=None, n=N):
    return at(f"src/kernel/kernel_{version}.cuh", f"mysgemm_v{version}", template=template, ladder="sgemm")[
        (n // tile, n // tile), block
    ](lambda: (n, n, n, 0.5, floats(n, n), floats(n, n), 2.0, floats(n, n)))


LAUNCHES = [
    sgemm(1, 32, (32, 32)),
    sgemm(2, 32, 1024, (32,)),
    sgemm(3, 64, 512, (64, 64, 8, 8)),
    sgemm(4, 128, 256, (128, 128, 8, 8, 8)),
    sgemm(5, 128, 256, (128, 128, 8, 8, 8)),
    sgemm(6, 128, 256, (128, 128, 8, 8, 8)),
    sgemm(7, 128, 256, (128, 128, 8, 8, 8)),
]
