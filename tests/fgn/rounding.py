"""How far float32 arithmetic is from float64 on one problem: the chain in float64, with random roundings.

The bound comes from the problem alone; neither torch's float32 results nor the processor's roundings have any
part in it. Every operation of a chain and of its gradients is computed in float64, and its result is moved by
a random part of the roundings that a float32 kernel makes there. This is Monte Carlo arithmetic (Parker,
"Monte Carlo Arithmetic", 1997; Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition,
section 2.8). `DRAWS` such results give the root mean square of each element's error, and a kernel's error may
be `QUANTILE` times that. Independent roundings exceed 8 root mean squares once in 10^15 elements; where the
draws give a root mean square that is too small by a third, once in 10^7 (Higham and Mary, "A New Approach to
Probabilistic Rounding Error Analysis", 2019, argue the same way).

A sum of K terms in any order that a kernel may take errs by no more than adding them one after the other,
which rounds the partial sum K times. When the order is random, the partial sum of the first k terms has the
mean square (k/K)^2 S^2 + (k/K) (1 - k/K) T, where S is the sum and T the sum of the terms' squares; over all
k that adds up to K (S^2 / 3 + T / 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fgn.chains import Chain
from fgn.precision import PRECISIONS

DRAWS = 32
QUANTILE = 8.0

# Half a unit in the last place of 1.
UNIT = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
# The error, relative to a whole result, that a kernel which rounds it in each type may have beside torch's.
ROUNDOFF = {torch.float32: 2.0**-21, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
# What the factors of a product are rounded to. In "ieee" two halves have 22 bits of a float32's 24.
FACTOR = {"ieee": 2.0**-23, "tf32": 2.0**-11, "bf16": 0.0, "fp16": 0.0}
# An operator's value and its slope, in units of the value, the argument or 1: test_pointwise.py holds all
# operators to this.
OF_OPERATOR = 8.0
# A square root and a quotient of the CPU and the GPU, and what stands between two sums.
OF_QUOTIENT = 2.0


@dataclass
class Roundings:
    """One draw: the random numbers of a seed, and how large the roundings of a precision are."""

    precision: str
    generator: torch.Generator

    def noise(self, size: Tensor) -> Tensor:
        random = torch.rand(size.shape, generator=self.generator, dtype=torch.float64, device=size.device)
        return (2.0 * random - 1.0) * size

    def near(self, value: Tensor, units: float = 1.0, scale: Tensor | None = None) -> Tensor:
        """The value after a rounding by so many units of float32 of the scale, by default of the value."""
        return value + self.noise(units * UNIT[torch.float32] * (value if scale is None else scale).abs())

    def stored(self, value: Tensor) -> Tensor:
        """The value as it may be kept between two launches: in the tensors' dtype."""
        return value + self.noise(UNIT[PRECISIONS[self.precision].dtype] * value.abs())

    def product(self, a: Tensor, b: Tensor, factor: float = 0.0) -> Tensor:
        """a @ b.T, summed in float32. a: (m, k), b: (n, k)."""
        total, squares = a @ b.T, a.square() @ b.square().T
        additions = a.shape[1] * (total.square() / 3 + squares / 6)
        size = UNIT[torch.float32] ** 2 * (additions + squares) + 2 * factor**2 * squares
        return total + self.noise(size.sqrt())


class Product(torch.autograd.Function):
    """a @ b.T, whose gradients are such products as well."""

    @staticmethod
    def forward(ctx, a, b, roundings, factor):
        ctx.save_for_backward(a, b)
        ctx.roundings, ctx.factor = roundings, factor
        return roundings.product(a, b, factor)

    @staticmethod
    def backward(ctx, gradient):
        a, b = ctx.saved_tensors
        product = ctx.roundings.product
        return product(gradient, b.T, ctx.factor), product(gradient.T, a.T, ctx.factor), None, None


class Rounded(torch.autograd.Function):
    """A value that is rounded on its way forward, and whose gradient is rounded on its way back."""

    @staticmethod
    def forward(ctx, value, round_value, round_gradient):
        ctx.round_gradient = round_gradient
        return round_value(value)

    @staticmethod
    def backward(ctx, gradient):
        return ctx.round_gradient(gradient), None, None


def operated(step, v: Tensor, operand: Tensor | None) -> Tensor:
    """The operator with an operand of every element. torch's own prelu takes one for each channel."""
    return torch.where(v > 0, v, operand * v) if step.kind == "prelu" else step(v, operand)


class Operator(torch.autograd.Function):
    """A pointwise operator with the roundings of its value and of its slopes."""

    @staticmethod
    def forward(ctx, v, operand, step, roundings):
        ctx.save_for_backward(v, operand)
        ctx.step, ctx.roundings = step, roundings
        value = operated(step, v, operand)
        return roundings.near(value, OF_OPERATOR, torch.maximum(v.abs(), value.abs()))

    @staticmethod
    def backward(ctx, gradient):
        given = [one.detach().requires_grad_() for one in ctx.saved_tensors if one is not None]
        with torch.enable_grad():
            value = operated(ctx.step, given[0], given[1] if len(given) == 2 else None)
        slopes = torch.autograd.grad(value, given, torch.ones_like(value), materialize_grads=True)
        near = [ctx.roundings.near(one, OF_OPERATOR, one.abs().clamp_min(1.0)) for one in slopes]
        found = [ctx.roundings.near(gradient * one) for one in near]
        return found[0], found[1] if len(found) == 2 else None, None, None


