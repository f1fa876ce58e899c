"""Copies of a fused model, of every kind: each computes with its own parameters, settings and forward()."""

import copy
import io
import pickle
import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, stack_module_state

import fgn
from fgn.fusing.classes import is_fused, plain_class


@pytest.fixture(autouse=True)
def grad(no_grad):
    with torch.enable_grad():
        yield


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.GroupNorm(2, 8), nn.ReLU())
        self.fc, self.norm = nn.Linear(8, 8), nn.GroupNorm(4, 8)
        self.factor = 0.5

    def forward(self, x):
        return F.silu(self.norm(self.fc(self.body(x)))) * self.factor


class Registered(Net):
    known: list = []  # noqa: RUF012

    def __init_subclass__(cls, *, name):
        Registered.known.append(name)


class WithState(Net):
    def __getstate__(self):
        return {"factor": self.factor, "tensors": self.state_dict()}

    def __setstate__(self, state):
        Net.__init__(self)
        self.load_state_dict(state["tensors"])
        self.factor = state["factor"]


class WithCopy(Net):
    def __copy__(self):
        made = type(self).__new__(type(self))
        made.__dict__ = dict(self.__dict__)
        return made


KINDS = [Net, Registered, WithState, WithCopy]


def made(kind=Net):
    torch.manual_seed(0)
    model = kind()
    return model, fgn.fuse(model)


