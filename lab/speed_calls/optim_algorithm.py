"""BBuf/how-to-optim-algorithm-in-cuda: a sum in nine versions."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "BBuf/how-to-optim-algorithm-in-cuda"
N = 1 << 25
BLOCK = 256


def version(file, kernel, blocks, template=None, *more):
    return at(f"cuda-kernels/reduce/{file}.cu", kernel, template=template, ladder="sum")[blocks, BLOCK](
        lambda: (floats(N), zeros(blocks), *more)
    )


LAUNCHES = [
    version("reduce_v0_baseline", "reduce_v0", N // BLOCK),
    version("reduce_v1_interleaved_addressing", "reduce_v1", N // BLOCK),
    version("reduce_v2_bank_conflict_free", "reduce_v2", N // BLOCK),
    version("reduce_v3_idle_threads_free", "reduce_v3", N // BLOCK // 2),
    version("reduce_v4_unroll_last_warp", "reduce_v4", N // BLOCK // 2),
    version("reduce_v5_completely_unroll", "reduce_v5", N // BLOCK // 2, (256,)),
    version("reduce_v6_multi_add", "reduce_v6", 1024, (256, N // 1024 // BLOCK)),
    version("reduce_v7_shfl_down_sync", "reduce7", 1024, (256, N // 1024 // BLOCK), N),
    version("reduce_v8_shfl_down_sync_pack", "reduce_v8", 4224, None, N),
]
