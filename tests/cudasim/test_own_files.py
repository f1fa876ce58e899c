"""What is loaded is this user's own: planted links and libraries are refused, changed ones built again."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import cffi
import numpy as np
import pytest

import cudasim
from cudasim.__main__ import main
from cudasim.building import compilers, full_disk, library, places, toolchains
from cudasim.building.library import SIMULATOR, BuildError, held
from cudasim.building.own_files import NotOwnError, locked, make_folder, opened
from cudasim.building.places import SOURCES

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
NOBODY = 65534
SOURCE = "int answer(void) { return 1; }\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(places.cache_variable(), str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def small(cache, tmp_path):
    """A library of one source, which is built into the cache."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "answer.cu").write_text(SOURCE)
    return replace(SIMULATOR, name="small", patterns=("*.cu",), sources=tmp_path / "sources")


def answer(small):
    interface = cffi.FFI()
    interface.cdef("int answer(void);")
    loaded = interface.dlopen(str(small.build()))
    result = loaded.answer()
    interface.dlclose(loaded)
    return result


def test_a_link_at_the_lock_is_not_followed(small, tmp_path):
    target = tmp_path / "precious"
    target.write_text("what must not be emptied")
    lock = small.path.with_name("small.lock")
    lock.parent.mkdir(parents=True)
    lock.symlink_to(target)
    with pytest.raises(NotOwnError, match=rf"{lock}: expected a file .*, got a symbolic link .*: remove it$"):
        small.build()
    assert target.read_text() == "what must not be emptied"
    lock.unlink()
    assert answer(small) == 1


@pytest.mark.parametrize("part", ["libsmall.so", "libsmall.stamp", ".", ".."])
def test_a_link_is_refused_wherever_it_is(part, small, tmp_path):
    place = Path(os.path.normpath(small.build().parent / part))
    shutil.move(place, tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    # A folder of the user's own may be meant, and a file never.
    meant = f", or set {places.cache_variable()} to the folder that is meant" if place.is_dir() else ""
    with pytest.raises(NotOwnError, match=rf"got a symbolic link to .*elsewhere, .*: remove it{meant}$"):
        small.build()
        # What is ready is taken where its folder is; the cache itself is looked at before something is built.
        with locked(small.path.with_name("small.lock"), top=places.cache_folder()):
            pass


@pytest.mark.parametrize("part", ["libsmall.so", "libsmall.stamp", "."])
def test_what_others_may_write_to_is_refused(part, small):
    place = small.build().parent / part
    place.chmod(0o777)
    with pytest.raises(NotOwnError, match="expected that only this user can write to it, got mode 777"):
        small.build()
    place.chmod(0o755)
    assert answer(small) == 1


@AS_ROOT
@pytest.mark.parametrize("part", ["libsmall.so", "libsmall.stamp", "small.lock", "."])
def test_what_belongs_to_somebody_else_is_refused(part, small):
    place = small.build().parent / part
    os.chown(place, NOBODY, NOBODY)
    with pytest.raises(
        NotOwnError, match=rf"expected a file of this user \(number 0\), got one of user {NOBODY}"
    ):
        small.build()
        small.objects()  # a library that is ready needs no lock
    os.chown(place, 0, 0)
    assert answer(small) == 1


PLANTED = """
#include <stdio.h>
__attribute__((constructor)) static void planted(void) { fopen(getenv("PLANTED"), "w"); }
int answer(void) { return 2; }
"""


@AS_ROOT
def test_the_constructor_of_a_planted_library_does_not_run(small, tmp_path, monkeypatch):
    path, trace = small.build(), tmp_path / "trace"
    monkeypatch.setenv("PLANTED", str(trace))
    source = "#include <stdlib.h>\n" + PLANTED
    compile_it = [compilers.find_c_compiler(), "-shared", "-fPIC", "-x", "c", "-", "-o", path]
    subprocess.run(compile_it, input=source, text=True, check=True)
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(NotOwnError):
        small.load()
    assert not trace.exists()


def test_a_library_whose_bytes_have_changed_is_built_again(small):
    path = small.build()
    good = path.read_bytes()
    # A byte of its text, and the times as they were.
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_bytes(good.replace(b"answer", b"aNswer"))
    os.utime(path, ns=times)
    assert small.state() == "stale"
    assert answer(small) == 1 and path.read_bytes() == good


@pytest.mark.simulator
def test_a_kernel_of_ones_own_whose_library_has_changed_is_built_again(cache):
    y = np.zeros(32, np.float32)

    def run():
        cudasim.kernel("__global__ void seven_of_the_cache(float *y) { y[threadIdx.x] = 7.0f; }")[1, 32](y)
        return next(cache.glob("live/*/kernels.so"))

    path = run()
    made = path.read_bytes()
    path.unlink()  # this process has it loaded
    path.write_bytes(made[:-100])
    assert run().read_bytes() == made and (y == 7).all()
    path.chmod(0o666)
    with pytest.raises(NotOwnError, match="got mode 666"):
        run()


def test_a_kernel_of_ones_own_is_built_again_when_the_simulator_has_changed(tmp_path, monkeypatch):
    monkeypatch.setenv(places.cache_variable(), str(tmp_path / "cache"))
    monkeypatch.setenv("CUDASIM_C_FLAGS", "-O0")  # the simulator is built twice
    shutil.copytree(SOURCES, tmp_path / "cudasim", ignore=shutil.ignore_patterns("__pycache__", "prebuilt"))
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, cudasim\n"
        "print(cudasim.__file__)\n"
        "y = np.zeros(32, np.float32)\n"
        "cudasim.kernel('__global__ void five(float *y) { y[threadIdx.x] = 5.0f; }')[1, 32](y)\n"
        "assert (y == 5).all()\n"
    )

    def run():
        ran = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        assert str(tmp_path) in ran.stdout

    run()
    with (tmp_path / "cudasim/sim/copy.c").open("a") as file:
        file.write("/* a newer version */\n")
    run()


