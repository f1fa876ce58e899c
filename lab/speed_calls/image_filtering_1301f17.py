"""1301f17/CUDA_image_filtering: an image's scaling to 256 values."""

from speed_calls.calls import at, integers

REPOSITORY = "1301f17/CUDA_image_filtering"
SIDE = 2048


def scaled(version):
    blocks = SIDE // 256 if version == 3 else SIDE * SIDE // 256
    return at(f"kernel{version}.cu", f"normalize{version}", ladder="scaling")[blocks, 256](
        lambda: (integers(0, 256, SIDE, SIDE), SIDE, SIDE, 0, 255, *((1,) if version == 3 else ()))
    )


LAUNCHES = [scaled(version) for version in (1, 2, 3, 4)]
