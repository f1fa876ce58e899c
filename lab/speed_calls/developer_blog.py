"""NVIDIA-developer-blog/code-samples: kernels of articles."""

from speed_calls.calls import at, f16, f64, floats, up, zeros

REPOSITORY = "NVIDIA-developer-blog/code-samples"
N = 1 << 24


def lstm(kernel, arguments):
    return at("posts/rnn/LSTM.cu", kernel)[N // 256, 256](arguments)


def reading(kernel):
    return at(
        "posts/unified-memory-oversubscription/uvm_oversubs.cu", kernel, template=("float",), ladder="read"
    )[1056, 256](lambda: (floats(1 << 26), 4 << 26))


def strided(kernel, s, n=1 << 22):
    return at(
        "series/cuda-cpp/coalescing-global/coalescing.cu", kernel, template=("float",), ladder="stride"
    )[n // 256, 256](lambda: (floats(33 * n), s))


LAUNCHES = [
    at("posts/grcuda/kernel/saxpy.cu", "saxpy")[N // 256, 256](lambda: (N, 2.0, floats(N), floats(N))),
    at("posts/mixed-precision/haxpy.cu", "haxpy")[1056, 256](
        lambda: (1 << 26, 2.0, floats(1 << 26, dtype=f16), floats(1 << 26, dtype=f16))
    ),
    at("posts/nvtx/manual_nvtx.cu", "daxpy_kernel")[N // 256, 256](
        lambda: (N, 2.0, floats(N, dtype=f64), floats(N, dtype=f64))
    ),
    at("posts/nvml/matrixMul.cu", "matrixMulCUDA", template=(16,), ladder="matmul")[(64, 64), (16, 16)](
        lambda: (zeros(1024, 1024), floats(1024, 1024), floats(1024, 1024), 1024, 1024)
    ),
    at("posts/nvml/matrixMul.cu", "matrixMulCUDA", template=(32,), ladder="matmul")[(32, 32), (32, 32)](
        lambda: (zeros(1024, 1024), floats(1024, 1024), floats(1024, 1024), 1024, 1024)
    ),
    lstm("pw_biasAdd", lambda: (floats(N), floats(4096), N, 4096)),
    lstm("pw_vecAdd", lambda: (zeros(N), floats(N), floats(N), N)),
    lstm("pw_vecMul", lambda: (zeros(N), floats(N), floats(N), N)),
    lstm("pw_tanh", lambda: (zeros(N), floats(N), N)),
    lstm("pw_sigmoid", lambda: (zeros(N), floats(N), N)),
    reading("read_thread"),
    reading("read_thread_blockCont"),
    strided("offset", 1),
    strided("stride", 1),
    strided("stride", 2),
    strided("stride", 8),
    strided("stride", 32),
    at("posts/tensor-cores/simpleTensorCoreGEMM.cu", "convertFp32ToFp16")[up(N, 256), 256](
        lambda: (zeros(N, dtype=f16), floats(N), N)
    ),
]
