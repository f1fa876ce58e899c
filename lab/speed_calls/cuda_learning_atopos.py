"""Atopos0313/cuda_learning: a vector scaled and added to another."""

from speed_calls.calls import at, floats

REPOSITORY = "Atopos0313/cuda_learning"
COUNT = 1 << 24


def scaled(name, blocks):
    return at("kernels/memory_access.cu", f"axpy_{name}_kernel", ladder="scaled vector")[blocks, 256](
        lambda: (floats(COUNT), floats(COUNT), COUNT, 0.5)
    )


LAUNCHES = [
    scaled("contiguous", COUNT // 256),
    scaled("strided", COUNT // 256),
    scaled("float4", 4096),
]
