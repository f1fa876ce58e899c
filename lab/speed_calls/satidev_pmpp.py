"""satidev/pmpp_cuda: convolutions, histograms of two bins and transposes, version by version."""

import torch

from speed_calls.calls import at, floats, integers, u32, up, zeros

REPOSITORY = "satidev/pmpp_cuda"
N = 1 << 24
RADIUS = 8
TILE = 768
COUNTED = 1 << 22
SIDE = 4096


def convolution(kernel, grid, block, has_filter, shared=0):
    weights = (lambda: (floats(2 * RADIUS + 1),)) if has_filter else tuple
    return at("pmpp/07_convolution/conv_1d.cu", kernel, ladder="convolution")[grid, block, shared](
        lambda: (floats(N), *weights(), zeros(N), N, RADIUS)
    )


def histogram(kernel, blocks, *more, copies=1, shared=8):
    return at("pmpp/09_histogram/histogram.cu", kernel, ladder="histogram")[blocks, 256, shared](
        lambda: (
            integers(0, 2, COUNTED, dtype=torch.uint16),
            zeros(2 * copies, dtype=u32),
            COUNTED,
            *more,
        )
    )


def transpose(file, kernel):
    return at(f"bpnv/mat_transpose/trans_impl_{file}.cuh", kernel, template=("float",), ladder="transpose")[
        (SIDE // 16, SIDE // 16), (16, 16)
    ](lambda: (floats(SIDE, SIDE), zeros(SIDE, SIDE), SIDE, SIDE))


BLOCKS = COUNTED // 256
LAUNCHES = [
    convolution("conv_kern_1d", N // 256, 256, True),
    convolution("conv_kern_1d_const_mem", N // 256, 256, False),
    convolution("conv_kern_1d_sm", up(N, TILE - 2 * RADIUS), TILE, True, 4 * TILE),
    convolution("conv_kern_1d_const_mem_sm", up(N, TILE), TILE, False, 4 * TILE),
    histogram("hist_kern", BLOCKS, shared=0),
    histogram("hist_kern_privat", BLOCKS, 2, copies=BLOCKS, shared=0),
    histogram("hist_kern_privat_sm", BLOCKS, 2),
    histogram("hist_kern_privat_sm_coarse_contig", BLOCKS // 16, 2, 16),
    histogram("hist_kern_privat_sm_coarse_interleaved", BLOCKS // 16, 2),
    transpose("naive", "transNaiveKernel"),
    transpose("sm", "transSMKernel"),
    transpose("sm_padding", "transSMPaddedKernel"),
    transpose("sm_swizzling", "transSMSwizzlingKernel"),
]