def drawn_chain(chain: Chain, x: Tensor, parameters: Mapping[str, Tensor], roundings: Roundings) -> Tensor:
    """`fgn.reference.chain_reference()` in float64 with roundings everywhere, differentiable."""
    near, factor = roundings.near, FACTOR[roundings.precision]

    def rounded(value, units=1.0):
        return Rounded.apply(value, lambda one: near(one, units), lambda one: near(one, units))

    def stored(value):
        return Rounded.apply(value, roundings.stored, roundings.stored)

    def in_every_row(vector):
        """(batch, out_features) of a vector; its gradient is a sum over the batch."""
        column = vector.new_ones(len(x), 1)
        return Product.apply(column, vector[:, None], roundings, 0.0)

    def through(steps, v):
        for step in steps:
            operand = parameters.get(step.operand)
            operand = in_every_row(operand) if step.channel else operand
            v = Operator.apply(v, operand, step, roundings)
        return v

    v = Product.apply(x, parameters["weight"], roundings, factor)
    v = rounded(v + in_every_row(parameters["bias"])) if "bias" in parameters else v
    h = through(chain.before, stored(v))

    if not chain.has_norm:
        return stored(h)
    size = h.shape[1] // chain.groups
    groups, ones = h.reshape(-1, size), h.new_ones(1, size)

    def mean(values):
        return rounded(Product.apply(values, ones, roundings, 0.0) / size)

    def to_every_channel(values):
        return Product.apply(values, ones.T, roundings, 0.0)

    centered = rounded(groups - to_every_channel(mean(groups)))
    deviation = rounded((mean(rounded(centered.square())) + chain.eps).sqrt(), OF_QUOTIENT)
    y = rounded(centered / to_every_channel(deviation), OF_QUOTIENT).reshape(h.shape)
    if "norm_weight" in parameters:
        y = rounded(y * in_every_row(parameters["norm_weight"]))
    if "norm_bias" in parameters:
        y = rounded(y + in_every_row(parameters["norm_bias"]))
    return stored(through(chain.after, y))


def draws(chain: Chain, x: Tensor, parameters: Mapping[str, Tensor], dy: Tensor | None, precision: str):
    """`DRAWS` results, each a dictionary: "y", or where dy is given the gradient of each tensor by name."""
    names = ["x", *parameters]
    for seed in range(DRAWS):
        leaves = [value.detach().double() for value in (x, *parameters.values())]
        roundings = Roundings(precision, torch.Generator(x.device).manual_seed(seed))
        if dy is None:
            yield {
                "y": drawn_chain(chain, leaves[0], dict(zip(names[1:], leaves[1:], strict=True)), roundings)
            }
            continue
        with torch.enable_grad():
            leaves = [leaf.requires_grad_() for leaf in leaves]
            y = drawn_chain(chain, leaves[0], dict(zip(names[1:], leaves[1:], strict=True)), roundings)
        found = torch.autograd.grad(y, leaves, dy.double())
        yield {name: roundings.stored(one) for name, one in zip(names, found, strict=True)}


@dataclass
class Allowed:
    """What the error of one tensor may be: of each element, and of the whole tensor by its norm."""

    exact: Tensor
    elements: Tensor
    norm: float

    def used(self, found: Tensor) -> float:
        """The largest part of what is allowed that the result uses; above 1 it is wrong."""
        finite = self.exact.isfinite()
        error = torch.where(finite, found.double() - self.exact, 0.0).abs()
        of_elements = (error / self.elements.clamp_min(torch.finfo(torch.float32).tiny)).nan_to_num(torch.inf)
        of_norm = error.norm().item() / max(self.norm, torch.finfo(torch.float32).tiny)
        return max(of_elements.max().item(), of_norm) if error.numel() else 0.0


def allowed_errors(exact: Mapping[str, Tensor], drawn) -> dict[str, Allowed]:
    """Of each tensor, from its float64 value and the draws.

    An element's root mean square is at least that of its row: where a value is next to a kink, few draws or
    none cross it. The norm may be `QUANTILE` standard deviations beyond its mean: of a large tensor that is
    hardly more than the mean, of one that a single rounding decides it is many times as much.
    """
    errors = {name: [] for name in exact}
    for one in drawn:
        for name, right in exact.items():
            errors[name].append(torch.where(right.isfinite(), one[name] - right, 0.0).nan_to_num(0.0))
    allowed = {}
    for name, right in exact.items():
        of_name = torch.stack(errors[name])
        squares = of_name.square().mean(0)
        of_row = squares.mean(-1, keepdim=True) if squares.dim() else squares
        norms = of_name.flatten(1).norm(dim=1)
        norm = (norms.mean() + QUANTILE * norms.std()).item()
        allowed[name] = Allowed(right, QUANTILE * torch.maximum(squares, of_row).sqrt(), norm)
    return allowed
