"""Every version of every chain, on every machine that is here, against torch and float64."""

import threading
import time

import pytest
import torch
from accuracy import SANITIZED, assert_accurate, versions_on, with_groups
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import fgn
from fgn.chains import CHAINS, POINTWISE, Chain, Pointwise, Shape, default_shape, random_inputs
from fgn.functional import LIBRARY, default_version, launch_count, run_chain
from fgn.native.library import version_names
from fgn.operators import IN_CHAINS

VERSIONS = version_names()

# Chains that together use every operator, each on both sides of its GroupNorm. Those before the norm are of a
# moderate size, whatever the operators before them made of it.
MODERATE = (Pointwise("multiply", 0.125), Pointwise("hardtanh", -3.0, 3.0))


def chain_of(kinds) -> Chain:
    def step(kind, side):
        operand = POINTWISE[kind].operand
        name = {operand: f"{kind}_{side}"} if operand else {}
        constants = (0.75, 1.5) if kind in ("add", "multiply", "divide", "threshold") else ()
        return Pointwise(kind, *constants, **name)

    before, after = (tuple(step(kind, side) for kind in kinds) for side in ("before", "after"))
    return Chain("_".join(kinds), (*MODERATE, *before), 4, (*after, *MODERATE), eps=1e-3)


KINDS = IN_CHAINS
EVERY_OPERATOR = [chain_of(KINDS[first : first + 5]) for first in range(0, len(KINDS), 5)]

CPU = torch.device("cpu")

every_version = pytest.mark.parametrize("version", VERSIONS)
every_chain = pytest.mark.parametrize("name", CHAINS)


def marked(chains, accesses):
    """The chains, with the mark `memory` on those that the function is true of. All chains run the same
    kernels, which access other memory only for the operators' vectors and tensors."""
    return [pytest.param(chain, marks=pytest.mark.memory if accesses(chain) else ()) for chain in chains]


@st.composite
def odd_shapes(draw):
    """Sizes that fill no tile, sizes around those that do, and a number of groups that divides."""
    near_tiles = st.sampled_from((31, 32, 33, 63, 64, 65, 127, 128, 129, 136))
    sizes = st.one_of(st.integers(1, 24), near_tiles)
    groups = draw(st.integers(1, 9))
    channels_per_group = draw(st.one_of(st.integers(1, 20), st.sampled_from((32, 33, 64))))
    return Shape(draw(sizes), draw(sizes), groups * channels_per_group, groups)


EXAMPLES = 6 if SANITIZED else 20


def check_version(chain, shape, version, device):
    """Runs the version on random inputs with poisoned memory and checks the result."""
    chain = with_groups(chain, shape.groups)
    x, parameters = random_inputs(chain, shape, device, seed=sum(shape))
    assert_accurate(run_chain(chain, x, parameters, version, poison=True), chain, x, parameters)


def skip_unless_it_runs(chain, shape, version, device):
    if launch_count(with_groups(chain, shape.groups), shape, version, device) is None:
        pytest.skip(f"{version} does not run {shape}")


@every_version
@pytest.mark.memory
@example(shape=Shape(1, 1, 1, 1))
@example(shape=Shape(1, 70, 96, 1))
@example(shape=Shape(3, 40, 48, 48))
@example(shape=Shape(65, 33, 130, 10))
@example(shape=Shape(2, 1000, 264, 33))
@given(shape=odd_shapes())
@settings(max_examples=EXAMPLES)
def test_odd_shapes(version, device, shape):
    """Of a chain with operators and vectors on both sides of its norm; test_default_shape has the others."""
    # A version that does not run a size that was drawn says so, and the other sizes are checked.
    assume(launch_count(with_groups(EVERY_OPERATOR[0], shape.groups), shape, version, device) is not None)
    check_version(EVERY_OPERATOR[0], shape, version, device)


@every_version
@every_chain
def test_default_shape(name, version, device):
    chain = CHAINS[name]
    skip_unless_it_runs(chain, default_shape(chain, device), version, device)
    check_version(chain, default_shape(chain, device), version, device)


