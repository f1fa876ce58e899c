"""Small calls on a GPU after other kernels, which have evicted their instructions.

    python lab/after_others.py --record FOLDER
    python lab/after_others.py --show lab/records/after_others.csv

A call that repeats finds its instructions in a multiprocessor's cache. In a model it follows other kernels.
So before each timed call the chain runs by torch's eager operators and by the version `hopper`, and half a
gigabyte is cleared, which empties the L2 cache. The calls of all versions take turns; medians of 25, between
two events, in microseconds. Problems: seven small ones of the first sweep, then those of seeds 60 to 64 whose
x, weight and y are small.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
from pathlib import Path

import torch
import torch.nn.functional as F

from fgn.chains import CHAINS, problem
from fgn.functional import chain_forward
from fgn.measure.software import when_recorded
from fgn.measure.sweep import KINDS, problems
from fgn.precision import torch_precision
from fgn.problem import Problem
from fgn.reference import chain_reference

NAMED = (
    *((94, 32, 384, 64, 4, "bf16"), (94, 32, 32, 4096, 128, "bf16"), (62, 100, 768, 128, 4, "fp16")),
    *((30, 1000, 64, 32, 1, "tf32"), (30, 32, 64, 256, 8, "fp16"), (30, 256, 128, 2048, 128, "ieee")),
    (62, 16, 64, 64, 4, "bf16"),
)
VERSIONS = ("few_rows", "library", "hopper")
TIMED = (*VERSIONS, "F.linear", "default")
COLUMNS = (
    "kind",
    "batch",
    "in_features",
    "out_features",
    "groups",
    "precision",
    *TIMED,
    "gpu",
    "date",
    "commit",
)


def small_problems(count: int):
    for kind, *sizes, precision in NAMED:
        yield Problem(*problem(CHAINS[KINDS[kind]], tuple(sizes)), precision, seed=1)
    drawn = itertools.chain.from_iterable(problems(seed, 60) for seed in range(60, 65))
    yield from itertools.islice((one for one in drawn if _is_small(one.shape)), count - len(NAMED))


def _is_small(shape) -> bool:
    return (
        max(shape.batch * shape.out_features, shape.batch * shape.in_features) <= 2**21
        and shape.in_features * shape.out_features <= 2**23
    )


def times_of(one: Problem) -> dict[str, float]:
    """The medians by version, without those that do not run this."""
    x, parameters = one.inputs("cuda")
    cleared = torch.empty(1 << 29, dtype=torch.uint8, device="cuda")
    calls = {
        name: lambda name=name: chain_forward(one.chain, x, parameters, version=name) for name in VERSIONS
    }
    calls["F.linear"] = lambda: F.linear(x, parameters["weight"], parameters["bias"])
    calls["default"] = lambda: chain_forward(one.chain, x, parameters)
    for name in VERSIONS:
        try:
            calls[name]()
        except (RuntimeError, ValueError):
            del calls[name]
    for call in calls.values():
        call(), call()
    events = {name: [] for name in calls}
    for _, (name, call) in itertools.product(range(25), calls.items()):
        torch.cuda._sleep(300_000)  # the host queues the call meanwhile
        chain_reference(one.chain, x, parameters)
        if "hopper" in calls and name != "hopper":
            calls["hopper"]()
        cleared.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record(), call(), end.record()
        events[name].append((begin, end))
    torch.cuda.synchronize()
    return {
        name: round(statistics.median(a.elapsed_time(b) for a, b in pairs) * 1e3, 2)
        for name, pairs in events.items()
    }


def record(folder: Path, count: int):
    recorded = {"gpu": torch.cuda.get_device_name()} | when_recorded()
    kinds = {name: kind for kind, name in KINDS.items()}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "after_others.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for one in small_problems(count):
            with torch.no_grad(), torch_precision(one.precision):
                row = {"kind": kinds[one.chain.name], **one.shape._asdict(), "precision": one.precision}
                writer.writerow(row | times_of(one) | recorded)


def show(path: Path):
    """Prints for each commit the geometric means over its problems, and the times of the named ones."""
    for commit, rows in itertools.groupby(csv.DictReader(path.open()), lambda row: row["commit"]):
        rows = list(rows)
        means = [
            f"{name} {statistics.geometric_mean(float(row[name]) for row in rows):.1f}" for name in TIMED
        ]
        print(f"{commit[:7]}, {rows[0]['gpu']}, {len(rows)} problems, microseconds:", ", ".join(means))
        for row in rows[: len(NAMED)]:
            sizes = f"{row['batch']} x {row['in_features']} -> {row['out_features']} {row['precision']}"
            print("   ", sizes, ", ".join(f"{name} {float(row[name]):.1f}" for name in TIMED))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--record", type=Path, metavar="FOLDER")
    parser.add_argument("--show", type=Path, metavar="FILE")
    parser.add_argument("--count", type=int, default=24, help="of problems")
    given = parser.parse_args()
    show(given.show) if given.show else record(given.record, given.count)


if __name__ == "__main__":
    main()
