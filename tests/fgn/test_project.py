"""What has to agree across the project's files, and the command line."""

import ast
import graphlib
import importlib
import itertools
import json
import operator
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest
import torch
from accuracy import versions_on
from command_line import printed, refusal, run
from packaging.requirements import Requirement
from readme import RESULTS, all_results, updated
from sources import broken_links, imported

import fgn
from cudasim.building.library import Library
from fgn.__main__ import main
from fgn.chains import Shape
from fgn.measure import doctor
from fgn.native.library import COUNTED_SIMULATOR, version_names
from fgn.native.places import ROOT, SOURCES
from fgn.native.source import source_text
from fgn.precision import PRECISIONS


def locked_versions() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return dict(line.partition(";")[0].split("==") for line in lines if not line.startswith("#"))


def test_environment_yml_has_the_versions_of_the_lock_file():
    conda = re.findall(r"^ +- (\S+)==([^\s;]+)(?:;.*)?$", (ROOT / "environment.yml").read_text(), re.M)
    assert dict(conda) == locked_versions()


def test_the_formatters_that_a_commit_calls_have_the_versions_of_the_lock_file():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    pinned = dict(re.findall(r"additional_dependencies: \[([\w-]+)==([^\s\]]+)\]", hooks))
    assert pinned == {name: locked_versions()[name] for name in ("ruff", "clang-format")}


def test_every_file_that_names_the_version_names_this_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    simulator = tomllib.loads((ROOT / "cudasim" / "pyproject.toml").read_text())["project"]
    version = project["version"]
    assert f"cudasim=={simulator['version']}" in project["dependencies"] and simulator["version"] == version
    assert re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M) == [version]
    assert re.findall(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.M)[0] == version


def test_the_locked_versions_are_within_the_ranges_that_the_package_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = itertools.chain.from_iterable(project["optional-dependencies"].values())
    simulator = tomllib.loads((ROOT / "cudasim" / "pyproject.toml").read_text())["project"]
    versions = locked_versions() | {"cudasim": simulator["version"]}
    requirements = [*project["dependencies"], *optional, *simulator["dependencies"]]
    for requirement in map(Requirement, requirements):
        assert versions[requirement.name] in requirement.specifier, requirement


def test_the_source_distribution_has_all_that_the_clone_has():
    if shutil.which("git") is None:
        pytest.skip("needs git")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    if tracked == [""]:
        pytest.skip("needs a clone with git")
    packed = {"MANIFEST.in", "pyproject.toml", "setup.py"}  # which every source distribution has
    for line in (ROOT / "MANIFEST.in").read_text().splitlines():
        packed.update(line.split()[1:] if line.startswith(("graft ", "include ")) else ())
    assert {path.split("/")[0] for path in tracked if path} - packed <= {".ci", ".gitignore"}


def test_readme_is_up_to_date_with_profiles():
    text = (ROOT / "README.md").read_text()
    assert updated(text) == text, "run: python tools/readme.py"
    assert all_results() == RESULTS.read_text(), "run: python tools/readme.py"


def test_every_link_of_the_pages_leads_to_a_file():
    assert broken_links(ROOT) == set()


FOLDERS = (
    "fgn|cudasim|cuda_c|norm|tools|lab|tests|docs|notebooks|bugs|examples|ladder|shared|ptx|tensor_core|hopper|hopper_steps|few_rows|"
    "library|backward|ceilings|sim"
)