@every_version
@pytest.mark.parametrize("shape", [Shape(5, 37, 72, 4), Shape(64, 128, 128, 8)], ids=str)
@pytest.mark.parametrize("chain", marked(EVERY_OPERATOR, lambda one: one.operands), ids=lambda one: one.name)
def test_another_chain_needs_no_kernel(version, device, shape, chain):
    skip_unless_it_runs(chain, shape, version, device)
    check_version(chain, shape, version, device)


@every_version
@pytest.mark.parametrize("missing", ["bias", "norm_weight", "norm_bias", "bias norm_weight norm_bias"])
@pytest.mark.memory
def test_parameters_may_be_missing(version, device, missing):
    chain = with_groups(CHAINS["gemm_groupnorm_hardtanh"], 6)
    x, parameters = random_inputs(chain, Shape(7, 50, 96, 6), device)
    skip_unless_it_runs(chain, Shape(7, 50, 96, 6), version, device)
    for name in missing.split():
        del parameters[name]
    assert_accurate(run_chain(chain, x, parameters, version, poison=True), chain, x, parameters)


@every_version
@every_chain
def test_nan_and_infinity_go_where_torch_sends_them(name, version, device):
    chain = with_groups(CHAINS[name], 4)
    x, parameters = random_inputs(chain, Shape(9, 20, 48, 4), device)
    skip_unless_it_runs(chain, Shape(9, 20, 48, 4), version, device)
    x[1, 3] = float("nan")
    x[3, 0] = float("inf")
    x[5, 19] = -float("inf")
    x[7, 2:4] = torch.tensor([float("inf"), -float("inf")])
    parameters["norm_bias"][5] = float("inf")
    parameters["norm_bias"][17] = float("nan")
    y = run_chain(chain, x, parameters, version, poison=True)
    assert_accurate(y, chain, x, parameters)


@every_version
@every_chain
def test_constant_groups(name, version, device):
    chain = with_groups(CHAINS[name], 4)
    x, parameters = random_inputs(chain, Shape(6, 24, 4 * 15, 4), device)
    skip_unless_it_runs(chain, Shape(6, 24, 4 * 15, 4), version, device)
    parameters["weight"][:] = parameters["weight"][0]
    parameters["bias"][:] = 0.3
    for channel in chain.channels:
        parameters[channel][:] = -0.1
    y = run_chain(chain, x, parameters, version, poison=True)
    assert_accurate(y, chain, x, parameters)


