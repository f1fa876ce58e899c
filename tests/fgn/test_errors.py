"""Bad input: the exception names the argument, what came and what was expected, and nothing was launched."""

import pytest
import torch
from accuracy import with_groups

import fgn
from fgn.chains import CHAINS, Shape, problem, random_inputs
from fgn.native import library

CHAIN, SHAPE = problem("gemm_biasadd_hardtanh_mish_groupnorm", Shape(5, 12, 24, 4))


@pytest.fixture
def inputs(device):
    return random_inputs(CHAIN, SHAPE, device)


@pytest.fixture(autouse=True)
def nothing_is_launched(monkeypatch):
    """The functions that launch kernels refuse to be called."""

    class NoLaunches:
        def __init__(self, library):
            self.library = library

        def __getattr__(self, name):
            assert name not in ("fgn_forward", "fgn_prepare", "fgn_group_norm"), (
                "a kernel would have been launched"
            )
            return getattr(self.library, name)

    load = library.Library.load
    monkeypatch.setattr(library.Library, "load", lambda self: NoLaunches(load(self)))


def refuses(error, *words):
    return pytest.raises(error, match=".*".join(words))


def test_not_a_tensor(device, inputs):
    x, parameters = inputs
    with refuses(TypeError, "x: expected a torch.Tensor, got ndarray"):
        fgn.chain_forward(CHAIN, x.cpu().numpy(), parameters)
    with refuses(TypeError, "bias: expected a torch.Tensor, got list"):
        fgn.chain_forward(CHAIN, x, parameters | {"bias": [0.0] * 24})
    with refuses(TypeError, "weight: expected a torch.Tensor, got NoneType"):
        fgn.functional.linear(x, None)
    with refuses(TypeError, "x: expected a torch.Tensor, got NoneType"):
        fgn.functional.group_norm(None, 3)


def test_no_chain_and_no_parameters(device, inputs):
    x, parameters = inputs
    with refuses(TypeError, "chain: expected a Chain, got str"):
        fgn.chain_forward(CHAIN.name, x, parameters)
    with refuses(TypeError, "parameters: expected tensors by their names, got list"):
        fgn.chain_forward(CHAIN, x, list(parameters.values()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.complex64], ids=str)
def test_unknown_dtype(device, inputs, dtype):
    x, parameters = inputs
    with refuses(TypeError, "x: expected dtype torch.float32 or torch.float16 or .*, got", str(dtype)):
        fgn.chain_forward(CHAIN, x.to(dtype), parameters)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.complex64], ids=str
)
def test_dtypes_that_do_not_fit(device, inputs, dtype):
    x, parameters = inputs
    with refuses(TypeError, "norm_weight: expected dtype torch.float32, got", str(dtype)):
        fgn.chain_forward(CHAIN, x, parameters | {"norm_weight": parameters["norm_weight"].to(dtype)})
    with refuses(TypeError, "weight: expected dtype torch.float32, got", str(dtype)):
        fgn.functional.linear(x, parameters["weight"].to(dtype))
    if dtype not in (torch.float16, torch.bfloat16):
        with refuses(TypeError, "x: expected dtype torch.float32 or torch.float16 or .*, got", str(dtype)):
            fgn.functional.group_norm(x.to(dtype), 3)


def test_unknown_precision(device, inputs):
    x, parameters = inputs
    with refuses(ValueError, "precision: expected None or 'ieee' or 'tf32' for torch.float32, got 'bf16'"):
        fgn.chain_forward(CHAIN, x, parameters, precision="bf16")
    with refuses(TypeError, "precision: expected None or a precision, got int"):
        fgn.chain_forward(CHAIN, x, parameters, precision=3)


def test_a_version_without_tensor_cores_needs_float32(device, inputs):
    x, parameters = inputs
    half = {name: value.half() for name, value in parameters.items()}
    with refuses(RuntimeError, "version: 'fused' does not run this on", "fused needs float32"):
        fgn.chain_forward(CHAIN, x.half(), half, version="fused")


def test_another_device(device, inputs):
    x, parameters = inputs
    elsewhere = parameters["bias"].to("meta" if device.type == "cpu" else "cpu")
    with refuses(RuntimeError, f"bias: expected it on {x.device}, where x is, got {elsewhere.device}"):
        fgn.chain_forward(CHAIN, x, parameters | {"bias": elsewhere})


@pytest.mark.gpu
def test_cpu_and_gpu_tensors():
    x, parameters = random_inputs(CHAIN, SHAPE, "cuda")
    with refuses(RuntimeError, "bias: expected it on cuda:0, where x is, got cpu"):
        fgn.chain_forward(CHAIN, x, parameters | {"bias": parameters["bias"].cpu()})
    with refuses(RuntimeError, "weight: expected it on cpu, where x is, got cuda:0"):
        fgn.chain_forward(CHAIN, x.cpu(), parameters)


