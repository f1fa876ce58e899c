"""Functions of rows: softmax, RMSNorm, reductions and pooling over the features, with the operators around
them, alone (`fgn.rows`) and behind a product in a fused model."""

import copy
import random

import pytest
import torch
import torch.nn.functional as F
from rounding import ROUNDOFF
from torch import nn

import fgn
from fgn import gradients
from fgn.chains import Shape
from fgn.fusing import rows_part
from fgn.fusing.alone import ProductPart, own_is_faster
from fgn.measure.accuracy import relative_error
from fgn.operators import Pointwise
from fgn.plans import Device
from fgn.rows import ROW_FUNCTIONS, Rows, rows_forward

SIZES = (1, 2, 3, 5, 8, 16, 31, 33, 64, 100, 255, 256, 300, 1000, 1024, 2047, 2048, 2049, 3000, 4096, 5000)
LONG = (8192, 8200, 9000, 20000)  # rows that a block's registers do not hold


def random_problems(seed: int, count: int):
    """(rows, v, operands) of any function, sizes without a pattern."""
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    for _ in range(count):
        function, dtype = draw.choice([*ROW_FUNCTIONS]), draw.choice([*ROUNDOFF])
        features, batch = draw.choice(SIZES + LONG), draw.choice((1, 2, 3, 7, 33))
        window = None
        if ROW_FUNCTIONS[function].reduces and draw.random() < 0.4:
            window = min(features, draw.choice((1, 2, 3, 4, 5, 7, 8, 16, 50, 64)))
        elif function != "values" and draw.random() < 0.2:
            window = draw.choice([size for size in range(1, features + 1) if features % size == 0])
        results = Rows(function, window=window).results_of(features)
        second, last = None, ()
        if ROW_FUNCTIONS[function].reduces and draw.random() < 0.5:
            second = draw.choice([name for name, one in ROW_FUNCTIONS.items() if one.reduces])
            last = draw.choice(((), (Pointwise("multiply", 0.5), Pointwise("silu"))))

        def values(*size, dtype=dtype, generator=generator):
            return torch.randn(size, generator=generator).to(dtype)

        before, after, operands = (), (), {}
        if draw.random() < 0.5:
            operands = {"scale": values(draw.choice((1, features))).abs() + 0.5}
            before = (Pointwise("multiply_channel", channel="scale"), Pointwise("gelu"))
        if draw.random() < 0.5:
            operands |= {"shift": values(draw.choice((1, results))), "other": values(batch, results)}
            after = (
                Pointwise("add_channel", channel="shift"),
                Pointwise("add_tensor", tensor="other"),
                Pointwise("sigmoid"),
            )
        v = values(batch, features) * draw.choice((0.1, 1, 10))
        yield Rows(function, before, after, window, 1e-5, second=second, last=last), v, operands


def to(device, v, operands):
    return v.to(device), {name: value.to(device) for name, value in operands.items()}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.memory
def test_random_functions_of_rows(seed, device):
    for rows, v, operands in random_problems(seed, 40):
        v, operands = to(device, v, operands)
        exact = rows.by_torch(v.double(), {name: value.double() for name, value in operands.items()})
        by_torch = rows.by_torch(v, operands)
        size = exact.norm() + exact.numel() ** 0.5 * 1e-30
        y = rows_forward(rows, v, operands)
        error, of_torch = (y - exact).norm() / size, (by_torch - exact).norm() / size
        assert error <= max(2 * of_torch, ROUNDOFF[v.dtype]), (rows, v.shape, v.dtype)
        assert torch.equal(rows_forward(rows, v, operands), y)  # the call that is kept


