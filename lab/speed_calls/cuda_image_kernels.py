"""jvnguyen/cuda-image-kernels: functions of an image's bytes."""

from speed_calls.calls import at, integers, u8, zeros

REPOSITORY = "jvnguyen/cuda-image-kernels"
SIDE = 8192


def image(name, *more, read=1, written=1):
    return at(f"src/{name}.cuh", f"{name}Kernel", template=("unsigned char", "unsigned char"))[
        (SIDE // 16, SIDE // 16), (16, 16)
    ](
        lambda: (
            integers(0, 256, read * SIDE * SIDE, dtype=u8),
            zeros(written * SIDE * SIDE, dtype=u8),
            *more,
            SIDE,
            SIDE,
        )
    )


LAUNCHES = [
    image("invert"),
    image("threshold", 0.5),
    image("brightness", 1.5),
    image("gamma", 2.2),
    image("greyscale", read=4),
    image("channel", 1, read=4),
    image("reorder", 2, 1, 0, 3, read=4, written=4),
]
