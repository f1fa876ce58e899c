"""The pointwise operators one by one: the table, its names in C, every value and slope on every machine."""

import math
import re

import pytest
import torch
from accuracy import UNIT_ROUNDOFF
from gradient_formulas import derivatives

import fgn
from fgn.native.places import SOURCES
from fgn.operators import CHANNEL, POINTWISE, TENSOR, Pointwise

each_kind = pytest.mark.parametrize("kind", POINTWISE)

CONSTANTS = {
    "leaky_relu": (0.125, 0.0),
    "add": (0.3, 0.0),
    "multiply": (1.7, 0.0),
    "divide": (-0.7, 0.0),
    "threshold": (0.1, 20.0),
    "elu": (0.75, 0.0),
    "celu": (0.75, 0.0),
    "clamp": (-0.5, 0.75),
    "softplus": (1.3, 15.0),
}

KERNEL = """
#include "shared/apply_operator.h"
#include "shared/pointwise_slopes.h"

__global__ void operate(float *y, float *slope, float *operand_slope, const float *v, const float *operand,
                        int kind, float a, float b, int n) {
    fgn_pointwise step;
    step.kind = (fgn_pointwise_kind)kind;
    step.a = a;
    step.b = b;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float value = v[i];
        if (step.kind == FGN_ADD_TENSOR)
            value += operand[i];
        else if (step.kind == FGN_MULTIPLY_TENSOR)
            value *= operand[i];
        else
            apply_operator_with(&step, &value, 1, &operand[i], evenly_spaced, 0);
        y[i] = value;
        slope[i] = slope_of(&step, v[i], operand[i]);
        operand_slope[i] = operand_slope_of(&step, v[i], operand[i]);
    }
}
"""

EXTREMES = (0.0, -0.0, 1e-45, -1e-45, 1.0, -1.0, 20.0, -20.0, 100.0, -100.0, 3e38, -3e38)
NOT_FINITE = (math.inf, -math.inf, math.nan)


@pytest.fixture(scope="module")
def kernel():
    return fgn.kernel(KERNEL)


def step_of(kind):
    a, b = (torch.tensor(value, dtype=torch.float32).item() for value in CONSTANTS.get(kind, (math.nan,) * 2))
    constants = () if math.isnan(a) else (a, b)
    operand = POINTWISE[kind].operand
    return Pointwise(kind, *constants, **({operand: "operand"} if operand else {}))


