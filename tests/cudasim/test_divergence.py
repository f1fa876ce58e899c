"""Divergence is counted: how many threads are active in the instructions that access memory."""

import numpy as np
import pytest

import cudasim

STORES = {
    "y[i] = 1;": (2, 64),
    "if (i % 2 == 0) y[i] = 1; else atomicAdd(&y[i], 1.0f);": (4, 64),
    "if (i < 8) y[i] = 1;": (1, 8),
    "for (int k = 0; k < i % 4; k++) atomicAdd(&y[0], 1.0f);": (2 * 3, 2 * (24 + 16 + 8)),
}


@pytest.mark.parametrize("body", STORES)
def test_active_threads(body):
    source = f"__global__ void f(float *y, const float *x) {{ int i = threadIdx.x; {body} }}"
    kernel = cudasim.kernel(source)
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    counts = cudasim.count(lambda: kernel[1, 64](y, x)).iloc[0]
    assert (counts.memory_instructions, counts.memory_threads) == STORES[body]
