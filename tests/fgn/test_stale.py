"""No call computes from a weight that is no longer there, whoever has written to it."""

import copy
import gc

import numpy as np
import pytest
import torch
from accuracy import torch_error

import fgn
from fgn.chains import problem
from fgn.functional import prepares, run_chain
from fgn.measure.accuracy import relative_error
from fgn.native import prepared, repeated
from fgn.native.library import version_names
from fgn.reference import chain_reference64, ieee_float32

# In features enough that the weight's halves are kept: on the simulator, and on a GPU.
SIZES = {"cpu": (3, 256, 32, 4), "cuda": (256, 2048, 2048, 64)}
PRECISIONS = ("ieee", "bf16")


def splitting_version(device, chain, shape):
    """The last version that splits the weight and runs here."""
    names = [name for name in version_names(device.type) if runs_and_prepares(device, chain, shape, name)]
    assert names
    return names[-1]


def runs_and_prepares(device, chain, shape, name):
    try:
        return prepares(chain, shape, name, device)
    except RuntimeError:
        return False


@pytest.fixture(params=PRECISIONS)
def module(request, device):
    """A module whose weight's halves are kept, in "ieee"; called twice, so that they are there."""
    prepared.forget(), repeated.forget()
    torch.manual_seed(0)
    batch, in_features, out_features, groups = SIZES[device.type]
    module = fgn.GemmBiasAddHardtanhMishGroupNorm(in_features, out_features, (out_features,), groups)
    dtype = torch.bfloat16 if request.param == "bf16" else torch.float32
    module.precision = request.param
    module.to(device, dtype)
    chain, shape = problem(module.chain, SIZES[device.type])
    if request.param == "ieee":
        module.version = splitting_version(device, chain, shape)
    elif device.type == "cpu":
        module.version = "tensor_core"
    module.x = torch.rand(batch, in_features, device=device).to(dtype)
    for _ in range(2):
        check(module)
    assert (len(prepared._kept) == 1) == (request.param == "ieee")
    return module


def assert_of_this_weight(y, chain, x, parameters):
    """At most twice as far from float64 as torch in the same precision is: an older weight is far off."""
    exact = chain_reference64(chain, x, parameters)
    with ieee_float32():
        allowed = 2 * torch_error(chain, x, parameters, exact)
    assert relative_error(y, exact) <= allowed


def check(module):
    with torch.no_grad():
        y = module(module.x)
        assert_of_this_weight(y, module.chain, module.x, module.chain_parameters())
    return y


