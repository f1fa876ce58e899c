"""Values that are read again, and gates, in a fused model."""

import pytest
import torch
import torch.nn.functional as F
from rounding import ROUNDOFF
from torch import nn

import fgn
from fgn.chains import Chain
from fgn.fusing import rows_part
from fgn.operators import Pointwise
from fgn.rows import AGAIN, Rows, rows_forward

WIDE = 32


class Model(nn.Module):
    def __init__(self, function, wide=WIDE):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(24, wide), nn.Linear(24, wide), nn.Linear(24, 2 * wide)
        self.number, self.shift = nn.Parameter(torch.tensor(0.3)), nn.Parameter(torch.randn(wide))
        self.act, self.norm, self.glu, self.function = nn.GELU(), nn.InstanceNorm2d(1), nn.GLU(), function

    def forward(self, x):
        return self.function(self, x)


def clone(m, x):
    x = m.a(x)
    original = x.clone().detach()
    return x * 0.5 + original


def residual(m, x):
    x = original = m.a(x)
    x = torch.sigmoid(x)
    x = x * 2.0
    return x + original


def subtracted(m, x):
    x = m.a(x)
    return F.relu(x) * m.shift - x


def behind_operators(m, x):
    x = F.relu(m.a(x))
    return x * torch.sigmoid(x * 2) + x


def in_place_at_the_end(m, x):
    x = m.a(x)
    y = torch.tanh(x) * x
    y += x
    return torch.softmax(y, -1)


def gate_first(m, x):
    up = m.b(x)
    return up * m.act(m.a(x))


def gated_by_itself(m, x):
    x = m.a(x)
    return x * F.mish(x)


def added_to_its_gate(m, x):
    x = m.a(x)
    return m.act(x) + x


def chunk(m, x):
    a, b = m.c(x).chunk(2, dim=-1)
    return a * F.gelu(b)


def split(m, x):
    a, b = torch.split(m.c(x), WIDE, -1)
    return F.silu(a) * b


def slices(m, x):
    h = m.c(x)
    return torch.sigmoid(h[..., :WIDE]) * h[..., WIDE:] + m.shift


def instance_norm(m, x):
    y = torch.cat((x, x), -1)[:, :WIDE]
    v = m.norm(m.a(x).unsqueeze(1).unsqueeze(1)).squeeze(1).squeeze(1)
    return (v + y) * y


FUSED = {
    "clone": clone,
    "residual": residual,
    "subtracted": subtracted,
    "mish": gated_by_itself,
    "behind operators": behind_operators,
    "in place at the end": in_place_at_the_end,
    "minimum": lambda m, x: torch.min(m.a(x), m.number) - m.number,
    "maximum": lambda m, x: torch.maximum(m.shift, m.a(x)) * 2,
    "SwiGLU": lambda m, x: F.silu(m.a(x)) * m.b(x),
    "gate first": gate_first,
    "gate and residual": lambda m, x: m.act(m.a(x)) * m.b(x) + m.shift,
    "chunk": chunk,
    "split": split,
    "slices": slices,
    "glu": lambda m, x: F.glu(m.c(x)),
    "GLU": lambda m, x: m.glu(m.c(x)) + 1,
    "instance norm": instance_norm,
}
OF_MATRICES = ("instance norm",)


@pytest.fixture(params=["product of its own", "product of torch"])
def product(request, monkeypatch):
    if request.param == "product of torch":
        monkeypatch.setattr(rows_part, "multiplies_by_torch", lambda *arguments: True)


@pytest.mark.parametrize("dtype", ROUNDOFF)
@pytest.mark.parametrize("name", FUSED)
def test_is_fused_and_as_accurate_as_torch(name, dtype, device, product):
    torch.manual_seed(0)
    model = Model(FUSED[name]).to(device, dtype)
    fused = fgn.fuse(model)
    assert len(fgn.explain(model).fused) == 1
    errors = []
    for shape in ((7, 24),) if name in OF_MATRICES else ((7, 24), (1, 24), (3, 5, 24), (24,)):
        x = torch.randn(shape, device=device).to(dtype)
        by_torch, exact = model(x), model.double()(x.double())
        model.to(dtype)
        for given in (x, x, x.clone()):
            y = fused(given)
            assert y.shape == by_torch.shape and y.dtype == dtype
        errors.append(torch.stack([(y - exact).norm(), (by_torch - exact).norm(), exact.norm()]))
    # Of all shapes together: one row's error is that of its largest value.
    error, of_torch, size = torch.stack(errors).norm(dim=0)
    assert error <= 2 * of_torch + ROUNDOFF[dtype] / 8 * size