def test_wrong_in_features(device, inputs):
    x, parameters = inputs
    with refuses(ValueError, r"x: expected shape \(batch, 12\), got \(5, 11\)"):
        fgn.chain_forward(CHAIN, x[:, 1:], parameters)
    with refuses(ValueError, r"x: expected shape \(batch, 12\), got \(5, 11\)"):
        fgn.functional.linear(x[:, 1:], parameters["weight"])


@pytest.mark.parametrize("shape", [(), (12,), (2, 5, 12)], ids=str)
def test_wrong_number_of_dimensions(device, inputs, shape):
    _, parameters = inputs
    x = torch.zeros(shape, device=device)
    with refuses(ValueError, r"x: expected shape \(batch, in_features\), got", str(shape).strip("()")):
        fgn.chain_forward(CHAIN, x, parameters)
    with refuses(ValueError, r"x: expected shape \(batch, channels\), got"):
        fgn.functional.group_norm(x, 3)


def test_wrong_parameter_shape(device, inputs):
    x, parameters = inputs
    for name in ("bias", "norm_weight", "norm_bias", "channel_bias"):
        with refuses(ValueError, name, r"expected shape \(24,\), got \(23,\)"):
            fgn.chain_forward(CHAIN, x, parameters | {name: parameters[name][1:]})
    with refuses(ValueError, r"weight: expected shape \(out_features, in_features\), got \(24,\)"):
        fgn.chain_forward(CHAIN, x, parameters | {"weight": parameters["bias"]})


def test_missing_parameter(device, inputs):
    x, parameters = inputs
    for name in ("weight", "channel_bias"):
        with refuses(ValueError, "parameters: expected", name):
            fgn.chain_forward(CHAIN, x, {key: value for key, value in parameters.items() if key != name})


@pytest.mark.parametrize("groups", [0, -4, 5, 48])
def test_groups_that_do_not_divide(device, inputs, groups):
    x, parameters = inputs
    if groups:  # without any, a chain has no norm
        with refuses(ValueError, f"groups: expected a number that divides 24 channels, got {groups}"):
            fgn.chain_forward(with_groups(CHAIN, groups), x, parameters)
    with refuses(ValueError, f"num_groups: expected a number that divides 24 channels, got {groups}"):
        fgn.functional.group_norm(parameters["weight"].T, groups)


def test_unknown_version(device, inputs):
    x, parameters = inputs
    names = ", ".join(library.version_names())
    calls = (
        lambda version: fgn.chain_forward(CHAIN, x, parameters, version),
        lambda version: fgn.chain_forward(CHAIN, x[:0], parameters, version),
        lambda version: fgn.functional.linear(x, parameters["weight"], version=version),
        lambda version: fgn.functional.linear(x[:0], parameters["weight"], version=version),
        lambda version: fgn.functional.group_norm(x, 3, version=version),
        lambda version: fgn.functional.group_norm(x[:0], 3, version=version),
    )
    for call in calls:
        with refuses(ValueError, f"version: expected None or one of {names}, got 'fastest'"):
            call("fastest")
        with refuses(TypeError, "version: expected None or the name of a version, got int"):
            call(3)


def test_a_version_that_does_not_run_this_chain(device):
    shape = Shape(4, 8, 8192, 1)
    chain, _ = problem("gemm_groupnorm_hardtanh", shape)
    x, parameters = random_inputs(chain, shape, device)
    table = fgn.versions(chain, shape, device)
    refused = table[~table.supported]
    assert not refused.empty
    for row in refused.itertuples():
        with refuses(RuntimeError, f"version: '{row.name}' does not run this on {device.type}", "needs"):
            fgn.chain_forward(chain, x, parameters, row.name)


def test_too_many_steps(device, inputs):
    x, parameters = inputs
    for where in ("before", "after"):
        steps = {"before": (), "after": ()} | {where: (fgn.chains.Pointwise("double"),) * 9}
        with refuses(ValueError, f"{where}: expected at most 8 steps, got 9"):
            fgn.chain_forward(
                fgn.chains.Chain("long", groups=4, **steps), x, {"weight": parameters["weight"]}
            )


