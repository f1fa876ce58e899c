"""Training steps that are like one before them: what is kept of a step never decides what the next one is."""

import threading

import pytest
import torch
from accuracy import with_groups

import fgn
from fgn import gradients, training, training_calls
from fgn import precision as precision_module
from fgn.chains import CHAINS, Chain, Pointwise, Shape, random_inputs
from fgn.measure.accuracy import relative_error
from fgn.native import repeated
from fgn.plans import DEVICES
from fgn.reference import chain_reference

SHAPE = Shape(9, 20, 48, 4)
CHAIN = with_groups(CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"], 4)


@pytest.fixture(autouse=True)
def grad(no_grad):
    gradients._steps.clear()
    with torch.enable_grad():
        yield


def leaves(device, dtype=torch.float32, shape=SHAPE):
    x, parameters = random_inputs(CHAIN, shape, device)
    return {name: value.detach().to(dtype).requires_grad_() for name, value in {"x": x, **parameters}.items()}


def check_step(tensors, dy=None, chain=CHAIN):
    """One step by fgn, which has to give what torch gives in float64."""
    call = {name: value for name, value in tensors.items() if name != "x"}
    y = fgn.chain_forward(chain, tensors["x"], call)
    dy = torch.randn_like(y) if dy is None else dy
    found = torch.autograd.grad(y, list(tensors.values()), dy)
    exact = {name: value.detach().double().requires_grad_() for name, value in tensors.items()}
    expected = chain_reference(chain, exact["x"], exact)
    right = torch.autograd.grad(expected, list(exact.values()), dy.double())
    tolerance = 1e-5 if y.dtype == torch.float32 else 3e-2
    for name, one, other in zip(tensors, found, right, strict=True):
        assert relative_error(one, other) < tolerance, name
    assert relative_error(y, expected) < tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.memory
def test_steps_with_other_tensors(device, dtype):
    for _ in range(3):
        check_step(leaves(device, dtype))
    (step,) = gradients._steps.values()
    assert len(step.backwards) == 1


def test_a_step_that_permits_fp8_is_kept(device):
    tensors = leaves(device, torch.bfloat16)
    x, parameters = tensors.pop("x"), tensors
    for _ in range(2):
        fgn.chain_forward(CHAIN, x, parameters, precision="fp8").sum().backward()
    (key,) = gradients._steps
    vectors = tuple(parameters.get(name) for name in training.gradient_names(CHAIN)[1:])
    assert gradients.kept(repeated.key_of(CHAIN, x, vectors, None, "fp8"), vectors) is gradients._steps[key]


@pytest.mark.parametrize("own", ["transposed", "split"])
@pytest.mark.parametrize("of_gpu", [False, True], ids=["fgn multiplies", "torch multiplies"])
def test_the_rung_of_a_step(device, monkeypatch, of_gpu, own):
    taken = []

    def index_among(names, version):
        taken.append(version)
        return names.index(version)

    monkeypatch.setattr(training, "index_among", index_among)
    for module in (training, gradients):
        monkeypatch.setattr(module, "multiplies_by_torch", lambda *_: of_gpu)
    monkeypatch.setattr(training, "own_rung", lambda *_: own)
    check_step(leaves(device))
    check_step(leaves(device, shape=SHAPE._replace(batch=300, in_features=64)))
    assert set(taken) == {"fused" if of_gpu else own}


@pytest.mark.parametrize(
    "shape, precision, expected",
    [
        # the measured ones
        ((4096, 2048, 2048), "ieee", "split"),
        ((16384, 1024, 1024), "ieee", "split"),
        ((1024, 8192, 8192), "ieee", "transposed"),
        # on the rule's border, where x and dL/dy have as many values as the weight
        ((2048, 4096, 4096), "ieee", "transposed"),
        ((2049, 4096, 4096), "ieee", "split"),
        ((4096, 2048, 2048), "tf32", "transposed"),
        ((4096, 2048, 2048), "bf16", "transposed"),
        ((512, 256, 256), "ieee", "transposed"),  # too small for halves
        ((65536, 64, 2048), "ieee", "transposed"),  # narrow: the forward does not split it
    ],
)
def test_the_rung_is_the_one_that_was_faster(shape, precision, expected):
    cpu, h200 = torch.device("cpu"), DEVICES["H200"]
    assert training_calls.own_rung(cpu, Shape(*shape, 16), precision, h200) == expected


@pytest.mark.memory
def test_steps_that_want_other_gradients(device):
    tensors = leaves(device)
    for frozen in (None, "weight", "x", "norm_weight", "channel_bias", None):
        for name, value in tensors.items():
            value.requires_grad_(name != frozen)
        y = fgn.chain_forward(CHAIN, tensors["x"], {n: v for n, v in tensors.items() if n != "x"})
        wanted = [value for value in tensors.values() if value.requires_grad]
        assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(y.square().sum(), wanted))
    for value in tensors.values():
        value.requires_grad_()
    check_step(tensors)


