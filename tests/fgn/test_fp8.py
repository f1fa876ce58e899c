"""precision="fp8": factors in 8 bits with a scale for each row, where the plan says so."""

import math

import pytest
import torch

import fgn
from fgn.chains import Shape, problem, random_inputs
from fgn.functional import chain_forward, linear, plan_of, run_chain
from fgn.measure.accuracy import relative_error
from fgn.native import repeated, tuned
from fgn.native.library import ffi, for_device
from fgn.plans import DEVICES, QUANTISED, plan
from fgn.reference import chain_reference64
from fgn.structs import PRODUCT, chain_struct

CPU = torch.device("cpu")
LARGEST, LARGEST_SCALE = 448.0, 126
ROUNDING_OF_Y = 2.0e-3  # of a bfloat16 result; products of 8-bit factors are exact, and sums are float32

PROBLEMS = {
    "groups of 32": ("gemm_biasadd_hardtanh_mish_groupnorm", Shape(66, 136, 256, 8)),
    "groups of 12, no multiple of 16 along k": ("gemm_groupnorm_hardtanh", Shape(66, 70, 144, 12)),
    "groups of many strips": ("matmul_groupnorm_leakyrelu_sum", Shape(66, 140, 300, 1)),
}


def rounded(matrix):
    """What a matrix becomes, in float64: each row scaled by the largest power of two that leaves its largest
    magnitude at most 448, rounded to e4m3 by torch, and scaled back."""
    rows = []
    for row in matrix.double():
        finite = row[row.isfinite()].abs()
        largest = finite.max().item() if len(finite) else 0.0
        scale = min(8 - (math.frexp(largest)[1] - 1), LARGEST_SCALE) if largest > 0 else 0
        scale -= largest * 2.0**scale > LARGEST
        values = torch.where(row.isfinite(), row * 2.0**scale, math.nan).float()
        rows.append(values.to(torch.float8_e4m3fn).double() * 2.0**-scale)
    return torch.stack(rows)


def of_8_bits(chain, shape, device, frozen=False):
    """(number, what is chosen) of the candidates that multiply 8-bit factors."""
    number = 0
    while made := plan_of(chain, shape, "hopper", device, "fp8", frozen=frozen, candidate=number):
        *chosen, precision = list(made.choice)[:6]
        if precision == 2:
            yield number, chosen
        number += 1


def candidates(chain, shape, device):
    """A candidate of each kernel of 8-bit factors, with one block, with clusters, with a second launch."""
    found = {}
    for number, (kernel, _, row_blocks, column_blocks, splits) in of_8_bits(chain, shape, device):
        found.setdefault(kernel, number)
        found.setdefault((row_blocks > 1, column_blocks > 1, splits > 1), number)
    return sorted(set(found.values()))


@pytest.fixture
def in_8_bits():
    """Makes the calls of a problem run as a candidate of 8-bit factors."""
    chosen = []

    def choose(chain, shape, device, number=None, frozen=False):
        number = next(of_8_bits(chain, shape, device, frozen))[0] if number is None else number
        key = tuned.key_of(chain, shape, "fp8", frozen)
        tuned.choose(device, key, tuned.Choice("hopper", number))
        repeated.forget()
        chosen.append((device, key))

    yield choose
    for device, key in chosen:
        tuned.choose(device, key, None)
    repeated.forget()


def needs_hopper(device):
    if device.type == "cuda" and torch.cuda.get_device_capability(device) != (9, 0):
        pytest.skip("8-bit factors are multiplied on compute capability 9.0")


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_chain_is_that_of_the_rounded_factors(name, device, in_8_bits):
    needs_hopper(device)
    chain, shape = problem(*PROBLEMS[name])
    x, parameters = random_inputs(chain, shape, device, 5, torch.bfloat16)
    exact = chain_reference64(chain, rounded(x), parameters | {"weight": rounded(parameters["weight"])})
    numbers = candidates(chain, shape, device)
    assert len(numbers) >= 5
    for number in numbers:
        in_8_bits(chain, shape, device, number)
        y = run_chain(chain, x, parameters, precision="fp8", poison=True)
        assert relative_error(y, exact) <= ROUNDING_OF_Y, number
        of_floats = {name: value.float() for name, value in parameters.items() if name != "weight"}
        y = run_chain(chain, x, of_floats | {"weight": parameters["weight"]}, precision="fp8")
        assert relative_error(y, exact) <= ROUNDING_OF_Y, number


@pytest.mark.simulator
def test_the_kernels_have_no_fault(in_8_bits):
    chain, shape = problem(*PROBLEMS["groups of 12, no multiple of 16 along k"])
    x, parameters = random_inputs(chain, shape, CPU, 5, torch.bfloat16)
    for number in candidates(chain, shape, CPU)[::3]:
        in_8_bits(chain, shape, CPU, number)
        fgn.check(lambda: run_chain(chain, x, parameters, precision="fp8", poison=True))


