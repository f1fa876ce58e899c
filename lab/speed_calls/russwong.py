"""RussWong/CUDATutorial: sums of blocks in five steps, a histogram, GELU, softmax."""

from speed_calls.calls import at, f16, floats, i32, integers, zeros

REPOSITORY = "RussWong/CUDATutorial"
N = 25_600_000


def reduction(version, block):
    return at(f"5_reduce/reduce_v{version}.cu", f"reduce_v{version}", template=(block,), ladder="sum")[
        N // 256, block
    ](lambda: (floats(N), zeros(N // 256)))


def gelu(width):
    return at("9_gelu.cu", "FP16GeluCUDAKernel", template=(width,))[4096, 256](
        lambda: (floats(1 << 24, dtype=f16), zeros(1 << 24, dtype=f16), 1 << 24)
    )


LAUNCHES = [
    reduction(0, 256),
    reduction(2, 256),
    reduction(3, 128),
    reduction(4, 128),
    at("6_warp_level_reduce.cu", "reduce_warp_level", template=(256,), ladder="sum")[N // 256, 256](
        lambda: (floats(N), zeros(N // 256), N)
    ),
    at("7_1_histogram.cu", "histgram", template=(256,))[2048, 256](
        lambda: (integers(0, 256, N), zeros(256, dtype=i32), N)
    ),
    gelu(8),
    gelu(1),
    at("11_softmax.cu", "WarpSoftmax", template=(1, 32, 32, 1))[(1, 1024), (32, 8)](
        lambda: (floats(8192, 1024), zeros(8192, 1024), 8192, 1024)
    ),
]
