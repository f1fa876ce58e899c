"""The formulas of `cuda_c/backward/` in torch, which test_backward.py compares with autograd in float64."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from fgn.chains import Chain
from fgn.operators import Pointwise
from fgn.reference import apply_steps


def derivatives(step: Pointwise, v: Tensor, operand: Tensor | None = None):
    """What autograd makes of the operator's meaning in torch: its derivative by v, and by its operand.

    v: any shape, in whose dtype the derivative is computed; operand: of a shape that broadcasts to v's.
    """
    v = v.detach().clone().requires_grad_()
    wanted = [v]
    if operand is not None:
        operand = operand.detach().expand_as(v).clone().requires_grad_()
        wanted.append(operand)
    with torch.enable_grad():
        y = torch.where(v > 0, v, operand * v) if step.kind == "prelu" else step(v, operand)
        found = torch.autograd.grad(y.sum(), wanted)
    return found[0], found[1] if operand is not None else None


def chain_gradients(
    chain: Chain, x: Tensor, parameters: Mapping[str, Tensor], dy: Tensor
) -> dict[str, Tensor]:
    """The gradients by the formulas of `cuda_c/backward/`, in the dtype of the inputs: of x, weight, bias,
    norm_weight, norm_bias and what operators read. dy: (batch, out_features). With D channels to a group,
    n = (h - mean) / deviation and dn = dz norm_weight,

        dh = (dn - (sum of dn + n * sum of dn n) / D) / deviation
    """
    found: dict[str, Tensor] = {}

    def back_through(steps, inputs, gradient):
        for step, v in reversed(list(zip(steps, inputs, strict=True))):
            operand = parameters[step.operand] if step.operand else None
            slope, operand_slope = derivatives(step, v, operand)
            if step.operand:
                of_operand = gradient * operand_slope
                of_operand = of_operand.sum(0) if step.channel else of_operand
                found[step.operand] = found.get(step.operand, 0.0) + of_operand
            gradient = gradient * slope
        return gradient

    def inputs_of(steps, v):
        values = [v]
        for step in steps:
            values.append(apply_steps((step,), values[-1], parameters))
        return values

    def by_group(v):
        return v.reshape(len(v), chain.groups, -1)

    *before, h = inputs_of(chain.before, F.linear(x, parameters["weight"], parameters.get("bias")))
    if not chain.has_norm:
        dv = back_through(chain.before, before, dy)
        return found | {"bias": dv.sum(0), "x": dv @ parameters["weight"], "weight": dv.T @ x}
    variance, mean = torch.var_mean(by_group(h), -1, correction=0, keepdim=True)
    deviation = (variance + chain.eps).sqrt()
    n = ((by_group(h) - mean) / deviation).reshape(h.shape)
    *after, _ = inputs_of(chain.after, n * parameters["norm_weight"] + parameters["norm_bias"])

    dz = back_through(chain.after, after, dy)
    found |= {"norm_weight": (dz * n).sum(0), "norm_bias": dz.sum(0)}
    dn, n = by_group(dz * parameters["norm_weight"]), by_group(n)
    dh = (dn - dn.mean(-1, keepdim=True) - n * (dn * n).mean(-1, keepdim=True)) / deviation
    dv = back_through(chain.before, before, dh.reshape(h.shape))
    return found | {"bias": dv.sum(0), "x": dv @ parameters["weight"], "weight": dv.T @ x}
