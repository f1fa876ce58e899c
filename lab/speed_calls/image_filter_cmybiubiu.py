"""cmybiubiu/367a4: an image scaled to 256 values."""

from speed_calls.calls import at, i32, integers, up, zeros

REPOSITORY = "cmybiubiu/367a4"
WIDTH, HEIGHT = 4096, 4096


def scaled(version, each=1):
    pixels = up(WIDTH * HEIGHT, each)
    return at(f"kernel{version}.cu", f"normalize{version}", ladder="scaling")[up(pixels, 1024), 1024](
        lambda: (
            integers(0, 256, HEIGHT, WIDTH),
            WIDTH,
            HEIGHT,
            zeros(1, dtype=i32),
            zeros(1, dtype=i32) + 255,
        )
    )


LAUNCHES = [scaled(1), scaled(2), scaled(3, WIDTH), scaled(4, 8)]
