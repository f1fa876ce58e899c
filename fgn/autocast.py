"""A chain under torch.autocast: it is computed in the dtype of autocast, and its result has torch's dtype.

Autocast gives each operator of torch a dtype: a product has the 16-bit one, GroupNorm float32 on a GPU and
its input's on a CPU, and whatever has no entry in autocast's lists has the type to which its inputs promote.
A chain multiplies in autocast's dtype, computes the rest in float32, rounds y to autocast's dtype and
converts it to the dtype that torch's own operators give. This file does not list these dtypes: it asks torch,
with two rows.

A tensor that is added in another dtype than autocast's keeps its dtype: the chain ends before it, and torch
does the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fgn.chains import Chain, Pointwise
from fgn.reference import chain_reference

_is_any_enabled = torch._C._is_any_autocast_enabled

# The number of rows of the tensors with which torch is asked for the result's dtype.
ROWS = 2


def dtype_for(x) -> torch.dtype | None:
    """The dtype that torch.autocast prescribes for products of x, or None."""
    if not _is_any_enabled() or not isinstance(x, Tensor) or x.device.type not in ("cpu", "cuda"):
        return None
    if not torch.is_autocast_enabled(x.device.type) or not x.is_floating_point() or x.dtype == torch.float64:
        return None
    return torch.get_autocast_dtype(x.device.type)


def cast(
    dtype: torch.dtype, parameters: Mapping[str, Tensor | None], of_x: tuple[str, ...]
) -> dict[str, Tensor | None]:
    """The parameters for a chain in `dtype`. of_x: the names of those with x's dtype; the others have that
    dtype or float32."""

    def one(name: str, value):
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.dtype == torch.float64:
            return value
        if name in of_x:
            return value.to(dtype)
        return value if value.dtype in (dtype, torch.float32) else value.float()

    return {name: one(name, value) for name, value in parameters.items()}


def result_dtype(chain: Chain, x: Tensor, parameters: Mapping[str, Tensor | None]) -> torch.dtype:
    """The dtype that torch's operators give for these under the active autocast."""
    kind = x.device.type
    given = {name: value.dtype for name, value in parameters.items() if isinstance(value, Tensor)}
    return _result_dtype(chain, kind, torch.get_autocast_dtype(kind), x.dtype, tuple(given.items()))


@functools.lru_cache(maxsize=1024)
def _result_dtype(chain: Chain, kind: str, autocast: torch.dtype, of_x: torch.dtype, given) -> torch.dtype:
    """`result_dtype()`, for two channels in each group, or two without a norm."""
    channels, tensors = 2 * max(chain.groups, 1), chain.tensors
    shapes = {"weight": (channels, 1)} | dict.fromkeys(tensors, (ROWS, channels))
    parameters = {
        name: torch.zeros(shapes.get(name, (channels,)), dtype=dtype, device=kind) for name, dtype in given
    }
    with torch.no_grad(), torch.autocast(kind, dtype=autocast):
        return chain_reference(chain, torch.zeros(ROWS, 1, dtype=of_x, device=kind), parameters).dtype


def norm_dtype(x: Tensor, parameters: Mapping[str, Tensor]) -> torch.dtype:
    """The dtype of torch.group_norm's result under the active autocast."""
    vectors = {name: value.new_zeros(ROWS) for name, value in parameters.items()}
    with torch.no_grad():
        return torch.group_norm(x.new_zeros(ROWS, ROWS), 1, **vectors).dtype


def divide(
    chain: Chain, dtype: torch.dtype, parameters: Mapping[str, Tensor | None]
) -> tuple[Chain | None, tuple[Pointwise, ...]]:
    """The part of the chain that is computed in `dtype`, and the operators that torch runs after it, from the
    first one that adds a tensor of another dtype. None if that one is before the norm, or the first of a
    chain without a norm."""

    def is_wide(step: Pointwise) -> bool:
        value = parameters.get(step.tensor) if step.tensor else None
        return isinstance(value, Tensor) and value.dtype != dtype

    if chain.has_norm and any(map(is_wide, chain.before)):
        return None, ()
    end = next((number for number, step in enumerate(chain.last) if is_wide(step)), len(chain.last))
    if end == len(chain.last):
        return chain, ()
    if end == 0 and not chain.has_norm:
        return None, ()
    kept, rest = chain.last[:end], chain.last[end:]
    return replace(chain, **({"after": kept} if chain.has_norm else {"before": kept})), rest
