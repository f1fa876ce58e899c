"""Which compilers are found, which are refused, and what clang calls a flag."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cudasim.building import compilers
from cudasim.building.compilers import MissingToolError, OldCompilerError, find_c_compiler, find_cpp_compiler
from cudasim.building.toolchains import C_FLAGS
from fgn.measure import doctor, software
from fgn.native.library import COUNTED_SIMULATOR, SIMULATOR
from fgn.native.places import ROOT


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The only folder in which compilers are looked for."""
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install(folder, name, **macros):
    """A compiler that does nothing but say its macros."""
    path = folder / name
    path.write_text(
        "#!/bin/sh\n" + "".join(f"echo '#define {key} {value}'\n" for key, value in macros.items())
    )
    path.chmod(0o755)
    return str(path)


def gcc(folder, name, version):
    return install(folder, name, __GNUC__=version)


def clang(folder, name, version):
    return install(folder, name, __GNUC__=4, __clang_major__=version)


def test_the_first_that_is_new_enough_is_taken(folder):
    assert find_c_compiler() is None and find_cpp_compiler() is None
    gcc(folder, "cc", 11)
    clang(folder, "clang", 14)
    with pytest.raises(OldCompilerError, match=r"/cc is gcc 11, .*/clang is clang 14: expected gcc 12 or cl"):
        find_c_compiler()
    newer = clang(folder, "clang-16", 16)
    assert find_c_compiler() == newer
    newest = clang(folder, "clang-19", 19)
    assert find_c_compiler() == newest
    ours = gcc(folder, "gcc", 12)
    assert find_c_compiler() == ours


def test_one_that_was_chosen_is_refused_by_name_and_no_other_taken(folder, monkeypatch):
    good = gcc(folder, "gcc", 14)
    old = clang(folder, "mine", 15)
    monkeypatch.setenv("CC", old)
    with pytest.raises(OldCompilerError, match="/mine is clang 15: expected gcc 12 or clang 16"):
        find_c_compiler()
    monkeypatch.setenv("CC", "nowhere")
    with pytest.raises(MissingToolError, match=r"\$CC: expected a compiler, got 'nowhere'"):
        find_c_compiler()
    monkeypatch.setenv("CC", "gcc")
    assert find_c_compiler() == good


@pytest.mark.parametrize(
    "c, cpp",
    [("gcc-12", "g++-12"), ("clang-16", "clang++-16"), ("cc", "c++"), ("clang", "clang++")],
)
def test_the_compiler_of_either_language_is_the_one_beside_that_of_the_other(c, cpp, folder, monkeypatch):
    for name in ("g++", "g++-12", "c++", "gcc", "gcc-12", "cc"):
        gcc(folder, name, 12)
    for name in ("clang++", "clang++-16", "clang", "clang-16"):
        clang(folder, name, 16)
    assert find_cpp_compiler() == str(folder / "g++")
    monkeypatch.setenv("CC", c)
    assert find_cpp_compiler() == str(folder / cpp)
    monkeypatch.setenv("CXX", "c++")
    assert find_cpp_compiler() == str(folder / "c++") and find_c_compiler() == str(folder / c)
    monkeypatch.delenv("CC")
    assert find_c_compiler() == str(folder / "cc")
    monkeypatch.setenv("CXX", cpp)
    assert find_c_compiler() == str(folder / c)


def test_what_is_too_old_is_told_by_the_tables_of_the_machine(folder):
    gcc(folder, "cc", 9)
    for built in (SIMULATOR, COUNTED_SIMULATOR):
        with pytest.raises(OldCompilerError, match="gcc 9: expected gcc 12"):
            built.toolchain()
    table = doctor.examine().set_index("what")
    assert table.loc["C compiler", "state"] == "broken"
    assert "/cc is gcc 9: expected gcc 12" in table.loc["C compiler", "detail"]
    assert "/cc is gcc 9: expected gcc 12" in software.environment().loc["C compiler", ""]


def test_clang_gets_no_flag_that_only_gcc_knows(folder):
    flags = (*C_FLAGS, *COUNTED_SIMULATOR.toolchain.keywords["kernel_flags"])
    assert compilers.spelled_for(gcc(folder, "gcc", 12), flags) == flags
    spelled = compilers.spelled_for(clang(folder, "clang", 16), flags)
    of_gcc = ("--param", "-fno-t", "-fno-reorder", "-fno-var", "-fvar")
    assert not {flag for flag in spelled if flag.startswith(of_gcc)}
    assert {"-fsanitize=thread,array-bounds", "-fsanitize-coverage=trace-pc,no-prune"} < set(spelled)
    assert "-fno-finite-loops" in spelled


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_the_sanitizers_of_clang_are_left_out_by_name(tmp_path, monkeypatch):
    def plan(compiler):
        monkeypatch.setenv("CC", compiler)
        call = ["make", "--dry-run", "sanitize", f"BIN={Path(sys.executable).parent}"]
        return subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    only_clang = clang(tmp_path, "clang-16", 16)
    assert f"left out: it needs gcc. The compiler is {only_clang}" in plan(only_clang)
    assert "LD_PRELOAD" not in plan(only_clang)
    assert "left out" not in plan(gcc(tmp_path, "gcc", 12)) and "LD_PRELOAD" in plan(f"{tmp_path}/gcc")
