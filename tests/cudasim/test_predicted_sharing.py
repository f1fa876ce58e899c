"""What blocks of a sample that are far apart tell of the sectors that all blocks update."""

from types import SimpleNamespace

import numpy as np
import pytest

from cudasim.predicting.caches import _far_apart


@pytest.mark.parametrize(("apart", "expected"), [(1, 256.0), (0, 1.0)])
def test_neighbours_that_share_a_sector_do_not_stand_for_all_blocks(apart, expected):
    places = (0, 1, 2, 3, 400, 401, 402, 403, 800, 801, 802, 803)
    own = {number: np.array([apart * (number // 4)]) for number in places}
    assert _far_apart(SimpleNamespace(total=1024), own, 1e6) == expected
