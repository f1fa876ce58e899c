"""What blocks of a sample that are far apart tell of the sectors that all blocks update."""

from types import SimpleNamespace

import numpy as np
import pytest

import cudasim
from cudasim.predicting.caches import _far_apart, sharing_of, traffic_of
from cudasim.predicting.cards import card
from cudasim.predicting.sampling import take_sample

GATHER = """
__global__ void gather(const float *x, const int *where, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[where[i]];
}"""


@pytest.mark.parametrize(("apart", "expected"), [(1, 256.0), (0, 1.0)])
def test_neighbours_that_share_a_sector_do_not_stand_for_all_blocks(apart, expected):
    places = (0, 1, 2, 3, 400, 401, 402, 403, 800, 801, 802, 803)
    own = {number: np.array([apart * (number // 4)]) for number in places}
    assert _far_apart(SimpleNamespace(total=1024), own, 1e6) == expected


@pytest.mark.parametrize("is_random", [False, True])
def test_places_at_random_cost_dram_64_bytes_each_and_neighbours_four(is_random):
    """x is larger than L2, which has a part of it where all of it is asked for several times."""
    n = 1 << 24
    where = np.random.default_rng(0).integers(0, n, n, dtype=np.int32)
    where = where if is_random else np.arange(n, dtype=np.int32)
    x, y = np.zeros(n, np.float32), np.zeros(n, np.float32)
    sample = take_sample(cudasim.kernel(GATHER)[n // 256, 256], (x, where, y), 1 << 15, seconds=0.5)
    of = card("H100")
    read = traffic_of(sample, sharing_of(sample), of, 8 * of.multiprocessors).dram_read - 4 * n
    assert read < 64 * n and (read > 32 * n if is_random else read == pytest.approx(4 * n, rel=0.02))
