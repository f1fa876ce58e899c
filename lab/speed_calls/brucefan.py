"""brucefan1983/CUDA-Programming: transpositions, sums of a book."""

from speed_calls.calls import Timed, floats, zeros

REPOSITORY = "brucefan1983/CUDA-Programming"
N = 1 << 24


def transposition(file, kernel, n=4096):
    return Timed(
        f"src/{file}.cu",
        kernel,
        (n // 32, n // 32),
        (32, 32),
        lambda: (floats(n, n), zeros(n, n), n),
        ladder="transposition",
    )


def reduction(kernel):
    return Timed(
        "src/10-warp/reduce.cu",
        kernel,
        N // 128,
        128,
        lambda: (floats(N), zeros(1), N),
        shared=512,
        ladder="sum",
    )


LAUNCHES = [
    transposition("07-global-memory/matrix", "copy"),
    transposition("07-global-memory/matrix", "transpose1"),
    transposition("07-global-memory/matrix", "transpose2"),
    transposition("07-global-memory/matrix", "transpose3"),
    transposition("08-shared-memory/bank", "transpose1"),
    transposition("08-shared-memory/bank", "transpose2"),
    reduction("reduce_syncwarp"),
    reduction("reduce_shfl"),
    reduction("reduce_cp"),
]
