"""a3102a123/PP_HW5: the Mandelbrot set."""

from speed_calls.calls import at, i32, zeros

REPOSITORY = "a3102a123/PP_HW5"
WIDTH, HEIGHT, ITERATIONS = 3200, 2400, 256


def picture(version, block, width):
    named = at(f"kernel{version}.cu", "mandelKernel", ladder="Mandelbrot set")
    return named[(WIDTH // 32, HEIGHT // 24), block](
        lambda: (-2.0, -1.0, 3 / WIDTH, 2 / HEIGHT, width, ITERATIONS, zeros(HEIGHT, WIDTH, dtype=i32))
    )


LAUNCHES = [picture(1, (32, 24), WIDTH), picture(2, (32, 24), 4 * WIDTH), picture(3, (8, 6), 4 * WIDTH)]
