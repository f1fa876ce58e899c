"""Parth-Badgujar/gpu-kernels: norms of layers, of one block each, with copies in the background or not."""

from speed_calls.calls import Timed, floats, zeros

REPOSITORY = "Parth-Badgujar/gpu-kernels"
ROWS, CHANNELS, SIDE = 4096, 64, 8
WIDTH = CHANNELS * SIDE * SIDE


def norm(file, kernel, grid, threads, *more, template=None, shared=0):
    def arguments():
        tensors = (zeros(ROWS, WIDTH), floats(ROWS, WIDTH), floats(WIDTH), floats(WIDTH))
        return (*tensors, ROWS, CHANNELS, SIDE, SIDE, WIDTH, *(make() for make in more))

    return Timed(
        f"layer_norm/src/{file}.cu",
        kernel,
        grid,
        threads,
        arguments,
        template=template or (threads,),
        shared=shared,
        ladder="norm",
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
    norm("layer_norm_wellford_async", "_layer_norm_wellford", ROWS, 1024),
    norm(
        "layer_norm_simple_async",
        "_layer_norm_simple_async",
        ROWS,
        512,
        template=(512, 4),
        shared=2 * 4 * 512 * 3 * 4,
    ),
]