@pytest.mark.parametrize("function", ROW_FUNCTIONS)
def test_infinities_and_nan_go_where_torch_sends_them(function, device):
    inf, nan = float("inf"), float("nan")
    kinds = [1, inf, 2], [1, -inf, 2], [-inf] * 3, [inf, inf, 1], [nan, 1, 2], [1, 2, nan]
    kinds += [inf, -inf, 0], [nan, inf, 1], [-inf, nan, -inf], [inf, nan, 2]
    if function != "layer_norm":  # whose squares are no float32
        kinds += ([1e30, -1e30, 3e38],)
    for row in kinds:
        for filled in (8, 3000):
            v = torch.tensor([[*row] + [0.5] * (filled - 3)], device=device)
            rows = Rows(function)
            torch.testing.assert_close(
                rows_forward(rows, v), rows.by_torch(v), equal_nan=True, rtol=1e-4, atol=1e-6
            )


def test_large_values_keep_their_softmax(device):
    v = torch.randn(5, 700, generator=torch.Generator().manual_seed(0)).to(device) + 3e4
    for function in ("softmax", "log_softmax", "logsumexp"):
        exact = Rows(function).by_torch(v.double())
        assert (rows_forward(Rows(function), v) - exact).norm() <= 1e-5 * exact.norm()


def test_errors_name_the_argument(device):
    v = torch.randn(3, 8, device=device)
    with pytest.raises(ValueError, match="function: expected one of sum, mean"):
        Rows("median")
    with pytest.raises(ValueError, match="second: expected a reduction after a reduction, got 'softmax'"):
        Rows("max", window=2, second="softmax")
    with pytest.raises(ValueError, match="second: expected a reduction after a reduction, got 'sum'"):
        Rows("softmax", second="sum")
    with pytest.raises(ValueError, match="last: expected steps without operands, after a second function"):
        Rows("max", last=(Pointwise("relu"),))
    with pytest.raises(ValueError, match="window: expected a whole number"):
        Rows("sum", window=0)
    with pytest.raises(ValueError, match="window is 9, expected 1 to 8"):
        rows_forward(Rows("sum", window=9), v)
    with pytest.raises(ValueError, match="window is 3, expected a divisor of the 8"):
        rows_forward(Rows("softmax", window=3), v)
    with pytest.raises(ValueError, match=r"v: expected shape \(batch, features\)"):
        rows_forward(Rows("sum"), v[0])
    with pytest.raises(TypeError, match="v: expected dtype"):
        rows_forward(Rows("sum"), v.double())
    with pytest.raises(TypeError, match=r"v: expected a torch.Tensor, got list"):
        rows_forward(Rows("sum"), [[1.0]])
    with pytest.raises(ValueError, match=r"v: expected 1 feature or more, got shape \(3, 0\)"):
        rows_forward(Rows("sum"), v[:, :0])
    scaled = Rows("sum", (Pointwise("multiply_channel", channel="scale"),))
    with pytest.raises(ValueError, match="operands: expected scale, got none"):
        rows_forward(scaled, v)
    with pytest.raises(TypeError, match=r"scale: expected a torch.Tensor, got float"):
        rows_forward(scaled, v, {"scale": 2.0})
    with pytest.raises(ValueError, match=r"scale: expected shape \(8,\), got \(7,\)"):
        rows_forward(scaled, v, {"scale": v[0, :7]})
    with pytest.raises(RuntimeError, match="need no gradient"), torch.enable_grad():
        rows_forward(Rows("sum"), v.clone().requires_grad_())


def test_a_kept_call_notices_a_gradient_that_is_wanted(device):
    v, rows = torch.randn(3, 8, device=device), Rows("sum")
    rows_forward(rows, v)
    with pytest.raises(RuntimeError, match="need no gradient"), torch.enable_grad():
        rows_forward(rows, v.requires_grad_())


