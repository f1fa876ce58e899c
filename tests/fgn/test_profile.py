"""fgn.profile: recorded profiles, ncu's reports, what happens without a GPU; on one, ncu itself."""

import csv
import io
import json
import lzma
import sys
import threading
import types
import warnings

import pandas as pd
import pytest
import torch
from command_line import printed, refusal
from processes import output_of

import fgn
from cudasim.building.compilers import command_output
from cudasim.counting import metrics
from fgn.chains import CHAINS
from fgn.measure.machine import Machine
from fgn.native.library import version_names
from fgn.native.places import ROOT
from fgn.profiling import ncu, recording, session, target
from fgn.profiling import records as profile_records
from fgn.profiling.profiler import IDENTITY, PROBLEM, SIMULATOR, subjects

NAME = "gemm_biasadd_hardtanh_mish_groupnorm"
NARROW = (65536, 512, 512, 32)
SMALL = (8, 64, 64, 4)
DATA = ROOT / "tests" / "data"

# A report that ncu wrote, and ncu's own table of it.
REPORT, TABLE = DATA / "small.ncu-rep.xz", DATA / "small.csv"


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


# ------------------------------------------------------------------------------------------------------------
# Reports of ncu


def ncus_table(text):
    """Rows of the raw page as ncu prints it; the row of units is left out."""
    _, *rows = csv.DictReader(io.StringIO(text))
    return rows


def assert_equal_to_ncus(report: pd.DataFrame, table: list[dict]):
    """Every metric that is in both is the same number, to all the digits that ncu prints."""
    assert len(report) == len(table)
    compared = 0
    for (_, ours), theirs in zip(report.iterrows(), table, strict=True):
        assert ours.kernel == theirs["Kernel Name"]
        for name in set(theirs) & set(report.columns):
            printed, value = theirs[name].replace(",", ""), ours[name]
            try:
                expected = float(printed)
            except ValueError:
                assert printed in ("", str(value)), name
                continue
            digits = len(printed.partition(".")[2])
            assert abs(value - expected) <= 0.5001 * 10.0**-digits + abs(value) * 2.0**-52, name
            compared += 1
    assert compared > 300 * len(table)


def test_values_of_a_report_are_those_that_ncu_prints():
    assert_equal_to_ncus(ncu.read_report(REPORT), ncus_table(TABLE.read_text()))


def test_a_report_has_a_row_for_each_launch():
    report = ncu.read_report(REPORT)
    assert report.kernel[0] == "naive_gemm_kernel" and report.ranges[0] == ("fgn", "0")
    assert all(len(size) == 3 for size in (*report.grid, *report.block))
    with pytest.raises(FileNotFoundError, match=r"report: expected .*, got nothing\.ncu-rep"):
        ncu.read_report("nothing.ncu-rep")


def test_recorded_reports_can_be_read():
    record = profile_records.read("h200")
    assert record.reports
    assert sum(report.stat().st_size for report in record.reports) < 2**20
    for report in record.reports:
        assert (ncu.read_report(report)[metrics.TIME] > 0).all()


# ------------------------------------------------------------------------------------------------------------
# Recorded profiles


def test_recorded_launches():
    record = profile_records.read("h200")
    launches = record.launches
    assert list(launches.columns[: len(IDENTITY)]) == IDENTITY
    assert set(launches.chain) == set(CHAINS) and {"ieee", "tf32", "bf16"} <= set(launches.precision)
    assert launches[metrics.TIME].gt(0).all()
    assert record.machine.name == record.environment["device"] == "NVIDIA H200"
    assert launches.attrs == {
        "machine": "NVIDIA H200, recorded",
        "multiprocessors": 132,
        "recorded": "h200",
    }
    for _, rows in launches.groupby([*PROBLEM, "subject"]):
        assert list(rows.launch) == list(range(len(rows)))
    # The numbers of a launch agree with each other: the bytes and the time with the rate.
    rate = (launches[metrics.DRAM_READ] + launches[metrics.DRAM_WRITE]) / (launches[metrics.TIME] * 1e-9)
    assert rate.max() < 1.15 * record.machine.dram_bytes_per_second