def test_every_file_that_a_comment_or_a_page_names_is_there():
    tops = [ROOT / name for name in FOLDERS.split("|") if (ROOT / name).is_dir()]
    files = {str(path.relative_to(ROOT)) for top in tops for path in top.rglob("*")}
    places = {"/".join(file.split("/")[start:]) for file in files for start in range(file.count("/") + 1)}
    folders = (SOURCES, ROOT / "cudasim")
    endings = ("cu", "h", "c", "hpp")
    sources = [path for ending in endings for folder in folders for path in folder.rglob(f"*.{ending}")]
    python = [path for name in ("fgn", "cudasim", "tools", "lab") for path in (ROOT / name).rglob("*.py")]
    # the folders of calls name the files of other repositories
    sources += [path for path in python if not path.parent.name.endswith("_calls")]
    sources += [
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "cudasim" / "docs").glob("*.md"),
        ROOT / "lab" / "README.md",
    ]
    named = re.compile(rf"(?<![\w./-])((?:{FOLDERS})/[\w/]+\.(?:py|cu|h|c|hpp|md|ipynb|csv(?:\.xz)?))\b")
    missing = {
        (path.name, name)
        for path in sources
        for name in named.findall(path.read_text())
        if name not in places
    }
    assert len(sources) > 200 and not missing


def test_no_kernel_file_is_longer_than_a_reader_reads_at_once():
    kernels = [path for ending in ("cu", "h") for path in SOURCES.rglob(f"*.{ending}")]
    assert len(kernels) > 80
    assert {path.name: lines for path in kernels if (lines := len(path.read_text().splitlines())) > 400} == {}


def test_every_recorded_file_has_a_date_and_a_commit():
    """In columns of its own, in its own keys, or in those of a JSON file in the same folder that names it."""
    folders = [ROOT / name for name in ("profiles", "notebooks", "tests/data", "lab/records")]
    files = {
        file
        for folder in folders
        for kind in ("csv", "csv.xz", "json", "ncu-rep.xz")
        for file in folder.rglob(f"*.{kind}")
    }
    files = {file for file in files if not any(part.startswith(".") for part in file.relative_to(ROOT).parts)}
    files -= {ROOT / "notebooks" / "guesses.json"}  # what a reader may guess: nobody measured it
    dated = set()
    for file in files:
        if file.suffix == ".json":
            record = json.loads(file.read_text())
            for part in (record, record.get("recorded", {}), record.get("recorded again", {})):
                if is_dated(part.get("date"), part.get("commit")):
                    dated |= {file} | {file.parent / name for name in part.get("files", ())}
        elif file.name.endswith((".csv", ".csv.xz")):
            frame = pd.read_csv(file)
            if {"date", "commit"} <= set(frame) and all(map(is_dated, frame["date"], frame["commit"])):
                dated.add(file)
    assert len(files) > 20 and files == dated, sorted(files ^ dated)


def test_what_is_checked_out_is_small():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a clone")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert len(files) > 400
    assert sum(file.stat().st_size for file in files if file.is_file()) < 15e6


def is_dated(date, commit) -> bool:
    """A day, with or without the time of it, and 40 hexadecimal digits."""
    return bool(
        re.match(r"\d{4}-\d\d-\d\d(T|$)", str(date)) and re.match(r"[0-9a-f]{40}(-dirty)?$", str(commit))
    )


