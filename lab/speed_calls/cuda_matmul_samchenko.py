"""s-samchenko/cuda-matmul: seven matrix products, up to copies in a pipeline."""

from speed_calls.calls import at, floats

REPOSITORY = "s-samchenko/cuda-matmul"


def product(file, kernel, n, tile):
    return at(f"src/kernels/{file}.cu", f"matmul_{kernel}_kernel", ladder=f"product {n}")[
        (n // tile, n // tile), (16, 16)
    ](lambda: (floats(n, n), floats(n, n), floats(n, n), n))


LAUNCHES = [
    product(file, kernel, n, tile)
    for n in (1024, 3072)
    for file, kernel, tile in (
        ("1_naive", "naive", 16),
        ("2_tiled", "tiled", 16),
        ("3_blocked", "blocked", 128),
        ("4_blockedv2", "blockedv2", 128),
        ("5_vec4", "vec4", 128),
        ("6_double_buffering", "doubleBuffering", 128),
        ("7_pipelined", "pipelined", 128),
    )
]
