"""Training: the forward that keeps what the backward needs, and the gradients.

    v = x W^T + bias,  h = before(v),  y = after(GroupNorm(h))

The forward is two launches, the product and all the rest. Beside x and the parameters it keeps v, in x's
dtype, and the mean and 1 / deviation of each row and group, 8 bytes. The backward computes the operators'
values from v once more. The backward is one pass that makes dL/dv and the gradients of all vectors, and two
products, dL/dx = dL/dv W and dL/dW = (dL/dv)^T x. Only the gradients that are asked for are computed. The
rungs are in `cuda_c/backward/`; `backward_versions()` lists them. A step takes "fused" where the products are
torch's, and else "split" or "transposed" (`fgn.training_calls.own_rung()`).

On a GPU the three products are torch's (cuBLAS). Two kinds are fgn's own: large float32 products in "ieee",
which are products of split halves, at several times cuBLAS's speed; and products in another precision than
torch's setting, which a call does not change, because the whole process has it. On the simulator all are
fgn's own.

A step that is like one before it finds its calls of the library built (`fgn.training_calls`), as
`fgn.native.repeated` does for calls without gradients.

Gradients are the same in every run: nothing is added up in an order that varies. There are no second
derivatives: differentiating a gradient raises RuntimeError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from threading import get_ident
from typing import NamedTuple

import torch
from torch import Tensor

from cudasim.building.library import is_counting
from cudasim.counting import counted
from fgn import functional, transforms
from fgn.chains import Chain, Shape
from fgn.functional import PRODUCT
from fgn.native import repeated
from fgn.native.library import ffi, for_device
from fgn.operators import POINTWISE
from fgn.precision import resolve, torch_multiplies, torch_multiplies_as
from fgn.training_calls import BackwardCall, NormCall, multiplies_by_torch, own_rung

VECTORS = ("bias", "norm_weight", "norm_bias")


class Kept(NamedTuple):
    """What the forward leaves for the backward.

    product: v, (batch, out_features), of x's dtype. moments: (batch, groups, 2) float32, mean and
    1 / deviation.
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


def _index_of(version: str) -> int:
    names = [row["name"] for row in backward_versions()]
    if version not in names:
        raise ValueError(f"version: expected None or one of {', '.join(names)}, got {version!r}")
    return names.index(version)


# ------------------------------------------------------------------------------------------------------------
# Calling the library


def _vector_dtype(chain: Chain, dtype: torch.dtype, parameters: Mapping[str, Tensor | None]) -> torch.dtype:
    """The type in which the kernels read all vectors: x's dtype where all have it, else float32."""
    others = ("weight", *chain.tensors)
    vectors = (value for name, value in parameters.items() if name not in others and value is not None)
    return dtype if all(vector.dtype == dtype for vector in vectors) else torch.float32


def _usable_parameters(chain: Chain, dtype: torch.dtype, parameters: Mapping[str, Tensor | None]):
    """The parameters as kernels read them, and the dtype of their vectors."""
    of_vectors = _vector_dtype(chain, dtype, parameters)
    wide = ("weight", *chain.tensors)
    usable = {
        name: functional._usable(value if value is None or name in wide else value.to(of_vectors))
        for name, value in parameters.items()
    }
    return usable, of_vectors


def norm_keeping(
    chain: Chain, v: Tensor, parameters: Mapping[str, Tensor | None], poison: bool = False
) -> tuple[Tensor, Tensor]:
    """y = after(GroupNorm(before(v))) and the moments that the backward needs. v: (batch, out_features)."""
    batch, channels = v.shape
    functional._check_groups(chain.groups, channels)
    with functional._library_of(v.device) as (library, _):
        v = functional._usable(v)
        parameters, of_vectors = _usable_parameters(chain, v.dtype, parameters)
        shape, precision = Shape(batch, 1, channels, chain.groups), resolve(None, v.dtype)
        counted.allow(**parameters)
        return NormCall(library, chain, shape, precision, v, parameters, of_vectors)(v, poison)


