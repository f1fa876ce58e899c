"""strategist614/cuda-operator: an operator for each number, alone and by four; sums by shuffles."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "strategist614/cuda-operator"
COUNT = 1 << 24


def over(file, kernel, ladder, each, tensors):
    launch = at(f"cuda-kernel-samples/elementwise/{file}.cu", kernel, ladder=ladder)
    return launch[COUNT // (256 * each), 256](
        lambda: (*(floats(COUNT) for _ in range(tensors)), zeros(COUNT), COUNT)
    )


def total(file, kernel, blocks):
    return at(f"cuda-kernel-samples/reduce/{file}.cu", kernel, ladder="sum")[blocks, 256](
        lambda: (floats(COUNT), zeros(blocks), COUNT)
    )


LAUNCHES = [
    over("add", "add", "addition", 1, 2),
    over("addvec", "add_float4", "addition", 4, 2),
    over("relu", "relu", "relu", 1, 1),
    over("reluvec", "relu_4float", "relu", 4, 1),
    over("sigmoid", "sigmoid", "sigmoid", 1, 1),
    over("sigmoidvec", "add_float4", "sigmoid", 4, 1),
    total("sum_interview", "add_warp_shuffle", COUNT // 256),
    total("sum_warp", "reduce_sum_float4", 1024),
]
