"""dawud-shakir/GPU: transposes of a matrix."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "dawud-shakir/GPU"
SIDE = 4096


def transpose(version):
    named = at("kernels/transpose.cu", f"gpu_transpose_{version}", ladder="transpose")
    return named[(SIDE // 32,) * 2, (32, 32)](lambda: (floats(SIDE, SIDE), SIDE, SIDE, zeros(SIDE, SIDE)))


LAUNCHES = [transpose("cm"), transpose("rm"), transpose("2"), transpose("tiled")]
