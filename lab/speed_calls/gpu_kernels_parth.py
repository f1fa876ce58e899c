"""Parth-Badgujar/gpu-kernels: norms of layers. Those with copies in the background the simulator refuses."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "Parth-Badgujar/gpu-kernels"
ROWS, CHANNELS, SIDE = 4096, 64, 8
WIDTH = CHANNELS * SIDE * SIDE


def norm(file, kernel, grid, threads, *more):
    def arguments():
        tensors = (zeros(ROWS, WIDTH), floats(ROWS, WIDTH), floats(WIDTH), floats(WIDTH))
        return (*tensors, ROWS, CHANNELS, SIDE, SIDE, WIDTH, *(make() for make in more))

    return at(f"layer_norm/src/{file}.cu", kernel, template=(threads,), ladder="norm")[grid, threads](
        arguments
    )


LAUNCHES = [
    norm("layer_norm_simple", "_layer_norm_simple", ROWS, 1024),
    norm("layer_norm_simple", "_layer_norm_simple", ROWS, 256),
    norm(
        "layer_norm_simple_persistant",
        "_persistant_layer_norm",
        70,
        1024,
        lambda: zeros(ROWS),
        lambda: zeros(ROWS),
    ),
]
