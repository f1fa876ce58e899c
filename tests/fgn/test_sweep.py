"""The sweep over random shapes: the same problems for the same seed, and what it says of them."""

import numpy as np
import pandas as pd
import pytest

from fgn.measure import sweep
from fgn.measure.records import read
from fgn.plot import results

FIRST_OF_991 = [
    (30, 64, 1000, 512, 4, "fp16"),
    (94, 5000, 200, 1000, 5, "tf32"),
    (94, 30000, 5120, 256, 64, "fp16"),
    (30, 16, 768, 1024, 8, "bf16"),
]


def test_a_seed_says_which_problems_there_are():
    first = [(sweep.kind_of(one), *one.shape, one.precision) for one in sweep.problems(991, 4)]
    assert first == FIRST_OF_991
    assert [one for one in sweep.problems(991, 2)] == list(sweep.problems(991, 4))[:2]


def test_every_problem_is_one():
    for one in sweep.problems(3, 200):
        assert one.shape.out_features % one.shape.groups == 0 and one.chain.groups == one.shape.groups
        assert one.shape.batch * max(one.shape[1:3]) <= sweep.MOST_ELEMENTS


def test_a_small_sweep(monkeypatch):
    """On the simulator, with sizes for it."""
    monkeypatch.setattr(sweep, "BATCHES", (1, 3))
    monkeypatch.setattr(sweep, "IN_FEATURES", (16, 20))
    monkeypatch.setattr(sweep, "OUT_FEATURES", (32,))
    shown = []
    subjects = ("fgn", "torch eager")
    frame = sweep.sweep(1, 3, "cpu", subjects, seconds=0, loop=(1, 1), show=shown.append)
    assert len(frame) == len(shown) == 3 and (frame.unwritten == 0).all()
    assert (frame.error <= 2 * frame.torch_error + 1e-7).all()
    table = sweep.summary(frame, "torch eager")
    assert list(table.index) == ["device", "loop"] and (table.problems == 3).all()


def test_a_recorded_sweep_takes_the_place_of_its_seeds_older_one(tmp_path):
    environment = {"date": "2026-11-22T00:00:00", "commit": "b867f6a"}
    frame = pd.DataFrame({"kind": [30, 62], "device fgn": [1.0, 2.0]})
    for seed, times in ((2, 1.0), (1, 1.0), (2, 5.0)):
        sweep.record(frame * times, seed, tmp_path, environment)
    recorded = pd.read_csv(tmp_path / sweep.RECORDED)
    assert recorded.seed.tolist() == [1, 1, 2, 2]
    assert recorded["device fgn"].tolist() == [1.0, 2.0, 5.0, 10.0]
    assert set(recorded.commit) == {"b867f6a"}


def test_histogram_of_sweeps():
    draw = np.random.default_rng(0)
    columns = {
        f"{where} {name}": draw.uniform(0.5, 2.0, 40)
        for where in ("device", "loop")
        for name in ("fgn", "torch.compile")
    }
    figure = results.sweeps(pd.DataFrame(columns), read().precisions)
    for axis in figure.axes:
        assert sum(patch.get_height() for patch in axis.containers[0]) == 40


def test_summary():
    times = {"fgn": [1.0, 1.0], "torch.compile": [4.0, 0.96]}
    columns = {f"{where} {name}": of for where in ("device", "loop") for name, of in times.items()}
    table = sweep.summary(pd.DataFrame(columns))
    assert table.geometric_mean.tolist() == pytest.approx([3.84**0.5] * 2)
    assert table.smallest.tolist() == [0.96, 0.96]
    assert table.below_1.tolist() == [1, 1] and table["below_0.95"].tolist() == [0, 0]
