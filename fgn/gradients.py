"""Calls with gradients: autograd's formulas for those that go straight to the kernels, and kept steps.

A step is a forward with gradients and its backwards. One that is like a step before it finds its calls of the
library built, as `fgn.native.repeated` does for calls without gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from threading import get_ident

import torch
from torch import Tensor

from cudasim.building.library import is_counting
from fgn import torch_func, torch_operators, transforms
from fgn.calls import fits_torch_product, run_chain
from fgn.chains import Chain, Shape
from fgn.native import cublas, repeated, replays
from fgn.native.library import for_device
from fgn.precision import resolve, torch_linear, torch_multiplies, with_gradients
from fgn.structs import PRODUCT, library_of, names_of, raise_for, usable
from fgn.training import (
    Kept,
    backward_call,
    forward_keeping,
    gradient_names,
    multiply_in_training,
    run_backward,
    unread_tensors,
)
from fgn.training_calls import NormCall, multiplies_by_torch

# ------------------------------------------------------------------------------------------------------------
# The steps that are kept


class _Step:
    """One kind of forward with gradients, and its backwards: what of them is no tensor.

    key: under which the step is kept, or None where it is not to be. norm: its second launch, where the step
    is kept. unread: the tensors that are not saved. multiply: makes v of x, the weight and the bias; product:
    cuBLAS's for the same, or None; replays: of it and the launch after it.
    for_parameters: whether one of the kept step's parameters requires grad. backwards: the kept calls, by the
    gradients that are wanted, the thread, and whether torch is to be deterministic.
    """

    __slots__ = (
        *("backwards", "chain", "for_parameters", "key", "multiply", "names", "norm", "precision"),
        *("product", "replays", "unread", "version"),
    )

    def __init__(self, chain: Chain, version: str | None, precision: str, key: tuple | None):
        self.chain, self.version, self.precision, self.key = chain, version, precision, key
        self.names, self.backwards = gradient_names(chain), {}
        self.unread = unread_tensors(chain)
        self.norm: NormCall | None = None

    def now(self, x: Tensor, parameters: tuple[Tensor | None, ...], y_layout=None) -> Tensor | None:
        """The result of a forward like this one, where kernels can use these tensors as they are; the struct
        points to them then. None where they cannot, or where no gradient is wanted. x: of the kept step's
        sizes, dtype and device; or of more dimensions, with its rows, and then y_layout is y's sizes and
        strides."""
        norm = self.norm
        if not (self.for_parameters or x.requires_grad) or (norm.number < 0 and is_counting.get()):
            return None
        if not repeated.usable_address(x) or not norm.point_to(parameters):
            return None
        return _apply(self, y_layout, x, *parameters)

    def keep(self, v: Tensor, parameters: Sequence[Tensor | None]):
        """Keeps what a step like this one needs, where kernels use its parameters as they are."""
        chain, names = self.chain, names_of(self.chain)
        of_vectors = [parameters[i] for i, name in enumerate(names) if i and name not in chain.tensors]
        types = {vector.dtype for vector in of_vectors if vector is not None}
        if len(types) > 1 or is_counting.get() or v.numel() == 0:
            return
        library = for_device(v.device.type).load()
        shape = Shape(v.shape[0], 1, v.shape[1], chain.groups)
        of_vectors = types.pop() if types else v.dtype
        named = dict(zip(names, parameters, strict=True))
        self.norm = NormCall(library, chain, shape, self.precision, v, named, of_vectors)
        self.multiply = _product_of_steps(v, parameters, self.version, self.precision)
        self.product = None
        if self.multiply is torch_linear:
            of = self.norm.number
            self.product = cublas.linear(v.shape[0], *parameters[:2], of, self.precision)
            self.replays = replays.for_launches(library, of, self._launch)
        self.for_parameters = any(_wanted(parameters))
        if len(_steps) >= repeated.MOST_CALLS:
            _steps.clear()
        _steps[self.key] = self

    def launches(self, x: Tensor, bias: Tensor | None, y_layout):
        """v, y and the moments, with cuBLAS's product."""
        norm, size = self.norm, self.product.bytes
        v = norm.empty(*norm.of_y, x.dtype)
        y = norm.empty(*(y_layout or norm.of_y), x.dtype)
        moments = norm.empty(*norm.of_moments, torch.float32)
        memory = norm.empty((size,), (1,), torch.uint8) if size else None
        of_bias = 0 if bias is None else bias.data_ptr()
        of_memory = 0 if memory is None else memory.data_ptr()
        at = x.data_ptr(), of_bias, of_memory, v.data_ptr(), y.data_ptr(), moments.data_ptr()
        at += tuple(norm.arguments.pointers)
        self.replays(at, norm.stream())
        return v, y, moments

    def _launch(self, addresses: tuple, stream: int):
        x, bias, memory, v, y, moments, weight, *_ = addresses
        self.product(x, weight, bias, v, memory, stream)
        status = self.norm.function(v, y, moments, stream)
        if status:
            raise_for(self.norm.library, status)

    def backward_call(self, needed: tuple[bool, ...], dy: Tensor, x, weight, others):
        """The kept call of a backward like this one, which points to these parameters now, and where each
        gradient is in its list. None where kernels cannot use one of the tensors as it is. dy: as kernels
        read it; autograd has seen to its sizes, dtype and device."""
        if (self.norm.number < 0 and is_counting.get()) or type(dy) is not Tensor:
            return None
        if x is not None and not repeated.usable_address(x):
            return None
        key = (needed, get_ident(), _deterministic())
        found = self.backwards.get(key)
        if found is None:
            wanted = tuple(name for name, need in zip(self.names, needed, strict=True) if need)
            parameters = dict(zip(names_of(self.chain), (weight, None, *others), strict=True))
            norm, in_features = self.norm, weight.shape[1]
            call = backward_call(
                *(norm.library, self.chain, dy, in_features, parameters, norm.of_vectors, wanted),
                *(None, self.precision),
            )
            call.keep()
            found = self.backwards[key] = (call, call.order_of(self.names))
        call = found[0]
        if call.by_torch and not torch_multiplies(self.precision):
            return None  # torch's setting has changed
        return found if call.point_to((weight, None, *others)) else None


