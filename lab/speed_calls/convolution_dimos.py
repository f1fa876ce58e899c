"""dimos1234/CUDA-2D-Convolution: convolutions of an image of bytes with a filter of nine."""

from speed_calls.calls import at, integers, positive, u8, zeros

REPOSITORY = "dimos1234/CUDA-2D-Convolution"
SIDE = 8192


def convolution(file, kernel):
    return at(f"conv_{file}.cu", f"{kernel}Convolution", ladder="convolution")[(SIDE // 16,) * 2, (16, 16)](
        lambda: (
            integers(0, 256, SIDE, SIDE, dtype=u8),
            zeros(SIDE, SIDE, dtype=u8),
            SIDE,
            SIDE,
            positive(9) / 9,
        )
    )


LAUNCHES = [
    convolution("coalesced", "coalesced"),
    convolution("naive", "naive"),
    convolution("tiled", "tiled"),
    convolution("unrolled", "coalesced"),
]
