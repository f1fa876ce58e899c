"""Gradients: every rung and every way to call them, against float64 and beside torch's own."""

import functools
import itertools

import pytest
import torch
import torch.nn.functional as F
from accuracy import SANITIZED, marked_by_size, with_groups
from gradient_formulas import chain_gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import allowed_errors, draws
from torch.utils.checkpoint import checkpoint

import fgn
from fgn import reference, torch_operators, training
from fgn.chains import CHAINS, Chain, Shape, random_inputs
from fgn.functional import PRODUCT, plan_of, run_chain
from fgn.measure.accuracy import relative_error
from fgn.native.library import version_names
from fgn.operators import IN_CHAINS, POINTWISE, Pointwise
from fgn.precision import PRECISIONS
from fgn.reference import chain_reference

every_chain = pytest.mark.parametrize("name", CHAINS)
every_precision = pytest.mark.parametrize("precision", PRECISIONS)
RUNGS = [row["name"] for row in training.backward_versions()]

# Groups of one team and of several segments, neighbours and channels a team apart, one row block and
# many, rows that do not begin at multiples of 16 bytes.
SHAPES = [
    Shape(1, 7, 10, 5),
    Shape(7, 12, 48, 4),
    Shape(33, 20, 50, 5),
    Shape(300, 9, 96, 3),
    Shape(5, 6, 2048, 1),
    Shape(3, 5, 4200, 2),
    Shape(70, 40, 512, 64),
]


@pytest.fixture(autouse=True)
def grad(no_grad):
    with torch.enable_grad():
        yield


def leaves_of(x, parameters, dtype=None):
    return {
        name: value.detach().to(dtype or value.dtype).clone().requires_grad_()
        for name, value in {"x": x, **parameters}.items()
    }


def gradients_of(call, chain, leaves, dy):
    """The gradients of all leaves by autograd."""
    parameters = {name: value for name, value in leaves.items() if name != "x"}
    y = call(chain, leaves["x"], parameters)
    return dict(zip(leaves, torch.autograd.grad(y, list(leaves.values()), dy.to(y.dtype)), strict=True))


# Where an operator has a kink or a jump, and how near to it two roundings may fall on different sides of it.
KINKS = {
    "hardtanh": lambda step: (step.a, step.b),
    "clamp": lambda step: (step.a, step.b),
    "threshold": lambda step: (step.a,),
    "hardshrink": lambda step: (-step.a, step.a),
    "softshrink": lambda step: (-step.a, step.a),
    "hardsigmoid": lambda step: (-3.0, 3.0),
    "hardswish": lambda step: (-3.0, 3.0),
    **{
        kind: lambda step: (0.0,)
        for kind in ("leaky_relu", "relu", "prelu", "abs", "elu", "celu", "selu", "sqrt")
    },
}
NEAR = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-1}
# Products of tf32 factors are less near to each other than float32's.
NEAR_IN_TF32 = 4e-3


def dy_away_from_kinks(chain, x, parameters, seed=0, near_kinks=None):
    """A random dL/dy that is 0 where an operator is given a value near its kink: what the derivative is
    there, rounding decides."""
    near_kinks = near_kinks or NEAR[x.dtype]
    wide = {name: value.double() for name, value in parameters.items()}
    v = F.linear(x.double(), wide["weight"], wide.get("bias"))
    near = torch.zeros(v.shape, dtype=torch.bool, device=v.device)

    def look(steps, v):
        for step in steps:
            for kink in KINKS.get(step.kind, lambda step: ())(step):
                near.logical_or_((v - kink).abs() < near_kinks)
            v = reference.apply_steps((step,), v, wide)
        return v

    # before the norm a value reaches all of its group
    v = look(chain.before, v)
    dy = torch.randn(v.shape, generator=torch.Generator().manual_seed(seed)).to(v.device)
    if not chain.has_norm:
        return dy.masked_fill(near, 0.0).to(x.dtype)
    groups = near.reshape(len(v), chain.groups, -1)
    near = groups.any(-1, keepdim=True).expand_as(groups).reshape(v.shape).clone()
    v = torch.group_norm(v, chain.groups, wide.get("norm_weight"), wide.get("norm_bias"), chain.eps)
    look(chain.after, v)
    return dy.masked_fill(near, 0.0).to(x.dtype)