def _wanted(parameters: Sequence[Tensor | None]) -> list[bool]:
    return [one is not None and one.requires_grad for one in parameters]


def _product_of_steps(v: Tensor, parameters: Sequence[Tensor | None], version, precision: str):
    """What makes v in a step that is kept. Its key has what decides between torch's product and others."""
    weight, bias, *_ = parameters
    shape = Shape(v.shape[0], weight.shape[1], weight.shape[0], 0)
    if (
        version is None
        and fits_torch_product(v, {"bias": bias})
        and multiplies_by_torch(v.device, shape, precision)
    ):
        return torch_linear
    return partial(multiply_in_training, version=version, precision=precision)


_steps: dict[tuple, _Step] = {}
_deterministic = torch._C._get_deterministic_algorithms


def _at_work(call, run, *arguments):
    """What `run` returns of these arguments while the library works on the call's device."""
    if call.is_at_work():
        return run(*arguments)
    with library_of(call.device):
        return run(*arguments)


# ------------------------------------------------------------------------------------------------------------
# Autograd


class _Refused(torch.autograd.Function):
    """Passes gradients on, and refuses to be differentiated itself."""

    @staticmethod
    def forward(ctx, run, *tensors):
        return run()

    backward = staticmethod(torch_operators.refuse_second_derivatives)


