"""GroupNorm of feature maps with the operators around it: alone (`fgn.feature_maps`) and behind a convolution
in a fused model."""

import copy
import random
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from rounding import ROUNDOFF
from torch import nn

import fgn
from fgn.feature_maps import FeatureMaps, _applied, feature_maps_forward
from fgn.fusing import maps_part
from fgn.fusing.recording import noting
from fgn.operators import Pointwise

POSITIONS = ((1,), (5,), (49,), (64,), (1000,), (4, 4), (7, 7), (8, 16), (3, 2, 5), (1, 1), (33, 40))
GROUPS = ((1, 1), (1, 7), (1, 64), (2, 3), (4, 8), (8, 1), (32, 10), (32, 4), (3, 5), (16, 2), (5, 16))


def random_problems(seed: int, count: int):
    """(maps, v, operands) of sizes without a pattern, in either layout."""
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    for _ in range(count):
        dtype, positions = draw.choice([*ROUNDOFF]), draw.choice(POSITIONS)
        groups, size = draw.choice(GROUPS)
        batch, channels = draw.choice((1, 2, 3, 5)), groups * size
        last = draw.random() < 0.5
        while batch * channels * torch.Size(positions).numel() > 60_000:
            positions = draw.choice(POSITIONS)

        def values(*sizes, dtype=dtype, generator=generator):
            return torch.randn(sizes, generator=generator).to(dtype)

        def laid_out(v, last=last):
            return v.movedim(1, -1).contiguous().movedim(-1, 1) if last else v

        before, after, operands = (), (), {}
        if draw.random() < 0.6:
            operands = {"vector": values(channels), "other": laid_out(values(batch, channels, *positions))}
            before = (Pointwise("add_channel", channel="vector"), Pointwise("add_tensor", tensor="other"))
        if draw.random() < 0.4:
            operands |= {"of_sample": values(batch, channels)}
            before += (Pointwise("add_channel", channel="of_sample"), Pointwise("mish"))
        if draw.random() < 0.6:
            operands |= {"more": laid_out(values(batch, channels, *positions))}
            after = (Pointwise("silu"), Pointwise("add_tensor", tensor="more"), Pointwise("multiply", 0.5))
        scaled, shifted = draw.random() < 0.7, draw.random() < 0.7
        operands |= {"scale": values(channels).abs() + 0.5} if scaled else {}
        operands |= {"shift": values(channels)} if shifted else {}
        v = laid_out(values(batch, channels, *positions) * draw.choice((0.1, 1, 10)))
        keeps = draw.random() < 0.3
        yield FeatureMaps(groups, before, after, 1e-5, scaled, shifted, keeps), v, operands


def double(operands):
    return {name: value.double() for name, value in operands.items()}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.memory
def test_random_feature_maps(seed, device):
    for maps, v, operands in random_problems(seed, 30):
        v, operands = v.to(device), {name: value.to(device) for name, value in operands.items()}
        if v.numel() == v.shape[1] and v.shape[1] == maps.groups:
            continue  # each group is one value, which torch refuses to normalise
        exact = maps.by_torch(v.double(), double(operands))
        by_torch = maps.by_torch(v, operands)
        size = exact.norm() + exact.numel() ** 0.5 * 1e-3
        given = feature_maps_forward(maps, v, operands)
        y, u = given if maps.keeps else (given, None)
        assert y.stride() == v.stride()
        error, of_torch = (y - exact).norm() / size, (by_torch - exact).norm() / size
        assert error <= max(2 * of_torch, ROUNDOFF[v.dtype]), (maps, v.shape, v.stride(), v.dtype)
        if u is not None:
            expected = _applied(maps.before, v.double(), double(operands))
            assert (u - expected).norm() <= ROUNDOFF[v.dtype] * (expected.norm() + 1e-3)
        again = feature_maps_forward(maps, v, operands)  # the call that is kept
        assert torch.equal(again[0] if maps.keeps else again, y)


def test_a_large_mean_beside_a_small_deviation(device):
    for last in (False, True):
        v = torch.randn(2, 32, 24, 24, generator=torch.Generator().manual_seed(0)).to(device) + 1e4
        v = v.to(memory_format=torch.channels_last) if last else v
        exact, by_torch = FeatureMaps(8).by_torch(v.double()), F.group_norm(v, 8)
        y = feature_maps_forward(FeatureMaps(8), v)
        assert (y - exact).norm() <= 2 * (by_torch - exact).norm() + 1e-5 * exact.norm()


