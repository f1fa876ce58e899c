"""The figures that lab/speed.py makes of its tables."""

import math

import pytest
from speed import kendall


def around(times, noise=0.0):
    return [(time - noise, time + noise) for time in times]


def test_kendall_of_times_in_the_same_order_and_in_the_other():
    assert kendall(around([3, 1, 2]), [30.0, 10.0, 20.0]) == 1
    assert kendall(around([1, 2, 3]), [30.0, 20.0, 10.0]) == -1
    assert kendall(around([1, 2, 3]), [10.0, 30.0, 20.0]) == pytest.approx(1 / 3)


def test_two_times_that_the_measurement_cannot_tell_apart_are_no_pair():
    assert kendall(around([1, 1.05, 3], 0.1), [20.0, 10.0, 30.0]) == 1
    assert math.isnan(kendall(around([1, 1.05], 0.1), [20.0, 10.0]))


def test_two_predictions_that_are_equal_are_in_neither_order():
    """As scipy's tau-b has it, where the measured times have no ties."""
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    times, predicted = [1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 20.0, 15.0]
    assert kendall(around(times), predicted) == pytest.approx(stats.kendalltau(times, predicted).statistic)