def values_and_operands():
    """Dense where the operators bend, and random bits."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31 - 1, (4000,), generator=generator).to(torch.int32)
    grids = [torch.linspace(-30, 30, 6001), torch.linspace(-1, 1, 3001), torch.linspace(-120, 120, 1201)]
    v = torch.cat([*grids, bits.view(torch.float32), torch.tensor(EXTREMES + NOT_FINITE)])
    return v, torch.empty_like(v).uniform_(-3, 3, generator=generator)


def run(kernel, step, v, operand):
    results = [torch.full_like(v, math.nan) for _ in range(3)]
    kind = list(POINTWISE).index(step.kind)
    kernel[32, 32](*results, v, operand, kind, step.a, step.b, v.numel())
    return results


def steps_apart(y, exact):
    """|y - exact| in steps of float32 at `exact`."""
    step = 2.0 ** (exact.abs().clamp_min(2.0**-126).log2().floor() - 23)
    return (y.double() - exact).abs() / step


def test_the_names_are_those_of_the_c_interface():
    text = (SOURCES / "fgn.h").read_text()
    names = re.findall(r"FGN_(\w+) = (\d+),? +/\* (.+) \*/", text[text.index("enum fgn_pointwise_kind") :])
    names = names[: len(POINTWISE)]
    assert [name.lower() for name, _, _ in names] == list(POINTWISE)
    assert [int(number) for _, number, _ in names] == list(range(len(POINTWISE)))
    assert [formula for _, _, formula in names] == [row.formula for row in POINTWISE.values()]
    assert f"#define FGN_POINTWISE_KINDS {len(POINTWISE)}\n" in text
    for kind, row in POINTWISE.items():
        assert (row.operand == CHANNEL) == ("channel[c]" in row.formula)
        assert (row.operand == TENSOR) == ("tensor[r, c]" in row.formula), kind


@each_kind
def test_value(kind, kernel, device):
    step = step_of(kind)
    v, operand = (tensor.to(device) for tensor in values_and_operands())
    y, _, _ = run(kernel, step, v, operand)
    given = operand[None] if step.operand else None
    torchs = step(v[None], given)[0]
    exact = step(v[None].double(), None if given is None else given.double())[0]
    # Torch's CPU kernel of gelu takes infinity and what is near it to NaN and infinity, its GPU's does not.
    known = v.abs() < 1e38 if kind == "gelu" else torch.ones_like(v, dtype=torch.bool)
    assert torch.equal(y.isnan()[known], torchs.isnan()[known])
    assert torch.equal(y.isinf()[known], torchs.isinf()[known])
    known &= y.isfinite() & torchs.isfinite()
    # Where values cancel torch loses as much. tanhf of the C library errs by 2 steps of its own, v - tanh(v)
    # by so many steps of v.
    scale = v.double() if kind == "tanhshrink" else exact
    allowed = 4.0 + steps_apart(torchs, exact) if kind != "tanhshrink" else 3.0 + 0 * exact
    apart = (y.double() - exact).abs() / (2.0 ** (scale.abs().clamp_min(2.0**-126).log2().floor() - 23))
    if kind in ("gelu", "gelu_tanh"):
        # 1 + erf and 1 + tanh: steps of 1 times v.
        apart = apart.minimum((y.double() - exact).abs() / (v.double().abs().clamp_min(2.0**-126) * 2.0**-23))
    if kind in ("mish", "silu"):
        # Their bound, in steps of the value: 4 for the exponential instruction, 2 for the reciprocal, 4 for
        # roundings, and 1.25 |v| for the rounded argument of the exponential of a negative v
        # (shared/pointwise.h). Below 2^-126 there is no exponential: then v times it is 0.
        allowed = 10.0 + 1.25 * v.double().clamp_max(0.0).abs()
        known &= ~((y == 0.0) & (exact.abs() < 100 * 2.0**-126))
    assert (apart <= allowed)[known].all(), v[known][(apart - allowed)[known].argmax()]


@each_kind
def test_slopes(kind, kernel, device):
    step = step_of(kind)
    v, operand = (tensor.to(device) for tensor in values_and_operands())
    _, *slopes = run(kernel, step, v, operand)
    given = operand[None] if step.operand else None
    # At a NaN or an infinity torch's own machines disagree; a gradient is lost there anyway.
    known = v.isfinite() & (v.abs() < 1e18)
    for slope, exact in zip(
        slopes, derivatives(step, v[None].double(), None if given is None else given.double()), strict=True
    ):
        if exact is None:
            assert not slope.any()
            continue
        exact = exact[0]
        seen = known & exact.float().isfinite()
        error = (slope.double() - exact).abs()[seen]
        # The slopes of those with a bend go through 0 as a sum of terms of the size of 1.
        allowed = 8 * UNIT_ROUNDOFF * exact.abs().clamp_min(1.0 if step.operand is None else 0.0)
        assert (error <= (allowed + 2.0**-140)[seen]).all(), v[seen][error.argmax()]


@each_kind
def test_constant_slopes(kind):
    step, v = step_of(kind), torch.linspace(-7.0, 7.0, 57, dtype=torch.float64)[None]
    given = torch.full_like(v, 2.0) if step.operand else None
    slopes = [slope for slope in derivatives(step, v, given) if slope is not None]
    are_constant = all(torch.equal(slope, torch.full_like(slope, slope.flatten()[0])) for slope in slopes)
    assert POINTWISE[kind].constant_slopes == are_constant


@each_kind
def test_corners_have_torchs_slope(kind, kernel, device):
    step = step_of(kind)
    corners = {0.0, step.a, -step.a, step.b, 3.0, -3.0, 1.0, -1.0}
    v = torch.tensor([corner for corner in corners if math.isfinite(corner)], device=device)
    if kind == "sqrt":
        v = v.abs()
    operand = torch.full_like(v, 0.5)
    _, slope, _ = run(kernel, step, v, operand)
    expected, _ = derivatives(step, v[None], operand[None] if step.operand else None)
    assert torch.allclose(slope, expected[0], rtol=1e-6, atol=1e-6), (v, slope, expected)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Pointwise("hardtanh", 2.0, 1.0), "min_val, max_val: hardtanh expected a minimum below"),
        (lambda: Pointwise("celu", 0.0), "alpha: celu expected a constant other than 0"),
        (lambda: Pointwise("softshrink", -1.0), "lambd: softshrink expected lambd of 0 or more"),
        (lambda: Pointwise("add", math.nan), "other: add expected numbers, got nan"),
        (lambda: Pointwise("prelu"), "channel: prelu expects the name of a parameter, got None"),
        (lambda: Pointwise("relu", channel="c"), "channel: relu expects None, got 'c'"),
        (lambda: Pointwise("add_tensor"), "tensor: add_tensor expects the name of a tensor, got None"),
    ],
)
def test_what_is_refused(make, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


def test_the_defaults_are_torchs():
    v = torch.linspace(-3, 3, 50)[None]
    for name in ("Hardtanh", "LeakyReLU", "Hardshrink", "Softshrink", "Softplus", "ELU", "CELU"):
        kind = {"LeakyReLU": "leaky_relu"}.get(name, name.lower())
        assert torch.equal(Pointwise(kind)(v), getattr(torch.nn, name)()(v))
