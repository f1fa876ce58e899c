"""How good the choice of a version is: every version that it considers on Hopper, timed at drawn chains.

    python lab/choice.py time --seed 1 --count 300 --out lab/records/choice_h200.csv.xz
    python lab/choice.py show lab/records/choice_h200.csv.xz

A problem is a chain that a model may have: random operators before a GroupNorm, a LayerNorm or no norm, and
after it, at random sizes, in a random precision. Versions are timed in turns, between two events around a
call, with an emptied L2 cache. `linear` is torch's product alone, so `library` without it is the launch after
the product. show: by how much the chosen version is slower than the fastest, and each model's time over the
measured one, for the problems with an even number, which the constants of cuda_c/choice.cu and
cuda_c/library/nanoseconds.h may be fitted to, and apart for the odd ones, which are kept aside. It plans by
the present code, so it shows what another choice would gain without a GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from fgn import plans
from fgn.chains import Chain, Shape
from fgn.functional import chain_forward, plan_of
from fgn.measure.benchmark import measure
from fgn.measure.software import when_recorded
from fgn.operators import Pointwise
from fgn.precision import torch_precision
from fgn.problem import Problem

VERSIONS = ("library", "hopper", "few_rows", "one_kernel", "fused")
PRECISIONS = ("bf16", "fp16", "tf32", "ieee")
BATCHES = (1, 7, 16, 64, 100, 128, 512, 1000, 1024, 4096, 8192, 16384, 30000)
FEATURES = (64, 128, 200, 256, 384, 512, 768, 1000, 1024, 1536, 2048, 3072, 4096, 5120, 8192)
MOST_ELEMENTS, MOST_OPERATIONS = 2**27, 1e12
GROUPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
OPERATORS = (
    ("add_channel", "multiply_channel", "add_channel", "add_tensor"),
    ("relu", "leaky_relu", "hardtanh", "gelu", "silu", "mish", "sigmoid", "tanh", "multiply", "divide"),
)
CONSTANTS = {"leaky_relu": (0.01,), "hardtanh": (-2.0, 2.0), "multiply": (1.7,), "divide": (1.3,)}


def _steps(draw: random.Random, count: int, name: str) -> tuple[Pointwise, ...]:
    steps = []
    for i in range(count):
        kind = draw.choice(OPERATORS[draw.random() < 0.7])
        operand = {"channel": f"{name}{i}"} if kind.endswith("channel") else {}
        operand |= {"tensor": f"{name}{i}"} if kind.endswith("tensor") else {}
        steps.append(Pointwise(kind, *CONSTANTS.get(kind, ()), **operand))
    return tuple(steps)


def problems(seed: int, count: int) -> list[Problem]:
    """The first problems of a seed."""
    draw, found = random.Random(seed), []
    while len(found) < count:
        batch, in_features, out_features = draw.choice(BATCHES), draw.choice(FEATURES), draw.choice(FEATURES)
        kind = draw.choice(("none", "group norm", "layer norm"))
        divisors = [g for g in GROUPS if out_features % g == 0 and out_features // g >= 4]
        groups = {"none": 0, "layer norm": 1, "group norm": draw.choice(divisors)}[kind]
        before = _steps(draw, draw.choice((1, 2, 3)) if groups == 0 else draw.choice((0, 0, 1, 2)), "before")
        after = _steps(draw, draw.choice((0, 1, 2)), "after") if groups else ()
        precision = draw.choice(PRECISIONS)
        if batch * max(in_features, out_features) > MOST_ELEMENTS:
            continue
        if 2.0 * batch * in_features * out_features > MOST_OPERATIONS:
            continue
        shape = Shape(batch, in_features, out_features, groups)
        found.append(Problem(Chain("drawn", before, groups, after), shape, precision, seed=len(found)))
    return found


def _calls(one: Problem, versions) -> dict:
    """A call of each version that runs the problem, and of torch's product."""
    x, parameters = one.inputs("cuda")
    calls = {"linear": partial(F.linear, x, parameters["weight"], parameters["bias"])}
    for version in versions:
        if plan_of(one.chain, one.shape, version, x.device, one.precision, can_multiply=True) is not None:
            calls[version] = partial(chain_forward, one.chain, x, parameters, version, one.precision)
    return calls


