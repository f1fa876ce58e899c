"""tim00631/Mandelbrot-with-CUDA: the Mandelbrot set."""

from speed_calls.calls import at, i32, zeros

REPOSITORY = "tim00631/Mandelbrot-with-CUDA"
WIDTH, HEIGHT, ITERATIONS = 3200, 2400, 256


def picture(file, side, *more):
    return at(f"{file}.cu", "mandelKernel", ladder="Mandelbrot set")[
        (WIDTH // side, HEIGHT // side), (side, side)
    ](
        lambda: (
            zeros(HEIGHT, WIDTH, dtype=i32),
            -2.0,
            -1.0,
            3 / WIDTH,
            2 / HEIGHT,
            WIDTH,
            HEIGHT,
            ITERATIONS,
            *more,
        )
    )


LAUNCHES = [
    picture("kernel", 25, 1, 1, 4 * WIDTH),
    picture("kernel1", 16),
    picture("kernel3", 25, 1, 1, 4 * WIDTH),
]
