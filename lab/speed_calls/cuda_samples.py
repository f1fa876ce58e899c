"""NVIDIA/cuda-samples: transpositions, sums, separable convolutions, options, scans."""

from speed_calls.calls import Timed, floats, integers, positive, u32, zeros

REPOSITORY = "NVIDIA/cuda-samples"
N = 1 << 24


def transposition(kernel, n=4096):
    return Timed(
        "Samples/6_Performance/transpose/transpose.cu",
        kernel,
        (n // 32, n // 32),
        (32, 16),
        lambda: (zeros(n, n), floats(n, n), n, n),
        ladder="transposition",
    )


def reduction(version, *template, each=1, grid=0):
    grid = grid or N // (256 * each)
    return Timed(
        "Samples/2_Concepts_and_Techniques/reduction/reduction_kernel.cu",
        f"reduce{version}",
        grid,
        256,
        lambda: (floats(N), zeros(grid), N),
        template=("float", *template),
        shared=1024,
        ladder="sum",
    )


def convolution(kernel, grid, block):
    return Timed(
        "Samples/2_Concepts_and_Techniques/convolutionSeparable/convolutionSeparable.cu",
        kernel,
        grid,
        block,
        lambda: (zeros(3072, 3072), floats(3072, 3072), 3072, 3072, 3072),
    )


LAUNCHES = [
    transposition("copy"),
    transposition("copySharedMem"),
    transposition("transposeNaive"),
    transposition("transposeCoalesced"),
    transposition("transposeNoBankConflicts"),
    transposition("transposeDiagonal"),
    reduction(0),
    reduction(1),
    reduction(2),
    reduction(3, each=2),
    reduction(4, 256, each=2),
    reduction(5, 256, each=2),
    reduction(6, 256, "true", grid=1056),
    convolution("convolutionRowsKernel", (3072 // 128, 3072 // 4), (16, 4)),
    convolution("convolutionColumnsKernel", (3072 // 16, 3072 // 64), (16, 8)),
    Timed(
        "Samples/5_Domain_Specific/BlackScholes/BlackScholes_kernel.cuh",
        "BlackScholesGPU",
        (4_000_000 // 2) // 128,
        128,
        lambda: (
            *(zeros(4_000_000), zeros(4_000_000)),
            *(positive(4_000_000) * 30, positive(4_000_000) * 100, positive(4_000_000) * 10),
            *(0.02, 0.30, 4_000_000),
        ),
    ),
    Timed(
        "Samples/2_Concepts_and_Techniques/scan/scan.cu",
        "scanExclusiveShared",
        N // 1024,
        256,
        lambda: (zeros(N, dtype=u32), integers(0, 9, N).view(u32), 1024),
    ),
]
