"""Chains in fp8 on a GPU, beside torch's own fp8 product and beside fgn's bf16.

    python lab/fp8.py --seed 1 --count 24 --record FOLDER
    python lab/fp8.py --show lab/records/fp8.csv

The problems are those of `fgn.measure.sweep` whose sizes torch's fp8 product takes (multiples of 16), and the
three chains of 1024 samples and 8192 features. x is bfloat16 and has to be rounded in each call; the weight
is rounded once, before. The rival rounds x by torch.compile, multiplies by `torch._scaled_mm` with a scale
for each sample and each channel, in each of its two ways to add up, and ends the chain
by torch.compile. Errors are against float64 of the factors before they are rounded. device: on the GPU,
behind a flush of its L2, medians; loop: calls one after the other. In milliseconds, in one run on the same
inputs.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import multiprocessing
import os
from itertools import islice
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

import fgn
from fgn.chains import CHAINS, Shape, problem
from fgn.functional import chain_forward, linear, run_chain
from fgn.measure.accuracy import relative_error
from fgn.measure.benchmark import measure
from fgn.measure.software import when_recorded
from fgn.measure.sweep import BUSY_CYCLES, KINDS, kind_of, loop_ms, problems
from fgn.plans import QUANTISED, plan
from fgn.problem import Problem
from fgn.reference import apply_steps, chain_reference64, norm_reference
from fgn.structs import PRODUCT

FLAGSHIP = (1024, 8192, 8192)
GROUPS_OF_FLAGSHIP = {30: 16, 62: 256, 94: 512}
# The products whose errors are recorded: in_features, and how the factors are drawn.
ERRORS_AT = [(k, kind) for kind in ("normal", "positive") for k in (1024, 4096, 16384)]
LARGEST = torch.finfo(torch.float8_e4m3fn).max
# By default torch's sums are as exact as fgn's; the fast way leaves them to the tensor cores.
WAYS_OF_TORCH = {"torch fp8": False, "torch fp8, fast": True}
SUBJECTS = ("fgn fp8", *WAYS_OF_TORCH, "fgn bf16")


def drawn(seed: int, count: int):
    """The flagship's three chains, and the first `count` problems of the seed that torch's fp8 takes."""
    for kind, groups in GROUPS_OF_FLAGSHIP.items():
        yield Problem(*problem(CHAINS[KINDS[kind]], (*FLAGSHIP, groups)), "fp8")
    fits = (
        one
        for one in problems(seed, 20 * count)
        if one.shape.in_features % 16 == one.shape.out_features % 16 == 0
    )
    for one in islice(fits, count):
        yield Problem(one.chain, one.shape, "fp8", one.seed)


def rounded(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """(e4m3, the scale of each row)"""
    scale = matrix.float().abs().amax(1, keepdim=True).clamp(min=1e-12) / LARGEST
    return (matrix.float() / scale).to(torch.float8_e4m3fn), scale


class Rival:
    """torch's fp8 product between what torch.compile makes. is_fast: whether it adds up in the tensor cores
    alone (`use_fast_accum`). RuntimeError for sizes that cuBLAS refuses."""

    def __init__(self, one: Problem, x: Tensor, parameters: dict[str, Tensor], is_fast: bool):
        self.chain, self.parameters, self.is_fast = one.chain, parameters, is_fast
        self.weight, self.scale = rounded(parameters["weight"])
        self.forward(x)
        self.call = torch.compile(self.forward, dynamic=False)

    def forward(self, x: Tensor) -> Tensor:
        x, scale = rounded(x)
        v = torch._scaled_mm(
            *(x, self.weight.t(), scale, self.scale.t(), self.parameters["bias"]),
            out_dtype=torch.bfloat16,
            use_fast_accum=self.is_fast,
        )
        return norm_reference(self.chain, apply_steps(self.chain.before, v, self.parameters), self.parameters)


def rivals(one: Problem, x: Tensor, parameters: dict[str, Tensor]) -> dict:
    """The calls of torch's two ways, without those that it refuses."""
    found = {}
    for name, is_fast in WAYS_OF_TORCH.items():
        with contextlib.suppress(RuntimeError):
            found[name] = functools.partial(Rival(one, x, parameters, is_fast).call, x)
    return found


