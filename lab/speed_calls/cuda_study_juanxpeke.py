"""Juanxpeke/CUDA-Study: products, by an element, a row, and a row in local memory for each thread."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "Juanxpeke/CUDA-Study"
N = 256


def product(file, grid, block):
    return at(f"cuda-mat-mul/{file}-approach/mat_mul.cu", "matMul", ladder="product")[grid, block](
        lambda: (N, floats(N, N), floats(N, N), zeros(N, N))
    )


LAUNCHES = [
    product("fourth", 1, 256),
    product("second", (N // 16, N // 16), (16, 16)),
    product("third", 1, 256),
]