def test_recorded_launches_are_written_and_read_back(tmp_path):
    record = profile_records.read("h200")
    folder = tmp_path / "card"
    folder.mkdir()
    profile_records.write_launches(record.launches, folder)
    written = (folder / profile_records.LAUNCHES).read_text()
    assert written == (profile_records.PROFILES / "h200" / profile_records.LAUNCHES).read_text()
    for file in ("machine.json", profile_records.ENVIRONMENT):
        (folder / file).write_text((profile_records.PROFILES / "h200" / file).read_text())
    read = profile_records.read("card", tmp_path)
    pd.testing.assert_frame_equal(read.launches, record.launches)
    assert read.reports == () and profile_records.recorded(tmp_path) == ["card"]


def test_a_problem_that_is_recorded_again_replaces_only_itself(tmp_path):
    launches = profile_records.read("h200").launches
    profile_records.write_launches(launches, tmp_path)
    again = launches[(launches.chain == NAME) & (launches.batch == NARROW[0])].copy()
    again[metrics.TIME] *= 2
    merged = recording._merged(tmp_path, again)
    assert len(merged) == len(launches)
    same = (merged.chain == NAME) & (merged.batch == NARROW[0])
    assert merged[same][metrics.TIME].sum() == pytest.approx(again[metrics.TIME].sum())
    assert merged[~same][metrics.TIME].sum() == pytest.approx(
        launches[metrics.TIME].sum() - again[metrics.TIME].sum() / 2
    )


def test_what_is_recorded_is_every_version_of_every_chain():
    launches = profile_records.read("h200").launches
    shapes = {shape[:3] for shape in recording.PROFILED_SHAPES}
    sizes = launches[["batch", "in_features", "out_features"]].drop_duplicates()
    assert shapes <= set(sizes.itertuples(index=False, name=None))
    for _, rows in launches[launches.precision == "ieee"].groupby(["chain", "batch"]):
        assert {"naive", "tiled", "fused", "hopper", "torch eager", "torch.compile"} <= set(rows.subject)


@pytest.mark.parametrize(
    "card, folder",
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100_sxm4_80gb"),
        ("NVIDIA GeForce RTX 4090", "rtx_4090"),
    ],
)
def test_a_card_has_a_folder_of_its_own(card, folder):
    assert recording.folder_of(card) == folder


def test_nothing_recorded_is_said():
    with pytest.raises(FileNotFoundError, match="no profiles are recorded for 'nowhere'; there are: h200"):
        profile_records.read("nowhere")


# ------------------------------------------------------------------------------------------------------------
# Without a GPU


def test_without_a_gpu_the_recorded_profiles_are_there(without_gpu):
    with pytest.warns(
        UserWarning, match="torch sees no GPU.*these are the profiles of NVIDIA H200"
    ) as caught:
        rows = fgn.profile(NAME, shape=NARROW, version=["tiled", "fused"], rivals=["torch eager"])
    assert len(caught) == 1 and "\n" not in str(caught[0].message) and caught[0].filename == __file__
    assert set(rows.subject) == {"tiled", "fused", "torch eager"}
    assert rows.attrs["machine"] == "NVIDIA H200, recorded"


def test_metrics_that_are_asked_for_are_all_that_is_there():
    wanted = [metrics.DRAM_READ, metrics.REGISTERS]
    rows = fgn.profile(NAME, shape=NARROW, version="fused", metrics=wanted, recorded="h200")
    assert list(rows.columns) == [*IDENTITY, metrics.TIME, *wanted]
    rows = fgn.profile(NAME, shape=SMALL, version="fused", metrics=wanted[:1], device="cpu")
    assert list(rows.columns) == [*IDENTITY, *wanted[:1]] and rows.attrs["machine"] == SIMULATOR


