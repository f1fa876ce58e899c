"""The parts on their own: the matrix product, GroupNorm, and the pointwise operators one by one."""

import pytest
import torch
import torch.nn.functional as F
from accuracy import ORDERS, UNIT_ROUNDOFF, assert_close
from hypothesis import given, settings
from hypothesis import strategies as st

import fgn
from fgn.chains import POINTWISE, Chain, Pointwise, Shape
from fgn.functional import PRODUCT, launch_count
from fgn.measure.compare import relative_error
from fgn.native.library import version_names
from fgn.reference import ieee_float32

every_version = pytest.mark.parametrize("version", version_names())

INFINITY, NAN = float("inf"), float("nan")


def uniform(*size, device, seed=0, low=-1.0, high=1.0):
    return torch.empty(*size).uniform_(low, high, generator=torch.Generator().manual_seed(seed)).to(device)


sizes = st.one_of(st.integers(1, 20), st.sampled_from((31, 33, 64, 65, 127, 130)))


@every_version
@given(batch=sizes, in_features=sizes, out_features=sizes, with_bias=st.booleans())
@settings(max_examples=25)
def test_linear(version, device, batch, in_features, out_features, with_bias):
    if launch_count(PRODUCT, Shape(batch, in_features, out_features, 0), version, device) is None:
        return
    x = uniform(batch, in_features, device=device, seed=1)
    weight = uniform(out_features, in_features, device=device, seed=2)
    bias = uniform(out_features, device=device, seed=3) if with_bias else None
    exact = F.linear(x.double(), weight.double(), bias.double() if with_bias else None)
    # As for the chains, torch's error is its largest over several orders of the sum.
    errors = [UNIT_ROUNDOFF]
    with ieee_float32():
        for _ in range(ORDERS):
            order = torch.randperm(in_features)
            errors.append(relative_error(F.linear(x[:, order], weight[:, order], bias), exact))
    y = fgn.linear(x, weight, bias, version)
    assert y.shape == exact.shape
    assert relative_error(y, exact) <= 2 * max(errors)


def check_group_norm(x, groups, version, weight=None, bias=None, eps=1e-5):
    y = fgn.group_norm(x, groups, weight, bias, eps, version)
    wide = [None if value is None else value.double() for value in (weight, bias)]
    exact = torch.group_norm(x.double(), groups, *wide, eps)
    assert_close(y, torch.group_norm(x, groups, weight, bias, eps), exact)


@every_version
@pytest.mark.parametrize(
    "batch, channels, groups", [(1, 1, 1), (1, 96, 1), (7, 96, 96), (33, 390, 13), (3, 8192, 2)]
)
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


CONSTANTS = {"hardtanh": (-0.5, 2.0), "leaky_relu": (0.01, 0.0)}
BANDS = {
    "denormal": (1e-44, 1e-38),
    "tiny": (1e-30, 1e-10),
    "small": (1e-4, 1e-1),
    "moderate": (0.1, 10.0),
    "large": (10.0, 120.0),
    "huge": (1e10, 1e38),
}
EXTREMES = (0.0, -0.0, 1.0, -1.0, 20.0, -20.0, 100.0, -100.0, 3e38, -3e38, INFINITY, -INFINITY, NAN)


def apply_operator(kind, values, channel, version):
    """One operator on any values: GroupNorm with one channel per group turns zeros into its bias."""
    step = Pointwise(
        kind, *CONSTANTS.get(kind, (0.0, 0.0)), "channel" if POINTWISE[kind].uses_channel else None
    )
    chain = Chain("one_operator", (), values.numel(), (step,))
    if launch_count(chain, Shape(1, 1, values.numel(), values.numel()), version, values.device) is None:
        pytest.skip(f"{version} does not run groups of one channel")
    x = torch.zeros(1, 1, device=values.device)
    weight = torch.zeros(values.numel(), 1, device=values.device)
    y = fgn.chain_forward(chain, x, {"weight": weight, "norm_bias": values, "channel": channel}, version)[0]
    return step, y


@every_version
@pytest.mark.parametrize("kind", POINTWISE)
@pytest.mark.parametrize("band", BANDS)
def test_pointwise_operator(kind, band, version, device):
    low, high = (torch.tensor(bound, dtype=torch.float64).log() for bound in BANDS[band])
    magnitude = (low + (high - low) * torch.linspace(0, 1, 300, dtype=torch.float64)).exp().float()
    values = torch.cat([magnitude, -magnitude]).to(device)
    channel = uniform(600, device=device)
    step, y = apply_operator(kind, values, channel, version)
    operator = POINTWISE[kind].torch
    expected = operator(values, step.a, step.b, channel)
    exact = operator(values.double(), step.a, step.b, channel.double())
    # What overflows in float32 alone is compared with torch's float32 result.
    exact = torch.where(expected.isfinite(), exact, expected.double())
    assert_close(y[:300], expected[:300], exact[:300])
    assert_close(y[300:], expected[300:], exact[300:])


@every_version
@pytest.mark.parametrize("kind", POINTWISE)
def test_pointwise_operator_at_the_extremes(kind, version, device):
    values = torch.tensor(EXTREMES, device=device)
    channel = torch.full_like(values, -2.0)
    step, y = apply_operator(kind, values, channel, version)
    expected = POINTWISE[kind].torch(values, step.a, step.b, channel)
    assert torch.allclose(y, expected, rtol=4 * UNIT_ROUNDOFF, atol=0, equal_nan=True)
