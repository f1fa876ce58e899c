"""hgl71964/gpu-kernels: matrix products by small blocks, with copies in the background or not."""

from speed_calls.calls import at, floats

REPOSITORY = "hgl71964/gpu-kernels"


def product(file, kernel, n, side, shared=0, sizes=()):
    return at(f"examples/{file}.cu", kernel, ladder=f"product of {side}")[
        (n // side, n // side), (side, side), shared
    ](lambda: (floats(n, n), floats(n, n), floats(n, n), *sizes, n, n, n))


LAUNCHES = [
    *(
        product("gemm/basic", kernel, 1024, 8, sizes=(8, 8, 8))
        for kernel in ("native_mm", "tiled_mm", "tiled_mm_double_buffer")
    ),
    product("loop-pipelining/memcpy_async_pipeline", "tile_mm_sync", 1024, 8, 2048),
    product("loop-pipelining/memcpy_async_pipeline", "tile_mm_async", 1024, 8, 2048),
    product("loop-pipelining/native", "tile_mm", 1024, 4),
    product("loop-pipelining/memcpy_async", "tile_mm_sync", 1024, 4, 128),
    product("loop-pipelining/memcpy_async", "tile_mm_async", 1024, 4, 128),
]
