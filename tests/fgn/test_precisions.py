"""The versions on tensor cores: every precision against float64 and torch in the same precision."""

from dataclasses import replace

import pytest
import torch
from accuracy import SANITIZED, marked_by_size, with_groups

import fgn
from fgn.chains import CHAINS, Shape, random_inputs
from fgn.functional import PRODUCT, launch_count, run_chain
from fgn.measure.accuracy import misplaced, relative_error
from fgn.measure.benchmark import tensor_core_versions
from fgn.native import prepared
from fgn.native.library import version_names
from fgn.precision import PRECISIONS, resolve, torch_precision
from fgn.reference import chain_reference, chain_reference64

CHAIN = CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"]
DEVICES = [torch.device(kind) for kind in ("cpu", *(["cuda"] if torch.cuda.is_available() else []))]
VERSIONS = [name for name in version_names() if any(name in tensor_core_versions(d) for d in DEVICES)]
every_version = pytest.mark.parametrize("version", VERSIONS)
every_precision = pytest.mark.parametrize("precision", PRECISIONS)
every_precision_of_memory = pytest.mark.parametrize("precision", marked_by_size(PRECISIONS))

# Groups of 8, 16, ..., 512 channels and others; full tiles and others; few rows and many; rows that do not
# begin at multiples of 16 bytes; one k that goes round hopper's ring of stages more than once.
SHAPES = [
    Shape(3, 7, 5, 5),
    Shape(1, 64, 64, 8),
    Shape(5, 40, 96, 6),
    Shape(64, 264, 512, 1),
    Shape(33, 136, 768, 6),
    Shape(130, 72, 96, 3),
    Shape(130, 72, 1536, 3),
    Shape(300, 136, 512, 32),
    Shape(70, 37, 192, 4),
    Shape(140, 45, 1024, 4),
    Shape(72, 130, 320, 5),
]

# What a product may err beyond torch's own: the unit roundoff of the type that the factors are rounded to.
ROUNDOFF = {"ieee": 2.0**-24, "tf32": 2.0**-11, "bf16": 2.0**-9, "fp16": 2.0**-12}


def check(chain, x, parameters, version, precision):
    exact = chain_reference64(chain, x, parameters)
    with torch_precision(precision):
        expected = chain_reference(chain, x, parameters)
    y = run_chain(chain, x, parameters, version, poison=True, precision=precision)
    assert y.dtype == x.dtype and y.shape == exact.shape
    assert misplaced(y, expected) == 0
    assert relative_error(y, exact) <= 2 * max(ROUNDOFF[precision], relative_error(expected, exact))
    if not SANITIZED:
        again = run_chain(chain, x, parameters, version, poison=True, precision=precision)
        assert torch.equal(y.view(torch.uint8), again.view(torch.uint8))


def skip_unless_it_runs(chain, shape, version, device, precision):
    if version not in tensor_core_versions(device):
        pytest.skip(f"{version} does not multiply in tensor cores on {device}")
    if launch_count(chain, shape, version, device, precision) is None:
        pytest.skip(f"{version} does not run {shape} in {precision}")


@every_version
@every_precision_of_memory
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_precision(version, device, precision, shape):
    # The chain with the most operators has all sizes; the others differ in what is done with a sum, and
    # test_chains.py has their sizes. On the simulator, test_hopper.py has other chains of hopper.
    others = shape == SHAPES[5] and not (version == "hopper" and device.type == "cpu")
    for described in CHAINS.values() if others else [CHAIN]:
        chain = with_groups(described, shape.groups)
        skip_unless_it_runs(chain, shape, version, device, precision)
        x, parameters = random_inputs(chain, shape, device, 1, PRECISIONS[precision].dtype)
        check(chain, x, parameters, version, precision)


# Enough tiles of every size for several to a block; hopper chooses by their number and the length of k.
LARGE_SHAPES = [
    Shape(257, 520, 1536, 3),
    Shape(300, 264, 512, 32),
    Shape(1024, 2176, 8192, 16),
    Shape(1100, 4200, 4096, 128),
    Shape(5000, 520, 2048, 4),
    Shape(9000, 264, 1024, 4),
    Shape(130, 4104, 8192, 64),
    Shape(520, 2056, 1536, 6),
    # Few tiles: k is split, and a second launch ends the chain.
    Shape(512, 8192, 2048, 1),
    Shape(2048, 8192, 1000, 10),
    Shape(300, 3080, 260, 5),
]


@pytest.mark.gpu
@every_version
@every_precision
@pytest.mark.parametrize("shape", LARGE_SHAPES, ids=str)
def test_tiles_of_every_size(version, precision, shape):
    device, chain = torch.device("cuda"), with_groups(CHAIN, shape.groups)
    skip_unless_it_runs(chain, shape, version, device, precision)
    x, parameters = random_inputs(chain, shape, device, 6, PRECISIONS[precision].dtype)
    check(chain, x, parameters, version, precision)


@every_version
@every_precision
@pytest.mark.memory
def test_the_product_alone(version, device, precision):
    skip_unless_it_runs(PRODUCT, Shape(50, 88, 96, 0), version, device, precision)
    x, parameters = random_inputs(CHAIN, Shape(50, 88, 96, 8), device, 2, PRECISIONS[precision].dtype)
    x, weight, bias = x, parameters["weight"], parameters["bias"]
    exact = x.double() @ weight.double().T + bias.double()
    with torch_precision(precision):
        expected = torch.nn.functional.linear(x, weight, bias)
    y = fgn.functional.linear(x, weight, bias, version, precision)
    assert relative_error(y, exact) <= 2 * max(ROUNDOFF[precision], relative_error(expected, exact))


