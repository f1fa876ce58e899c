"""umfranzw/cuda-reduction-example: sums of blocks, in global and in shared memory."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "umfranzw/cuda-reduction-example"
N = 1 << 24


def reduction(step, block=512):
    return at(f"reduce{step}/src/kernel.cu", "reduce", ladder=f"sum, blocks of {block}")[
        N // (2 * block), block
    ](lambda: (floats(N), zeros(N // (2 * block)), N))


LAUNCHES = [reduction(step, block) for block in (512, 128) for step in (0, 1, 4)]
