"""The version "library": torch's product, and all that follows it in one launch."""

import random
from dataclasses import replace

import pytest
import torch
from accuracy import marked_by_size, with_groups

import fgn
from fgn.calls import reading_ones
from fgn.chains import CHAINS, Chain, Pointwise, Shape, problem, random_inputs
from fgn.functional import LIBRARY, PRODUCT, can_multiply, plan_of, run_chain
from fgn.measure.accuracy import misplaced, relative_error
from fgn.native import repeated, tuned
from fgn.native.library import ffi, for_device, version_names
from fgn.plans import DEVICES, Device, plan
from fgn.precision import PRECISIONS, torch_linear, torch_precision
from fgn.problem import Problem
from fgn.profiling import launch_words
from fgn.reference import chain_reference, chain_reference64
from fgn.structs import chain_struct, names_of, pointer
from fgn.training import norm_forward

CPU = torch.device("cpu")
RESIDUAL = Chain("residual", (Pointwise("gelu"),), 4, (Pointwise("add_tensor", tensor="skip"),))
DESCRIBED = (*CHAINS.values(), RESIDUAL)
SHAPE = Shape(9, 20, 48, 4)
CHAIN = with_groups(CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"], 4)
# What a type's rounding of the product and of y may cost where torch happens to round well.
ROUNDOFF = {torch.float32: 2.0**-22, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
PRECISION_OF = {torch.float32: "ieee", torch.float16: "fp16", torch.bfloat16: "bf16"}


def problems(seed: int, count: int):
    """(chain, shape) with groups of sizes without a pattern, some wider than a block's registers."""
    generator = random.Random(seed)
    for _ in range(count):
        groups = generator.choice((1, 2, 3, 5, 8))
        size = generator.choice((1, 3, 7, 8, 12, 96, 172, 500, 2100))
        shape = Shape(generator.randint(1, 40), generator.randint(1, 100), groups * size, groups)
        yield replace(generator.choice(DESCRIBED), groups=groups), shape


@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_random_chains(dtype, device, equal_calls):
    for chain, shape in problems(dtype.itemsize, 8):
        x, parameters = random_inputs(chain, shape, device, dtype=dtype)
        for name in random.Random(sum(shape)).sample(("bias", "norm_weight", "norm_bias"), 1):
            del parameters[name]
        y = run_chain(chain, x, parameters, LIBRARY, poison=True)
        exact, torchs = (of(chain, x, parameters) for of in (chain_reference64, chain_reference))
        assert misplaced(y, torchs) == 0 and y.dtype == dtype
        bound = 2 * relative_error(torchs, exact) + ROUNDOFF[dtype]
        assert relative_error(y, exact) <= bound, (chain.name, shape)
        for _ in range(2):  # the second one is a repeated call
            assert torch.equal(fgn.chain_forward(chain, x, parameters, LIBRARY), y)


@pytest.mark.parametrize("dtype", ROUNDOFF)
@pytest.mark.parametrize("version", [one for one in version_names("cpu") if not one.startswith("hopper_")])
def test_vectors_of_one_element_are_read_where_they_are(version, dtype, device):
    """By a kept call that is told so, in any of the kernels; nothing is read from the former copies."""
    if dtype != torch.float32 and version not in (LIBRARY, "tensor_core", "few_rows", "hopper"):
        pytest.skip(f"{version} is float32's")
    if dtype != torch.float32 and version == "tensor_core":
        pytest.skip("its vectors are converted to float32, and so are copies")
    if version == "hopper" and device.type == "cuda" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("hopper needs compute capability 9.0")
    draw = random.Random(dtype.itemsize)
    for _ in range(12 if version == LIBRARY else 5):
        groups = draw.choice((0, 1, 2, 3, 8))
        sizes = (3, 7, 8, 12, 96) if version != LIBRARY else (3, 7, 8, 12, 96, 172, 500, 1040, 2100)
        channels = max(groups, 1) * draw.choice(sizes)
        factor = Pointwise("multiply_channel", channel="factor")
        most = Pointwise("minimum_channel", channel="most")
        after = (Pointwise("add_channel", channel="shift"), Pointwise("silu")) if groups else ()
        if version == "one_kernel" and not groups:
            continue
        chain = Chain("ones", (factor, most), groups, after)
        x, given = random_inputs(chain, Shape(draw.randint(1, 40), 9, channels, groups), device, dtype=dtype)
        ones = {name: given[name][:1].clone() for name in chain.operands}
        copied = given | {name: one.expand(channels).contiguous() for name, one in ones.items()}
        fgn.chain_forward(chain, x, copied, version)
        tensors = [tuple(of.get(name) for name in names_of(chain)) for of in (copied, given | ones)]
        kept = repeated.kept(repeated.key_of(chain, x, tensors[0], version, None))
        call = reading_ones(kept, chain, tensors[1])
        for name in ones:
            copied[name].fill_(float("nan"))
        for _ in range(5):
            for one in ones.values():
                one.mul_(0.75)
            y = call(x, tensors[1])
            now = given | {name: one.expand(channels) for name, one in ones.items()}
            exact, torchs = (of(chain, x, now) for of in (chain_reference64, chain_reference))
            assert exact.norm() > 0
            bound = 2 * relative_error(torchs, exact) + ROUNDOFF[dtype]
            assert relative_error(y, exact) <= bound, (chain, x.shape)


def test_steps_of_the_hopper_ladder_refuse_vectors_of_one_element():
    library, chain = for_device("cpu").load(), Chain("one", (Pointwise("add_channel", channel="c"),), 2, ())
    shape = Shape(128, 64, 256, 2)
    for has_one in (0, 1):
        c_chain = chain_struct(library, chain, shape, "bf16", {})
        c_chain.before[0].one = has_one
        for index, name in enumerate(version_names("cpu")):
            own = ffi().new("fgn_plan *")
            status = library.fgn_plan_candidate(index, 0, c_chain, ffi().NULL, own)
            if name.startswith("hopper_"):
                assert status == (library.FGN_NOT_SUPPORTED if has_one else library.FGN_OK), name


MANY = Chain(
    "many",
    (
        *(Pointwise("add_channel", channel="shift"), Pointwise("multiply", 0.5), Pointwise("gelu")),
        *(Pointwise("minimum_channel", channel="bound"), Pointwise("add_tensor", tensor="skip")),
        *(Pointwise("relu"), Pointwise("divide", 3.0), Pointwise("tanh")),
    ),
    0,
    (),
)


@pytest.mark.parametrize("batch, channels", [(8203, 264), (1027, 2056)])
@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_operators_alone_of_large_tensors(batch, channels, dtype, device):
    shape, precision = Shape(batch, 4, channels, 0), PRECISION_OF[dtype]
    (launch,) = plan(MANY, shape, LIBRARY, precision, DEVICES["H200"]).launches
    assert launch.kernel.startswith("operators_alone_large")
    x, parameters = random_inputs(MANY, shape, device, dtype=dtype)
    y = run_chain(MANY, x, parameters, LIBRARY, poison=True)
    exact, torchs = (of(MANY, x, parameters) for of in (chain_reference64, chain_reference))
    assert misplaced(y, torchs) == 0
    assert relative_error(y, exact) <= 2 * relative_error(torchs, exact) + ROUNDOFF[dtype]


def test_a_repeated_call_reads_the_weight_and_the_bias_anew(device):
    x, parameters = random_inputs(CHAIN, SHAPE, device)
    repeated.forget()
    for factor in (1.0, -2.0, 0.5):
        parameters["weight"].data.mul_(factor)
        parameters["bias"] = parameters["bias"] + factor
        y = fgn.chain_forward(CHAIN, x, parameters, LIBRARY)
        assert relative_error(y, chain_reference64(CHAIN, x, parameters)) < 1e-5
    assert len(repeated._calls) == 1


@pytest.mark.parametrize("precision", ["ieee", "tf32", None])
@pytest.mark.parametrize("setting", ["ieee", "tf32"])
def test_torch_multiplies_as_the_call_says(precision, setting, monkeypatch):
    """In the first call and in a repeated one, whatever torch's own setting is; and that is as it was."""
    matmul, seen = torch.backends.cuda.matmul, []
    linear = torch._C._nn.linear

    def noted(*arguments):
        seen.append(matmul.fp32_precision)
        return linear(*arguments)

    monkeypatch.setattr(torch.nn.functional, "linear", noted)
    monkeypatch.setattr(torch._C._nn, "linear", noted)
    x, parameters = random_inputs(CHAIN, SHAPE)
    repeated.forget()
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = setting
        for _ in range(2):
            fgn.chain_forward(CHAIN, x, parameters, LIBRARY, precision)
            assert matmul.fp32_precision == setting
        assert len(repeated._calls) == 1
        matmul.fp32_precision = other = "ieee" if setting == "tf32" else "tf32"
        for _ in range(2):
            fgn.chain_forward(CHAIN, x, parameters, LIBRARY, precision)
            assert matmul.fp32_precision == other
    finally:
        matmul.fp32_precision = before
        repeated.forget()  # they would call `noted`
    assert seen == ([precision] * 4 if precision else [setting, setting, other, other])


@pytest.mark.parametrize("setting", ["ieee", "tf32"])
@pytest.mark.parametrize("batch, in_features, out_features", [(128, 3072, 100), (7, 512, 1), (300, 511, 40)])
def test_a_product_of_long_sums_is_as_near_as_torchs(batch, in_features, out_features, setting, device):
    torch.manual_seed(batch)
    x, weight = (torch.randn(n, in_features, device=device) for n in (batch, out_features))
    bias = 30.0 * torch.randn(out_features, device=device)
    exact = torch.nn.functional.linear(x.double(), weight.double(), bias.double())
    with torch_precision(setting):
        v, torchs = torch_linear(x, weight, bias), torch.nn.functional.linear(x, weight, bias)
        without = torch_linear(x, weight, None)
    assert relative_error(v, exact) <= 2 * relative_error(torchs, exact) + ROUNDOFF[torch.float32]
    assert relative_error(without, exact - bias) <= 1e-3


def test_a_default_does_not_change_the_setting_of_torch():
    """It is the whole process's: where a call's precision is another one, a version of fgn's own runs."""
    x, parameters = random_inputs(CHAIN, SHAPE)
    key = tuned.key_of(CHAIN, SHAPE, "tf32", False)
    default = fgn.chain_forward(CHAIN, x, parameters, precision="tf32")
    try:
        tuned.choose(CPU, key, tuned.Choice(LIBRARY, 0))
        repeated.forget()
        by_torch = run_chain(CHAIN, x, parameters, LIBRARY)
        matmul = torch.backends.cuda.matmul
        for setting, expected in [("ieee", default), ("tf32", by_torch)] * 2:
            with torch_precision(setting):
                for _ in range(2):
                    y = fgn.chain_forward(CHAIN, x, parameters, precision="tf32")
                    assert torch.equal(y, expected) and matmul.fp32_precision == setting
        assert not torch.equal(default, by_torch)
    finally:
        tuned.choose(CPU, key, None)
        repeated.forget()


def test_a_default_is_deterministic_where_torch_has_to_be():
    """On a GPU torch's product would raise there, and fgn's own kernels add up in one order."""
    x, parameters = random_inputs(CHAIN, SHAPE)
    key = tuned.key_of(CHAIN, SHAPE, "ieee", False)
    try:
        tuned.choose(CPU, key, tuned.Choice(LIBRARY, 0))
        repeated.forget()
        by_torch = fgn.chain_forward(CHAIN, x, parameters, precision="ieee")
        assert torch.equal(by_torch, run_chain(CHAIN, x, parameters, LIBRARY))
        torch.set_deterministic_debug_mode("error")
        y = fgn.chain_forward(CHAIN, x, parameters, precision="ieee")
        assert not torch.equal(y, by_torch)
        torch.set_deterministic_debug_mode("default")
        assert torch.equal(fgn.chain_forward(CHAIN, x, parameters, precision="ieee"), by_torch)
    finally:
        torch.set_deterministic_debug_mode("default")
        tuned.choose(CPU, key, None)
        repeated.forget()


def test_a_module_with_more_dimensions(device):
    model = torch.nn.Sequential(torch.nn.Linear(20, 48), torch.nn.GroupNorm(4, 48), torch.nn.SiLU())
    chain = Chain("silu", (), 4, (Pointwise("silu"),))
    x = torch.randn(9, 20, device=device)
    linear, norm = model.to(device)[:2]
    parameters = {"weight": linear.weight, "bias": linear.bias}
    parameters |= {"norm_weight": norm.weight, "norm_bias": norm.bias}
    strided = torch.randn(9, 40, device=device)[:, ::2]
    for one in (x, x.t().contiguous().t(), strided):
        y = fgn.chain_forward(chain, one, parameters, LIBRARY)
        assert relative_error(y, model(one)) < 1e-6
    module = fgn.GemmGroupNormHardtanh(20, 48, 4, -2.0, 2.0, version=LIBRARY).to(device)
    other = fgn.GemmGroupNormHardtanh(20, 48, 4, -2.0, 2.0).to(device)
    other.load_state_dict(module.state_dict())
    assert relative_error(module(x), other(x)) < 1e-6
    assert module(x[:0]).shape == (0, 48)


def test_a_bias_of_another_dtype(device):
    """torch's product does not have it: asked for by name, that is said; otherwise another version runs."""
    x, parameters = random_inputs(CHAIN, SHAPE, device, dtype=torch.float16)
    parameters["bias"] = parameters["bias"].float()
    message = r"'library' .* torch's product takes a bias of x's dtype, torch.float16, got torch.float32"
    with pytest.raises(RuntimeError, match=message):
        fgn.chain_forward(CHAIN, x, parameters, LIBRARY)
    assert not can_multiply(x, parameters, "fp16")
    y = fgn.chain_forward(CHAIN, x, parameters)
    assert relative_error(y, chain_reference64(CHAIN, x, parameters)) < 2e-3
    # The norm's own vectors may be float32's: the operators then read all vectors so.
    parameters["bias"] = parameters["bias"].half()
    parameters["norm_weight"] = parameters["norm_weight"].float()
    for _ in range(3):
        y = fgn.chain_forward(CHAIN, x, parameters, LIBRARY)
        assert relative_error(y, chain_reference64(CHAIN, x, parameters)) < 2e-3


def test_gradients_of_the_version(device):
    x, parameters = random_inputs(CHAIN, SHAPE, device)
    tensors = {name: value.requires_grad_() for name, value in {"x": x, **parameters}.items()}
    with torch.enable_grad():
        results = [
            fgn.chain_forward(CHAIN, x, parameters, LIBRARY),
            chain_reference(CHAIN, x, parameters),
        ]
        found = [torch.autograd.grad(y.square().sum(), list(tensors.values())) for y in results]
    assert relative_error(*results) < 1e-6
    for name, one, other in zip(tensors, *found, strict=True):
        assert relative_error(one, other) < 1e-4, name


def test_the_product_alone_is_not_its():
    x, parameters = random_inputs(CHAIN, SHAPE)
    with pytest.raises(
        RuntimeError, match=r"version: 'library' .* needs a norm or an operator: the product is the caller's"
    ):
        fgn.functional.linear(x, parameters["weight"], version=LIBRARY)


# ------------------------------------------------------------------------------------------------------------
# The C interface


def test_a_caller_that_cannot_multiply_is_refused():
    library, chain = for_device("cpu").load(), CHAIN
    index, c_plan = version_names().index(LIBRARY), ffi().new("fgn_plan *")

    def planned(**options):
        c_chain = chain_struct(library, chain, SHAPE, "ieee", {}, **options)
        return library.fgn_plan_chain(index, c_chain, ffi().NULL, c_plan)

    assert planned(can_multiply=False) == library.FGN_NOT_SUPPORTED
    message = ffi().string(library.fgn_last_error()).decode()
    assert message == "library needs a caller with a matrix product (can_multiply)"
    assert planned() == library.FGN_OK and c_plan.product_bytes == 4 * 9 * 48
    x, parameters = random_inputs(chain, SHAPE)
    v, y = torch.nn.functional.linear(x, parameters["weight"], parameters["bias"]), torch.zeros(9, 48)

    def run(may: bool) -> int:
        c_chain = chain_struct(library, chain, SHAPE, "ieee", parameters, can_multiply=may)
        pointers = (pointer(x), pointer(y), pointer(v))
        return library.fgn_run(c_plan, c_chain, *pointers, c_plan.workspace_bytes, ffi().NULL)

    assert run(False) == library.FGN_INVALID_ARGUMENT and (y == 0).all()
    assert "its plan asks for the product" in ffi().string(library.fgn_last_error()).decode()
    assert run(True) == library.FGN_OK
    assert relative_error(y, chain_reference64(chain, x, parameters)) < 1e-6


def test_where_it_is_the_default():
    """On Hopper for a caller that can multiply, for some; nowhere else."""
    generator, taken = random.Random(3), {True: 0, False: 0}
    names = version_names()
    for _ in range(60):
        groups = generator.choice((1, 2, 4, 8, 64))
        size = generator.choice((4, 12, 96, 128, 172, 500))
        shape = Shape(generator.choice((1, 64, 1000, 20000)), generator.choice((100, 768, 4096)), 0, groups)
        shape = shape._replace(out_features=groups * size)
        chain = with_groups(CHAIN, groups)
        precision = generator.choice(sorted(PRECISIONS))
        for may in taken:
            c_plan = plan_of(chain, shape, None, CPU, precision, DEVICES["H200"], can_multiply=may)
            taken[may] += names[c_plan.version] == LIBRARY
            assert (c_plan.product_bytes > 0) == (names[c_plan.version] == LIBRARY)
        for elsewhere in (DEVICES["A100"], DEVICES["RTX 4090"], Device(7, 5, 40), None):
            plans = [
                plan_of(chain, shape, None, CPU, precision, elsewhere, can_multiply=may) for may in taken
            ]
            versions = {one and one.version for one in plans}
            assert len(versions) == 1 and versions != {names.index(LIBRARY)}
    assert taken[True] > 0 == taken[False]


def test_its_plan():
    chain, shape = problem("matmul_groupnorm_leakyrelu_sum", (64, 32, 96, 4))
    planned = plan(chain, shape, LIBRARY, "bf16", "H200")
    assert planned.product is None and planned.nanoseconds > 0
    assert planned.product_bytes == planned.workspace_bytes == 2 * 64 * 96
    assert planned.launches[0].kernel == "norm_forward_bfloat16_kernel"
    wide = plan(with_groups(CHAIN, 1), Shape(3, 8, 10000, 1), LIBRARY, "ieee", "H200")
    assert wide.launches[0].kernel == "norm_forward_wide_kernel" and wide.launches[0].grid == (1, 3, 1)
    assert plan_of(chain, shape, LIBRARY, CPU, candidate=1) is None
    with pytest.raises(ValueError, match="library needs a norm"):
        plan(PRODUCT, Shape(4, 8, 8, 0), LIBRARY)
    # What a profile of a call has: torch's kernels, then the plan's.
    kernels = ["nvjet_tst_128x256", "splitk_reduce", "norm_forward_bfloat16_kernel"]
    words = launch_words.ours(Problem(chain, shape, "bf16", 0, None), LIBRARY, kernels, DEVICES["H200"])
    assert words == ["product", "product", planned.launches[0].text]


def test_counting_counts_its_launch(device):
    if device.type != "cpu":
        pytest.skip("counts are the simulator's")
    x, parameters = random_inputs(CHAIN, SHAPE)
    frame = fgn.count(lambda: fgn.chain_forward(CHAIN, x, parameters, LIBRARY))
    assert list(frame.kernel) == ["norm_forward_short_float32_kernel"]
    fgn.check(lambda: fgn.chain_forward(CHAIN, x, parameters, LIBRARY))


def check_launch(device, dtype, batch, size, groups):
    """y and the moments of the launch after a product against float64; the name of the planned kernel."""
    before = (Pointwise("add_channel", channel="bias_2"), Pointwise("silu"))
    after = (Pointwise("add_tensor", tensor="skip"), Pointwise("prelu", channel="slope"))
    chain = Chain("drawn", before, groups, after)
    channels = groups * size
    made = torch.Generator(device).manual_seed(size)
    v, skip = (torch.randn(batch, channels, device=device, generator=made).to(dtype) for _ in range(2))
    names = ("norm_weight", "norm_bias", "bias_2", "slope")
    parameters = {name: torch.rand(channels, device=device, generator=made).to(dtype) for name in names}
    y, moments = norm_forward(chain, v, parameters | {"skip": skip}, poison=True)

    def reference(kind):
        bias, weight, shift, slope = (
            parameters[n].to(kind) for n in ("bias_2", "norm_weight", "norm_bias", "slope")
        )
        z = torch.nn.functional.group_norm(
            torch.nn.functional.silu(v.to(kind) + bias), groups, weight, shift, chain.eps
        )
        return torch.nn.functional.prelu(z + skip.to(kind), slope)

    exact = reference(torch.float64)
    assert relative_error(y, exact) <= 2 * relative_error(reference(dtype), exact) + ROUNDOFF[dtype]

    def exact_moments(kind):
        h = torch.nn.functional.silu(v.to(kind) + parameters["bias_2"].to(kind))
        h = h.double().view(batch, groups, size)
        return h.mean(2), (h.var(2, unbiased=False) + chain.eps).sqrt()

    mean, deviation = exact_moments(torch.float64)
    torchs = (exact_moments(torch.float32)[1] / deviation - 1).abs().max()  # of nearly equal values
    assert (moments[..., 0] - mean).abs().max() < 1e-5
    assert (moments[..., 1] * deviation - 1).abs().max() < max(1e-5, 2 * torchs)
    precision = {torch.float16: "fp16", torch.bfloat16: "bf16"}.get(dtype, "ieee")
    return plan(chain, Shape(batch, 8, channels, groups), LIBRARY, precision, "H200").launches[0].kernel


@pytest.mark.parametrize("dtype", marked_by_size(ROUNDOFF))
@pytest.mark.parametrize("size", [8, 64, 86, 1030])
def test_large_tensors(size, dtype, device):
    """What a thread of the large kernels has is in one, two or four rows, as a group's size wants."""
    form = "large_short" if size % 8 else "large"
    assert f"_{form}_{str(dtype)[6:]}_" in check_launch(device, dtype, (1 << 22) // (2 * size) + 3, size, 2)


@pytest.mark.parametrize("dtype", marked_by_size(ROUNDOFF))
@pytest.mark.parametrize(
    ("size", "groups", "form"),
    [
        (24, 7, "columns"),
        (96, 5, "columns"),
        (128, 3, "columns"),
        (264, 1, "columns"),
        (384, 5, "columns"),
        (512, 2, "columns"),
        (1000, 2, "columns"),
        (172, 5, "short_columns"),
        (300, 3, "short_columns"),
        (500, 2, "short_columns"),
        (1004, 1, "short_columns"),
        (320, 13, "columns"),
        (1376, 3, "many_columns"),
        (2048, 1, "many_columns"),
    ],
)
def test_several_slots_of_a_row(size, groups, form, dtype, device):
    """Lanes with several slots side by side, of groups and strips that fill a block's lanes or do not."""
    values = 1 << 22 if form == "many_columns" else 1 << 20
    kernel = check_launch(device, dtype, values // (groups * size) + 3, size, groups)
    if dtype == torch.float32 and size <= 256:
        assert "columns" not in kernel  # these wait for memory anyway
    else:
        assert kernel == f"norm_forward_{form}_{str(dtype)[6:]}_kernel"


@pytest.mark.parametrize("dtype", marked_by_size(ROUNDOFF))
@pytest.mark.parametrize(
    ("size", "groups", "batch"), [(2056, 1, 270), (4096, 2, 3), (6152, 1, 5), (8192, 1, 2)]
)
def test_long_groups(size, groups, batch, device, dtype):
    """A block holds a group, in two, three or four slots of a thread, the last of them not in all threads."""
    assert "_long_" in check_launch(device, dtype, batch, size, groups)


@pytest.mark.parametrize("dtype", marked_by_size(ROUNDOFF))
@pytest.mark.parametrize(
    ("size", "groups", "batch"),
    [(5, 64, 33), (25, 40, 19), (125, 8, 5), (1, 8, 3), (255, 8, 2), (3, 1000, 7), (7, 8, 1000)],
)
def test_odd_groups(size, groups, batch, device, dtype):
    """Tiles of whole groups and whole vectors, the last strip and the last rows of a tensor included."""
    assert "_staged_" in check_launch(device, dtype, batch, size, groups)


@pytest.mark.parametrize("dtype", marked_by_size(ROUNDOFF))
@pytest.mark.parametrize(
    ("size", "groups"),
    [(4, 5), (4, 64), (6, 16), (12, 2), (172, 64), (250, 4), (1, 4), (6, 2), (25, 5), (1001, 8), (300, 3)],
)
def test_short_vectors(size, groups, device, dtype):
    assert "_forward_short_" in check_launch(device, dtype, 13, size, groups)
