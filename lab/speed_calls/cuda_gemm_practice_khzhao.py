"""khzhao/cuda-gemm-practice: six products."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "khzhao/cuda-gemm-practice"
N = 1024


def product(file, kernel, tile, block, template=None):
    return at(f"{file}.cuh", f"gemm_{kernel}", template=template, ladder="product")[
        (N // tile, N // tile), block
    ](lambda: (N, N, N, floats(N, N), floats(N, N), zeros(N, N)))


LAUNCHES = [
    product("1-naive", "naive", 32, (32, 32)),
    product("2-global-memory-coalescing", "global_memory_coalescing", 32, (32, 32)),
    product("3-shared-memory-blocking", "shared_memory_blocking", 32, (32, 32), (32,)),
    product("4-1D-blocktiling", "1D_blocktiling", 64, 512, (64, 8, 64, 8)),
    product("5-2D-blocktiling", "2D_blocktiling", 128, 256, (128, 32, 128, 8, 8)),
    product("6-vectorize", "vectorize", 128, 256, (128, 32, 128, 8, 8)),
]
