"""fgn.fuse(): over models that are nowhere in the examples, the result of the model that was not fused."""

import copy
import pickle
import random
import time
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.func import functional_call
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import prune as pruning

import fgn
from fgn.fusing.classes import is_fused

CLOSE = {"rtol": 2e-4, "atol": 2e-5}


def assert_same(y, expected):
    if isinstance(expected, torch.Tensor):
        assert y.shape == expected.shape and y.dtype == expected.dtype
        assert torch.allclose(y, expected, equal_nan=True, **CLOSE), (y - expected).abs().max()
    elif isinstance(expected, dict):
        assert y.keys() == expected.keys()
        assert_same(list(y.values()), list(expected.values()))
    elif isinstance(expected, (tuple, list)):
        assert len(y) == len(expected)
        for one, other in zip(y, expected, strict=True):
            assert_same(one, other)
    else:
        assert y == expected


def fused_count(model):
    return len(fgn.explain(model).fused)


# ------------------------------------------------------------------------------------------------------------
# Random models: a Sequential of random layers, and a random forward() written as text

LAYERS = [
    *("ReLU()", "ReLU6()", "LeakyReLU(0.2)", "ELU(0.7)", "CELU(1.3)", "SELU()", "GELU()", "SiLU()", "Mish()"),
    *("GELU(approximate='tanh')", "Sigmoid()", "LogSigmoid()", "Tanh()", "Hardtanh(-0.7, 1.1)", "Identity()"),
    *("Hardsigmoid()", "Hardswish()", "Hardshrink(0.3)", "Softshrink(0.2)", "Tanhshrink()", "Softplus(2, 5)"),
    *("Softsign()", "Threshold(0.1, 20.0)", "PReLU()", "PReLU({c})", "Dropout(0.4)", "Flatten()", "RReLU()"),
    *("ReLU(inplace=True)", "Softmax(1)", "LayerNorm({c})", "Hardtanh(inplace=True)"),
]
LINES = [
    *(
        "v = torch.sigmoid(v) * v",
        "v = v + self.bias",
        "v = v + v",
        "v = v * self.scale",
        "v = v.clamp(-1, 1)",
    ),
    *("v = F.dropout(v, 0.3, self.training)", "v = v.view(v.size(0), -1)", "v = torch.flatten(v, 1)"),
    *("v = v * v", "v = v ** 2", "v = v - self.bias", "v = 1.5 - v", "v = self.bias - v", "v = v / 3"),
    *("v = v * F.softplus(v).tanh()", "v = F.gelu(v)", "v = F.leaky_relu(v, self.slope)", "v = -v"),
    *("v = v.abs().sqrt()", "v = torch.exp(v.clamp(max=2))", "v += h", "v = h + v", "v = v + self.number"),
    *("v = F.relu(v, inplace=True)", "v = v.relu_()", "v = torch.clamp(v, min=-0.5)", "v = v.softmax(1)"),
    *("h = v", "h = h * 2", "v = self.act(v)", "v = v.reshape(v.shape[0], -1)", "v = torch.add(v, 2)"),
    *(
        "v = v / self.scale.abs()",
        "v = F.hardtanh(v, -2, 2)",
        "v = F.relu6(v)",
        "v = F.prelu(v, self.slopes)",
    ),
    *(
        "v = torch.add(v, h, alpha=2)",
        "v = v * self.number",
        "v.mul_(0.5)",
        "v = v.mul_(0.5)",
        "v = v.t().t()",
    ),
    *("v = self.helper(v)", "v = v * torch.sigmoid(v)", "v = v - 0.25", "v = v + h * 2", "v = v * h"),
    *(
        "h = v; v = v.sigmoid() * 2 + h",
        "h = v.clone().detach(); v = v * 0.5; v += h",
        "v = F.mish(v) * v - v",
    ),
    *("v = F.silu(v) * self.fc0(x)", "v = self.act(self.fc1(v)) * v", "v = torch.min(v, self.number)"),
    *("a, b = self.wide(v).chunk(2, -1); v = a * F.gelu(b)", "v = F.glu(self.wide(v), 1)"),
    *("v = self.wide(v); v = torch.sigmoid(v[:, :24]) * v[:, 24:] + h", "v = torch.maximum(self.bias, v)"),
    *("v = v.contiguous()", "v = v[:, :].tanh()", "v = F.elu(v, alpha=0.5)", "h = h.clone(); h += 1"),
]
LINEARS = [
    "v = self.fc{i}(v)",
    "v = F.linear(v, self.fc{i}.weight, self.fc{i}.bias)",
    "v = F.linear(v, self.fc{i}.weight)",
]
NORMS = [
    "v = self.gn{i}(v)",
    "v = F.group_norm(v, 4, self.gn{i}.weight, self.gn{i}.bias, 1e-4)",
    "v = F.group_norm(v, 3)",
    "v = torch.group_norm(v, 2, self.scale, None)",
]
HEAD = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(3):
            setattr(self, f"fc{i}", nn.Linear(24, 24, bias=i != 1))
            setattr(self, f"gn{i}", nn.GroupNorm((4, 6, 8)[i], 24, affine=i != 2))
        self.bias, self.wide = nn.Parameter(torch.randn(24)), nn.Linear(24, 48)
        self.number = nn.Parameter(torch.tensor(0.7))
        self.slopes = nn.Parameter(torch.rand(24))
        self.register_buffer("scale", torch.rand(24) + 0.5)
        self.slope = 0.2
        self.act = nn.Tanh()

    def helper(self, v):
        return F.silu(v) * 2

    def forward(self, x):
        v = h = x
