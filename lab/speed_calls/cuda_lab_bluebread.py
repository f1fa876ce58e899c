"""bluebread/cuda_lab: a vector scaled and added to another."""

from speed_calls.calls import at, floats

REPOSITORY = "bluebread/cuda_lab"
COUNT = 30_000_007


def scaled(version, blocks):
    return at("src/axpy.cu", f"axpy_d_v{version}", template=("float",), ladder="scaled vector")[blocks, 256](
        lambda: (COUNT, 0.5, floats(COUNT), floats(COUNT))
    )


LAUNCHES = [scaled(0, -(-COUNT // 256)), scaled(1, 1001), scaled(2, 1001)]
