"""What the notebooks predict with: the counts, and the recorded results that they are held against."""

import re

import pandas as pd
import pytest
import torch

import fgn
from fgn.chains import CHAINS, default_shape
from fgn.functional import LIBRARY
from fgn.measure.accuracy import TORCH
from fgn.measure.machine import Machine
from fgn.measure.records import recorded
from fgn.native.source import source_text
from fgn.plot import lessons
from fgn.plot import results as plot
from fgn.plot.roofline import chain_roofline
from fgn.teaching import lessons as teach
from fgn.teaching import settings

NAME = "gemm_biasadd_hardtanh_mish_groupnorm"
MACHINE = Machine("a GPU", 4e12, {"ieee": 5e13}, multiprocessors=100, clock_hz=2e9, l2_bytes=50_000_000)


@pytest.fixture
def nothing_known(monkeypatch):
    """No GPU here, and no results recorded."""
    monkeypatch.setattr(settings, "recorded", list)
    monkeypatch.setattr(settings, "default_device", lambda: torch.device("cpu"))


@pytest.fixture
def on_a_gpu(monkeypatch):
    """As if this machine had `MACHINE`; nothing runs there."""
    monkeypatch.setattr(settings, "default_device", lambda: torch.device("cuda"))
    monkeypatch.setattr(settings, "machine_here", lambda: MACHINE)


