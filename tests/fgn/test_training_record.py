"""Recorded training steps: what tools/training_steps.py measures, writes, and README.md says of it."""

import pandas as pd
import readme
import training_steps
from pytest import approx

from fgn.chains import CHAINS, Shape
from fgn.measure import records, sweep
from fgn.problem import Problem


def test_the_first_problems_of_all_seeds_come_first():
    chosen = training_steps.problems([1, 2], 2, large=True)
    large, of_seeds = chosen[:9], chosen[9:]
    assert {(name, *one.shape[:3]) for name, one in large} == {(training_steps.LARGE, 1024, 8192, 8192)}
    assert [name for name, _ in of_seeds] == ["seed 1", "seed 2"] * 2
    assert [one for name, one in of_seeds if name == "seed 2"] == list(sweep.problems(2, 2))


def test_steps_that_are_measured_are_recorded(tmp_path):
    """On the simulator, where torch eager stands for torch.compile. A problem that fails is said."""
    chosen = [("seed 7", Problem(chain, Shape(5, 16, 32, 4))) for chain in CHAINS.values()]
    chosen.insert(1, ("seed 7", Problem(chosen[0][1].chain, Shape(5, 16, 32, 3))))
    shown = []
    frame = training_steps.measured(chosen, 1, 60.0, 0.0, "cpu", show=shown.append)
    assert len(frame) == 3 and len(shown) == 4
    assert "groups: 3" in shown[0] and "ValueError" in shown[0]
    assert (frame.error <= 2 * frame.torch_error + 1e-7).all()
    for one in (frame, frame.assign(set="seed 8"), frame):
        training_steps.record(one, tmp_path)
    written = pd.read_csv(tmp_path / records.TRAINING)
    assert written.set.tolist() == ["seed 7"] * 3 + ["seed 8"] * 3
    assert {"date", "commit", "kept fgn", "loop torch.compile"} <= set(written)


def test_what_the_readme_says():
    times = {"device fgn": [1.0, 1.0, 2.0], "device torch.compile": [4.0, 1.0, 1.0]}
    times |= {"loop fgn": [1.0] * 3, "loop torch.compile": [2.0] * 3}
    kept = {"kept fgn": [1.0, 2.0, 1.0], "kept torch.compile": [1.0, 1.0, 2.0]}
    frame = pd.DataFrame({"set": ["seed 1", "seed 1", "large"], "precision": ["ieee", "bf16", "bf16"]})
    frame = frame.assign(commit="0123456789", date="2026-11-23T10:00:00", **times, **kept)
    record = records.read()
    words = readme.training_words(records.Record(**{**vars(record), "training": frame}))
    lines = [line for line in words.splitlines() if "0123456" in line]
    assert lines == [
        "| large bf16 | 0123456, 2026-11-23 | 0.50, 0.50, 1 of 1 | 2.00, 2.00, 0 of 1 | 0.50 |",
        "| seed 1 | 0123456, 2026-11-23 | 2.00, 1.00, 0 of 2 | 2.00, 2.00, 0 of 2 | 1.41 |",
    ]
    assert float(lines[1].split("|")[5]) == approx(2**0.5, abs=0.01)