def test_a_folder_with_the_sticky_bit_may_be_shared(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with locked(shared / "mine" / "lock", top=shared):
        pass
    shared.chmod(0o777)
    with pytest.raises(NotOwnError, match="got mode 777"):
        make_folder(shared / "mine", top=shared)


def test_a_pipe_at_the_place_of_a_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(NotOwnError, match="expected a file or a folder, got neither"):
        opened(tmp_path / "pipe")


@pytest.fixture
def open_folder():
    """A folder that every user may read; pytest keeps its own from the others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@AS_ROOT
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_a_user_without_permission_is_refused_what_roots_neighbour_has_planted(open_folder):
    """The same as an ordinary user meets it, in a process of that user."""
    shared, source = open_folder / "shared", open_folder / "sources"
    shared.mkdir()
    shared.chmod(0o1777)
    source.mkdir()
    (source / "answer.cu").write_text(SOURCE)
    planted = shared / "live"
    planted.mkdir()
    os.chown(planted, 4321, 4321)
    program = f"""
from pathlib import Path
from cudasim.building.own_files import NotOwnError, locked, make_folder
top = Path({str(shared)!r})
with locked(top / "lib-small" / "small.lock", top=top):
    print("own")
try:
    make_folder(top / "live" / "kernel", top)
except NotOwnError as error:
    print(error)
"""
    alone = (
        "import sys, types; sys.modules['cudasim'] = it = types.ModuleType('cudasim'); it.__path__ = [PATH]\n"
    )
    call = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", sys.executable, "-c"]
    alone = alone.replace("PATH", repr(str(SOURCES)))
    if subprocess.run([*call, f"{alone}import cudasim.building.own_files"], capture_output=True).returncode:
        pytest.skip("nobody may not read Python or the clone here")
    said = subprocess.run([*call, alone + program], capture_output=True, text=True)
    assert said.stdout.splitlines()[0] == "own", said.stderr
    assert "got one of user 4321" in said.stdout and f"(number {NOBODY})" in said.stdout


def test_who_has_no_home_is_told_what_to_set(small, monkeypatch):
    monkeypatch.delenv(places.cache_variable())
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    # Python asks the table of users, which has no such user.
    monkeypatch.setattr(Path, "home", lambda: Path("~nobody-of-this-name").expanduser())
    nowhere = places.cache_folder()
    assert nowhere.is_relative_to("/nonexistent")
    monkeypatch.setattr(library, "is_writable", lambda folder: not folder.is_relative_to(nowhere))
    with pytest.raises(
        BuildError, match=rf"^{nowhere}.* cannot be written to, .*: set {places.cache_variable()} to a folder"
    ):
        replace(small, clone_build=None).build()


@AS_ROOT
def test_a_folder_that_one_may_not_even_look_into_is_one_that_cannot_be_written_to(tmp_path):
    tmp_path.chmod(0o700)
    (tmp_path / "home").mkdir()
    os.seteuid(NOBODY)
    try:
        assert not places.is_writable(tmp_path / "home" / ".cache")
    finally:
        os.seteuid(0)


@pytest.mark.simulator
def test_a_program_says_what_to_set_where_nothing_can_be_written(tmp_path, monkeypatch, capsys):
    source = tmp_path / "empty.cu"
    source.write_text("int main() { return 0; }\n")
    SIMULATOR.build()
    capsys.readouterr()
    (tmp_path / "file").touch()
    monkeypatch.setenv(places.cache_variable(), str(tmp_path / "file" / "cache"))
    assert main(["build", str(source), "-o", str(tmp_path / "empty")]) == 1
    said = capsys.readouterr().err
    assert re.fullmatch(
        rf"{tmp_path}/file/cache/\S+ cannot be written to, .*: set {places.cache_variable()} to .*\n", said
    )


@pytest.mark.simulator
def test_a_program_names_the_link_that_is_refused(tmp_path, cache, capsys):
    source = tmp_path / "empty.cu"
    source.write_text("int main() { return 0; }\n")
    SIMULATOR.build()
    cache.mkdir(exist_ok=True)  # where the clone has no simulator, it was built there
    (cache / "programs").symlink_to(tmp_path)
    assert main(["build", str(source), "-o", str(tmp_path / "empty")]) == 1
    assert f"{cache}/programs: expected a file or folder, got a symbolic link" in capsys.readouterr().err


def test_a_library_is_used_when_its_compiler_has_gone(small, monkeypatch):
    path = small.build()
    monkeypatch.setattr(toolchains, "find_c_compiler", lambda: None)
    assert small.find() == path and answer(small) == 1
    monkeypatch.setattr(library, "processor", lambda: "another")
    with pytest.raises(library.MissingToolError):
        small.build()


def test_a_copy_of_the_headers_in_the_folder_of_a_wheels_build_changes_nothing(small):
    (small.sources / "sim").mkdir()
    (small.sources / "sim" / "a.h").write_text("int a;\n")
    before = small.headers_digest()
    shutil.copytree(small.sources / "sim", small.sources / "build" / "lib" / "sim")
    assert small.headers_digest() == before
    (small.sources / "sim" / "a.h").write_text("int b;\n")
    assert small.headers_digest() != before


def test_another_compiler_is_told_before_it_builds_again(small, capsys, monkeypatch):
    small.build()
    assert "compiler has changed" not in capsys.readouterr().err
    toolchain = small.toolchain()
    other = replace(toolchain, identity="another")
    monkeypatch.setattr(library, "described", lambda compiler: "clang 99")
    replace(small, toolchain=lambda: other).build()
    assert "the compiler has changed from " in (said := capsys.readouterr().err) and "to clang 99" in said
    (small.sources / "answer.cu").write_text(SOURCE.replace("1", "2"))
    replace(small, toolchain=lambda: other).build()
    assert "compiler has changed" not in capsys.readouterr().err


@AS_ROOT
def test_a_full_disk_is_told_with_what_to_do(tmp_path, monkeypatch):
    """A disk of 64 KiB, on which the library has no room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "tmpfs", disk]).returncode != 0:
        pytest.skip("no disk can be mounted here")
    try:
        (tmp_path / "sources").mkdir()
        (tmp_path / "sources" / "answer.cu").write_text(f"char large[100000] = {{1}};\n{SOURCE}")
        monkeypatch.setenv(places.cache_variable(), str(disk))
        with pytest.raises(BuildError) as caught:
            replace(SIMULATOR, name="small", patterns=("*.cu",), sources=tmp_path / "sources").build()
    finally:
        subprocess.run(["umount", disk], check=True)
    said = str(caught.value)
    assert said.startswith("no space left on the disk of ") and str(disk) in said
    assert "may be emptied" in said and "\n" not in said


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), BuildError("as: disk quota exceeded")]
)
def test_a_full_disk_is_told_whatever_is_compiled(error, cache):
    with (
        pytest.raises(BuildError, match=f"^no space left on the disk of {cache}"),
        held(cache / "programs" / "one"),
    ):
        raise error


@pytest.mark.parametrize(
    "said, full",
    [
        ("as: x.o: can't write 40 bytes to section .text of x.o: 'No space left on device'", True),
        ("ld: final link failed: Disk quota exceeded", True),
        (OSError(28, "No space left on device"), True),
        (OSError(13, "Permission denied"), False),
        ("answer.cu:1: error: no space in the name", False),
    ],
)
def test_a_full_disk_is_known_by_its_words(said, full):
    assert full_disk.is_full(said) == full
