"""The parts on their own: the matrix product and GroupNorm. Pointwise operators: test_pointwise.py."""

import pytest
import torch
import torch.nn.functional as F
from accuracy import ORDERS, SANITIZED, UNIT_ROUNDOFF, assert_close
from hypothesis import given, settings
from hypothesis import strategies as st

import fgn
from fgn.chains import Shape
from fgn.functional import PRODUCT, launch_count
from fgn.measure.accuracy import relative_error
from fgn.native.library import version_names
from fgn.reference import ieee_float32

every_version = pytest.mark.parametrize("version", version_names())

INFINITY, NAN = float("inf"), float("nan")


def uniform(*size, device, seed=0, low=-1.0, high=1.0):
    return torch.empty(*size).uniform_(low, high, generator=torch.Generator().manual_seed(seed)).to(device)


sizes = st.one_of(st.integers(1, 20), st.sampled_from((31, 33, 64, 65, 127, 130)))


@every_version
@given(batch=sizes, in_features=sizes, out_features=sizes, with_bias=st.booleans())
@settings(max_examples=6 if SANITIZED else 25)
@pytest.mark.memory
def test_linear(version, device, batch, in_features, out_features, with_bias):
    if launch_count(PRODUCT, Shape(batch, in_features, out_features, 0), version, device) is None:
        return
    x = uniform(batch, in_features, device=device, seed=1)
    weight = uniform(out_features, in_features, device=device, seed=2)
    bias = uniform(out_features, device=device, seed=3) if with_bias else None
    exact = F.linear(x.double(), weight.double(), bias.double() if with_bias else None)
    # As for the chains, torch's error is its largest over several orders of the sum.
    torch.manual_seed(0)
    errors = [UNIT_ROUNDOFF]
    with ieee_float32():
        for _ in range(4 * ORDERS):
            order = torch.randperm(in_features)
            errors.append(relative_error(F.linear(x[:, order], weight[:, order], bias), exact))
    y = fgn.functional.linear(x, weight, bias, version)
    assert y.shape == exact.shape
    assert relative_error(y, exact) <= 2 * max(errors)


def check_group_norm(x, groups, version, weight=None, bias=None, eps=1e-5):
    y = fgn.functional.group_norm(x, groups, weight, bias, eps, version)
    # From the differences to the mean. torch's own multiplies v by the scale first: in float64 that leaves
    # nothing of the bias of a constant group of 1e30, or a rest that is larger, as its processor adds.
    values = x.double().reshape(len(x), groups, -1)
    centred = values - values.mean(-1, keepdim=True)
    exact = (centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()).reshape(x.shape)
    exact = exact if weight is None else exact * weight.double()
    exact = exact if bias is None else exact + bias.double()
    assert_close(y, torch.group_norm(x, groups, weight, bias, eps), exact)


@every_version
@pytest.mark.parametrize(
    "batch, channels, groups", [(1, 1, 1), (1, 96, 1), (7, 96, 96), (33, 390, 13), (3, 8192, 2)]
)
@pytest.mark.memory
def test_group_norm(version, device, batch, channels, groups):
    x = uniform(batch, channels, device=device, low=-3.0, high=3.0)
    weight, bias = uniform(channels, device=device, seed=1), uniform(channels, device=device, seed=2)
    for scale, shift in ((None, None), (weight, None), (None, bias), (weight, bias)):
        check_group_norm(x, groups, version, scale, shift)


@every_version
@pytest.mark.parametrize("channels_per_group", [2, 16, 33, 512, 3000])
def test_group_norm_of_a_large_mean(version, device, channels_per_group):
    noise = torch.randn(8, 4 * channels_per_group, generator=torch.Generator().manual_seed(0)).to(device)
    check_group_norm(1e4 + noise, 4, version)


@every_version
@pytest.mark.parametrize("channels_per_group", [21, 1003])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e4 / 3, 1e7 / 3, 1e30])
def test_group_norm_of_constant_groups(version, device, value, channels_per_group):
    x = torch.full((5, 3 * channels_per_group), value, device=device)
    check_group_norm(x, 3, version)
    check_group_norm(x, 3, version, bias=uniform(3 * channels_per_group, device=device))


@every_version
def test_group_norm_of_nan_and_infinity(version, device):
    x = uniform(6, 60, device=device)
    x[1, 7], x[2, 30], x[3, 59], x[4, 0] = NAN, INFINITY, -INFINITY, INFINITY
    x[4, 1] = -INFINITY
    check_group_norm(x, 5, version)


@every_version
@pytest.mark.parametrize("eps", [0.0, 1e-12, 1.0])
def test_group_norm_eps(version, device, eps):
    check_group_norm(uniform(4, 48, device=device), 4, version, eps=eps)
