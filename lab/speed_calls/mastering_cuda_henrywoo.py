"""henrywoo/mastering-cuda-in-one-week-dev: a number added to images."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "henrywoo/mastering-cuda-in-one-week-dev"
IMAGES, CHANNELS, HEIGHT, WIDTH = 8, 32, 224, 224
SIZE = IMAGES * CHANNELS * HEIGHT * WIDTH


def added(axes, grid, block):
    return at(f"day1/add_bias_nchw_{axes}d.cu", f"add_bias_nchw_{axes}d", ladder="bias")[grid, block](
        lambda: (floats(SIZE), zeros(SIZE), IMAGES, CHANNELS, HEIGHT, WIDTH, 0.5)
    )


LAUNCHES = [
    added(1, SIZE // 256, 256),
    added(2, (WIDTH // 16, HEIGHT // 16), (16, 16)),
    added(3, (WIDTH // 8, HEIGHT // 8, CHANNELS // 4), (8, 8, 4)),
]