def test_the_sum_before_a_norm_is_kept(device):
    generator = torch.Generator().manual_seed(0)
    for dtype in ROUNDOFF:
        for batch, features in ((3, 8), (33, 256), (5, 1024), (7, 8192)):
            v = torch.randn(batch, features, generator=generator).to(device, dtype)
            other = torch.randn(batch, features, generator=generator).to(device, dtype)
            for function in ("layer_norm", "rms_norm", "softmax"):
                rows = Rows(function, (Pointwise("add_tensor", tensor="other"),), eps=1e-5, keeps=True)
                y, u = rows_forward(rows, v, {"other": other})
                assert torch.equal(u, v + other)
                exact = rows.by_torch(v.double(), {"other": other.double()})
                assert (y - exact).norm() <= 2 * ROUNDOFF[dtype] * exact.norm()


def test_a_large_mean_beside_a_small_deviation(device):
    v = torch.randn(5, 4096, generator=torch.Generator().manual_seed(0)).to(device) + 1e4
    exact, by_torch = Rows("layer_norm", eps=1e-5).by_torch(v.double()), F.layer_norm(v, (4096,))
    y = rows_forward(Rows("layer_norm", eps=1e-5), v)
    assert (y - exact).norm() <= 2 * (by_torch - exact).norm() + 1e-5 * exact.norm()


@pytest.mark.parametrize("window", [None, 2, 4, 5, 24])
@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_operators_read_a_result_again(window, dtype, device):
    after = (Pointwise("mish"), Pointwise("multiply_tensor", tensor="v"), Pointwise("add_tensor", tensor="v"))
    v = torch.randn(7, 48, device=device).to(dtype)
    for function in [name for name, one in ROW_FUNCTIONS.items() if one.reduces]:
        rows = Rows(function, after=after, window=window)
        y, exact = rows_forward(rows, v), rows.by_torch(v.double())
        assert (y.double() - exact).norm() <= 4 * ROUNDOFF[dtype] * exact.norm(), function
    with pytest.raises(ValueError, match="read 'v' again"):
        Rows("softmax", after=after)


def test_no_rows(device):
    v = torch.empty(0, 8, device=device)
    assert rows_forward(Rows("sum"), v).shape == (0, 1)
    assert rows_forward(Rows("softmax"), v).shape == (0, 8)


# ------------------------------------------------------------------------------------------------------------
# In a fused model


@pytest.fixture(params=["product of its own", "product of torch"])
def product(request, monkeypatch):
    """Who multiplies: torch, as on a GPU in 16 bits, leaves the operators behind its product to the launch of
    the function, on the simulator too."""
    if request.param == "product of torch":
        monkeypatch.setattr(rows_part, "multiplies_by_torch", lambda *arguments: True)


class Applied(nn.Module):
    """A Linear, and a function of its result."""

    def __init__(self, function, features=24):
        super().__init__()
        self.fc, self.function = nn.Linear(12, features), function
        self.shift = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return self.function(self.fc(x), self.shift)


def written(y):
    return F.relu(y, inplace=True) + y * 2


def again(y):
    return torch.tanh(y) * y


