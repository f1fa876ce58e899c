"""The model of fusion: its launches against the library's, its costs, and its times against recorded ones."""

import builtins
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import fgn
from fgn.chains import CHAINS, Shape, problem
from fgn.functional import LIBRARY
from fgn.measure.benchmark import COMPILED, EAGER, F_LINEAR
from fgn.model import costs
from fgn.model import predictions as model
from fgn.model.work import STANDS_BY, SUBJECTS, works
from fgn.plot import fusion_maps as model_plots
from fgn.precision import PRECISIONS
from fgn.profiling import records as profile_records
from fgn.teaching import explore

NAME = "gemm_biasadd_hardtanh_mish_groupnorm"
NARROW, SQUARE, FEW = (16384, 1024, 1024, 32), (1024, 8192, 8192), (16, 8192, 8192)
RECORD = "h200"


@pytest.fixture(scope="module")
def card():
    return model.card(RECORD)


@pytest.fixture(scope="module")
def checked():
    return model.check(RECORD)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", [(64, 512, 512, 16), NARROW, (7, 36, 96, 3), (16, 8192, 8192, 256)])
def test_launches_are_as_many_as_the_library_counts(shape, precision):
    for name in CHAINS:
        chain, sizes = problem(name, shape)
        table = fgn.versions(chain, shape, "cpu", precision)
        modelled = table.name.isin(fgn.model.work.SUBJECTS)
        for row in table[table.supported & modelled].itertuples():
            launches = works(chain, sizes, row.name, precision, device="cpu")
            # the model has torch's product too
            assert len(launches) == row.launches + (row.name == LIBRARY), row.name


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_kernel_that_a_gpu_launches_has_a_cost(precision):
    for shape in ((7, 36, 96, 3), (4096, 101, 1000, 2), (30, 768, 688, 4), (20000, 64, 6144, 4)):
        for subject in fgn.model.work.SUBJECTS:
            try:
                launches = model.predict("gemm_groupnorm_hardtanh", shape, subject, precision)
            except ValueError as refused:
                # A version that does not run the shape; never a kernel without a cost.
                assert "is not known" not in str(refused)
                continue
            assert (launches["µs"] > 0).all()


def test_bytes_of_one_launch_are_those_of_the_floor():
    chain, shape = problem(NAME, NARROW)
    # In tf32, hopper reads the tensors as they are: no halves, and no vectors that undo their scaling.
    for subject, precision in (("one_kernel", "ieee"), ("hopper", "tf32")):
        (product,) = works(chain, shape, subject, precision)
        assert product.read + product.written == fgn.measure.least_work(chain, shape).bytes


def test_what_does_not_run_is_refused():
    chain, shape = problem("gemm_groupnorm_hardtanh", SQUARE)
    for subject, words in (
        ("one_kernel", "at most 128 channels"),
        ("mine", "mine"),
    ):
        with pytest.raises(ValueError, match=words):
            works(chain, shape, subject)
    with pytest.raises(ValueError, match="at most 16384"):
        works(chain, shape._replace(batch=16385), "few_rows")
    with pytest.raises(ValueError, match="fused needs float32"):
        works(chain, shape, "fused", "bf16")


def test_the_profiles_are_of_the_launches_that_the_model_knows(card):
    """Else a kernel would quietly lose its cost: profile again, or teach the model the new launches."""
    launches = profile_records.read(RECORD).launches
    calls = launches.groupby(["chain", *Shape._fields, "precision", "subject"], sort=False)
    found = list(costs._profiled(launches, card.machine.multiprocessors))
    known = {(row["chain"], row["batch"], row["precision"], row["subject"]) for _, row in found}
    assert {(key[0], key[1], key[-2], key[-1]) for key, _ in calls} == known


def test_costs_are_found_for_every_kernel(card):
    for subject in SUBJECTS:
        for precision in PRECISIONS:
            for shape in (NARROW, (1024, 8192, 8192, 256), (16, 8192, 8192, 256), (40, 1024, 1024, 32)):
                try:
                    launches = works(*problem(NAME, shape), subject, precision, card.machine.multiprocessors)
                except ValueError:
                    continue
                assert {work.kernel for work in launches} - {STANDS_BY} <= set(card.costs)
    for cost in card.costs.values():
        assert (cost.seconds >= 0).all() and cost.seconds.sum() > 0 and cost.alone >= 1 and cost.origin
    table = costs.costs_table(card)
    assert set(table.index) == set(card.costs) and (table["alone"] >= 1).all()


def test_instructions_of_operators_are_counted(card):
    for kinds in card.instructions.values():
        assert kinds["double"] == 1 and max(kinds, key=kinds.get) == "mish"
    assert costs.instructions_of(("silu",), card.instructions["fgn"]) == card.instructions["fgn"]["mish"]