@pytest.mark.memory
def test_a_change_of_a_single_bit(module):
    """Of the first, the last and some other weight, of the sign and of the lowest bit."""
    weight = module.chain_parameters()["weight"]
    if weight.dtype != torch.float32:
        pytest.skip("nothing is kept of 16-bit weights")
    memory = next(iter(prepared._kept.values())).memory
    words = weight.data.view(-1).view(torch.int32)
    for index in (0, 1, 37, words.numel() // 2 + 5, words.numel() - 1):
        for bit in (0, 12, -(2**31)):
            before = memory.clone()
            words[index] ^= 1 << bit if bit >= 0 else bit
            check(module)
            assert not torch.equal(memory, before)
            before = memory.clone()
            check(module)
            assert torch.equal(memory, before)


def test_changes_that_cancel_in_a_weak_sum(module):
    """Two values change places, two signs change, a row changes places with another."""
    weight = module.chain_parameters()["weight"].data
    flat = weight.view(-1)
    check(module)
    flat[[2, 3]] = flat[[3, 2]]
    check(module)
    flat[[1, 131]] = flat[[131, 1]]
    check(module)
    flat[[1, 131]] *= -1
    check(module)
    weight[[0, 1]] = weight[[1, 0]]
    check(module)
    weight.neg_()
    check(module)


OPTIMIZERS = {
    "SGD": dict(lr=0.5),
    "Adam": dict(lr=0.05),
    "AdamW": dict(lr=0.05),
    "Adagrad": dict(lr=0.05),
}


@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(module, name, fused):
    parameters = list(module.parameters())
    if fused and name == "Adagrad" and parameters[0].is_cuda:
        pytest.skip("torch has no fused Adagrad for CUDA")
    optimizer = getattr(torch.optim, name)(parameters, fused=fused, **OPTIMIZERS[name])
    weight, before = module.chain_parameters()["weight"], check(module).clone()
    for _ in range(3):
        old = weight.detach().clone()
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
        if torch.equal(weight, old):
            pytest.skip(
                "torch's optimizer changes nothing here"
            )  # fused SGD in bfloat16 on a CPU, torch 2.13
        y = check(module).clone()
        assert not torch.equal(y, before)
        before = y


def test_writes_that_torch_does_not_count(module):
    weight = module.chain_parameters()["weight"]
    weight.data.uniform_(-0.1, 0.1)
    check(module)
    weight.data = torch.rand_like(weight) - 0.5
    check(module)
    if weight.device.type == "cpu" and weight.dtype == torch.float32:
        np.asarray(weight.detach())[1] = 0.25
        check(module)
    module.load_state_dict({name: torch.rand_like(value) for name, value in module.state_dict().items()})
    check(module)


def test_inference_tensors_can_change_too(module):
    with torch.inference_mode():
        other = copy.deepcopy(module)
        other.x = module.x
        for _ in range(2):
            for parameter in other.parameters():
                parameter.uniform_(-1, 1)
            y = other(other.x)
            assert_of_this_weight(y, other.chain, other.x, other.chain_parameters())


@pytest.mark.memory
def test_frozen(module):
    weight = module.chain_parameters()["weight"]
    expected = check(module).clone()
    assert fgn.freeze(module) is module and prepared.is_frozen(weight)
    for _ in range(3):
        assert torch.equal(check(module), expected)
    # What torch counts is followed.
    with torch.no_grad():
        weight.mul_(-0.5)
    check(module)
    # What it does not count is not, and that is what was asked for; in 16 bits nothing is kept.
    weight.data.uniform_(-0.1, 0.1)
    with torch.no_grad():
        stale = module(module.x).clone()
    fgn.freeze(module)
    assert torch.equal(check(module), stale) == (weight.dtype != torch.float32)
    weight.data.uniform_(-0.1, 0.1)
    assert fgn.thaw(module) is module and not prepared.is_frozen(weight)
    check(module)
    weight.data.uniform_(-0.1, 0.1)
    check(module)


def test_copies_are_not_frozen(module):
    fgn.freeze(module)
    check(module)
    other = copy.deepcopy(module)
    assert not prepared.is_frozen(other.chain_parameters()["weight"])
    check(other)
    other.chain_parameters()["weight"].data.uniform_(-0.1, 0.1)
    check(other)
    assert prepared.is_frozen(module.chain_parameters()["weight"])


def test_what_can_be_frozen():
    with pytest.raises(TypeError, match=r"model: expected a torch\.nn\.Module or a torch\.Tensor, got list"):
        fgn.freeze([])
    weight = torch.rand(4, 4)
    assert fgn.freeze(weight) is weight and prepared.is_frozen(weight.t())
    assert not prepared.is_frozen(torch.rand(4, 4))
    assert not prepared.is_frozen(fgn.thaw(weight))


@pytest.mark.memory
def test_what_is_kept_goes_with_its_weight(module):
    if module.precision != "ieee":
        pytest.skip("nothing is kept of 16-bit weights")
    other = copy.deepcopy(module)
    check(other)
    assert len(prepared._kept) == 2
    del other
    gc.collect()  # a fused module and what runs it refer to each other
    repeated.forget()
    third = copy.deepcopy(module)
    check(third)
    assert len(prepared._kept) == 2


@pytest.mark.gpu
@pytest.mark.parametrize("frozen", [False, True], ids=["proven", "frozen"])
def test_a_graph_that_is_replayed_after_an_update(frozen):
    chain, shape = problem("gemm_groupnorm_hardtanh", (256, 2048, 2048, 64))
    x, parameters = fgn.chains.random_inputs(chain, shape, "cuda")
    version = splitting_version(x.device, chain, shape)
    if frozen:
        fgn.freeze(parameters["weight"])
    run_chain(chain, x, parameters, version)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = fgn.chain_forward(chain, x, parameters, version)
    for _ in range(3):
        graph.replay()
        torch.cuda.synchronize()
        assert_of_this_weight(y, chain, x, parameters)
        if not frozen:
            parameters["weight"].data.uniform_(-0.1, 0.1)
        x.data.uniform_()


@pytest.mark.gpu
def test_another_stream(module):
    weight = module.chain_parameters()["weight"]
    streams = [torch.cuda.Stream() for _ in range(4)]
    for _ in range(3):
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream), torch.no_grad():
                y = module(module.x)
            torch.cuda.current_stream().wait_stream(stream)
            assert_of_this_weight(y, module.chain, module.x, module.chain_parameters())
            weight.data.uniform_(-0.1, 0.1)
    assert len(prepared._kept) <= prepared.MOST_STREAMS + 1
