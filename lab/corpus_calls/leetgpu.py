"""Calls of the kernels of lzyrapx/LeetGPU: solutions of LeetGPU's problems."""

import math

import torch
import torch.nn.functional as F

from corpus_calls.calls import at, blocks_of, f16, floats, i8, integers, ints, positive_definite, u8, zeros

REPOSITORY = "lzyrapx/LeetGPU"
FOLDER = "cuda/{0}/{0}.cu"


def fft(x, inverse=False):
    transform = torch.fft.ifft if inverse else torch.fft.fft
    return torch.view_as_real(transform(torch.view_as_complex(x.view(-1, 2)))).flatten()


def times(x, y):
    product = torch.view_as_complex(x.view(-1, 2)) * torch.view_as_complex(y.view(-1, 2))
    return torch.view_as_real(product).flatten()


def chirp(n, sign):
    angle = sign * math.pi * torch.arange(n, dtype=torch.float64) ** 2 / n
    return torch.stack((angle.cos(), angle.sin()), 1).flatten()


def circular_chirp(m, n):
    d = torch.zeros(m, 2, dtype=torch.float64)
    d[:n] = chirp(n, 1).view(n, 2)
    d[m - n + 1 :] = d[1:n].flip(0)
    return d.flatten()


def recurrence(a, x):
    h = x.clone()
    for i in range(1, x.shape[1]):
        h[:, i] += a[:, i] * h[:, i - 1]
    return h


def agents(x):
    position, speed = x[:, :2], x[:, 2:]
    near = ((position[:, None] - position) ** 2).sum(-1) < 25
    near.fill_diagonal_(False)
    count = near.sum(1, keepdim=True)
    mean = near.to(x) @ speed / count.clamp(min=1)
    speed = torch.where(count > 0, speed + 0.05 * (mean - speed), speed)
    return torch.cat((position + speed, speed), 1)


def window_attention(q, k, v, m, d, window):
    near = (torch.arange(m)[:, None] - torch.arange(m)).abs() <= window
    scores = (q @ k.T / d**0.5).masked_fill(~near, -math.inf)
    return scores.softmax(1) @ v


def merged(a, b):
    return torch.cat((a, b)).sort().values


def fnv1a(value, rounds):
    for _ in range(rounds):
        state = 2166136261
        for byte in int(value).to_bytes(4, "little"):
            state = (state ^ byte) * 16777619 % 2**32
        value = state
    return value


def signed(value):
    """An unsigned number of 32 bits in an int32."""
    return value - 2**32 if value >= 2**31 else value


def password_hash(password):
    state = 2166136261
    for byte in password:
        state = (state ^ byte) * 16777619 % 2**32
    return state


def nearest(points):
    distance = torch.cdist(points, points)
    distance.fill_diagonal_(math.inf)
    return distance.argmin(1)


def clusters(x, y, centers_x, centers_y, k):
    label = ((x[:, None] - centers_x) ** 2 + (y[:, None] - centers_y) ** 2).argmin(1)
    one_hot = F.one_hot(label, k).to(x)
    return {2: label, 5: x @ one_hot, 6: y @ one_hot, 7: one_hot.sum(0)}


def quantized(a, b, scale, zero_a, zero_b, zero_c):
    product = (a.double() - zero_a) @ (b.double() - zero_b)
    rounded = torch.sign(product) * torch.floor((product * scale).abs() + 0.5)
    return (rounded + zero_c).clamp(-128, 127)


def butterflied(x, step, size):
    """One step of the Cooley-Tukey transform."""
    pairs = torch.view_as_complex(x.view(-1, 2)).view(-1, 2, step)
    angle = -2 * math.pi * torch.arange(step, dtype=torch.float64) / size
    turned = pairs[:, 1] * torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(torch.stack((pairs[:, 0] + turned, pairs[:, 0] - turned), 1)).flatten()


def bits_reversed(x, bits):
    order = [int(f"{i:0{bits}b}"[::-1], 2) for i in range(1 << bits)]
    return x.view(-1, 2)[order].flatten()


def run(name, kernel, **more):
    """A run of the file that has the folder's name, or of another one in it."""
    file = f"cuda/{name}" if name.endswith(".cu") else FOLDER.format(name)
    return at(file, kernel, **more)


