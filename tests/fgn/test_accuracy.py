"""What docs/precisions.md says of accuracy, and of NaN and infinities, holds for random problems, drawn anew
each time. A failure names its seed; FGN_ACCURACY_SEED=<seed> draws the same problems again, and `make test`
does so with 1."""

import os
import random
from dataclasses import replace

import pytest
import torch
from accuracy import versions_on
from accuracy_bound import chain_error_bound

from fgn.chains import CHAINS, Shape, random_inputs
from fgn.functional import launch_count, run_chain
from fgn.measure.accuracy import misplaced
from fgn.reference import chain_reference

SEED = int(os.environ.get("FGN_ACCURACY_SEED", 0)) or random.SystemRandom().randrange(1, 2**31)
CPU = torch.device("cpu")


def problems(count: int):
    """Small chains, many with groups of 2 to 4 channels: (what, chain, x, parameters, a generator)."""
    draw = random.Random(SEED)
    for number in range(count):
        channels = draw.choice((1, 2, 2, 3, 3, 4, 4, 5, 8, 13, 16, 32, 40))
        groups = draw.randint(1, 9)
        in_features = draw.choice((1, 2, 3, 7, 16, 31, 64, 100, 150))
        shape = Shape(draw.randint(1, 24), in_features, groups * channels, groups)
        eps = draw.choice((1e-6, 1e-5, 1e-3))
        chain = replace(draw.choice(list(CHAINS.values())), groups=groups, eps=eps)
        x, parameters = random_inputs(chain, shape, CPU, seed=draw.randrange(2**31))
        yield (
            f"problem {number} of FGN_ACCURACY_SEED={SEED}, {chain.name} {shape}",
            chain,
            x,
            parameters,
            draw,
        )


def results(chain, x, parameters):
    """The result of each version that runs the chain here, by name."""
    shape = Shape(len(x), *reversed(parameters["weight"].shape), chain.groups)
    for version in versions_on(CPU):
        if launch_count(chain, shape, version, CPU) is not None:
            yield version, run_chain(chain, x, parameters, version, poison=True)


def disturb(draw, x, parameters):
    """Other scales, and offsets beside which a group's deviation may be next to nothing."""
    scale, offset = draw.choice(((0, 0), (1, 0), (0, 1), (1, 1)))
    x = x * 10.0 ** (scale * draw.uniform(-6, 6)) + offset * draw.choice((-1, 1)) * 10.0 ** draw.uniform(
        -2, 4
    )
    weight = parameters["weight"] * 10.0 ** (scale * draw.uniform(-3, 3))
    bias = parameters["bias"] + offset * 10.0 ** draw.uniform(-2, 4)
    return x, parameters | {"weight": weight, "bias": bias}


def used(y, exact, bound) -> float:
    """The largest part of the bound that an element uses; NaN and infinities use infinitely much."""
    return ((y.double() - exact).abs() / bound).nan_to_num(torch.inf, torch.inf).max().item()


def test_every_version_is_within_the_bound():
    for what, chain, x, parameters, draw in problems(40):
        x, parameters = disturb(draw, x, parameters)
        exact, bound = chain_error_bound(chain, x, parameters)
        for version, y in results(chain, x, parameters):
            assert used(y, exact, bound) <= 1, f"{version}, {what}"


def test_the_bound_is_not_so_wide_that_a_bfloat16_would_pass():
    """Nor a product that lacks a term."""
    found = 0
    for _, chain, x, parameters, _ in problems(40):
        exact, bound = chain_error_bound(chain, x, parameters)
        if chain.groups * x.shape[1] > 1 and parameters["weight"].shape[0] > 2 * chain.groups:
            rounded = chain_reference(chain, x.bfloat16().float(), parameters)
            lacking = chain_reference(chain, x[:, 1:], parameters | {"weight": parameters["weight"][:, 1:]})
            found += used(rounded, exact, bound) > 1 and (x.shape[1] == 1 or used(lacking, exact, bound) > 1)
    assert found >= 10


def test_values_whose_squares_add_up_to_less_than_overflows():
    """The bound holds as long as no group's D M^2 overflows, M being the largest sum of |x w| and |bias|."""
    for what, chain, x, parameters, draw in problems(12):
        chain = replace(chain, before=())
        terms = (x.abs() @ parameters["weight"].abs().T).max().item()
        channels = parameters["weight"].shape[0] // chain.groups
        x = x * ((2.0 ** draw.uniform(110, 126) / channels) ** 0.5 / terms)
        exact, bound = chain_error_bound(chain, x, parameters)
        for version, y in results(chain, x, parameters):
            assert used(y, exact, bound) <= 1, f"{version}, {what}"


def test_nan_and_infinities_go_where_torch_sends_them():
    special = (torch.nan, torch.inf, -torch.inf)
    for what, chain, x, parameters, draw in problems(20):
        tensors = [x, *parameters.values()]
        for _ in range(draw.randint(1, 4)):
            values = draw.choice(tensors).view(-1)
            values[draw.randrange(len(values))] = draw.choice(special)
        infinite = parameters["norm_weight"].isinf()
        parameters["norm_weight"][infinite] = 1.0
        expected = chain_reference(chain, x, parameters)
        for version, y in results(chain, x, parameters):
            assert misplaced(y, expected) == 0, f"{version}, {what}"


@pytest.mark.parametrize("infinity", [torch.inf, -torch.inf])
def test_an_infinite_weight_of_the_norm_keeps_the_sign(infinity):
    """Torch multiplies the weight with the mean before it subtracts, and gets NaN."""
    chain = replace(CHAINS["gemm_groupnorm_hardtanh"], groups=2, after=())
    x, parameters = random_inputs(chain, Shape(5, 12, 24, 2), CPU)
    plain = chain_reference(chain, x, parameters | {"norm_bias": torch.zeros(24)})
    parameters["norm_weight"][7] = infinity
    for version, y in results(chain, x, parameters):
        assert torch.equal(y[:, 7], plain[:, 7].sign() * infinity), version
