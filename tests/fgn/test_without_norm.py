"""Chains without a norm: y = before(x W^T + bias), by every version, with gradients, and as fuse() finds
them."""

import random
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from accuracy import assert_accurate
from test_backward import check_gradients, dy_away_from_kinks, step_of
from torch import nn

import fgn
from fgn import training
from fgn.chains import Chain, Pointwise, Shape, problem, random_inputs
from fgn.functional import LIBRARY, launch_count, plan_of, run_chain
from fgn.fusing.parts import ChainPart
from fgn.measure.accuracy import misplaced, relative_error
from fgn.native.library import version_names
from fgn.operators import IN_CHAINS
from fgn.plans import DEVICES, plan
from fgn.precision import PRECISIONS, torch_precision
from fgn.reference import chain_reference, chain_reference64

ROUNDOFF = {torch.float32: 2.0**-22, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
KINDS = ("add_channel", "mish", "gelu", "multiply_channel", "add_tensor", "tanh", "hardtanh", "relu")


@pytest.fixture(autouse=True)
def grad(no_grad):
    with torch.enable_grad():
        yield


def chain_of(*kinds) -> Chain:
    steps = tuple(step_of(kind, f"operand_{number}") for number, kind in enumerate(kinds))
    return Chain("without_norm", steps, 0, ())


def random_problems(seed: int, count: int):
    """(chain, shape), sizes without a pattern."""
    draw = random.Random(seed)
    for _ in range(count):
        chain = chain_of(*draw.choices(KINDS, k=draw.randint(1, 5)))
        columns = draw.choice((1, 3, 8, 31, 64, 100, 256, 500, 2100, 4104))
        yield chain, Shape(draw.randint(1, 40), draw.randint(1, 90), columns, 0)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("version", version_names())
def test_every_version(version, precision, device):
    dtype, ran = PRECISIONS[precision].dtype, 0
    for chain, shape in random_problems(1, 6):
        if launch_count(chain, shape, version, device, precision) is None:
            continue
        ran += 1
        x, parameters = random_inputs(chain, shape, device, dtype=dtype)
        y = run_chain(chain, x, parameters, version, poison=True, precision=precision)
        if precision == "ieee" and version != LIBRARY:
            assert_accurate(y, chain, x, parameters)
            continue
        exact = chain_reference64(chain, x, parameters)
        with torch_precision(precision):
            torchs = chain_reference(chain, x, parameters)
        assert misplaced(y, torchs) == 0 and y.dtype == dtype
        factors = 2.0**-10 if precision == "tf32" else 0.0  # torch on a CPU multiplies in float32
        assert relative_error(y, exact) <= 2 * relative_error(torchs, exact) + ROUNDOFF[dtype] + factors
    if not ran:
        pytest.skip("this version needs a norm, or another precision")


def test_a_product_with_fewer_launches_than_operators(device):
    """What takes operators into its epilogue has one launch for the product and all of them."""
    chain, shape = chain_of("add_channel", "mish", "gelu", "tanh"), Shape(70, 64, 96, 0)
    counts = {name: launch_count(chain, shape, name, device) for name in version_names(device.type)}
    assert counts["naive"] == 5 and counts["fused"] == counts["few_rows_float32"] == 1
    assert counts["one_kernel"] is None and counts[LIBRARY] == 1
    launches = plan(chain, shape, LIBRARY).launches
    assert launches[0].text == "add_channel + mish + gelu + tanh"
    hopper = plan(chain, Shape(4096, 1024, 1024, 0), "hopper", "bf16", DEVICES["H200"])
    assert [launch.text for launch in hopper.launches] == ["product + add_channel + mish + gelu + tanh"]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("rung", [row["name"] for row in training.backward_versions()])
def test_gradients(rung, precision, device):
    dtype = PRECISIONS[precision].dtype
    if (rung == "naive" and dtype != torch.float32) or (rung == "split" and precision != "ieee"):
        pytest.skip("this rung has another precision")
    for chain, shape in (
        *random_problems(2, 3),
        (chain_of(*["multiply_channel"] * 5, "add_tensor"), Shape(70, 9, 48, 0)),
        (chain_of("mish", "prelu"), Shape(300, 7, 50, 0)),
    ):
        x, parameters = random_inputs(chain, shape, device, 1, dtype)
        dy = dy_away_from_kinks(chain, x, parameters)
        wanted = [name for name in training.gradient_names(chain) if not name.startswith("norm_")]
        with torch.no_grad():
            y, kept = training.forward_keeping(chain, x, parameters, precision=precision, poison=True)
            arguments = chain, dy, x, kept, parameters, wanted, rung, precision
            found = training.run_backward(*arguments, poison=True)
            again = training.run_backward(*arguments, poison=True)
        check_gradients(found, chain, x, parameters, dy, precision)
        assert all(torch.equal(found[name], again[name]) for name in found)
        assert not y.isnan().any()


@pytest.mark.parametrize("kind", IN_CHAINS)
def test_gradient_of_every_operator(kind, device):
    first = (Pointwise("square"), Pointwise("add", 0.1)) if kind == "sqrt" else ()
    chain = Chain("one_operator", (*first, step_of(kind, "one")), 0, ())
    x, parameters = random_inputs(chain, Shape(40, 24, 64, 0), device, 3)
    for name in chain.operands:
        parameters[name] = 0.5 + parameters[name].sigmoid()
    dy = dy_away_from_kinks(chain, x, parameters)
    leaves = {name: value.clone().requires_grad_() for name, value in {"x": x, **parameters}.items()}
    others = {name: value for name, value in leaves.items() if name != "x"}
    for _ in range(2):  # the second one is a repeated step
        y = fgn.chain_forward(chain, leaves["x"], others, precision="ieee")
        found = torch.autograd.grad(y, list(leaves.values()), dy)
    check_gradients(dict(zip(leaves, found, strict=True)), chain, x, parameters, dy, "ieee")


def test_what_a_chain_without_a_norm_is_not(device):
    with pytest.raises(ValueError, match="after: expected no steps without a norm"):
        Chain("wrong", (), 0, (Pointwise("relu"),))
    chain = chain_of("relu")
    x, parameters = random_inputs(chain, Shape(3, 4, 8, 0), device)
    with pytest.raises(ValueError, match="parameters: expected some of weight, bias, got 'norm_weight'"):
        fgn.chain_forward(chain, x, parameters | {"norm_weight": torch.ones(8, device=device)})
    with pytest.raises(ValueError, match="0 groups, as the chain has no norm"):
        problem(chain, (3, 4, 8, 2))
    assert problem(chain, (3, 4, 8))[1].groups == 0
    assert fgn.chain_forward(chain, x[:0], parameters).shape == (0, 8)


def test_on_hopper_the_choice_is_between_the_product_of_torch_and_ours():
    chain = chain_of("gelu")
    planned = {
        precision: plan(chain, Shape(1024, 8192, 8192, 0), None, precision, DEVICES["H200"])
        for precision in PRECISIONS
    }
    assert {one.version for one in planned.values()} <= {"hopper", LIBRARY}
    assert planned["ieee"].version == "hopper"
    assert plan_of(chain, Shape(0, 8, 8, 0), None, torch.device("cpu")).launch_count == 0


# ------------------------------------------------------------------------------------------------------------
# fuse()


def assert_same_gradients(got, expected, model):
    """The gradients of both sums of squares with respect to the model's parameters, which they share."""
    found = [torch.autograd.grad(one.square().sum(), list(model.parameters())) for one in (got, expected)]
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


class Mlp(nn.Module):
    """As transformers write it, with the residual."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 48), nn.Linear(48, 16)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


@pytest.mark.parametrize("sizes", [(), (5,), (2, 3), (2, 3, 4), (0,)], ids=str)
def test_a_model_of_any_leading_dimensions(sizes, device):
    model = Mlp().to(device)
    fused = fgn.fuse(model)
    assert [verdict.fused for verdict in fgn.explain(model).verdicts] == [
        "up (Linear) → gelu",
        "down (Linear) → add",
    ]
    x = torch.randn(*sizes, 16, generator=torch.Generator().manual_seed(0)).to(device)
    with torch_precision("ieee"):
        exact = model.double()(x.double())
        model.float()
        for _ in range(2):
            torch.testing.assert_close(fused(x).double(), exact, rtol=1e-5, atol=1e-5)
    assert_same_gradients(fused(x), model(x), model)


def test_a_norm_after_it_makes_the_chain_longer():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.GroupNorm(4, 16), nn.Sigmoid())
    assert [verdict.fused for verdict in fgn.explain(model).verdicts] == [
        "0 (Linear) → 1 (ReLU) → 2 (GroupNorm) → 3 (Sigmoid)"
    ]


class Sorted(nn.Module):
    """What no chain has."""

    def forward(self, x):
        return x.sort(-1).values


def test_a_linear_alone_is_torchs():
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.0).eval(), Sorted()).eval()
    assert not fgn.explain(model).fused


@pytest.mark.parametrize("training_mode", [False, True])
def test_under_autocast(training_mode, device):
    model = Mlp().to(device)
    fused = fgn.fuse(model)
    x = torch.randn(6, 16, generator=torch.Generator().manual_seed(1)).to(device)
    with torch.set_grad_enabled(training_mode), torch.autocast(device.type, torch.bfloat16):
        y, expected = fused(x), model(x)
    assert y.dtype == expected.dtype
    torch.testing.assert_close(y, expected, rtol=3e-2, atol=3e-2)


def test_under_autocast_a_call_is_planned_once(device, monkeypatch):
    model = Mlp().to(device)
    fused = fgn.fuse(model)
    x = torch.randn(6, 16, generator=torch.Generator().manual_seed(1)).to(device)
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
        expected = fused(x)

        def never(*arguments, **keywords):
            raise AssertionError("the call was planned again")

        monkeypatch.setattr("fgn.functional.run_chain", never)
        assert torch.equal(fused(x), expected)


def test_under_torch_compile_and_func(device):
    model = Mlp().to(device)
    fused = fgn.fuse(model)
    x = torch.randn(6, 16, generator=torch.Generator().manual_seed(1)).to(device)
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), fused(x))
    for one in (fused, compiled):
        assert_same_gradients(one(x), model(x), model)
    named = dict(fused.named_parameters())

    def loss(parameters):
        return torch.func.functional_call(fused, parameters, (x,)).square().sum()

    gradients = torch.func.grad(loss)(named)
    expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    for name, value in zip(named, expected, strict=True):
        torch.testing.assert_close(gradients[name], value, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------------------------
# BatchNorm in evaluation, and a product alone


def batch_norm_model(**options) -> nn.Sequential:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(12, 20), nn.BatchNorm1d(20, **options), nn.SiLU())
    with torch.no_grad():
        for value in (*model[1].parameters(), *model[1].buffers()):
            if value.is_floating_point():
                value.uniform_(0.5, 1.5)
    return model.eval()


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_in_evaluation(affine, device):
    model = batch_norm_model(affine=affine, eps=1e-3).to(device)
    fused = fgn.fuse(model)
    assert fgn.explain(model).fused[0].fused == "0 (Linear) → 1 (BatchNorm1d) → 2 (SiLU)"
    x = torch.randn(7, 12, generator=torch.Generator().manual_seed(0)).to(device)
    torch.testing.assert_close(fused(x), model(x), rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        model[1].running_mean.add_(0.5)
        model[1].running_var.mul_(3.0)
    fused[1].eps = model[1].eps = 0.1
    torch.testing.assert_close(fused(x), model(x), rtol=1e-5, atol=1e-5)
    for one in (model, fused):
        one[1].train()
    torch.testing.assert_close(fused(x), model(x), rtol=1e-4, atol=1e-4)
    for one in (model, fused):
        one[1].eval()
    torch.testing.assert_close(fused(x), model(x), rtol=1e-5, atol=1e-5)
    assert_same_gradients(fused(x), model(x), model)


def test_batch_norm_that_is_torchs():
    for model in (batch_norm_model().train(), batch_norm_model(track_running_stats=False)):
        assert not fgn.explain(model).fused
    model = nn.Sequential(nn.Linear(12, 20), nn.BatchNorm1d(5)).eval()  # of (batch, 5, 20)
    fused, x = fgn.fuse(model), torch.randn(3, 5, 12)
    with pytest.warns(UserWarning, match="runs part by part"):
        y = fused(x)
    torch.testing.assert_close(y, model(x))


def test_a_product_alone_runs_as_its_module_where_nothing_is_gained(device):
    model = nn.Sequential(nn.Linear(12, 20), Sorted()).to(device)
    fused = fgn.fuse(model)
    x = torch.randn(3, 12, generator=torch.Generator().manual_seed(0)).to(device)
    assert torch.equal(fused(x), model(x))
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), model(x))
    seen = []
    fused[0].register_forward_hook(lambda *arguments: seen.append(1))
    fused(x)
    assert seen == [1]
    assert fgn.fuse(model, precision="tf32") is not None and not fgn.explain(model).fused


def test_a_large_product_alone_is_one_of_halves(device):
    if device.type == "cpu" or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0")
    model = nn.Sequential(nn.Linear(2048, 2048), Sorted()).to(device)
    fused = fgn.fuse(model)
    x = torch.randn(4, 256, 2048, device=device)
    with torch_precision("ieee"), torch.no_grad():
        exact = model.double()(x.double())
        model.float()
        errors = [relative_error(one(x), exact) for one in (fused, model)]
        assert not torch.equal(fused(x), model(x)) and errors[0] <= 2 * errors[1]
        compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(x), fused(x))
    with torch_precision("tf32"), torch.no_grad():
        assert torch.equal(fused(x), model(x))
    with torch.no_grad():
        assert torch.equal(fused.bfloat16()(x.bfloat16()), model.bfloat16()(x.bfloat16()))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(12, 20), nn.Parameter(torch.tensor([0.7]))

    def forward(self, x):
        return torch.relu(self.linear(x) * self.scale)


def test_an_operand_of_one_element_costs_no_new_plan(device, monkeypatch):
    model = Scaled().to(device)
    fused = fgn.fuse(model)
    x = torch.randn(3, 12, generator=torch.Generator().manual_seed(0)).to(device)
    fused(x)

    def never(*arguments):
        raise AssertionError("the call was planned again")

    monkeypatch.setattr("fgn.fusing.parts.chain_forward", never)
    with torch.no_grad():
        model.scale.fill_(-0.3)
    y = fused(x)
    torch.testing.assert_close(y, model(x), rtol=1e-5, atol=1e-5)
    assert_same_gradients(y, model(x), model)


# ------------------------------------------------------------------------------------------------------------
# explain() of a call


def test_what_a_call_saves(device, monkeypatch):
    """On a GPU a product and one operator may be left to torch, by the choice of versions; not here."""
    monkeypatch.setattr(ChainPart, "_is_as_many_launches", lambda *arguments: False)
    torch.manual_seed(0)
    model = nn.Sequential(Mlp(), Mlp(), nn.Linear(16, 8), nn.GroupNorm(2, 8), nn.ReLU(), nn.Softmax(-1)).to(
        device
    )
    x = torch.randn(6, 16).to(device)
    explained = fgn.explain(model, x, gpu="RTX 4090")
    chains = explained.chains
    assert list(chains.linear) == ["0.up", "0.down", "2"] and list(chains.times) == [2, 2, 1]
    assert list(chains.steps) == ["product + gelu", "product + add_tensor", "product + norm + relu"]
    assert list(chains.torch_launches) == [2, 2, 3] and (chains.launches <= chains.torch_launches).all()
    # x, the weight, the bias, the product, and the operator's reading and writing
    assert chains.torch_bytes[0] == 4 * (6 * 16 + 48 * 16 + 48 + 6 * 48 + 2 * 6 * 48)
    assert (chains.bytes < chains.torch_bytes).all() and (chains.saved_us > 0).all()
    assert ("fgn_ms" in chains) == (device.type == "cuda")
    assert "saves us (RTX 4090)" in str(explained) and explained.plot().axes
    assert fgn.explain(model).chains is None
    with pytest.raises(ValueError, match="inputs: expected those of the model"):
        fgn.explain(model).plot()
    with pytest.raises(ValueError, match="RTX 0"):
        fgn.explain(model, x, gpu="RTX 0")
    alone = nn.Sequential(nn.Linear(16, 4), nn.Softmax(-1)).to(device, torch.bfloat16)
    with pytest.raises(ValueError, match="at least one chain"):
        fgn.explain(alone, x.bfloat16()).plot()


def test_a_call_in_a_compiled_graph_is_planned_once(device, monkeypatch):
    model = Mlp().to(device)
    compiled = torch.compile(fgn.fuse(model), fullgraph=True, backend="aot_eager")
    x = torch.randn(6, 16, generator=torch.Generator().manual_seed(1)).to(device)
    with torch.no_grad():
        for _ in range(2):  # the first run is torch.compile's own, with the dispatcher in another state
            compiled(x)

        def never(*arguments, **keywords):
            raise AssertionError("the call was planned again")

        monkeypatch.setattr("fgn.torch_operators.run_chain", never)
        torch.testing.assert_close(compiled(x + 1), model(x + 1), rtol=1e-5, atol=1e-5)


def test_a_compiler_fuses_16_bit_chains_without_a_norm_itself(device):
    x = torch.randn(6, 16, generator=torch.Generator().manual_seed(1)).to(device)
    for dtype, version, expected in (
        (torch.float32, None, 2),
        (torch.bfloat16, None, 0),
        (torch.bfloat16, "tensor_core" if device.type == "cuda" else "few_rows", 2),
    ):
        graphs = []

        def backend(graph, inputs, graphs=graphs):
            graphs.append([str(node.target) for node in graph.graph.nodes])
            return graph.forward

        model = Mlp().to(device, dtype)
        compiled = torch.compile(fgn.fuse(model, version=version), fullgraph=True, backend=backend)
        with torch.no_grad():
            y = compiled(x.to(dtype))
        torch.testing.assert_close(y, model(x.to(dtype)), rtol=3e-2, atol=3e-2)
        assert sum("chain_forward" in target for target in graphs[0]) == expected


@pytest.mark.parametrize("has_gradients", [False, True])
def test_one_operator_behind_a_product_of_torch_is_left_to_torch(device, monkeypatch, has_gradients):
    """On a GPU, where that is as many launches; a product of fgn's own has the operator in its launch."""
    sizes = (2048, 2048, 2048) if device.type == "cuda" else (5, 16, 24)
    model = nn.Sequential(nn.Linear(*sizes[1:]), nn.GELU()).to(device).half()
    fused, x = fgn.fuse(model), torch.randn(*sizes[:2], device=device).half()
    plan = SimpleNamespace(product_bytes=8)
    monkeypatch.setattr("fgn.fusing.parts.plan_of", lambda *_, **__: plan)
    left = []
    monkeypatch.setattr("fgn.fusing.parts.chain_forward", lambda *a: left.append(a) or model(x))
    monkeypatch.setattr("fgn.native.repeated.repeat", lambda *_: None)
    with torch.set_grad_enabled(has_gradients):
        for _ in range(3):
            torch.testing.assert_close(fused(x), model(x))
    assert bool(left) == (device.type == "cpu")
    plan.product_bytes = 0
    other = fgn.fuse(model)
    with torch.no_grad():
        other(x)
    assert left