@torch.no_grad()
def measured(one: Problem, seconds: float, loop: tuple[int, int]) -> dict:
    torch.compiler.reset()
    x, parameters = one.inputs("cuda")
    fgn.freeze(parameters["weight"])
    row = {"kind": kind_of(one), **one.shape._asdict()}
    row["fgn"] = "fp8" if rounds(one.chain, one.shape) else "bf16"
    exact = chain_reference64(one.chain, x, parameters)
    calls = {
        "fgn fp8": lambda: chain_forward(one.chain, x, parameters, precision="fp8"),
        **rivals(one, x, parameters),
        "fgn bf16": lambda: chain_forward(one.chain, x, parameters),
    }
    poisoned = run_chain(one.chain, x, parameters, poison=True, precision="fp8")
    results = {"fgn fp8": poisoned} | {name: call() for name, call in calls.items() if name != "fgn fp8"}
    for name in SUBJECTS:
        row[f"error {name}"] = relative_error(results[name], exact) if name in results else None
    row["unwritten"] = int(poisoned.isnan().sum())
    for call in calls.values():
        call(), call()
    times = measure(calls, x.device, seconds, busy_cycles=BUSY_CYCLES)
    row |= {f"device {name}": pd.Series(values).median() for name, values in times.items()}
    row |= {f"loop {name}": value for name, value in loop_ms(calls, x.device, *loop).items()}
    return row


@torch.no_grad()
def errors() -> pd.DataFrame:
    """The relative errors of products, 1024 samples to 8192 features, against float64: fgn's, torch's by its
    two ways to add up, and in bf16. Normal factors, or positive ones, whose rounding sums even out."""
    rows = []
    for in_features, kind in ERRORS_AT:
        draw = torch.randn if kind == "normal" else torch.rand
        x, weight = (draw(rows, in_features, device="cuda", dtype=torch.bfloat16) for rows in (1024, 8192))
        exact = x.double() @ weight.double().t()
        (a, scale), (b, scale_of_b) = rounded(x), rounded(weight)
        results = {"fgn fp8": linear(x, fgn.freeze(weight), precision="fp8")}
        for name, is_fast in WAYS_OF_TORCH.items():
            results[name] = torch._scaled_mm(
                *(a, b.t(), scale, scale_of_b.t()), out_dtype=torch.bfloat16, use_fast_accum=is_fast
            )
        results["bf16"] = torch.nn.functional.linear(x, weight)
        found = {name: relative_error(y, exact) for name, y in results.items()}
        way = "fp8" if rounds(PRODUCT, Shape(1024, in_features, 8192, 0)) else "bf16"
        rows.append({"factors": kind, "in_features": in_features, "fgn": way, **found})
    return pd.DataFrame(rows)


def rounds(chain, shape: Shape) -> bool:
    """Whether fgn's plan multiplies 8-bit factors."""
    return any(QUANTISED in launch.words for launch in plan(chain, shape, None, "fp8", "cuda").launches)


@torch.no_grad()
def _compile_rivals(one: Problem):
    x, parameters = one.inputs("cuda")
    for call in rivals(one, x, parameters).values():
        call()


def geometric_mean(ratios: pd.Series) -> float:
    return math.exp(ratios.dropna().map(math.log).mean())


def show(table: pd.DataFrame):
    shown = table[[name for name in table if name not in ("kind", "date", "commit", "seed", "unwritten")]]
    print(shown.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    drawn_rows = table[table.in_features.ne(8192) | table.out_features.ne(8192)]
    for where in ("device", "loop"):
        for rival in SUBJECTS[1:]:
            ratio = drawn_rows[f"{where} {rival}"] / drawn_rows[f"{where} fgn fp8"]
            of_flagship = (table[f"{where} {rival}"] / table[f"{where} fgn fp8"]).drop(drawn_rows.index)
            flagship = " ".join(f"{one:.2f}" for one in of_flagship)
            print(
                f"{where}, {rival} / fgn fp8: {geometric_mean(ratio):.2f} in the geometric mean, "
                f"smallest {ratio.min():.2f}; flagship {flagship}"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each subject")
    parser.add_argument("--record", type=Path, help="a folder")
    parser.add_argument("--show", type=Path, help="a recorded table")
    arguments = parser.parse_args()
    if arguments.show:
        return show(pd.read_csv(arguments.show))
    some = list(drawn(arguments.seed, arguments.count))
    with multiprocessing.get_context("spawn").Pool(min(12, os.cpu_count())) as pool:
        pool.map(_compile_rivals, some, chunksize=1)
    of_products = errors()
    print(of_products.to_string(index=False, float_format="%.5f"))
    table = pd.DataFrame([measured(one, arguments.seconds, (5, 40)) for one in some])
    show(table)
    if arguments.record:
        arguments.record.mkdir(parents=True, exist_ok=True)
        recorded = table.assign(seed=arguments.seed, **when_recorded())
        recorded.to_csv(arguments.record / "fp8.csv", index=False, float_format="%.6g")
        of_products = of_products.assign(**when_recorded())
        of_products.to_csv(arguments.record / "fp8_errors.csv", index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
