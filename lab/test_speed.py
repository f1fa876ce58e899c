"""The figures that lab/speed.py makes of its tables."""

import math
from pathlib import Path

import pandas as pd
import pytest
from speed import kendall
from speed_sets import ANEW, FIFTH, FOURTH, SIXTH, THIRD

from cudasim.predicting.cards import card

RECORDS = Path(__file__).resolve().parent / "records"
KEYS = ["repository", "kernel", "template", "grid", "block"]


def around(times, noise=0.0):
    return [(time - noise, time + noise) for time in times]


def test_kendall_of_times_in_the_same_order_and_in_the_other():
    assert kendall(around([3, 1, 2]), [30.0, 10.0, 20.0]) == 1
    assert kendall(around([1, 2, 3]), [30.0, 20.0, 10.0]) == -1
    assert kendall(around([1, 2, 3]), [10.0, 30.0, 20.0]) == pytest.approx(1 / 3)


def test_two_times_that_the_measurement_cannot_tell_apart_are_no_pair():
    assert kendall(around([1, 1.05, 3], 0.1), [20.0, 10.0, 30.0]) == 1
    assert math.isnan(kendall(around([1, 1.05], 0.1), [20.0, 10.0]))


def test_two_times_within_five_percent_are_no_pair_where_only_larger_gaps_count():
    assert kendall(around([1, 1.04, 3]), [20.0, 10.0, 30.0]) == pytest.approx(1 / 3)
    assert kendall(around([1, 1.04, 3]), [20.0, 10.0, 30.0], apart=1.05) == 1


def test_two_predictions_that_are_equal_are_in_neither_order():
    """As scipy's tau-b has it, where the measured times have no ties."""
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    times, predicted = [1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 20.0, 15.0]
    assert kendall(around(times), predicted) == pytest.approx(stats.kendalltau(times, predicted).statistic)


def test_no_prediction_is_shorter_than_what_its_instructions_and_bytes_take_at_least():
    """Of the fifth and the sixth set's first predictions, and of sets that were predicted again. ncu counted
    the instructions and DRAM's bytes on an H100, whose clock is known to a hundredth. What `tile_mm_async`
    copies in the background goes through loops that nothing counts."""
    first, later, timed = (
        pd.read_csv(RECORDS / f"{name}.csv.xz").fillna({"template": ""})
        for name in ("predicted", "predicted_later", "speed_h100")
    )
    again, blind = (*ANEW, *THIRD, *FOURTH), (*FIFTH, *SIXTH)
    said = pd.concat([later[later["repository"].isin(again)], first[first["repository"].isin(blind)]])
    said = said.query("kernel != 'tile_mm_async'")
    for table in (said, timed):
        table["nth"] = table.groupby(KEYS).cumcount()
    both = said.merge(timed, on=[*KEYS, "nth"]).query("us >= 10")
    of = card("H100")
    issued = both["instructions"] / (of.multiprocessors * of.schedulers * of.clock_hz)
    moved = (both["dram_read"] + both["dram_written"]) / of.dram_bytes_per_second
    least = 1e6 * pd.concat([issued, moved], axis=1).max(axis=1)
    assert len(both) > 300 and both[1.01 * both["H100 us"] < least].empty
