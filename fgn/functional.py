"""The operators: a whole chain, its matrix product alone, its GroupNorm alone.

As in torch, a tensor's device decides where it runs: a CPU tensor on the simulator, a CUDA tensor on its GPU,
on the current stream. x and the weight are float32, float16 or bfloat16, and so is the result; vectors are of
that type too, or float32. A tensor that is not contiguous is copied first. Every argument is checked before
anything is launched:

    TypeError     not a tensor, or of a dtype or a layout that is not expected
    ValueError    a shape, a count or a version that nothing here accepts
    RuntimeError  tensors on different devices; a version that does not run this chain or this device; an
                  error of the CUDA runtime or of the simulator, with its message

Where grad mode is on and a tensor requires grad, the result has gradients (`fgn.gradients`). The operators
are registered with torch.library (`fgn.torch_operators`), so torch.compile keeps them whole in its graph.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fgn import autocast, gradients, torch_func, torch_operators, transforms
from fgn.calls import LIBRARY, can_multiply, fits_torch_product, run_chain
from fgn.chains import Chain
from fgn.checks import check_call, check_choice, check_input, check_kind
from fgn.native import repeated
from fgn.precision import fp8_or_own
from fgn.reference import apply_steps, chain_reference
from fgn.structs import C_TYPES, PRODUCT, default_version, launch_count, names_of, plan_of, prepares

__all__ = [
    "C_TYPES",
    "LIBRARY",
    "PRODUCT",
    "can_multiply",
    "chain_forward",
    "check_choice",
    "check_input",
    "default_version",
    "fits_torch_product",
    "forward_in_autocast",
    "group_norm",
    "launch_count",
    "linear",
    "names_of",
    "plan_of",
    "prepares",
    "run_chain",
]


def _has_gradient(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def _are_ordinary(*tensors: Tensor) -> bool:
    """Whether torch.library would only call the kernels."""
    return tensors[0].device.type in ("cpu", "cuda") and all(
        type(tensor) in repeated.ORDINARY_TENSORS for tensor in tensors
    )


def chain_forward(
    chain: Chain,
    x: Tensor,
    parameters: Mapping[str, Tensor | None],
    version: str | None = None,
    precision: str | None = None,
) -> Tensor:
    """y = after(GroupNorm(before(x W^T + bias))), or without a norm y = before(x W^T + bias).

    x: (batch, in_features). parameters: "weight" (out_features, in_features); "bias", "norm_weight" and
    "norm_bias" (out_features,), each of which may be missing or None; and (out_features,) for each name in
    `chain.channels`, and (batch, out_features) for each name in `chain.tensors`. x, the weight and tensors
    are float32, float16 or bfloat16, all of one dtype; vectors are of that dtype or float32.

    version: a name from `fgn.versions()`; None takes the version that `fgn.tune()` has found fastest for such
    a call or else the one that the models of time (`cuda_c/choice.cu`) expect to be fastest, among those that
    run on x's device. precision: for float32, "ieee" or "tf32", which permits rounding factors to tf32 and
    does not demand it; None follows `torch.backends.cuda.matmul`. For bfloat16, "bf16", or "fp8", which
    permits rounding factors to 8-bit floats with a scale for each row (`cuda_c/hopper/quantise.h`) where that
    is faster; a call with gradients does not use it.

    Returns y: (batch, out_features), of x's dtype, or under torch.autocast of the dtype that torch's
    operators would give y (`fgn.autocast`).
    """
    if not isinstance(chain, Chain):
        raise TypeError(f"chain: expected a Chain, got {type(chain).__name__}")
    if type(parameters) is not dict and not isinstance(parameters, Mapping):
        raise TypeError(f"parameters: expected tensors by their names, got {type(parameters).__name__}")
    ordinary = repeated.is_ordinary()
    if ordinary:
        get = parameters.get
        tensors = (
            get("weight"),
            get("bias"),
            get("norm_weight"),
            get("norm_bias"),
            *map(get, chain.operands),
        )
        y = repeated.repeat(chain, x, tensors, version, precision, gradients.repeat)
        if y is not None:
            return y
    if not ordinary:
        transforms.refuse_forward_mode(x, *parameters.values())
    missing = [name for name in ("weight", *chain.operands) if parameters.get(name) is None]
    if missing:
        names = ", ".join(parameters) or "none"
        raise ValueError(f"parameters: expected {missing[0]!r} among them, got {names}")
    given = {name: value for name, value in parameters.items() if value is not None}
    of_norm = ("norm_weight", "norm_bias") if chain.has_norm else ()
    known = ("weight", "bias", *of_norm, *chain.operands)
    for name in given:
        if name not in known:
            raise ValueError(f"parameters: expected some of {', '.join(known)}, got {name!r}")
    if not ordinary and autocast.dtype_for(x) is not None:
        result = autocast.result_dtype(chain, x, parameters)
        return forward_in_autocast(chain, x, parameters, version, result, fp8_or_own(precision))
    check_call(version, precision, x, given, chain.tensors)
    ordinary = ordinary and _are_ordinary(x, *given.values())
    if _has_gradient(x, *given.values()):
        return gradients.chain_with_gradients(chain, x, parameters, version, precision, ordinary)
    if ordinary:
        return run_chain(chain, x, parameters, version, precision=precision)
    return torch_operators.chain_forward(
        x,
        parameters["weight"],
        parameters.get("bias"),
        parameters.get("norm_weight"),
        parameters.get("norm_bias"),
        [parameters[name] for name in dict.fromkeys(chain.operands)],
        *torch_operators.flat(chain),
        version,
        precision,
    )


def forward_in_autocast(
    chain: Chain,
    x: Tensor,
    parameters: Mapping[str, Tensor | None],
    version: str | None,
    result: torch.dtype,
    precision: str | None = None,
) -> Tensor:
    """`chain_forward()` under an active torch.autocast. result: the result's dtype."""
    dtype = autocast.dtype_for(x)
    head, rest = autocast.divide(chain, dtype, parameters)
    if head is None:
        return chain_reference(chain, x, parameters).to(result)
    names = ("weight", "bias", "norm_weight", "norm_bias", *head.operands)
    cast = autocast.cast(
        dtype, {name: parameters.get(name) for name in names}, of_x=("weight", *head.tensors)
    )
    with torch.autocast(x.device.type, enabled=False):
        y = chain_forward(head, x.to(dtype), cast, version, precision)
    return apply_steps(rest, y.to(result), parameters).to(result)


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    version: str | None = None,
    precision: str | None = None,
) -> Tensor:
    """y = x W^T + bias by a version's matrix product alone.

    x: (batch, in_features), or with several dimensions before in_features, as nn.Linear takes it; weight:
    (out_features, in_features), bias: (out_features,) or None; version and precision as in `chain_forward()`.
    Returns (batch, out_features), or x's dimensions before in_features and out_features, of x's dtype.
    """
    ordinary = repeated.is_ordinary()
    if ordinary:
        y = repeated.repeat(PRODUCT, x, (weight, bias, None, None), version, precision, gradients.repeat)
        if y is not None:
            return y
    if isinstance(x, Tensor) and x.dim() > 2:
        return linear(x.flatten(0, -2), weight, bias, version, precision).unflatten(0, x.shape[:-1])
    given = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
    if not ordinary:
        transforms.refuse_forward_mode(x, weight, bias)
        dtype = autocast.dtype_for(x)
        if dtype is not None:
            cast = autocast.cast(dtype, given, ("weight",))
            with torch.autocast(x.device.type, enabled=False):
                return linear(x.to(dtype), **cast, version=version, precision=fp8_or_own(precision))
    check_call(version, precision, x, given)
    ordinary = ordinary and _are_ordinary(x, *given.values())
    if _has_gradient(x, weight, bias):
        return gradients.chain_with_gradients(PRODUCT, x, given, version, precision, ordinary)
    if ordinary:
        return run_chain(PRODUCT, x, given, version, precision=precision)
    return torch_operators.linear(x, weight, bias, version, precision)


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    version: str | None = None,
) -> Tensor:
    """GroupNorm by a version's GroupNorm alone: statistics per sample and group, biased variance.

    x: (batch, channels), float32, float16 or bfloat16; num_groups divides channels; weight and bias:
    (channels,) or None, of that dtype or float32. Returns (batch, channels), of x's dtype; under
    torch.autocast of torch.group_norm's dtype. The statistics are computed in float32 for every dtype.
    """
    transforms.refuse_forward_mode(x, weight, bias)
    given = {name: value for name, value in (("weight", weight), ("bias", bias)) if value is not None}
    check_call(version, None, x, {})
    for name, value in given.items():
        check_kind(name, value, x.device, (x.dtype, torch.float32))
    result = x.dtype if autocast.dtype_for(x) is None else autocast.norm_dtype(x, given)
    if result.itemsize > x.dtype.itemsize:
        x, weight, bias = (None if value is None else value.to(result) for value in (x, weight, bias))
    call = torch_func.norm_in_transforms if transforms.is_transformed() else torch_operators.group_norm
    return call(x, num_groups, weight, bias, eps, version).to(result)
