"""chiendb97/cuda-practice: sums and transposes of integers, version by version."""

from speed_calls.calls import at, i32, integers, zeros

REPOSITORY = "chiendb97/cuda-practice"
N = 1 << 24
BLOCK = 512
SIDE = 4096


def total(file, kernel, blocks, template=None, shared=0):
    return at(f"cpp/parallel_reduction/{file}.cu", kernel, template=template, ladder="sum")[
        blocks, BLOCK, shared
    ](lambda: (integers(0, 9, N), zeros(blocks, dtype=i32), N))


def transpose(file, kernel):
    return at(f"cpp/matrix_transpose/{file}.cu", kernel, ladder="transpose")[
        (SIDE // 16, SIDE // 16), (16, 16)
    ](lambda: (integers(0, 9, SIDE, SIDE), zeros(SIDE, SIDE, dtype=i32), SIDE, SIDE))


ONE, EIGHT = N // BLOCK, N // BLOCK // 8
LAUNCHES = [
    total("neighbored_pair", "reduce_neighbored_pair", ONE),
    total("neighbored_pair_less", "reduce_neighbored_pair_less", ONE),
    total("interleaved_pair", "reduce_interleaved_pair", ONE),
    total("loop_unrolling", "reduce_loop_unrolling", EIGHT),
    total("warp_unrolling", "reduce_warp_unrolling", EIGHT),
    total("complete_unrolling", "reduce_complete_unrolling", EIGHT),
    total("template_function", "reduce_template", EIGHT, (BLOCK,)),
    total("template_function_shared_memory", "reduce_template_shared_memory", EIGHT, (BLOCK,)),
    total("warp_shuffle_instruction", "reduce_warp_shuffle_instruction", ONE, shared=BLOCK // 32 * 4),
    *(
        transpose("naive", kernel)
        for kernel in (
            "copy_row",
            "copy_column",
            "transpose_row",
            "transpose_column",
            "transpose_diagonal_row",
            "transpose_diagonal_column",
        )
    ),
    transpose("shared_memory", "transpose_shared_memory"),
    transpose("shared_memory", "transpose_shared_memory_padding"),
]