def test_terms_of_a_cost_are_told_apart_and_never_negative():
    rows = np.array([[1.0, 8, 0, 0], [1, 128, 0, 0], [1, 8, 100, 0]])
    found = costs._without_negatives(rows, rows @ np.array([5.0, 0.5, 0.02, 0]))
    assert found == pytest.approx([5, 0.5, 0.02, 0], rel=1e-6)
    # A block that gets cheaper than its steps is given no negative time of its own.
    found = costs._without_negatives(rows[:2], np.array([3.0, 64.0]))
    assert found[1] == pytest.approx(0.5, rel=0.5) and (found >= 0).all()


def test_a_call_takes_no_less_than_its_bytes_and_its_launches(card):
    for subject in SUBJECTS:
        for shape in (NARROW, (1024, 8192, 8192, 256), (65536, 512, 512, 32)):
            try:
                table = model.predict(NAME, shape, subject, of=card)
            except ValueError:
                continue
            needs = table[["DRAM, µs", "L2, µs", "multiprocessors, µs"]].max(axis=1)
            assert (table["µs"] >= needs).all()
            assert table["launch itself, µs"].sum() >= len(table) * card.machine.launch_seconds * 1e6 * 0.999
            assert set(table.binds) <= {*costs.PARTS, "DRAM", "L2", "launch", "epilogue", "waiting"}


def test_what_the_cache_keeps_costs_no_memory(card):
    small, large = (
        model.predict("matmul_groupnorm_leakyrelu_sum", (batch, 512, 512, 32), "tiled", of=card)
        for batch in (1024, 262144)
    )
    assert (small["DRAM, µs"][1:-1] * 1.5 < large["DRAM, µs"][1:-1] / 256).all()


def test_predicted_times_are_those_recorded(checked):
    """What the model is for. The recorded times may be taken again; the bounds leave room for that."""
    table = model.errors(checked)
    assert table["median"]["all"] <= 15 and table["median of these"]["all"] <= 15
    assert table["held out"]["all"] >= 100
    # tensor_core may be recorded before it is profiled.
    assert (table["median"].drop(["tensor_core"], errors="ignore") <= 20).all()
    assert (model.errors(checked, "precision")["median"] <= 20).all()
    assert (checked.error.abs() <= 0.3).mean() >= 0.75


def test_predicted_ratios_are_those_measured(card):
    rows = pd.concat(
        model.recorded_ratios(name, precision, unfused, name=RECORD)
        for name in CHAINS
        for precision in PRECISIONS
        for unfused in (EAGER, COMPILED)
    )
    assert len(rows) >= 30
    assert (rows.predicted / rows.ratio - 1).abs().median() <= 0.2
    far = rows[(rows.ratio > 1.3) | (rows.ratio < 0.75)]
    assert ((far.predicted > 1) == (far.ratio > 1)).mean() >= 0.75


def test_operators(card):
    table = model.operators(NAME, NARROW, "bf16", of=card)
    assert list(table.operator) == ["add_channel", "hardtanh", "mish", "norm"]
    assert table["buys, µs"].to_numpy() == pytest.approx((table["alone, µs"] - table["fused, µs"]).to_numpy())
    assert (table["fused, µs"] >= 0).all() and (table["% of the unfused chain"] < 100).all()
    assert table["own launches"].sum() == len(model.predict(NAME, NARROW, EAGER, "bf16", card)) - 1
    with pytest.raises(
        ValueError, match=r"unfused: expected a subject with a launch for each .* 'torch.compile'"
    ):
        model.operators(NAME, NARROW, "bf16", COMPILED, of=card)


def test_a_chain_of_ones_own(card):
    mine = fgn.chains.Chain("mine", before=(), groups=32, after=(fgn.chains.Pointwise("silu"),))
    with_silu, without = (
        model.predict(chain, NARROW, "one_kernel", of=card)["µs"].sum()
        for chain in (mine, replace(mine, after=()))
    )
    assert with_silu > without
    # A shape at which one more operator does not make another tiling the fastest one.
    mine, shape = replace(mine, groups=16), Shape(30000, 512, 512, 16)
    once = model.operators(mine, shape, "bf16", of=card)
    twice = model.operators(replace(mine, after=2 * mine.after), shape, "bf16", of=card)
    assert list(once.operator) == ["norm", "silu"] and list(twice.operator) == ["norm", "silu", "silu"]
    # Two of a kind share what they add. Of one the other team's products hide a part, of more they hide less.
    assert twice["fused, µs"][1] == twice["fused, µs"][2]
    assert once["fused, µs"][1] < twice["fused, µs"][2] < 2 * once["fused, µs"][1]


def test_what_is_not_profiled_is_not_guessed(card):
    poor = card._replace(costs={})
    with pytest.raises(ValueError, match="what pipelined_gemm_kernel costs is not known for NVIDIA H200"):
        model.predict(NAME, NARROW, "tiled", of=poor)
    assert model.versions(NAME, NARROW, of=poor).empty


