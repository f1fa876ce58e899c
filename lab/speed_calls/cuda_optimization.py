"""CranberryYan/CUDA-Optimization: ReLU and a product of three vectors, with wider loads and without."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "CranberryYan/CUDA-Optimization"
N = 32 << 20


def relu(version, per_block, block):
    return at(f"Elementwise/elementwise_relu_{version}.cu", "relu", ladder="relu")[N // per_block, block](
        lambda: (floats(N), zeros(N))
    )


def dotmul(version, per_block):
    return at(f"Elementwise/elementwise_dotmul_{version}.cu", "dotmul", template=("float",), ladder="dotmul")[
        N // per_block, 512
    ](lambda: (floats(N), floats(N), floats(N), zeros(N)))


LAUNCHES = [
    relu("baseline", 1024, 1024),
    relu("v1", 4 * 1024, 1024),
    relu("v2", 4 * 1024, 1024),
    relu("v3", 1024, 1024),
    dotmul("baseline", 512),
    dotmul("v1", 4 * 512),
]