def _multiply(
    x: Tensor, weight: Tensor, bias: Tensor | None, version: str | None, precision: str | None
) -> Tensor:
    """v = x W^T + bias, by torch's product where that is expected to be faster and `version` names no
    other."""
    shape = Shape(*x.shape, weight.shape[0], 0)
    precision = resolve(precision, x.dtype)
    if version in (None, functional.LIBRARY) and functional.fits_torch_product(x, {"bias": bias}):
        if version == functional.LIBRARY:
            with torch_multiplies_as(precision):
                return torch.nn.functional.linear(x, weight, bias)
        if multiplies_by_torch(x.device, shape, precision):
            return torch.nn.functional.linear(x, weight, bias)
    return functional.linear(x, weight, bias, version, precision)


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
    batch, _, out_features = functional._check_linear(x, parameters["weight"], vectors)
    for name in chain.tensors:
        functional._check_kind(name, parameters[name], x.device, (x.dtype,))
        functional._check_shape(name, parameters[name], batch, out_features)
    if poison:
        v = functional.run_chain(PRODUCT, x, linear, version, poison, precision)
    else:
        with torch.no_grad():
            v = _multiply(x, *linear.values(), version, precision)
    y, moments = norm_keeping(chain, v, rest, poison)
    return y, Kept(v, moments)


