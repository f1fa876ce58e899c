"""A call like one before it takes the short way, and gives and refuses what the long way does."""

import threading

import pytest
import torch
from accuracy import assert_accurate
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import fgn
from fgn.chains import Shape, problem, random_inputs
from fgn.native import repeated

CHAIN, SHAPE = problem("gemm_biasadd_hardtanh_mish_groupnorm", Shape(5, 16, 16, 4))


@pytest.fixture
def inputs(device):
    repeated.forget()
    x, parameters = random_inputs(CHAIN, SHAPE, device)
    fgn.chain_forward(CHAIN, x, parameters)
    return x, parameters


@pytest.fixture
def short_ways(monkeypatch):
    """How many calls took the short way to its end."""
    taken, repeat = [], repeated.repeat

    def counting(*arguments):
        y = repeat(*arguments)
        if y is not None:
            taken.append(y)
        return y

    monkeypatch.setattr(repeated, "repeat", counting)
    return taken


def test_the_second_call_takes_the_short_way(inputs, short_ways):
    x, parameters = inputs
    for _ in range(2):
        x.uniform_(), parameters["weight"].uniform_(-1, 1), parameters["channel_bias"].normal_()
        assert_accurate(fgn.chain_forward(CHAIN, x, parameters), CHAIN, x, parameters)
    assert len(short_ways) == 2


@pytest.mark.memory
def test_other_memory_of_the_same_form(inputs, short_ways):
    x, parameters = inputs
    for name in parameters:
        others = parameters | {name: torch.rand_like(parameters[name])}
        assert_accurate(fgn.chain_forward(CHAIN, x, others), CHAIN, x, others)
    other = torch.rand_like(x)
    assert_accurate(fgn.chain_forward(CHAIN, other, parameters), CHAIN, other, parameters)
    assert len(short_ways) == len(parameters) + 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.memory
def test_vectors_of_16_bits_and_of_32(device, short_ways, dtype):
    x, parameters = random_inputs(CHAIN, Shape(64, 64, 64, 4), device, dtype=dtype)
    chain = problem(CHAIN, (64, 64, 64, 4), device)[0]
    wide = parameters | {"norm_weight": parameters["norm_weight"].float()}
    for given in (parameters, wide):
        expected = fgn.chain_forward(chain, x, given, "tensor_core").clone()
        for _ in range(2):
            assert torch.equal(fgn.chain_forward(chain, x, given, "tensor_core"), expected)
        changed = given | {"bias": given["bias"] * 2}
        assert not torch.equal(fgn.chain_forward(chain, x, changed, "tensor_core"), expected)
    assert len(short_ways) == 6


@pytest.mark.memory
def test_a_tensor_that_cannot_be_used_as_it_is(inputs, short_ways):
    x, parameters = inputs
    unaligned = torch.rand(x.numel() + 1, device=x.device)[1:].view_as(x)
    for other in (unaligned, torch.rand_like(x.T.contiguous()).T, x[:1].expand_as(x)):
        assert_accurate(fgn.chain_forward(CHAIN, other, parameters), CHAIN, other, parameters)
    for name in parameters:
        value = parameters[name]
        apart = torch.rand(*value.shape, 2, device=x.device)[..., 0]
        others = parameters | {name: apart}
        assert_accurate(fgn.chain_forward(CHAIN, x, others), CHAIN, x, others)
    assert not short_ways


def test_a_view_that_negates_what_is_in_memory(inputs, short_ways):
    x, parameters = inputs
    call = {"x": x, **parameters}
    for name in call:
        found, expected = (
            fgn.chain_forward(CHAIN, given["x"], {n: value for n, value in given.items() if n != "x"})
            for given in (call | {name: torch._neg_view(call[name])}, call | {name: -call[name]})
        )
        assert torch.equal(found, expected), name


