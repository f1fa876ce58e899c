"""Random shapes: fgn's modules beside torch eager, torch.compile and the bare F.linear, as a regression test.

A seed determines the problems, so two runs with one seed measure the same ones. Every problem is checked
against float64 first, with the result's memory poisoned, and is then timed twice, all rivals in turns:

device  between two CUDA events around one call that the host has queued ahead, L2 flushed before
loop    calls one after the other, as a user's loop makes them: the larger of the host's time and the GPU's

torch.compile takes seconds for each problem. `warm_up()` compiles in several processes beforehand, into torch
inductor's cache on disk.
"""

from __future__ import annotations

import math
import multiprocessing
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fgn.chains import CHAINS, Chain, problem
from fgn.functional import chain_forward, run_chain
from fgn.measure.accuracy import relative_error
from fgn.measure.benchmark import measure
from fgn.precision import PRECISIONS, torch_precision
from fgn.problem import Problem
from fgn.reference import chain_reference, chain_reference64

BATCHES = (1, 2, 7, 16, 32, 64, 100, 128, 256, 512, 1000, 1024, 2048, 4096, 5000, 8192, 16384, 30000, 65536)
BATCHES = (*BATCHES, 100000)
IN_FEATURES = (32, 64, 100, 128, 200, 256, 384, 512, 768, 1000, 1024, 1536, 2048, 3072, 4096, 5120, 8192)
OUT_FEATURES = (32, 64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1000, 1024, 1280, 1536, 2048, 3072)
OUT_FEATURES = (*OUT_FEATURES, 4096, 8192, 11008)
GROUPS = (1, 2, 4, 5, 8, 10, 16, 20, 24, 25, 32, 40, 64, 128)
# The chains by the numbers of their KernelBench problems, in the order from which a random one is drawn.
KINDS = {
    30: "gemm_groupnorm_hardtanh",
    62: "matmul_groupnorm_leakyrelu_sum",
    94: "gemm_biasadd_hardtanh_mish_groupnorm",
}
MOST_ELEMENTS, MOST_OPERATIONS = 2**29, 5e12

SUBJECTS = ("fgn", "torch.compile", "torch eager", "F.linear")
# About half a millisecond, in which the host queues a call: on a slow host the flush alone is too short.
BUSY_CYCLES = 1_000_000


def kind_of(one: Problem) -> int:
    return next(kind for kind, name in KINDS.items() if name == one.chain.name)


def problems(seed: int, count: int) -> Iterator[Problem]:
    """The first `count` problems of a seed."""
    draw = random.Random(seed)
    while count > 0:
        kind, precision = draw.choice(tuple(KINDS)), draw.choice(tuple(PRECISIONS))
        batch, in_features, out_features = (
            draw.choice(sizes) for sizes in (BATCHES, IN_FEATURES, OUT_FEATURES)
        )
        groups = draw.choice([g for g in GROUPS if out_features % g == 0 and 4 <= out_features // g <= 2048])
        elements = batch * max(in_features, out_features)
        if elements > MOST_ELEMENTS or 2.0 * batch * in_features * out_features > MOST_OPERATIONS:
            continue
        count -= 1
        chain, shape = problem(CHAINS[KINDS[kind]], (batch, in_features, out_features, groups))
        yield Problem(chain, shape, precision, seed=batch + in_features + out_features)


class _Call(nn.Module):
    """A chain in torch or in fgn, with its own parameters."""

    def __init__(self, function, chain: Chain, parameters: dict[str, Tensor]):
        super().__init__()
        self.function, self.chain = function, chain
        for name, value in parameters.items():
            self.register_parameter(name, nn.Parameter(value))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.chain, x, self._parameters)


def _compiled(one: Problem, parameters) -> nn.Module:
    return torch.compile(_Call(chain_reference, one.chain, parameters), dynamic=False)


def _warm_up_one(one: Problem):
    with torch.no_grad(), torch_precision(one.precision):
        torch.compiler.reset()
        x, parameters = one.inputs("cuda")
        _compiled(one, parameters)(x)


def warm_up(seed: int, count: int, processes: int):
    """Compiles torch's rivals for these problems in `processes` processes, for a later `sweep()` on this
    machine."""
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=8) as pool:
        for _ in pool.imap_unordered(_warm_up_one, problems(seed, count)):
            pass


