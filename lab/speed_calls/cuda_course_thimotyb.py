"""thimotyb/cuda-course: two matrices are added, along their columns and along their rows."""

from speed_calls.calls import at, i32, integers, zeros

REPOSITORY = "thimotyb/cuda-course"
N = 4096


def addition(version):
    file = "examples/ch02/array_add_on_device/array_add_on_device.cu"
    return at(file, f"add_v{version}", ladder="addition")[(N // 16, N // 16), (16, 16)](
        lambda: (integers(0, 99, N, N), integers(0, 99, N, N), zeros(N, N, dtype=i32), N, N)
    )


LAUNCHES = [addition(1), addition(2)]
