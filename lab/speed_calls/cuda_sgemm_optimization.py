"""wongzeonkei/cuda-sgemm-optimization: matrix products in stages, up to two buffers."""

from speed_calls.calls import at, floats

REPOSITORY = "wongzeonkei/cuda-sgemm-optimization"
N = 2048


def product(stage, kernel, tiles, threads, template=None):
    return at(f"src/sgemm_stage{stage}.cu", f"sgemm_{kernel}_kernel", template=template, ladder="product")[
        (N // tiles[0], N // tiles[1]), threads
    ](lambda: (floats(N, N), floats(N, N), floats(N, N), N, N, N))


LAUNCHES = [
    product("72_tiled", "naive", (16, 16), (16, 16)),
    product("72_tiled", "shared_tiled", (32, 32), (32, 32), (32,)),
    product("73_register1d", "register_1d", (32, 128), 512),
    product("74_register2d", "register_2d", (128, 128), 256),
    product("75_vectorized", "register_2d", (128, 128), 256, (False,)),
    product("75_vectorized", "register_2d", (128, 128), 256, (True,)),
    product("76_double_buffer", "single_buffer", (128, 128), 256, (True,)),
    product("76_double_buffer", "double_buffer", (128, 128), 256, (True,)),
]
