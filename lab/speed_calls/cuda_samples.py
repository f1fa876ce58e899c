"""NVIDIA/cuda-samples: transposes and sums, version by version."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "NVIDIA/cuda-samples"
N = 1 << 24
SIDE = 4096


def transpose(kernel):
    return at("Samples/6_Performance/transpose/transpose.cu", kernel, ladder="transpose")[
        (SIDE // 32, SIDE // 32), (32, 16)
    ](lambda: (zeros(SIDE, SIDE), floats(SIDE, SIDE), SIDE, SIDE))


def sums(version, blocks, *template, block=256):
    return at(
        "Samples/2_Concepts_and_Techniques/reduction/reduction_kernel.cu",
        f"reduce{version}",
        template=("float", *template),
        ladder="sum",
    )[blocks, block, 4 * block](lambda: (floats(N), zeros(blocks), N))


LAUNCHES = [
    *map(
        transpose,
        (
            "copy",
            "copySharedMem",
            "transposeNaive",
            "transposeCoalesced",
            "transposeNoBankConflicts",
            "transposeDiagonal",
            "transposeFineGrained",
            "transposeCoarseGrained",
        ),
    ),
    *(sums(version, N // 256) for version in (0, 1, 2)),
    sums(3, N // 512),
    sums(4, N // 512, 256),
    sums(5, N // 512, 256),
    sums(6, 1024, 256, "true"),
    sums(7, 1024, 256, "true"),
]