def test_every_name_that_fgn_promises_is_there():
    assert all(hasattr(fgn, name) for name in fgn.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = fgn.nothing


def test_every_name_in_the_pages_is_there():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    pages += [ROOT / "cudasim" / "README.md", *(ROOT / "cudasim" / "docs").glob("*.md")]
    text = "".join(page.read_text() for page in pages)
    names = set(re.findall(r"\b(fgn|cudasim)((?:\.[A-Za-z_]\w*)+)\(", text))
    assert len(names) > 30
    importlib.import_module("cudasim.counting.trace")  # which no package imports by itself
    for package, name in names:
        operator.attrgetter(name[1:])(sys.modules[package])  # AttributeError names what is missing


@pytest.mark.parametrize(
    ("program", "slow"),
    [
        # torch._dynamo needs a folder for temporary files, and longer than all of fgn.
        ("import fgn.functional, fgn.modules", {"pandas", "matplotlib", "IPython", "torch._dynamo"}),
        # The first cells of a notebook of puzzles: they wait for nothing that takes seconds.
        (
            "import fgn; fgn.puzzles.get('map').skeleton; fgn.load_ipython_extension",
            {"pandas", "matplotlib", "torch"},
        ),
        ("import fgn; fgn.puzzles.get('map').draw()", {"pandas", "torch"}),
    ],
)
def test_import_is_light(program, slow):
    script = f"import sys\n{program}\nsys.exit(' '.join({slow} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert ran.stderr.strip() == "", ran.stderr


def test_operators_are_there_where_torch_came_first():
    script = "import torch, fgn; torch.ops.fgn.chain_forward"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == 0


def test_source_is_shown_from_the_file():
    for path in SOURCES.rglob("*.cu"):
        text = path.read_text()
        assert source_text(path.stem) == source_text(path.name) == text
        for name in re.findall(r"^__global__ void (?:__launch_bounds__\(.*?\) )?(\w+)\(", text, re.M):
            part = source_text(path.stem, name)
            assert part in text and f"{name}(" in part and part.endswith("}\n")
            assert part.count("__global__") == 1
    with pytest.raises(FileNotFoundError, match=r"file: expected one of .*api\.cu"):
        source_text("gemm_99")
    with pytest.raises(ValueError, match=r"kernel: api.cu has no function 'nothing'"):
        source_text("api", "nothing")


def test_source_is_highlighted_in_a_notebook():
    pytest.importorskip("IPython")
    assert "highlight" in fgn.source("api")._repr_html_()


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["env"], ["torch", "kernels for the simulator", "ready"]),
        (["versions", "--device=cpu"], version_names()),
        (
            ["compare", "--device=cpu", "--chain=gemm_groupnorm_hardtanh", "--shape=4,8,16,2"],
            versions_on(torch.device("cpu")),
        ),
        (
            ["bench", "--device=cpu", "--chain=gemm_groupnorm_hardtanh", "--shape=4,8,16,2"],
            ["F.linear", "median_ms"],
        ),
        (["model", "--precision=bf16", "--shape=4096,512,512,16"], ["hopper", "torch eager", "binds"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_command_line(arguments, words, monkeypatch, capsys):
    said = printed(arguments, monkeypatch, capsys)
    assert all(word in said for word in words)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["compare", "--device=cpu", "--shape=4,8,15,2"], "groups"),
        (["plot", "--gpu=nowhere"], "no results are recorded for 'nowhere'"),
        (["bench", "--record=somewhere"], "--record: expected together with --all"),
        (["compare", "--shape=4,8"], "expected batch,in_features,out_features"),
        (["compare", "--shape=4,8,9223372036854775808"], "expected sizes from 0 to 2**63 - 1"),
        (["versions", "--device=tpu"], "expected cpu or cuda, got tpu"),
        (["source_view", "--shape=4,8,16,2", "--version=hopper_2_tma"], "hopper_2_tma needs bfloat16"),
        (["bench", "--sweep=1", "--count=-1"], "--count: expected 1 or more, got -1"),
        (["bench", "--seconds=-1"], "--seconds: expected seconds, got -1"),
        (["bench", "--all", "--shape=4,8,16"], "--shape: not together with --all, which has its own"),
        (["bench", "--precisions", "--precision=bf16"], "--precision: not together with --precisions"),
        (["bench", "--precisions", "--device=cpu", "--shape=4,8,15,2"], "groups that divide out_features"),
        (["install", ""], "expected a folder, got nothing"),
    ],
    ids=[
        "groups",
        "plot",
        "record",
        "shape",
        "size",
        "device",
        "version",
        "count",
        "seconds",
        "all",
        "precision",
        "precisions",
        "folder",
    ],
)
def test_command_line_refuses_in_one_sentence(arguments, message, monkeypatch, capsys):
    assert message in refusal(arguments, monkeypatch, capsys)


