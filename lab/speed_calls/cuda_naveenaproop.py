"""naveenaproop/CUDA: convolutions of one dimension. Nobody writes the mask in constant memory."""

from speed_calls.calls import at, i32, integers, zeros

REPOSITORY = "naveenaproop/CUDA"
COUNT, RADIUS = 1 << 24, 3


def convolution(kernel, *mask):
    def arguments():
        given = (integers(-9, 9, mask[0]), mask[0]) if mask else ()
        return integers(-9, 9, COUNT + 256 + RADIUS), COUNT, *given, zeros(COUNT, dtype=i32)

    return at("convolution1d.cu", f"convolution1d{kernel}", ladder="convolution")[COUNT // 256, 256](
        arguments
    )


LAUNCHES = [convolution("", 2 * RADIUS + 1), convolution("ConstMem"), convolution("SharedMem")]