class _ChainFunction(torch.autograd.Function):
    """A chain, or the product alone, of tensors in the order of `gradient_names()`. step: what is kept of a
    step like this one, or the beginnings of one. y_layout: as for `_Step.now()`."""

    @staticmethod
    def forward(ctx, step, y_layout, *tensors):
        x, weight, bias, *others = tensors
        ctx.step, ctx.y_layout = step, y_layout
        if step.norm is not None:
            if step.product is not None:
                v, y, moments = _at_work(step.norm, step.launches, x, bias, y_layout)
            else:
                rows = x if y_layout is None else x.view(-1, x.shape[-1])
                v = step.multiply(rows, weight, bias)
                y, moments = _at_work(step.norm, step.norm, v, y_layout)
            kept = (v, moments)
        else:
            chain, version, precision = step.chain, step.version, step.precision
            named = dict(zip(step.names[1:], tensors[1:], strict=True))
            if chain.is_product:
                y, kept = run_chain(PRODUCT, x, named, version, precision=precision), ()
            else:
                y, kept = forward_keeping(chain, x, named, version, precision)
                if step.key is not None:
                    step.keep(kept[0], tensors[1:])
        ctx.bias = None if bias is None else bias.dtype
        if step.unread:
            others = [
                None if name in step.unread else value
                for name, value in zip(step.names[3:], others, strict=True)
            ]
        ctx.save_for_backward(x if ctx.needs_input_grad[3] else None, weight, *others, *kept)
        ctx.set_materialize_grads(False)
        return y

    @staticmethod
    def backward(ctx, dy):
        step, y_layout, needed = ctx.step, ctx.y_layout, ctx.needs_input_grad[2:]
        if dy is None:
            return (None,) * (2 + len(needed))
        if torch._C._functorch.is_legacy_batchedtensor(dy):
            raise RuntimeError(
                "fgn has no batched gradients (torch.autograd.grad(…, is_grads_batched=True), jacobian(…, "
                "vectorize=True)): torch.func.jacrev and torch.func.vmap of torch.func.vjp work"
            )
        saved = ctx.saved_tensors
        if y_layout is not None:
            dy = dy.reshape(-1, dy.shape[-1])
            if saved[0] is not None:
                saved = saved[0].reshape(-1, saved[0].shape[-1]), *saved[1:]
        if torch.is_grad_enabled():
            run = partial(_gradients_of_step, step, ctx.bias, needed, dy, saved)
            dx, *others = _Refused.apply(run, dy, *saved)
        else:
            dx, *others = _gradients_of_step(step, ctx.bias, needed, dy, saved)
        if y_layout is not None and dx is not None:
            dx = dx.view(*y_layout[0][:-1], dx.shape[-1])
        return None, None, dx, *others


def _gradients_of_step(step: _Step, bias: torch.dtype | None, needed, dy: Tensor, saved) -> tuple:
    """The gradients in the order of `gradient_names()`, None for what is not needed. saved: what the
    forward has saved. bias: its dtype."""
    names = step.names
    x, weight, *others = saved[: len(names) - 1]
    kept = saved[len(names) - 1 :]
    if step.unread:
        others = [
            kept[0] if name in step.unread else value for name, value in zip(names[3:], others, strict=True)
        ]
    if step.norm is not None:
        dy = dy if repeated.usable_address(dy) else usable(dy)
        found = step.backward_call(needed, dy, x, weight, others)
        if found is not None:
            call, order = found
            gradients = _at_work(call, call.gradients, dy, x, *kept, weight)
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
    tensors = [x, *(parameters.get(name) for name in gradient_names(chain)[1:])]
    given_precision, precision = precision, with_gradients(precision)
    if ordinary:
        key = None
        shares = len(tensors) < 5 + len(chain.operands)  # an operand of several operators is one tensor
        if not chain.is_product and not shares and repeated.usable_address(x):
            key = repeated.key_of(chain, x, tuple(tensors[1:]), version, given_precision)
            key = (*key, *_wanted(tensors[1:]))
        return _ChainFunction.apply(_Step(chain, version, resolve(precision, x.dtype), key), None, *tensors)
    if transforms.is_transformed():
        return torch_func.chain_in_transforms(chain, version, precision, *tensors)
    if chain.is_product:
        return torch_operators.linear(*tensors[:3], version, precision)
    described = torch_operators.flat(chain)
    return torch_operators.chain_keeping(*tensors[:5], tensors[5:], *described, version, precision)[0]


def kept(key: tuple, parameters: tuple[Tensor | None, ...]) -> _Step | None:
    """What is kept of a step whose key without gradients this is, if any is, and these parameters require
    grad as its own did."""
    return _steps.get((*key, *_wanted(parameters)))


def repeat(chain: Chain, x: Tensor, parameters: tuple, version, precision, key: tuple):
    """A forward with gradients that is like one before it; None for any other."""
    try:
        step = kept(key, parameters)
    except TypeError:  # no name of a version
        return None
    return step and step.now(x, parameters)
