"""fgn.fuse() where a product, a norm or an activation is written otherwise than as a module of torch.nn."""

import copy
import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

import fgn
from fgn.fusing import formulas

BATCH, INPUTS, OUTPUTS, GROUPS = 40, 20, 24, 4


def gradients_of(model, x):
    """The result, and the gradients of x and of all parameters."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    y = model(x)
    (y * torch.linspace(-1, 1, y.numel(), device=y.device).view(y.shape).to(y)).sum().backward()
    return [y.detach(), x.grad, *[parameter.grad for parameter in model.parameters()]]


def check(model, x, chains, said=None, has=""):
    """The fused model's result and gradients beside torch's errors against float64, in training and in eval
    mode. chains: how many run as one call, of those with `has` among their parts; said: what the warning has
    that says why one does not."""
    for is_training in (True, False):
        model.train(is_training)
        fused, exact = fgn.fuse(copy.deepcopy(model)), copy.deepcopy(model).double()
        found = [verdict for verdict in fgn.explain(fused).fused if has in verdict.fused]
        assert len(found) == chains, fgn.explain(fused)
        with torch.enable_grad(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = [gradients_of(fused, x) for _ in range(2)]
            expected, right = gradients_of(copy.deepcopy(model), x), gradients_of(exact, x.double())
        messages = [str(warning.message) for warning in caught if "part by part" in str(warning.message)]
        assert (len(messages) == 1 and said in messages[0]) if said else not messages, messages
        largest = max(one.abs().max() for one in right)
        for one in found if "spectral" not in str(model).lower() else found[:1]:
            for mine, torchs, value in zip(one, expected, right, strict=True):
                error, allowed = (mine.double() - value).norm(), 2 * (torchs.double() - value).norm()
                assert mine.shape == value.shape
                assert error <= allowed + 1e-6 * value.norm() + 1e-6 * largest


class Written(nn.Module):
    """y = normed(product(x)), of parameters that any of the forms below may read."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(OUTPUTS, INPUTS) / 4)
        self.stored = nn.Parameter(torch.randn(INPUTS, OUTPUTS) / 4)
        self.bias, self.gain = nn.Parameter(torch.randn(OUTPUTS)), 0.7
        self.fc, self.norm = nn.Linear(INPUTS, OUTPUTS), nn.GroupNorm(GROUPS, OUTPUTS)
        self.layer_norm = nn.LayerNorm(OUTPUTS)
        for name in ("norm", "layer_norm"):
            nn.init.uniform_(getattr(self, name).weight, -1, 1)
            nn.init.uniform_(getattr(self, name).bias, -1, 1)


def written(expression: str) -> nn.Module:
    names = {"torch": torch, "F": F, "math": math}
    exec(f"def forward(self, x):\n    return {expression}\n", names)
    model = type("OfText", (Written,), {"forward": names["forward"]})()
    used = [name for name, _ in model.named_children() if f"self.{name}(" not in expression]
    for name in used:
        delattr(model, name)
    for name in ("weight", "stored", "bias"):
        if f"self.{name}" not in expression.replace("self.weight_", ""):
            delattr(model, name)
    return model


PRODUCTS = [
    "torch.addmm(self.bias, x, self.weight.t())",
    "torch.addmm(self.bias, x, self.stored)",
    "self.bias.addmm(x, self.weight.T)",
    "x @ self.weight.t() + self.bias",
    "x @ self.stored + self.bias",
    "torch.matmul(x, self.weight.transpose(0, 1))",
    "torch.matmul(x, self.stored)",
    "torch.mm(x, self.weight.mT)",
    "x.matmul(self.weight.permute(1, 0))",
    "x.mm(self.stored)",
    "torch.einsum('bi,oi->bo', x, self.weight)",
    "torch.einsum('nk, kc -> nc', x, self.stored) + self.bias",
    "torch.einsum('oi,bi->bo', self.weight, x)",
    "F.linear(x, self.weight * self.gain, self.bias)",
    "F.linear(x, self.stored.t(), self.bias)",
    "x @ (self.weight / self.weight.norm()).t()",
]


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_product(product, device):
    torch.manual_seed(0)
    model = written(f"F.silu(self.norm({product}))").to(device)
    check(model, torch.randn(BATCH, INPUTS, device=device), 1)


@pytest.mark.parametrize("product", [product for product in PRODUCTS if "stored" in product])
def test_a_weight_that_is_stored_the_other_way_is_not_copied_for_few_rows(product, device):
    torch.manual_seed(0)
    model = written(f"self.norm({product})").to(device)
    check(model, torch.randn(INPUTS - 1, INPUTS, device=device), 1, said="a copy of it for each call")