"""


def random_sequential(seed):
    random_number = random.Random(seed)
    layers, c = [], 24
    for _ in range(random_number.randint(2, 4)):
        wide = random_number.choice((12, 24, 40))
        layers.append(nn.Linear(c, wide, bias=random_number.random() < 0.8))
        c = wide
        for norm in (True, False):
            for _ in range(random_number.randint(0, 3)):
                layers.append(eval(f"nn.{random_number.choice(LAYERS).format(c=c)}"))
            if norm and random_number.random() < 0.8:
                groups = random_number.choice([g for g in (1, 2, 4, 6) if c % g == 0])
                layers.append(nn.GroupNorm(groups, c, affine=random_number.random() < 0.7))
    if random_number.random() < 0.3:
        layers = [nn.Sequential(*layers[:3]), *layers[3:]]
    return nn.Sequential(*layers)


def random_forward(seed):
    random_number = random.Random(seed)
    lines = []
    for i in range(random_number.randint(1, 3)):
        lines.append(random_number.choice(LINEARS).format(i=i))
        lines += random_number.choices(LINES, k=random_number.randint(0, 3))
        lines.append(random_number.choice(NORMS).format(i=random_number.randint(0, 2)))
        lines += random_number.choices(LINES, k=random_number.randint(0, 4))
    result = random_number.choice(("v", "v", "v, h", "{'v': v, 'h': h}"))
    text = HEAD + "".join(f"        {line}\n" for line in lines) + f"        return {result}\n"
    known = {"nn": nn, "F": F, "torch": torch}
    exec(text, known)
    return known["Model"](), text


def assert_as_accurate(y, expected, exact):
    """Where values are rounded away, or jump, two results may differ, and torch's is not the truth."""
    if isinstance(expected, torch.Tensor):
        assert y.shape == expected.shape and y.dtype == expected.dtype
        if not torch.allclose(y, expected, equal_nan=True, **CLOSE):
            error, allowed = (y.double() - exact).norm(), 2 * (expected.double() - exact).norm()
            assert error <= allowed + 1e-6 * exact.norm()
    else:
        assert type(y) is type(expected)
        values = [of.values() if isinstance(of, dict) else of for of in (y, expected, exact)]
        for three in zip(*values, strict=True):
            assert_as_accurate(*three)