def test_bench_of_the_precisions_is_of_the_chain_and_the_shape_that_were_named(monkeypatch, capsys):
    named = ["--chain=gemm_groupnorm_hardtanh", "--shape=4,8,16,2"]
    said = printed(["bench", "--precisions", "--device=cpu", "--json", *named], monkeypatch, capsys)
    rows = pd.DataFrame(json.loads(said))
    assert set(rows.precision) == set(PRECISIONS) and set(rows.chain) == {"gemm_groupnorm_hardtanh"}
    assert set(rows[list(Shape._fields)].itertuples(index=False, name=None)) == {(4, 8, 16, 2)}


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
@pytest.mark.parametrize("command", ["versions", "compare", "bench"])
def test_without_a_gpu_a_command_that_asks_for_one_says_so(command, monkeypatch, capsys):
    said = "argument --device: there is no GPU here that torch can use; cpu is the simulator"
    assert refusal([command, "--device=cuda"], monkeypatch, capsys) == f"python -m fgn {command}: {said}"


def test_doctor_says_what_is_here_what_is_missing_and_what_mends_it(monkeypatch):
    result = run("doctor", "--json")
    rows = {row["what"]: row for row in json.loads(result.stdout)}
    assert result.returncode == (1 if any(row["state"] == "broken" for row in rows.values()) else 0)
    assert {row["state"] for row in rows.values()} <= {"good", "missing", "broken"}
    assert rows["Python"]["state"] == rows["kernels for the simulator"]["state"] == "good"

    monkeypatch.setattr(doctor, "find_c_compiler", lambda: None)
    monkeypatch.setattr(doctor, "find_cpp_compiler", lambda: None)
    monkeypatch.setattr(doctor, "is_writable", lambda folder: False)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    found = doctor.examine().set_index("what")
    assert found.loc["C compiler", ["state", "mend"]].tolist() == ["missing", "apt install gcc libc6-dev"]
    assert found.loc["C++ compiler", ["state", "mend"]].tolist() == ["missing", "apt install g++"]
    assert found.loc["addr2line", ["state", "mend"]].tolist() == ["missing", "apt install binutils"]
    assert found.loc["build folder", "state"] == "broken"
    assert found.loc["build folder", "mend"].startswith("export FGN_CACHE=")


def test_the_command_that_the_doctor_names_builds_the_library_that_is_missing(monkeypatch, capsys):
    built = []
    monkeypatch.setattr(Library, "find", lambda library: None)
    monkeypatch.setattr(Library, "build", lambda library: built.append(library.title))
    mend = doctor.examine().set_index("what")["mend"]
    assert mend[COUNTED_SIMULATOR.title] == "python -m fgn build --counted"
    for title, command in mend[mend.str.startswith("python -m fgn build")].items():
        built.clear()
        printed(command.split()[3:], monkeypatch, capsys)
        assert title in built


@pytest.mark.parametrize("target", ["notebooks", "test-fgn"])
def test_no_compiler_runs_within_the_limit_of_time_of_a_notebook_s_cell(target):
    if not shutil.which("make"):
        pytest.skip("needs make")
    plan = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True).stdout
    assert 0 < plan.find("-m fgn build --counted") < plan.rfind("notebooks")