def test_unknown_names():
    with refuses(ValueError, "chain: expected a Chain or one of", ", ".join(CHAINS), "got 'gemm'"):
        fgn.versions("gemm", device="cpu")
    with refuses(ValueError, "kind: expected one of", "mish", "got 'gelo'"):
        fgn.chains.Pointwise("gelo")
    with refuses(ValueError, "channel: add_channel expects the name of a parameter, got None"):
        fgn.chains.Pointwise("add_channel")
    with refuses(ValueError, "shape: expected", r"got \(3, 4\)"):
        fgn.versions(CHAIN, (3, 4), device="cpu")
    with refuses(ValueError, "bias_shape: expected", r"\(24,\), got \(23,\)"):
        fgn.GemmBiasAddHardtanhMishGroupNorm(12, 24, (23,), 4)


@pytest.mark.parametrize("name", ["a b", "1", "x", "y", "weight"])
def test_an_operand_with_a_name_that_it_cannot_have(name):
    for kind, field in (("add_channel", "channel"), ("add_tensor", "tensor")):
        with refuses(ValueError, f"{field}: expected a name as Python's variables have", f"got '{name}'"):
            fgn.chains.Pointwise(kind, **{field: name})


def test_a_parameter_that_the_chain_does_not_have(device):
    chain = with_groups(CHAINS["gemm_groupnorm_hardtanh"], 1)
    parameters = {"weight": torch.ones(6, 8, device=device), "norm_wieght": torch.ones(6, device=device)}
    with refuses(ValueError, "parameters: expected some of weight, bias, .*, got 'norm_wieght'"):
        fgn.chain_forward(chain, torch.ones(3, 8, device=device), parameters)


@pytest.mark.parametrize("name", ["version", "precision", "tensors", "others", "chain"])
def test_an_operand_with_a_name_that_functions_have(name, device):
    chain = fgn.chains.Chain("mine", (fgn.chains.Pointwise("add_channel", channel=name),), 2, ())
    x, weight, operand = (torch.ones(*shape, device=device) for shape in ((3, 8), (6, 8), (6,)))
    y = fgn.chain_forward(chain, x, {"weight": weight, name: operand})
    assert torch.equal(y, torch.zeros(3, 6, device=device))


def test_a_chain_of_something_else():
    relu = fgn.chains.Pointwise("relu")
    for before, groups, eps, words in (
        (relu, 2, 1e-5, "before: expected a tuple of Pointwise steps, got Pointwise"),
        (("relu",), 2, 1e-5, r"before: expected a tuple of Pointwise steps, got \('relu',\)"),
        ((relu,), 2.5, 1e-5, "groups: expected a whole number, got 2.5"),
        ((relu,), 2, "small", "eps: expected a number, got 'small'"),
    ):
        with refuses(TypeError, words):
            fgn.chains.Chain("mine", before, groups, (), eps)
    with refuses(TypeError, "a: hardtanh expects a number, got 'low'"):
        fgn.chains.Pointwise("hardtanh", "low", 1.0)
    with refuses(TypeError, r"shape: expected whole numbers, got \(3.0, 8, 16\)"):
        fgn.versions(CHAIN, (3.0, 8, 16), device="cpu")


@pytest.mark.parametrize("batch", [0, 3])
def test_no_features(device, batch):
    chain = with_groups(CHAINS["gemm_groupnorm_hardtanh"], 1)
    x, weight = torch.zeros(batch, 8, device=device), torch.zeros(6, 8, device=device)
    for call in (
        lambda x, weight: fgn.functional.linear(x, weight),
        lambda x, weight: fgn.chain_forward(chain, x, {"weight": weight}),
    ):
        with refuses(ValueError, "in_features: expected 1 or more, got 0"):
            call(x[:, :0], weight[:, :0])
        with refuses(ValueError, "out_features: expected 1 or more, got 0"):
            call(x, weight[:0])


def test_a_version_that_is_none_is_told_by_the_constructor():
    for make in (
        lambda **choice: fgn.GemmGroupNormHardtanh(12, 24, 4, -2.0, 2.0, **choice),
        lambda **choice: fgn.GemmBiasAddHardtanhMishGroupNorm(12, 24, (24,), 4, **choice),
        lambda **choice: fgn.MatmulGroupNormLeakyReluSum(12, 24, 4, **choice),
        lambda **choice: fgn.fuse(torch.nn.Linear(12, 24), **choice),
    ):
        with refuses(ValueError, "version: expected None or one of naive", "got 'fastest'"):
            make(version="fastest")
        with refuses(ValueError, "precision: expected one of ieee", "got 'exact'"):
            make(precision="exact")


def test_a_minimum_above_the_maximum():
    with refuses(ValueError, "min_val, max_val: hardtanh expected a minimum below the maximum"):
        fgn.chains.Pointwise("hardtanh", 1, -1)


def test_meta_tensors_have_a_shape_and_no_data():
    x, parameters = random_inputs(CHAIN, SHAPE, "meta")
    assert fgn.chain_forward(CHAIN, x, parameters).shape == (5, 24)