@pytest.mark.parametrize(
    "product",
    [
        "torch.addmm(self.bias, x, self.weight.t(), alpha=2)",
        "torch.einsum('bi,oi->ob', x, self.weight).t()",
        "torch.einsum('bi,oi->o', x, self.weight).expand(40, 24)",
        "x[:, :24] @ x[:24].t() if False else (x @ x.t())[:, :24]",
        "(self.weight @ x.t()).t()",
    ],
)
def test_what_is_no_such_product_is_left_to_torch(product, device):
    torch.manual_seed(0)
    check(written(f"self.norm({product})").to(device), torch.randn(BATCH, INPUTS, device=device), 0)


FORMULAS = [
    "{v} * torch.sigmoid({v})",
    "torch.sigmoid({v}).mul({v})",
    "{v} * torch.tanh(F.softplus({v}))",
    "{v} * torch.sigmoid(1.702 * {v})",
    "0.5 * {v} * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * ({v} + 0.044715 * torch.pow({v}, 3.0))))",
    "{v} * 0.5 * (1 + torch.tanh(0.7978845608 * {v} * (1 + 0.044715 * {v} * {v})))",
    "{v} * 0.5 * (1.0 + torch.erf({v} / math.sqrt(2.0)))",
    "0.5 * ({v} * (1.0 + torch.erf({v} * 0.7071067811865476)))",
    "torch.where({v} > 0, {v}, 0.1 * {v})",
    "torch.where({v}.le(0), {v} * 0.3, {v})",
    "{v} - torch.tanh({v})",
    "{v} / (1 + {v}.abs())",
]
# Almost an operator: another slope at one value, another value of NaN, or another constant.
NO_FORMULAS = [
    "{v} * F.relu6({v} + 3) / 6",
    "torch.where({v} >= 0, {v}, 0.1 * {v})",
    "torch.where({v} > 0, {v}, torch.zeros_like({v}))",
    "torch.maximum({v}, 0.2 * {v})",
    "{v} * 0.5 * (1 + torch.tanh(0.7978 * ({v} + 0.044715 * {v} * {v} * {v})))",
    "torch.where({v} > 0.5, {v}, 0.1 * {v})",
    "{v} * torch.sigmoid({v} + 1)",
    "torch.log(1 + torch.exp({v}))",
    "1 / (1 + torch.exp(-{v}))",
]


def of_formula(formula: str, before: bool) -> nn.Module:
    names = {"torch": torch, "F": F, "math": math}
    text = formula.format(v="v")
    lines = (
        f"v = self.fc(x)\n v = {text}\n return self.norm(v)",
        f"v = self.norm(self.fc(x))\n return {text}",
    )
    exec(f"def forward(self, x):\n {lines[0 if before else 1]}\n", names)
    model = type("OfFormula", (Written,), {"forward": names["forward"]})()
    for name in ("weight", "stored", "bias", "layer_norm"):
        delattr(model, name)
    return model