def test_parameters_that_are_frozen_in_turns_keep_a_step_each(device, monkeypatch):
    """As a discriminator's are while its generator learns."""
    kept, keep, tensors = [], gradients._Step.keep, leaves(device)
    monkeypatch.setattr(gradients._Step, "keep", lambda step, *given: kept.append(step) or keep(step, *given))
    for _ in range(3):
        for learns in (True, False):
            for name, value in tensors.items():
                value.requires_grad_(learns or name == "x")
            y = fgn.chain_forward(CHAIN, tensors["x"], {n: v for n, v in tensors.items() if n != "x"})
            y.square().sum().backward()
    assert len(kept) == 2
    tensors["x"].requires_grad_(False)
    assert not fgn.chain_forward(
        CHAIN, tensors["x"], {n: v for n, v in tensors.items() if n != "x"}
    ).requires_grad


@pytest.mark.memory
def test_steps_with_tensors_that_are_not_as_they_were(device):
    check_step(leaves(device))
    transposed = leaves(device)
    transposed["weight"] = transposed["weight"].detach().t().contiguous().t().requires_grad_()
    check_step(transposed)
    unaligned = leaves(device)
    memory = torch.empty(SHAPE.batch * SHAPE.in_features + 1, device=device)
    unaligned["x"] = memory[1:].view(SHAPE.batch, -1).copy_(unaligned["x"].detach()).requires_grad_()
    check_step(unaligned)
    vectors = leaves(device)
    padded = torch.randn(2 * SHAPE.out_features, device=device)
    vectors["norm_weight"] = padded[::2].detach().requires_grad_()
    check_step(vectors)
    dy = torch.randn(SHAPE.out_features, SHAPE.batch, device=device).t()
    check_step(leaves(device), dy)
    check_step(leaves(device), torch.ones((), device=device).expand(SHAPE.batch, SHAPE.out_features))
    for name in leaves(device):
        negated = leaves(device)
        negated[name] = torch._neg_view(negated[name].detach()).requires_grad_()
        check_step(negated)
    check_step(leaves(device), torch._neg_view(torch.randn(SHAPE.batch, SHAPE.out_features, device=device)))


def test_a_step_with_a_wrong_vector_is_refused(device):
    check_step(leaves(device))
    tensors = leaves(device)
    for name in ("bias", "norm_bias"):
        parameters = {n: v for n, v in tensors.items() if n != "x"}
        parameters[name] = torch.randn(SHAPE.out_features + 1, device=device, requires_grad=True)
        with pytest.raises(ValueError, match=name):
            fgn.chain_forward(CHAIN, tensors["x"], parameters)


def test_steps_in_two_threads(device):
    failures = []

    def steps():
        try:
            for _ in range(5):
                check_step(leaves(device))
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=steps) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


