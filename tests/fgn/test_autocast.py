"""Under torch.autocast a chain has the dtype that the model gives without fgn, and is as accurate."""

import copy
import random
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fgn
from fgn.chains import CHAINS, Chain, Pointwise, Shape, random_inputs
from fgn.reference import chain_reference

DTYPES = [torch.bfloat16, torch.float16]
ACTIVATIONS = [F.gelu, F.silu, F.mish, F.relu, F.softplus, torch.tanh, torch.exp, F.softsign, F.hardswish]


def residual(v, model, x):
    return v + x


def in_place(v, model, x):
    v += x
    return v


def vector(v, model, x):
    return v * model.scale + model.shift


def squared(v, model, x):
    return v**2 + 0.5


def number(v, model, x):
    return v * model.number


def nothing(v, model, x):
    return v


class Model(nn.Module):
    """Two chains, of steps that give dtypes in ways of their own."""

    def __init__(self, draw: random.Random):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(24, 24, bias=draw.random() < 0.7) for _ in range(2))
        self.norms = nn.ModuleList(nn.GroupNorm(g, 24, affine=draw.random() < 0.7) for g in (4, 6))
        self.shift = nn.Parameter(torch.randn(24))
        self.scale = nn.Parameter(torch.rand(24) + 0.5)
        self.number = nn.Parameter(torch.tensor(0.7))
        kinds = [residual, in_place, vector, squared, number, nothing]
        self.first, self.second, self.third = (draw.choice(kinds) for _ in range(3))
        self.act, self.gate = (draw.choice(ACTIVATIONS) for _ in range(2))

    def forward(self, x):
        v = self.norms[0](self.first(self.linears[0](x), self, x))
        v = self.second(self.act(v), self, x)
        v = self.norms[1](self.linears[1](v))
        return self.gate(self.third(v, self, x))


def error(y, exact) -> float:
    return ((y.double() - exact).norm() / exact.norm()).item()


@pytest.mark.parametrize("seed", range(12))
def test_a_random_model(seed, device):
    torch.manual_seed(seed)
    draw = random.Random(seed)
    dtype, of_x = draw.choice(DTYPES), draw.choice([torch.float32, *DTYPES])
    model = Model(draw).to(device)
    fused, x = fgn.fuse(model), torch.randn(5, 24, device=device).to(of_x)
    exact = copy.deepcopy(model).double()(x.double())
    with torch.autocast(device.type, dtype=dtype), warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing runs part by part
        expected, y = model(x.clone()), fused(x.clone())
    assert y.dtype == expected.dtype
    assert error(y, exact) <= 2 * error(expected, exact) + 2 * torch.finfo(dtype).eps


class AddsBeforeTheNorm(nn.Module):
    def __init__(self, step):
        super().__init__()
        self.linear, self.norm, self.step = nn.Linear(24, 24), nn.GroupNorm(4, 24), step

    def forward(self, x):
        return self.norm(self.step(self.linear(x), self, x))


@pytest.mark.parametrize("step", [residual, in_place], ids=lambda step: step.__name__)
def test_a_float32_tensor_before_the_norm(step, device):
    """A product that it is added to becomes float32, and stays what it is where the addition is in place."""
    torch.manual_seed(0)
    model, x = AddsBeforeTheNorm(step).to(device), torch.randn(5, 24, device=device)
    exact = copy.deepcopy(model).double()(x.double())
    with torch.autocast(device.type):
        expected, y = model(x.clone()), fgn.fuse(model)(x.clone())
    assert y.dtype == expected.dtype
    assert error(y, exact) <= 2 * error(expected, exact) + 2 * torch.finfo(torch.bfloat16).eps


def train(call, model, x):
    """y and all gradients of a step under autocast."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    with torch.enable_grad():
        with torch.autocast(x.device.type):
            y = call(x)
        (y.float() * torch.linspace(-1, 1, 24, device=x.device)).sum().backward()
    return [y.detach(), x.grad, *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_training_step(compiled, device):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(24, 24), nn.GroupNorm(4, 24), nn.SiLU(), nn.Linear(24, 24), nn.GroupNorm(2, 24)
    )
    fused, x = fgn.fuse(copy.deepcopy(model.to(device))), torch.randn(5, 24, device=device)
    call = torch.compile(fused, backend="aot_eager", fullgraph=True) if compiled else fused
    exact = copy.deepcopy(model).double()
    with torch.enable_grad():
        wanted = x.double().requires_grad_()
        (exact(wanted) * torch.linspace(-1, 1, 24, device=device)).sum().backward()
    gradients = [wanted.grad, *(parameter.grad for parameter in exact.parameters())]
    found, expected = train(call, fused, x), train(model, model, x)
    assert [one.dtype for one in found] == [one.dtype for one in expected]
    for mine, theirs, right in zip(found[1:], expected[1:], gradients, strict=True):
        if right.norm() > 1e-6:  # the gradient of a bias before a norm is zero
            assert error(mine, right) <= 2 * error(theirs, right) + 2e-2


def test_the_calls(device):
    """chain_forward and group_norm, of several dtypes, with a float32 residual before and after the norm."""
    before = Chain("before", (Pointwise("add_tensor", tensor="skip"),), 4, (Pointwise("exp"),))
    after = Chain(
        "after", (Pointwise("gelu"),), 4, (Pointwise("add_tensor", tensor="skip"), Pointwise("relu"))
    )
    for chain in (before, after, CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"]):
        x, parameters = random_inputs(chain, Shape(5, 16, 1024, chain.groups), device)
        for of_x in (torch.float32, torch.bfloat16):
            with torch.autocast(device.type):
                y = fgn.chain_forward(chain, x.to(of_x), parameters)
                expected = chain_reference(chain, x.to(of_x), parameters)
            exact = chain_reference(chain, *_double(x.to(of_x), parameters))
            assert y.dtype == expected.dtype
            assert error(y, exact) <= 2 * error(expected, exact) + 1e-2
    for of_x in (torch.float32, *DTYPES):
        x, weight = torch.randn(5, 24, device=device).to(of_x), torch.rand(24, device=device)
        with torch.autocast(device.type):
            y, expected = fgn.functional.group_norm(x, 4, weight), torch.group_norm(x, 4, weight)
        assert y.dtype == expected.dtype
        assert torch.allclose(y.float(), expected.float(), rtol=2e-2, atol=2e-2)


def _double(x, parameters):
    return x.double(), {name: value.double() for name, value in parameters.items()}


def test_float64_is_left_to_torch(device):
    """Autocast leaves it as it is."""
    model = nn.Sequential(nn.Linear(8, 8), nn.GroupNorm(2, 8)).double().to(device)
    x = torch.randn(3, 8, device=device).double()
    with torch.autocast(device.type), pytest.warns(UserWarning, match="runs part by part"):
        assert torch.equal(fgn.fuse(model)(x), model(x))
