"""What notebook 06 predicts and draws with, and the kernels in its cells."""

import json
from dataclasses import replace

import pandas as pd
import pytest
import torch
import torch.nn.functional as F

import fgn
from fgn.chains import CHAINS, Shape
from fgn.measure import records
from fgn.measure.accuracy import TORCH, relative_error
from fgn.measure.benchmark import F_LINEAR
from fgn.native.library import version_names
from fgn.native.places import ROOT
from fgn.plot import tensor_core_figures as draw
from fgn.problem import Problem
from fgn.profiling import records as profile_records
from fgn.teaching import lessons as teach
from fgn.teaching import settings
from fgn.teaching import tensor_core_lessons as cores

NAME = "gemm_biasadd_hardtanh_mish_groupnorm"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def kernels():
    """The kernels of the notebook's `%%cuda` cells, by name."""
    cells = json.loads((ROOT / "notebooks" / "06_tensor_cores.ipynb").read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["source"][:1] == ["%%cuda\n"]]
    found = [fgn.kernel(source.removeprefix("%%cuda\n")) for source in sources]
    return {kernel.name: kernel for kernel in found}


@pytest.fixture
def nothing_known(monkeypatch):
    """No GPU here, and nothing recorded."""
    monkeypatch.setattr(settings, "recorded", list)
    monkeypatch.setattr(profile_records, "recorded", list)
    monkeypatch.setattr(settings, "default_device", lambda: CPU)


# ------------------------------------------------------------------------------------------------------------
# Pieces


def test_three_bfloat16_are_a_float():
    v = torch.randn(10_000, generator=torch.Generator().manual_seed(0)) * torch.logspace(-20, 20, 10_000)
    assert torch.equal(sum(piece.double() for piece in cores.THREE_BFLOAT16.split(v)), v.double())


@pytest.mark.parametrize("kind, bits", [(cores.TWO_HALVES, 22), (cores.TWO_BFLOAT16, 16)], ids=str)
def test_two_pieces_leave_out_what_is_below_their_bits(kind, bits):
    v = 1 + torch.rand(10_000, generator=torch.Generator().manual_seed(0))
    left_out = (v.double() - sum(piece.double() for piece in kind.split(v))).abs()
    assert 2.0 ** -(bits + 3) < left_out.max() <= 2.0**-bits


def test_products_are_those_above_the_last_bit_and_the_smallest_are_first():
    assert cores.TWO_HALVES.products == [(0, 1), (1, 0), (0, 0)]
    assert len(cores.THREE_BFLOAT16.products) == 6
    orders = [i + j for i, j in cores.THREE_BFLOAT16.products]
    assert orders == sorted(orders, reverse=True) and max(orders) == 2
    assert str(cores.TWO_HALVES) == "2 × fp16, 3 products"
    table = cores.pieces_table(torch.pi)
    assert table.loc[str(cores.THREE_BFLOAT16), "left out"] == 0
    assert (table["of the number"] < 2.0**-11).all()


def test_scales_of_rows_are_powers_of_two_that_fill_float16():
    v = torch.randn(50, 30, generator=torch.Generator().manual_seed(0)) * torch.logspace(-30, 30, 50)[:, None]
    scales = cores.row_scales(v)
    assert (torch.frexp(scales).mantissa == 0.5).all()
    largest = (v * scales).abs().amax(1)
    assert (largest >= 2**14).all() and (largest < 2**15).all()


# ------------------------------------------------------------------------------------------------------------
# The kernels in the notebook's cells