FUSED = {
    "softmax": lambda v, shift: torch.softmax(v + shift, 1),
    "functional softmax": lambda v, shift: F.softmax(v, dim=-1),
    "method": lambda v, shift: v.softmax(-1) * 2,
    "log_softmax": lambda v, shift: F.log_softmax(F.gelu(v), -1),
    "sum": lambda v, shift: v.sum(1, keepdim=True) * 0.5,
    "sum without its dimension": lambda v, shift: torch.sigmoid(v).sum(-1),
    "mean of a list": lambda v, shift: torch.mean(v - shift, dim=[1], keepdim=True),
    "max": lambda v, shift: torch.max(v, dim=1, keepdim=True)[0],
    "max's values": lambda v, shift: torch.relu(v.max(dim=1).values),
    "amin": lambda v, shift: torch.amin(v, -1, keepdim=True),
    "norm": lambda v, shift: (v + shift).norm(dim=1, keepdim=True),
    "functional norm": lambda v, shift: torch.norm(v, 2, -1),
    "linalg's norm": lambda v, shift: torch.linalg.vector_norm(v, dim=[-1], keepdim=True) * 3,
    "linalg's other norm": lambda v, shift: torch.linalg.norm(v, dim=1),
    "a sum of norms": lambda v, shift: v.norm(dim=1, keepdim=True).sum(1),
    "one after the other": lambda v, shift: torch.logsumexp(
        torch.mean(torch.max(v.sum(1, keepdim=True), 1, keepdim=True)[0], 1, keepdim=True), 1, keepdim=True
    ),
    "one value, unchanged and then not": lambda v, shift: F.gelu(
        torch.logsumexp(v.mean(1, keepdim=True).amin(-1, keepdim=True), 1, keepdim=True)
    ),
    "a result again": lambda v, shift: again(torch.logsumexp(v, 1, keepdim=True)),
    "a result again, without its dimension": lambda v, shift: again(F.relu(v).sum(-1)),
    "rms_norm": lambda v, shift: F.relu(v).sqrt().softmax(1) + 0.0,
    "then a residual": lambda v, shift: v.softmax(-1) + shift,
}
LEFT = {
    "written before it is read again": lambda v, shift: written(v.sum(1, keepdim=True)),
    "another dimension": lambda v, shift: v.softmax(0),
    "all dimensions": lambda v, shift: v.sum(),
    "in another dtype": lambda v, shift: v.softmax(-1, dtype=torch.float64),
    "indices": lambda v, shift: v.max(1)[1],
    "another norm": lambda v, shift: v.norm(1, dim=1),
    "the norm of all": lambda v, shift: v.norm() + v,
    "two results": lambda v, shift: torch.stack([v.max(1)[0], v.max(1)[1].float()]),
    "broadcast": lambda v, shift: v.sum(1, keepdim=True) + shift,
    "broadcast length": lambda v, shift: v.norm(dim=1, keepdim=True) + shift,
    "a sum that has lost its dimension": lambda v, shift: v[:24].sum(1) + shift[: v.shape[0]],
}


def assert_as_exact(y, model, x):
    """y is as near to the model in float64 as its dtype allows."""
    exact = model.double()(x.double())
    model.to(x.dtype)
    assert y.shape == exact.shape
    assert (y.double() - exact).norm() <= 4 * ROUNDOFF[x.dtype] * (exact.double().norm() + 1e-6)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", [*FUSED, *LEFT])
def test_what_follows_a_linear(name, training, device, product):
    torch.manual_seed(0)
    model = Applied((FUSED | LEFT)[name]).to(device)
    fused = fgn.fuse(model)
    x = torch.randn(7, 12, device=device)
    with torch.set_grad_enabled(training):
        y, again = fused(x), fused(x)
        assert torch.equal(y, again)
        assert_as_exact(y, model, x)
        if training and y.requires_grad:
            weight = model.fc.weight
            expected = torch.autograd.grad(model(x).float().square().sum(), weight, allow_unused=True)[0]
            given = torch.autograd.grad(fused(x).float().square().sum(), weight, allow_unused=True)[0]
            torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FUSED)
def test_explain_says_that_it_is_taken(name):
    explained = str(fgn.explain(Applied(FUSED[name])))
    assert "one call for fc (Linear) →" in explained and "then the module's result" in explained


