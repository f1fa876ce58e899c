"""The drop-in modules: the reference's constructor, parameters and state_dict, fgn's kernels."""

import copy
import pickle
import warnings

import pytest
import torch
from accuracy import assert_accurate
from torch import nn
from torch.nn.utils import prune as pruning

import fgn
from fgn import reference
from fgn.modules import ChainModule

# Class name, positional arguments, keyword arguments, and how the reference creates its parameters, in order.
CASES = {
    "GemmGroupNormHardtanh": ((20, 48, 4, -2.0, 2.0), {}, ["gemm", "group_norm"]),
    "GemmBiasAddHardtanhMishGroupNorm": ((20, 48, (48,), 8), {}, ["gemm", "bias", "groupnorm"]),
    "MatmulGroupNormLeakyReluSum": ((20, 48, 12), {"eps": 1e-3, "negative_slope": 0.2}, ["fc", "gn"]),
}
each = pytest.mark.parametrize("name", CASES)


def both(name, seed=0):
    arguments, keywords, _ = CASES[name]
    modules = []
    for home in (fgn, reference):
        torch.manual_seed(seed)
        modules.append(getattr(home, name)(*arguments, **keywords))
    return modules


@each
def test_same_seed_same_parameters_in_the_same_order(name):
    module, expected = both(name)
    assert list(module.state_dict()) == list(expected.state_dict())
    torch.manual_seed(0)
    created = {}
    for part in CASES[name][2]:
        if part == "bias":
            created["bias"] = torch.randn(48)
        else:
            layer = nn.GroupNorm(CASES[name][0][-1], 48) if part in ("groupnorm", "gn") else None
            layer = nn.GroupNorm(4, 48) if part == "group_norm" else layer or nn.Linear(20, 48)
            created |= {f"{part}.{key}": value for key, value in layer.state_dict().items()}
    assert set(created) == set(module.state_dict())
    for key, value in module.state_dict().items():
        assert torch.equal(value, created[key]) and torch.equal(value, expected.state_dict()[key])


@each
def test_state_dict_interchanges_both_ways(name, device):
    module, expected = (one.to(device) for one in both(name, seed=1))
    others = [one.to(device) for one in both(name, seed=2)]
    others[0].load_state_dict(expected.state_dict())
    others[1].load_state_dict(module.state_dict())
    x = torch.rand(9, 20, device=device)
    # On a GPU a kernel that is compiled for the third call may have other last bits.
    torch.testing.assert_close(others[0](x), module(x), rtol=1e-5, atol=1e-5)
    assert torch.equal(others[1](x), expected(x))


@each
def test_it_computes_what_the_reference_computes(name, device):
    module, expected = (one.to(device) for one in both(name))
    # GroupNorm's weight and bias start as ones and zeros, which would hide a mistake.
    for parameter in [*module.parameters()][-2:]:
        parameter.uniform_(0.5, 1.5)
    expected.load_state_dict(module.state_dict())
    x = torch.rand(33, 20, device=device)
    assert torch.allclose(module(x), expected(x), rtol=1e-4, atol=1e-4)
    table = fgn.versions(module.chain, (33, 20, 48, module.chain.groups), device)
    for version in (None, *table.name[table.supported]):
        module.version = version
        assert_accurate(module(x), module.chain, x, module.chain_parameters())


@each
def test_version_is_a_keyword(name, device):
    arguments, keywords, _ = CASES[name]
    module = getattr(fgn, name)(*arguments, **keywords, version="naive").to(device)
    assert module.version == "naive"
    module(torch.rand(3, 20, device=device))
    module.version = "fastest"
    with pytest.raises(ValueError, match="version: expected None or one of naive"):
        module(torch.rand(3, 20, device=device))


@pytest.mark.parametrize("bias_shape", [(48,), (1, 48), (1,), ()], ids=str)
def test_a_bias_shape_that_broadcasts(bias_shape, device):
    torch.manual_seed(0)
    module = fgn.GemmBiasAddHardtanhMishGroupNorm(20, 48, bias_shape, 8).to(device)
    expected = reference.GemmBiasAddHardtanhMishGroupNorm(20, 48, bias_shape, 8).to(device)
    expected.load_state_dict(module.state_dict())
    x = torch.rand(5, 20, device=device)
    assert torch.allclose(module(x), expected(x), rtol=1e-4, atol=1e-4)


@each
def test_it_can_be_copied_compiled_and_called_in_inference_mode(name, device):
    module, _ = (one.to(device) for one in both(name))
    x = torch.rand(5, 20, device=device)
    y = module(x)
    assert torch.equal(copy.deepcopy(module)(x), y)
    with torch.inference_mode():
        assert torch.equal(module(x), y)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), y)


def test_the_base_class_alone_computes_nothing_and_says_so():
    class Unfinished(ChainModule):
        pass

    for cls in (ChainModule, Unfinished):
        with pytest.raises(TypeError, match=f"{cls.__name__}: expected a module of one chain"):
            cls()


class Doubled(fgn.GemmGroupNormHardtanh):
    """A subclass as users write it, in a module where pickle finds it."""

    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize("cls", [fgn.GemmGroupNormHardtanh, Doubled])
def test_the_modules_of_the_chains_are_copied_and_pickled(cls):
    module, x = cls(*CASES["GemmGroupNormHardtanh"][0]), torch.rand(3, 20)
    y = module(x)
    for copied in (copy.copy(module), copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert type(copied) is type(module) and torch.equal(copied(x), y)


def double_the_weight(module):
    module.gemm.weight.data = -2 * module.gemm.weight.data


def add_hook(module):
    module.gemm.register_forward_hook(
        lambda linear, arguments, y: y + 3 * y.sum(1, keepdim=True) * linear.weight[:, 0]
    )


def subclass(module):
    class Squared(nn.Linear):
        def forward(self, x):
            return super().forward(x) ** 2

    module.gemm.__class__ = Squared


def lora(module):
    class Lora(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base, self.weight, self.bias = base, base.weight, base.bias
            self.low = nn.Linear(base.in_features, base.out_features).to(base.weight.device)
            nn.init.constant_(self.low.weight[::2], 1.0)

        def forward(self, x):
            return self.base(x) + self.low(x)

    torch.manual_seed(3)
    module.gemm = Lora(module.gemm)


def spectral_norm(module):
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.nn.utils.spectral_norm(module.gemm)


def prune(module):
    torch.manual_seed(3)
    pruning.random_unstructured(module.gemm, "weight", 0.5)


# What a user may do to a module after it is made. Each was silently ignored once.
CHANGES = {
    "eps": lambda module: setattr(module.group_norm, "eps", 1.0),
    "another norm": lambda module: setattr(
        module, "group_norm", nn.GroupNorm(2, 48).to(module.gemm.weight.device)
    ),
    "maximum": lambda module: setattr(module.hardtanh, "max_val", 0.1),
    "another activation": lambda module: setattr(module, "hardtanh", nn.ReLU()),
    "weight": double_the_weight,
    "hook": add_hook,
    "subclass": subclass,
    "lora": lora,
    "spectral norm": spectral_norm,
    "prune": prune,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_module_is_what_it_says_when_it_is_called(name, device):
    module, expected = (one.to(device).eval() for one in both("GemmGroupNormHardtanh"))
    x = torch.rand(9, 20, device=device)
    before = module(x)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in (module, expected):
            CHANGES[name](one)
        assert torch.allclose(module(x), expected(x), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(expected(x), before, rtol=1e-2, atol=1e-3)
