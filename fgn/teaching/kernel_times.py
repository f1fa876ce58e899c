"""The times of a version's launches on GPUs that need not be present, by cudasim's model of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch

import cudasim
from cudasim.predicting.cards import of_device
from fgn.calls import run_chain
from fgn.chains import Chain
from fgn.measure import least_work
from fgn.problem import find_problem
from fgn.teaching.settings import recorded_results

_SECONDS = 1.0  # of simulating, for each launch


def gpus(*others: str) -> list[str]:
    """The reader's own GPU, if cudasim has a card of it, and then the others."""
    own = []
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name()
        found = of_device(name)
        own = [found.name] if found else []
        if found is None:
            print(f"there is no card of {name}: `python -m cudasim card --measure mine.toml` makes one")
    return list(dict.fromkeys([*own, *others]))


def kernel_times(chain: str | Chain, shape, versions: Sequence[str], on: Sequence[str]) -> pd.DataFrame:
    """A row for each launch: its version, kernel, limiter on the first GPU, and milliseconds on each."""
    problem = find_problem(chain, shape)
    x, parameters = problem.inputs("cpu")
    rows = []
    for version in versions:

        def call(version=version):
            run_chain(
                problem.chain, x, parameters, version, multiprocessors=cudasim.card(on[0]).multiprocessors
            )

        for one in cudasim.predict_call(call, gpu=list(on), seconds=_SECONDS).values():
            times = {of.card.name: 1e3 * of.seconds for of in one.on}
            rows.append({"version": version, "kernel": one.kernel, "limiter": one.limiter, **times})
    return pd.DataFrame(rows)


def version_times(launches: pd.DataFrame, chain: str | Chain, shape) -> pd.DataFrame:
    """The milliseconds of each version, all its launches together, on each GPU, with the floor there and the
    recorded time on an H200."""
    numbers = launches.drop(columns=["kernel", "limiter"])
    # NaN if a GPU cannot hold a block of one of the launches.
    times = numbers.groupby("version", sort=False).agg(lambda of: of.sum(skipna=False))
    problem = find_problem(chain, shape)
    least = least_work(problem.chain, problem.shape)
    cards = [cudasim.card(name) for name in times]
    floors = [1e3 * max(least.operations / of.flops, least.bytes / of.dram_bandwidth) for of in cards]
    times.loc["floor"] = floors
    if results := recorded_results():
        rows = problem.rows(results.benchmark)
        medians = rows[rows["part"] == "chain"].set_index("subject")["median_ms"]
        times["H200, recorded"] = medians.reindex(times.index)
    return times
