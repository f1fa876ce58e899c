"""The one criterion of accuracy: at most twice torch's own fp32 error against float64 on the same input."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import torch

from fgn.chains import CHAINS, Shape
from fgn.functional import PRODUCT, launch_count
from fgn.measure.accuracy import misplaced, relative_error
from fgn.native.library import version_names
from fgn.reference import chain_reference, chain_reference64, ieee_float32

ORDERS = 8
UNIT_ROUNDOFF = 2.0**-24
# The sanitizers ask where memory is accessed. They need no second call of the same, and fewer sizes.
SANITIZED = os.environ.get("CUDASIM_SANITIZE") == "1"


def marked_by_size(types) -> list:
    """Precisions or dtypes, with the mark `memory` on all but float16, whose kernels access memory as
    bfloat16's do."""
    halves = ("fp16", torch.float16)
    return [pytest.param(one, marks=() if one in halves else pytest.mark.memory) for one in types]


def versions_on(device) -> list[str]:
    """The versions that this device runs at all: those whose product of small float32 matrices runs, or a
    chain of them."""
    shape = Shape(8, 16, 16, groups=4)
    small = [
        (PRODUCT, shape._replace(groups=0)),
        (with_groups(CHAINS["gemm_groupnorm_hardtanh"], shape.groups), shape),
    ]
    return [
        name
        for name in version_names(device.type)
        if any(launch_count(*one, name, device) is not None for one in small)
    ]


def rounded_reference(chain, x, parameters):
    """Every operator exactly, and then rounded to float32: the best that separate fp32 operators can do."""
    wide = {name: value.double() for name, value in parameters.items()}

    def rounded(v):
        return v.float().double()

    def apply(steps, v):
        for step in steps:
            v = rounded(step(v, wide.get(step.operand)))
        return v

    v = rounded(x.double() @ wide["weight"].T)
    v = rounded(v + wide["bias"]) if "bias" in wide else v
    if not chain.has_norm:
        return apply(chain.before, v).float()
    v = rounded(torch.group_norm(apply(chain.before, v), chain.groups, None, None, chain.eps))
    v = rounded(v * wide["norm_weight"]) if "norm_weight" in wide else v
    v = rounded(v + wide["norm_bias"]) if "norm_bias" in wide else v
    return apply(chain.after, v).float()


def torch_error(chain, x, parameters, exact) -> float:
    """Torch's own error. It may add up in_features in any order, and on a few elements one order is luck, so
    this is the largest error over several orders; at least, it is that of rounding each operator's result.
    """
    results = [rounded_reference(chain, x, parameters)]
    generator = torch.Generator().manual_seed(0)
    for _ in range(ORDERS):
        results.append(chain_reference(chain, x, parameters))
        order = torch.randperm(x.shape[1], generator=generator).to(x.device)
        x, parameters = x[:, order], parameters | {"weight": parameters["weight"][:, order]}
    return max(UNIT_ROUNDOFF, *(relative_error(y, exact) for y in results))


def assert_accurate(y, chain, x, parameters):
    """`y` is the chain of x and parameters: NaN and infinities as torch has them, the rest as accurate."""
    with ieee_float32():
        exact = chain_reference64(chain, x, parameters)
        expected = chain_reference(chain, x, parameters)
        allowed = 2 * torch_error(chain, x, parameters, exact)
    assert y.shape == exact.shape and y.dtype == torch.float32 and y.device == x.device
    assert misplaced(y, expected) == 0
    error = relative_error(y, exact)
    assert error <= allowed


def assert_close(y, expected, exact):
    """The same for one operator: `y` beside torch's float32 result and the float64 one."""
    assert y.shape == exact.shape and y.dtype == torch.float32
    assert misplaced(y, expected) == 0
    assert relative_error(y, exact) <= 2 * max(UNIT_ROUNDOFF, relative_error(expected, exact))


def with_groups(chain, groups):
    return replace(chain, groups=groups)