@pytest.mark.parametrize("sizes", ((2, 24, 9, 7), (3, 16, 20, 30), (1, 32, 190, 190)))
def test_equal_values_have_exactly_that_mean(sizes, device):
    """1 / sqrt(eps) would show a mean that is off by its last bit."""
    groups, generator = 8, torch.Generator().manual_seed(0)
    of_group = torch.rand(sizes[0], groups, generator=generator).repeat_interleave(sizes[1] // groups, dim=1)
    shift = torch.randn(sizes[1], generator=generator).to(device)
    for last in (False, True):
        v = of_group[..., None, None].expand(sizes).contiguous().to(device)
        v = v.to(memory_format=torch.channels_last) if last else v
        y = feature_maps_forward(FeatureMaps(groups, shifted=True), v, {"shift": shift})
        assert torch.equal(y, shift[:, None, None].expand(sizes))


def test_groups_that_shared_memory_does_not_hold(device):
    """A group of 2^20 elements in float32 is more than the shared memory of a whole cluster."""
    generator = torch.Generator().manual_seed(0)
    for last in (False, True):
        v = torch.randn(1, 4, 512, 520, generator=generator).to(device)
        v = v.to(memory_format=torch.channels_last) if last else v
        maps = FeatureMaps(1, (Pointwise("relu"),), (Pointwise("silu"),))
        exact, by_torch = maps.by_torch(v.double()), maps.by_torch(v)
        error, of_torch = (feature_maps_forward(maps, v) - exact).norm(), (by_torch - exact).norm()
        assert error <= max(2 * of_torch, 2.0**-21 * exact.norm())


@pytest.mark.parametrize("sizes", ((1, 32, 190, 190), (2, 48, 120, 100), (3, 128, 53, 60)))
@pytest.mark.parametrize("dtype", [*ROUNDOFF])
@pytest.mark.memory
def test_a_few_large_maps_are_normalised_in_two_launches(sizes, dtype, device):
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(sizes, generator=generator).to(device, dtype).to(memory_format=torch.channels_last)
    maps = FeatureMaps(16, (Pointwise("add_channel", channel="vector"),), (Pointwise("silu"),), keeps=True)
    operands = {"vector": torch.randn(sizes[:2], generator=generator).to(device, dtype)}
    if v.device.type == "cpu" and dtype is torch.float16:
        assert len(fgn.count(lambda: feature_maps_forward(maps, v, operands))) == 2
    y, u = feature_maps_forward(maps, v, operands)
    exact, by_torch = maps.by_torch(v.double(), double(operands)), maps.by_torch(v, operands)
    assert (y - exact).norm() <= max(2 * (by_torch - exact).norm(), ROUNDOFF[dtype] * exact.norm())
    assert torch.equal(u, v + operands["vector"][..., None, None])


def test_nan_and_infinities_stay_in_their_group(device):
    for value in (float("nan"), float("inf")):
        for last in (False, True):
            v = torch.randn(2, 16, 5, 7, generator=torch.Generator().manual_seed(0)).to(device)
            v[1, 5, 2, 2] = value
            v = v.to(memory_format=torch.channels_last) if last else v
            y = feature_maps_forward(FeatureMaps(4), v)
            assert torch.equal(y.isnan(), F.group_norm(v, 4).isnan())
            assert y[1, 4:8].isnan().all()
            assert y.isnan().sum() == y[1, 4:8].numel()


def test_errors_name_the_argument(device):
    v = torch.randn(2, 8, 3, device=device)
    with pytest.raises(ValueError, match="groups: expected a whole number"):
        FeatureMaps(0)
    with pytest.raises(ValueError, match="groups: expected a divisor of the 8 channels, got 3"):
        feature_maps_forward(FeatureMaps(3), v)
    with pytest.raises(ValueError, match=r"v: expected shape \(batch, channels, positions …\), got \(2, 8\)"):
        feature_maps_forward(FeatureMaps(2), v[:, :, 0])
    with pytest.raises(TypeError, match="v: expected dtype"):
        feature_maps_forward(FeatureMaps(2), v.double())
    with pytest.raises(ValueError, match="operands: expected scale, got none"):
        feature_maps_forward(FeatureMaps(2, scaled=True), v)
    with pytest.raises(ValueError, match=r"scale: expected shape \(8,\), got \(7,\)"):
        feature_maps_forward(FeatureMaps(2, scaled=True), v, {"scale": v[0, :7, 0]})
    with pytest.raises(ValueError, match=r"scale: expected shape \(8,\), got \(1, 8\)"):
        feature_maps_forward(FeatureMaps(2, scaled=True), v, {"scale": v[:1, :, 0]})
    with pytest.raises(RuntimeError, match="need no gradient"), torch.enable_grad():
        feature_maps_forward(FeatureMaps(2), v.clone().requires_grad_())
    wide = torch.randn(1, 4112, 2, device=device).transpose(1, 2).contiguous().transpose(1, 2)
    with pytest.raises(RuntimeError, match="too many for a block"):
        feature_maps_forward(FeatureMaps(1), wide)


def test_a_kept_call_takes_other_tensors(device):
    maps = FeatureMaps(2, (Pointwise("add_tensor", tensor="other"),))
    for last in (False, True):
        for seed in range(4):
            generator = torch.Generator().manual_seed(seed)
            v, other = torch.randn(2, 2, 8, 6, 5, generator=generator).to(device)
            if last:
                v = v.to(memory_format=torch.channels_last)
            if seed % 2:  # in another layout than v, which is copied
                other = other.to(memory_format=torch.channels_last)
            expected = F.group_norm(v + other, 2)
            assert (feature_maps_forward(maps, v, {"other": other}) - expected).abs().max() < 1e-5
    empty = v[:0]
    assert feature_maps_forward(FeatureMaps(2), empty).shape == empty.shape


# ------------------------------------------------------------------------------------------------------------
# In models


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(maps_part, "FEWEST_ELEMENTS", 0)


class Residual(nn.Module):
    """A block of a diffusion network: what it adds to is read again, and a vector is of each sample."""

    def __init__(self, channels: int, out: int, groups: int = 4):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, channels), nn.GroupNorm(groups, out)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.of_time = nn.Linear(8, out)
        self.shortcut = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()
        for norm in (self.norm1, self.norm2):
            nn.init.uniform_(norm.weight, 0.5, 1.5), nn.init.uniform_(norm.bias, -0.5, 0.5)

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.of_time(F.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(h)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(16, 3, 1)
        self.a, self.b, self.norm = Residual(8, 8), Residual(8, 16), nn.GroupNorm(4, 16)

    def forward(self, x, time):
        return self.last(F.silu(self.norm(self.b(self.a(self.first(x), time), time))))


class Untraced(Net):
    def forward(self, x, time):
        x = self.first(x)
        try:
            for block in (self.a, self.b):
                x = block(x, time)
        finally:
            pass
        return self.last(F.silu(self.norm(x)))


def is_near(y, model, *inputs):
    """Whether y is as near to float64 as torch's own result."""
    exact = copy.deepcopy(model).double()(*[one.double() for one in inputs])
    of_torch = (model(*inputs) - exact).norm()
    return (y - exact).norm() <= max(2 * of_torch, 1e-6 * exact.norm())


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("make", [Net, Untraced])
def test_a_network_of_blocks(make, last, device):
    torch.manual_seed(0)
    model = make().eval().to(device)
    x, time = torch.randn(2, 3, 9, 10, device=device), torch.randn(2, 8, device=device)
    if last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    fused = fgn.fuse(model)
    with noting() as noted:
        for _ in range(3):
            y = fused(x, time)
            assert is_near(y, model, x, time)
            assert y.stride() == model(x, time).stride()
    if make is Untraced and device.type == "cpu":
        assert sum("group_norm" in (one.steps or "") for one in noted) == 3 * 5
    if make is Net:
        assert sum("GroupNorm" in one.fused for one in fgn.explain(fused).fused) == 5
    with torch.no_grad():
        model.a.conv1.bias.add_(1.0)
        model.b.norm2.weight.mul_(2.0)
    model.b.norm1.eps = fused.b.norm1.eps = 0.5
    assert is_near(fused(x, time), model, x, time)


def test_gradients_are_torchs(device):
    torch.manual_seed(0)
    model = Net().to(device)
    fused = fgn.fuse(copy.deepcopy(model))
    x, time = torch.randn(2, 3, 9, 10, device=device), torch.randn(2, 8, device=device)
    with torch.enable_grad():
        for one in (model, fused):
            one(x, time).square().sum().backward()
    for a, b in zip(model.parameters(), fused.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4)


class Others(nn.Module):
    """Functions, one dimension and three, groups of a convolution, padding by its name, no bias."""

    def __init__(self):
        super().__init__()
        self.line = nn.Conv1d(4, 8, 3, padding="same", padding_mode="circular", groups=2)
        self.space = nn.Conv3d(2, 6, 2, stride=2, bias=False)
        self.weight, self.bias = nn.Parameter(torch.randn(8, 8, 3)), nn.Parameter(torch.randn(8))
        self.prelu, self.norm = nn.PReLU(8), nn.GroupNorm(2, 8, affine=False)

    def forward(self, x, z):
        x = self.norm(self.prelu(self.line(x) * 0.5))
        x = F.conv1d(x, self.weight, self.bias, padding=1)
        x = F.relu(F.group_norm(x, 4))
        z = F.hardswish(F.group_norm(self.space(z), 3))
        return x.sum(2), z, torch.sigmoid(F.group_norm(z + z, 2))


def test_other_convolutions(device):
    torch.manual_seed(0)
    model = Others().eval().to(device)
    x, z = torch.randn(3, 4, 11, device=device), torch.randn(3, 2, 6, 4, 8, device=device)
    fused = fgn.fuse(model)
    assert len(fgn.explain(fused).fused) == 4
    for y, expected in zip(fused(x, z), model(x, z), strict=True):
        torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)


