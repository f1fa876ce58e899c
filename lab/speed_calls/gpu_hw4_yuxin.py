"""yuxin212/gpu-hw4: convolutions of a row."""

from speed_calls.calls import at, i32, integers, zeros

REPOSITORY = "yuxin212/gpu-hw4"
LENGTH, WIDTH, BLOCK = 1 << 23, 20, 256


def convolved(file, more):
    shared = 4 * (BLOCK + WIDTH) if file == "share.cu" else 0
    return at(file, "conv1d", ladder="convolution")[LENGTH // BLOCK, BLOCK, shared](
        lambda: (
            (integers(0, 10, LENGTH + BLOCK), *more(), zeros(LENGTH, dtype=i32), LENGTH)
            + ((WIDTH,) if file == "naive.cu" else ())
        )
    )


LAUNCHES = [
    convolved("const.cu", tuple),
    convolved("naive.cu", lambda: (integers(0, 10, WIDTH),)),
    convolved("share.cu", tuple),
]