@pytest.mark.parametrize(
    "behind",
    [
        (nn.Softmax(-1),),
        (nn.LogSoftmax(dim=1), nn.Hardtanh(-3.0, -0.5)),
        (nn.RMSNorm(24), nn.SiLU()),
        (nn.RMSNorm(24, eps=0.1, elementwise_affine=False),),
        (nn.GELU(), nn.MaxPool1d(2)),
        (nn.AvgPool1d(5), nn.GELU(), nn.Softmax(-1)),
        (nn.MaxPool1d(3, stride=2),),
        (nn.AvgPool1d(2, padding=1),),
        (nn.RMSNorm((7, 24)),),
        (nn.GroupNorm(4, 24), nn.ReLU(), nn.Softmax(1)),
        (nn.Dropout(0.5), nn.Softmax(1)),
    ],
    ids=lambda behind: "-".join(type(module).__name__ for module in behind),
)
@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_modules(behind, dtype, device, product):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 24), *behind).eval().to(device, dtype)
    for module in model:
        if isinstance(module, nn.RMSNorm) and module.weight is not None:
            nn.init.uniform_(module.weight, 0.5, 1.5)
    fused = fgn.fuse(model)
    for shape in ((7, 12), (3, 7, 12)) if not isinstance(behind[0], nn.GroupNorm) else ((7, 12),):
        x = torch.randn(shape, device=device).to(dtype)
        exact, y = model.double()(x.double()), None
        model.to(dtype)
        y = fused(x)
        by_torch = (model(x) - exact).norm()
        assert (y - exact).norm() <= 2 * by_torch + ROUNDOFF[dtype] * exact.norm()


@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_the_eps_of_rms_norm_is_torch_s_where_none_is_named(dtype, device):
    model = nn.Sequential(nn.Linear(12, 24, bias=False), nn.RMSNorm(24)).to(device, dtype)
    fused = fgn.fuse(model)
    for scale in (1.0, 1e-2, 1e-3):
        x = (torch.randn(7, 12, device=device) * scale).to(dtype)
        torch.testing.assert_close(fused(x), model(x), rtol=8 * ROUNDOFF[dtype], atol=1e-3)


def test_settings_are_those_of_the_call(device, product):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 24), nn.RMSNorm(24), nn.Softmax(-1)).to(device)
    fused, x = fgn.fuse(model), torch.randn(7, 12, device=device)
    weight = nn.Parameter(torch.rand(24, device=device))
    for change in (
        lambda model: setattr(model[2], "dim", 0),
        lambda model: setattr(model[2], "dim", 1),
        lambda model: setattr(model[1], "eps", 3.0),
        lambda model: nn.init.constant_(model[1].weight, 0.7),
        lambda model: setattr(model[1], "weight", weight),
        lambda model: model[2].register_forward_hook(lambda module, args, y: y + 1),
    ):
        change(model)
        change(fused)
        for _ in range(2):
            torch.testing.assert_close(fused(x), model(x))


def test_rows_of_more_dimensions_are_no_repetition_of_a_matrix(device, product):
    torch.manual_seed(0)
    model = Applied(lambda v, shift: v.softmax(1)).to(device)
    fused, x = fgn.fuse(model), torch.randn(6, 12, device=device)
    for shape in ((6, 12), (6, 12), (2, 3, 12), (6, 12), (1, 6, 12)):
        torch.testing.assert_close(fused(x.view(shape)), model(x.view(shape)))


def test_what_is_no_function_of_rows_is_seen_before_the_product_is_made(device, monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 24), nn.Softmax(1)).to(device)
    fused, x = fgn.fuse(model), torch.randn(2, 3, 12, device=device)
    made = []
    monkeypatch.setattr(rows_part, "multiplies_by_torch", lambda *arguments: True)
    monkeypatch.setattr(rows_part, "gains_before_rows", lambda *arguments: False)
    monkeypatch.setattr(rows_part, "torch_linear", lambda *arguments: made.append(1) or F.linear(*arguments))
    torch.testing.assert_close(fused(x), model(x))
    assert not made
    torch.testing.assert_close(fused(x[0]), model(x[0]))
    assert made == [1]


def test_transforms_compile_and_autocast(device):
    torch.manual_seed(0)
    model = Applied(FUSED["softmax"]).to(device).eval()
    fused, x = fgn.fuse(model), torch.randn(7, 12, device=device)
    expected = model(x)
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), expected)
    torch.testing.assert_close(torch.func.vmap(fused)(x[None])[0], expected)
    exported = torch.export.export(fused, (x,)).module()
    torch.testing.assert_close(exported(x), expected)
    with torch.autocast(device.type, torch.bfloat16):
        given, by_torch = fused(x), model(x)
    assert given.dtype == by_torch.dtype
    torch.testing.assert_close(given, by_torch, rtol=3e-2, atol=3e-2)