def pointwise(name, kernel, function, grid=4, block=256):
    return run(name, kernel)[grid, block](
        lambda: (floats(1000), zeros(1000), 1000), lambda x, y, n: {1: function(x)}
    )


def scaled(x):
    return x / x.sum(-1, keepdim=True)


LOGISTIC, OLS, LINEAR = "Logistic Regression", "Ordinary Least Squares Regression", "Linear Self-Attention"
FOURIER, ALIBI = "Fast Fourier Transform", "Attention with Linear Biases"

RUNS = [
    run("1D Convolution", "convolution_1d_kernel")[1, 256](
        lambda: (floats(200), floats(7), zeros(194), 200, 7),
        lambda x, k, *_: {2: F.conv1d(x[None, None], k[None, None])},
    ),
    run("2D Convolution", "convolution_kernel")[(3, 2), (16, 16)](
        lambda: (floats(30, 40), floats(3, 5), zeros(28 * 36), 30, 40, 3, 5, 28, 36),
        lambda x, k, *_: {2: F.conv2d(x[None, None], k[None, None])},
    ),
    run("2D Jacobi Stencil", "two_dim_jacobi_kernel")[(2, 2), (16, 16)](
        lambda: (floats(20, 30), zeros(20, 30), 20, 30),
        lambda x, *_: {
            1: torch.cat(
                (
                    x[:1],
                    torch.cat(
                        (
                            x[1:-1, :1],
                            (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) / 4,
                            x[1:-1, -1:],
                        ),
                        1,
                    ),
                    x[-1:],
                )
            )
        },
    ),
    run("2D Max Pooling", "max_pooling_2d")[(1, 1, 6), (16, 16)](
        lambda: (floats(2, 3, 17, 19), zeros(2 * 3 * 9 * 10), 2, 3, 17, 19, 3, 2, 1),
        lambda x, *_: {1: F.max_pool2d(x, 3, 2, 1)},
    ),
    run("2D Subarray Sum", "row_sum_kernel")[7, 256, 1024](
        lambda: (integers(-9, 9, 12, 300), ints(7), 12, 300, 3, 9, 5, 290),
        lambda x, *_: {1: x[3:10, 5:291].sum(1)},
    ),
    run("2D Subarray Sum", "total_sum_kernel")[1, 1024](
        lambda: (integers(-9, 9, 1500), ints(1), 1500), lambda x, *_: {1: x.sum()}
    ),
    run("3D Convolution/3DConvolution.cu", "conv3d_kernel")[(2, 2, 3), (8, 8, 4)](
        lambda: (floats(10, 11, 12), floats(2, 3, 3), zeros(9 * 9 * 10), 10, 11, 12, 2, 3, 3, 9, 9, 10),
        lambda x, k, *_: {2: F.conv3d(x[None, None], k[None, None])},
    ),
    run("3D Subarray Sum", "sum_kernel")[2, 256, 1024](
        lambda: (integers(-9, 9, 6, 10, 12), ints(1), 10, 12, 1, 2, 3, 7 * 8, 8, 4 * 7 * 8),
        lambda x, *_: {1: x[1:5, 2:9, 3:11].sum()},
    ),
    run("All-Pairs Shortest Paths", "floyd_warshall_kernel")[(2, 2), (16, 16)](
        lambda: (floats(20, 20).abs(), 20, 0), lambda x, *_: {0: torch.minimum(x, x[:, :1] + x[:1])}
    ),
    run(ALIBI, "attention_scores_kernel")[(2, 2), (16, 16)](
        lambda: (floats(20, 24), floats(30, 24), zeros(600), 20, 30, 24, 0.25, 0.5),
        lambda q, k, *_: {2: q @ k.T / 4 + (torch.arange(20)[:, None] - torch.arange(30)) / 2},
    ),
    run(ALIBI, "softmax_kernel")[5, 256](lambda: (floats(5, 300), 5, 300), lambda x, *_: {0: x.softmax(1)}),
    run(ALIBI, "output_kernel")[(2, 2), (16, 16)](
        lambda: (floats(20, 30), floats(30, 24), zeros(480), 20, 30, 24), lambda w, v, *_: {2: w @ v}
    ),
    run("BFS Shortest Path", "bfs_kernel")[1, 256](
        lambda: (
            ints(25),
            torch.full((25,), -1, dtype=torch.int32).index_fill_(0, torch.tensor([12]), 0),
            5,
            5,
            torch.tensor([12], dtype=torch.int32),
            1,
            ints(25),
            ints(1),
            0,
        ),
        lambda grid, distances, *_: {
            1: distances.index_fill(0, torch.tensor([7, 11, 13, 17]), 1),
            7: torch.tensor(4),
        },
    ),
    run("Batch Normalization", "compute_means_vars")[7, 256, 1024](
        lambda: (floats(300, 7), zeros(7), zeros(7), 300, 7),
        lambda x, *_: {1: x.mean(0), 2: x.var(0, correction=0)},
        bug="All threads read the mean in sdata[0], and thread 0 overwrites it with no barrier between.",
    ),
    run("Batch Normalization", "batch_normalize")[9, 256](
        lambda: (floats(300, 7), floats(7), floats(7), zeros(2100), floats(7), floats(7).abs(), 300, 7, 1e-3),
        lambda x, g, b, y, mean, variance, *_: {3: F.batch_norm(x, mean, variance, g, b, eps=1e-3)},
    ),
    run("Batched Matrix Multiplication", "batched_matmul_kernel")[3, 256](
        lambda: (floats(3, 10, 12), floats(3, 12, 14), zeros(420), 3, 10, 14, 12), lambda a, b, *_: {2: a @ b}
    ),
    run("Categorical Cross Entropy Loss", "loss_kernel")[2, 256](
        lambda: (floats(300, 10), zeros(300), integers(0, 10, 300), 300, 10),
        lambda x, y, labels, *_: {1: F.cross_entropy(x, labels.long(), reduction="none")},
    ),
    run("Categorical Cross Entropy Loss", "reduce_sum_kernel")[2, 256](
        lambda: (floats(300), zeros(1), 300), lambda x, *_: {1: x.mean()}
    ),
    run("Color Inversion", "invert_kernel")[2, 256](
        lambda: (integers(0, 256, 300, 4, dtype=u8), 20, 15),
        lambda x, *_: {0: torch.cat((255 - x[:, :3], x[:, 3:]), 1)},
    ),
    run("Count 2D Array Element/Count 2D Array Element reduction.cu", "count_2d_equal_kernel")[
        (3, 2), (16, 16)
    ](lambda: (integers(0, 4, 30, 40), ints(1), 30, 40, 2), lambda x, *_: {1: (x == 2).sum()}),
    run("Count 2D Array Element", "count_2d_equal_kernel")[(3, 2), (16, 16)](
        lambda: (integers(0, 4, 30, 40), ints(1), 30, 40, 2), lambda x, *_: {1: (x == 2).sum()}
    ),
    run("Count 3D Array Element", "count_3d_equal_kernel")[(2, 2, 2), (8, 8, 8)](
        lambda: (integers(0, 4, 9, 10, 11), ints(1), 9, 10, 11, 2), lambda x, *_: {1: (x == 2).sum()}
    ),
    run("Count Array Element", "count_equal_kernel")[2, 256, 1024](
        lambda: (integers(0, 4, 900), ints(1), 900, 2), lambda x, *_: {1: (x == 2).sum()}
    ),
    run("Dot Product", "dot_product_kernel")[4, 256, 1024](
        lambda: (floats(1000), floats(1000), zeros(4), 1000),
        lambda a, b, *_: {2: blocks_of(a * b, 256).sum(1)},
    ),
    run("Dot Product", "sum_kernel")[1, 256, 1024](
        lambda: (floats(300), zeros(1), 300), lambda x, *_: {1: x.sum()}
    ),
    run("FP16 Batched Matrix Multiplication", "batched_mat_mul_kernel")[(1, 1, 3), (16, 16)](
        lambda: (
            *(floats(3, 10, 12, dtype=f16), floats(3, 12, 14, dtype=f16), zeros(420, dtype=f16)),
            *(3, 10, 14, 12),
        ),
        lambda a, b, *_: {2: a @ b},
        tolerance=1e-3,
    ),
    run("FP16 Dot Product", "partial_dot_kernel")[2, 1024, 4096](
        lambda: (floats(1500, dtype=f16), floats(1500, dtype=f16), zeros(2), 1500),
        lambda a, b, *_: {2: blocks_of(a * b, 1024).sum(1)},
    ),
    run(FOURIER, "kernel_bit_reverse")[1, 256](
        lambda: (floats(256), zeros(256), 128, 7), lambda x, *_: {1: bits_reversed(x, 7)}
    ),
    run(FOURIER, "kernel_butterfly")[1, 256](
        lambda: (floats(256), zeros(256), 8, 16, 128, False), lambda x, *_: {1: butterflied(x, 8, 16)}
    ),
    run(FOURIER, "kernel_scale")[1, 256](
        lambda: (floats(200), zeros(200), 100, 0.25), lambda x, *_: {1: x / 4}
    ),
    run(FOURIER, "kernel_bluestein_a")[1, 256](
        lambda: (floats(200), zeros(200), 100), lambda x, *_: {1: times(x, chirp(100, -1))}, tolerance=1e-3
    ),
    run(FOURIER, "kernel_bluestein_d")[1, 256](
        lambda: (zeros(512), 256, 100), lambda *_: {0: circular_chirp(256, 100)}, tolerance=1e-3
    ),
    run(FOURIER, "kernel_complex_multiply")[1, 256](
        lambda: (floats(200), floats(200), zeros(200), 100), lambda a, b, *_: {2: times(a, b)}
    ),
    run(FOURIER, "kernel_final_multiply")[1, 256](
        lambda: (floats(200), zeros(200), 100), lambda x, *_: {1: times(x, chirp(100, -1))}, tolerance=1e-3
    ),
    run("Gaussian Blur", "gaussian_blur_kernel")[(3, 2), (16, 16)](
        lambda: (floats(30, 40), floats(3, 5), zeros(1200), 30, 40, 3, 5),
        lambda x, k, *_: {2: F.conv2d(x[None, None], k[None, None], padding=(1, 2))},
    ),
    run("Gaussian Error Gated Linear Unit", "geglu_kernel")[2, 256](
        lambda: (floats(600), zeros(300), 300), lambda x, *_: {1: x[:300] * F.gelu(x[300:])}
    ),
    run("General Matrix Multiplication (GEMM)", "gemm_kernel")[(2, 2), (16, 16)](
        lambda: (
            *(floats(20, 24, dtype=f16), floats(24, 30, dtype=f16), floats(20, 30, dtype=f16)),
            *(20, 30, 24, 0.5, 2.0),
        ),
        lambda a, b, c, *_: {2: a @ b / 2 + 2 * c},
        tolerance=1e-3,
    ),
    run("Histogramming/Histogramming (naive).cu", "histogram_kernel")[4, 256](
        lambda: (integers(0, 10, 1000), ints(10), 1000), lambda x, *_: {1: x.bincount(minlength=10)}
    ),
    run("Histogramming", "histogram_kernel")[2, 256, 1200](
        lambda: (integers(0, 300, 1500), ints(300), 1500, 300), lambda x, *_: {1: x.bincount(minlength=300)}
    ),
    run("INT8 Quantized MatMul", "quantized_matmul_kernel")[(2, 2), (16, 16)](
        lambda: (
            integers(-128, 128, 20, 24, dtype=i8),
            integers(-128, 128, 24, 30, dtype=i8),
            zeros(600, dtype=i8),
            *(20, 30, 24, 0.125, 0.125, 16.0, 3, -2, 5),
        ),
        lambda a, b, *_: {2: quantized(a, b, 2.0**-10, 3, -2, 5)},
    ),
    run("Interleave Arrays/Interleave Arrays (Naive).cu", "interleave_kernel")[4, 256](
        lambda: (floats(1000), floats(1000), zeros(2000), 1000), lambda a, b, *_: {2: torch.stack((a, b), 1)}
    ),
    run("Interleave Arrays/Interleave Arrays (PTX).cu", "interleave_kernel")[4, 256](
        lambda: (floats(1001), floats(1001), zeros(2002), 1001), lambda a, b, *_: {2: torch.stack((a, b), 1)}
    ),
    run("K-Means Clustering/K-Means Clustering (naive).cu", "assign_clusters")[2, 256](
        lambda: (
            floats(300),
            floats(300),
            ints(300),
            floats(5),
            floats(5),
            zeros(5),
            zeros(5),
            ints(5),
            300,
            5,
        ),
        lambda x, y, labels, cx, cy, *_: clusters(x, y, cx, cy, 5),
    ),
    run("K-Means Clustering/K-Means Clustering (naive).cu", "compute_centroids")[1, 5](
        lambda: (floats(5), floats(5), zeros(5), zeros(5), floats(5), floats(5), integers(0, 3, 5), 5),
        lambda ox, oy, nx, ny, sx, sy, n, _: {
            2: torch.where(n > 0, sx / n.clamp(min=1), ox),
            3: torch.where(n > 0, sy / n.clamp(min=1), oy),
        },
    ),
    run("K-Means Clustering/K-Means Clustering (naive).cu", "compute_deltas")[1, 5](
        lambda: (floats(5), floats(5), floats(5), floats(5), zeros(5), 5),
        lambda ox, oy, nx, ny, *_: {4: (nx - ox) ** 2 + (ny - oy) ** 2},
    ),
    pointwise("Leaky ReLU", "leaky_relu_kernel", F.leaky_relu),
    run("Linear Recurrence", "linear_recurrence_kernel")[5, 1](
        lambda: (floats(5, 40), floats(5, 40), zeros(200), 5, 40), lambda a, x, *_: {2: recurrence(a, x)}
    ),
    pointwise(LINEAR, "kernel_phi", lambda x: F.elu(x) + 1),
    run(LINEAR, "kernel_reduce_z")[6, 256](
        lambda: (floats(300, 6), zeros(6), 300, 6), lambda x, *_: {1: x.sum(0)}
    ),
    run(LINEAR, "kernel_compute_S")[(2, 2), (16, 16)](
        lambda: (floats(40, 20), floats(40, 20), zeros(400), 40, 20), lambda k, v, *_: {2: k.T @ v}
    ),
    run(LINEAR, "kernel_compute_numerator")[(3, 2), (16, 16)](
        lambda: (floats(40, 20), floats(20, 20), zeros(800), 40, 20), lambda q, s, *_: {2: q @ s}
    ),
    run(LINEAR, "kernel_compute_denominator")[1, 256](
        lambda: (floats(40, 20), floats(20), zeros(40), 40, 20), lambda q, z, *_: {2: q @ z}
    ),
    run(LINEAR, "kernel_divide")[4, 256](
        lambda: (floats(40, 20), floats(40).abs() + 1, zeros(800), 40, 20),
        lambda x, d, *_: {2: x / d[:, None]},
    ),
    run("LoRA Linear", "transpose_kernel")[(2, 2), (32, 32)](
        lambda: (floats(40, 50), zeros(2000), 40, 50), lambda x, *_: {1: x.T}
    ),
    run("LoRA Linear", "gemm_kernel")[(2, 2), (32, 32)](
        lambda: (floats(40, 50), floats(50, 45), floats(40, 45), 40, 45, 50, 0.5, True),
        lambda a, b, c, *_: {2: c + a @ b / 2},
    ),
    run(LOGISTIC, "mat_vec_mul_kernel")[4, 32](
        lambda: (floats(100, 12), floats(12), zeros(100), 100, 12), lambda x, b, *_: {2: x @ b}
    ),
    pointwise(LOGISTIC, "sigmoid_kernel", torch.sigmoid),
    run(LOGISTIC, "subtract_kernel")[4, 32](
        lambda: (floats(100), floats(100), zeros(100), 100), lambda a, b, *_: {2: a - b}
    ),
    run(LOGISTIC, "compute_grad_part_kernel")[1, 32](
        lambda: (floats(100, 12), floats(100), zeros(12), 100, 12), lambda x, d, *_: {2: d @ x}
    ),
    run(LOGISTIC, "update_grad_kernel")[1, 32](
        lambda: (zeros(12), floats(12), floats(12), 0.5, 0.25, 12), lambda g, t, b, *_: {0: t / 4 + b / 2}
    ),
    pointwise(LOGISTIC, "compute_w_kernel", lambda p: p * (1 - p)),
    run(LOGISTIC, "diag_mul_kernel")[(1, 4), (32, 32)](
        lambda: (floats(100), floats(100, 12), zeros(1200), 100, 12), lambda w, x, *_: {2: w[:, None] * x}
    ),
    run(LOGISTIC, "matrix_multiply_kernel")[(1, 1), (32, 32)](
        lambda: (floats(40, 12), floats(40, 15), zeros(180), 40, 12, 15, 0.5),
        lambda a, b, *_: {2: a.T @ b / 2},
    ),
    run(LOGISTIC, "add_regularization_kernel")[1, 256](
        lambda: (floats(12, 12), 12, 0.5), lambda x, *_: {0: x + 0.5 * torch.eye(12)}
    ),
    run(LOGISTIC, "cholesky_decomp_kernel")[1, 1](
        lambda: (positive_definite(8), zeros(64), 8), lambda a, *_: {1: torch.linalg.cholesky(a)}
    ),
    run(LOGISTIC, "solve_forward_kernel")[1, 1](
        lambda: (torch.linalg.cholesky(positive_definite(8)).contiguous(), floats(8), zeros(8), 8),
        lambda lower, b, *_: {2: torch.linalg.solve(lower, b)},
    ),
    run(LOGISTIC, "solve_backward_kernel")[1, 1](
        lambda: (torch.linalg.cholesky(positive_definite(8)).contiguous(), floats(8), zeros(8), 8),
        lambda lower, b, *_: {2: torch.linalg.solve(lower.T, b)},
    ),
    run(LOGISTIC, "update_beta_kernel")[1, 32](
        lambda: (floats(12), floats(12), 12), lambda b, d, _: {0: b - d}
    ),
    run("Matrix Addition", "matrix_add")[4, 256](
        lambda: (floats(30, 30), floats(30, 30), zeros(900), 30), lambda a, b, *_: {2: a + b}
    ),
    run("Matrix Copy", "copy_matrix_kernel")[4, 256](
        lambda: (floats(30, 30), zeros(900), 30), lambda a, *_: {1: a}
    ),
    run("Matrix Multiplication", "matrix_multiplication_kernel")[(2, 2), (16, 16)](
        lambda: (floats(20, 24), floats(24, 30), zeros(600), 20, 24, 30), lambda a, b, *_: {2: a @ b}
    ),
    run("Matrix Power", "identity_kernel")[(2, 2), (16, 16)](
        lambda: (floats(20, 20), 20), lambda *_: {0: torch.eye(20)}
    ),
    run("Matrix Power", "matrix_multiply_kernel")[(2, 2), (16, 16)](
        lambda: (floats(20, 20), floats(20, 20), zeros(400), 20), lambda a, b, *_: {2: a @ b}
    ),
    run("Matrix Transpose", "matrix_transpose_kernel")[(2, 2), (16, 16)](
        lambda: (floats(20, 30), zeros(600), 20, 30), lambda x, *_: {1: x.T}
    ),
    run("Max Subarray Sum", "sliding_window_kernel")[1, 1](
        lambda: (integers(-9, 9, 100), ints(1), 100, 8), lambda x, *_: {1: x.unfold(0, 8, 1).sum(1).max()}
    ),
    run("Mean Squared Error/Mean Squared Error (naive).cu", "squared_diff_and_reduce")[4, 256, 1024](
        lambda: (floats(1000), floats(1000), zeros(4), 1000),
        lambda a, b, *_: {2: blocks_of((a - b) ** 2, 256).sum(1)},
    ),
    run("Mean Squared Error/Mean Squared Error (naive).cu", "reduce_sum")[4, 256, 1024](
        lambda: (floats(1000), zeros(4), 1000), lambda x, *_: {1: blocks_of(x, 256).sum(1)}
    ),
    run("Mean Squared Error/Mean Squared Error (naive).cu", "compute_mse")[1, 1](
        lambda: (floats(1), zeros(1), 4), lambda x, *_: {1: x / 4}
    ),
    run("Mean Squared Error/Mean Squared Error (optimized).cu", "mean_squared_error")[2, 128](
        lambda: (floats(1000), floats(1000), zeros(1), 1000), lambda a, b, *_: {2: F.mse_loss(a, b)}
    ),
    run("Merge Sorted Arrays", "merge_kernel")[20, 16](
        lambda: (floats(120).sort().values, floats(180).sort().values, zeros(300), 120, 180),
        lambda a, b, *_: {2: merged(a, b)},
    ),
    run("Monte Carlo Integration", "sum_kernel")[3, 256, 1024](
        lambda: (floats(1000), zeros(1), 1000), lambda x, *_: {1: x.sum()}
    ),
    run("Monte Carlo Integration", "result_kernel")[1, 1](
        lambda: (zeros(1), floats(1), 3.0, 10), lambda r, x, *_: {0: x * 0.3}
    ),
    run("Multi-Agent Simulation", "update_agents_kernel")[1, 256](
        lambda: (20 * floats(100, 4), zeros(400), 100), lambda x, *_: {1: agents(x)}
    ),
    run("Multi-Head Attention", "compute_A")[4, 256](
        lambda: (zeros(900), floats(15, 24), floats(15, 24), 15, 24, 4, 6),
        lambda a, q, k, *_: {
            0: q.view(15, 4, 6).transpose(0, 1) @ k.view(15, 4, 6).permute(1, 2, 0) / 6**0.5
        },
    ),
    run("Multi-Head Attention", "compute_softmax")[1, 256](
        lambda: (zeros(900), floats(60, 15), 15, 4), lambda y, x, *_: {0: x.softmax(1)}
    ),
    run("Multi-Head Attention", "compute_O")[2, 256](
        lambda: (zeros(360), floats(4, 15, 15), floats(15, 24), 15, 24, 4, 6),
        lambda o, s, v, *_: {0: (s @ v.view(15, 4, 6).transpose(0, 1)).transpose(0, 1)},
    ),
    run("Nearest Neighbor", "nearest_neighbor_kernel")[1, 256](
        lambda: (floats(100, 3), ints(100), 100), lambda x, *_: {1: nearest(x)}
    ),
    run(OLS, "xtx_kernel")[(1, 1), (16, 16)](
        lambda: (floats(50, 12), zeros(144), 50, 12), lambda x, *_: {1: x.T @ x}
    ),
    run(OLS, "xty_kernel")[1, 256](
        lambda: (floats(50, 12), floats(50), zeros(12), 50, 12), lambda x, y, *_: {2: y @ x}
    ),
    run(OLS, "cholesky_kernel")[1, 12](
        lambda: (positive_definite(12), 12), lambda a, _: {0: torch.linalg.cholesky(a) + a.triu(1)}
    ),
    run(OLS, "forward_substitution_kernel")[1, 12, 48](
        lambda: (torch.linalg.cholesky(positive_definite(12)).contiguous(), floats(12), 12),
        lambda lower, b, _: {1: torch.linalg.solve(lower, b)},
    ),
    run(OLS, "backward_substitution_kernel")[1, 12, 48](
        lambda: (torch.linalg.cholesky(positive_definite(12)).contiguous(), floats(12), zeros(12), 12),
        lambda lower, b, *_: {2: torch.linalg.solve(lower.T, b)},
    ),
    run("Parallel Merge", "merge_kernel")[20, 16](
        lambda: (floats(120).sort().values, floats(180).sort().values, zeros(300), 120, 180),
        lambda a, b, *_: {2: merged(a, b)},
    ),
    run("Password Cracking (FNV-1a)/PasswordCracking.cu", "password_crack_kernel", template=(3,))[26, 676](
        lambda: (password_hash(b"fgn"), 1, zeros(4, dtype=i8)), lambda *_: {2: torch.tensor([*b"fgn", 0])}
    ),
    run("Prefix Sum/PrefixSum.cu", "prefixSum_UniqueBlock")[1, 64, 256](
        lambda: (floats(64), 64, zeros(64)), lambda x, *_: {2: x.cumsum(0)}
    ),
    run("Prefix Sum/PrefixSum.cu", "prefixSum_multiBlocks")[4, 64, 256](
        lambda: (floats(256), 256, zeros(256), zeros(4)),
        lambda x, *_: {2: x.view(4, 64).cumsum(1), 3: x.view(4, 64).sum(1)},
    ),
    run("Prefix Sum/PrefixSum.cu", "prefixsum_combine")[4, 64](
        lambda: (floats(4), 4, floats(250), 250),
        lambda s, n, x, *_: {2: x + F.pad(s, (1, 0))[:4].repeat_interleave(64)[:250]},
    ),
    run("RGB to Grayscale", "rgb_to_grayscale_kernel")[2, 256](
        lambda: (floats(300, 3), zeros(300), 20, 15),
        lambda x, *_: {1: x @ torch.tensor([0.299, 0.587, 0.114], dtype=x.dtype)},
    ),
    run("RMS Normalization", "partial_sum_kernel")[2, 256, 1024](
        lambda: (floats(500), 500, zeros(2)), lambda x, *_: {2: blocks_of(x * x, 256).sum(1)}
    ),
    run("RMS Normalization", "normalize_kernel")[2, 256](
        lambda: (floats(500), 2.0, 0.5, 4.0, zeros(500), 500), lambda x, *_: {4: x / 2 + 0.5}
    ),
    run("Rainbow Table", "fnv1a_hash_kernel")[1, 256](
        lambda: (integers(0, 1 << 30, 100), zeros(100, dtype=torch.uint32), 100, 3),
        lambda x, *_: {1: torch.tensor([fnv1a(v, 3) for v in x.tolist()])},
    ),
    pointwise("ReLU", "relu_kernel", torch.relu),
    run("Reduction", "reduction_kernel")[2, 1024, 4096](
        lambda: (floats(3000), zeros(1), 3000), lambda x, *_: {1: x.sum()}
    ),
    run("Reverse Array", "reverse_array")[2, 256](lambda: (floats(301), 301), lambda x, _: {0: x.flip(0)}),
    run("Rotary Positional Embedding", "rope_kernel")[2, 256](
        lambda: (floats(10, 32), floats(10, 32), floats(10, 32), zeros(320), 10, 32),
        lambda q, c, s, *_: {3: q * c + torch.cat((-q[:, 16:], q[:, :16]), 1) * s},
    ),
    pointwise("Sigmoid Activation", "sigmoid_kernel", torch.sigmoid),
    pointwise("Sigmoid Linear Unit", "sigmoid_kernel", F.silu),
    run("Sliding Window Self-Attention", "sliding_window_attention_kernel")[1, 256](
        lambda: (floats(60, 16), floats(60, 16), floats(60, 16), zeros(960), 60, 16, 8),
        lambda q, k, v, *_: {3: window_attention(q, k, v, 60, 16, 8)},
    ),
    run("Softmax", "softmax_kernel")[1, 256](
        lambda: (floats(1001), zeros(1001), 1001),
        lambda x, *_: {1: x.softmax(0)},
        bug="All threads read the maximum in shared_mem[0]; thread 0 overwrites it with no barrier between.",
    ),
    run("Softmax Attention/Softmax Attention (naive).cu", "qkt_kernel")[(2, 2), (16, 16)](
        lambda: (floats(20, 16), floats(30, 16), zeros(600), 20, 30, 16), lambda q, k, *_: {2: q @ k.T / 4}
    ),
    run("Softmax Attention/Softmax Attention (naive).cu", "softmax_kernel")[20, 256](
        lambda: (floats(20, 30), zeros(600), 20, 30), lambda x, *_: {1: x.softmax(1)}
    ),
    run("Softmax Attention/Softmax Attention (naive).cu", "pv_kernel")[(2, 1), (16, 16)](
        lambda: (floats(20, 30), floats(30, 16), zeros(320), 20, 30, 16), lambda p, v, *_: {2: p @ v}
    ),
    run("Sparse Matrix-Vector Multiplication/SparseMatrix-VectorMultiplication.cu", "spmv_kernel")[1, 256](
        lambda: (floats(40, 50).relu(), floats(50), zeros(40), 40, 50), lambda a, x, *_: {2: a @ x}
    ),
    run("Subarray Sum", "subarray_sum_kernel")[4, 256, 1024](
        lambda: (integers(-9, 9, 1000), ints(1), 1000, 100, 900), lambda x, *_: {1: x[100:901].sum()}
    ),
    run("Swish-Gated Linear Unit", "swiglu_kernel")[2, 256](
        lambda: (floats(600), zeros(300), 300), lambda x, *_: {1: F.silu(x[:300]) * x[300:]}
    ),
    run("Value Clipping", "clip_kernel")[2, 256](
        lambda: (floats(500), zeros(500), -0.5, 0.25, 500), lambda x, *_: {1: x.clamp(-0.5, 0.25)}
    ),
    run("Vector Addition", "vector_add")[4, 256](
        lambda: (floats(1000), floats(1000), zeros(1000), 1000), lambda a, b, *_: {2: a + b}
    ),
    run("Weight Dequantization", "dequantize_kernel")[(3, 2), (16, 16)](
        lambda: (30, 40, 16, floats(30, 40), floats(2, 3), zeros(1200)),
        lambda m, n, t, x, s, y: {5: x * s.repeat_interleave(16, 0)[:30].repeat_interleave(16, 1)[:, :40]},
    ),
]