def allowed_gradients(chain, x, parameters, dy, precision):
    """What the error of each gradient may be: see rounding.py."""
    exact = gradients_of(chain_reference, chain, leaves_of(x, parameters, torch.float64), dy.double())
    return allowed_errors(exact, draws(chain, x, parameters, dy, precision))


def check_gradients(found, chain, x, parameters, dy, precision, allowed=None):
    """Within what float32 roundings make of this problem in float64, element by element and by their norm."""
    allowed = allowed or allowed_gradients(chain, x, parameters, dy, precision)
    for name, gradient in found.items():
        value = x if name == "x" else parameters[name]
        assert gradient.shape == value.shape and gradient.dtype == value.dtype
        assert allowed[name].used(gradient) <= 1, name


def all_names(chain):
    return training.gradient_names(chain)


@functools.cache
def problem_of_every_rung(name, shape, precision, device):
    """What all rungs are given: a chain, x, parameters, dy, and what the gradients' errors may be."""
    chain = with_groups(CHAINS[name], shape.groups)
    x, parameters = random_inputs(chain, shape, device, 1, PRECISIONS[precision].dtype)
    dy = dy_away_from_kinks(chain, x, parameters)
    return chain, x, parameters, dy, allowed_gradients(chain, x, parameters, dy, precision)


@pytest.mark.parametrize("precision", marked_by_size(PRECISIONS))
@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_rung(rung, shape, precision, device):
    if rung == "naive" and PRECISIONS[precision].dtype != torch.float32:
        pytest.skip("naive has float32 only")
    if rung == "split" and precision != "ieee":
        pytest.skip("split is float32's")
    # A chain for each shape, in turn: test_every_operator has what the chains differ in.
    name = list(CHAINS)[SHAPES.index(shape) % len(CHAINS)]
    chain, x, parameters, dy, allowed = problem_of_every_rung(name, shape, precision, device)
    with torch.no_grad():
        y, kept = training.forward_keeping(chain, x, parameters, precision=precision, poison=True)
        arguments = chain, dy, x, kept, parameters, all_names(chain), rung, precision
        found = training.run_backward(*arguments, poison=True)
        again = found if SANITIZED else training.run_backward(*arguments, poison=True)
    check_gradients(found, chain, x, parameters, dy, precision, allowed)
    assert all(torch.equal(found[name], again[name]) for name in found)
    assert y.shape == dy.shape and not y.isnan().any()


def splitting_version(x, weight):
    """The version by which the rung "split" multiplies x and the weight here."""
    shape = Shape(*x.shape, len(weight), 0)
    found = plan_of(PRODUCT, shape, None, x.device, can_multiply=False)
    names = version_names(x.device.type)
    if found.prepared_bytes > 0:
        return names[found.version]
    plans = {name: plan_of(PRODUCT, shape, name, x.device, can_multiply=False) for name in names}
    return [name for name, plan in plans.items() if plan is not None and plan.prepared_bytes > 0][-1]


# Without an outlier float16 halves hold all values; with one, whatever it is, the kernels that stand by run.
SPLIT_SIZES = ((1, 3, 2), (70, 33, 130), (520, 20, 48), (1100, 5, 9))
SPLITS = [
    *(
        pytest.param(*size, outlier, marks=pytest.mark.memory)
        for size in SPLIT_SIZES
        for outlier in (None, 1e30)
    ),
    *((70, 33, 130, outlier) for outlier in (float("inf"), float("nan"))),
]