def test_one_launch_behind_a_product_of_cublas(device):
    if device.type == "cpu":
        pytest.skip("on the simulator all products are fgn's own")
    torch.manual_seed(0)
    model = Applied(FUSED["log_softmax"], 512).to(device).half()
    fused, x = fgn.fuse(model), torch.randn(64, 12, device=device).half()
    fused(x)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        fused(x)
        torch.cuda.synchronize()
    kernels = [event.name for event in seen.events() if "rows_" in event.name or "elementwise" in event.name]
    assert len(kernels) == 1 and "rows_float16" in kernels[0]


class Pooled(nn.Module):
    """A product, pooling of each row, and what reduces the pooled values."""

    def __init__(self, pool, behind, features=24):
        super().__init__()
        self.fc, self.pool, self.behind = nn.Linear(12, features), pool, behind

    def forward(self, x):
        return self.behind(self.pool(torch.tanh(self.fc(x)).unsqueeze(1)).squeeze(1))


@pytest.mark.parametrize(
    ("pool", "behind", "launches"),
    [
        (nn.MaxPool1d(2), lambda v: v.sum(dim=1) * 0.5, 1),
        (nn.AvgPool1d(8), lambda v: F.gelu(v * 2).amax(-1, keepdim=True), 1),
        (nn.AvgPool1d(5), lambda v: torch.logsumexp(F.silu(v), 1, keepdim=True).clamp(0, 1), 1),
        (nn.MaxPool1d(4), lambda v: v.mean(1, keepdim=True).amax(1, keepdim=True).tanh(), 1),
        (nn.MaxPool1d(3), lambda v: v.softmax(-1), 2),
        (nn.MaxPool1d(2), lambda v: v.norm(dim=1) + v.sum(1), 1),
        (nn.AvgPool1d(2), lambda v: v.sum(0), 1),
        (nn.MaxPool1d(2, stride=1), lambda v: v.sum(1), 0),
    ],
)
@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_a_reduction_of_pooled_values(pool, behind, launches, dtype, device, product, monkeypatch):
    """It is in the launch that pools, where it is one of rows."""
    made = []

    def counted(*arguments):
        made.append(arguments)
        return rows_forward(*arguments)

    monkeypatch.setattr(rows_part, "rows_forward", counted)
    torch.manual_seed(0)
    model = Pooled(pool, behind).to(device, dtype).eval()
    fused, x = fgn.fuse(model), torch.randn(7, 12, device=device).to(dtype)
    y = fused(x)
    assert len(made) == launches
    for _ in range(3):
        assert torch.equal(fused(x), y)
    by_torch = model(x)
    exact = model.double()(x.double())
    assert y.shape == exact.shape
    assert (y - exact).norm() <= 2 * (by_torch - exact).norm() + ROUNDOFF[dtype] * exact.norm()


