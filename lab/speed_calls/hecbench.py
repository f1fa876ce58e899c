"""zjin-lcf/HeCBench: kernels of many fields: streams, activations, stencils, filters, bits."""

from speed_calls.calls import Timed, f16, f64, floats, i8, i32, i64, integers, positive, up, zeros

REPOSITORY = "zjin-lcf/HeCBench"
N = 1 << 24


def call(program, kernel, grid, block, arguments, file="main.cu", **keywords):
    return Timed(f"src/{program}-cuda/{file}", kernel, grid, block, arguments, **keywords)


def stream(kernel, arrays):
    n = 1 << 24
    return call(
        "babelstream",
        kernel,
        n // 256,
        256,
        lambda: tuple(floats(n, dtype=f64) for _ in range(arrays)),
        template=("double",),
    )


def popcount(version):
    return call(
        "popcount",
        f"pc{version}",
        N // 256,
        256,
        lambda: (integers(0, 1 << 62, N, dtype=i64).view(i64), zeros(N, dtype=i32), N),
        ladder="popcount",
    )


def silu(kernel, arrays, wide=1):
    return call(
        "silu",
        f"silu_{kernel}",
        N // 256 // wide,
        256,
        lambda: (*(floats(N) for _ in range(arrays)), zeros(N), N),
        ladder=f"silu of {arrays}",
    )


def bilateral(radius):
    return call(
        "bilateral",
        "bilateralFilter",
        (up(2960, 16), up(1440, 16)),
        (16, 16),
        lambda: (positive(1440, 2960), zeros(1440, 2960), 2960, 1440, 0.1, 0.2, 2.0),
        template=(radius,),
    )


def convolution(kernel, shared):
    return call(
        "convolution1D",
        kernel,
        N // 256,
        256,
        lambda: (floats(N), zeros(N), N, 9),
        template=("float",),
        shared=shared,
        ladder="convolution",
    )


def softmax(kernel, per_block):
    return call(
        "softmax",
        kernel,
        up(32768, per_block),
        256,
        lambda: (32768, 784, floats(32768, 784), zeros(32768, 784)),
    )


def upsample(kernel, grid, block):
    return call(
        "upsample",
        kernel,
        grid,
        block,
        lambda: (floats(8 * 16, 256, 256), zeros(8 * 16, 512, 512), 8, 16, 256, 256),
    )


def gelu(kernel):
    return call(
        "gelu",
        kernel,
        (512, 16),
        1024,
        lambda: (floats(16, 512, 4096, dtype=f16), floats(4096, dtype=f16), 4096, 512),
    )


LAUNCHES = [
    stream("mul_kernel", 2),
    stream("triad_kernel", 3),
    stream("nstream_kernel", 3),
    *(popcount(version) for version in (1, 2, 3, 4, 6)),
    silu("forward_kernel", 1),
    silu("forward_kernel2", 1, 4),
    silu("backward_kernel", 2),
    silu("backward_kernel2", 2, 4),
    bilateral(3),
    bilateral(6),
    convolution("conv1d", 0),
    convolution("conv1d_tiled", 4 * (256 + 8)),
    convolution("conv1d_tiled_caching", 4 * 256),
    softmax("softMax", 256),
    softmax("softMax2", 8),
    upsample("upsample_forward_kernel", 8 * 16 * 256 * 256 // 256, 256),
    upsample("upsample_forward_kernel2", (16, 16, 128), (16, 16)),
    gelu("gelu_bias_loop"),
    gelu("gelu_bias_loop_base"),
    call("glu", "glu_kernel", N // 256, 256, lambda: (256, 256, 256, floats(256, 512, 256), zeros(N))),
    call(
        "heat2d",
        "dev_lapl_iter",
        4096 * 4096 // 256,
        256,
        lambda: (zeros(4096, 4096), floats(4096, 4096), 0.1, 0.6, 4096, 4096),
    ),
    call(
        "entropy",
        "entropy",
        (2048 // 16, 2048 // 16),
        (16, 16),
        lambda: (zeros(2048, 2048), integers(0, 16, 2048, 2048, dtype=i8), 2048, 2048),
    ),
    call(
        "haversine",
        "compute_haversine_distance",
        N // 8 // 256,
        256,
        lambda: (floats(N // 8, 4, dtype=f64) * 90, zeros(N // 8, dtype=f64), N // 8),
        file="distance.cu",
    ),
]