def check(model, x):
    fused = fgn.fuse(model)
    assert list(fused.state_dict()) == list(model.state_dict())
    assert all(a is b for a, b in zip(fused.parameters(), model.parameters(), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            expected = model(x.clone())
        except Exception as error:
            with pytest.raises(type(error)):
                fused(x.clone())
            return fused
        exact = copy.deepcopy(model).double()(x.double())
        assert_as_accurate(fused(x.clone()), expected, exact)
    return fused


@pytest.mark.parametrize("seed", range(40))
def test_a_random_sequential(seed, device):
    torch.manual_seed(seed)
    model = random_sequential(seed).eval().to(device)
    check(model, torch.randn(5, 24, device=device))


@pytest.mark.parametrize("seed", range(60))
def test_a_random_forward(seed, device):
    torch.manual_seed(seed)
    model, _ = random_forward(seed)
    check(model.eval().to(device), torch.randn(5, 24, device=device))


def gradients_of(model, x):
    """The results, and the gradients of x and of all parameters."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    y = model(x * 1)
    y = [y] if isinstance(y, torch.Tensor) else list(y.values() if isinstance(y, dict) else y)
    weights = [torch.linspace(-1, 1, one.numel()).to(one).view(one.shape) for one in y]
    sum((one * weight).sum() for one, weight in zip(y, weights, strict=True)).backward()
    return [*(one.detach() for one in y), x.grad, *[parameter.grad for parameter in model.parameters()]]


@pytest.mark.parametrize("seed", range(100, 130))
@pytest.mark.parametrize(
    "make", [random_sequential, lambda seed: random_forward(seed)[0]], ids=["Sequential", "forward"]
)
def test_the_gradients_of_a_random_model(make, seed, device):
    """Errors against float64 beside torch's own, its largest over some inputs that differ in the last bit: a
    gradient may be a sum that cancels, of which nothing but rounding is left."""
    torch.manual_seed(seed)
    model, x = make(seed).eval().to(device), torch.randn(5, 24, device=device)
    with torch.enable_grad():
        try:
            expected = [gradients_of(model, x * (1 + bits * 2.0**-23)) for bits in range(-3, 4)]
        except RuntimeError as error:
            assert "inplace operation" in str(error)
            pytest.skip("torch refuses this model's gradients, of which a fused call may keep nothing")
        found = gradients_of(fgn.fuse(model), x)
        exact = gradients_of(copy.deepcopy(model).double(), x.double())
    largest = max([one.abs().max() for one in exact if one is not None and one.isfinite().all()], default=1.0)
    for one, right, *others in zip(found, exact, *expected, strict=True):
        assert (one is None) == (others[0] is None)
        if one is not None and right.isfinite().all():
            error, of_torch = (one.double() - right).norm(), max((o.double() - right).norm() for o in others)
            assert error <= 4 * of_torch + 1e-5 * right.norm() + 1e-6 * largest


def test_the_random_models_are_fused():
    models = [random_sequential(seed) for seed in range(40)] + [random_forward(seed)[0] for seed in range(60)]
    assert sum(fused_count(model.eval()) > 0 for model in models) > 60


# ------------------------------------------------------------------------------------------------------------
# Models that mean something


def block(channels=24, groups=4):
    return nn.Sequential(nn.Linear(channels, channels), nn.GELU(), nn.GroupNorm(groups, channels), nn.SiLU())


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(block() for _ in range(3))
        self.shared = nn.Linear(24, 24)
        self.norm = nn.GroupNorm(6, 24)
        self.head = nn.Linear(24, 5)

    def forward(self, x, scale=None, *, twice=False):
        for layer in self.blocks:
            x = x + layer(x)
        x = F.relu(self.norm(self.shared(x)))
        x = F.relu(self.norm(self.shared(x))) + x
        if scale is not None:
            x = x * scale
        return self.head(x) if not twice else (self.head(x), x)


class Branching(nn.Module):
    """Control flow by the values: torch.fx cannot read it, so its blocks are fused one by one."""

    def __init__(self):
        super().__init__()
        self.first, self.second = block(), block()

    def forward(self, x):
        return self.first(x) if x.sum() > 0 else self.second(x)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.calls = block(), 0

    def forward(self, x):
        self.calls += 1
        return self.inner(x) * self.calls


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = block()

    def forward(self, x):
        return self.inner(x) + torch.rand(24).to(x.device)


class Conditioned(nn.Module):
    """A Linear whose result another chain adds, a module that several read, and a Linear of a subclass."""

    class Scaled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    def __init__(self):
        super().__init__()
        self.fc, self.condition, self.head = nn.Linear(24, 24), nn.Linear(24, 24), self.Scaled(24, 4)
        self.norm = nn.GroupNorm(4, 24)

    def forward(self, x):
        v = torch.relu(self.norm(self.fc(x) + self.condition(x)))
        return self.head(v), self.head(v)


class WritesBetween(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(24, 24), nn.GroupNorm(4, 24)

    def forward(self, x):
        v = self.fc(x)
        x.zero_()
        return self.norm(v) + x


class WritesInPlace(nn.Module):
    """`v += w` writes to what other names have too, and keeps its dtype."""

    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(24, 24), nn.GroupNorm(4, 24)
        self.register_buffer("shift", torch.randn(24))

    def forward(self, x):
        h = x
        x += 1
        v = self.norm(self.fc(x))
        same = v
        v += self.shift
        v *= 2
        return v, same, h


def test_in_place_operators_keep_their_dtype(device):
    model = WritesInPlace().to(device).half()
    model.shift = model.shift.float()
    x = torch.randn(6, 24, device=device).half()
    y, expected = fgn.fuse(model)(x.clone()), model(x.clone())
    assert [one.dtype for one in y] == [one.dtype for one in expected]


@pytest.mark.parametrize("cls", [Residual, Branching, Conditioned, WritesBetween, WritesInPlace])
def test_a_model(cls, device):
    torch.manual_seed(0)
    model = cls().eval().to(device)
    for sign in (1, -1):
        check(model, sign * torch.rand(5, 24, device=device))


def test_what_is_fused_and_what_is_not():
    residual = fgn.explain(Residual().eval())
    assert [verdict.linear for verdict in residual.fused] == [
        "blocks.0.0",
        "blocks.1.0",
        "blocks.2.0",
        "shared",
        "shared",
    ]
    assert "add" in residual.fused[0].fused and "add" in residual.fused[-1].fused
    assert "head" in str(residual) and "stopped by the module's result" in str(residual)
    assert [path for path, _ in fgn.explain(Branching()).untraced] == [""]
    assert "sets an attribute (test_fuse.py:" in fgn.explain(Counting()).untraced[0][1]
    assert "self.calls += 1)" in fgn.explain(Counting()).untraced[0][1]
    assert "rand() does not depend on the input" in fgn.explain(Noisy()).untraced[0][1]
    assert "may write to what they read" in str(fgn.explain(WritesBetween()))
    assert "0 (Linear): left" not in str(fgn.explain(nn.Sequential(nn.Linear(4, 4), nn.GroupNorm(2, 4))))
    assert "1 (RMSNorm); then the module's" in str(fgn.explain(nn.Sequential(nn.Linear(4, 4), nn.RMSNorm(4))))
    assert "stopped by 1 (InstanceNorm1d)" in str(
        fgn.explain(nn.Sequential(nn.Linear(4, 4), nn.InstanceNorm1d(4)))
    )
    conditioned = str(fgn.explain(Conditioned()))
    assert "condition: left to torch, stopped by the chain of fc" in conditioned
    assert "→ relu; then linear (test_fuse.py:" in conditioned
    assert "return 2 * super().forward(x))" in conditioned
    assert str(fgn.explain(nn.ReLU())) == "no Linear in it"
    with pytest.raises(TypeError, match=r"model: expected a torch.nn.Module, got int"):
        fgn.fuse(3)


def test_keyword_and_other_arguments(device):
    model = Residual().eval().to(device)
    fused, x = fgn.fuse(model), torch.randn(5, 24, device=device)
    for arguments in ({"scale": 2.0}, {"scale": x}, {"twice": True}, {"scale": None}):
        assert_same(fused(x, **arguments), model(x, **arguments))
    assert_same(fused(x=x), model(x=x))


def test_what_runs_at_each_call_still_does(device):
    model = Counting().eval().to(device)
    fused, x = fgn.fuse(model), torch.randn(5, 24, device=device)
    for _ in range(3):
        assert_same(fused(x), model(x))
    assert fused.calls == 3
    noisy = fgn.fuse(Noisy().eval().to(device))
    assert not torch.equal(noisy(x), noisy(x))


def test_training_mode_is_followed(device):
    model = (
        nn.Sequential(nn.Linear(24, 24), nn.GroupNorm(4, 24), nn.Dropout(0.5), nn.ReLU()).to(device).eval()
    )
    fused, x = fgn.fuse(model), torch.randn(50, 24, device=device)
    assert_same(fused(x), model(x))
    fused.train()
    torch.manual_seed(1)
    y = fused(x)
    torch.manual_seed(1)
    assert_same(y, model.train()(x))
    assert not torch.equal(fused(x), fused(x))
    assert_same(fused.eval()(x), model.eval()(x))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm, self.act, self.gain, self.wide = (
            nn.Linear(24, 24),
            nn.GroupNorm(4, 24),
            nn.ReLU(),
            2.0,
            False,
        )

    def forward(self, x):
        v = self.act(self.norm(self.fc(x))) * self.gain
        return v + 1 if self.wide else v


def change_eps(model):
    model.norm.eps = 1.0


def change_groups(model):
    model.norm = nn.GroupNorm(2, 24).to(model.fc.weight.device)


def change_gain(model):
    model.gain = 5.0


def change_branch(model):
    model.wide = True


def change_activation(model):
    model.act = nn.Softmax(1)


def add_hook(model):
    model.fc.register_forward_hook(lambda module, args, y: y + 3 * args[0])


def add_pre_hook(model):
    model.norm.register_forward_pre_hook(lambda module, args: (args[0] ** 2,))


def subclass(model):
    class Skipping(nn.Linear):
        def forward(self, x):
            return super().forward(x) + 3 * x

    other = Skipping(24, 24).to(model.fc.weight.device)
    other.load_state_dict(model.fc.state_dict())
    model.fc = other


def change_class(model):
    class Skipping(nn.Linear):
        def forward(self, x):
            return super().forward(x) + 3 * x

    model.fc.__class__ = Skipping


def replace_forward(model):
    model.act.forward = lambda x: x * 7


def prune(model):
    torch.manual_seed(0)
    pruning.random_unstructured(model.fc, "weight", 0.5)


def spectral_norm(model):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.nn.utils.spectral_norm(model.fc)


def parametrize(model):
    class Negative(nn.Module):
        def forward(self, weight):
            return -weight

    torch.nn.utils.parametrize.register_parametrization(model.fc, "weight", Negative())


def new_weight(model):
    model.fc.weight = nn.Parameter(-2 * model.fc.weight)


def new_data(model):
    model.fc.weight.data = -2 * model.fc.weight.data


def double_precision(model):
    model.double()


def lora(model):
    class Lora(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base, self.weight, self.bias = base, base.weight, base.bias

        def forward(self, x):
            return self.base(x) + 3 * x

    model.fc = Lora(model.fc)


CHANGES = [
    *(change_eps, change_groups, change_gain, change_branch, change_activation, add_hook, add_pre_hook),
    *(subclass, change_class, replace_forward, prune, spectral_norm, parametrize, new_weight, new_data),
    *(double_precision, lora),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_after_fusing_is_followed(change, device):
    torch.manual_seed(0)
    model = Twice().eval().to(device)
    fused = copy.deepcopy(fgn.fuse(model))
    x = torch.randn(5, 24, device=device)
    first = fused(x)
    for one in (model, fused):
        change(one)
    x = x.double() if change is double_precision else x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y, expected = fused(x), model(x)
    assert_same(y, expected)
    if change is not double_precision:
        assert not torch.allclose(first, expected, rtol=1e-3)


def test_falling_back_is_said_once(device):
    fused = fgn.fuse(Twice().eval().to(device))
    x = torch.randn(5, 24, device=device)
    seen = []
    fused.fc.register_forward_hook(lambda *arguments: seen.append(1))
    with pytest.warns(UserWarning, match="fc runs part by part, as torch runs it: fc: it has hooks"):
        fused(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fused(x)
    assert seen == [1, 1]


def test_a_forward_that_is_replaced_in_a_module_inside(device):
    model = nn.Sequential(nn.Linear(24, 24), nn.Sequential(nn.GroupNorm(4, 24), nn.ReLU())).to(device)
    fused, x = fgn.fuse(model), torch.randn(5, 24, device=device)
    assert_same(fused(x), model(x))
    for one in (model, fused):
        one[1].forward = lambda x: 3 * x
    assert_same(fused(x), model(x))
    assert_same(fgn.fuse(model)(x), model(x))
    for one in (model, fused):
        del one[1].forward
    assert_same(fused(x), model(x))


def test_hooks_of_all_modules_see_all_modules(device):
    model = nn.Sequential(nn.Sequential(nn.Linear(24, 24), nn.GroupNorm(4, 24)), nn.ReLU()).to(device)
    fused, x = fgn.fuse(model), torch.randn(5, 24, device=device)
    expected, explained, seen = model(x), str(fgn.explain(fused)), []
    assert_same(fused(x), expected)
    handle = register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert_same(fused(x), expected)
            assert_same(fused(x), expected)
    finally:
        handle.remove()
    assert seen == 2 * ["Linear", "GroupNorm", "Sequential", "ReLU", "Sequential"]
    # Promises go on with hooks; a traced module inside, which is called where they do not pay, says so once.
    assert len(said) <= 1 and all("there are hooks of all modules" in str(one.message) for one in said)
    assert_same(fused(x), expected)
    assert str(fgn.explain(fused)) == explained


def test_copies_pickles_and_types(device, tmp_path):
    model = Residual().eval().to(device)
    fused, x = fgn.fuse(model), torch.randn(5, 24, device=device)
    expected = model(x)
    assert isinstance(fused, Residual) and type(fused).__name__ == "Residual"
    assert fused is not model and fgn.fuse(model, inplace=True) is model
    assert is_fused(model)
    assert_same(copy.deepcopy(fused)(x), expected)
    assert_same(pickle.loads(pickle.dumps(fused))(x), expected)
    torch.save(fused, Path(tmp_path) / "model.pt")
    assert_same(torch.load(Path(tmp_path) / "model.pt", weights_only=False)(x), expected)
    assert_same(fgn.fuse(fused)(x), expected)
    other = Residual().eval().to(device)
    other.load_state_dict(fused.state_dict())
    assert_same(other(x), expected)
    hooked = []
    fused.register_forward_hook(lambda *arguments: hooked.append("model"))
    fused.blocks[0].register_forward_hook(lambda *arguments: hooked.append("block"))
    assert_same(fused(x), expected)
    assert hooked == ["block", "model"]


@pytest.mark.parametrize("make", [pruning.l1_unstructured, nn.utils.weight_norm, nn.utils.spectral_norm])
def test_what_a_module_has_made_of_its_parameters_is_no_hindrance(make, device):
    """torch itself copies no such module."""
    model = nn.Sequential(nn.Linear(24, 16), nn.GroupNorm(2, 16), nn.Linear(16, 8), nn.GroupNorm(2, 8))
    model.eval().to(device)
    make(model[0], **({"name": "weight", "amount": 0.5} if make is pruning.l1_unstructured else {}))
    fused, x = fgn.fuse(model), torch.randn(5, 24, device=device)
    assert fused_count(fused) == 1
    assert_same(fused(x), model(x))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    assert_same(fused(x), model(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(dtype, device):
    model = Twice().eval().to(device)
    fused, x = fgn.fuse(model).to(dtype), torch.randn(5, 24, device=device, dtype=dtype)
    exact = copy.deepcopy(model).double()(x.double())
    y, expected = fused(x), model.to(dtype)(x)
    assert y.dtype == dtype
    assert (y.double() - exact).norm() <= 2 * max((expected.double() - exact).norm(), 1e-3 * exact.norm())


def test_other_inputs_run_as_torch_runs_them(device):
    model = nn.Sequential(nn.Linear(24, 16), nn.GroupNorm(2, 16)).eval().to(device)
    fused = fgn.fuse(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.randn(3, 16, 24, device=device)
        assert_same(fused(x), model(x))  # of 3 dimensions: the norm is over dimension 1
        assert_same(fused(x[:0, 0]), model(x[:0, 0]))
        x = torch.randn(3, 24, 2, device=device).transpose(1, 2)[:, 0]
        assert_same(fused(x), model(x))


def test_tied_weights_and_functional_call(device):
    model = Residual().eval().to(device)
    model.blocks[1][0].weight = model.blocks[0][0].weight
    fused, x = fgn.fuse(model), torch.randn(5, 24, device=device)
    assert fused.blocks[1][0].weight is model.blocks[0][0].weight
    assert_same(fused(x), model(x))
    others = {name: torch.randn_like(value) / 5 for name, value in model.named_parameters()}
    assert_same(functional_call(fused, others, (x,)), functional_call(model, others, (x,)))
    assert_same(fused(x), model(x))


class WithNorms(nn.Module):
    """Chains with a GroupNorm, a LayerNorm behind a product, and a function of rows."""

    def __init__(self):
        super().__init__()
        self.block, self.product, self.norm = block(), nn.Linear(24, 24), nn.LayerNorm(24)

    def forward(self, x):
        x = x + self.block(x)
        return self.product(F.gelu(self.norm(x + self.product(x)))).softmax(-1)


@pytest.mark.parametrize("called_before", [False, True])
def test_compiled(called_before, device):
    """Once for all batches but 1: nothing that a call keeps has a later one compiled again."""
    model = WithNorms().eval().to(device)
    fused, counter = fgn.fuse(model), CompileCounterWithBackend("aot_eager")
    if called_before:
        fused(torch.randn(3, 24, device=device))
    compiled, times = torch.compile(fused, backend=counter, fullgraph=True, dynamic=True), []
    for batch in (5, 7, 9):
        x = torch.randn(batch, 24, device=device)
        assert_same(compiled(x), model(x))
        times.append(counter.frame_count)
    assert times == [times[0]] * 3 and times[0] < 5
    x = torch.randn(1, 24, device=device)
    assert_same(compiled(x), model(x))


def test_tracers_of_torch_record_torch_s_operators(device):
    model = nn.Sequential(nn.Linear(6, 8), nn.GroupNorm(2, 8), nn.SiLU()).to(device)
    fused, x = fgn.fuse(model), torch.randn(3, 6, device=device)
    with torch.no_grad():
        for traced in (torch.jit.trace(fused, x), torch.fx.symbolic_trace(fused)):
            assert torch.equal(traced(x), model(x)) and "fgn" not in str(traced.graph)
    with pytest.raises(AttributeError, match=r"torch\.jit\.script compiles no fused module"):
        torch.jit.script(fused)


def test_fifty_layers_take_less_than_a_second():
    model = nn.Sequential(*[block() for _ in range(50)]).eval()
    start = time.thread_time()  # of this thread: other tests may have the processor meanwhile
    fused = fgn.fuse(model)
    assert time.thread_time() - start < 1.0
    assert fused_count(fused) == 50


def test_one_value_in_each_group_is_refused_as_torch_refuses_it():
    model = fgn.fuse(nn.Sequential(nn.Linear(4, 8), nn.GroupNorm(8, 8)))
    assert model(torch.rand(2, 4)).shape == (2, 8)
    with (
        pytest.raises(ValueError, match="more than 1 value per channel"),
        pytest.warns(UserWarning, match="one value"),
    ):
        model(torch.rand(1, 4))


@pytest.mark.parametrize(
    "make",
    [
        lambda: fgn.fuse(nn.Sequential(nn.Linear(6, 8), nn.GroupNorm(2, 8))),
        lambda: copy.deepcopy(fgn.fuse(nn.Sequential(nn.Linear(6, 8), nn.GroupNorm(2, 8)))),
        lambda: fgn.GemmGroupNormHardtanh(6, 8, 2, -1.0, 1.0),
    ],
    ids=["fused", "copied", "drop-in"],
)
def test_models_that_are_compiled_apart_do_not_count_as_one_that_is_compiled_again(make):
    with torch._dynamo.config.patch(recompile_limit=1):
        for _ in range(3):
            model, x = make(), torch.rand(3, 6)
            compiled = torch.compile(model, backend="eager", fullgraph=True)
            assert torch.equal(compiled(x), model(x))