@pytest.mark.parametrize("shape", [(3, 5, 7), (70, 200, 100), (33, 1100, 72)])
def test_rows_of_any_scale(shape, device, in_8_bits):
    needs_hopper(device)
    batch, in_features, out_features = shape
    generator = torch.Generator().manual_seed(batch)
    x, weight = (torch.randn(rows, in_features, generator=generator) for rows in (batch, out_features))
    x = (x * torch.logspace(-35, 35, batch)[:, None]).bfloat16()
    x[0] = 0
    x[1] = torch.tensor(1e-40).bfloat16()  # a denormal
    weight = (weight * torch.logspace(-1, 1, out_features)[:, None]).bfloat16()
    in_8_bits(PRODUCT, Shape(*shape, 0), device)
    y = linear(x.to(device), weight.to(device), precision="fp8").cpu().double()
    exact = rounded(x) @ rounded(weight).T
    assert y[0].eq(0).all()
    scale = (rounded(x).abs() @ rounded(weight).abs().T) * 2.0**-8 + 2.0**-133
    assert ((y - exact).abs() <= scale).all()


def test_what_is_no_number_becomes_nan_in_its_row(device, in_8_bits):
    needs_hopper(device)
    x, weight = torch.ones(4, 40).bfloat16(), torch.ones(6, 40).bfloat16()
    x[1, 3], x[2, 7] = math.nan, math.inf
    in_8_bits(PRODUCT, Shape(4, 40, 6, 0), device)
    y = linear(x.to(device), weight.to(device), precision="fp8").cpu()
    assert y[[0, 3]].eq(40).all() and y[[1, 2]].isnan().all()


def test_a_frozen_weight_gives_the_same_and_a_changed_one_is_seen(device, in_8_bits):
    needs_hopper(device)
    chain, shape = problem(*PROBLEMS["groups of many strips"])
    x, parameters = random_inputs(chain, shape, device, 6, torch.bfloat16)
    in_8_bits(chain, shape, device)
    first = chain_forward(chain, x, parameters, precision="fp8")
    in_8_bits(chain, shape, device, frozen=True)
    fgn.freeze(parameters["weight"])
    for _ in range(3):
        assert chain_forward(chain, x, parameters, precision="fp8").equal(first)
    fgn.thaw(parameters["weight"])
    parameters["weight"].data.neg_()
    changed = chain_forward(chain, x, parameters, precision="fp8")
    exact = chain_reference64(chain, rounded(x), parameters | {"weight": rounded(parameters["weight"])})
    assert not changed.equal(first) and relative_error(changed, exact) <= ROUNDING_OF_Y


def test_a_call_with_gradients_does_not_round(device):
    chain, shape = problem("gemm_groupnorm_hardtanh", Shape(40, 64, 96, 8))
    results = []
    for precision in ("fp8", "bf16"):
        x, parameters = random_inputs(chain, shape, device, 7, torch.bfloat16)
        with torch.enable_grad():
            weight = parameters["weight"].requires_grad_()
            y = chain_forward(chain, x, parameters, precision=precision)
            (gradient,) = torch.autograd.grad(y.float().square().sum(), weight)
        results.append((y.detach(), gradient))
    assert all(a.equal(b) for a, b in zip(*results, strict=True))


def test_autocast_keeps_the_permission(device, in_8_bits):
    needs_hopper(device)
    x, weight = torch.randn(20, 64, device=device), torch.randn(48, 64, device=device)
    in_8_bits(PRODUCT, Shape(20, 64, 48, 0), device)
    with torch.autocast(device.type, torch.bfloat16):
        y = linear(x, weight, precision="fp8")
    exact = rounded(x.bfloat16()) @ rounded(weight.bfloat16()).T
    assert y.dtype == torch.bfloat16 and relative_error(y, exact) <= ROUNDING_OF_Y


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_other_dtypes_are_refused(dtype, device):
    x = torch.ones(4, 8, dtype=dtype, device=device)
    with pytest.raises(ValueError, match=f"precision: expected None or .* for {dtype}, got 'fp8'"):
        linear(x, x, precision="fp8")


def test_the_plan_rounds_where_that_saves_time():
    chain, large = problem("gemm_groupnorm_hardtanh", (1024, 8192, 8192, 16))
    small = problem(chain, (4096, 128, 256, 32))[1]
    on_h200 = {"precision": "fp8", "device": DEVICES["H200"]}
    words = [
        [launch.words for launch in plan(chain, shape, None, **on_h200).launches] for shape in (large, small)
    ]
    assert words[0][0] == (QUANTISED,) and (QUANTISED,) not in words[1]
    elsewhere = plan(chain, large, None, precision="fp8", device=DEVICES["A100"])
    assert elsewhere.version != "hopper"


@pytest.mark.simulator
def test_the_library_refuses_fp8_of_other_types():
    chain, shape = problem("gemm_groupnorm_hardtanh", Shape(40, 64, 96, 8))
    library = for_device("cpu").load()
    c_chain = chain_struct(library, chain, shape, "fp8", {})
    made = ffi().new("fgn_plan *")
    assert library.fgn_plan_chain(library.FGN_BEST_VERSION, c_chain, ffi().NULL, made) == library.FGN_OK
    c_chain.type = library.FGN_FLOAT16
    status = library.fgn_plan_chain(library.FGN_BEST_VERSION, c_chain, ffi().NULL, made)
    assert status == library.FGN_INVALID_ARGUMENT
    assert (
        ffi().string(library.fgn_last_error()) == b"precision is FGN_FP8, which is of FGN_BFLOAT16; type is 1"
    )