def test_doctor_finds_a_compiler_that_does_not_work_and_a_machine_without_a_temporary_folder(
    tmp_path, monkeypatch
):
    for name, text in (("says", "echo 'no stdio.h' >&2; exit 1"), ("silent", "exit 3")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(doctor, "find_c_compiler", lambda: str(tmp_path / "says"))
    monkeypatch.setattr(doctor, "find_cpp_compiler", lambda: str(tmp_path / "silent"))

    def no_folder():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(doctor.tempfile, "gettempdir", no_folder)
    found = doctor.examine().set_index("what")
    assert found.loc["C compiler", ["state", "detail"]].tolist() == [
        "broken", f"{tmp_path}/says compiles nothing: no stdio.h"
    ]  # fmt: skip
    assert found.loc["C++ compiler", "detail"] == f"{tmp_path}/silent compiles nothing: exit status 3"
    assert found.loc["temporary folder", ["state", "mend"]].tolist() == ["broken", "export TMPDIR=/a/folder"]


def test_tables_for_people_have_their_texts_at_the_left(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fgn", "model", "--chain=gemm_groupnorm_hardtanh"])
    main()
    lines = capsys.readouterr().out.splitlines()
    binds = [line[lines[1].index("binds") :] for line in lines[3:] if line]
    assert "DRAM" in binds and all(text and text == text.strip() for text in binds), lines


def test_clean_empties_the_cache_and_nothing_else(tmp_path):
    for name in ("lib-fgn_sim-0", "live/0", "of another program"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_bytes(bytes(500_000))
    command = [sys.executable, "-m", "fgn", "clean"]
    environment = os.environ | {"FGN_CACHE": str(tmp_path)}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, f"1.0 MB removed from {tmp_path}\n")
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"of another program/file"}


def test_without_docstrings_and_assertions():
    command = [sys.executable, "-OO", "-m", "fgn"]
    result = subprocess.run([*command, "versions", "--device=cpu"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0 and "naive" in result.stdout, result.stderr


def test_a_table_for_programs_and_a_reader_that_leaves(monkeypatch, capsys):
    rows = json.loads(printed(["versions", "--device=cpu", "--json"], monkeypatch, capsys))
    assert {row["name"] for row in rows} == set(version_names())
    said = printed(["versions", "--device=cpu", "--csv"], monkeypatch, capsys)
    assert said.startswith("chain,name,launches,")
    assert run("--version").stdout == f"fgn {fgn.__version__}\n"
    versions = f"{shlex.quote(sys.executable)} -m fgn versions --device=cpu"
    pipe, closed = f"{versions} | head -1", f"{versions} >&-"
    for command in (pipe, closed):
        assert subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True).stderr == ""


def test_no_public_function_has_the_name_of_a_module_beside_it():
    """Else `fgn.bench.RIVALS` would be an attribute of a function, for a reader who means the module."""
    for package in (fgn, *(getattr(fgn, name) for name in fgn._PACKAGES)):
        modules = {path.stem for path in Path(package.__file__).parent.iterdir()}
        assert not modules & set(getattr(package, "__all__", ())), package.__name__
        assert all(hasattr(package, name) for name in getattr(package, "__all__", ()))


def modules_that(path: Path) -> set[str]:
    """The modules of fgn that a file imports, wherever in it: as far as they are files of their own."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fgn"):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if module_file(name) else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("fgn.")}
    return {name for name in found if module_file(name)}


def module_file(name: str) -> Path | None:
    path = ROOT / f"{name.replace('.', '/')}.py"
    return path if path.is_file() else None


def test_no_two_modules_import_each_other():
    files = [path for path in (ROOT / "fgn").rglob("*.py") if not path.name.startswith("__")]
    graph = {".".join(path.relative_to(ROOT).with_suffix("").parts): modules_that(path) for path in files}
    assert len(graph) > 30 and sum(map(len, graph.values())) > 100
    order = list(graphlib.TopologicalSorter(graph).static_order())  # CycleError names the modules of a circle
    assert set(graph) <= set(order)


def modules_of(folder: str) -> set[str]:
    """The names by which the modules of a folder are imported. tests/ has folders named as what they test."""
    return {path.stem for path in (ROOT / folder).iterdir() if path.suffix == ".py" or path.is_dir()} - {
        "fgn",
        "cudasim",
    }


def test_nothing_in_fgn_imports_a_tool_or_a_test():
    others = modules_of("tools") | modules_of("tests") | modules_of("lab") | {"tools", "tests", "lab"}
    for path in (ROOT / "fgn").rglob("*.py"):
        assert not others & imported(path), path


def test_nothing_depends_on_the_lab():
    """The lab measures others' code; the product, its tools and its tests do without it."""
    lab = (modules_of("lab") - {"records"}) | {"lab"}
    assert len(lab) > 4
    for folder in ("fgn", "tools", "tests", "bugs"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not lab & imported(path), path