@pytest.mark.parametrize("batch, inputs, outputs, outlier", SPLITS)
def test_split_is_transposed_and_then_split(batch, inputs, outputs, outlier, device):
    generator = torch.Generator().manual_seed(batch)
    factors = [
        torch.randn(size, generator=generator) * torch.logspace(-3, 3, size[1])
        for size in ((batch, inputs), (outputs, inputs), (batch, outputs))
    ]
    for place in range(1 if outlier is None else 3):
        x, weight, dy = (factor.clone().to(device) for factor in factors)
        if outlier is not None:
            (x, weight, dy)[place][-1, -1] = outlier
        parameters = {"weight": weight}
        found = training.run_backward(
            PRODUCT, dy, x, None, parameters, ("x", "weight"), "split", "ieee", True
        )
        for name, left, right in (("x", dy, weight.t()), ("weight", dy.t(), x.t())):
            left, right = left.contiguous(), right.contiguous()
            version = splitting_version(left, right)
            expected = run_chain(PRODUCT, left, {"weight": right}, version, precision="ieee")
            assert torch.equal(found[name].view(torch.int32), expected.view(torch.int32)), (name, place)


CONSTANTS = {
    "hardtanh": (-0.5, 1.0),
    "clamp": (-0.5, 1.0),
    "leaky_relu": (0.1, 0.0),
    "divide_deviation": (0.01, 0.0),
    "multiply": (0.7, 0.0),
    "divide": (1.7, 0.0),
    "threshold": (0.1, -0.2),
}


def step_of(kind, name):
    operator = POINTWISE[kind]
    operand = {operator.operand: name} if operator.operand else {}
    return Pointwise(kind, *CONSTANTS.get(kind, (None, None)), **operand)


def inputs_of(chain, shape, device, seed):
    """Random ones, also for operators that divide or that add tensors."""
    x, parameters = random_inputs(chain, shape, device, seed)
    generator = torch.Generator().manual_seed(seed)
    for name in chain.operands:
        size = (shape.batch, shape.out_features) if name in chain.tensors else (shape.out_features,)
        parameters[name] = torch.empty(size).uniform_(0.5, 2.0, generator=generator).to(device)
    return x, parameters


@pytest.mark.parametrize("kind", IN_CHAINS)
def test_every_operator(kind, device):
    # sqrt of a negative number is NaN: in front of it stands one that makes it positive
    first = (Pointwise("square"), Pointwise("add", 0.1)) if kind == "sqrt" else ()
    before, after = (*first, step_of(kind, "one")), (*first, step_of(kind, "another"))
    chain = Chain("one_operator", before, 4, after)
    x, parameters = inputs_of(chain, Shape(40, 24, 64, 4), device, 3)
    x = 4 * x - 2
    dy = dy_away_from_kinks(chain, x, parameters)
    allowed = allowed_gradients(chain, x, parameters, dy, "ieee")
    with torch.no_grad():
        _, kept = training.forward_keeping(chain, x, parameters, precision="ieee", poison=True)
        for rung in ("naive", "fused"):
            arguments = chain, dy, x, kept, parameters, all_names(chain), rung, "ieee"
            found = training.run_backward(*arguments, poison=True)
            check_gradients(found, chain, x, parameters, dy, "ieee", allowed)


@pytest.mark.parametrize("kinds", [("add_channel",), ("add_channel", "multiply_channel")], ids=str)
@pytest.mark.memory
def test_more_sums_than_one_pass_has_room_for(kinds, device):
    """Vectors of several operators and a tensor, of which only one pass may write the gradient."""
    kinds = list(itertools.islice(itertools.cycle(kinds), 4))
    before = tuple(step_of(kind, f"before{number}") for number, kind in enumerate(kinds))
    after = tuple(step_of(kind, f"after{number}") for number, kind in enumerate(kinds))
    chain = Chain("many_sums", before, 3, (*after, step_of("add_tensor", "residual")))
    for shape in (Shape(70, 9, 48, 3), Shape(3, 5, 3 * 2100, 3)):
        x, parameters = inputs_of(chain, shape, device, 5)
        dy = dy_away_from_kinks(chain, x, parameters)
        with torch.no_grad():
            _, kept = training.forward_keeping(chain, x, parameters, precision="ieee", poison=True)
            arguments = chain, dy, x, kept, parameters, all_names(chain), "fused", "ieee"
            found = training.run_backward(*arguments, poison=True)
        check_gradients(found, chain, x, parameters, dy, "ieee")