def times(setting, **by_subject):
    where = {"chain": setting.chain.name, **setting.machine_shape._asdict(), "note": ""}
    rows = [
        where | {"part": part, "subject": subject, "median_ms": ms, "p10_ms": ms, "p90_ms": ms}
        for subject, ms in by_subject.items()
        for part in ("chain", "linear")
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("name", CHAINS)
def test_launches_are_those_that_the_library_counts(name):
    for shape in (default_shape(CHAINS[name], "cpu"), default_shape(CHAINS[name], "cuda")):
        for row in fgn.versions(name, shape, "cpu").itertuples():
            if row.supported:
                # torch's product is one of the call's launches, and none of fgn's
                launches = row.launches + (row.name == LIBRARY)
                assert len(teach.launches(name, shape, row.name)) == launches
    with pytest.raises(ValueError, match="version: expected one that runs this chain"):
        teach.launches(name, (4, 4, 1024, 1), "one_kernel")


def test_bytes_of_one_launch_are_those_of_the_floor():
    shape = (1024, 8192, 8192, 256)
    (whole,) = teach.launches(NAME, shape, "one_kernel").itertuples()
    assert whole.read + whole.written == fgn.measure.least_work(NAME, shape).bytes
    assert teach.rest_ms(NAME, shape, "one_kernel", MACHINE) == 0
    fused = teach.rest_ms(NAME, shape, "fused", MACHINE, launch_seconds=0)
    assert fused == pytest.approx(4 * 2 * (1024 * 8192 + 8192) / 4e12 * 1e3, rel=1e-3)


@pytest.mark.parametrize(
    "version, file, name, field",
    [
        ("shared_tile", "gemm_3_shared_tile", "TILE", "tile_rows"),
        ("register_tile", "gemm_4_register_tile", "TILE", "tile_columns"),
        ("register_tile", "gemm_4_register_tile", "TILE_K", "step_k"),
        ("vectorized", "gemm_5_vectorized", "THREADS", "threads"),
        ("vectorized", "gemm_5_vectorized", "THREAD_TILE", "thread_rows"),
        ("tiled", "pipelined_tile.h", "TILE_THREADS", "threads"),
        ("tiled", "pipelined_tile.h", "THREAD_ROWS", "thread_rows"),
    ],
)
def test_the_planned_product_has_the_tile_of_the_kernel_that_is_shown(version, file, name, field):
    problem = fgn.problem.find_problem(NAME, (1024, 512, 4096, 16))
    written = re.search(rf"^#define {name} (\d+)\b", source_text(file), re.M)
    assert getattr(teach.planned_product(problem, version), field) == int(written[1])


def test_predictions_without_a_machine_stop_at_cycles(nothing_known):
    setting = teach.setting(NAME)
    assert setting.machine is None and "predictions stop at counts and cycles" in str(setting)
    prediction = teach.predict(setting, instructions=3, l1_lines=33)
    assert prediction.cycles.to_dict() == {
        "multiply-adds": 0.25,
        "instructions": 0.75,
        "shared wavefronts": 0.0,
        "L1 lines": 33.0,
    }
    assert prediction.ms.isna().all() and setting.measured(times(setting, naive=1.0), "naive") == {}
    assert "cycles" in lessons.limits(prediction, {}).axes[0].get_xlabel()
    here = times(setting, naive=1.0)
    assert list(setting.beside(here).machine.unique()) == ["here: the simulator"]
    assert setting.machines() == {} and teach.beyond_product(setting).empty


def test_predictions_with_a_machine_are_times(on_a_gpu):
    setting = teach.setting(NAME)
    prediction = teach.predict(setting, instructions=3, l1_lines=33)
    steps = 1024 * 8192 * 8192 / 32
    assert prediction.ms["L1 lines"] == pytest.approx(33 * steps / (100 * 2e9) * 1e3)
    assert prediction.ms["memory bytes"] == pytest.approx(
        fgn.measure.floor(NAME, setting.machine_shape, MACHINE).memory_ms
    )
    measured = setting.measured(times(setting, naive=500.0), "naive")
    assert measured["a GPU, here"] == 500.0
    explained = teach.explain(prediction, {"a GPU, here": 500.0})
    assert explained.iloc[:, 1]["L1 lines"] == pytest.approx(100 * prediction.ms["L1 lines"] / 500)
    assert setting.machines()["here: a GPU"] == MACHINE
    assert "here: a GPU" in set(setting.beside(times(setting, naive=500.0)).machine)
    assert "here: a GPU" in set(setting.of_gpus(times(setting, naive=500.0)).machine)
    assert teach.bandwidth(setting, 128, measured).loc["a GPU, here", "TB/s"] == pytest.approx(
        128 * steps / 0.5 / 1e12
    )


def test_cycles_of_a_k_tile(on_a_gpu):
    setting = teach.setting(NAME)
    prediction = teach.predict(setting, instructions=1)
    # 512 tiles on 100 multiprocessors, one each: 6 rounds of 1024 k tiles of 8 * 128 * 128 / 32 steps.
    ms = 6 * 1024 * 2048 / 2e9 * 1e3
    frame = teach.k_tile_cycles(setting, prediction, {"here": ms}, tile=128, tile_k=8, blocks=1)
    assert frame.loc["here"].to_dict() == pytest.approx(
        {"multiplying": 1024, "in all": 2048, "waiting, % of all": 50}
    )


def test_check_linear_and_time_group_norm(nothing_known):
    setting = teach.setting("gemm_groupnorm_hardtanh")
    errors = teach.check_linear(setting, "tiled")["relative error"]
    assert list(errors.index) == ["tiled", "F.linear"] and errors["tiled"] <= 2 * errors["F.linear"]
    norm = teach.time_group_norm(setting, ["tiled"], seconds=0.01)
    assert list(norm.subject) == ["tiled", "F.group_norm"] and list(norm.note) == ["simulator", ""]


@pytest.mark.skipif("h200" not in recorded(), reason="no results of an H200 are recorded")
def test_recorded_results_are_there_for_the_notebooks():
    record = teach.recorded_results()
    setting = teach.setting(NAME)
    if not setting.on_gpu:
        drawn = setting.of_gpus(times(setting, naive=1.0))
        assert len(drawn) and drawn.machine.str.startswith("recorded: ").all()
    assert TORCH in setting.recorded_errors().index and len(setting.recorded())
    saved, bought = teach.savings(record), teach.bought(record)
    whole = record.benchmark[(record.benchmark.part == "chain") & record.benchmark.median_ms.notna()]
    ran = whole.groupby(["chain", "batch", "in_features"]).subject.agg(set)
    assert len(saved) == sum({"tiled", "fused"} <= subjects for subjects in ran) > 0
    fused = {"fused", "one_kernel", "few_rows_float32"}
    assert len(bought) == sum(bool(fused & subjects) for subjects in ran) > 0
    assert (bought.ms > 0).all()
    curves = teach.fusion_curves(record.machine, [512, 8192])
    assert (curves.loc[512] > curves.loc[8192]).all() and list(curves) == list(CHAINS)
    points = teach.roofline_points(record.benchmark, ["torch eager", "fused"])
    for figure in (
        lessons.savings(saved),
        lessons.share_of_fusion(curves, saved),
        chain_roofline(points, {"H200": record.machine}),
        lessons.traffic({name: teach.launches(NAME, (64, 64, 64, 4), name) for name in ("naive", "fused")}),
        plot.times(setting.beside(times(setting, naive=1.0)), setting.machines()),
    ):
        figure.canvas.draw()