def test_lanes_have_the_sums_that_the_instruction_is_documented_with(kernels, device):
    row, column = torch.meshgrid(torch.arange(16), torch.arange(8), indexing="ij")
    assert torch.equal(cores.owners(kernels["whose"], device), row % 8 * 4 + column // 2)


@pytest.mark.parametrize(
    "kind", [cores.ONE_HALF, cores.TWO_HALVES, cores.TWO_BFLOAT16, cores.THREE_BFLOAT16], ids=str
)
def test_products_of_pieces_are_those_of_their_sums(kernels, device, kind):
    x, w = cores.sample(device, k=96, columns=24)
    y = cores.promoted_product(kernels["promoted"], x, w, kind, every=64)
    assert relative_error(y, F.linear(x.double(), w.double())) < {1: 1e-3, 2: 1e-5, 3: 1e-6}[kind.count]


def test_cut_off_sums_err_as_predicted(kernels):
    every = [16, 64, 256, 1024, 8192]
    errors = cores.promoted_errors(kernels["promoted"], CPU, every)
    halves = errors[str(cores.TWO_HALVES)]
    ratio = halves / cores.predicted_errors(every).together
    assert ratio.between(0.4, 1.6).all()
    assert halves[64] <= cores.float32_error(CPU) < halves[8192] / 10
    # Two bfloat16 hold too little for promotions to matter.
    assert errors[str(cores.TWO_BFLOAT16)][64] > 5 * halves[64]


def test_cutting_errs_to_one_side(kernels):
    errors = cores.signed_errors(kernels["promoted"], CPU, [16, 8192])
    assert (errors[8192] < 0).all()
    assert 0.2 < (errors[16] < 0).mean() < 0.8


# ------------------------------------------------------------------------------------------------------------
# The quad, and what the norm asks of shared memory


@pytest.mark.parametrize("channels", [8, 16, 32])
def test_two_shuffles_are_a_sum(channels):
    values = torch.arange(channels).square()
    steps = cores.quad_sums(values)
    assert (steps[2] == values.sum()).all() and steps[0].sum() == values.sum()
    assert steps[0, 1] == values.view(-1, 8)[:, 2:4].sum()


def test_shared_bytes_are_added_up_by_file():
    columns = [f"smsp__sass_data_bytes_mem_shared_op_{op}.sum" for op in ("ld", "st")]
    lines = pd.DataFrame([["a/x.h", 8, 0], ["a/x.h", 8, 4], ["b.cu", 0, 0]], columns=["file", *columns])
    assert cores.shared_bytes(lines, 2).to_dict() == {"x.h": 10.0}


# ------------------------------------------------------------------------------------------------------------
# What is recorded


def test_nothing_is_there_where_nothing_is_known(nothing_known):
    setting = teach.setting(NAME)
    assert cores.predicted_times(setting).empty and cores.recorded_precisions(setting).empty
    assert cores.precisions_here(setting).empty and cores.recorded_launches(setting).empty
    assert cores.tensor_core_device(setting) == CPU


def test_errors_here_are_those_of_every_precision_that_runs(nothing_known):
    errors = cores.errors_here(teach.setting(NAME)).relative_error
    assert {(precision, TORCH) for precision in fgn.precision.PRECISIONS} <= set(errors.index)
    assert (errors.xs("tensor_core", level="version") < [1e-6, 1e-3, 1e-2, 1e-3]).all()


@pytest.fixture
def as_if_on_a_gpu(monkeypatch):
    """What is measured on a GPU, measured on the simulator."""
    monkeypatch.setattr(teach.Setting, "on_gpu", property(lambda setting: True))


def test_times_here_are_measured_in_every_precision(nothing_known, as_if_on_a_gpu):
    small = Problem(CHAINS[NAME], Shape(16, 64, 256, 32))
    times = cores.precisions_here(replace(teach.setting(NAME), problem=small), seconds=0.001)
    ours = times[(times.part == "chain") & ~times.subject.str.contains(r"torch|F\.")]
    assert set(ours.precision) == set(fgn.precision.PRECISIONS) and ours.tensor_cores.all()
    assert times[times.part == "chain"].relative_error.notna().all()
    assert (cores.best_of(times)["F.linear ÷ ours"] > 0).all()
    draw.ladder(times).canvas.draw()


recorded_here = pytest.mark.skipif(
    "h200" not in records.recorded() or records.read("h200").precisions is None,
    reason="no precisions of an H200 are recorded",
)


@recorded_here
def test_recorded_times_come_with_the_errors_of_their_precision():
    setting = teach.setting(NAME)
    times = cores.recorded_precisions(setting)
    assert set(times.precision) == set(fgn.precision.PRECISIONS) and times.relative_error.notna().all()
    one = times[(times.subject == "hopper") & (times.precision == "bf16") & (times.part == "chain")]
    table = setting.record.precision_errors
    wanted = {"chain": NAME, **setting.machine_shape._asdict(), "precision": "bf16", "version": "hopper"}
    found = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    assert one.relative_error.tolist() == found.relative_error.tolist() and len(one) == 1
    torch_float32 = times[times.subject.isin(["torch eager", F_LINEAR]) & (times.precision == "ieee")]
    assert not torch_float32.tensor_cores.any() and not times.tensor_cores[times.subject == "fused"].any()
    assert times.tensor_cores[times.subject == "hopper"].all()
    best = cores.best_of(times)
    assert best.ms["bf16"] <= one.median_ms.iloc[0] and (best["F.linear ÷ ours"] > 0).all()
    predicted = cores.predicted_times(setting)
    assert list(predicted.index) == [cores.NO_TENSOR_CORES, *fgn.precision.PRECISIONS]
    assert (predicted["predicted ms"] == predicted[["compute ms", "memory ms"]].max(axis=1)).all()


@recorded_here
def test_every_picture_is_drawn(kernels):
    setting = teach.setting(NAME)
    times = cores.recorded_precisions(setting)
    every = [16, 8192]
    values = torch.arange(32)
    owners = cores.owners(kernels["whose"], CPU)
    rows = cores.weight_times(setting.record)
    assert (rows["weight ms"] < rows["few_rows ms"]).all() and set(rows.precision) == set(
        fgn.precision.PRECISIONS
    )
    figures = [
        draw.precisions(cores.predicted_times(setting), times, "a title"),
        draw.ladder(times, "a title"),
        draw.promotion(
            cores.promoted_errors(kernels["promoted"], CPU, every),
            cores.predicted_errors(every),
            1e-7,
            {"hopper": 64},
        ),
        draw.signed_errors(cores.signed_errors(kernels["promoted"], CPU, every, k=1024)),
        draw.quad(owners, values, cores.quad_sums(values)),
        draw.few_rows(rows),
    ]
    if profile_records.recorded():
        figures += [draw.launches(cores.recorded_launches(setting))]
    for figure in figures:
        figure.canvas.draw()


def test_the_notes_of_what_was_tried():
    history = cores.history()
    assert set(history.rung) <= {*version_names(), "halves"}
    assert history[["step", "prediction", "time", "outcome"]].map(lambda text: len(text) > 3).all(axis=None)
    assert len(cores.history("hopper")) == (history.rung == "hopper").sum() > 0
    page = cores.notes(history).to_html()
    assert all(step in page for step in history.step) and cores.NOT_RECORDED in page
