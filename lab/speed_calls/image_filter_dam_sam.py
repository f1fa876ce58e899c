"""Dam-Sam/CUDA-image-filter: filters with the least and the greatest value, and scaling to 256 values."""

from speed_calls.calls import at, i8, i32, integers, up, zeros

REPOSITORY = "Dam-Sam/CUDA-image-filter"
WIDTH, HEIGHT, FILTER = 2048, 2048, 9


def grid(version):
    return up(HEIGHT if version == 3 else WIDTH * HEIGHT, 256)


def filtered(version):
    blocks = grid(version)
    return at(f"kernel{version}.cu", f"kernel{version}", ladder="filter")[blocks, 256](
        lambda: (
            *(() if version == 5 else (integers(-4, 5, FILTER, FILTER, dtype=i8),)),
            FILTER,
            integers(0, 256, HEIGHT, WIDTH),
            *(zeros(size, dtype=i32) for size in (HEIGHT * WIDTH, blocks, blocks)),
            WIDTH,
            HEIGHT,
        )
    )


def scaled(version):
    return at(f"kernel{version}.cu", f"normalize{version}", ladder="scaling")[grid(version), 256](
        lambda: (integers(0, 256, HEIGHT, WIDTH), WIDTH, HEIGHT, 0, 255)
    )


LAUNCHES = [
    *(filtered(version) for version in (1, 2, 3, 4, 5)),
    *(scaled(version) for version in (1, 2, 3, 4, 5)),
]
