"""Training: the forward that keeps what the backward needs, and the gradients.

    v = x W^T + bias,  h = before(v),  y = after(GroupNorm(h))

The forward is two launches, the product and the rest. Beside x and the parameters it keeps v, in x's dtype,
and the mean and 1 / deviation of each row and group, 8 bytes. The backward computes the operators' values
from v again. It is one pass for dL/dv and the gradients of all vectors, and two products, dL/dx = dL/dv W and
dL/dW = (dL/dv)^T x. Only requested gradients are computed. The rungs are in `cuda_c/backward/`;
`backward_versions()` lists them. A step takes "fused" if the products are torch's, and otherwise "split" or
"transposed" (`fgn.training_calls.own_rung()`).

On a GPU the three products are torch's (cuBLAS), except two kinds, which are fgn's own: large float32
products in "ieee", computed from split halves at several times cuBLAS's speed; and products in another
precision than torch's global setting, which a call does not change. On the simulator all are fgn's own.

This module calls the library: `fgn.gradients` builds autograd's formulas on it, `fgn.torch_operators` those
of torch.library, `fgn.torch_func` those of torch.func.

Gradients are the same in every run: all sums have a fixed order. There are no second derivatives:
differentiating a gradient raises RuntimeError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cudasim.counting import counted
from fgn import calls
from fgn.calls import LIBRARY, fits_torch_product, run_chain
from fgn.chains import Chain, Shape
from fgn.checks import check_groups, check_kind, check_linear, check_shape
from fgn.native.library import ffi, for_device
from fgn.operators import POINTWISE
from fgn.precision import resolve, torch_linear, torch_multiplies_as
from fgn.structs import PRODUCT, index_among, library_of, usable
from fgn.training_calls import BackwardCall, NormCall, multiplies_by_torch, own_rung

VECTORS = ("bias", "norm_weight", "norm_bias")


class Kept(NamedTuple):
    """What the forward leaves for the backward.

    product: v, (batch, out_features), of x's dtype. moments: (batch, groups, 2) float32, mean and
    1 / deviation; without a norm it has no elements.
    """

    product: Tensor
    moments: Tensor


def backward_versions() -> list[dict[str, str]]:
    """The rungs of the backward, from the naive one up: name, gradient and product (files in `cuda_c/`),
    summary, needs."""
    library = for_device("cpu").load()
    rows = (library.fgn_backward_at(index) for index in range(library.fgn_backward_count()))
    fields = ("name", "gradient", "product", "summary", "needs")
    return [{field: ffi().string(getattr(row, field)).decode() for field in fields} for row in rows]


# ------------------------------------------------------------------------------------------------------------
# What a chain is differentiated with respect to


def operand_names(chain: Chain) -> tuple[str, ...]:
    """The channel vectors and tensors of a chain's operators, each once."""
    return tuple(dict.fromkeys(chain.operands))


def unread_tensors(chain: Chain) -> frozenset[str]:
    """The tensors that the chain adds at its end: no derivative reads their values, so they are not kept.
    Where the library expects them, a backward passes v, which has their shape and type."""
    steps, end = chain.before + chain.after, len(chain.before + chain.after)
    first = end - len(chain.last)
    while end > first and POINTWISE[steps[end - 1].kind].constant_slopes:
        end -= 1
    read = {step.tensor for step in steps[:end]}
    return frozenset(step.tensor for step in steps[end:] if step.tensor is not None) - read


def gradient_names(chain: Chain) -> tuple[str, ...]:
    """The names of a chain's inputs for derivatives, in the order of all signatures below."""
    return ("x", "weight", *VECTORS, *operand_names(chain))


# ------------------------------------------------------------------------------------------------------------
# Calling the library


def _vector_dtype(chain: Chain, dtype: torch.dtype, parameters: Mapping[str, Tensor | None]) -> torch.dtype:
    """The type in which the kernels read all vectors: x's dtype if all have it, else float32."""
    others = ("weight", *chain.tensors)
    vectors = (value for name, value in parameters.items() if name not in others and value is not None)
    return dtype if all(vector.dtype == dtype for vector in vectors) else torch.float32


def _usable_parameters(chain: Chain, dtype: torch.dtype, parameters: Mapping[str, Tensor | None]):
    """The parameters in the kernels' form, and the dtype of their vectors."""
    of_vectors = _vector_dtype(chain, dtype, parameters)
    wide = ("weight", *chain.tensors)
    ready = {
        name: usable(value if value is None or name in wide else value.to(of_vectors))
        for name, value in parameters.items()
    }
    return ready, of_vectors