@every_version
@every_precision
@pytest.mark.memory
def test_matrices_at_any_address(version, device, precision):
    shape = Shape(70, 64, 96, 3)
    chain = with_groups(CHAIN, shape.groups)
    skip_unless_it_runs(chain, shape, version, device, precision)
    x, parameters = random_inputs(chain, shape, device, 7, PRECISIONS[precision].dtype)

    def one_element_on(tensor):
        moved = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=device)[1:].view(tensor.shape)
        return moved.copy_(tensor)

    expected = run_chain(chain, x, parameters, version, precision=precision)
    moved = {name: one_element_on(parameter) for name, parameter in parameters.items()}
    assert torch.equal(run_chain(chain, one_element_on(x), moved, version, precision=precision), expected)


def hard_inputs(name, x, weight, generator):
    """Float32 inputs that are hard for products of halves."""
    rows = torch.arange(x.shape[0], device=x.device)
    if name == "huge and tiny rows":
        return x * (2.0 ** ((rows % 7 - 3.0) * 16))[:, None], weight
    if name == "one outlier in a row":
        x[rows, rows % x.shape[1]] *= 1e6
    elif name == "denormals":
        x[1::2] *= 1e-41
    elif name == "zeros":
        x[3] = 0
        weight[5] = 0
    elif name == "log-normal":
        x = torch.exp(3 * torch.randn(x.shape, generator=generator)).to(x.device)
        weight = weight.sign() * torch.exp(3 * torch.randn(weight.shape, generator=generator)).to(x.device)
    elif name == "large beside small, under a zero":
        x[2, 7] = 1e30
        weight[:, 7] = 0
    return x, weight


@every_version
@pytest.mark.parametrize(
    "name",
    [
        "huge and tiny rows",
        "one outlier in a row",
        "denormals",
        "zeros",
        "log-normal",
        "large beside small, under a zero",
    ],
)
@pytest.mark.parametrize("batch", [40, 150])
def test_float32_accuracy_on_hard_inputs(version, device, name, batch):
    shape = Shape(batch, 264, 256, 0)
    skip_unless_it_runs(PRODUCT, shape, version, device, "ieee")
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(batch, 264, generator=generator).to(device)
    weight = torch.randn(256, 264, generator=generator).to(device)
    x, weight = hard_inputs(name, x, weight, generator)
    exact = x.double() @ weight.double().T
    with torch_precision("ieee"):
        expected = torch.nn.functional.linear(x, weight)
    y = fgn.functional.linear(x, weight, None, version, "ieee")
    # Row by row: a large row must not hide a small one. Where one product is nearly all of a sum, the halves'
    # own errors are seen: 2^-23 of each factor, 2^-24 for low times low, 2^-23 where tensor cores truncate.
    for one, theirs, right in zip(y, expected, exact, strict=True):
        assert relative_error(one, right) <= max(
            2.0**-22 + 2.0**-23 + 2.0**-24, 2 * relative_error(theirs, right)
        )


@every_version
@every_precision
@pytest.mark.parametrize("batch", [20, 200])
def test_nan_and_infinity_go_where_torch_sends_them(version, device, precision, batch):
    shape = Shape(batch, 64, 128, 4)
    chain = replace(CHAINS["gemm_groupnorm_hardtanh"], groups=4)
    skip_unless_it_runs(chain, shape, version, device, precision)
    x, parameters = random_inputs(chain, shape, device, 4, PRECISIONS[precision].dtype)
    x[1, 3] = float("nan")
    check(chain, x, parameters, version, precision)
    x[3, 0] = float("inf")
    x[5, 19] = -float("inf")
    check(chain, x, parameters, version, precision)


@every_precision
def test_the_default_runs(device, precision):
    if precision != "ieee" and not tensor_core_versions(device):
        pytest.skip("no tensor cores")
    for batch in (3, 300):
        chain, shape = with_groups(CHAIN, 16), Shape(batch, 64, 256, 16)
        names = [
            name
            for name in version_names(device.type)
            if launch_count(chain, shape, name, device, precision) is not None
        ]
        x, parameters = random_inputs(chain, shape, device, 5, PRECISIONS[precision].dtype)
        if names:
            check(chain, x, parameters, None, precision)
        else:
            with pytest.raises(RuntimeError, match=f"precision: no version runs {precision} on"):
                run_chain(chain, x, parameters, precision=precision)


def test_precision_follows_torch():
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "tf32"
        assert resolve(None, torch.float32) == "tf32" and resolve("ieee", torch.float32) == "ieee"
        matmul.fp32_precision = "ieee"
        assert resolve(None, torch.float32) == "ieee"
    finally:
        matmul.fp32_precision = before
    assert resolve(None, torch.bfloat16) == "bf16" and resolve(None, torch.float16) == "fp16"


@pytest.mark.gpu
@every_precision
@every_version
def test_streams_and_graphs(version, precision):
    device = torch.device("cuda")
    shape = Shape(256, 512, 1024, 64)
    chain = with_groups(CHAIN, 64)
    skip_unless_it_runs(chain, shape, version, device, precision)
    x, parameters = random_inputs(chain, shape, device, 6, PRECISIONS[precision].dtype)
    expected = run_chain(chain, x, parameters, version, precision=precision)
    # two streams at once, the second of which finds what the first has prepared
    prepared.forget()
    results, streams = [], [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for stream in streams:
        with torch.cuda.stream(stream):
            results.append([run_chain(chain, x, parameters, version, precision=precision) for _ in range(5)])
    torch.cuda.synchronize()
    assert all(torch.equal(y, expected) for of_stream in results for y in of_stream)
    # a graph sees what its inputs are when it is replayed, weights too
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = run_chain(chain, x, parameters, version, precision=precision)
    x.uniform_()
    parameters["weight"].mul_(-0.5)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, run_chain(chain, x, parameters, version, precision=precision))