@pytest.mark.memory
def test_the_same_tensor_in_another_form(inputs, short_ways):
    """The same objects at the same addresses, with other strides, sizes, dtypes than in the call before."""
    x, parameters = inputs
    parameters["weight"].t_()
    assert_accurate(fgn.chain_forward(CHAIN, x, parameters), CHAIN, x, parameters)
    parameters["weight"].t_()
    parameters["bias"].data = parameters["bias"].data[:15]
    with pytest.raises(ValueError, match=r"bias: expected shape \(16,\), got \(15,\)"):
        fgn.chain_forward(CHAIN, x, parameters)
    parameters["bias"] = torch.rand(16, device=x.device)
    parameters["norm_bias"].data = parameters["norm_bias"].data.view(torch.int32)
    with pytest.raises(TypeError, match=r"norm_bias: expected dtype torch\.float32, got torch\.int32"):
        fgn.chain_forward(CHAIN, x, parameters)
    assert not short_ways


def test_what_the_long_way_refuses(inputs):
    x, parameters = inputs
    with pytest.raises(ValueError, match="version: expected None or one of"):
        fgn.chain_forward(CHAIN, x, parameters, version="fastest")
    with pytest.raises(TypeError, match="version: expected None or the name of a version"):
        fgn.chain_forward(CHAIN, x, parameters, version=[])
    with pytest.raises(TypeError, match=r"bias: expected a torch\.Tensor, got list"):
        fgn.chain_forward(CHAIN, x, parameters | {"bias": [0.0] * 16})
    with pytest.raises(ValueError, match="precision: expected None or"):
        fgn.chain_forward(CHAIN, x, parameters, precision="fp16")
    elsewhere = parameters["bias"].to("meta")
    with pytest.raises(RuntimeError, match=f"bias: expected it on {x.device}, where x is, got meta"):
        fgn.chain_forward(CHAIN, x, parameters | {"bias": elsewhere})


class FunctionMode(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), keywords=None):
        return function(*arguments, **(keywords or {}))


class DispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        self.seen = function
        return function(*arguments, **(keywords or {}))


@pytest.mark.parametrize("layout", ["sparse", "sparse_csr"])
def test_a_tensor_that_is_not_dense_is_refused_by_its_name(inputs, layout):
    x, parameters = inputs
    for name, value in {"x": x, **parameters}.items():
        if layout == "sparse_csr" and value.dim() == 1:
            continue
        given = parameters | {name: getattr(value, f"to_{layout}")()}
        with pytest.raises(TypeError, match=f"^{name}: expected a dense tensor"):
            fgn.chain_forward(CHAIN, given.pop("x", x), given)


def test_who_watches_operators_sees_it(inputs, short_ways):
    x, parameters = inputs
    with DispatchMode() as mode:
        fgn.chain_forward(CHAIN, x, parameters)
    assert mode.seen is torch.ops.fgn.chain_forward.default
    with FunctionMode():
        assert not repeated.is_ordinary()
    with torch.autograd.forward_ad.dual_level():
        assert not repeated.is_ordinary()
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        assert not repeated.is_ordinary()
    torch.func.vmap(lambda v: assert_not_ordinary(v))(x)
    assert repeated.is_ordinary() and not short_ways


def assert_not_ordinary(v):
    assert not repeated.is_ordinary()
    return v


@pytest.mark.memory
def test_two_threads_call_one_module(device):
    """Each with its own input and its own weight in the module's place, again and again."""
    torch.manual_seed(0)
    module = fgn.MatmulGroupNormLeakyReluSum(16, 32, 4).to(device)
    xs = [torch.rand(3, 16, device=device) for _ in range(2)]
    parameters = [
        {name: torch.rand_like(value) for name, value in module.chain_parameters().items()} for _ in xs
    ]
    expected = [fgn.chain_forward(module.chain, x, own) for x, own in zip(xs, parameters, strict=True)]
    wrong = []

    def call(number):
        with torch.no_grad():
            for _ in range(20):
                for which in (number, 1 - number):
                    y = fgn.chain_forward(module.chain, xs[which], parameters[which])
                    if not torch.equal(y, expected[which]):
                        wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.memory
def test_no_more_calls_are_kept_than_there_may_be(inputs, monkeypatch):
    x, parameters = inputs
    monkeypatch.setattr(repeated, "MOST_CALLS", 3)
    for rows in range(1, 6):
        fgn.chain_forward(CHAIN, x[:rows], parameters)
    assert len(repeated._calls) <= 3
