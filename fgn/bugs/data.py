"""The data on which the gallery's kernels run: each kind shows some mistake."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from fgn.chains import Chain, Pointwise, Shape, problem, random_inputs

Inputs = tuple[Chain, Tensor, dict[str, Tensor]]

# The last tile is partial in every direction, and groups of 24 channels are no power of two.
ORDINARY = Shape(20, 40, 72, 3)


def _random(chain: str, shape: Shape = ORDINARY) -> Inputs:
    described, shape = problem(chain, shape)
    return described, *random_inputs(described, shape)


def _large_mean(chain: str) -> Inputs:
    described, x, parameters = _random(chain)
    parameters["bias"] += 1e4
    return described, 3 * x, parameters


def _nearly_constant(chain: str) -> Inputs:
    described, x, parameters = _random(chain)
    return described, 1e-3 * x, parameters | {"bias": torch.zeros_like(parameters["bias"])}


def _large_values(chain: str) -> Inputs:
    """The channel vectors reach 20 and more."""
    described, x, parameters = _random(chain)
    return described, x, parameters | {name: 10 * parameters[name] for name in described.channels}


def _wide_limits(chain: str) -> Inputs:
    """mish gets values up to 100; the chain's own hardtanh would keep them below 1."""
    described, x, parameters = _random(chain)
    wide = Pointwise("hardtanh", -100.0, 100.0)
    before = tuple(wide if step.kind == "hardtanh" else step for step in described.before)
    parameters |= {name: 50 * parameters[name] for name in described.channels}
    return replace(described, before=before), x, parameters


def _one_nan(chain: str) -> Inputs:
    described, x, parameters = _random(chain)
    x[3, 5] = torch.nan
    return described, x, parameters


def _far_rows(chain: str) -> Inputs:
    """Rows of x that are 2 GiB apart; only these rows of the memory are ever touched."""
    described, x, parameters = _random(chain, ORDINARY._replace(batch=5))
    stride = 1 << 29
    # MAP_NORESERVE: otherwise the machine must have all that memory free. Python has the flag since 3.13.
    sparse = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    memory = torch.frombuffer(mmap.mmap(-1, 4 * x.shape[0] * stride, flags=sparse), dtype=torch.float32)
    rows = memory.as_strided(x.shape, (stride, 1))
    rows.copy_(x)
    return described, rows, parameters


DATA: dict[str, Callable[[str], Inputs]] = {
    "ordinary": _random,
    "odd_features": lambda chain: _random(chain, ORDINARY._replace(in_features=42)),
    "small_groups": lambda chain: _random(chain, Shape(20, 40, 64, 4)),
    "large_groups": lambda chain: _random(chain, Shape(3, 8, 3072, 2)),
    "square": lambda chain: _random(chain, Shape(40, 48, 48, 2)),
    "many_rows": lambda chain: _random(chain, Shape(65600, 4, 8, 2)),
    "large_mean": _large_mean,
    "nearly_constant": _nearly_constant,
    "large_values": _large_values,
    "wide_limits": _wide_limits,
    "one_nan": _one_nan,
    "far_rows": _far_rows,
}
