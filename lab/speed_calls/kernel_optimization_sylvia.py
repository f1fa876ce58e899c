"""sylvia-ymlin/CUDA-Kernel-Optimization: six transposes."""

from speed_calls.calls import Timed, floats, zeros

REPOSITORY = "sylvia-ymlin/CUDA-Kernel-Optimization"
N = 4096


def transpose(version, template=None):
    return Timed(
        "kernels/transpose/transpose.cu",
        f"transpose_v{version}",
        (N // 32, N // 32),
        (32, 32),
        lambda: (floats(N, N), zeros(N, N), N, N),
        template,
        ladder="transpose",
    )


LAUNCHES = [
    *(transpose(version) for version in (0, 1, 2)),
    *(transpose(version, (32,)) for version in (3, 4, 5)),
]