AT_THE_END = {
    "added": (Pointwise("relu"), Pointwise("add_tensor", tensor="skip")),
    "added and scaled": (
        Pointwise("add_tensor", tensor="skip"),
        Pointwise("multiply", 3.0),
        Pointwise("add_channel", channel="shift"),
    ),
    "read by what follows": (Pointwise("add_tensor", tensor="skip"), Pointwise("silu")),
    "read by a vector's gradient": (
        Pointwise("add_tensor", tensor="skip"),
        Pointwise("multiply_channel", channel="scale"),
    ),
    "added twice": (
        Pointwise("add_tensor", tensor="skip"),
        Pointwise("tanh"),
        Pointwise("add_tensor", tensor="skip"),
    ),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", AT_THE_END)
@pytest.mark.usefixtures("equal_calls")
def test_a_residual_whose_values_no_derivative_reads_is_not_kept(name, compiled, device):
    chain = Chain("residual", (), 4, AT_THE_END[name])
    is_kept = "read" in name or "twice" in name
    x, parameters = random_inputs(chain, SHAPE, device)
    tensors = {n: value.detach().requires_grad_() for n, value in {"x": x, **parameters}.items()}
    for _ in range(2):
        check_step(tensors, chain=chain)

    def call(tensors, skip):
        given = {n: value for n, value in tensors.items() if n != "x"} | {"skip": skip}
        return fgn.chain_forward(chain, tensors["x"], given)

    run = torch.compile(call, backend="aot_eager", fullgraph=True) if compiled else call
    skip = tensors["skip"] * 1
    kept, dy = [], torch.randn(SHAPE.batch, SHAPE.out_features, device=device)
    with torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one) or one, lambda one: one):
        y = run(tensors, skip)
    assert any(one.data_ptr() == skip.data_ptr() for one in kept) == is_kept
    expected = torch.autograd.grad(call(tensors, tensors["skip"] * 1), list(tensors.values()), dy)
    if not is_kept:
        with torch.no_grad():
            skip.fill_(float("nan"))
    for one, other in zip(torch.autograd.grad(y, list(tensors.values()), dy), expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.memory
def test_two_backwards_of_one_shape_that_wait_for_each_other(device):
    first, second = leaves(device), leaves(device)
    check_step(first)
    ys = [
        fgn.chain_forward(CHAIN, one["x"], {n: v for n, v in one.items() if n != "x"})
        for one in (first, second)
    ]
    found = [
        torch.autograd.grad(y.sum(), one["weight"])[0] for y, one in zip(ys, (first, second), strict=True)
    ]
    for one, gradient in zip((first, second), found, strict=True):
        exact = {name: value.detach().double().requires_grad_() for name, value in one.items()}
        (right,) = torch.autograd.grad(chain_reference(CHAIN, exact["x"], exact).sum(), exact["weight"])
        # the sum over a group of a norm's gradient is zero but for rounding: compare by size
        assert (gradient.double() - right).abs().max() < 1e-4


def test_more_steps_than_are_kept(device, monkeypatch):
    monkeypatch.setattr(repeated, "MOST_CALLS", 2)
    for batch in range(1, 6):
        check_step(leaves(device, shape=SHAPE._replace(batch=batch)))
    assert len(gradients._steps) <= 2


def test_a_step_does_not_change_the_setting_of_torch(monkeypatch):
    """It is the whole process's: where it is not the call's precision, the products are fgn's own."""
    by_torch = []

    def multiplies(device, shape, precision):
        of_gpu = training_calls.multiplies_by_torch(torch.device("cuda"), shape, precision)
        by_torch.append(of_gpu)
        return of_gpu

    def refuse(precision):
        raise AssertionError("torch's setting was changed")

    for module in (training, gradients):
        monkeypatch.setattr(module, "multiplies_by_torch", multiplies)
    monkeypatch.setattr(precision_module, "torch_precision", refuse)
    matmul, tensors = torch.backends.cuda.matmul, leaves("cpu")
    call = {name: value for name, value in tensors.items() if name != "x"}
    before = matmul.fp32_precision
    try:
        for forward in ("ieee", "tf32"):
            for backward in ("ieee", "tf32"):
                for _ in range(2):
                    matmul.fp32_precision = forward
                    y = fgn.chain_forward(CHAIN, tensors["x"], call, precision="ieee")
                    matmul.fp32_precision = backward
                    found = torch.autograd.grad(y.square().sum(), list(tensors.values()))
                    exact = {
                        name: value.detach().double().requires_grad_() for name, value in tensors.items()
                    }
                    expected = chain_reference(CHAIN, exact["x"], exact)
                    right = torch.autograd.grad(expected.square().sum(), list(exact.values()))
                    for one, other in zip(found, right, strict=True):
                        assert relative_error(one, other) < 1e-4
        assert set(by_torch) == {True, False}
        torch.use_deterministic_algorithms(True)
        assert not training_calls.multiplies_by_torch(torch.device("cuda"), SHAPE, "bf16")
    finally:
        matmul.fp32_precision = before
        torch.use_deterministic_algorithms(False)
