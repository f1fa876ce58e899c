"""ifromeast/cuda_learning: a ladder of float32 matrix products."""

from speed_calls.calls import at, floats, up, zeros

REPOSITORY = "ifromeast/cuda_learning"


def sgemm(file, kernel, tile, threads, n):
    return at(f"03_gemm/{file}.cu", kernel, ladder=f"sgemm {n}")[
        (up(n, tile), up(n, tile)), (threads, threads)
    ](lambda: (floats(n, n), floats(n, n), zeros(n, n), n, n, n))


LAUNCHES = [
    launch
    for n in (1024, 2048)
    for launch in (
        sgemm("sgemm_naive", "naiveSgemm", 32, 32, n),
        *(sgemm(f"sgemm_v{version}", f"sgemm_V{version}", 128, 16, n) for version in (1, 2, 3)),
    )
]