def test_pooling_that_changes_after_its_reduction_was_fused(device, product):
    model = Pooled(nn.MaxPool1d(2), lambda v: v.sum(1)).to(device).eval()
    fused, x = fgn.fuse(model), torch.randn(7, 12, device=device)
    for size, stride in ((2, 2), (4, 4), (3, 3), (3, 2), (2, 2)):
        for one in (model, fused):
            one.pool.kernel_size, one.pool.stride = size, stride
        for _ in range(2):
            torch.testing.assert_close(fused(x), model(x), rtol=1e-4, atol=1e-5)
    handle = fused.pool.register_forward_hook(lambda module, given, result: result * 3)
    torch.testing.assert_close(fused(x), model(x) * 3, rtol=1e-4, atol=1e-5)
    handle.remove()
    torch.testing.assert_close(fused(x), model(x), rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------------------------------------------------
# Two results: a sum and its norm


class PreNorm(nn.Module):
    """Half of a transformer's block, twice: the sum of each is read by its norm and by the next sum."""

    def __init__(self, norm, features=32):
        super().__init__()
        self.norms = nn.ModuleList([norm(features) for _ in range(3)])
        self.linears = nn.ModuleList([nn.Linear(features, features) for _ in range(3)])

    def forward(self, x):
        for norm, linear in zip(self.norms, self.linears, strict=True):
            x = x + linear(torch.tanh(norm(x)))
        return x


class ReadBefore(nn.Module):
    """The sum is read before its norm, too, and changed behind it."""

    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(32, 32), nn.LayerNorm(32)

    def forward(self, x):
        s = self.fc(x) + x
        first = s * 2
        y = self.norm(s)
        s += 1
        return first, y, s


@pytest.mark.parametrize("dtype", ROUNDOFF)
@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_a_sum_and_its_norm(norm, dtype, device, product):
    torch.manual_seed(0)
    model = PreNorm(norm).to(device, dtype)
    for parameter in model.norms.parameters():
        nn.init.uniform_(parameter, 0.3, 1.3)
    fused = fgn.fuse(model)
    assert str(fgn.explain(model)).count("then the sum, which others read too") == 2
    for shape in ((7, 32), (3, 5, 32), (2, 3, 5, 32), (32,)):
        x = torch.randn(shape, device=device).to(dtype)
        exact = model.double()(x.double())
        model.to(dtype)
        by_torch = (model(x) - exact).norm()
        for wants_gradient in (False, True):
            with torch.set_grad_enabled(wants_gradient):
                y = fused(x)
            assert (y - exact).norm() <= 2 * by_torch + ROUNDOFF[dtype] * exact.norm()
    with torch.enable_grad():
        x = torch.randn(7, 32, device=device).to(dtype)
        given = torch.autograd.grad(fused(x).float().sum(), [*fused.parameters()])
        expected = torch.autograd.grad(model(x).float().sum(), [*model.parameters()])
    for one, other in zip(given, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=32 * ROUNDOFF[dtype], atol=64 * ROUNDOFF[dtype])


def test_a_sum_that_is_changed_or_read_before_its_norm(device, product):
    torch.manual_seed(0)
    model = ReadBefore().to(device)
    fused, x = fgn.fuse(model), torch.randn(7, 32, device=device)
    for one, other in zip(fused(x), model(x), strict=True):
        torch.testing.assert_close(one, other)


def test_a_norm_that_changes_is_followed(device, product):
    torch.manual_seed(0)
    model = PreNorm(nn.LayerNorm).to(device)
    fused, x = fgn.fuse(model), torch.randn(7, 32, device=device)
    seen = []
    for change in (
        lambda model: setattr(model.norms[1], "eps", 0.5),
        lambda model: nn.init.constant_(model.norms[1].bias, 0.3),
        lambda model: setattr(model.norms[2], "weight", nn.Parameter(torch.ones(32, device=device) * 2)),
        lambda model: model.norms[1].register_forward_hook(lambda module, args, y: seen.append(1)),
        lambda model: setattr(model.norms, "2", nn.RMSNorm(32).to(device)),
    ):
        change(model)
        change(fused)
        for _ in range(2):
            torch.testing.assert_close(fused(x), model(x))
    assert len(seen) == 8


@torch.enable_grad()
@pytest.mark.parametrize(
    "tail", [nn.Softmax(-1), nn.LogSoftmax(-1), nn.RMSNorm(48, elementwise_affine=False)]
)
@pytest.mark.simulator
def test_in_training_the_products_around_a_function_of_rows_are_fgns(tail, monkeypatch):
    """Where they gain by it, which a GPU tells; the function's own gradient is torch's."""
    by_fgn, run_backward = [], gradients.run_backward
    monkeypatch.setattr(ProductPart, "_gains", lambda *_: True)
    monkeypatch.setattr(
        gradients,
        "run_backward",
        lambda *given, **named: by_fgn.append(given[0]) or run_backward(*given, **named),
    )
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 48), tail)
    x, dy = torch.randn(5, 32, requires_grad=True), torch.randn(5, 48)

    def found(one, x):
        y = one(x)
        return torch.autograd.grad(y, [x, *one.parameters()], dy.to(y.dtype))

    exact = found(copy.deepcopy(model).double(), x.detach().double().requires_grad_())
    ours, theirs = found(fgn.fuse(model), x), found(model, x)
    assert [chain.is_product for chain in by_fgn] == [True]
    for one, other, right in zip(ours, theirs, exact, strict=True):
        assert relative_error(one, right) < max(2 * relative_error(other, right), 1e-7)


