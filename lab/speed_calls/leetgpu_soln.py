"""bluecoffee8/leetgpu_soln: other solutions of LeetGPU's problems."""

from speed_calls.calls import at, floats, integers, u32, up, zeros

REPOSITORY = "bluecoffee8/leetgpu_soln"
N = 1 << 24


def call(file, kernel, **more):
    return at(f"cuda/{file}.cu", kernel, **more)


def pointwise(file, kernel):
    return call(file, kernel)[N // 256, 256](lambda: (floats(N), zeros(N), N))


def transpose(version, block, template):
    n, tile = 4096, template[0]
    return call(
        "matrix_transpose", f"matrix_transpose_kernel{version}", template=template, ladder="transpose"
    )[(n // tile, n // tile), block](lambda: (floats(n, n), zeros(n * n), n, n))


def matmul(kernel, grid, block, template=None, n=1024):
    return call("matmul", kernel, template=template, ladder="matmul")[grid, block](
        lambda: (floats(n, n), floats(n, n), zeros(n, n), n, n, n)
    )


LAUNCHES = [
    call("vector_addition", "vector_add")[N // 256, 256](lambda: (floats(N), floats(N), zeros(N), N)),
    call("interleave", "interleave_kernel")[N // 256, 256](lambda: (floats(N), floats(N), zeros(2 * N), N)),
    pointwise("leaky_relu", "leaky_relu_kernel"),
    pointwise("relu", "relu_kernel"),
    pointwise("sigmoid", "sigmoid_kernel"),
    pointwise("silu", "silu_kernel"),
    call("geglu", "geglu_kernel")[up(N // 2, 256), 256](lambda: (floats(N), zeros(N // 2), N // 2)),
    call("swiglu", "swiglu_kernel")[up(N // 2, 256), 256](lambda: (floats(N), zeros(N // 2), N // 2)),
    call("reverse_array", "reverse_array")[up(N, 256), 256](lambda: (floats(N), N)),
    call("rainbow_table", "fnv1a_hash_kernel")[up(1 << 20, 256), 256](
        lambda: (integers(0, 1 << 30, 1 << 20), integers(0, 1, 1 << 20).view(u32), 1 << 20, 100)
    ),
    call("conv1d", "convolution_1d_kernel")[up(1 << 22, 256), 256](
        lambda: (floats(1 << 22), floats(31), zeros((1 << 22) - 30), 1 << 22, 31)
    ),
    transpose("_v1", (32, 32), (32,)),
    transpose("_v2", (32, 32), (32,)),
    transpose("_v3", (32, 8), (32, 4)),
    transpose("_v4", (32, 8), (32, 4)),
    matmul("matmul_v1", (64, 64), (16, 16)),
    matmul("matmul_v2", (64, 64), (16, 16), (16,)),
]
