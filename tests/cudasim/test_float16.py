"""Floats of 16 bits round once: conversions at every tie and beside it, and operations."""

import numpy

import cudasim

CONVERSIONS = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
__global__ void convert(const double *x, unsigned short *half, unsigned short *bfloat, float *back, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    half[i] = __half_as_ushort(__double2half(x[i]));
    bfloat[i] = __bfloat16_as_ushort(__double2bfloat16(x[i]));
    back[i] = __half2float(__ushort_as_half(half[i]));
}
"""

OPERATIONS = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <typename T> __device__ void compute(T *y, T a, T b) {
    y[0] = a + b;
    y[1] = a - b;
    y[2] = a * b;
    y[3] = a / b;
}
__global__ void of_halves(unsigned short *y, const unsigned short *a, const unsigned short *b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    compute((__half *)y + 4 * i, __ushort_as_half(a[i]), __ushort_as_half(b[i]));
}
__global__ void of_bfloats(unsigned short *y, const unsigned short *a, const unsigned short *b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    compute((__nv_bfloat16 *)y + 4 * i, __ushort_as_bfloat16(a[i]), __ushort_as_bfloat16(b[i]));
}
"""


def doubles_of_halves(bits: numpy.ndarray) -> numpy.ndarray:
    return bits.astype(numpy.uint16).view(numpy.float16).astype(numpy.float64)


def doubles_of_bfloats(bits: numpy.ndarray) -> numpy.ndarray:
    with numpy.errstate(invalid="ignore"):  # some bits are no numbers
        return (bits.astype(numpy.int32) << 16).view(numpy.float32).astype(numpy.float64)


def around(values: numpy.ndarray) -> numpy.ndarray:
    """The values, the middles of neighbours, and doubles on both sides of each."""
    ties = numpy.concatenate([values, (values[1:] + values[:-1]) / 2])
    return numpy.concatenate(
        [ties, numpy.nextafter(ties, 2), numpy.nextafter(ties, -2), ties * (1 + 2.0**-30)]
    )


def assert_rounded(bits: numpy.ndarray, x: numpy.ndarray, doubles):
    """No neighbour is nearer to x, and of two that are as near the even one is taken."""
    below, at, above = (doubles(bits.astype(numpy.int32) + step) for step in (-1, 0, 1))
    assert numpy.isnan(at[numpy.isnan(x)]).all()
    tried = numpy.isfinite(below) & numpy.isfinite(above) & (at != 0) & ~numpy.isnan(x)
    assert tried.sum() > x.size / 2
    bits, below, at, above, x = (of[tried] for of in (bits, below, at, above, x))
    nearest = numpy.minimum(abs(below - x), abs(above - x))
    assert (abs(at - x) <= nearest).all()
    assert (bits[abs(at - x) == nearest] % 2 == 0).all()


def test_a_double_is_rounded_once():
    halves = doubles_of_halves(numpy.arange(1 << 16))
    x = around(numpy.unique(halves[numpy.isfinite(halves)]))
    x = numpy.concatenate([x, [1e300, -1e300, 1e-320, numpy.inf, -numpy.inf, numpy.nan]])
    half, bfloat = numpy.zeros((2, x.size), numpy.uint16)
    back = numpy.zeros(x.size, numpy.float32)
    cudasim.kernel(CONVERSIONS)[-(-x.size // 256), 256](x, half, bfloat, back, x.size, unchecked=True)
    with numpy.errstate(over="ignore", under="ignore"):
        expected = x.astype(numpy.float16)
    numpy.testing.assert_array_equal(half.view(numpy.float16), expected)
    numpy.testing.assert_array_equal(back, expected.astype(numpy.float32))
    assert_rounded(bfloat, x, doubles_of_bfloats)


def test_operations_are_rounded_once():
    n = 1 << 16
    drawn = numpy.random.default_rng(0)
    for name, doubles in (("of_halves", doubles_of_halves), ("of_bfloats", doubles_of_bfloats)):
        # Of any size, and of sizes that meet in a sum; results of the second half are often subnormal.
        a, b = drawn.integers(0, 1 << 16, (2, n), numpy.uint16)
        b[: n // 4] = a[: n // 4] ^ drawn.integers(0, 1 << 11, n // 4, numpy.uint16)
        a[n // 2 :] &= 0x87FF
        y = numpy.zeros((n, 4), numpy.uint16)
        cudasim.kernel(OPERATIONS, name)[n // 256, 256](y, a, b, unchecked=True)
        a, b = doubles(a), doubles(b)
        with numpy.errstate(all="ignore"):
            for i, exact in enumerate((a + b, a - b, a * b, a / b)):
                assert_rounded(y[:, i], exact, doubles)
