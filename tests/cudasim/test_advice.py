"""Advice and the source page: each rule speaks about the kernel that has its mistake, and no other."""

import html
import re

import numpy as np
import pytest

import cudasim
from cudasim.predicting import machine_code

TRANSPOSES = """__global__ void naive(const float *x, float *y, int n) {
    int column = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        y[column * n + row + i] = x[(row + i) * n + column];
}
__global__ void tiled(const float *x, float *y, int n) {
    __shared__ float tile[32][ROW];
    int column = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        tile[threadIdx.y + i][threadIdx.x] = x[(row + i) * n + column];
    __syncthreads();
    column = blockIdx.y * 32 + threadIdx.x;
    row = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        y[(row + i) * n + column] = tile[threadIdx.x][threadIdx.y + i];
}
"""
N = 512


def transposed(name, row=32, **settings):
    kernel = cudasim.kernel(TRANSPOSES.replace("ROW", str(row)), name)
    x, y = np.ones((N, N), np.float32), np.zeros((N, N), np.float32)
    return kernel[(N // 32, N // 32), (32, 8)], (x, y, N), {"seconds": 1, **settings}


def advice(launch, arguments, settings):
    return cudasim.predict(launch, *arguments, **settings).advice


def test_needless_sectors_are_told_with_their_line():
    first = advice(*transposed("naive"))[0]
    assert first.line == 5 and first.source.startswith("y[column * n")
    assert "stores ask for 32 sectors in a request where 4 would hold" in first.words


def test_bank_conflicts_are_told_with_their_line_and_gone_with_a_longer_row():
    first = advice(*transposed("tiled"))[0]
    assert first.line == 17 and "32 wavefronts for a request where 1 would do" in first.words
    assert not [one for one in advice(*transposed("tiled", 33)) if one.line]


ADDED = """__global__ void added(float *sum, const float *x, int places) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = x[i];
    atomicAdd(sum + i % places, value);
}"""


@pytest.mark.parametrize(
    ("places", "told"),
    [
        (1, ("32 lanes of a warp go to one address", "2,048 requests of atomics go to 1 sector of")),
        (8, ("4 lanes of a warp go to one address", "2,048 requests of atomics go to 1 sector of")),
        (1 << 16, ()),
    ],
)
def test_atomics_on_one_address_are_told_with_their_line(places, told):
    x, sums = np.ones(1 << 16, np.float32), np.zeros(places, np.float32)
    found = advice(cudasim.kernel(ADDED)[256, 256], (sums, x, places), {"seconds": 1})
    said = [one.words for one in found if one.line == 4]
    assert len(said) == len(told)
    for words in told:
        assert any(words in one for one in said), said


def test_lanes_that_wait_are_told():
    kernel = cudasim.kernel("""__global__ void some(float *y, const float *x) {
    if (threadIdx.x % 32 < 4)
        y[blockIdx.x * 4 + threadIdx.x] = x[blockIdx.x * 4 + threadIdx.x];
}""")
    x, y = np.ones(4 * 200, np.float32), np.zeros(4 * 200, np.float32)
    told = cudasim.predict(kernel[200, 32], y, x, seconds=1).advice
    assert any(one.line == 3 and one.words.startswith("4 of 32 lanes") for one in told)


def test_a_small_grid_is_told_as_one():
    kernel = cudasim.kernel("__global__ void f(float *y) { y[blockIdx.x * 32 + threadIdx.x] = 1; }")
    told = cudasim.predict(kernel[3, 32], np.zeros(96, np.float32), gpu="H200", seconds=1).advice
    text = str(told)
    assert "the grid has 3 blocks, and H200 has 132 multiprocessors: 129 have nothing to do" in text
    assert "the launch itself is" in text and all(one.line == 0 for one in told)
    assert html.escape(told[0].words) in told._repr_html_()


def test_the_source_page_has_the_counts_of_each_line():
    launch, arguments, settings = transposed("tiled")
    page = cudasim.source_page(launch, *arguments, **settings)
    warps = (N // 32) ** 2 * 8
    assert page.lines.loc[12, "sectors"] == page.lines.loc[17, "sectors"] == warps * 4 * 4
    assert page.lines.loc[17, "conflicts"] == warps * 4 * 31
    assert page.lines.loc[12, "sectors/request"] == 4
    assert page.lines.clocks.sum() == pytest.approx(1)
    assert page.advice[0].line == 17
    row = next(line for line in str(page).splitlines() if "tile[threadIdx.x][threadIdx.y + i]" in line)
    assert f"{warps * 4 * 31:,}" in row


def test_the_source_page_has_machine_code_beside_each_line():
    if not machine_code.is_there():
        pytest.skip("there is no nvcc or no nvdisasm here")
    launch, arguments, settings = transposed("tiled")
    page = cudasim.source_page(launch, *arguments, **settings)
    shown = page._repr_html_()
    barrier = re.findall(r'data-of="13"[^>]*>([^<]*)<', shown)
    assert any("BAR.SYNC" in text for text in barrier) and any("bar.sync" in text for text in barrier)