def loop_ms(calls, device: torch.device, repeats: int, calls_each: int) -> dict[str, float]:
    """The time of each call in ms, when `calls_each` follow each other: the minimum of `repeats` times."""

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    best = dict.fromkeys(calls, math.inf)
    for _ in range(repeats):
        for name, call in calls.items():
            wait()
            begin = time.perf_counter()
            for _ in range(calls_each):
                call()
            wait()
            best[name] = min(best[name], (time.perf_counter() - begin) / calls_each * 1e3)
    return best


def _measure(one: Problem, device: torch.device, subjects, seconds: float, loop: tuple[int, int]) -> dict:
    x, parameters = one.inputs(device)
    weight, bias = parameters["weight"], parameters["bias"]
    y = run_chain(one.chain, x, parameters, poison=True, precision=one.precision)
    exact = chain_reference64(one.chain, x, parameters)
    errors = {
        "error": relative_error(y, exact),
        "torch_error": relative_error(chain_reference(one.chain, x, parameters), exact),
        "unwritten": int(y.isnan().sum()),
    }
    del y, exact
    modules = {
        "fgn": lambda: _Call(chain_forward, one.chain, parameters),
        "torch eager": lambda: _Call(chain_reference, one.chain, parameters),
        "torch.compile": lambda: _compiled(one, parameters),
        "F.linear": lambda: lambda x: torch.nn.functional.linear(x, weight, bias),
    }
    modules = {name: modules[name]() for name in subjects}
    calls = {name: lambda module=module: module(x) for name, module in modules.items()}
    for call in calls.values():
        call(), call()
    row = {"kind": kind_of(one), **one.shape._asdict(), "precision": one.precision, **errors}
    for name, times in measure(calls, device, seconds, busy_cycles=BUSY_CYCLES).items():
        row[f"device {name}"] = float(np.median(times))
    for name, milliseconds in loop_ms(calls, device, *loop).items():
        row[f"loop {name}"] = milliseconds
    return row


def sweep(
    seed: int, count: int = 60, device=None, subjects=SUBJECTS, seconds: float = 0.3, loop=(5, 40), show=None
) -> pd.DataFrame:
    """One row for each of the seed's problems: kind, sizes, precision; error and torch_error, the relative
    errors against float64; unwritten, the elements of the result that were never written; and the times in
    ms, "device SUBJECT" and "loop SUBJECT".

    subjects: some of `SUBJECTS`. seconds: how long each subject is timed on the device. loop: (repeats,
    calls): this many calls are timed together, `repeats` times, and the minimum counts. show: a function that
    is called with each row as soon as it is measured.
    """
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    rows = []
    for one in problems(seed, count):
        # Without a reset, torch would stop compiling after a few problems and silently run eagerly.
        torch.compiler.reset()
        with torch.no_grad(), torch_precision(one.precision):
            rows.append(_measure(one, device, subjects, seconds, loop))
        if show is not None:
            show(rows[-1])
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return pd.DataFrame(rows)


# The file of recorded sweeps, in the folder of a machine's results.
RECORDED = "sweeps.csv"


def write_rows(frame: pd.DataFrame, path: Path, column: str, recorded: dict):
    """Writes rows with the date and the commit of `recorded` to a table. They replace the rows with the same
    values in `column`."""
    frame = frame.assign(date=recorded["date"], commit=recorded["commit"])
    if path.exists():
        before = pd.read_csv(path)
        frame = pd.concat([before[~before[column].isin(frame[column])], frame])
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.sort_values(column, kind="stable").to_csv(path, index=False, float_format="%.6g")


def record(frame: pd.DataFrame, seed: int, folder: Path, environment: dict):
    """Writes a sweep to `folder` with its date and commit, and replaces an older one of the same seed."""
    write_rows(frame.assign(seed=seed), folder / RECORDED, "seed", environment)


def ratios(frame: pd.DataFrame, where: str, rival: str = "torch.compile") -> pd.Series:
    """The rival's time over fgn's. where: "device" or "loop"."""
    return frame[f"{where} {rival}"] / frame[f"{where} fgn"]


def summary(frame: pd.DataFrame, rival: str = "torch.compile") -> pd.DataFrame:
    """For times on the device and in a loop: the geometric mean and the minimum of `ratios()`, and how many
    are below 1 and below 0.95."""
    rows = {}
    for where in ("device", "loop"):
        values = ratios(frame, where, rival)
        rows[where] = {
            "geometric_mean": math.exp(np.log(values).mean()),
            "smallest": values.min(),
            "below_1": int((values < 1).sum()),
            "below_0.95": int((values < 0.95).sum()),
            "problems": len(values),
        }
    return pd.DataFrame.from_dict(rows, orient="index")
