"""40623128/Cuda-Practice: sums of blocks in three types."""

from speed_calls.calls import at, f32, f64, floats, i32, zeros

REPOSITORY = "40623128/Cuda-Practice"
N = 1 << 23


def total(name, dtype, number):
    each = 256 if number == 4 else 128
    return at(f"CUDA/Reduction/reduction_{name}.cu", f"kernel{number}", ladder=f"sum, {name}")[
        N // each, 128
    ](lambda: ((9 * floats(N)).to(dtype), zeros(N // each, dtype=dtype), N))


LAUNCHES = [
    total(name, dtype, number)
    for name, dtype in (("double", f64), ("float", f32), ("int", i32))
    for number in (1, 2, 3, 4)
]