def test_without_ncu_the_fix_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(ncu, "find_ncu", lambda: None)
    with pytest.warns(UserWarning, match="ncu was not found.*install Nsight Compute"):
        rows = fgn.profile(NAME, shape=NARROW, version="fused")
    assert len(rows) == 2


def failing_ncu(tmp_path, words):
    """A program in ncu's place that prints words and fails."""
    program = tmp_path / "ncu"
    program.write_text(f"#!/bin/sh\ncase $1 in --query-metrics) exit 0;; esac\necho '{words}'\nexit 1\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    "words, fix",
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission",
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "NVIDIA_DRIVER_CAPABILITIES=all"),
        ("==ERROR== Something new", "ncu failed: ==ERROR== Something new"),
    ],
    ids=["permission", "library", "unknown"],
)
def test_what_ncu_cannot_do_is_said_in_one_line(tmp_path, monkeypatch, words, fix):
    program = failing_ncu(tmp_path, words)
    monkeypatch.setattr(ncu, "find_ncu", lambda: program)
    with pytest.raises(fgn.profiling.ProfilerError) as caught:
        ncu.run([sys.executable, "-c", "pass"], tmp_path / "report.ncu-rep", [metrics.TIME])
    assert fix in str(caught.value) and "\n" not in str(caught.value)


def test_without_permission_the_recorded_profiles_are_there(tmp_path, monkeypatch):
    program = failing_ncu(tmp_path, "==ERROR== ERR_NVGPUCTRPERM")
    gpu = types.SimpleNamespace(
        name="a GPU", multi_processor_count=7, major=9, minor=0, L2_cache_size=50 << 20
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: gpu)
    monkeypatch.setattr(ncu, "find_ncu", lambda: program)
    monkeypatch.setattr(sys.modules["fgn.profiling.profiler"], "subjects", lambda described: ["fused"])
    with pytest.warns(UserWarning, match="RmProfilingAdminOnly.*these are the profiles of NVIDIA H200"):
        rows = fgn.profile(NAME, shape=NARROW, version="fused", progress=False)
    assert len(rows) == 2


@pytest.fixture
def ncu_with_a_report(tmp_path, monkeypatch):
    """As if a GPU were here, and ncu a program that has the report in tests/data/ for everything."""
    program, seen, report = tmp_path / "ncu", tmp_path / "arguments", tmp_path / "report"
    report.write_bytes(lzma.decompress(REPORT.read_bytes()))
    program.write_text(
        "#!/bin/sh\n"
        "case $1 in --query-metrics) exit 0;; esac\n"
        f'echo "$@" > "{seen}"\n'
        "while [ $1 != --export ]; do shift; done\n"
        f'cp "{report}" "$2"\n'
        "for i in 1 2 3 4 5 6 7 8; do echo '==PROF== Profiling \"a kernel\"'; done\n"
    )
    program.chmod(0o755)
    gpu = types.SimpleNamespace(
        name="a GPU", multi_processor_count=7, major=9, minor=0, L2_cache_size=50 << 20
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: gpu)
    monkeypatch.setattr(ncu, "find_ncu", lambda: str(program))
    monkeypatch.setattr(
        sys.modules["fgn.profiling.profiler"], "subjects", lambda described: ["naive", "few_rows_float32"]
    )
    return seen


def test_a_report_becomes_rows(ncu_with_a_report, tmp_path):
    report = tmp_path / "kept.ncu-rep"
    rows = fgn.profile(NAME, shape=(64, 512, 512, 32), report=report, progress=False)
    assert rows.attrs == {"machine": "a GPU", "multiprocessors": 7}
    assert list(rows.subject) == ["naive"] * 6 + ["few_rows_float32"] * 2
    assert list(rows.launch) == [*range(6), *range(2)]
    assert list(rows.operator[6:]) == ["product + add_channel + hardtanh + mish", "norm"]
    assert list(rows[metrics.TIME]) == list(ncu.read_report(REPORT)[metrics.TIME])
    arguments = ncu_with_a_report.read_text()
    assert "--clock-control none" in arguments and "--nvtx-include fgn/" in arguments
    assert report.read_bytes() == lzma.decompress(REPORT.read_bytes())