@every_version
@pytest.mark.memory
def test_what_is_not_contiguous_or_aligned(version, device, equal_calls):
    chain = with_groups(CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"], 8)
    x, parameters = random_inputs(chain, Shape(12, 32, 64, 8), device)
    skip_unless_it_runs(chain, Shape(12, 32, 64, 8), version, device)
    expected = fgn.chain_forward(chain, x, parameters, version)

    def transposed(tensor):
        return tensor.T.contiguous().T

    def strided(tensor):
        return torch.stack([tensor, tensor], -1)[..., 0]

    def misaligned(tensor):
        return torch.cat([tensor.new_zeros(1), tensor.flatten()])[1:].view(tensor.shape)

    for disturb in (transposed, strided, misaligned):
        disturbed = {name: disturb(value) if value.dim() > 1 else value for name, value in parameters.items()}
        assert torch.equal(fgn.chain_forward(chain, disturb(x), disturbed, version), expected)
    disturbed = {name: misaligned(value) for name, value in parameters.items()}
    assert torch.equal(fgn.chain_forward(chain, misaligned(x), disturbed, version), expected)


@every_chain
@pytest.mark.memory
def test_empty_batch(name, device):
    chain = with_groups(CHAINS[name], 4)
    x, parameters = random_inputs(chain, Shape(0, 20, 48, 4), device)
    for version in (None, *versions_on(device)):
        if version and launch_count(chain, Shape(1, 20, 48, 4), version, device) is None:
            continue
        y = fgn.chain_forward(chain, x, parameters, version)
        assert y.shape == (0, 48) and y.dtype == torch.float32 and y.device == x.device


# What is fastest on a GPU, and what the simulator itself is fastest with.
DEFAULTS = {
    "few tiles": (Shape(9, 20, 48, 4), "few_rows", "naive"),
    "groups wider than a tile": (Shape(1100, 8, 1024, 2), "fused", "register_tile"),
    "many tiles of narrow groups": (Shape(1100, 8, 1024, 64), "one_kernel", "register_tile"),
}


@pytest.mark.parametrize("case", DEFAULTS)
def test_the_default_version(case, device, equal_calls):
    shape, on_gpu, on_simulator = DEFAULTS[case]
    chain = with_groups(CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"], shape.groups)
    expected = default_version(chain, shape, device)
    assert expected == on_simulator if device.type == "cpu" else expected in (on_gpu, LIBRARY)
    x, parameters = random_inputs(chain, shape, device)
    default = fgn.chain_forward(chain, x, parameters)
    assert torch.equal(default, fgn.chain_forward(chain, x, parameters, expected))


@pytest.mark.parametrize(
    "shape, dtype",
    [
        (Shape(64, 512, 512, 8), torch.float32),
        (Shape(1, 2, 1 << 14, 16), torch.float32),
        (Shape(1, 900, 70, 7), torch.float32),
        (Shape(8, 512, 256, 8), torch.bfloat16),
        (Shape(256, 8, 256, 16), torch.bfloat16),
    ],
    ids=str,
)
def test_the_simulators_default_is_fast_on_the_simulator(shape, dtype):
    chain = with_groups(CHAINS["gemm_groupnorm_hardtanh"], shape.groups)
    x, parameters = random_inputs(chain, shape, CPU)
    parameters["weight"] = parameters["weight"].to(dtype)

    def seconds(version) -> float:
        fgn.chain_forward(chain, x.to(dtype), parameters, version)
        begin = time.process_time()
        fgn.chain_forward(chain, x.to(dtype), parameters, version)
        return time.process_time() - begin

    versions = ("naive", "register_tile", "vectorized")
    if dtype != torch.float32:
        versions = ("tensor_core", "few_rows")
    assert seconds(None) < 3 * min(seconds(version) for version in versions) + 1e-3


@every_version
def test_the_same_bits_every_time(version, device):
    chain, shape = CHAINS["matmul_groupnorm_leakyrelu_sum"], Shape(33, 100, 1536, 512)
    x, parameters = random_inputs(chain, shape, device)
    skip_unless_it_runs(chain, shape, version, device)
    first = fgn.chain_forward(chain, x, parameters, version)
    assert all(torch.equal(fgn.chain_forward(chain, x, parameters, version), first) for _ in range(3))


@every_chain
@pytest.mark.memory
def test_two_threads_at_once(name, device):
    chain = with_groups(CHAINS[name], 6)
    inputs = [random_inputs(chain, Shape(40, 64, 96, 6), device, seed) for seed in range(2)]
    expected = [fgn.chain_forward(chain, *one) for one in inputs]
    results = {}

    def work(index):
        with torch.no_grad():
            results[index] = [fgn.chain_forward(chain, *inputs[index]) for _ in range(10)]

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(y, expected[index]) for index in range(2) for y in results[index])


def test_the_default_dtype_does_not_matter(device):
    chain = with_groups(CHAINS["gemm_groupnorm_hardtanh"], 4)
    torch.set_default_dtype(torch.float64)
    try:
        x, parameters = random_inputs(chain, Shape(5, 8, 16, 4), device)
        for y in (
            fgn.chain_forward(chain, x, parameters),
            fgn.functional.linear(x, parameters["weight"]),
            fgn.functional.group_norm(x, 2),
        ):
            assert y.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_versions_table(device):
    table = fgn.versions(device=device)
    assert list(table.columns[:4]) == ["chain", "name", "launches", "supported"]
    for name, chain in CHAINS.items():
        rows = table[table.chain == name].set_index("name")
        assert list(rows.index) == VERSIONS
        # Linear, the norm's statistics, the norm, and every pointwise operator a launch of its own.
        assert rows.launches["naive"] == 3 + len(chain.before) + len(chain.after)
        assert rows.launches[rows.supported].min() <= 2
        assert (rows.supported | (rows.needs != "")).all()
