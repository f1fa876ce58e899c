"""monish-rgb/CUDA-Development: softmax of rows, by a thread or by a block for each."""

from speed_calls.calls import at, floats, up, zeros

REPOSITORY = "monish-rgb/CUDA-Development"
ROWS, COLUMNS = 8192, 2048


def softmax(file, rows=1):
    return at(file, "softmax", ladder="softmax")[up(ROWS, rows), 256](
        lambda: (floats(ROWS, COLUMNS), zeros(ROWS, COLUMNS), ROWS, COLUMNS)
    )


LAUNCHES = [
    softmax("online_softmax.cuh", 256),
    softmax("shared_softmax.cu"),
    softmax("softmax.cuh"),
    softmax("softmax_naive.cu", 256),
]
