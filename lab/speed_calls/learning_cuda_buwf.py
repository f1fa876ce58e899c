"""buwf2002/learning-cuda: attention on tensor cores."""

from speed_calls.calls import Timed, bf16, floats, zeros

REPOSITORY = "buwf2002/learning-cuda"
HEADS, LENGTH, WIDTH = 8, 2048, 128


def attention(version, keys, tiles):
    def arguments():
        shape = (HEADS, LENGTH, WIDTH)
        tensors = (floats(*shape, dtype=bf16), floats(*shape, dtype=bf16), floats(*shape, dtype=bf16))
        return (*tensors, zeros(*shape, dtype=bf16), 1, HEADS, HEADS, LENGTH, LENGTH, False)

    return Timed(
        f"attention/attention_v{version}.cu",
        f"attention_v{version}_kernel",
        HEADS * LENGTH // 64,
        128,
        arguments,
        (64, keys, WIDTH, 4),
        shared=keys * tiles * WIDTH * 2,
        ladder="attention",
    )


LAUNCHES = [
    attention(1, 64, 2),
    attention(2, 64, 2),
    attention(3, 32, 4),
    attention(4, 32, 4),
    attention(5, 64, 3),
]