class ReadBetween(nn.Module):
    """The sum before the norm is read by others, and written to after the norm has read it."""

    def __init__(self, writes: bool):
        super().__init__()
        self.conv, self.norm, self.writes = nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4), writes

    def forward(self, x):
        h = self.conv(x) + x
        y = self.norm(h)
        if self.writes:
            h.add_(1.0)
        z = h * 2.0
        return F.silu(y) + z, h


@pytest.mark.parametrize("writes", [False, True])
def test_a_sum_that_is_read_again(writes, device):
    torch.manual_seed(0)
    model, x = ReadBetween(writes).eval().to(device), torch.randn(2, 4, 5, 6, device=device)
    fused = fgn.fuse(model)
    for y, expected in zip(fused(x), model(x), strict=True):
        torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)


class AddsWhatItNormalised(nn.Module):
    """The convolution's result is read by its norm first, and by an operator behind the norm."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(4, 8, 1), nn.GroupNorm(2, 8), nn.GroupNorm(4, 8)

    def forward(self, x):
        h = self.conv(x)
        return self.last(F.silu(self.norm(h)) + h)


def test_a_convolution_that_is_added_behind_its_norm(device):
    torch.manual_seed(0)
    model, x = AddsWhatItNormalised().eval().to(device), torch.randn(2, 4, 5, 6, device=device)
    fused = fgn.fuse(model)
    assert is_near(fused(x), model, x)
    assert fgn.explain(fused).fused


def test_one_sample_has_the_layout_that_torch_gives_it(device):
    """Its stride decides: without that of channels_last torch's result on a CPU is contiguous, as all results
    are that torch has on a GPU."""
    v = torch.randn(1, 3, 5, 8).movedim(-1, 1)
    for first in (v.stride(0), 8):
        by_torch = F.group_norm(v.as_strided(v.shape, (first, *v.stride()[1:])), 2)
        strided = v.to(device).as_strided(v.shape, (first, *v.stride()[1:]))
        assert feature_maps_forward(FeatureMaps(2), strided).stride() == by_torch.stride()


def test_what_is_no_feature_map_is_torchs(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4), nn.SiLU()).eval().to(device)
    fused, x = fgn.fuse(model), torch.randn(2, 3, 5, 5, device=device)
    hook = model[0].register_forward_hook(lambda module, args, result: result + 1)
    fused_with_hook = fgn.fuse(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(fused_with_hook(x), model(x))
        hook.remove()
        torch.testing.assert_close(fused(x), model(x))
        assert torch.equal(
            copy.deepcopy(fused).double()(x.double()), copy.deepcopy(model).double()(x.double())
        )
        with torch.autocast(device.type, torch.bfloat16):
            assert fused(x).dtype == model(x).dtype
    one = nn.Sequential(nn.Conv2d(3, 4, 5), nn.GroupNorm(4, 4)).to(device)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        fgn.fuse(one)(torch.randn(1, 3, 5, 5, device=device))


def test_what_a_launch_does_not_take_is_torchs(device):
    """300 channels side by side are 300 single elements, more than a block has threads."""
    model = nn.Sequential(nn.Conv2d(3, 300, 1), nn.GroupNorm(1, 300)).eval().to(device)
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 4, 4, device=device).to(memory_format=torch.channels_last)
    with pytest.warns(UserWarning, match="too many for a block"):
        y = fgn.fuse(model)(x)
    torch.testing.assert_close(y, model(x))


def test_a_bias_that_is_no_parameter_is_not_left_out(device):
    for place in (0, 1):
        model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4)).eval().to(device)
        del model[place].bias
        model[place].bias = torch.randn(4, device=device)
        x = torch.randn(2, 3, 5, 5, device=device)
        with pytest.warns(UserWarning, match="bias is no parameter"):
            y = fgn.fuse(model)(x)
        torch.testing.assert_close(y, model(x))


class Indexed(nn.Module):
    """An index that is an array, while a promise is there."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4)

    def forward(self, x):
        try:
            h = self.conv(x)
            picked = h[:, np.array([2, 0, 1, 3])]
            return self.norm(h[:, :, None, ...]) + picked[:, :, None]
        finally:
            pass


def test_an_array_as_an_index(device):
    model, x = Indexed().eval().to(device), torch.randn(2, 3, 5, 5, device=device)
    torch.testing.assert_close(fgn.fuse(model)(x), model(x))
