"""karta134033/CUDA_programming: the Mandelbrot set."""

from speed_calls.calls import at, i32, zeros

REPOSITORY = "karta134033/CUDA_programming"
WIDTH, HEIGHT, ITERATIONS = 1600, 1216, 256


def picture(version, side):
    named = at(f"kernel{version}.cu", "mandelKernel", ladder="Mandelbrot set")
    return named[(WIDTH // side, HEIGHT // side), (side, side)](
        lambda: (1.0, 1.0, -2.0, -1.0, zeros(HEIGHT, WIDTH, dtype=i32), WIDTH, HEIGHT, ITERATIONS)
    )


LAUNCHES = [picture(1, 32), picture(3, 32), picture(4, 8)]