def _backward_call(
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
    index = _index_of(version)
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
    as for `chain_forward()`; the weight is read for x's gradient. wanted: among "x", "weight", "bias",
    "norm_weight", "norm_bias", the chain's vectors and tensors, and "product" for dL/dv. version: one of
    `backward_versions()`, or None for what a step takes.

    Returns the wanted gradients, of the shape and dtype of what they belong to.
    """
    precision = resolve(precision, dy.dtype)
    in_features = 1 if parameters.get("weight") is None else parameters["weight"].shape[1]
    with functional._library_of(dy.device) as (library, _):
        x, dy = functional._usable(x), functional._usable(dy)
        given = parameters
        parameters, of_vectors = _usable_parameters(chain, dy.dtype, parameters)
        call = _backward_call(
            library, chain, dy, in_features, parameters, of_vectors, wanted, version, precision
        )
        counted.allow(**parameters)
        v, moments = kept or (None, None)
        found = call(dy, x, v, moments, parameters.get("weight"), poison)
    own = ("x", "weight", "product", *chain.tensors)
    return {name: value if name in own else value.to(given[name].dtype) for name, value in found.items()}


# ------------------------------------------------------------------------------------------------------------
# The steps that are kept


class _Step:
    """One kind of forward with gradients, and its backwards: what of them is no tensor.

    key: under which the step is kept, or None where it is not to be. norm: its second launch, where the step
    is kept. unread: the tensors that are not saved. multiply: makes v of x, the weight and the bias.
    backwards: the kept calls, by the gradients that are wanted, the thread, and whether torch is to be
    deterministic.
    """

    __slots__ = ("backwards", "chain", "key", "multiply", "names", "norm", "precision", "unread", "version")

    def __init__(self, chain: Chain, version: str | None, precision: str, key: tuple | None):
        self.chain, self.version, self.precision, self.key = chain, version, precision, key
        self.names, self.backwards = _names(chain), {}
        self.unread = unread_tensors(chain)
        self.norm: NormCall | None = None

    def fits(self, x: Tensor, parameters: Sequence[Tensor | None]) -> bool:
        """Whether kernels can use these tensors as they are; the struct points to them then."""
        number = self.norm.number
        if (number < 0 and is_counting.get()) or not repeated.usable_address(x) or x.get_device() != number:
            return False
        weight, bias, *others = parameters
        if not self.norm.point_to((None, None, *others)):
            return False
        if weight.get_device() != number or weight.layout is not torch.strided:
            return False
        return bias is None or (
            type(bias) in repeated.ORDINARY_TENSORS
            and bias.get_device() == number
            and bias.shape == weight.shape[:1]
        )

    def keep(self, v: Tensor, parameters: Sequence[Tensor | None]):
        """Keeps what a step like this one needs, where kernels use its parameters as they are."""
        chain, names = self.chain, functional.names_of(self.chain)
        of_vectors = [parameters[i] for i, name in enumerate(names) if i and name not in chain.tensors]
        types = {vector.dtype for vector in of_vectors if vector is not None}
        if len(types) > 1 or is_counting.get() or v.numel() == 0:
            return
        others = dict(zip(names[2:], parameters[2:], strict=True))
        library = for_device(v.device.type).load()
        shape = Shape(v.shape[0], 1, v.shape[1], chain.groups)
        of_vectors = types.pop() if types else v.dtype
        self.norm = NormCall(library, chain, shape, self.precision, v, others, of_vectors)
        self.multiply = _product_of_steps(v, parameters, self.version, self.precision)
        if len(_steps) >= repeated.MOST_CALLS:
            _steps.clear()
        _steps[self.key] = self

    def backward_call(self, needed: tuple[bool, ...], dy: Tensor, x, weight, others):
        """The kept call of a backward like this one, which points to these parameters now, and where each
        gradient is in its list. None where kernels cannot use one of the tensors as it is."""
        number = self.norm.number
        if (number < 0 and is_counting.get()) or type(dy) is not Tensor or dy.dtype is not self.norm.dtype:
            return None
        for tensor in (dy, x):
            if tensor is not None and (not repeated.usable_address(tensor) or tensor.get_device() != number):
                return None
        key = (needed, get_ident(), torch.are_deterministic_algorithms_enabled())
        found = self.backwards.get(key)
        if found is None:
            wanted = tuple(name for name, need in zip(self.names, needed, strict=True) if need)
            parameters = dict(zip(functional.names_of(self.chain), (weight, None, *others), strict=True))
            norm, in_features = self.norm, weight.shape[1]
            call = _backward_call(
                *(norm.library, self.chain, dy, in_features, parameters, norm.of_vectors, wanted),
                *(None, self.precision),
            )
            found = self.backwards[key] = (call, call.order_of(self.names))
        call = found[0]
        if call.by_torch and not torch_multiplies(self.precision):
            return None  # torch's setting has changed
        return found if call.point_to((weight, None, *others)) else None


def _product_of_steps(v: Tensor, parameters: Sequence[Tensor | None], version, precision: str):
    """What makes v in a step that is kept. Its key has what decides between torch's product and others."""
    weight, bias, *_ = parameters
    shape = Shape(v.shape[0], weight.shape[1], weight.shape[0], 0)
    if (
        version is None
        and functional.fits_torch_product(v, {"bias": bias})
        and multiplies_by_torch(v.device, shape, precision)
    ):
        return torch._C._nn.linear
    return partial(_multiply, version=version, precision=precision)


_steps: dict[tuple, _Step] = {}


def _at_work(call):
    """A context in which the library works on the call's device."""
    return _NOTHING if call.is_at_work() else functional._library_of(call.device)


_NOTHING = nullcontext()


# ------------------------------------------------------------------------------------------------------------
# Autograd: one pair of formulas, for calls that go straight to the kernels and for those by torch.library


def operand_names(chain: Chain) -> tuple[str, ...]:
    """The channel vectors and tensors of a chain's operators, each once."""
    return tuple(dict.fromkeys(chain.operands))


def unread_tensors(chain: Chain) -> frozenset[str]:
    """The tensors that the chain adds at its end, whose values no derivative reads: they are not kept. Where
    the library expects them, a backward gives it v, which has their shape and type."""
    end = len(chain.after)
    while end > 0 and POINTWISE[chain.after[end - 1].kind].constant_slopes:
        end -= 1
    read = {step.tensor for step in chain.before + chain.after[:end]}
    return frozenset(step.tensor for step in chain.after[end:] if step.tensor is not None) - read


def _names(chain: Chain) -> tuple[str, ...]:
    """The names of what a chain is differentiated with respect to, in the order of all signatures below."""
    return ("x", "weight", *VECTORS, *operand_names(chain))


class _Refused(torch.autograd.Function):
    """Passes gradients on, and refuses to be differentiated itself."""

    @staticmethod
    def forward(ctx, run, *tensors):
        return run()

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError("fgn has no second derivatives: its gradients cannot be differentiated")


class _ChainFunction(torch.autograd.Function):
    """A chain, or the product alone, of tensors in the order of `_names()`. step: what is kept of a step like
    this one, or the beginnings of one."""

    @staticmethod
    def forward(ctx, step, *tensors):
        x, weight, bias, *others = tensors
        if step.norm is not None:
            v = step.multiply(x, weight, bias)
            with _at_work(step.norm):
                y, moments = step.norm(v)
            kept = (v, moments)
        else:
            chain, version, precision = step.chain, step.version, step.precision
            named = dict(zip(step.names[1:], tensors[1:], strict=True))
            if chain.groups == 0:
                y, kept = functional.run_chain(PRODUCT, x, named, version, precision=precision), ()
            else:
                y, kept = forward_keeping(chain, x, named, version, precision)
                if step.key is not None:
                    step.keep(kept[0], tensors[1:])
        ctx.step, ctx.bias = step, None if bias is None else bias.dtype
        if step.unread:
            others = [
                None if name in step.unread else value
                for name, value in zip(step.names[3:], others, strict=True)
            ]
        ctx.save_for_backward(x if ctx.needs_input_grad[2] else None, weight, *others, *kept)
        ctx.set_materialize_grads(False)
        return y

    @staticmethod
    def backward(ctx, dy):
        step, needed = ctx.step, ctx.needs_input_grad[1:]
        if dy is None:
            return (None,) * (1 + len(needed))
        if torch._C._functorch.is_legacy_batchedtensor(dy):
            raise RuntimeError(
                "fgn has no batched gradients (torch.autograd.grad(…, is_grads_batched=True), jacobian(…, "
                "vectorize=True)): torch.func.jacrev and torch.func.vmap of torch.func.vjp work"
            )
        saved = ctx.saved_tensors
        run = partial(_gradients_of_step, step, ctx.bias, needed, dy, saved)
        return None, *(_Refused.apply(run, dy, *saved) if torch.is_grad_enabled() else run())


def _gradients_of_step(step: _Step, bias: torch.dtype | None, needed, dy: Tensor, saved) -> tuple:
    """The gradients in the order of `_names()`, None for what is not needed. saved: what the forward has
    saved. bias: its dtype."""
    names = step.names
    x, weight, *others = saved[: len(names) - 1]
    kept = saved[len(names) - 1 :]
    if step.unread:
        others = [
            kept[0] if name in step.unread else value for name, value in zip(names[3:], others, strict=True)
        ]
    if step.norm is not None:
        found = step.backward_call(needed, dy, x, weight, others)
        if found is not None:
            call, order = found
            with _at_work(call):
                gradients = call.gradients(dy, x, *kept, weight)
            return tuple([None if place is None else gradients[place] for place in order])
    wanted = [name for name, need in zip(names, needed, strict=True) if need]
    bias = None if bias is None else weight.new_empty(0, dtype=bias)
    named = dict(zip(names[1:], (weight, bias, *others), strict=True))
    kept = Kept(*kept) if kept else None
    gradients = run_backward(step.chain, dy, x, kept, named, wanted, precision=step.precision)
    return tuple([gradients.get(name) for name in names])


# torch.autograd.Function.apply() does two things before this: it unwraps tensors that a transform of
# torch.func has left behind, and refuses transforms. An ordinary call is in no transform.
_apply = super(torch.autograd.Function, _ChainFunction).apply


def _flat(chain: Chain) -> tuple:
    steps = chain.before + chain.after
    constants = [float(constant) for step in steps for constant in (step.a, step.b)]
    return (
        functional._format(chain.before),
        functional._format(chain.after),
        constants,
        chain.groups,
        chain.eps,
    )


@transforms.operator_of_a_chain("fgn::chain_keeping")
def _chain_keeping(
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
    chain = functional._parse(before, after, constants, groups, eps)
    values = (weight, bias, norm_weight, norm_bias, *(channels or ()))
    parameters = dict(zip(_names(chain)[1:], values, strict=True))
    y, kept = forward_keeping(chain, x, parameters, version, precision)
    return y, *kept


@_chain_keeping.register_fake
def _(x, weight, bias, norm_weight, norm_bias, channels, before, after, constants, groups, *others):
    shape = x.shape[0], weight.shape[0]
    moments = x.new_empty((x.shape[0], groups, 2), dtype=torch.float32)
    return x.new_empty(shape), x.new_empty(shape), moments


@transforms.operator_of_a_chain("fgn::chain_backward")
def _chain_backward(
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
    chain = functional._parse(before, after, constants, groups, eps)
    values = (weight, bias, norm_weight, norm_bias, *(channels or ()))
    parameters = dict(zip(_names(chain)[1:], values, strict=True))
    kept = None if product is None else Kept(product, moments)
    gradients = run_backward(chain, dy, x, kept, parameters, wanted.split(), precision=precision)
    # the vectors' are rows of one tensor, and what an operator returns may not share memory
    own = ("x", "weight")
    return [gradients[name] if name in own else gradients[name].clone() for name in wanted.split()]


@_chain_backward.register_fake
def _(
    dy, x, weight, bias, norm_weight, norm_bias, channels, product, moments, before, after, constants, *rest
):
    chain = functional._parse(before, after, constants, *rest[:2])
    named = dict(
        zip(_names(chain)[1:], (weight, bias, norm_weight, norm_bias, *(channels or ())), strict=True)
    )
    like_x = dy.new_empty((dy.shape[0], weight.shape[1]))
    wanted = rest[-1].split()
    return [torch.empty_like(like_x if name == "x" else named[name]) for name in wanted]


def _refuse(ctx, *gradients):
    raise RuntimeError("fgn has no second derivatives: its gradients cannot be differentiated")


_chain_backward.register_autograd(_refuse)


def _keep_inputs(ctx, inputs, output):
    """What the operators that torch.library knows keep: their inputs, and of `chain_keeping` its results."""
    tensors, channels, ctx.rest = inputs[:5], inputs[5] or (), inputs[6:]
    kept, ctx.unread = (), [False] * len(channels)
    if isinstance(output, tuple):
        kept = output[1:]
        ctx.mark_non_differentiable(*kept)
        chain = functional._parse(*ctx.rest[:5])
        unread = unread_tensors(chain)
        ctx.unread = [name in unread for name in operand_names(chain)]
        channels = [None if one else value for one, value in zip(ctx.unread, channels, strict=True)]
    ctx.precision = resolve(ctx.rest[-1], inputs[0].dtype)
    ctx.channel_count = None if inputs[5] is None else len(channels)
    ctx.save_for_backward(*tensors, *channels, *kept)
    ctx.set_materialize_grads(False)


def _gradients_of_chain(ctx, dy, *others):
    """The gradients of the inputs of `chain_keeping`, or of `chain_forward`, which makes what it needs
    again."""
    before, after, constants, groups, eps, version, _ = ctx.rest
    count = ctx.channel_count or 0
    inputs, kept = ctx.saved_tensors[: 5 + count], ctx.saved_tensors[5 + count :]
    tensors = inputs[:5]
    channels = [kept[0] if one else value for one, value in zip(ctx.unread, inputs[5:], strict=True)]
    described = before, after, constants, groups, eps
    # torch takes an empty list of constants for one of tensors, and wants as many gradients.
    nothing = tuple([] if value == [] else None for value in ctx.rest)
    needed = [*ctx.needs_input_grad[:5]]
    channels_needed = _needed_channels(ctx.needs_input_grad[5], count)
    if dy is None:
        of_channels = None if ctx.channel_count is None else [None] * count
        return *(None for _ in tensors), of_channels, *nothing
    if not kept:
        kept = _chain_keeping(*tensors, channels, *described, version, ctx.precision)[1:]
    chain = functional._parse(*described)
    wanted = [name for name, need in zip(_names(chain), needed + channels_needed, strict=True) if need]
    found = _chain_backward(dy, *tensors, channels, *kept, *described, ctx.precision, " ".join(wanted))
    named = dict(zip(wanted, found, strict=True))
    gradients = [named.get(name) for name in _names(chain)]
    return *gradients[:5], None if ctx.channel_count is None else gradients[5:], *nothing


def _needed_channels(needed, count: int) -> list[bool]:
    """torch.library says of a list of tensors which need gradients, or says one for all."""
    return [bool(one) for one in needed] if isinstance(needed, (list, tuple)) else [bool(needed)] * count


for _operator in (_chain_keeping, functional._chain_forward):
    _operator.register_autograd(_gradients_of_chain, setup_context=_keep_inputs)


def _keep_linear(ctx, inputs, output):
    x, weight, bias, _, precision = inputs
    ctx.precision = resolve(precision, x.dtype)
    ctx.save_for_backward(x, weight, bias)


def _gradients_of_linear(ctx, dy):
    x, weight, bias = ctx.saved_tensors
    names = ("x", "weight", "bias")
    wanted = [name for name, need in zip(names, ctx.needs_input_grad, strict=False) if need]
    found = _chain_backward(
        dy, x, weight, bias, None, None, [], None, None, *_flat(PRODUCT), ctx.precision, " ".join(wanted)
    )
    named = dict(zip(wanted, found, strict=True))
    return *(named.get(name) for name in names), None, None


functional._linear.register_autograd(_gradients_of_linear, setup_context=_keep_linear)


@torch.library.custom_op("fgn::group_norm_backward", mutates_args=())
def _group_norm_backward(
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
    _, moments = norm_keeping(chain, x, parameters)
    gradients = run_backward(chain, dy, None, Kept(x, moments), parameters, wanted.split())
    return [gradients[name] if name == "product" else gradients[name].clone() for name in wanted.split()]


@_group_norm_backward.register_fake
def _(dy, x, num_groups, weight, bias, eps, wanted):
    named = {"product": x, "norm_weight": weight, "norm_bias": bias}
    return [torch.empty_like(named[name]) for name in wanted.split()]


_group_norm_backward.register_autograd(_refuse)


def _keep_norm(ctx, inputs, output):
    x, ctx.groups, weight, bias, ctx.eps, _ = inputs
    ctx.save_for_backward(x, weight, bias)


def _gradients_of_norm(ctx, dy):
    """The gradients of `group_norm()`. Of its forward only x was kept; the moments are computed again."""
    x, weight, bias = ctx.saved_tensors
    need_x, _, need_weight, need_bias, *_ = ctx.needs_input_grad
    needed = {"product": need_x, "norm_weight": need_weight, "norm_bias": need_bias}
    wanted = [name for name, need in needed.items() if need]
    found = _group_norm_backward(dy, x, ctx.groups, weight, bias, ctx.eps, " ".join(wanted))
    named = dict(zip(wanted, found, strict=True))
    return named.get("product"), None, named.get("norm_weight"), named.get("norm_bias"), None, None


functional._group_norm.register_autograd(_gradients_of_norm, setup_context=_keep_norm)


# ------------------------------------------------------------------------------------------------------------
# Under torch.func: grad, vjp, vmap of them. torch.library's formulas cannot be transformed, and these can.


class _TransformedBackward(torch.autograd.Function):
    """An operator that computes gradients, and refuses to be differentiated itself."""

    generate_vmap_rule = True

    @staticmethod
    def forward(call, *tensors):
        return tuple(call(*tensors))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError("fgn has no second derivatives: its gradients cannot be differentiated")


class _Transformed(torch.autograd.Function):
    """One of fgn's operators. forward: a function of the tensors that returns y and what it keeps. backward:
    a function of dy, which of the gradients are wanted, the tensors and what was kept; it returns the wanted
    ones."""

    generate_vmap_rule = True

    @staticmethod
    def forward(forward, backward, *tensors):
        return forward(*tensors)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.of_inputs, *tensors = inputs
        ctx.count, kept = len(tensors), output[1:]
        ctx.mark_non_differentiable(*kept)
        ctx.save_for_backward(*tensors, *kept)

    @staticmethod
    def backward(ctx, dy, *_):
        saved = ctx.saved_tensors
        needed = ctx.needs_input_grad[2:]

        def call(dy, *saved):
            return ctx.of_inputs(dy, needed, saved[: ctx.count], saved[ctx.count :])

        found = iter(_TransformedBackward.apply(call, dy, *saved))
        return None, None, *(next(found) if need else None for need in needed)


def _transformed_chain(chain: Chain, version: str | None, precision: str | None, *tensors) -> Tensor:
    """A chain of tensors in the order of `_names()`, or the product alone, under torch.func."""
    described, names = _flat(chain), _names(chain)
    precision = resolve(precision, tensors[0].dtype)

    def forward(*tensors):
        if chain.groups == 0:
            return (functional._linear(*tensors[:3], version, precision),)
        return _chain_keeping(*tensors[:5], list(tensors[5:]), *described, version, precision)

    def backward(dy, needed, tensors, kept):
        wanted = " ".join(name for name, need in zip(names, needed, strict=True) if need)
        kept = kept or (None, None)
        return _chain_backward(dy, *tensors[:5], list(tensors[5:]), *kept, *described, precision, wanted)

    return _Transformed.apply(forward, backward, *tensors)[0]


def _transformed_norm(x, num_groups: int, weight, bias, eps: float, version: str | None) -> Tensor:
    """`fgn.functional.group_norm()` under a transform of torch.func."""
    names = ("product", "norm_weight", "norm_bias")

    def forward(x, weight, bias):
        return (functional._group_norm(x, num_groups, weight, bias, eps, version),)

    def backward(dy, needed, tensors, kept):
        x, weight, bias = tensors
        wanted = " ".join(name for name, need in zip(names, needed, strict=True) if need)
        return _group_norm_backward(dy, x, num_groups, weight, bias, eps, wanted)

    return _Transformed.apply(forward, backward, x, weight, bias)[0]


transforms.register_training(_chain_keeping, _chain_backward, _group_norm_backward)


# ------------------------------------------------------------------------------------------------------------
# The calls


def chain_with_gradients(
    chain: Chain,
    x: Tensor,
    parameters: Mapping[str, Tensor | None],
    version: str | None,
    precision: str | None,
    ordinary: bool,
) -> Tensor:
    """`chain_forward()`, or the product alone, of tensors that require grad. ordinary: nobody traces the
    call."""
    tensors = [x, *(parameters.get(name) for name in _names(chain)[1:])]
    if ordinary:
        key = None
        shares = len(tensors) < 5 + len(chain.operands)  # an operand of several operators is one tensor
        if chain.groups > 0 and not shares and repeated.usable_address(x):
            key = repeated.key_of(chain, x, tuple(tensors[1:]), version, precision)
        return _ChainFunction.apply(_Step(chain, version, resolve(precision, x.dtype), key), *tensors)
    if transforms.is_transformed():
        return _transformed_chain(chain, version, precision, *tensors)
    if chain.groups == 0:
        return functional._linear(*tensors[:3], version, precision)
    return _chain_keeping(*tensors[:5], tensors[5:], *_flat(chain), version, precision)[0]


def _repeat_with_gradients(chain: Chain, x: Tensor, parameters: tuple, version, precision, key: tuple):
    """A forward with gradients that is like one before it; None for any other."""
    try:
        step = _steps.get(key)
    except TypeError:  # no name of a version
        return None
    return _apply(step, x, *parameters) if step is not None and step.fits(x, parameters) else None


functional._with_gradients = chain_with_gradients
repeated.repeat_with_gradients = _repeat_with_gradients
functional._norm_in_transforms = _transformed_norm