def launches_of(monkeypatch):
    """What is launched as a function of rows."""
    made = []
    launched = rows_part.rows_forward
    monkeypatch.setattr(
        rows_part, "rows_forward", lambda rows, *rest: made.append(rows) or launched(rows, *rest)
    )
    return made


@pytest.mark.parametrize(("name", "half"), [("chunk", 1), ("split", 0), ("residual", None)])
def test_it_is_a_launch_that_reads_the_product_as_it_is(name, half, device, product, monkeypatch):
    made = launches_of(monkeypatch)
    fused = fgn.fuse(Model(FUSED[name]).to(device))
    fused(torch.randn(2, 5, 24, device=device))
    (rows,) = made
    assert rows.function == "values" and rows.half == half and rows.after[-1].tensor == AGAIN


def changed_in_place(m, x):
    x = original = m.a(x)
    x = F.relu(x, inplace=True)
    return x * 2 + original


def changed_behind_a_clone(m, x):
    x = m.a(x)
    original = x.clone()
    x.mul_(2.0)
    return torch.exp(-x.abs()) + original


def changed_as_a_view(m, x):
    x = m.a(x)
    x.view(-1)[3] = 7.0
    return torch.sigmoid(x) + x


def halves_that_overlap(m, x):
    h = m.c(x)
    return torch.sigmoid(h[..., :WIDE]) * h[..., WIDE - 8 : -8]


def unequal(m, x):
    a, b = m.c(x).split([WIDE - 8, WIDE + 8], -1)
    return a.sigmoid() * b[..., : WIDE - 8]


def of_rows(m, x):
    a, b = m.c(torch.cat((x, x))).chunk(2, 0)
    return a * F.gelu(b)


def read_by_others(m, x):
    a, b = m.c(x).chunk(2, -1)
    return a * F.gelu(b), b


LEFT = {
    "changed in place": changed_in_place,
    "changed behind a clone": changed_behind_a_clone,
    "changed as a view": changed_as_a_view,
    "halves that overlap": halves_that_overlap,
    "unequal halves": unequal,
    "halves of rows": of_rows,
    "read by others": read_by_others,
    "a gate of one row": lambda m, x: F.silu(m.a(x)) * m.b(x)[:1],
    "a gate of one column": lambda m, x: F.silu(m.a(x)) * m.b(x)[..., :1],
    "a gate of more dimensions": lambda m, x: F.silu(m.a(x)) * m.b(x)[None],
    "a gate of another dtype": lambda m, x: F.silu(m.a(x)) * m.b(x).double(),
    "an expanded gate": lambda m, x: F.silu(m.a(x)) * m.b(x[:1]).expand(x.shape[0], -1),
    "a minimum over a dimension": lambda m, x: torch.min(m.a(x), 1)[0] - m.number,
}


@pytest.mark.parametrize("name", LEFT)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_what_would_be_another_result_is_torchs(name, dtype, device, product):
    torch.manual_seed(0)
    model = Model(LEFT[name]).to(device, dtype)
    fused = fgn.fuse(model)
    for shape in ((7, 24), (1, 24), (4, 24)):
        x = torch.randn(shape, device=device).to(dtype)
        for _ in range(2):
            torch.testing.assert_close(fused(x), model(x), rtol=4 * ROUNDOFF[dtype], atol=4 * ROUNDOFF[dtype])


def test_what_changes_between_calls_is_followed(device, product):
    torch.manual_seed(0)
    seen, x, one_feature = [], torch.randn(7, 24, device=device), nn.Linear(24, 1).to(device)
    for function in (gate_first, added_to_its_gate):
        model = Model(function).to(device)
        model.act = nn.ReLU()
        fused = fgn.fuse(model)
        for change in (
            lambda model: None,
            lambda model: setattr(model.act, "inplace", True),
            lambda model: setattr(model, "act", nn.GELU()),
            lambda model: setattr(model.a, "weight", nn.Parameter(torch.ones(WIDE, 24, device=device))),
            lambda model: model.a.register_forward_hook(lambda module, args, y: y * 2),
            lambda model: model.b.register_forward_hook(lambda module, args, y: y + 1),
            lambda model: model.act.register_forward_hook(lambda module, args, y: seen.append(1)),
            lambda model: setattr(model, "b", one_feature),
        ):
            change(model)
            change(fused)
            for _ in range(2):
                torch.testing.assert_close(fused(x), model(x))
    assert len(seen) == 2 * 2 * 2 * 2


