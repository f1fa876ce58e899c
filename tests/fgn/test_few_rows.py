"""The kernel for few rows in every precision, against float64 and beside what torch gets in the same one."""

import pytest
import torch
from accuracy import assert_accurate, with_groups

from fgn.chains import CHAINS, Chain, Pointwise, Shape, random_inputs
from fgn.functional import PRODUCT, launch_count, run_chain
from fgn.measure.accuracy import misplaced, relative_error
from fgn.precision import PRECISIONS
from fgn.reference import chain_reference64, ieee_float32

VERSION = "few_rows"

# What tensor cores leave of a sum of some thousand products of tf32 numbers: they cut it off at each of its
# steps, at 24 bits.
TF32_SUM_ERROR = 2.0**-15


def factors(tensor, precision):
    """What is multiplied of a tensor: for tf32, it is rounded to 11 significant bits, ties away from zero."""
    if precision != "tf32":
        return tensor
    return ((tensor.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


every_precision = pytest.mark.parametrize("precision", PRECISIONS)

# Every number of tiles and several blocks of rows; sizes that fill no tile or step, rows that are no whole
# chunks of 16 bytes; one block and many.
SHAPES = (
    (65, 40, 24),
    (130, 264, 72),
    (1, 1, 1),
    (1, 4096, 40),
    (2, 8, 64),
    (5, 7, 3),
    (8, 1000, 96),
    (9, 129, 65),
    (16, 333, 130),
    (17, 128, 300),
    (32, 264, 33),
    (33, 520, 260),
    (64, 1025, 130),
    (64, 2048, 96),
)


def inputs_of(precision, batch, in_features, out_features, device, seed=0):
    generator = torch.Generator().manual_seed(seed)
    dtype = PRECISIONS[precision].dtype
    x = torch.randn(batch, in_features, generator=generator).to(device, dtype)
    weight = torch.randn(out_features, in_features, generator=generator).to(device, dtype)
    return x, weight


def product(x, weight, precision):
    return run_chain(PRODUCT, x, {"weight": weight}, VERSION, poison=True, precision=precision)


def multiplied_as(precision, batch):
    """tf32 is a permission: one row is multiplied in float32's accuracy, as torch does."""
    return "ieee" if precision == "tf32" and batch == 1 else precision


def assert_product_accurate(y, x, weight, precision):
    precision = multiplied_as(precision, len(x))
    x, weight = factors(x, precision), factors(weight, precision)
    exact = x.double() @ weight.double().T
    with ieee_float32():
        expected = x @ weight.T
    allowed = 2 * max(relative_error(expected, exact), 2.0**-24)
    if precision == "tf32":
        allowed = TF32_SUM_ERROR
    assert y.dtype == x.dtype and y.shape == exact.shape
    assert misplaced(y, expected) == 0
    assert relative_error(y, exact) <= allowed


@every_precision
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.memory
def test_products(precision, shape, device):
    x, weight = inputs_of(precision, *shape, device)
    assert_product_accurate(product(x, weight, precision), x, weight, precision)


@every_precision
def test_every_batch(precision, device):
    for batch in range(1, 65):
        x, weight = inputs_of(precision, batch, 136, 72, device, seed=batch)
        assert_product_accurate(product(x, weight, precision), x, weight, precision)


@every_precision
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(
    "shape",
    [
        (3, 264, 64, 4),
        (12, 130, 192, 12),
        (40, 72, 160, 1),
        (64, 96, 2304, 2),
        (70, 72, 512, 2),
        (9, 64, 96, 48),
    ],
    ids=str,
)
def test_chains(precision, name, shape, device):
    chain = with_groups(CHAINS[name], shape[-1])
    x, parameters = random_inputs(chain, Shape(*shape), device)
    dtype = PRECISIONS[precision].dtype
    parameters["weight"] = parameters["weight"].to(dtype)
    x = x.to(dtype)
    y = run_chain(chain, x, parameters, VERSION, poison=True, precision=precision)
    if precision == "ieee":
        assert_accurate(y, chain, x, parameters)
        return
    multiplied = parameters | {"weight": factors(parameters["weight"], precision)}
    exact = chain_reference64(chain, factors(x, precision), multiplied)
    allowed = torch.finfo(dtype).eps / 2 if dtype != torch.float32 else TF32_SUM_ERROR
    assert y.dtype == dtype and y.shape == exact.shape
    assert relative_error(y, exact) <= allowed


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("groups, size", [(8, 16), (2, 25), (3, 96), (2, 300), (1, 1100), (1, 2051)])
@pytest.mark.memory
def test_vectors_in_their_own_type(dtype, groups, size, device):
    """Every way to end a group, with vectors of 16 bits: the same values as with those vectors in float32."""
    chain = with_groups(CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"], groups)
    x, parameters = random_inputs(chain, Shape(19, 40, groups * size, groups), device, 3, dtype)
    wide = {name: value.float() if value.dim() == 1 else value for name, value in parameters.items()}
    y = run_chain(chain, x, parameters, VERSION, poison=True)
    assert y.dtype == dtype and torch.equal(y, run_chain(chain, x, wide, VERSION, poison=True))
    assert relative_error(y, chain_reference64(chain, x, parameters)) <= 2 * torch.finfo(dtype).eps


@pytest.mark.memory
def test_a_residual_in_every_way_to_end_a_group(device):
    for groups, size in ((4, 8), (3, 7), (2, 132), (1, 1200)):
        steps = (Pointwise("add_tensor", tensor="skip"), Pointwise("add_channel", channel="shift"))
        chain = Chain("residual", (), groups, steps)
        x, parameters = random_inputs(chain, Shape(5, 24, groups * size, groups), device, 4)
        assert_accurate(run_chain(chain, x, parameters, VERSION, poison=True), chain, x, parameters)


def test_groups_in_a_block_take_one_launch(device):
    chain = CHAINS["gemm_groupnorm_hardtanh"]
    assert launch_count(with_groups(chain, 4), Shape(3, 264, 128, 4), VERSION, device) == 1
    assert launch_count(with_groups(chain, 1), Shape(3, 264, 512, 1), VERSION, device) == 2


def test_more_rows_than_few_are_refused(device):
    assert launch_count(PRODUCT, Shape(16385, 8, 8, 0), VERSION, device) is None


@every_precision
@pytest.mark.memory
def test_x_and_weight_that_are_not_aligned(precision, device):
    x, weight = inputs_of(precision, 20, 264, 72, device)
    expected = product(x, weight, precision)

    def moved(tensor):
        return torch.cat([tensor.new_zeros(1), tensor.flatten()])[1:].view_as(tensor)

    assert torch.equal(product(moved(x), weight, precision), expected)
    assert torch.equal(product(x, moved(weight), precision), expected)


@pytest.mark.gpu
@every_precision
@pytest.mark.parametrize("shape", [(1, 8192, 8192, 256), (16, 8192, 8192, 256), (128, 512, 1024, 8)], ids=str)
def test_the_default_for_small_problems(precision, shape):
    chain, shape = with_groups(CHAINS["gemm_groupnorm_hardtanh"], shape[-1]), Shape(*shape)
    x, parameters = random_inputs(chain, shape, "cuda")
    dtype = PRECISIONS[precision].dtype
    x, parameters["weight"] = x.to(dtype), parameters["weight"].to(dtype)
    default = run_chain(chain, x, parameters, precision=precision)
    assert torch.equal(default, run_chain(chain, x, parameters, VERSION, precision=precision))


def with_values(name, x, weight):
    """Inputs for which float32 as three bfloat16 is hard."""
    if name == "one outlier":
        x[:, 5] *= 1e6
        weight[3, :] *= 1e-6
    elif name == "huge and tiny rows":
        x *= (10.0 ** torch.arange(-18, -18 + len(x))).to(x)[:, None]
        weight *= (10.0 ** torch.arange(18, 18 - len(weight), -1)).to(weight)[:, None]
    elif name == "denormals":
        x *= 1e-40
        weight[::2] *= 1e-2
    elif name == "products of 1e30":
        x *= 1e15
        weight *= 1e15
    elif name == "the largest float":
        x[2, 3] = torch.finfo(torch.float32).max
        weight *= 1e-3
    elif name == "hidden by a zero":
        x[1, 7] = 1e30
        weight[:, 7] = 0.0
    elif name == "infinities and NaN":
        x[1, 3] = float("nan")
        x[3, 0] = float("inf")
        x[5, 9:11] = torch.tensor([float("inf"), -float("inf")])
        weight[7, 20] = float("inf")
        weight[9, 21] = float("nan")
        weight[11, 0] = 0.0
    elif name == "zeros":
        x[:, ::2] = 0.0
        x[4] = 0.0
        weight[6] = 0.0
    elif name == "log-normal":
        x.copy_((3 * x).exp())
        weight.copy_((3 * weight).exp())


@pytest.mark.parametrize(
    "name",
    [
        "one outlier",
        "huge and tiny rows",
        "denormals",
        "products of 1e30",
        "the largest float",
        "hidden by a zero",
        "infinities and NaN",
        "zeros",
        "log-normal",
    ],
)
@pytest.mark.parametrize("batch", [8, 20])
def test_any_float32(name, batch, device):
    x, weight = inputs_of("ieee", batch, 300, 36, device, seed=1)
    with_values(name, x, weight)
    y = product(x, weight, "ieee")
    exact = x.double() @ weight.double().T
    with ieee_float32():
        expected = x @ weight.T
    assert misplaced(y, expected) == 0
    # Row by row and column by column: a large one may not hide the errors of a small one.
    assert (row_errors(y, exact) <= 2 * allowed_row_errors(x, weight, exact)).all()
    assert (row_errors(y.T, exact.T) <= 2 * allowed_row_errors(weight, x, exact.T)).all()


def row_errors(y, exact):
    """||y - exact|| / ||exact|| of each row, over finite elements and rows that are no denormals."""
    finite = exact.isfinite()
    norm = torch.where(finite, exact, 0.0).norm(dim=1)
    error = torch.where(finite, y.double() - exact, 0.0).norm(dim=1)
    return torch.where(norm > torch.finfo(torch.float32).tiny, error / norm, 0.0)


def allowed_row_errors(x, weight, exact):
    """The largest of torch's own, over several orders of the sum: on a few elements one order is luck.

    At least 2^-22: tensor cores truncate where they add, which errs by up to twice as much as rounding, and
    six products are added.
    """
    generator = torch.Generator().manual_seed(0)
    errors = [torch.full_like(exact[:, 0], 2.0**-22)]
    with ieee_float32():
        for _ in range(8):
            order = torch.randperm(x.shape[1], generator=generator).to(x.device)
            errors.append(row_errors(x[:, order] @ weight[:, order].T, exact))
    return torch.stack(errors).amax(0)


def test_bit_identical(device):
    x, weight = inputs_of("ieee", 48, 1000, 200, device)
    first = product(x, weight, "ieee")
    assert all(torch.equal(product(x, weight, "ieee"), first) for _ in range(5))


@pytest.mark.gpu
@every_precision
@pytest.mark.parametrize("batch", [1, 64])
def test_graphs_and_two_streams(precision, batch):
    chain = CHAINS["gemm_groupnorm_hardtanh"]
    x, parameters = random_inputs(chain, Shape(batch, 4096, 4096, 16), "cuda")
    dtype = PRECISIONS[precision].dtype
    x, parameters["weight"] = x.to(dtype), parameters["weight"].to(dtype)
    others = [x.flip(0), x.flip(1)]

    def run(x):
        return run_chain(with_groups(chain, 16), x, parameters, VERSION, poison=True, precision=precision)

    expected = [run(other) for other in others]
    graph, static_x = torch.cuda.CUDAGraph(), torch.zeros_like(x)
    with torch.cuda.graph(graph):
        y = run(static_x)
    for other, known in zip(others, expected, strict=True):
        static_x.copy_(other)
        graph.replay()
        assert torch.equal(y, known)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    results = [[], []]
    for _ in range(20):
        for stream, other, into in zip(streams, others, results, strict=True):
            with torch.cuda.stream(stream):
                into.append(run(other))
    torch.cuda.synchronize()
    for into, known in zip(results, expected, strict=True):
        assert all(torch.equal(y, known) for y in into)
