"""Registers fgn's operators with torch.library, so that torch.compile and torch.export keep them whole.

torch.library takes tensors, strings and numbers, so a chain is flattened into them (`flat()`, `parse()`).
Each operator has a rule for fake tensors, and a formula for its gradients. A call that is not traced does not
come here: it goes straight to the kernels (`fgn.calls`, `fgn.gradients`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from cudasim.counting import counted
from fgn import transforms
from fgn.calls import run_chain
from fgn.chains import POINTWISE, Chain, Pointwise
from fgn.checks import check_groups, check_linear, check_shape, check_vectors
from fgn.native import repeated
from fgn.native.library import ffi
from fgn.precision import resolve, with_gradients
from fgn.structs import PRODUCT, index_of_version, library_of, pointer, raise_for, usable_in
from fgn.training import (
    Kept,
    forward_keeping,
    gradient_names,
    norm_forward,
    operand_names,
    run_backward,
    unread_tensors,
)

# ------------------------------------------------------------------------------------------------------------
# A chain as strings and numbers


def format_steps(steps: tuple[Pointwise, ...]) -> str:
    return " ".join([step.kind if step.operand is None else f"{step.kind}:{step.operand}" for step in steps])


def flat(chain: Chain) -> tuple:
    steps = chain.before + chain.after
    constants = [float(constant) for step in steps for constant in (step.a, step.b)]
    return (
        format_steps(chain.before),
        format_steps(chain.after),
        constants,
        chain.groups,
        chain.eps,
    )


def parse(before: str, after: str, constants: Sequence[float], groups: int, eps: float) -> Chain:
    """The chain that `flat()` has flattened. Equal numbers give the same object, so that its calls are kept;
    numbers that torch.compile does not know yet give a new object."""
    constants = tuple(constants)
    are_known = all(type(number) in (int, float) for number in (*constants, groups, eps))
    return (_parsed if are_known else _parsed.__wrapped__)(before, after, constants, groups, eps)


@functools.lru_cache(maxsize=1024)
def _parsed(before: str, after: str, constants: tuple[float, ...], groups: int, eps: float) -> Chain:
    remaining = iter(constants)

    def steps_of(steps: str) -> tuple[Pointwise, ...]:
        parts = (step.partition(":") for step in steps.split())
        return tuple(
            Pointwise(
                kind,
                next(remaining),
                next(remaining),
                **({POINTWISE[kind].operand: name} if name else {}),
            )
            for kind, _, name in parts
        )

    return Chain("", steps_of(before), groups, steps_of(after), eps)


# ------------------------------------------------------------------------------------------------------------
# The forwards


@transforms.operator_of_a_chain("fgn::chain_forward")
def chain_forward(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm_weight: Tensor | None,
    norm_bias: Tensor | None,
    channels: Sequence[Tensor],
    before: str,
    after: str,
    constants: Sequence[float],
    groups: int,
    eps: float,
    version: str | None,
    precision: str | None,
) -> Tensor:
    """before, after: the steps, separated by spaces, each kind or kind:operand. channels: the operands,
    vectors and tensors, each once, or None. constants: a, b of each step."""
    chain = parse(before, after, constants, groups, eps)
    others = dict(zip(dict.fromkeys(chain.operands), channels or (), strict=True))
    vectors = (weight, bias, norm_weight, norm_bias, *(others[name] for name in chain.operands))
    y = repeated.repeat(chain, x, vectors, version, precision)
    if y is not None:
        return y
    parameters = {"weight": weight, "bias": bias, "norm_weight": norm_weight, "norm_bias": norm_bias}
    return run_chain(chain, x, parameters | others, version, precision=precision)


@chain_forward.register_fake
def _(x, weight, bias, norm_weight, norm_bias, channels, before, after, constants, groups, *others):
    steps = (part.partition(":") for part in f"{before} {after}".split())
    whole = [POINTWISE[kind].operand == "tensor" for kind, _, name in steps if name]
    vectors = {"bias": bias, "norm_weight": norm_weight, "norm_bias": norm_bias}
    for number, (operand, tensor) in enumerate(zip(channels or (), whole, strict=True)):
        if tensor:
            check_shape(f"operand {number}", operand, x.shape[0], weight.shape[0])
        else:
            vectors[f"operand {number}"] = operand
    batch, _, out_features = check_linear(x, weight, vectors)
    if groups != 0:
        check_groups(groups, out_features)
    return x.new_empty(batch, out_features)


@torch.library.custom_op("fgn::linear", mutates_args=())
def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, version: str | None, precision: str | None
) -> Tensor:
    y = repeated.repeat(PRODUCT, x, (weight, bias, None, None), version, precision)
    if y is not None:
        return y
    return run_chain(PRODUCT, x, {"weight": weight, "bias": bias}, version, precision=precision)


@linear.register_fake
def _(x, weight, bias, *others):
    batch, _, out_features = check_linear(x, weight, {"bias": bias})
    return x.new_empty(batch, out_features)


def _index_or_last(library, version: str | None, device: torch.device) -> int:
    """The requested version, or the last one: every version has its own norm."""
    return library.fgn_version_count() - 1 if version is None else index_of_version(version, device)


@torch.library.custom_op("fgn::group_norm", mutates_args=())
def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float, version: str | None
) -> Tensor:
    check_shape("x", x, "batch", "channels")
    batch, channels = x.shape
    check_vectors(channels, x, {"weight": weight, "bias": bias})
    check_groups(num_groups, channels, "num_groups")
    dtype = x.dtype  # the kernels of a norm alone are float32's
    with library_of(x.device) as (library, stream):
        x, weight, bias = (usable_in(tensor, torch.float32) for tensor in (x, weight, bias))
        y = torch.empty_like(x)
        pointers = tuple(map(pointer, (x, weight, bias, y)))

        index = _index_or_last(library, version, x.device)
        if batch > 0:
            size = ffi().new("unsigned long long *")
            raise_for(library, library.fgn_group_norm_workspace_bytes(index, batch, num_groups, size))
            workspace = torch.empty(size[0], dtype=torch.uint8, device=x.device)
            sizes = (batch, channels, num_groups, eps)
            counted.allow(x=x, weight=weight, bias=bias, y=y, workspace=workspace)
            status = library.fgn_group_norm(index, *sizes, *pointers, pointer(workspace), size[0], stream)
            raise_for(library, status)
        return y.to(dtype)


@group_norm.register_fake
def _(x, num_groups, weight, bias, eps, version):
    check_shape("x", x, "batch", "channels")
    check_vectors(x.shape[1], x, {"weight": weight, "bias": bias})
    check_groups(num_groups, x.shape[1], "num_groups")
    return x.new_empty(x.shape)


transforms.register(chain_forward, linear, group_norm)


# ------------------------------------------------------------------------------------------------------------
# The forward that keeps what the backward needs, and the gradients


@transforms.operator_of_a_chain("fgn::chain_keeping")
def chain_keeping(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm_weight: Tensor | None,
    norm_bias: Tensor | None,
    channels: Sequence[Tensor],
    before: str,
    after: str,
    constants: Sequence[float],
    groups: int,
    eps: float,
    version: str | None,
    precision: str | None,
) -> tuple[Tensor, Tensor, Tensor]:
    chain = parse(before, after, constants, groups, eps)
    values = (weight, bias, norm_weight, norm_bias, *(channels or ()))
    parameters = dict(zip(gradient_names(chain)[1:], values, strict=True))
    y, kept = forward_keeping(chain, x, parameters, version, precision)
    return y, *kept


@chain_keeping.register_fake
def _(x, weight, bias, norm_weight, norm_bias, channels, before, after, constants, groups, *others):
    shape = x.shape[0], weight.shape[0]
    moments = x.new_empty((x.shape[0], groups, 2), dtype=torch.float32)
    return x.new_empty(shape), x.new_empty(shape), moments


@transforms.operator_of_a_chain("fgn::chain_backward")
def chain_backward(
    dy: Tensor,
    x: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    norm_weight: Tensor | None,
    norm_bias: Tensor | None,
    channels: Sequence[Tensor],
    product: Tensor | None,
    moments: Tensor | None,
    before: str,
    after: str,
    constants: Sequence[float],
    groups: int,
    eps: float,
    precision: str | None,
    wanted: str,
) -> list[Tensor]:
    """The gradients that `wanted` names, in its order. wanted: names, separated by spaces."""
    chain = parse(before, after, constants, groups, eps)
    values = (weight, bias, norm_weight, norm_bias, *(channels or ()))
    parameters = dict(zip(gradient_names(chain)[1:], values, strict=True))
    kept = None if product is None else Kept(product, moments)
    gradients = run_backward(chain, dy, x, kept, parameters, wanted.split(), precision=precision)
    # the vectors' are rows of one tensor, and what an operator returns may not share memory
    own = ("x", "weight")
    return [gradients[name] if name in own else gradients[name].clone() for name in wanted.split()]


@chain_backward.register_fake
def _(
    dy, x, weight, bias, norm_weight, norm_bias, channels, product, moments, before, after, constants, *rest
):
    chain = parse(before, after, constants, *rest[:2])
    named = dict(
        zip(gradient_names(chain)[1:], (weight, bias, norm_weight, norm_bias, *(channels or ())), strict=True)
    )
    like_x = dy.new_empty((dy.shape[0], weight.shape[1]))
    wanted = rest[-1].split()
    return [torch.empty_like(like_x if name == "x" else named[name]) for name in wanted]


def refuse_second_derivatives(ctx, *gradients):
    raise RuntimeError("fgn has no second derivatives: its gradients cannot be differentiated")


chain_backward.register_autograd(refuse_second_derivatives)


@torch.library.custom_op("fgn::group_norm_backward", mutates_args=())
def group_norm_backward(
    dy: Tensor,
    x: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    wanted: str,
) -> list[Tensor]:
    chain = Chain("", (), num_groups, (), eps)
    parameters = {"norm_weight": weight, "norm_bias": bias}
    _, moments = norm_forward(chain, x, parameters)
    gradients = run_backward(chain, dy, None, Kept(x, moments), parameters, wanted.split())
    return [gradients[name] if name == "product" else gradients[name].clone() for name in wanted.split()]


@group_norm_backward.register_fake
def _(dy, x, num_groups, weight, bias, eps, wanted):
    named = {"product": x, "norm_weight": weight, "norm_bias": bias}
    return [torch.empty_like(named[name]) for name in wanted.split()]


group_norm_backward.register_autograd(refuse_second_derivatives)


transforms.register_training(chain_keeping, chain_backward, group_norm_backward)


# ------------------------------------------------------------------------------------------------------------
# The operators' formulas for autograd


def _keep_inputs(ctx, inputs, output):
    """What the registered operators keep: their inputs, and for `chain_keeping` also its results."""
    tensors, channels, ctx.rest = inputs[:5], inputs[5] or (), inputs[6:]
    kept, ctx.unread = (), [False] * len(channels)
    if isinstance(output, tuple):
        kept = output[1:]
        ctx.mark_non_differentiable(*kept)
        chain = parse(*ctx.rest[:5])
        unread = unread_tensors(chain)
        ctx.unread = [name in unread for name in operand_names(chain)]
        channels = [None if one else value for one, value in zip(ctx.unread, channels, strict=True)]
    ctx.precision = with_gradients(resolve(ctx.rest[-1], inputs[0].dtype))
    ctx.channel_count = None if inputs[5] is None else len(channels)
    ctx.save_for_backward(*tensors, *channels, *kept)
    ctx.set_materialize_grads(False)


def _gradients_of_chain(ctx, dy, *others):
    """The gradients of the inputs of `chain_keeping`, or of `chain_forward`, which computes what it needs
    again."""
    before, after, constants, groups, eps, version, _ = ctx.rest
    count = ctx.channel_count or 0
    inputs, kept = ctx.saved_tensors[: 5 + count], ctx.saved_tensors[5 + count :]
    tensors = inputs[:5]
    channels = [kept[0] if one else value for one, value in zip(ctx.unread, inputs[5:], strict=True)]
    described = before, after, constants, groups, eps
    # torch treats an empty list of constants as one of tensors, and expects as many gradients.
    nothing = tuple([] if value == [] else None for value in ctx.rest)
    needed = [*ctx.needs_input_grad[:5]]
    channels_needed = _needed_channels(ctx.needs_input_grad[5], count)
    if dy is None:
        of_channels = None if ctx.channel_count is None else [None] * count
        return *(None for _ in tensors), of_channels, *nothing
    if not kept:
        kept = chain_keeping(*tensors, channels, *described, version, ctx.precision)[1:]
    names = gradient_names(parse(*described))
    wanted = [name for name, need in zip(names, needed + channels_needed, strict=True) if need]
    found = chain_backward(dy, *tensors, channels, *kept, *described, ctx.precision, " ".join(wanted))
    named = dict(zip(wanted, found, strict=True))
    gradients = [named.get(name) for name in names]
    return *gradients[:5], None if ctx.channel_count is None else gradients[5:], *nothing


def _needed_channels(needed, count: int) -> list[bool]:
    """For a list of tensors torch.library tells which need gradients, or gives one answer for all."""
    return [bool(one) for one in needed] if isinstance(needed, (list, tuple)) else [bool(needed)] * count


for _operator in (chain_keeping, chain_forward):
    _operator.register_autograd(_gradients_of_chain, setup_context=_keep_inputs)


def _keep_linear(ctx, inputs, output):
    x, weight, bias, _, precision = inputs
    ctx.precision = with_gradients(resolve(precision, x.dtype))
    ctx.save_for_backward(x, weight, bias)


def _gradients_of_linear(ctx, dy):
    x, weight, bias = ctx.saved_tensors
    names = ("x", "weight", "bias")
    wanted = [name for name, need in zip(names, ctx.needs_input_grad, strict=False) if need]
    found = chain_backward(
        dy, x, weight, bias, None, None, [], None, None, *flat(PRODUCT), ctx.precision, " ".join(wanted)
    )
    named = dict(zip(wanted, found, strict=True))
    return *(named.get(name) for name in names), None, None


linear.register_autograd(_gradients_of_linear, setup_context=_keep_linear)


def _keep_norm(ctx, inputs, output):
    x, ctx.groups, weight, bias, ctx.eps, _ = inputs
    ctx.save_for_backward(x, weight, bias)


def _gradients_of_norm(ctx, dy):
    """The gradients of `group_norm()`. The forward kept only x; the moments are computed again."""
    x, weight, bias = ctx.saved_tensors
    need_x, _, need_weight, need_bias, *_ = ctx.needs_input_grad
    needed = {"product": need_x, "norm_weight": need_weight, "norm_bias": need_bias}
    wanted = [name for name, need in needed.items() if need]
    found = group_norm_backward(dy, x, ctx.groups, weight, bias, ctx.eps, " ".join(wanted))
    named = dict(zip(wanted, found, strict=True))
    return named.get("product"), None, named.get("norm_weight"), named.get("norm_bias"), None, None


group_norm.register_autograd(_gradients_of_norm, setup_context=_keep_norm)