@pytest.mark.parametrize("before", [True, False], ids=["before the norm", "after the norm"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula(formula, before, device):
    torch.manual_seed(0)
    model = of_formula(formula, before).to(device)
    check(model, 3 * torch.randn(BATCH, INPUTS, device=device), 1)
    assert str(fgn.explain(model)).count(" → ") > 1  # the formula is in the call


@pytest.mark.parametrize("formula", NO_FORMULAS)
def test_what_is_nearly_an_operator_is_left_to_torch(formula, device):
    torch.manual_seed(0)
    model = of_formula(formula, before=True).to(device)
    check(model, torch.randn(BATCH, INPUTS, device=device), 0, has="norm")


@pytest.mark.parametrize("step", [kind for kind, _ in formulas._KNOWN])
def test_formulas_are_their_operators(step):
    """In every float that is not near an overflow, infinities and NaN included."""
    formula = next(text for text, (kind, _) in zip(ORDERED, formulas._KNOWN, strict=True) if kind == step)
    v = torch.cat([torch.linspace(-30, 30, 4001).double(), torch.tensor([0.0, -0.0, float("nan")]).double()])
    names = {"torch": torch, "F": F, "math": math, "v": v}
    expected = eval(formula.format(v="v"), names)
    found = fgn.operators.Pointwise(step).by_torch(v)
    assert torch.allclose(found, expected, rtol=1e-6, atol=1e-9, equal_nan=True)


ORDERED = [FORMULAS[i] for i in (0, 2, 6, 4, 5, 10, 11)]


def test_the_constants_of_a_module_in_a_formula_are_read_at_the_call(device):
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.norm = nn.Linear(INPUTS, OUTPUTS), nn.GroupNorm(GROUPS, OUTPUTS)
            self.softplus, self.tanh = nn.Softplus(), nn.Tanh()

        def forward(self, x):
            v = self.norm(self.fc(x))
            return v * self.tanh(self.softplus(v))

    model = Gated().to(device)
    fused, x = fgn.fuse(model), torch.randn(BATCH, INPUTS, device=device)
    for beta in (1, 3, 1):
        model.softplus.beta = fused.softplus.beta = beta
        assert torch.allclose(fused(x), model(x), rtol=1e-4, atol=1e-5)


VIEWS = [
    "self.norm(self.fc(x).unsqueeze(-1)).squeeze(-1)",
    "F.relu(self.norm(self.fc(x).unsqueeze(2))).squeeze(2) + self.bias",
    "torch.flatten(F.silu(self.norm(self.fc(x)[:, :, None, None])), 1)",
    "self.norm(self.fc(x)[..., None])[..., 0]",
    "self.norm(torch.unsqueeze(self.fc(x), -1))[:, :, 0]",
    "self.norm((x @ self.weight.t())[:, :, None])[:, :, 0]",
]
NO_VIEWS = [
    "self.norm(self.fc(x).unsqueeze(1).transpose(1, 2)).squeeze(-1)",
    "(self.norm(self.fc(x).unsqueeze(-1)) + self.bias)[:, :, 0]",
    "self.norm(self.fc(x))[:, 0]",
]


@pytest.mark.parametrize("text", VIEWS)
def test_dimensions_of_one(text, device):
    torch.manual_seed(0)
    check(written(text).to(device), torch.randn(BATCH, INPUTS, device=device), 1)


@pytest.mark.parametrize("text", NO_VIEWS)
def test_other_views_end_a_chain(text, device):
    torch.manual_seed(0)
    model = written(text).to(device)
    chains = len(fgn.explain(fgn.fuse(model)).fused)
    check(model, torch.randn(BATCH, INPUTS, device=device), chains)
    assert "squeeze" not in str(fgn.explain(model).fused)


LAYER_NORMS = [
    "F.relu(self.layer_norm(self.fc(x)))",
    "self.layer_norm(torch.tanh(self.fc(x)) + self.bias)",
    "F.layer_norm(self.fc(x), (24,))",
    "F.layer_norm(self.fc(x), [24], self.bias, eps=1e-3)",
    "self.fc(x) + self.layer_norm(self.fc(x))",
]


@pytest.mark.parametrize("sizes", [(BATCH,), (5, 8), (2, 4, 5), (1, 8), (8, 1)], ids=str)
@pytest.mark.parametrize("text", LAYER_NORMS)
def test_a_layer_norm_is_a_norm_of_one_group(text, sizes, device):
    torch.manual_seed(0)
    check(written(text).to(device), torch.randn(*sizes, INPUTS, device=device), 1, has="norm")


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_tensors_are_left_to_torch(layout, device):
    model = nn.Sequential(nn.Linear(INPUTS, OUTPUTS), nn.LayerNorm(OUTPUTS), nn.ReLU()).to(device)
    rows = [torch.randn(size, INPUTS, device=device) for size in (3, 5)]
    fused, x = fgn.fuse(model), torch.nested.nested_tensor(rows, layout=layout)
    with pytest.warns(UserWarning, match="x is a nested tensor"):
        y = fused(x)
    for part, expected in zip(y.unbind(), model(x).unbind(), strict=True):
        torch.testing.assert_close(part, expected)


@pytest.mark.parametrize("product", ["torch.mm(x, self.stored)", "torch.einsum('bi,oi->bo', x, self.weight)"])
def test_what_torch_refuses_for_more_dimensions_is_refused(product, device):
    model = written(f"self.layer_norm({product})").to(device)
    with pytest.raises(RuntimeError), pytest.warns(UserWarning, match="x has 3 dimensions"):
        fgn.fuse(model)(torch.randn(2, BATCH, INPUTS, device=device))


def test_tensors_that_are_added_to_rows(device):
    class Added(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.norm = nn.Linear(INPUTS, OUTPUTS), nn.LayerNorm(OUTPUTS)

        def forward(self, x, other):
            return self.norm(self.fc(x) + other)

    model = Added().to(device)
    fused = fgn.fuse(model)
    for size in ((5, 8, 24), (8, 24), (24,), (1, 24), (1, 1, 24), (5, 1, 24), (5, 1, 1), (1,), ()):
        for sizes in ((5, 8), (8, 1), (1, 8)):
            x, other = torch.randn(*sizes, INPUTS, device=device), torch.randn(size, device=device)
            try:
                expected = model(x, other)
            except RuntimeError:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                y = fused(x, other)
            assert y.shape == expected.shape and torch.allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_a_layer_norm_over_something_else_is_left_to_torch(device):
    for text in ("F.layer_norm(self.fc(x), (40, 24))", "F.layer_norm(self.fc(x), (x.shape[1] + 4,))"):
        check(written(text).to(device), torch.randn(BATCH, INPUTS, device=device), 0)
    model = nn.Sequential(nn.Linear(INPUTS, OUTPUTS), nn.LayerNorm(OUTPUTS)).to(device)
    fused, x = fgn.fuse(model), torch.randn(OUTPUTS, INPUTS, device=device)
    for one in (model, fused):
        one[1].normalized_shape, one[1].weight, one[1].bias = (OUTPUTS, OUTPUTS), None, None
    with pytest.warns(UserWarning, match="LayerNorm is over 2 dimensions"):
        assert torch.equal(fused(x), model(x))


@pytest.mark.parametrize("make", [weight_norm, spectral_norm])
def test_a_parametrized_linear(make, device):
    torch.manual_seed(0)
    model = nn.Sequential(make(nn.Linear(INPUTS, OUTPUTS)), nn.GroupNorm(GROUPS, OUTPUTS), nn.ReLU()).to(
        device
    )
    check(model, torch.randn(BATCH, INPUTS, device=device), 1)
    assert str(fgn.explain(model)).startswith("0: one call for 0 (Linear, parametrized) → 1 (GroupNorm)")


def test_a_parametrization_runs_once_in_a_call_and_may_come_and_go(device):
    class Halved(nn.Module):
        calls = 0

        def forward(self, weight):
            Halved.calls += 1
            return weight / 2

    plain = nn.Sequential(nn.Linear(INPUTS, OUTPUTS), nn.GroupNorm(GROUPS, OUTPUTS)).to(device)
    model = copy.deepcopy(plain)
    parametrize.register_parametrization(model[0], "weight", Halved())
    fused, x = fgn.fuse(model), torch.randn(BATCH, INPUTS, device=device)
    for rows in (x, x[:, None].squeeze(1), x.double()):
        Halved.calls = 0
        try:
            fused(rows)
        except RuntimeError:
            assert rows.dtype == torch.float64
        assert Halved.calls == 1
    hooked = []
    handle = fused[0].register_forward_hook(lambda *_: hooked.append(1))
    assert torch.allclose(fused(x), model(x), atol=1e-5) and hooked
    handle.remove()
    parametrize.remove_parametrizations(fused[0], "weight", leave_parametrized=False)
    assert torch.allclose(fused(x), plain(x), atol=1e-5)


def test_a_forward_that_asks_for_the_number_of_dimensions(device):
    class Flattening(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.norm = nn.Linear(INPUTS, OUTPUTS), nn.GroupNorm(GROUPS, OUTPUTS)

        def forward(self, x):
            if x.dim() > 2 or x.ndim == 1:
                x = x.reshape(-1, 20)
            return self.norm(self.fc(x))

    model = Flattening().to(device)
    assert len(fgn.explain(model).fused) == 1
    for sizes in ((BATCH, INPUTS), (BATCH, 4, 5), (INPUTS * 2,), (BATCH, INPUTS)):
        x = torch.randn(sizes, device=device)
        assert torch.allclose(fgn.fuse(model)(x), model(x), rtol=1e-4, atol=1e-5)


def test_forms_are_compiled_whole(device):
    torch.manual_seed(0)
    model = nn.Sequential(
        written("self.norm(torch.addmm(self.bias, x, self.weight.t()))"),
        weight_norm(nn.Linear(OUTPUTS, OUTPUTS)),
        nn.LayerNorm(OUTPUTS),
        nn.GELU(),
    ).to(device)
    fused, x = fgn.fuse(model), torch.randn(BATCH, INPUTS, device=device)
    with torch.enable_grad():
        compiled = torch.compile(fused, backend="aot_eager", fullgraph=True)
        for one, other in zip(gradients_of(compiled, x), gradients_of(model, x), strict=True):
            assert torch.allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_forms_under_autocast(dtype, device):
    torch.manual_seed(0)
    for text in ("self.layer_norm(x @ self.weight.t())", "F.silu(self.norm(x @ self.stored + self.bias))"):
        model = written(text).to(device)
        x = torch.randn(BATCH, INPUTS, device=device)
        with torch.autocast(device.type, dtype=dtype):
            y, expected = fgn.fuse(model)(x), model(x)
        assert y.dtype == expected.dtype and torch.allclose(y.float(), expected.float(), atol=0.05)
