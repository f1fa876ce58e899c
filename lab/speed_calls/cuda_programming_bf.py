"""brucefan1983/CUDA-Programming: a book's transposes, and sums in global memory, shared memory and warps."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "brucefan1983/CUDA-Programming"
N = 1 << 24
SIDE = 4096
BLOCK = 128


def transpose(file, kernel):
    return at(f"src/{file}.cu", kernel, ladder="transpose")[(SIDE // 32, SIDE // 32), (32, 32)](
        lambda: (floats(SIDE, SIDE), zeros(SIDE, SIDE), SIDE)
    )


def of_blocks(kernel, shared=0):
    return at("src/08-shared-memory/reduce2gpu.cu", kernel, ladder="sums of blocks")[
        N // BLOCK, BLOCK, shared
    ](lambda: (floats(N), zeros(N // BLOCK)))


def to_one(kernel):
    return at("src/10-warp/reduce.cu", kernel, ladder="sum by atomics")[N // BLOCK, BLOCK, 4 * BLOCK](
        lambda: (floats(N), zeros(1), N)
    )


LAUNCHES = [
    *(transpose("07-global-memory/matrix", f"transpose{version}") for version in (1, 2, 3)),
    *(transpose("08-shared-memory/bank", f"transpose{version}") for version in (1, 2)),
    of_blocks("reduce_global"),
    of_blocks("reduce_shared"),
    of_blocks("reduce_dynamic", 4 * BLOCK),
    to_one("reduce_syncwarp"),
    to_one("reduce_shfl"),
    to_one("reduce_cp"),
]