def loaded(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def with_copied_dict(model):
    other = type(model).__new__(type(model))
    other.__dict__.update(model.__dict__)
    return other


COPIES = [
    copy.copy,
    copy.deepcopy,
    lambda model: pickle.loads(pickle.dumps(model)),
    loaded,
    with_copied_dict,
    lambda model: copy.copy(copy.deepcopy(copy.copy(model))),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", COPIES, ids=range(len(COPIES)))
def test_a_copy_computes_what_it_is(kind, make, device):
    model, fused = made(kind)
    x = torch.randn(5, 6)
    assert is_fused(fused) and plain_class(fused) is kind
    before = fused(x)
    other = make(fused)
    torch.testing.assert_close(other(x), before)
    # what is the copy's own: attributes, modules in a place of their own, its children's parameters
    other.factor = 2.0
    torch.testing.assert_close(other(x), 4 * before)
    other.__dict__["_modules"] = dict(other._modules) | {"norm": nn.GroupNorm(1, 8)}
    plain = copy.copy(model)
    plain.factor = 2.0
    plain.__dict__["_modules"] = dict(plain._modules) | {"norm": other.norm}
    torch.testing.assert_close(other(x), plain(x))
    torch.testing.assert_close(fused(x), before)
    assert Registered.known == []


@pytest.mark.parametrize("kind", [fgn.GemmGroupNormHardtanh, fgn.MatmulGroupNormLeakyReluSum])
@pytest.mark.parametrize("make", COPIES, ids=range(len(COPIES)))
def test_a_copy_of_a_drop_in(kind, make, device):
    module = kind(6, 8, 2, *((-1.0, 1.0) if kind is fgn.GemmGroupNormHardtanh else ()))
    x, other = torch.randn(5, 6), make(module)
    torch.testing.assert_close(other(x), module(x))
    name = "gemm" if "gemm" in module._modules else "fc"
    other.__dict__["_modules"] = dict(other._modules) | {name: nn.Linear(6, 8)}
    parameters = {key: getattr(other, name).state_dict()[key] for key in ("weight", "bias")}
    called = functional_call(module, {f"{name}.{key}": value for key, value in parameters.items()}, (x,))
    torch.testing.assert_close(other(x), called)
    assert not torch.allclose(other(x), module(x))
    assert other.chain_parameters()["weight"] is getattr(other, name).weight


def test_replicas(device):
    """As nn.DataParallel makes them: their parameters are plain attributes."""
    model, fused = made()
    parts = [
        ("", model, fused),
        *((f"{n}.", m, fused.get_submodule(n)) for n, m in model.named_modules() if n),
    ]
    others, x = {}, torch.randn(5, 6)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for name, _, part in parts:
            others[name] = part._replicate_for_data_parallel()
            others[name]._former_parameters = {}
        tensors = {}
        for name, _, part in parts:
            for key, value in part._parameters.items():
                tensors[name + key] = value.detach() * 2
                setattr(others[name], key, tensors[name + key])
            for key in part._modules:
                others[name]._modules[key] = others[f"{name}{key}."]
        torch.testing.assert_close(others[""](x), functional_call(model, tensors, (x,)))
    assert any("replica" in str(one.message) for one in said)


def test_stacked_swapped_and_shared(device):
    models = [made()[1] for _ in range(3)]
    for number, one in enumerate(models):
        with torch.no_grad():
            for parameter in one.parameters():
                parameter.add_(0.1 * number)
    parameters, buffers = stack_module_state(models)
    x = torch.randn(5, 6)
    base = copy.deepcopy(models[0]).to("meta")
    for number, one in enumerate(models):
        mine = {name: value[number] for name, value in parameters.items()}
        torch.testing.assert_close(functional_call(base, (mine, buffers), (x,)), one(x))
    plain, fused = made()
    torch.utils.swap_tensors(
        fused.fc.weight, nn.Parameter(torch.randn(8, 8))
    )  # also the plain model's, which shares it
    torch.testing.assert_close(fused(x), plain(x))
    before = fused(x)
    torch.testing.assert_close(fused.share_memory()(x), before)


def test_classes_that_are_replaced(device, monkeypatch):
    model, fused = made()
    x = torch.randn(5, 6)
    fused(x)
    monkeypatch.setattr(Net, "forward", lambda self, x: self.fc(self.body(x)) - 1)
    torch.testing.assert_close(fused(x), model(x))
    monkeypatch.setattr(nn.Sequential, "forward", lambda self, x: self[0](x) * 2)
    torch.testing.assert_close(fused(x), model(x))
    monkeypatch.setattr(type(fused), "forward", lambda self, x: x)
    assert fused(x) is x


@pytest.mark.parametrize("name, other", [("group_norm", lambda x, *_: 3 * x), ("silu", torch.tanh)])
def test_functions_of_torch_that_are_replaced(name, other, device, monkeypatch):
    """By a forward() that names them, and by the modules of torch that call them."""
    model, fused = made()
    x = torch.randn(5, 6)
    before = fused(x)
    monkeypatch.setattr(F, name, other)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(fused(x), model(x))
    assert not torch.allclose(fused(x), before)
    monkeypatch.undo()
    torch.testing.assert_close(fused(x), before)


def test_a_subclass_of_a_fused_class(device):
    _, fused = made()
    kind = type("Doubled", (type(fused),), {"forward": lambda self, x: 2 * super(kind, self).forward(x)})
    other, x = copy.copy(fused), torch.randn(5, 6)
    other.__class__ = kind
    torch.testing.assert_close(other(x), 2 * fused(x))


def test_what_a_fused_class_makes_is_a_plain_module(device):
    model, fused = made()
    x = torch.randn(5, 6)
    for part in (slice(0, 2), slice(1), slice(None)):
        cut = fused.body[part]
        assert type(cut) is nn.Sequential and "_fused" not in cut.__dict__
        torch.testing.assert_close(cut(x), model.body[part](x))
        torch.testing.assert_close(pickle.loads(pickle.dumps(cut))(x), cut(x))
    torch.testing.assert_close(fgn.fuse(fused.body[:])(x), model.body(x))
    other = type(fused)()
    assert type(other) is Net
    other.load_state_dict(fused.state_dict())
    torch.testing.assert_close(other(x), model(x))
    again = type(fgn.GemmGroupNormHardtanh(6, 8, 2, -1.0, 1.0))(6, 8, 2, -1.0, 1.0)
    assert is_fused(again) and again(x).shape == (5, 8)


def test_threads_that_call_copies(device):
    model, fused = made()
    x, failures = torch.randn(5, 6), []

    def call(factor):
        other = copy.copy(fused)
        other.factor = factor
        for _ in range(5):
            if not torch.allclose(other(x), 2 * factor * expected, atol=1e-5):
                failures.append(factor)

    expected = model(x)
    threads = [threading.Thread(target=call, args=(factor,)) for factor in (1.0, 3.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