steps = st.lists(st.sampled_from(sorted(set(IN_CHAINS) - {"sqrt", "exp", "square"})), max_size=4)


@given(
    before=steps,
    after=steps,
    batch=st.integers(1, 40),
    in_features=st.integers(1, 40),
    groups=st.integers(1, 6),
    size=st.sampled_from((1, 2, 5, 8, 16, 24, 40)),
    with_affine=st.booleans(),
    with_bias=st.booleans(),
)
@settings(max_examples=6 if SANITIZED else 20)
@pytest.mark.memory
def test_random_chains(device, before, after, batch, in_features, groups, size, with_affine, with_bias):
    names = (f"operand{number}" for number in itertools.count())
    before, after = (tuple(step_of(kind, next(names)) for kind in kinds) for kinds in (before, after))
    chain = Chain("random", before, groups, after)
    x, parameters = inputs_of(chain, Shape(batch, in_features, groups * size, groups), device, batch)
    dropped = ((), ("norm_weight", "norm_bias"))[not with_affine] + ((), ("bias",))[not with_bias]
    parameters = {name: value for name, value in parameters.items() if name not in dropped}
    with torch.enable_grad():
        dy = dy_away_from_kinks(chain, x, parameters)
        found = gradients_of(fgn.chain_forward, chain, leaves_of(x, parameters), dy)
        check_gradients(found, chain, x, parameters, dy, "ieee")
        assert not any(gradient.isnan().any() for gradient in found.values())


@every_chain
def test_the_formulas_in_float64(name):
    chain = with_groups(CHAINS[name], 3)
    x, parameters = random_inputs(chain, Shape(4, 5, 12, 3), dtype=torch.float64)
    names = all_names(chain)
    leaves = [value.requires_grad_() for value in (x, *(parameters[name] for name in names[1:]))]

    class Formulas(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *values):
            ctx.save_for_backward(*values)
            return chain_reference(chain, values[0], dict(zip(names[1:], values[1:], strict=True)))

        @staticmethod
        def backward(ctx, dy):
            x, *values = ctx.saved_tensors
            found = chain_gradients(chain, x, dict(zip(names[1:], values, strict=True)), dy)
            return tuple(found[name] for name in names)

    assert torch.autograd.gradcheck(Formulas.apply, leaves)


# ------------------------------------------------------------------------------------------------------------
# The ways to call it

MODULES = {
    "GemmGroupNormHardtanh": (20, 48, 4, -2.0, 2.0),
    "GemmBiasAddHardtanhMishGroupNorm": (20, 48, (48,), 8),
    "MatmulGroupNormLeakyReluSum": (20, 48, 12),
}
every_module = pytest.mark.parametrize("name", MODULES)


def module_and_reference(name, device, dtype=torch.float32):
    torch.manual_seed(0)
    expected = getattr(reference, name)(*MODULES[name]).to(device, dtype)
    module = getattr(fgn, name)(*MODULES[name]).to(device, dtype)
    module.load_state_dict(expected.state_dict())
    return module, expected


def train(module, x, dy):
    x = x.clone().requires_grad_()
    module.zero_grad()
    module(x).backward(dy)
    return [x.grad, *(parameter.grad for parameter in module.parameters())]


def assert_same_gradients(found, expected, tolerance=1e-4):
    for one, other in zip(found, expected, strict=True):
        assert relative_error(one, other.double()) < tolerance


