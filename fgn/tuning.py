"""fgn.tune(): the fastest way to run a model's own chains, found by measuring.

By default, models of time choose how a call runs (`cuda_c/choice.cu`, and each rung's plan); their constants
were fitted to random shapes on an H200. `tune()` measures the ways that these expect to be fastest, at the
sizes of the user's model, and keeps the choice for later calls and processes (`fgn.native.tuned`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from fgn.functional import can_multiply, chain_forward, plan_of
from fgn.measure.benchmark import measure
from fgn.native import repeated, tuned
from fgn.native.library import version_names

# A way is kept if it takes at most this part of the default's time.
FASTER = 0.98
# A way that takes this many times as long as the default in its first calls is not measured further.
HOPELESS = 3.0


def _seconds_of(call: Callable, device: torch.device) -> float:
    """The approximate seconds of a call after the first one."""

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    call(), wait()
    begin = time.perf_counter()
    call(), wait()
    return time.perf_counter() - begin


def _milliseconds(
    one: tuned.Noted, choice: tuned.Choice | None, seconds: float, default: float = math.inf
) -> float | None:
    """The median time of the call by this choice, in ms; infinity if it is far slower than the default, None
    if the choice does not run the call."""
    device, shape = one.x.device, one.shape
    if choice is not None:
        plan = plan_of(
            *(one.chain, shape, choice.version, device, one.precision),
            frozen=one.frozen,
            candidate=choice.candidate,
            can_multiply=can_multiply(one.x, one.parameters, one.precision),
        )
        if plan is None:
            return None
    before = tuned.choice(device, one.chain, shape, one.precision, one.frozen)
    tuned.choose(device, one.key, choice)
    repeated.forget()

    def call():
        return chain_forward(one.chain, one.x, one.parameters, precision=one.precision)

    try:
        # a repeated call takes the host about 20 us
        if _seconds_of(call, device) * 1e3 > HOPELESS * default + 0.1:
            return math.inf
        return float(np.median(measure({"call": call}, device, seconds)["call"]))
    finally:
        tuned.choose(device, one.key, before)
        repeated.forget()


def _tune_one(one: tuned.Noted, candidates: int, seconds: float) -> dict:
    """Measures one call, and chooses."""
    device = one.x.device
    default = _milliseconds(one, None, seconds)
    times = {}
    for version in version_names(device.type):
        for number in range(candidates):
            choice = tuned.Choice(version, number)
            milliseconds = _milliseconds(one, choice, seconds, default)
            if milliseconds is None:
                break
            times[choice] = milliseconds
    best = min(times, key=times.get)
    row = {
        "chain": one.chain.name,
        **dict(zip(("batch", "in_features", "out_features", "groups"), one.shape, strict=True)),
        "precision": one.precision,
        "default_ms": default,
        "version": "",
        "candidate": 0,
        "tuned_ms": default,
        "measured": len(times),
    }
    tuned.choose(device, one.key, None)
    if times[best] < FASTER * default:
        again, default = _milliseconds(one, best, seconds), _milliseconds(one, None, seconds)
        if again < FASTER * default:
            tuned.choose(device, one.key, best)
            row |= {"version": best.version, "candidate": best.candidate}
            row |= {"tuned_ms": again, "default_ms": default}
    return row


def tune(
    model: Callable,
    *inputs,
    candidates: int = 6,
    seconds: float = 0.05,
    save: bool = True,
    **keywords,
) -> pd.DataFrame:
    """Measures the ways to run each chain that `model(*inputs, **keywords)` calls, and keeps the fastest.

    model: a module or a function that calls fgn: a drop-in module, what `fgn.fuse()` returns, or `lambda x:
    fgn.chain_forward(chain, x, parameters)`. It is called once, without gradients, and then each of its
    chains is measured alone: the default, every version that runs it, and from versions with a model of time
    the `candidates` divisions into tiles that these expect to be fastest, each for about `seconds` s. A way
    is kept if it takes at most 98 % of the default's time, in two measurements.

    Later calls with the same operators, sizes, precision and kind of weight (frozen or not) run that way, on
    this GPU and with this build of fgn; save: in later processes too. Training keeps its own plans. On CPU
    tensors the times are the simulator's, and the choice is for the simulator.

    Returns a row for each chain: chain, batch, in_features, out_features, groups, precision; default_ms;
    version, candidate and tuned_ms of the kept way ("", 0 and default_ms if the default stays); measured, the
    number of ways that run. TypeError for a model that cannot be called; exceptions of the model pass
    through.
    """
    if not callable(model):
        raise TypeError(f"model: expected a module or a function, got {type(model).__name__}")
    if candidates < 1:
        raise ValueError(f"candidates: expected 1 or more, got {candidates}")
    repeated.forget()  # a repeated call would not be seen
    with torch.no_grad(), tuned.noting() as calls:
        model(*inputs, **keywords)
    rows = []
    for one in calls.values():
        with torch.no_grad():
            rows.append(_tune_one(one, candidates, seconds))
        if save:
            tuned.save(one.x.device)
    repeated.forget()
    return pd.DataFrame(rows)