def test_versions_and_the_best_of_them(card):
    table = model.versions(NAME, NARROW, of=card)
    assert table.ms["naive"] > table.ms["shared_tile"] > table.ms["tiled"] > table.ms["fused"]
    assert model.best_version(NAME, NARROW, of=card) in ("fused", "one_kernel")
    assert "naive" not in model.versions(NAME, NARROW, "bf16", card).index
    chosen = model.best_version(NAME, NARROW, "bf16", card)
    assert model.versions(NAME, NARROW, "bf16", card).ms.drop([EAGER, COMPILED, F_LINEAR]).idxmin() == chosen


def test_precision_changes_the_product_more_than_the_rest(card):
    table = model.by_precision(NAME, NARROW, of=card)
    assert list(table.index) == list(PRECISIONS)
    assert table["product"]["ieee"] > 5 * table["product"]["bf16"]
    assert table["beyond the product"]["ieee"] < 3 * table["beyond the product"]["bf16"]
    assert table["unfused ÷ fused"]["bf16"] > table["unfused ÷ fused"]["ieee"]


def test_map(card):
    frame = model.fusion_map(NAME, "ieee", EAGER, batches=(1024, 65536), widths=(512, 2048, 8192), of=card)
    assert frame.shape == (2, 3) and frame.attrs["unfused"] == EAGER
    assert frame.loc[65536].is_monotonic_decreasing, "long sums leave less to be saved"
    shape = Shape(1024, 2048, 2048, 2048 // model.CHANNELS_OF_GROUP)
    slow, fast = (model.predict(NAME, shape, subject, of=card)["µs"].sum() for subject in (EAGER, "fused"))
    assert frame.loc[1024, 2048] >= slow / fast * 0.999
    assert (
        model.fusion_map(NAME, "bf16", "tiled", batches=(64,), widths=(512,), of=card).isna().all(axis=None)
    )
    for call in (model.fusion_map, lambda *given, of: model.predict(given[0], NARROW, EAGER, given[1], of)):
        with pytest.raises(ValueError, match="precision: expected one of"):
            call(NAME, "fp8", of=card)


@pytest.mark.parametrize("precision", ["ieee", "bf16"])
def test_map_is_of_the_groups_that_it_names(card, precision):
    frame = model.fusion_map(NAME, precision, batches=(16, 65536), widths=(256, 2048), of=card)
    for batch, width in ((16, 256), (16, 2048), (65536, 256), (65536, 2048)):
        shape = Shape(batch, width, width, width // model.CHANNELS_OF_GROUP)
        times = model.versions(NAME, shape, precision, card).ms
        fastest = times.reindex(model.FUSED[precision]).min()
        assert frame.loc[batch, width] == pytest.approx(times[EAGER] / fastest)


def test_map_of_float32_has_the_version_for_few_rows(card):
    assert model.best_version(NAME, (16, 2048, 2048, 64), "ieee", card) == "few_rows_float32"


def test_pictures(card, checked):
    maps = [model.fusion_map(NAME, precision, of=card) for precision in ("ieee", "bf16")]
    recorded = [model.recorded_ratios(NAME, precision, name=RECORD) for precision in ("ieee", "bf16")]
    figure = model_plots.fusion_maps(maps, recorded, mark=(1024, 1024))
    shown = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in shown] == ["ieee", "bf16"]
    for axes, frame, points in zip(shown, maps, recorded, strict=True):
        assert len(axes.texts) == frame.size
        assert len(axes.lines) == len(points), "a circle for each measured ratio"
    assert isinstance(model_plots.checked(checked), Figure)
    tables = {name: model.predict(NAME, NARROW, name, of=card) for name in ("tiled", "one_kernel")}
    bars = model_plots.composition(tables, {"tiled": 1.0})
    assert len(bars.axes[0].texts) == 2
    operators = model.operators(NAME, NARROW, of=card)
    assert len(model_plots.operators(operators).axes[0].texts) == 2 * len(operators)


def test_controls():
    pytest.importorskip("ipywidgets")
    box = explore.explore(RECORD)
    precision, _, output = box.children
    assert precision.value in PRECISIONS and len(output.outputs) == 0
    drawn = explore.draw(NAME, "bf16", EAGER, model.BEST, 16384, 1024, 32, RECORD)
    assert all(isinstance(figure, Figure) for figure in drawn) and len(drawn) == 2
    assert "tiled does not run bf16" in explore.draw(NAME, "bf16", "tiled", model.BEST, 64, 512, 32, RECORD)


def test_controls_need_ipywidgets(monkeypatch):
    real = builtins.__import__

    def without(name, *arguments):
        if name == "ipywidgets":
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"explore\(\) needs ipywidgets"):
        explore.explore(RECORD)