@every_module
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_module_trains(name, device, dtype):
    module, expected = module_and_reference(name, device, dtype)
    x, dy = torch.rand(33, 20, device=device).to(dtype), torch.rand(33, 48, device=device).to(dtype)
    found, theirs = train(module, x, dy), train(expected, x, dy)
    if dtype == torch.float32:
        assert_same_gradients(found, theirs)
    for one, other in zip(found, theirs, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert torch.cosine_similarity(one.flatten().double(), other.flatten().double(), 0) > 0.98


@every_module
def test_under_no_grad_nothing_changes(name, device):
    module, _ = module_and_reference(name, device)
    x = torch.rand(5, 20, device=device)
    with torch.no_grad():
        y = module(x)
    assert not y.requires_grad and torch.allclose(module(x), y, rtol=1e-5, atol=1e-6)


@every_module
def test_torch_compile_of_a_training_step(name, device):
    module, expected = module_and_reference(name, device)
    backend = "aot_eager" if device.type == "cpu" else "inductor"
    module(torch.rand(6, 20, device=device))  # the module reads its own form here, which dynamo cannot trace
    compiled = torch.compile(module, fullgraph=True, backend=backend)
    for batch in (6, 9):
        x, dy = torch.rand(batch, 20, device=device), torch.rand(batch, 48, device=device)
        assert_same_gradients(train(compiled, x, dy), train(expected, x, dy))


@every_module
def test_checkpoint_and_hooks(name, device):
    module, expected = module_and_reference(name, device)
    x, dy = torch.rand(6, 20, device=device), torch.rand(6, 48, device=device)
    called = []
    module.register_full_backward_hook(lambda *arguments: called.append("module"))
    next(module.parameters()).register_hook(lambda gradient: called.append("parameter"))
    leaf = x.clone().requires_grad_()
    checkpoint(module, leaf, use_reentrant=False).backward(dy)
    found = [leaf.grad, *(parameter.grad for parameter in module.parameters())]
    assert_same_gradients(found, train(expected, x, dy))
    assert sorted(called) == ["module", "parameter"]


def test_gradients_accumulate(device):
    module, _ = module_and_reference("MatmulGroupNormLeakyReluSum", device)
    x, dy = torch.rand(6, 20, device=device), torch.rand(6, 48, device=device)
    once = [gradient.clone() for gradient in train(module, x, dy)[1:]]
    module(x).backward(dy)
    for parameter, gradient in zip(module.parameters(), once, strict=True):
        assert torch.allclose(parameter.grad, 2 * gradient)


@pytest.mark.parametrize("wanted", [("x",), ("weight",), ("bias", "norm_bias"), ("channel_bias",)], ids=str)
@pytest.mark.memory
def test_a_subset_requires_grad(wanted, device):
    chain = with_groups(CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"], 4)
    x, parameters = random_inputs(chain, Shape(9, 20, 48, 4), device)
    dy = dy_away_from_kinks(chain, x, parameters)
    leaves = leaves_of(x, parameters)
    for name, leaf in leaves.items():
        leaf.requires_grad_(name in wanted)
    fgn.chain_forward(chain, leaves["x"], {n: v for n, v in leaves.items() if n != "x"}).backward(dy)
    found = {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
    assert set(found) == set(wanted)
    check_gradients(found, chain, x, parameters, dy, "ieee")


@pytest.mark.parametrize("batch", [0, 5])
@pytest.mark.memory
def test_linear(batch, device):
    x, weight = torch.rand(batch, 20, device=device), torch.rand(48, 20, device=device)
    leaves = leaves_of(x, {"weight": weight, "bias": torch.rand(48, device=device)})
    dy = torch.rand(batch, 48, device=device)
    found = torch.autograd.grad(fgn.functional.linear(*leaves.values()), list(leaves.values()), dy)
    expected = torch.autograd.grad(F.linear(*leaves.values()), list(leaves.values()), dy)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.memory
def test_group_norm(device):
    x = torch.randn(7, 48, device=device)
    leaves = leaves_of(x, {"weight": torch.rand(48, device=device), "bias": torch.rand(48, device=device)})
    dy = torch.rand(7, 48, device=device)
    found = torch.autograd.grad(
        fgn.functional.group_norm(leaves["x"], 4, *list(leaves.values())[1:]), list(leaves.values()), dy
    )
    expected = torch.autograd.grad(
        torch.group_norm(leaves["x"], 4, *list(leaves.values())[1:]), list(leaves.values()), dy
    )
    assert_same_gradients(found, expected)


@pytest.mark.parametrize("of_vectors", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.memory
def test_group_norm_of_16_bits(of_vectors, device):
    x = torch.randn(5, 24, device=device).bfloat16().requires_grad_()
    weight, bias = (torch.rand(24, device=device).to(of_vectors).requires_grad_() for _ in range(2))
    dy = torch.randn(5, 24, device=device)
    exact = [tensor.detach().double().requires_grad_() for tensor in (x, weight, bias)]
    expected = torch.autograd.grad(torch.group_norm(exact[0], 4, *exact[1:]), exact, dy.double())
    y = fgn.functional.group_norm(x, 4, weight, bias)
    found = torch.autograd.grad(y, (x, weight, bias), dy.bfloat16())
    assert [gradient.dtype for gradient in found] == [x.dtype, of_vectors, of_vectors]
    for mine, right in zip(found, expected, strict=True):
        assert (mine.double() - right).norm() < 1e-2 * right.norm()


@pytest.mark.memory
def test_an_empty_batch(device):
    module, _ = module_and_reference("GemmBiasAddHardtanhMishGroupNorm", device)
    gradients = train(module, torch.rand(0, 20, device=device), torch.rand(0, 48, device=device))
    assert gradients[0].shape == (0, 20) and all((gradient == 0).all() for gradient in gradients[1:])


@pytest.mark.memory
def test_dy_of_any_strides(device, equal_calls):
    module, _ = module_and_reference("GemmGroupNormHardtanh", device)
    x, dy = torch.rand(48, 20, device=device), torch.rand(48, 48, device=device)
    assert_same_gradients(train(module, x, dy.t()), train(module, x, dy.t().contiguous()), 1e-7)
    expanded = torch.ones((), device=device).expand(48, 48)
    assert_same_gradients(train(module, x, expanded), train(module, x, torch.ones_like(dy)), 1e-7)


@pytest.mark.memory
def test_vectors_of_another_dtype(device):
    chain = with_groups(CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"], 4)
    x, parameters = random_inputs(chain, Shape(9, 20, 48, 4), device, dtype=torch.bfloat16)
    parameters = {name: value if name == "weight" else value.float() for name, value in parameters.items()}
    dy = dy_away_from_kinks(chain, x, parameters)
    found = gradients_of(fgn.chain_forward, chain, leaves_of(x, parameters), dy)
    for name, value in parameters.items():
        assert found[name].dtype == value.dtype
    wide = {name: value.double() for name, value in parameters.items()}
    exact = gradients_of(chain_reference, chain, leaves_of(x.double(), wide), dy)
    for name, gradient in found.items():
        assert relative_error(gradient, exact[name]) < 0.02


def test_a_vector_that_two_operators_share(device):
    steps = Pointwise("add_channel", channel="shared"), Pointwise("multiply_channel", channel="shared")
    chain = Chain("shared", steps, 4, steps[:1])
    x, parameters = random_inputs(chain, Shape(9, 20, 48, 4), device)
    dy = torch.randn(9, 48, device=device)
    check_gradients(
        gradients_of(fgn.chain_forward, chain, leaves_of(x, parameters), dy), chain, x, parameters, dy, "ieee"
    )


def test_second_derivatives_are_refused(device):
    module, _ = module_and_reference("GemmGroupNormHardtanh", device)
    x = torch.rand(5, 20, device=device, requires_grad=True)
    (gradient,) = torch.autograd.grad(module(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        gradient.sum().backward()


def test_batched_gradients_are_refused(device):
    module, _ = module_and_reference("GemmGroupNormHardtanh", device)
    x = torch.rand(5, 20, device=device)
    with pytest.raises(RuntimeError, match="no batched gradients"):
        torch.autograd.functional.jacobian(module, x, vectorize=True)
    jacobian = torch.autograd.functional.jacobian(module, x)
    assert torch.allclose(torch.func.jacrev(module)(x), jacobian, rtol=1e-5, atol=1e-6)


def test_what_changes_in_between_is_noticed(device):
    module, _ = module_and_reference("GemmGroupNormHardtanh", device)
    y = module(torch.rand(5, 20, device=device, requires_grad=True))
    with torch.no_grad():
        module.gemm.weight.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_the_operators_are_as_torch_library_wants_them(device):
    chain = with_groups(CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"], 4)
    x, parameters = random_inputs(chain, Shape(6, 20, 48, 4), device)
    leaves = leaves_of(x, parameters)
    tensors = [leaves[name] for name in all_names(chain)]
    arguments = *tensors[:5], tensors[5:], *torch_operators.flat(chain), None, None
    utilities = ("test_schema", "test_autograd_registration", "test_faketensor")
    for operator in (torch_operators.chain_keeping, torch_operators.chain_forward):
        torch.library.opcheck(operator, arguments, test_utils=utilities)
    y = torch_operators.chain_forward(*arguments)
    found = torch.autograd.grad(y.sum(), tensors)
    expected = torch.autograd.grad(chain_reference(chain, x := leaves["x"], leaves).sum(), tensors)
    assert_same_gradients(found[:4], expected[:4])


def test_what_is_kept(device):
    chain = with_groups(CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"], 4)
    x, parameters = random_inputs(chain, Shape(64, 20, 512, 4), device, dtype=torch.bfloat16)
    leaves = leaves_of(x, parameters)
    given = {leaf.data_ptr() for leaf in leaves.values()}
    kept = {}

    def pack(tensor):
        if tensor.data_ptr() not in given:
            kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        fgn.chain_forward(chain, leaves.pop("x"), leaves)
    assert sum(kept.values()) == 64 * 512 * 2 + 64 * 4 * 8


@pytest.mark.gpu
@every_module
@pytest.mark.usefixtures("equal_calls")
def test_cuda_graph_of_a_training_step(name):
    module, _ = module_and_reference(name, "cuda")
    x, dy = torch.rand(40, 20, device="cuda"), torch.rand(40, 48, device="cuda")
    expected = [gradient.clone() for gradient in train(module, x, dy)]
    static_x = torch.zeros_like(x).requires_grad_()
    parameters = [static_x, *module.parameters()]

    def step():
        return torch.autograd.grad(module(static_x), parameters, dy)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    with torch.no_grad():
        static_x.copy_(x)
    graph.replay()
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.gpu
@every_precision
@every_chain
def test_large_shapes(name, precision):
    for shape in (Shape(1024, 2048, 4096, 64), Shape(5000, 512, 768, 16), Shape(128, 1000, 8192, 2)):
        chain = with_groups(CHAINS[name], shape.groups)
        x, parameters = random_inputs(chain, shape, "cuda", 1, PRECISIONS[precision].dtype)
        near_kinks = NEAR_IN_TF32 if precision == "tf32" else None
        dy = dy_away_from_kinks(chain, x, parameters, near_kinks=near_kinks)
        leaves = leaves_of(x, parameters)

        def call(chain, x, parameters):
            return fgn.chain_forward(chain, x, parameters, precision=precision)

        check_gradients(gradients_of(call, chain, leaves, dy), chain, x, parameters, dy, precision)