def _compile(share: tuple[int, int, int, int]):
    """Lets the kernels of some problems be compiled (fgn/native/jit.py), into the cache on disk."""
    seed, count, first, step = share
    with torch.no_grad():
        for one in problems(seed, count)[first::step]:
            with torch_precision(one.precision):
                for call in _calls(one, VERSIONS[:1]).values():
                    for _ in range(4):
                        call()


def time(seed: int, count: int, processes: int) -> pd.DataFrame:
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(_compile, [(seed, count, i, processes) for i in range(processes)], chunksize=1)
    rows = []
    with torch.no_grad():
        for one in problems(seed, count):
            with torch_precision(one.precision):
                times = measure(_calls(one, VERSIONS), torch.device("cuda"), 0.05, at_most=25)
            rows.append(
                {"seed": seed, "number": one.seed} | {k: np.median(v) * 1e3 for k, v in times.items()}
            )
    return pd.DataFrame(rows)


def planned(one: Problem, device: str) -> dict:
    """The chosen version, and each version's time by its model, in microseconds."""
    of = partial(plans.plan, one.chain, one.shape, precision=one.precision, device=device, frozen=False)
    result = {"chosen": of().version}
    for version in VERSIONS:
        of_plan = one.chain, one.shape, version, torch.device("cpu"), one.precision, plans.DEVICES[device]
        if plan_of(*of_plan) is not None:
            result[f"{version} model"] = (of(version).nanoseconds or float("nan")) / 1e3
    return result


def joined(table: pd.DataFrame, device: str) -> pd.DataFrame:
    """The measured times beside the present code's plans."""
    rows = []
    for seed, of_seed in table.groupby("seed"):
        drawn = problems(seed, int(of_seed.number.max()) + 1)
        for row in of_seed.to_dict("records"):
            one = drawn[int(row["number"])]
            kind = {0: "no norm", 1: "layer norm"}.get(one.chain.groups, "group norm")
            rows.append({"kind": kind, "precision": one.precision, **one.shape._asdict()})
            rows[-1] |= row | planned(one, device)
    found = pd.DataFrame(rows)
    here = found[[version for version in VERSIONS if version in found]]
    found["best"], found["fastest"] = here.min(axis=1), here.idxmin(axis=1)
    chosen = [row.get(row["chosen"], float("nan")) for row in found.to_dict("records")]
    found["lost"] = np.array(chosen) / found["best"]
    return found


def _mean(lost: pd.Series) -> float:
    return np.exp(np.log(lost).mean())


def show(found: pd.DataFrame):
    for half, rows in found.groupby(found.number % 2):
        print(("fitted to (even numbers)", "kept aside (odd numbers)")[half])
        by = rows.groupby(["kind", "precision"]).lost
        print(by.agg(["count", _mean, lambda lost: (lost > 1.05).sum(), "max"]).round(3).to_string())
        print(f"all: {_mean(rows.lost):.3f}, above 1.05: {(rows.lost > 1.05).sum()} of {len(rows)}")
        for version in VERSIONS:
            ratio = (rows.get(f"{version} model", pd.Series(dtype=float)) / rows[version]).dropna()
            if len(ratio):
                low, middle, high = ratio.quantile([0.1, 0.5, 0.9]).round(2)
                print(f"{version}: model over measured {low} {middle} {high} (a tenth, half, nine tenths)")
    sizes = ["kind", "precision", *Shape._fields, "chosen", "fastest", "lost", "linear"]
    print(found.sort_values("lost", ascending=False)[[*sizes, *VERSIONS]].head(40).round(2).to_string())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    timing = commands.add_parser("time")
    timing.add_argument("--seed", type=int, default=1)
    timing.add_argument("--count", type=int, default=300)
    timing.add_argument("--processes", type=int, default=12)
    timing.add_argument("--out", type=Path, required=True)
    showing = commands.add_parser("show")
    showing.add_argument("table", type=Path)
    showing.add_argument("--device", default="H200")
    arguments = parser.parse_args()
    if arguments.command == "time":
        table = time(arguments.seed, arguments.count, arguments.processes)
        table.assign(**when_recorded()).round(3).to_csv(arguments.out, index=False)
    else:
        show(joined(pd.read_csv(arguments.table), arguments.device))


if __name__ == "__main__":
    main()
