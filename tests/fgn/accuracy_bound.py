"""How far a chain of float32 operations may be from float64: a bound of every element, from the arithmetic.

The errors of floating-point sums and quotients are those of Higham, "Accuracy and Stability of Numerical
Algorithms", 2nd edition, chapters 3 and 4: with u = 2^-24, a sum of K products in any order is at most
K u / (1 - K u) times the sum of their absolute values away. Here all factors have some units to spare: for
float16 halves, whose sum has 22 of the 24 bits, and for tensor cores, which cut off where others round.
docs/precisions.md states the bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from fgn.chains import Chain
from fgn.operators import Pointwise

UNIT_ROUNDOFF = 2.0**-24
SPARE_TERMS = 16

# How much further apart two values may be after an operator than before it: the largest slope anywhere.
LARGEST_SLOPE = {"hardtanh": 1.0, "mish": 1.0885, "leaky_relu": 1.0, "double": 2.0, "add_channel": 1.0}
# An operator's own error, in units of u of its value or argument, whichever is larger.
OWN_ERROR = {"mish": 8.0}


def _through(steps: Iterable[Pointwise], v: Tensor, error: Tensor, parameters: Mapping[str, Tensor]):
    for step in steps:
        result = step(v, parameters.get(step.operand))
        own = OWN_ERROR.get(step.kind, 1.0) * UNIT_ROUNDOFF
        error = LARGEST_SLOPE[step.kind] * error
        error = error + own * (torch.maximum(v.abs(), result.abs()) + error)
        v = result
    return v, error


def chain_error_bound(chain: Chain, x: Tensor, parameters: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The chain in float64 and the bound of |y - y64|, both (batch, out_features) float64.

    x, parameters: float32, as for `fgn.chain_forward()`. Of the operators those of the three chains.
    """
    wide = {name: value.double() for name, value in parameters.items()}
    x, in_features = x.double(), x.shape[1]
    v = x @ wide["weight"].T + wide["bias"]
    terms = x.abs() @ wide["weight"].abs().T + wide["bias"].abs()
    h, error = _through(chain.before, v, (in_features + SPARE_TERMS) * UNIT_ROUNDOFF * terms, wide)

    def by_group(values):
        return values.reshape(len(values), chain.groups, -1)

    h, error = by_group(h), by_group(error)
    rounding = (h.shape[-1] + SPARE_TERMS) * UNIT_ROUNDOFF  # of a sum over the group
    mean = h.mean(-1, keepdim=True)
    deviation = (h.var(-1, correction=0, keepdim=True) + chain.eps).sqrt()
    normal = (h - mean) / deviation
    # The mean that a kernel has is that of values a little away; so is the deviation, a norm of the values,
    # which changes by no more than the norm of their changes, and is never below the root of eps.
    error = error + rounding * (h.abs() + error).mean(-1, keepdim=True)
    spread = error.square().mean(-1, keepdim=True).sqrt()
    least = (deviation - spread).clamp_min(chain.eps**0.5)
    error = (error + error.mean(-1, keepdim=True) + normal.abs() * spread) / least + rounding * normal.abs()

    normal, error = normal.reshape(v.shape), error.reshape(v.shape)
    scaled, error = normal * wide["norm_weight"], error * wide["norm_weight"].abs()
    y = scaled + wide["norm_bias"]
    error = error + 2 * UNIT_ROUNDOFF * (scaled.abs() + error + wide["norm_bias"].abs())
    return _through(chain.after, y, error, wide)
