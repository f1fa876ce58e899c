"""edy2310/cuda-softmax-model: softmax of rows."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "edy2310/cuda-softmax-model"
ROWS, COLUMNS = 8192, 1024


def softmax(file, kernel, shared=0):
    named = at(f"kernels/softmax_{file}.cu", f"softmax_{kernel}_kernel", ladder="softmax")
    return named[ROWS, 256, shared](lambda: (floats(ROWS, COLUMNS), zeros(ROWS, COLUMNS), ROWS, COLUMNS))


LAUNCHES = [
    softmax("naive", "naive"),
    softmax("online_pass", "online", 2 * 256 * 4),
    softmax("shared_memory", "shared", (COLUMNS + COLUMNS // 32 + 256) * 4),
    softmax("warp_primitives", "warp"),
]
