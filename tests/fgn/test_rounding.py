"""The criterion of accuracy takes torch's float32 results and refuses deliberately wrong ones."""

from dataclasses import replace

import pytest
import torch
from accuracy import with_groups
from rounding import allowed_errors, draws

from fgn.chains import CHAINS, Shape, random_inputs
from fgn.reference import chain_reference, ieee_float32

SHAPES = [Shape(1, 7, 10, 5), Shape(33, 20, 50, 5), Shape(70, 40, 512, 64), Shape(40, 300, 96, 3)]
CHAIN = CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def problem(shape):
    chain = replace(with_groups(CHAIN, shape.groups), before=CHAIN.before[-1:])
    x, parameters = random_inputs(chain, shape, seed=4)
    dy = torch.randn(shape.batch, shape.out_features, generator=torch.Generator().manual_seed(5))
    return chain, x, parameters, dy


def values_of(chain, x, parameters, dy, reference=chain_reference):
    """y and all gradients of the reference, in the dtype of the inputs."""
    with torch.enable_grad(), ieee_float32():
        leaves = {n: value.clone().requires_grad_() for n, value in {"x": x, **parameters}.items()}
        y = reference(chain, leaves["x"], leaves)
        gradients = torch.autograd.grad(y, list(leaves.values()), dy.to(y.dtype))
    return {"y": y.detach(), **dict(zip(leaves, gradients, strict=True))}


def allowed_of(chain, x, parameters, dy):
    wide = {name: value.double() for name, value in parameters.items()}
    exact = values_of(chain, x.double(), wide, dy)
    y = exact.pop("y")
    return allowed_errors({"y": y}, draws(chain, x, parameters, None, "ieee")) | allowed_errors(
        exact, draws(chain, x, parameters, dy, "ieee")
    )


def without_a_term(term):
    """The chain with the mean or the deviation as constants: a term of the norm's gradient is missing."""

    def reference(chain, x, parameters):
        h = x @ parameters["weight"].T + parameters["bias"]
        for step in chain.before:
            h = step(h, parameters.get(step.operand))
        groups = h.reshape(len(h), chain.groups, -1)
        variance, mean = torch.var_mean(groups, -1, correction=0, keepdim=True)
        deviation = (variance + chain.eps).sqrt()
        mean = mean.detach() if term == "mean" else mean
        deviation = deviation.detach() if term == "deviation" else deviation
        normal = ((groups - mean) / deviation).reshape(h.shape)
        return normal * parameters["norm_weight"] + parameters["norm_bias"]

    return reference


def other_neighbours(found, shape):
    """The groups of each row changed places: every channel has the values of the group before."""
    size = shape.out_features // shape.groups
    return {
        n: v.roll(size, -1) if v.shape[-1] == shape.out_features else v.roll(size, 0)
        for n, v in found.items()
    }


def in_tf32(tensor):
    return ((tensor.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def one_element(found):
    """The largest element of each tensor wrong by a thousandth."""
    wrong = {name: value.clone() for name, value in found.items()}
    for value in wrong.values():
        value.view(-1)[value.abs().argmax()] *= 1.001
    return wrong


def wrong_results(chain, x, parameters, dy, shape):
    """What is wrong, all results of it, and the tensors in which it has to be seen."""
    right = values_of(chain, x, parameters, dy)
    through = ("x", "weight", "bias")
    other = replace(chain, eps=10 * chain.eps)
    yield "ten times eps", values_of(other, x, parameters, dy), ("y", "x", "weight")
    for term in ("mean", "deviation"):
        yield f"no {term}'s term", values_of(chain, x, parameters, dy, without_a_term(term)), through
    yield "another group", other_neighbours(right, shape), ("y", "weight", "bias", "norm_weight", "norm_bias")
    yield "bfloat16", {n: value.bfloat16().float() for n, value in right.items()}, ("y", "norm_weight")
    if shape.out_features > 2 * shape.groups:
        # Of two channels the exact gradient before the norm is next to 0, and all float32 is far from it.
        yield "one element", one_element(right), tuple(right)
        rounded = {name: in_tf32(v) if name == "weight" else v for name, v in parameters.items()}
        yield "factors of 11 bits", values_of(chain, in_tf32(x), rounded, dy), ("y", *through)
    if shape.batch > 1:
        yield "the row before", values_of(chain, x.roll(1, 0), parameters, dy), ("y", *through, "norm_weight")
        lacking = values_of(chain, x[1:], parameters, dy[1:])
        yield "no first row", lacking, ("weight", "bias", "norm_weight", "norm_bias")


@every_shape
def test_torchs_own_results_are_taken(shape):
    inputs = problem(shape)
    allowed = allowed_of(*inputs)
    for name, value in values_of(*inputs).items():
        assert allowed[name].used(value) <= 1, name


@every_shape
def test_wrong_results_are_refused(shape):
    chain, x, parameters, dy = problem(shape)
    allowed = allowed_of(chain, x, parameters, dy)
    for what, found, names in wrong_results(chain, x, parameters, dy, shape):
        for name in names:
            assert allowed[name].used(found[name]) > 1, f"{what}: {name}"
