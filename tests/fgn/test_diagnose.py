"""diagnose(): silent about right results; names the places and the mistakes of wrong ones."""

import pytest
import torch

import fgn
from fgn.bugs.diagnosis import _chain_mistakes, diagnose, diagnose_norm, diagnose_product, never_written
from fgn.chains import CHAINS, Shape, problem, random_inputs
from fgn.functional import run_chain
from fgn.native.library import version_names
from fgn.reference import chain_reference, chain_reference64, norm_reference, product_reference

SHAPE = Shape(20, 40, 72, 3)


def inputs(name, shape=SHAPE):
    chain, shape = problem(name, shape)
    return chain, *random_inputs(chain, shape)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("version", version_names())
def test_nothing_is_wrong_with_the_ladder(name, version):
    chain, x, parameters = inputs(name)
    if not fgn.versions(chain, SHAPE, "cpu").set_index("name").supported[version]:
        pytest.skip(f"{version} does not run {SHAPE}")
    assert diagnose(run_chain(chain, x, parameters, version), chain, x, parameters) is None


@pytest.mark.parametrize("name", CHAINS)
def test_each_mistake_is_told_from_every_other(name):
    chain, x, parameters = inputs(name)
    wide = {key: value.double() for key, value in parameters.items()}
    right = chain_reference64(chain, x, parameters)
    told = 0
    for rule in _chain_mistakes(chain):
        sentence, result = rule(x.double(), wide)
        if (result - right).abs().max() < 1e-3:
            continue  # hardtanh(-1, 1) where it is, 40 of 40 in_features, eps beside a large variance
        found = diagnose(result.float(), chain, x, parameters)
        # Limits of 6 and 20 are the same where no value is above 6.
        assert sentence in found.as_if.split(", or as if ")
        assert found.as_if == sentence or "hardtanh had the limits" in sentence
        told += 1
    assert told >= 15


def test_what_was_never_written_is_told_from_nan():
    chain, x, parameters = inputs("gemm_groupnorm_hardtanh")
    y = never_written(20, 72)
    y[:, :64] = chain_reference(chain, x, parameters)[:, :64]
    found = diagnose(y, chain, x, parameters)
    assert (found.wrong, found.never_written, found.first) == (20 * 8, 20 * 8, (0, 64))
    assert found.max_error is None and "never written: columns 64 to 71, the last 8" in str(found)
    y[:, 64:] = torch.nan
    found = diagnose(y, chain, x, parameters)
    assert found.never_written == 0 and "NaN or infinite: 160 elements" in str(found)
    y[:, 64:] = never_written(20, 8) + 1
    found = diagnose(y, chain, x, parameters)
    assert found.never_written == 0
    assert "computed from the result's own memory, which nobody had written: 160 elements" in str(found)


def test_places_and_largest_error():
    chain, x, parameters = inputs("matmul_groupnorm_leakyrelu_sum")
    y = chain_reference(chain, x, parameters)
    y[7, 30] += 0.5
    y[3, 2] -= 0.25
    found = diagnose(y, chain, x, parameters)
    assert (found.wrong, found.first, found.worst) == (2, (3, 2), (7, 30))
    assert found.max_error == pytest.approx(0.5, rel=1e-4) and found.as_if is None
    assert "2 columns (2, 30)" in str(found) and "2 rows (3, 7)" in str(found)


def test_parts():
    chain, x, parameters = inputs("gemm_biasadd_hardtanh_mish_groupnorm")
    v = product_reference(chain, x, parameters)
    assert diagnose_product(v, chain, x, parameters) is None
    assert diagnose_norm(norm_reference(chain, v, parameters), chain, v, parameters) is None
    found = diagnose_norm(
        norm_reference(chain, v + 0.3 * torch.rand(20, 72), parameters), chain, v, parameters
    )
    assert found.part == "norm" and found.as_if is None
    shifted = v.view(20, 3, 24) + v.view(20, 3, 24).mean(2, keepdim=True)
    y = (shifted - v.view(20, 3, 24).mean(2, keepdim=True)).view(20, 72) * parameters["norm_weight"]
    found = diagnose_norm(y + parameters["norm_bias"], chain, v, parameters)
    assert "normalised, but with wrong statistics" in str(found)


def test_a_wrong_shape_is_refused():
    chain, x, parameters = inputs("gemm_groupnorm_hardtanh")
    with pytest.raises(ValueError, match=r"y: expected \(20, 72\) of .*, got \(72, 20\) of"):
        diagnose(torch.zeros(72, 20), chain, x, parameters)
