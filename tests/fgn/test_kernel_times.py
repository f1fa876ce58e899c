"""Predicted times of fgn's own launches: samples of calls of the library, and a notebook's tables."""

import math

import pytest
import torch

from cudasim.predicting.of_calls import predict_call
from fgn.calls import run_chain
from fgn.functional import PRODUCT
from fgn.problem import find_problem
from fgn.teaching.kernel_times import gpus, kernel_times, version_times

SHAPE = (64, 512, 512)


def naive_chain():
    problem = find_problem("gemm_groupnorm_hardtanh", (*SHAPE, 16))
    x, parameters = problem.inputs("cpu")
    return lambda: run_chain(problem.chain, x, parameters, "naive")


def test_a_launch_of_the_library_is_predicted_from_some_of_its_blocks():
    x, weight = torch.rand(64, 512), torch.rand(512, 512)
    found = predict_call(
        lambda: run_chain(PRODUCT, x, {"weight": weight}, "naive"), gpu=["H200", "T4"], seconds=0.05
    )
    (one,) = found.values()
    sample = one.sample
    assert one.kernel == "naive_gemm_kernel" and [of.card.name for of in one.on] == ["H200", "T4"]
    assert len(sample.blocks) < sample.total == 128
    loads = sum(of.requests for of in sample.instructions if (of.space, of.operation) == ("global", "ld"))
    assert loads * sample.scale == 1048576  # as ncu counts them on an H200
    assert {name for name, _, _ in sample.memory} >= {"x", "weight", "y"}
    # Its lines are those of its file: the loop has nearly all instructions.
    lines = one.lines.set_index("line")["clocks"]
    assert one.lines["file"].eq("gemm_1_naive.cu").all() and lines.max() > 0.5


def test_each_launch_of_a_call_has_blocks_of_its_own():
    seen = []

    def wanted(number, launch):
        seen.append((number, launch.kernel))
        return number in (1, 2)

    found = predict_call(naive_chain(), wanted=wanted, seconds=0.01)
    assert [kernel for _, kernel in seen][:3] == [
        *("naive_gemm_kernel", "naive_moments_kernel", "naive_normalise_kernel"),
    ]
    assert set(found) == {1, 2} and found[2].kernel == "naive_normalise_kernel"
    assert found[1].sample.total == 4 and found[2].sample.total > len(found[2].sample.blocks) > 1


def test_an_operators_store_is_counted_at_its_own_line():
    """The C compiler would store the results of several operators by one instruction, with the line of one of
    them, as it thinks best for the processor that builds the library; hardtanh was predicted as gelu."""
    problem = find_problem("gemm_biasadd_hardtanh_mish_groupnorm", (*SHAPE, 16))
    x, parameters = problem.inputs("cpu")
    call = lambda: run_chain(problem.chain, x, parameters, "tiled")  # noqa: E731
    found = predict_call(call, wanted=lambda _, of: of.kernel == "pointwise_kernel", seconds=0.01)
    for of in found.values():
        places = {kind: set() for kind in ("ld", "st")}
        for one in of.sample.instructions:
            if one.place.file == "pointwise.h" and one.space == "global":
                places[one.operation].add(one.place.line)
        assert places["st"] <= places["ld"], places
    _, hardtanh, mish = (of.seconds for of in found.values())
    assert hardtanh < mish


def test_a_call_that_launches_something_else_each_time_is_refused():
    calls = []
    problem = find_problem("gemm_groupnorm_hardtanh", (*SHAPE, 16))
    x, parameters = problem.inputs("cpu")

    def call():
        calls.append(1)
        run_chain(problem.chain, x, parameters, "naive" if len(calls) < 3 else "tiled")

    with pytest.raises(ValueError, match="the same launches"):
        predict_call(call, seconds=0.01)


def test_the_notebooks_table_has_a_row_for_each_launch_and_a_column_for_each_gpu():
    launches = kernel_times("gemm_groupnorm_hardtanh", (*SHAPE, 16), ["naive", "fused"], ["H200", "T4"])
    assert list(launches.columns) == ["version", "kernel", "limiter", "H200", "T4"]
    assert (launches["version"] == "naive").sum() == 4 and (launches["H200"] > 0).all()
    total = version_times(launches, "gemm_groupnorm_hardtanh", (*SHAPE, 16))
    assert list(total.index) == ["naive", "fused", "floor"]
    assert total.loc["floor", "H200"] < total.loc["fused", "H200"]
    # A T4 cannot hold a block of the fused product: no sum without it.
    assert math.isnan(total.loc["fused", "T4"]) and total.loc["naive", "T4"] > 0
    assert total.loc["naive", "T4"] == pytest.approx(launches[launches.version == "naive"]["T4"].sum())


def test_the_readers_own_gpu_comes_first(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA GeForce RTX 4090")
    assert gpus("H200", "RTX 4090") == ["RTX 4090", "H200"]
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Voodoo 3")
    assert gpus("H200") == ["H200"] and "card --measure" in capsys.readouterr().out