def test_report_is_named_like_one(ncu_with_a_report, tmp_path):
    with pytest.raises(ValueError, match=r"report: expected a name that ends in \.ncu-rep, got .*launches"):
        fgn.profile(NAME, report=tmp_path / "launches", progress=False)


def test_a_version_that_does_not_run_is_named(ncu_with_a_report):
    with pytest.raises(
        RuntimeError, match=r"version: 'few_rows' does not run .* 1024 × 8192 → 8192, groups: 256"
    ):
        fgn.profile(NAME, version="few_rows", progress=False)


def test_what_is_not_recorded_is_counted(without_gpu):
    with pytest.warns(
        UserWarning, match="no profile of this problem is recorded, so the simulator counts it"
    ):
        rows = fgn.profile(NAME, shape=(7, 64, 64, 4), version="fused")
    assert rows.attrs["machine"] == SIMULATOR and len(rows) == 2


def test_cpu_tensors_are_counted():
    model = fgn.GemmGroupNormHardtanh(64, 96, 4, -1.0, 1.0)
    x = torch.rand(8, 64)
    rows = fgn.profile(model, x, version="one_kernel")
    assert (
        list(rows.subject) == ["one_kernel"] and (rows.batch == 8).all() and (rows.out_features == 96).all()
    )
    counted = fgn.count(lambda: fgn.chain_forward(model.chain, x, model.chain_parameters(), "one_kernel"))
    for name in metrics.GLOBAL_SECTORS.values():
        assert list(rows[name]) == list(counted[name])
    # Without x the module's parameters say where it is.
    assert fgn.profile(model, version="fused").attrs["machine"] == SIMULATOR


def test_any_call_is_counted_on_the_cpu():
    rows = fgn.profile(lambda x: fgn.functional.group_norm(x, 4), torch.rand(8, 64))
    assert (rows.subject == "call").all() and rows.kernel[0].startswith("group_norm")


def test_the_parameters_of_a_weight_are_not_profiled():
    rows = fgn.profile(NAME, shape=SMALL, device="cpu", version="tensor_core")
    assert list(rows.operator).count("halves of x") == 1


def test_a_call_of_ones_own_has_no_fallback(without_gpu):
    with pytest.raises(fgn.profiling.ProfilerError, match="torch sees no GPU"):
        fgn.profile(lambda: None)


FILL = "__global__ void fill(float *y, float value) {\n    y[threadIdx.x] = value;\n}\n"


def test_a_live_kernel_goes_to_another_process(tmp_path):
    fill, y = fgn.kernel(FILL), torch.zeros(4)
    fill[1, 4](y, 1.0)
    target.save([target.Task(call=lambda: fill[1, 4](y, 2.0) or y)], tmp_path / "job.pt")
    script = "import sys, torch; print(torch.load(sys.argv[1], weights_only=False)[0].call().tolist())"
    assert output_of(script, tmp_path / "job.pt") == str([2.0] * 4)