@pytest.mark.parametrize("name", FUSED)
def test_gradients_are_torchs(name, device):
    torch.manual_seed(0)
    model = Model(FUSED[name]).to(device)
    fused, x = fgn.fuse(model), torch.randn(7, 24, device=device)
    fused(x)
    with torch.enable_grad():
        for of in (x.clone().requires_grad_(), model.a.weight, model.b.bias, model.c.weight):
            x_of = of if of.dim() == 2 and of.shape == x.shape else x
            given, expected = (
                torch.autograd.grad(one(x_of).square().sum(), of, allow_unused=True)[0]
                for one in (fused, model)
            )
            assert (given is None) == (expected is None)
            if given is not None:
                torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-4)


def test_compile_vmap_and_autocast(device):
    torch.manual_seed(0)
    for name in ("residual", "SwiGLU", "chunk"):
        model = Model(FUSED[name]).to(device).eval()
        fused, x = fgn.fuse(model), torch.randn(7, 24, device=device)
        expected = model(x)
        torch.testing.assert_close(torch.compile(fused, fullgraph=True, backend="aot_eager")(x), expected)
        torch.testing.assert_close(torch.func.vmap(fused)(x[None])[0], expected)
        with torch.autocast(device.type, torch.bfloat16):
            given, by_torch = fused(x), model(x)
        assert given.dtype == by_torch.dtype
        torch.testing.assert_close(given, by_torch, rtol=3e-2, atol=3e-2)


# ------------------------------------------------------------------------------------------------------------
# The launch


@pytest.mark.parametrize("half", [None, 0, 1])
@pytest.mark.parametrize("dtype", ROUNDOFF)
@pytest.mark.memory
def test_values_alone(half, dtype, device):
    after = (
        Pointwise("gelu"),
        Pointwise("multiply_tensor", tensor=AGAIN),
        Pointwise("minimum_channel", channel="bound"),
        Pointwise("add_tensor", tensor=AGAIN),
        Pointwise("multiply_tensor", tensor="other"),
    )
    rows = Rows("values", (Pointwise("multiply", 0.5),), after, half=half)
    for features in (1, 12, 33, 64, 300, 2048, 5000, 20000):
        generator = torch.Generator().manual_seed(features)
        sizes = (7, features if half is None else 2 * features), (7, features), (features,)
        v, other, bound = (torch.randn(size, generator=generator).to(device, dtype) for size in sizes)
        operands = {"other": other, "bound": bound}
        exact = rows.by_torch(v.double(), {name: one.double() for name, one in operands.items()})
        y = rows_forward(rows, v, operands)
        by_torch = (rows.by_torch(v, operands) - exact).norm()
        assert (y - exact).norm() <= 2 * by_torch + ROUNDOFF[dtype] / 8 * exact.norm()
        assert torch.equal(rows_forward(rows, v, operands), y)
        views = {"other": torch.cat((other, other), 1)[:, features:], "bound": bound}
        assert torch.equal(rows_forward(rows, v.t().contiguous().t(), views), y)


def test_errors_name_the_argument(device):
    again = (Pointwise("add_tensor", tensor=AGAIN),)
    with pytest.raises(ValueError, match="half: softmax is over whole rows"):
        Rows("softmax", half=0)
    with pytest.raises(ValueError, match="half: expected None, 0 or 1, got 2"):
        Rows("values", half=2)
    with pytest.raises(ValueError, match="values have no window"):
        Rows("values", keeps=True)
    for given in ({"function": "softmax", "after": again}, {"function": "values", "before": again}):
        with pytest.raises(ValueError, match="only steps behind values or a reduction read 'v' again"):
            Rows(**given)
    with pytest.raises(ValueError, match="v: expected two halves"):
        rows_forward(Rows("values", half=0), torch.rand(3, 7, device=device))
    with pytest.raises(ValueError, match="before: no chain has multiply_tensor"):
        Chain("gate", (Pointwise("multiply_tensor", tensor="other"),), 0, ())
