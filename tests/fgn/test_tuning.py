"""fgn.tune(): what it measures, what it keeps, and that it changes how a call runs and not what it gives."""

import json

import pytest
import torch
from torch import nn

import fgn
from fgn.chains import CHAINS, Shape, problem, random_inputs
from fgn.functional import plan_of, run_chain
from fgn.native import repeated, tuned
from fgn.native.library import version_names
from fgn.plans import DEVICES
from fgn.reference import chain_reference64

CPU = torch.device("cpu")
SHAPE = Shape(5, 24, 32, 4)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Choices of a test's own, which nothing else sees."""
    monkeypatch.setattr(tuned, "path_of", lambda device: tmp_path / "tuned" / f"{device.type}.json")
    monkeypatch.setattr(tuned, "_choices", {})
    repeated.forget()
    yield
    repeated.forget()


def inputs(device=CPU, dtype=torch.float32, shape=SHAPE):
    chain = problem(CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"], shape)[0]
    return chain, *random_inputs(chain, shape, device, 3, dtype)


def key(chain, precision="ieee"):
    return tuned.key_of(chain, SHAPE, precision, False)


def test_what_is_tuned_is_what_a_model_calls():
    model = fgn.fuse(nn.Sequential(nn.Linear(24, 32), nn.GroupNorm(4, 32), nn.ReLU(), nn.Linear(32, 8)))
    x = torch.randn(5, 24)
    before = model(x)
    rows = fgn.tune(model, x, candidates=1, seconds=0.001)
    assert len(rows) == 1
    assert rows.loc[0, ["batch", "in_features", "out_features", "groups"]].tolist() == [5, 24, 32, 4]
    assert rows.loc[0, "measured"] >= 5
    torch.testing.assert_close(model(x), before, rtol=1e-5, atol=1e-5)


def test_a_choice_is_run_and_kept_for_later_processes(device):
    """A choice of every version in turn is what a call without a version runs."""
    chain, x, parameters = inputs(device)
    expected = run_chain(chain, x, parameters, precision="ieee")
    for version in version_names(device.type):
        if plan_of(chain, SHAPE, version, device) is None:
            continue
        tuned.choose(device, key(chain), tuned.Choice(version, 0))
        repeated.forget()
        assert default_of_a_call(chain, device) == version
        y = run_chain(chain, x, parameters, precision="ieee", poison=True)
        torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
        tuned.save(device)
        tuned._choices.clear()  # as in another process
        assert default_of_a_call(chain, device) == version
    tuned.forget(device)
    assert not tuned.path_of(device).exists()


def default_of_a_call(chain, device):
    return version_names(device.type)[plan_of(chain, SHAPE, None, device, frozen=False).version]


def test_choices_of_another_build_are_not_used():
    chain = inputs()[0]
    tuned.choose(CPU, key(chain), tuned.Choice("naive", 0))
    tuned.save(CPU)
    kept = json.loads(tuned.path_of(CPU).read_text())
    assert default_of_a_call(chain, CPU) == "naive"
    for text in (json.dumps(kept | {"library": "another"}), "{", "[]", '{"library": 1}', ""):
        tuned.path_of(CPU).write_text(text)
        tuned._choices.clear()
        assert tuned.choice(CPU, chain, SHAPE, "ieee", False) is None


@pytest.mark.parametrize("choice", [("naive", 3), ("hopper_2_tma", 0), ("no such version", 0)])
def test_a_choice_that_does_not_run_gives_way_to_the_default(choice):
    chain, x, parameters = inputs()
    expected = run_chain(chain, x, parameters, precision="ieee")
    tuned.choose(CPU, key(chain), tuned.Choice(*choice))
    repeated.forget()
    assert torch.equal(run_chain(chain, x, parameters, precision="ieee"), expected)


def test_candidates_come_in_the_order_of_their_models():
    """On a GPU that is not here too: a plan is arithmetic."""
    chain = inputs()[0]
    shape = Shape(1000, 2048, 1280, 32)
    for version in ("few_rows", "hopper"):
        plans = [
            plan_of(chain, shape, version, CPU, "fp16", DEVICES["H200"], candidate=number)
            for number in range(5)
        ]
        times = [plan.nanoseconds for plan in plans]
        assert times == sorted(times) and len(set(times)) == len(times)
        assert len({tuple(plan.choice) for plan in plans}) == len(plans)
    assert plan_of(chain, shape, "naive", CPU, "ieee", DEVICES["H200"], candidate=1) is None


def test_every_candidate_is_right(device):
    """Every way to cut a product, for a chain whose groups no tile likes."""
    shape = Shape(70, 264, 96, 4)
    chain, x, parameters = inputs(device, torch.float16, shape)
    expected = chain_reference64(chain, x, parameters)
    versions = [v for v in ("few_rows", "hopper") if plan_of(chain, shape, v, device, "fp16") is not None]
    assert versions
    for version in versions:
        number = 0
        while number < 40 and plan_of(chain, shape, version, device, "fp16", candidate=number) is not None:
            tuned.choose(device, tuned.key_of(chain, shape, "fp16", False), tuned.Choice(version, number))
            y = run_chain(chain, x, parameters, precision="fp16", poison=True)
            torch.testing.assert_close(y.double(), expected, rtol=2e-2, atol=2e-2)
            number += 1
        assert number > 3


def test_what_tune_refuses():
    with pytest.raises(TypeError, match="model: expected a module or a function, got int"):
        fgn.tune(3)
    with pytest.raises(ValueError, match="candidates: expected 1 or more, got 0"):
        fgn.tune(nn.Linear(2, 2), torch.ones(1, 2), candidates=0)
    assert fgn.tune(nn.Linear(2, 2), torch.ones(1, 2)).empty
