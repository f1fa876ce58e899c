"""PaddleJitLab/CUDATutorial: sums of blocks in three steps, additions, a convolution."""

from speed_calls.calls import at, floats, i32, integers, up, zeros

REPOSITORY = "PaddleJitLab/CUDATutorial"
N = 1 << 24


def call(file, kernel, **more):
    return at(f"docs/{file}.cu", kernel, **more)


def reduction(file, kernel, per_block=256):
    grid = N // per_block
    return call(file, kernel, template=(256,), ladder="sum")[grid, 256](
        lambda: (integers(0, 10, N), zeros(grid, dtype=i32), N)
    )


def addition(file, grid, n):
    return call(file, "add_kernel")[grid, 256](lambda: (floats(n), floats(n), zeros(n), n))


LAUNCHES = [
    addition("04_first_refine_kernel/vector_add_thread", 1, 1 << 18),
    addition("04_first_refine_kernel/vector_add_grid", N // 256, N),
    reduction("08_impl_reduce/reduce_naive", "reduce_naive_kernel"),
    reduction(
        "09_optimize_reduce/02_bank_conflict/reduce_bank_conflict_free", "reduce_bank_conflict_free_kernel"
    ),
    reduction(
        "09_optimize_reduce/03_idle_threads_free/reduce_idle_threads_free", "reduce_idle_thread_free", 512
    ),
    call("12_convolution/01_naive_conv/naive_conv", "naive_conv2d_kernel")[
        (up(56 * 56, 16), up(64, 16), 8), (16, 16)
    ](
        lambda: (
            *(8, 64, 56, 56, 64, 3, 3, 56, 56, 1, 1, 1, 1),
            *(floats(8, 64, 56, 56), floats(64, 64, 3, 3), zeros(8, 64, 56, 56)),
        )
    ),
]