class Residual(nn.Module):
    """What is added to a function of a product is a copy of x."""

    def __init__(self, change):
        super().__init__()
        self.fc, self.change, self.act = nn.Linear(12, 12), change, nn.ReLU()
        self.bias = nn.Parameter(torch.randn(1, 12, 1, 1))

    def forward(self, x):
        return self.change(self, x, x.clone().detach())


def _written_between(model, x, kept):
    y = model.fc(x).softmax(-1)
    x.mul_(2)
    return y + kept


def _a_result_too(model, x, kept):
    return model.fc(x).sum(1, keepdim=True) + kept, kept


COPIES = {
    "left out": (lambda model, x, kept: F.gelu(model.fc(x).mean(1, keepdim=True)) + kept, 0),
    "written between": (_written_between, 1),
    "written to": (lambda model, x, kept: kept.add_(model.fc(x).softmax(-1)), 1),
    "a result too": (_a_result_too, 1),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_left_out_where_nothing_writes_before_it_is_read(name, device):
    change, copies = COPIES[name]
    model = Residual(change).to(device)
    fused, x = fgn.fuse(model), torch.randn(5, 12, device=device)
    assert fgn.explain(fused).fused
    first, second = x.clone(), x.clone()
    torch.testing.assert_close(fused(first), model(second), rtol=1e-4, atol=1e-5)
    assert torch.equal(first, second)
    with torch.profiler.profile() as profile:
        fused(x)
    assert sum(event.key == "aten::clone" for event in profile.key_averages()) == copies


def test_a_parameter_that_is_no_row_is_added_behind_the_function(device):
    model = Residual(lambda model, x, _: model.fc(x).amin(1, keepdim=True) + model.bias).to(device)
    fused, x = fgn.fuse(model), torch.randn(5, 12, device=device)
    assert "then add" in str(fgn.explain(fused))
    torch.testing.assert_close(fused(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "shape, is_faster",
    [
        ((8192, 256, 512), True),
        ((16, 1536, 2048), True),
        ((1024, 1024, 64), True),
        ((1, 1000, 1000), False),
        ((30000, 1000, 64), False),
        ((8192, 64, 512), False),
    ],
)
def test_whose_float32_product_is_expected_to_be_faster_before_a_function(shape, is_faster):
    """What the models of both products' time decide."""
    device = Device(9, 0, 132, 50 << 20)
    assert own_is_faster(torch.device("cpu"), Shape(*shape, 0), False, device) is is_faster


def test_a_product_of_fgns_before_a_function_is_chosen_once(device, monkeypatch):
    asked = []
    monkeypatch.setattr(rows_part, "multiplies_by_torch", lambda *arguments: True)
    monkeypatch.setattr(rows_part, "gains_before_rows", lambda *arguments: asked.append(1) or True)
    model = Applied(FUSED["softmax"]).to(device)
    fused, x = fgn.fuse(model), torch.randn(5, 12, device=device)
    for _ in range(3):
        torch.testing.assert_close(fused(x), model(x), rtol=1e-4, atol=1e-5)
    assert len(asked) == 1
