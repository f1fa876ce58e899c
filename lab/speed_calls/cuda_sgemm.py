"""nicolaswilde/cuda-sgemm: a short ladder of float32 matrix products, at two sizes."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "nicolaswilde/cuda-sgemm"


def sgemm(kernel, tile, block, n):
    return at("sgemm.cu", kernel, ladder=f"sgemm {n}")[(n // tile, n // tile), block](
        lambda: (floats(n, n), floats(n, n), zeros(n, n), n, n, n)
    )


LAUNCHES = [
    launch
    for n in (1024, 3072)
    for launch in (
        sgemm("naiveSgemm", 32, (32, 32), n),
        sgemm("mySgemmV1Aligned", 128, (16, 16), n),
        sgemm("mySgemmV2Aligned", 128, (16, 16), n),
        sgemm("mySgemmV3Aligned", 128, (16, 16), n),
    )
]
