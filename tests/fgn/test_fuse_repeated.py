"""A part of a fused model that is called again only compares what may have changed: it gives what the model
gives after any change, and plans nothing anew without one."""

import copy
import random
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from rounding import ROUNDOFF
from torch import nn

import fgn
from fgn import gradients
from fgn.fusing import rows_part
from fgn.fusing.kept import as_vector, keep
from fgn.fusing.parts import ChainPart
from fgn.fusing.rows_part import RowsPart

N = 16


class Pointwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.bound, self.gelu = nn.Linear(N, N), nn.Hardtanh(-0.5, 0.5), nn.GELU()
        self.scale, self.factor = nn.Parameter(torch.randn(N)), 1.5

    def forward(self, x):
        return self.gelu(self.bound(self.linear(x)) * self.scale) + self.factor


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(N, N), nn.LayerNorm(N), nn.Linear(N, N)
        self.act, self.dropout = nn.LeakyReLU(0.1), nn.Dropout(0.5)

    def forward(self, x):
        h = x + self.dropout(self.first(x))
        return h + self.second(self.act(self.norm(h)))


class Softmax(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.elu, self.softmax = nn.Linear(N, N), nn.ELU(1.2), nn.Softmax(-1)
        self.scale = nn.Parameter(torch.randn(N))

    def forward(self, x):
        return self.softmax(self.elu(self.linear(x))) * self.scale


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.act = nn.Linear(N, N), nn.GroupNorm(2, N), nn.Hardtanh()
        self.second, self.rms = nn.Linear(N, N), nn.RMSNorm(N, eps=1e-5)

    def forward(self, x):
        return self.rms(self.second(self.act(self.norm(self.linear(x)))) * 2.0)


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.act = nn.Linear(N, N), nn.Softplus()

    def forward(self, x):
        return F.relu(self.act(self.linear(x)).sum(-1))


class One(nn.Module):
    """One element, which two steps read."""

    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(N, N), nn.Parameter(torch.tensor(0.3))

    def forward(self, x):
        return torch.min(self.linear(x), self.scale) - self.scale


class Twice(nn.Module):
    """A tensor that two steps read."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(N, N), nn.LayerNorm(N)

    def forward(self, x):
        y = F.softmax(self.linear(x), -1)
        return (y + x) * x


MODELS = (Pointwise, Block, Softmax, Norms, Sum, One, Twice)
SETTINGS = {
    **dict.fromkeys(("min_val", "negative_slope", "alpha", "beta", "eps", "factor"), (0.3, 0.7, 1.1)),
    "approximate": ("none", "tanh"),
    "dim": (-1, 1, 0),
    "num_groups": (1, 2, 4),
}


def new_values(model, part, draw):
    for name, value in part._parameters.items():
        if value is not None:
            part._parameters[name] = nn.Parameter(torch.randn_like(value))


def other_memory(model, part, draw):
    for value in model.parameters():
        value.data = torch.randn_like(value)


def other_dtype(model, part, draw):
    model.half() if next(model.parameters()).dtype is torch.float32 else model.float()


def other_mode(model, part, draw):
    model.train(not model.training)


def other_setting(model, part, draw):
    for one in (part, model):
        for name in SETTINGS.keys() & vars(one).keys():
            setattr(one, name, draw.choice(SETTINGS[name]))


def hook(model, part, draw):
    if part._forward_hooks:
        part._forward_hooks.clear()
    else:
        part.register_forward_hook(lambda module, given, result: result * 1.5)


def other_vector(model, part, draw):
    """One element is a vector too."""
    if "scale" in model._parameters:
        model.scale = nn.Parameter(torch.randn(draw.choice((1, N))).to(model.scale))


def bias(model, part, draw):
    """A bias comes and goes."""
    if isinstance(part, (nn.Linear, nn.LayerNorm, nn.GroupNorm)):
        like = part.weight[:N] if part.weight.dim() == 1 else part.weight[:, 0]
        part.bias = nn.Parameter(torch.randn_like(like)) if part.bias is None else None


def transposed(model, part, draw):
    if isinstance(part, nn.Linear):
        part.weight.data = part.weight.data.t()


def frozen(model, part, draw):
    for value in model.parameters():
        value.requires_grad_(draw.random() < 0.5)


CHANGES = (
    *(new_values, other_memory, other_dtype, other_mode, other_setting, hook, other_vector, bias, transposed),
    frozen,
)


def take_over(fused, model):
    """Gives the fused copy, which shares no settings and no hooks, those of the model."""
    for ours, one in zip(fused.modules(), model.modules(), strict=True):
        ours._parameters.update(one._parameters)
        vars(ours).update({name: vars(one)[name] for name in {*SETTINGS, "training"} & vars(one).keys()})
        ours._forward_hooks.clear()
        ours._forward_hooks.update(one._forward_hooks)


def an_input(model, draw):
    shapes = [(3, N), (5, N)] if isinstance(model, Norms) else [(3, N), (1, N), (2, 3, N), (2, 2, 2, N), (N,)]
    like, shape = next(model.parameters()), draw.choice(shapes)
    x = torch.randn(*shape[:-1], 2 * N).to(like)
    return x[..., ::2] if draw.random() < 0.2 else x[..., 3 : N + 3].contiguous()


def results(function, x, seed):
    torch.manual_seed(seed)
    try:
        return function(x)
    except Exception as error:
        return type(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("of", MODELS)
def test_after_any_change_a_call_gives_what_the_model_gives(device, of):
    draw = random.Random(of.__name__)
    for _ in range(6):
        model = of().to(device).eval()
        fused, changes = fgn.fuse(model), []
        for step in range(12):
            if draw.random() < 0.6:
                changes.append(draw.choice(CHANGES))
                changes[-1](model, draw.choice([one for one in model.modules() if one is not model]), draw)
            take_over(fused, model)
            x, seed = an_input(model, draw), draw.randrange(1 << 30)
            with torch.set_grad_enabled(draw.random() < 0.3):
                for _ in range(3):
                    expected, found = results(model, x, seed), results(fused, x, seed)
                    said = f"{[change.__name__ for change in changes]}, step {step}, {tuple(x.shape)}"
                    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
                        assert expected is found, said
                        continue
                    assert expected.requires_grad == found.requires_grad, said
                    tolerance = 3e-2 if x.dtype is torch.float16 else 1e-3
                    close = torch.isclose(found, expected, tolerance, tolerance, equal_nan=True)
                    assert found.dtype is expected.dtype and close.all(), said


@pytest.mark.parametrize("of", MODELS)
def test_a_call_like_one_before_it_plans_nothing(device, of, monkeypatch):
    model = of().to(device).eval()
    fused, x = fgn.fuse(model), torch.randn(3, N, device=device)
    with torch.no_grad():
        for given in (x, x[:1], x, x[:1], x):
            fused(given)
        planned = []
        monkeypatch.setattr(ChainPart, "_anew", lambda part, *_: planned.append(part))
        monkeypatch.setattr(RowsPart, "_planned", lambda part, *_: planned.append(part))
        torch.testing.assert_close(fused(x), model(x), rtol=1e-4, atol=1e-4)
        fused(x[:1])
    assert not planned


@torch.enable_grad()
@pytest.mark.parametrize("shape", [(3, N), (2, 3, N)])
@pytest.mark.parametrize("loss", [lambda y: y.square().sum(), torch.sum])
def test_a_training_step_like_one_before_it_plans_nothing(device, shape, loss, monkeypatch):
    model, x = Pointwise().to(device), torch.randn(shape, device=device, requires_grad=True)
    fused, exact = fgn.fuse(model), copy.deepcopy(model).double()

    def gradients_of(one, x):
        return torch.autograd.grad(loss(one(x)), [x, *one.parameters()])

    for _ in range(2):
        gradients_of(fused, x)
    planned = []
    monkeypatch.setattr(ChainPart, "_anew", lambda part, *_: planned.append(part))
    monkeypatch.setattr(gradients, "run_backward", lambda *_, **__: planned.append("backward"))
    # the second is not contiguous
    for given in (x, x.detach().transpose(0, -2).contiguous().transpose(0, -2).requires_grad_()):
        found = gradients_of(fused, given)
        assert not planned
        expected = gradients_of(exact, given.detach().double().requires_grad_())
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


@torch.enable_grad()
@pytest.mark.parametrize("shape", [(3, N), (2, 3, N)])
def test_a_kept_step_tells_of_an_input_that_was_written_to(device, shape):
    fused, x = fgn.fuse(Pointwise().to(device)), torch.randn(shape, device=device, requires_grad=True)
    for _ in range(3):
        h = x * 1
        y = fused(h)
    h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


class Emptied(dict):
    """Another thread removes everything as soon as the keys have been read."""

    def __iter__(self):
        keys = list(super().__iter__())
        self.clear()
        return iter(keys)


@pytest.mark.parametrize("learns, most", [(False, 38), (True, 84)])
@pytest.mark.simulator
def test_a_call_like_one_before_it_runs_few_functions_of_python(learns, most):
    """Each is about a seventh of a microsecond of the host's, and a walk through the modules has dozens."""
    model, x, called = fgn.GemmGroupNormHardtanh(64, 64, 4, -2.0, 2.0), torch.rand(4, 64), []
    dy, own = torch.rand(4, 64), str(Path(fgn.__file__).parent)

    def call():
        y = model(x)
        if learns:
            y.backward(dy)

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(own):
            called.append(frame.f_code.co_name)

    with torch.set_grad_enabled(learns):
        for _ in range(3):
            call()
        sys.setprofile(note)
        try:
            call()
        finally:
            sys.setprofile(None)
    assert 10 < len(called) <= most, called


def test_the_oldest_makes_room_which_another_thread_may_have_made():
    known = {"a": 1, "b": 2}
    keep(known, "c", 3, 2)
    assert known == {"b": 2, "c": 3}
    emptied = Emptied(known)
    keep(emptied, "d", 4, 2)
    assert emptied.items() == {("d", 4)}


class Scaled(nn.Module):
    """Operands of one element, one of them twice."""

    def __init__(self, behind=None):
        super().__init__()
        self.linear, self.behind = nn.Linear(N, N), behind or nn.ReLU()
        self.scale, self.most = nn.Parameter(torch.tensor([1.5])), nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        return self.behind(torch.minimum(self.linear(x) * self.scale, self.most) + self.most)


@pytest.mark.parametrize("behind", (nn.ReLU(), nn.Softmax(-1)))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_one_element_is_read_where_it_is(device, behind, dtype, monkeypatch):
    """Behind a product of torch's no launch copies it to a vector, and its value is that of the call."""
    monkeypatch.setattr(rows_part, "multiplies_by_torch", lambda *arguments: True)
    monkeypatch.setattr(rows_part, "gains_before_rows", lambda *arguments: False)
    model = Scaled(behind).to(device, dtype).eval()
    fused = fgn.fuse(model, version=None if isinstance(behind, nn.Softmax) else "library")
    x, copies = torch.randn(5, N, device=device, dtype=dtype), []

    def copied(*arguments):
        copies.append(arguments)
        return as_vector(*arguments)

    def check():
        exact = copy.deepcopy(model).double()(x.double())
        torch.testing.assert_close(fused(x).double(), exact, rtol=4 * ROUNDOFF[dtype], atol=ROUNDOFF[dtype])

    monkeypatch.setattr("fgn.fusing.kept.as_vector", copied)
    with torch.no_grad():
        for step in range(8):
            model.scale.fill_(1.5 - step / 4)
            model.most.fill_(step / 8)
            with monkeypatch.context() as later:
                if step > 2:  # nothing is planned anew
                    later.setattr(ChainPart, "chain_and_tensors", None)
                check()
        # Another module's parameter, of another shape: it is looked at once more.
        model.scale = fused.scale = nn.Parameter(torch.tensor([[2.0]], device=device, dtype=dtype))
        check()
    assert not copies


def test_own_products_read_one_element(device, monkeypatch):
    model = Scaled().to(device)
    fused, x = fgn.fuse(model), torch.randn(5, N, device=device)
    copies = []

    def copied(*arguments):
        copies.append(arguments)
        return as_vector(*arguments)

    monkeypatch.setattr("fgn.fusing.kept.as_vector", copied)
    with torch.no_grad():
        for step in range(6):
            if step == 2:  # the call is kept
                copies.clear()
            model.scale.fill_(step)
            torch.testing.assert_close(fused(x), model(x), rtol=1e-4, atol=1e-5)
    assert not copies