def test_a_call_that_cannot_be_sent_is_refused(tmp_path):
    lock = threading.Lock()
    with pytest.raises(
        TypeError, match="model_or_kernel: expected a call that can be sent to another process"
    ):
        target.save([target.Task(call=lambda: lock)], tmp_path / "job.pt")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"version": "fastest"}, "version: expected some of naive, .*, got 'fastest'"),
        ({"rivals": ["jax"]}, "rivals: expected some of torch eager, .*, got 'jax'"),
        ({"set": "everything"}, "set: expected one of bytes, default, got 'everything'"),
        ({"precision": "fp9"}, "precision: expected one of ieee, .*, got 'fp9'"),
        ({"shape": (1, 2)}, "shape: expected"),
        (
            {"metrics": ["joules"], "shape": NARROW, "recorded": "h200"},
            "metrics: expected some that NVIDIA H200, recorded has, got 'joules'",
        ),
        (
            {"metrics": ["joules"], "shape": SMALL, "device": "cpu", "version": "fused"},
            "metrics: expected some that the simulator has, got 'joules'",
        ),
        ({"recorded": "h200", "shape": (1, 2, 4, 1)}, "recorded: expected a problem that 'h200' has"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_unknown_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        fgn.profile(NAME, **arguments)
    with pytest.raises(FileNotFoundError, match="'h100'"):
        fgn.profile(NAME, recorded="h100")
    with pytest.raises(ValueError, match="recorded: expected a chain"):
        fgn.profile(print, recorded="h200")


def test_recording_needs_a_gpu_and_changes_nothing_without(without_gpu, tmp_path):
    with pytest.raises(fgn.profiling.ProfilerError, match="torch sees no GPU"):
        recording.record(tmp_path / "card")
    assert not (tmp_path / "card").exists()
    with pytest.raises(ValueError, match="parts: expected some of machine, reports, launches, got 'all'"):
        recording.record(tmp_path / "card", parts=["all"])


@pytest.fixture
def fake_gpu(monkeypatch):
    """As if a GPU were here that runs what the simulator runs, and ncu found the recorded launches on it."""
    recorded = profile_records.read("h200")
    collected = []

    def collect(tasks, names, report=None, progress=True, sections=()):
        collected.append((tasks, names, sections))
        if report is not None:
            report.write_bytes(b"a report")
        wanted = {(task.problem.chain.name, tuple(task.problem.shape)) for task in tasks}
        rows = recorded.launches
        problems = zip(
            rows.chain, rows[["batch", "in_features", "out_features", "groups"]].to_numpy(), strict=True
        )
        return rows[[(chain, tuple(sizes)) in wanted for chain, sizes in problems]]

    monkeypatch.setattr(recording, "require_gpu", lambda: None)
    monkeypatch.setattr(recording, "collect", collect)
    monkeypatch.setattr(
        recording,
        "recorded_environment",
        lambda device: {"device": "NVIDIA H1", "multiprocessors": 100, "date": "today", "commit": "this"},
    )
    monkeypatch.setattr(recording.machines, "measure_machine", lambda device: recorded.machine)
    monkeypatch.setattr(recording, "subjects", lambda described: subjects(described, "cpu"))
    monkeypatch.setattr(recording, "versions", lambda chain, shape, device: fgn.versions(chain, shape, "cpu"))
    return collected


def test_a_recording(fake_gpu, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "PROFILES", tmp_path)
    folder = recording.record(shapes=[NARROW], progress=False)
    assert folder == tmp_path / "h1"
    assert {file.name for file in folder.iterdir()} == {
        *("machine.json", "launches.csv", "profiled.json", "reports"),
    }
    assert {file.name for file in (folder / "reports").iterdir()} == {
        *("ladder.ncu-rep.xz", "source.ncu-rep.xz"),
    }
    assert len(fake_gpu) == 2 + len(CHAINS)
    read = profile_records.read("h1", tmp_path)
    assert set(read.launches.batch) == {NARROW[0]} and read.environment["device"] == "NVIDIA H1"
    ladder, source = ([task.subject for task in tasks] for tasks, _, _ in fake_gpu[:2])
    assert ladder == ["naive", "shared_tile", "tiled", "fused", "one_kernel", "few_rows_float32"]
    assert source == ["naive", "coalesced", "shared_tile"]


def test_every_version_is_recorded_at_each_precision_that_it_is_made_for(fake_gpu, tmp_path):
    recording.record(tmp_path, parts=["launches"], chains=[NAME], shapes=[NARROW], progress=False)
    ((tasks, names, _),) = fake_gpu
    assert tuple(names) == metrics.SETS["default"]
    by_precision = {}
    for task in tasks:
        by_precision.setdefault(task.problem.precision, []).append(task.subject)
    ordinary = [
        "naive",
        "coalesced",
        "shared_tile",
        "register_tile",
        "vectorized",
        "tiled",
        "fused",
        "one_kernel",
        "few_rows_float32",
    ]
    steps = [name for name in version_names("cpu") if name.startswith("hopper_")]
    assert by_precision == {
        "ieee": [*ordinary, "tensor_core", "hopper", "library", "torch eager", "torch.compile"],
        "tf32": ["tensor_core", "hopper", "library", "torch eager", "torch.compile"],
        "bf16": ["tensor_core", *steps, "hopper", "library", "torch eager", "torch.compile"],
    }


# ------------------------------------------------------------------------------------------------------------
# Sessions


def test_a_session_of_recorded_launches():
    here = session.open_session(NAME, NARROW, recorded="h200")
    assert isinstance(here.machine, Machine) and here.note == "" and "NVIDIA H200, recorded" in str(here)
    assert here.problem.shape == NARROW and here.steps == 65536 * 512 * 512 / 32
    assert here.product("fused").kernel == "fused_gemm_kernel"
    assert here.total("fused", metrics.TIME) == here.of("fused")[metrics.TIME].sum()
    assert len(here.summary()) == len(here.launches)
    compared = here.compare("naive", {metrics.L1_TO_L2: 4.0 * 65536 * 512})
    assert compared["measured ÷ predicted"].item() == pytest.approx(1, abs=0.02)
    assert list(here.table({"registers": metrics.REGISTERS}, "naive", "tiled").index) == ["naive", "tiled"]
    by_launch = here.by_launch({"ns": metrics.TIME}, "fused")
    assert list(by_launch.ns) == list(here.of("fused")[metrics.TIME])
    with pytest.raises(ValueError, match=r"subjects: expected some of naive, .*, got 'fastest'"):
        here.of("fastest")
    with pytest.raises(
        ValueError, match="predicted: expected metrics that NVIDIA H200, recorded has, got 'joules'"
    ):
        here.compare("naive", {"joules": 1})


def test_a_session_without_a_gpu_says_why(without_gpu):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        here = session.open_session(NAME, NARROW)
    assert "torch sees no GPU" in str(here) and here.machine is not None


def test_a_session_on_the_simulator():
    here = session.open_session(NAME, SMALL, version="fused", device="cpu")
    assert here.machine is None and here.origin == SIMULATOR
    assert "DRAM read, MB" in here.summary() and "µs" not in here.summary()


# ------------------------------------------------------------------------------------------------------------
# The command line


def test_command_line_draws_what_is_recorded(tmp_path, monkeypatch, capsys):
    said = printed(
        [
            *("profile", "--gpu=h200", f"--chain={NAME}", "--shape=65536,512,512,32", "--precision=bf16"),
            *(f"--plots={tmp_path}", "--format=svg"),
        ],
        monkeypatch,
        capsys,
    )
    assert "hopper" in said and "NVIDIA H200, recorded" in said
    names = {file.stem.removeprefix(f"{NAME}_") for file in tmp_path.glob("*.svg")}
    assert names == {"time", "dram", "roofline", "memory", "stalls", "pipes", "occupancy"}


def test_command_line_counts_on_the_simulator(tmp_path, monkeypatch, capsys):
    said = printed(
        [
            *("profile", "--device=cpu", f"--chain={NAME}", "--shape=8,64,64,4", "--version=fused"),
            f"--plots={tmp_path}",
        ],
        monkeypatch,
        capsys,
    )
    assert "the simulator" in said and "time is not drawn" in said
    assert {file.name for file in tmp_path.iterdir()} == {f"{NAME}_dram.png", f"{NAME}_memory.png"}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--gpu=nowhere"], "no profiles are recorded for 'nowhere'"),
        (["--part=machine"], "--part: expected together with --record"),
        (["--version=fastest"], "version: expected some of naive"),
        pytest.param(
            ["--record"],
            "torch sees no GPU: profile on a machine with an NVIDIA GPU",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
    ids=["gpu", "part", "version", "record"],
)
def test_command_line_refuses_in_one_line(arguments, message, monkeypatch, capsys):
    assert message in refusal(["profile", *arguments], monkeypatch, capsys)


# ------------------------------------------------------------------------------------------------------------
# On a GPU with ncu

needs_ncu = pytest.mark.skipif(ncu.find_ncu() is None, reason="needs ncu")


@pytest.mark.gpu
@needs_ncu
def test_a_cuda_tensor_is_profiled(tmp_path):
    model = fgn.GemmBiasAddHardtanhMishGroupNorm(512, 512, (512,), 32).cuda()
    x = torch.rand(256, 512, device="cuda")
    report = tmp_path / "launches.ncu-rep"
    versions = ["naive", "fused", "one_kernel"]
    rows = fgn.profile(
        model, x, version=versions, rivals=["torch eager", "torch.compile"], report=report, progress=False
    )
    counts = rows.subject.value_counts()
    table = fgn.versions(NAME, (256, 512, 512, 32), "cuda").set_index("name")
    assert all(counts[name] == table.launches[name] for name in versions)
    assert counts["torch eager"] == 6 and counts["torch.compile"] >= 2
    assert (rows[metrics.TIME] > 0).all() and (rows[metrics.DRAM_READ] >= 0).all()
    assert "recorded" not in rows.attrs and rows.attrs["machine"] == torch.cuda.get_device_name()
    # What was asked for is there, and is what ncu itself prints of the same file.
    missing = [name for name in ncu.available(metrics.SETS["default"]) if name not in rows]
    assert not missing
    options = ["--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "function"]
    table = command_output([ncu.find_ncu(), "--import", str(report), *options])
    assert_equal_to_ncus(ncu.read_report(report), ncus_table(table))


@pytest.mark.gpu
@needs_ncu
def test_only_the_launches_of_the_call_are_profiled():
    x = torch.rand(64, 64, device="cuda")
    rows = fgn.profile(torch.nn.functional.hardtanh, x, metrics=[metrics.DRAM_READ], progress=False)
    assert len(rows) == 1 and list(rows.columns[len(IDENTITY) :]) == [metrics.TIME, metrics.DRAM_READ]


@pytest.mark.gpu
@needs_ncu
def test_what_this_gpu_lacks_is_named():
    with pytest.raises(
        ValueError, match="metrics: expected ncu's names of what this GPU counts, got 'joules'"
    ):
        fgn.profile(NAME, shape=SMALL, metrics=["joules"])
    with pytest.raises(RuntimeError, match="version: 'few_rows' does not run"):
        fgn.profile(NAME, shape=(20000, 64, 64, 4), version="few_rows")


@pytest.mark.gpu
@needs_ncu
def test_a_live_kernel_is_profiled():
    fill, y = fgn.kernel(FILL), torch.zeros(4, device="cuda")
    rows = fgn.profile(lambda: fill[1, 4](y, 2.0), metrics=[metrics.REGISTERS], progress=False)
    assert list(rows.kernel) == ["fill"] and rows[metrics.REGISTERS][0] > 0


@pytest.mark.gpu
@needs_ncu
def test_recording_a_part(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "PROFILED_PRECISIONS", ("bf16",))
    chain, shape = "gemm_groupnorm_hardtanh", (256, 512, 512, 32)
    folder = recording.record(tmp_path / "card", "cuda", ["launches"], [chain], [shape], progress=False)
    launches = pd.read_csv(folder / profile_records.LAUNCHES)
    assert set(launches.precision) == {"bf16"}
    assert {"tensor_core", "torch eager", "torch.compile"} <= set(launches.subject)
    environment = json.loads((folder / profile_records.ENVIRONMENT).read_text())
    assert environment["device"] == torch.cuda.get_device_name()
