"""lzyrapx/LeetGPU: solutions of LeetGPU's problems, one kernel for each."""

from speed_calls.calls import at, f16, floats, i8, integers, positive, u8, u32, up, zeros

REPOSITORY = "lzyrapx/LeetGPU"
N = 1 << 24


def call(name, kernel, **more):
    file = f"cuda/{name}" if name.endswith(".cu") else f"cuda/{name}/{name}.cu"
    return at(file, kernel, **more)


def pointwise(name, kernel, *more):
    return call(name, kernel)[N // 256, 256](lambda: (floats(N), zeros(N), *more, N))


def product(name, kernel, m, n, k, dtype=None):
    kind = {} if dtype is None else {"dtype": dtype}
    return call(name, kernel, ladder=name)[(up(k, 16), up(m, 16)), (16, 16)](
        lambda: (floats(m, n, **kind), floats(n, k, **kind), zeros(m, k, **kind), m, n, k)
    )


LOGISTIC, OLS, LINEAR = "Logistic Regression", "Ordinary Least Squares Regression", "Linear Self-Attention"
FOURIER, ALIBI = "Fast Fourier Transform", "Attention with Linear Biases"
LAUNCHES = [
    call("1D Convolution", "convolution_1d_kernel")[up(1 << 22, 256), 256](
        lambda: (floats(1 << 22), floats(31), zeros((1 << 22) - 30), 1 << 22, 31)
    ),
    call("2D Convolution", "convolution_kernel")[(up(2042, 16), up(2042, 16)), (16, 16)](
        lambda: (floats(2048, 2048), floats(7, 7), zeros(2042 * 2042), 2048, 2048, 7, 7, 2042, 2042)
    ),
    call("2D Jacobi Stencil", "two_dim_jacobi_kernel")[(up(6000, 16), up(5000, 16)), (16, 16)](
        lambda: (floats(5000, 6000), zeros(5000, 6000), 5000, 6000)
    ),
    call("2D Max Pooling", "max_pooling_2d")[(up(112, 16), up(112, 16), 512), (16, 16)](
        lambda: (floats(8, 64, 224, 224), zeros(8 * 64 * 112 * 112), 8, 64, 224, 224, 3, 2, 1)
    ),
    call("3D Convolution/3DConvolution.cu", "conv3d_kernel")[(up(124, 8), up(124, 8), up(124, 4)), (8, 8, 4)](
        lambda: (
            *(floats(126, 126, 126), floats(3, 3, 3), zeros(124 * 124 * 124)),
            *(126, 126, 126, 3, 3, 3, 124, 124, 124),
        )
    ),
    call("All-Pairs Shortest Paths", "floyd_warshall_kernel")[(256, 256), (16, 16)](
        lambda: (positive(4096, 4096), 4096, 0)
    ),
    call(ALIBI, "attention_scores_kernel")[(128, 128), (16, 16)](
        lambda: (floats(2048, 128), floats(2048, 128), zeros(2048 * 2048), 2048, 2048, 128, 0.25, 0.5)
    ),
    call(ALIBI, "softmax_kernel")[4000, 256](lambda: (floats(4000, 3000), 4000, 3000)),
    call(ALIBI, "output_kernel")[(8, 128), (16, 16)](
        lambda: (floats(2048, 2048), floats(2048, 128), zeros(2048 * 128), 2048, 2048, 128)
    ),
    call("Batch Normalization", "batch_normalize")[up(20000 * 512, 256), 256](
        lambda: (
            *(floats(20000, 512), floats(512), floats(512), zeros(20000 * 512), floats(512), positive(512)),
            *(20000, 512, 1e-3),
        )
    ),
    call("Categorical Cross Entropy Loss", "loss_kernel")[up(100000, 256), 256](
        lambda: (floats(100000, 100), zeros(100000), integers(0, 100, 100000), 100000, 100)
    ),
    call("Color Inversion", "invert_kernel")[up(6000 * 4000, 256), 256](
        lambda: (integers(0, 256, 6000 * 4000, 4, dtype=u8), 6000, 4000)
    ),
    call("Count 2D Array Element", "count_2d_equal_kernel", ladder="count")[
        (up(4000, 16), up(3000, 16)), (16, 16)
    ](lambda: (integers(0, 400, 3000, 4000), integers(0, 1, 1), 3000, 4000, 2)),
    call(
        "Count 2D Array Element/Count 2D Array Element reduction.cu", "count_2d_equal_kernel", ladder="count"
    )[(up(4000, 16), up(3000, 16)), (16, 16)](
        lambda: (integers(0, 400, 3000, 4000), integers(0, 1, 1), 3000, 4000, 2)
    ),
    call(FOURIER, "kernel_butterfly")[up(1 << 22, 256), 256](
        lambda: (floats(1 << 23), zeros(1 << 23), 1 << 10, 1 << 11, 1 << 22, False)
    ),
    call("Gaussian Blur", "gaussian_blur_kernel")[(up(2000, 16), up(2000, 16)), (16, 16)](
        lambda: (floats(2000, 2000), floats(5, 5), zeros(2000, 2000), 2000, 2000, 5, 5)
    ),
    call("Gaussian Error Gated Linear Unit", "geglu_kernel")[up(N // 2, 256), 256](
        lambda: (floats(N), zeros(N // 2), N // 2)
    ),
    call("INT8 Quantized MatMul", "quantized_matmul_kernel")[(64, 64), (16, 16)](
        lambda: (
            *(integers(-128, 128, 1024, 1024, dtype=i8), integers(-128, 128, 1024, 1024, dtype=i8)),
            *(integers(0, 1, 1024, 1024, dtype=i8), 1024, 1024, 1024, 0.1, 0.2, 50.0, 3, 5, 7),
        )
    ),
    call("Interleave Arrays/Interleave Arrays (Naive).cu", "interleave_kernel")[N // 256, 256](
        lambda: (floats(N), floats(N), zeros(2 * N), N)
    ),
    pointwise("Leaky ReLU", "leaky_relu_kernel"),
    call(LINEAR, "kernel_phi")[up(N, 256), 256](lambda: (floats(N), zeros(N), N)),
    product("Matrix Multiplication", "matrix_multiplication_kernel", 1500, 1000, 2000),
    call("Matrix Transpose", "matrix_transpose_kernel")[(up(5000, 16), up(4000, 16)), (16, 16)](
        lambda: (floats(4000, 5000), zeros(4000 * 5000), 4000, 5000)
    ),
    call("Nearest Neighbor", "nearest_neighbor_kernel")[up(20000, 256), 256](
        lambda: (floats(20000, 3), integers(0, 1, 20000), 20000)
    ),
    call("Rainbow Table", "fnv1a_hash_kernel")[up(1 << 20, 256), 256](
        lambda: (integers(0, 1 << 30, 1 << 20), integers(0, 1, 1 << 20).view(u32), 1 << 20, 100)
    ),
    pointwise("ReLU", "relu_kernel"),
    call("Reverse Array", "reverse_array")[up(N, 256), 256](lambda: (floats(N), N)),
    pointwise("Sigmoid Activation", "sigmoid_kernel"),
    call("Softmax Attention/Softmax Attention (naive).cu", "qkt_kernel")[(128, 128), (16, 16)](
        lambda: (floats(2048, 64), floats(2048, 64), zeros(2048 * 2048), 2048, 2048, 64)
    ),
    call("Sparse Matrix-Vector Multiplication/SparseMatrix-VectorMultiplication.cu", "spmv_kernel")[
        up(8000, 256), 256
    ](lambda: (floats(8000, 4000), floats(4000), zeros(8000), 8000, 4000)),
    call("Swish-Gated Linear Unit", "swiglu_kernel")[up(N // 2, 256), 256](
        lambda: (floats(N), zeros(N // 2), N // 2)
    ),
    pointwise("Value Clipping", "clip_kernel", -0.5, 0.5),
    call("Vector Addition", "vector_add")[N // 256, 256](lambda: (floats(N), floats(N), zeros(N), N)),
    call("FP16 Batched Matrix Multiplication", "batched_mat_mul_kernel")[(32, 32, 8), (16, 16)](
        lambda: (
            *(floats(8, 512, 512, dtype=f16), floats(8, 512, 512, dtype=f16)),
            *(zeros(8, 512, 512, dtype=f16), 8, 512, 512, 512),
        )
    ),
    call("Multi-Agent Simulation", "update_agents_kernel")[up(10000, 256), 256](
        lambda: (100 * floats(10000, 4), zeros(10000, 4), 10000)
    ),
]
