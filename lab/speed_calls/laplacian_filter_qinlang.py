"""qinlang3/LaplacianFilter: an image filtered with 25 weights, and scaled to 256 values."""

from speed_calls.calls import at, i8, i32, integers, up, zeros

REPOSITORY = "qinlang3/LaplacianFilter"
WIDTH, HEIGHT = 2048, 2048


def grid(version):
    return up(WIDTH * HEIGHT, 512 if version < 3 else 512 * 16)


def filtered(version):
    return at(f"kernel{version}.cu", f"kernel{version}", ladder="filter")[grid(version), 512](
        lambda: (
            integers(-4, 5, 5, 5, dtype=i8),
            5,
            integers(0, 256, HEIGHT, WIDTH),
            zeros(HEIGHT, WIDTH, dtype=i32),
            WIDTH,
            HEIGHT,
        )
    )


def scaled(version):
    return at(f"kernel{version}.cu", f"normalize{version}", ladder="scaling")[grid(version), 512](
        lambda: (
            integers(0, 256, HEIGHT, WIDTH),
            WIDTH,
            HEIGHT,
            zeros(1, dtype=i32),
            zeros(1, dtype=i32) + 255,
        )
    )


LAUNCHES = [*(filtered(version) for version in (1, 2, 3, 4)), *(scaled(version) for version in (1, 2, 3, 4))]