def norm_forward(
    chain: Chain, v: Tensor, parameters: Mapping[str, Tensor | None], poison: bool = False
) -> tuple[Tensor, Tensor]:
    """y = after(GroupNorm(before(v))) and the moments that the backward needs. v: (batch, out_features)."""
    batch, channels = v.shape
    if chain.has_norm:
        check_groups(chain.groups, channels)
    with library_of(v.device) as (library, _):
        v = usable(v)
        parameters, of_vectors = _usable_parameters(chain, v.dtype, parameters)
        shape, precision = Shape(batch, 1, channels, chain.groups), resolve(None, v.dtype)
        counted.allow(**parameters)
        return NormCall(library, chain, shape, precision, v, parameters, of_vectors)(v, poison=poison)


def multiply_in_training(
    x: Tensor, weight: Tensor, bias: Tensor | None, version: str | None, precision: str | None
) -> Tensor:
    """v = x W^T + bias, by torch's product if that is expected to be faster and `version` names no other."""
    shape = Shape(*x.shape, weight.shape[0], 0)
    precision = resolve(precision, x.dtype)
    if version in (None, LIBRARY) and fits_torch_product(x, {"bias": bias}):
        if version == LIBRARY:
            with torch_multiplies_as(precision):
                return torch_linear(x, weight, bias)
        if multiplies_by_torch(x.device, shape, precision):
            return torch_linear(x, weight, bias)
    return calls.multiply(x, weight, bias, version, precision)


def forward_keeping(
    chain: Chain,
    x: Tensor,
    parameters: Mapping[str, Tensor | None],
    version: str | None = None,
    precision: str | None = None,
    poison: bool = False,
) -> tuple[Tensor, Kept]:
    """`chain_forward()` in two launches, with what the backward needs. `version` multiplies."""
    linear = {"weight": parameters["weight"], "bias": parameters.get("bias")}
    rest = {name: value for name, value in parameters.items() if name not in linear}
    vectors = {name: value for name, value in parameters.items() if name not in ("weight", *chain.tensors)}
    batch, _, out_features = check_linear(x, parameters["weight"], vectors)
    for name in chain.tensors:
        check_kind(name, parameters[name], x.device, (x.dtype,))
        check_shape(name, parameters[name], batch, out_features)
    if poison:
        v = run_chain(PRODUCT, x, linear, version, poison, precision)
    else:
        with torch.no_grad():
            v = multiply_in_training(x, *linear.values(), version, precision)
    y, moments = norm_forward(chain, v, rest, poison)
    return y, Kept(v, moments)


def backward_call(
    library,
    chain: Chain,
    dy: Tensor,
    in_features: int,
    parameters: Mapping[str, Tensor | None],
    of_vectors: torch.dtype,
    wanted: Sequence[str],
    version: str | None,
    precision: str,
) -> BackwardCall:
    batch, out_features = dy.shape
    shape = Shape(batch, in_features, out_features, chain.groups)
    multiplies = "x" in wanted or "weight" in wanted
    by_torch = version is None and multiplies and multiplies_by_torch(dy.device, shape, precision)
    if version is None:
        version = "fused" if by_torch or not multiplies else own_rung(dy.device, shape, precision)
    index = index_among([row["name"] for row in backward_versions()], version)
    return BackwardCall(wanted, index, by_torch, library, chain, shape, precision, dy, parameters, of_vectors)


def run_backward(
    chain: Chain,
    dy: Tensor,
    x: Tensor | None,
    kept: Kept | None,
    parameters: Mapping[str, Tensor | None],
    wanted: Sequence[str],
    version: str | None = None,
    precision: str | None = None,
    poison: bool = False,
) -> dict[str, Tensor]:
    """The gradients of a loss L with respect to x and the parameters, from dy = dL/dy.

    chain: `PRODUCT` is the product alone, which keeps nothing for the backward (kept: None). dy: (batch,
    out_features), of x's dtype. x is read for the weight's gradient, and may be None without it. parameters:
    as for `chain_forward()`; the weight is read for x's gradient. wanted: some of "x", "weight", "bias",
    "norm_weight", "norm_bias", the chain's vectors and tensors, and "product" for dL/dv. version: one of
    `backward_versions()`, or None for a step's default.

    Returns the wanted gradients, with the shapes and dtypes of their tensors.
    """
    precision = resolve(precision, dy.dtype)
    in_features = 1 if parameters.get("weight") is None else parameters["weight"].shape[1]
    with library_of(dy.device) as (library, _):
        x, dy = usable(x), usable(dy)
        given = parameters
        parameters, of_vectors = _usable_parameters(chain, dy.dtype, parameters)
        call = backward_call(
            library, chain, dy, in_features, parameters, of_vectors, wanted, version, precision
        )
        counted.allow(**parameters)
        v, moments = kept or (None, None)
        found = call(dy, x, v, moments, parameters.get("weight"), poison)
    own = ("x", "weight", "product", *chain.tensors)
    return {name: value if name in own else value.to(given[name].dtype) for name, value in found.items()}
