"""The subjects that are timed, profiled and drawn, in the order of every table and plot: first the ladder,
then torch's."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import pandas as pd

from cudasim.building.compilers import MissingToolError
from fgn.measure.accuracy import TORCH
from fgn.measure.benchmark import RIVALS
from fgn.measure.records import read, recorded
from fgn.native.library import version_names

TORCHS = [*RIVALS, TORCH]


@functools.cache
def ladder() -> list[str]:
    """The versions from the naive one up: those of the library or, if none can be built, the recorded
    ones."""
    try:
        return version_names()
    except MissingToolError:
        record = read(recorded()[0])
        tables = [table for table in (record.benchmark, record.precisions) if table is not None]
        subjects = pd.concat([table.subject for table in tables]).unique()
        return [subject for subject in subjects if subject not in TORCHS]


def ladder_order(subjects: Iterable[str]) -> list[str]:
    """The subjects in order: fgn's versions from the naive one up, then torch's, then all others."""
    order = ladder() + TORCHS
    return sorted(subjects, key=lambda name: order.index(name) if name in order else len(order))
