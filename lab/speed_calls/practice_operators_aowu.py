"""aowuFFFF/PracticeOperators: Gaussian error units, histograms of 256 bins."""

from speed_calls.calls import at, f16, f32, floats, i32, integers, zeros

REPOSITORY = "aowuFFFF/PracticeOperators"
COUNT, BINS, BLOCKS = 1 << 24, 256, 256


def unit(kernel, dtype):
    return at("gelu.cu", f"gelu_{kernel}_kernel", ladder="error unit")[COUNT // 128 // 32, 128](
        lambda: (zeros(COUNT, dtype=dtype), floats(COUNT, dtype=dtype), COUNT)
    )


def histogram(kernel, copies=1, shared=0):
    return at("histogram.cu", kernel, ladder="histogram")[BLOCKS, 256, shared](
        lambda: (integers(0, BINS, COUNT), COUNT, zeros(copies * BINS, dtype=i32), BINS)
    )


LAUNCHES = [
    unit("base", f32),
    unit("vector2", f32),
    unit("vector4", f32),
    unit("half2", f16),
    unit("vector2_half2", f16),
    unit("vector4_half2", f16),
    histogram("histo_kernel"),
    histogram("histo_kernel_2"),
    histogram("histo_privatized_kernel", shared=8 * BINS),
    histogram("histogram_gmem_atomics", BLOCKS),
    histogram("histogram_smem_atomics", BLOCKS),
]
