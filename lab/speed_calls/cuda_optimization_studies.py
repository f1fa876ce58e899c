"""debnath2109/Cuda-Optimization-Studies: a sum, by four versions."""

from speed_calls.calls import at, f32, f64, floats, zeros

REPOSITORY = "debnath2109/Cuda-Optimization-Studies"
N = 1 << 24


def total(file, kernel, grid, dtype=f32):
    make = lambda: (floats(N), zeros(1, dtype=dtype), N)  # noqa: E731
    return at(f"reduction/{file}.cu", kernel, ladder="sum")[grid, 256](make)


LAUNCHES = [
    total("01_naive_atomic", "reduceNaive", N // 256, f64),
    total("02_shared_tree", "reduceShared", N // 256),
    total("03_gridstride_shuffle", "reduceOptimized", 256),
    total("04_float4_vectorized", "float4Optimized", 120),
]
