"""compare, bench, the floor, records and plots: on small shapes, for what they say, not for the times."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from accuracy import versions_on
from readme import BEGIN, END, results_table, updated

import fgn
from cudasim.building.compilers import MissingToolError
from fgn import bench as bench_function
from fgn.chains import CHAINS, Shape, problem
from fgn.functional import LIBRARY, default_version, launch_count
from fgn.measure import records, subjects
from fgn.measure.accuracy import TORCH, misplaced, relative_error
from fgn.measure.benchmark import COLUMNS, EAGER, F_LINEAR, measure, tensor_core_versions
from fgn.measure.floors import floor
from fgn.measure.machine import Machine
from fgn.native.library import version_names
from fgn.plot import results as plot
from fgn.plot import style
from fgn.reference import ieee_float32

SHAPE = Shape(6, 16, 32, 4)
CPU = torch.device("cpu")
TENSOR = tensor_core_versions(CPU)
ORDINARY = [name for name in versions_on(CPU) if name not in (*TENSOR, LIBRARY)]
MACHINE = Machine("a GPU", 4e12, {"ieee": 5e13})


def versions_for(name, shape, device):
    """Those that run this very shape: not all that run on a device run every one."""
    chain, shape = problem(name, shape, device)
    return [version for version in versions_on(device) if launch_count(chain, shape, version, device)]


@pytest.mark.parametrize("name", CHAINS)
def test_compare(name, device):
    frame = fgn.compare(name, shape=(33, 64, 96, 12), device=device)
    assert list(frame.index) == [TORCH, *versions_for(name, (33, 64, 96, 12), device)]
    assert (frame.misplaced == 0).all()
    assert (frame.ratio <= 2).all() and (frame.max_error < 1e-4).all()
    other = fgn.compare(name, shape=(33, 64, 96, 12), device=device, seed=1)
    assert (other.relative_error != frame.relative_error).all()


def test_compare_a_module_on_its_own_parameters_and_input(device):
    module = fgn.MatmulGroupNormLeakyReluSum(16, 32, 4).to(device)
    assert (fgn.compare(module).ratio <= 2).all()
    frame = fgn.compare(module, torch.full((3, 16), float("nan"), device=device), versions=["naive"])
    assert list(frame.index) == [TORCH, "naive"] and (frame.misplaced == 0).all()


def test_errors_are_what_they_say():
    exact = torch.tensor([3.0, 4.0, float("inf"), float("nan")], dtype=torch.float64)
    y = torch.tensor([3.0, 5.0, float("inf"), float("nan")])
    assert relative_error(y, exact) == pytest.approx(1 / 5)
    assert misplaced(y, exact.float()) == 0
    for position, wrong in ((0, float("nan")), (1, float("inf")), (2, -float("inf")), (2, 1.0), (3, 0.0)):
        changed = y.clone()
        changed[position] = wrong
        assert misplaced(changed, exact.float()) == 1


def test_bench(device):
    frame = fgn.bench("gemm_groupnorm_hardtanh", SHAPE, device=device, rivals=(EAGER, F_LINEAR), seconds=0)
    assert tuple(frame.columns) == COLUMNS
    chain = frame[frame.part == "chain"]
    here = versions_for("gemm_groupnorm_hardtanh", SHAPE, device)
    refused = chain[chain.median_ms.isna()]
    assert list(chain.subject) == [*here, EAGER, *refused.subject]
    assert (
        set(refused.subject) == set(version_names()) - set(here)
        and refused.note.str.startswith("needs").all()
    )
    frame = frame[frame.median_ms.notna()]
    linear = frame[frame.part == "linear"]
    assert linear.subject.iloc[0] == version_names()[0] and linear.subject.iloc[-1] == F_LINEAR
    assert (frame["count"] == 5).all()
    assert ((frame.min_ms > 0) & (frame.min_ms <= frame.p10_ms) & (frame.p10_ms <= frame.median_ms)).all()
    assert (frame.median_ms <= frame.p90_ms).all()
    ours = frame[~frame.subject.isin((EAGER, F_LINEAR))]
    assert (ours.note == ("simulator" if device.type == "cpu" else "")).all()


def test_a_rival_that_fails_is_in_the_table(monkeypatch):
    def broken(function, **options):
        def call(*arguments):
            raise RuntimeError("no compiler for this\nand a long story")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    frame = fgn.bench("gemm_groupnorm_hardtanh", SHAPE, device="cpu", rivals=bench_module().RIVALS, seconds=0)
    row = frame.set_index("subject").loc["torch.compile"]
    assert row.note == "failed: no compiler for this" and np.isnan(row.median_ms)


def bench_module():
    import sys

    return sys.modules[bench_function.__module__]


def test_measure_takes_turns_and_leaves_out_the_warm_up():
    calls = []
    times = measure(
        {name: lambda name=name: calls.append(name) for name in "ab"},
        torch.device("cpu"),
        seconds=1.0,
        at_most=7,
    )
    assert calls == list("aabb" + "ab" * 7)
    assert {name: len(values) for name, values in times.items()} == {"a": 7, "b": 7}


def test_tf32_is_off_inside_and_restored():
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    try:
        for setting in ("tf32", "ieee"):
            matmul.fp32_precision = setting
            with pytest.raises(KeyError), ieee_float32():
                assert matmul.fp32_precision == "ieee"
                raise KeyError
            assert matmul.fp32_precision == setting
    finally:
        matmul.fp32_precision = before


def test_floor():
    # 2 x 3 -> 4 with four vectors: 6 + 12 + 8 elements and 4 x 4 of parameters, 4 bytes each.
    least = floor("gemm_biasadd_hardtanh_mish_groupnorm", (2, 3, 4, 2), Machine("slow", 1e3, {"ieee": 1e6}))
    assert least.bytes == 4 * (6 + 12 + 8 + 16)
    assert least.operations == 2 * 4 * (2 * 3 + 1 + 8 + 3)
    assert least.memory_ms == pytest.approx(168.0) and least.compute_ms == pytest.approx(0.144)
    assert least.ms == least.memory_ms


def test_ceilings(device):
    machine = fgn.measure.measure_machine(device)
    # how much depends on the machine, and on what else runs there
    assert 0 < machine.dram_bytes_per_second < math.inf
    assert 0 < machine.product_operations_per_second["ieee"] < math.inf


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """Everything measured and recorded, at one tiny shape."""
    profiles, one_chain = tmp_path_factory.mktemp("profiles"), next(iter(CHAINS.values()))
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        for module in (bench_module(), records):
            patch.setattr(module, "recorded_shapes", lambda device: (SHAPE,))
            patch.setattr(module, "precision_problems", lambda device: [(one_chain, SHAPE, "ieee")])
        patch.setattr(records, "measure_machine", lambda device: MACHINE)
        records.write(profiles / "test", torch.device("cpu"), progress=False, seconds=0)
        records.write_precisions(profiles / "test", torch.device("cpu"), progress=False, seconds=0)
    return records.read("test", profiles)


def test_what_is_recorded_is_read_back(record):
    assert record.machine == MACHINE
    assert {"date", "torch", "python", "commit", "torch fp32 matmul precision"} <= set(record.environment)
    assert record.environment["torch fp32 matmul precision"] == "ieee"
    assert record.environment["files"] == ["benchmark.csv", "errors.csv"]
    assert record.environment["recorded again"]["files"] == ["precisions.csv", "precision_errors.csv"]
    assert tuple(record.benchmark.columns) == COLUMNS
    assert list(record.benchmark.chain.unique()) == list(CHAINS)
    assert set(record.errors.version) == {TORCH, *ORDINARY}
    default = default_version(*problem(next(iter(CHAINS)), SHAPE), CPU, "ieee")
    assert set(record.precision_errors.version) == {TORCH, *TENSOR, default}
    assert {TORCH, *TENSOR} - set(record.precisions.subject) == {TORCH}
    with pytest.raises(FileNotFoundError, match="no results are recorded for 'nowhere'"):
        records.read("nowhere")


@pytest.mark.parametrize("commit", ["0123abc", "0123abc-dirty", None])
def test_a_recording_that_was_interrupted(commit, tmp_path, monkeypatch):
    """The next one goes on from there, if it is of the same code."""
    chains = list(CHAINS.values())[:2]
    monkeypatch.setattr(
        bench_module(), "precision_problems", lambda device: [(c, SHAPE, "ieee") for c in chains]
    )
    monkeypatch.setattr(records, "compare_precisions", lambda *others: pd.DataFrame({"ratio": [1.0]}))
    bench, measured = bench_module().bench, []

    def one(chain, *others, **options):
        measured.append(chain.name)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return bench(chain, *others, **options)

    monkeypatch.setattr(bench_module(), "bench", one)
    environment = {"date": "2026-11-23T10:00:00+00:00", "commit": commit}
    monkeypatch.setattr(records, "recorded_environment", lambda device: dict(environment))
    arguments = (tmp_path, CPU)
    with pytest.raises(KeyboardInterrupt):
        records.write_precisions(*arguments, progress=False, seconds=0)
    first, second = (chain.name for chain in chains)
    goes_on = commit == "0123abc"
    assert len(list(tmp_path.iterdir())) == goes_on  # no file tells of what has not been measured
    records.write_precisions(*arguments, progress=False, seconds=0)
    assert measured == [first, second, *([second] if goes_on else [first, second])]
    assert list(pd.read_csv(tmp_path / "precisions.csv").chain.unique()) == [first, second]
    files = {"environment.json", "precisions.csv", "precision_errors.csv"}
    assert {file.name for file in tmp_path.iterdir()} == files


def test_recording_the_ladder_keeps_what_is_known_of_the_precisions(tmp_path, monkeypatch):
    table = pd.DataFrame({"ratio": [1.0]})
    for name in ("compare_all", "bench_all", "compare_precisions", "bench_precisions"):
        monkeypatch.setattr(records, name, lambda *others, **options: table)
    monkeypatch.setattr(records, "measure_machine", lambda device: MACHINE)
    for write, commit in ((records.write_precisions, "earlier"), (records.write, "later")):
        environment = {"date": "2026-11-23T10:00:00+00:00", "commit": commit}
        monkeypatch.setattr(records, "recorded_environment", lambda device, known=environment: dict(known))
        write(tmp_path, CPU, progress=False)
    known = json.loads((tmp_path / "environment.json").read_text())
    assert known["commit"] == "later" and known["recorded again"]["commit"] == "earlier"


def labels_of(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_plots_name_every_subject_and_unit(record):
    one = record.benchmark[record.benchmark.chain == next(iter(CHAINS))]
    times = plot.times(one, MACHINE)
    assert set(labels_of(times.axes[0])) == {*ORDINARY, EAGER, F_LINEAR}
    assert "ms" in times.axes[0].get_xlabel()
    assert len([axes for axes in plot.times(record.benchmark).axes if axes.get_visible()]) == len(CHAINS)
    assert "%" in plot.gemm_ladder(record.benchmark).axes[0].get_xlabel()
    comparison = fgn.compare("gemm_groupnorm_hardtanh", shape=SHAPE, device="cpu")
    assert set(labels_of(plot.errors(comparison).axes[0])) == {TORCH, *versions_on(CPU)}


def test_recorded_results_are_drawn_without_a_compiler(record, monkeypatch):
    def missing():
        raise MissingToolError("no C compiler was found")

    # What never ran is not recorded, and has no place between the colours.
    measured = {*record.benchmark.subject, *record.precisions.subject}
    ladder = [name for name in version_names() if name in measured]
    with monkeypatch.context() as patch:
        patch.setattr(style, "ladder", lambda: ladder)
        expected = [style.colour(name) for name in ladder]
    monkeypatch.setattr(subjects, "version_names", missing)
    monkeypatch.setattr(subjects, "recorded", lambda: ["test"])
    monkeypatch.setattr(subjects, "read", lambda name: record)
    without_cache = subjects.ladder.__wrapped__
    for module in (subjects, style):
        monkeypatch.setattr(module, "ladder", without_cache)
    plot.times(record.benchmark, MACHINE)
    assert [style.colour(name) for name in ladder] == expected


def test_every_subject_has_a_colour_of_its_own():
    names = [*version_names(), *(name for name in style.TORCH_COLOURS if name != TORCH)]
    assert len({str(style.colour(name)) for name in names}) == len(names)


def test_results_table(record, tmp_path):
    table = results_table(record)
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(CHAINS)
    assert len({line.count("|") for line in rows}) == 1
    text = f"# title\n{BEGIN}\nold\n{END}\nmore\n"
    assert updated(text, tmp_path) == f"# title\n{BEGIN}\n\nNo results are recorded yet.\n\n{END}\nmore\n"
    with pytest.raises(ValueError, match="expected the lines"):
        updated("# title\n", tmp_path)


def test_random_inputs_differ_by_seed_only():
    chain, shape = problem("gemm_biasadd_hardtanh_mish_groupnorm", SHAPE)
    frames = [fgn.chains.random_inputs(chain, shape, seed=seed) for seed in (0, 0, 1)]
    assert torch.equal(frames[0][0], frames[1][0]) and not torch.equal(frames[0][0], frames[2][0])
    assert all(torch.equal(value, frames[1][1][name]) for name, value in frames[0][1].items())
    assert isinstance(fgn.versions(chain, shape, "cpu"), pd.DataFrame)
