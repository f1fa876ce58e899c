"""fgn's operators under torch.func, that is under grad, vjp and vmap: these formulas can be transformed, but
those of torch.library (`fgn.torch_operators`) cannot."""

from __future__ import annotations

import torch
from torch import Tensor

from fgn import torch_operators
from fgn.chains import Chain
from fgn.precision import resolve
from fgn.training import gradient_names


class _TransformedBackward(torch.autograd.Function):
    """An operator that computes gradients, and refuses to be differentiated itself."""

    generate_vmap_rule = True

    @staticmethod
    def forward(call, *tensors):
        return tuple(call(*tensors))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    backward = staticmethod(torch_operators.refuse_second_derivatives)


class _Transformed(torch.autograd.Function):
    """One of fgn's operators. forward: a function of the tensors that returns y and what it keeps. backward:
    a function of dy, the wanted gradients, the tensors and what was kept; it returns the wanted ones."""

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


def chain_in_transforms(chain: Chain, version: str | None, precision: str | None, *tensors) -> Tensor:
    """A chain of tensors in the order of `gradient_names()`, or the product alone, under torch.func."""
    described, names = torch_operators.flat(chain), gradient_names(chain)
    precision = resolve(precision, tensors[0].dtype)

    def forward(*tensors):
        if chain.is_product:
            return (torch_operators.linear(*tensors[:3], version, precision),)
        return torch_operators.chain_keeping(*tensors[:5], list(tensors[5:]), *described, version, precision)

    def backward(dy, needed, tensors, kept):
        wanted = " ".join(name for name, need in zip(names, needed, strict=True) if need)
        kept = kept or (None, None)
        return torch_operators.chain_backward(
            dy, *tensors[:5], list(tensors[5:]), *kept, *described, precision, wanted
        )

    return _Transformed.apply(forward, backward, *tensors)[0]


def norm_in_transforms(x, num_groups: int, weight, bias, eps: float, version: str | None) -> Tensor:
    """`fgn.functional.group_norm()` under a transform of torch.func."""
    names = ("product", "norm_weight", "norm_bias")

    def forward(x, weight, bias):
        return (torch_operators.group_norm(x, num_groups, weight, bias, eps, version),)

    def backward(dy, needed, tensors, kept):
        x, weight, bias = tensors
        wanted = " ".join(name for name, need in zip(names, needed, strict=True) if need)
        return torch_operators.group_norm_backward(dy, x, num_groups, weight, bias, eps, wanted)

    return _Transformed.apply(forward, backward, x, weight, bias)[0]
