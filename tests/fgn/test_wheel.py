"""What a wheel installs, as somebody uses it who has no compiler, no binutils and no folder to write to.

The package is built as a wheel has it, but with the simulators of this clone: to compile them takes minutes.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cudasim.building.lines import write_table
from fgn.native.library import COUNTED_SIMULATOR, SIMULATOR
from fgn.native.places import ROOT

NOBODY = 65534
PREAMBLE = """
import shutil, sys, fgn, torch
assert fgn.__file__.startswith(sys.argv[1]) and not any(map(shutil.which, ("cc", "gcc", "addr2line")))
"""


@pytest.fixture(scope="module")
def installed():
    """A folder with the package as a wheel installs it, which nobody may write to."""
    if shutil.which("objdump") is None:
        pytest.skip("needs objdump (binutils)")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        package = Path(folder) / "site-packages"
        environment = os.environ | {"PATH": str(package), "CC": ""}
        arguments = ["build", "--build-base", f"{folder}/build", "build_py", "--build-lib", str(package)]
        command = [sys.executable, "setup.py", "--quiet", *arguments]
        for clone in (ROOT, ROOT / "cudasim"):
            build = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
            assert build.returncode == 0, build.stderr
            assert "the wheel carries no " in build.stderr and "no C compiler was found" in build.stderr
        libraries = [SIMULATOR, COUNTED_SIMULATOR, *SIMULATOR.needs, *COUNTED_SIMULATOR.needs]
        for library in libraries:
            of_kernels = library in (SIMULATOR, COUNTED_SIMULATOR)
            prebuilt = package / ("fgn/data/prebuilt" if of_kernels else "cudasim/prebuilt")
            prebuilt.mkdir(exist_ok=True)
            path = library.build()
            for file in (path, path.with_suffix(".stamp")):
                shutil.copy(file, prebuilt)
            write_table(prebuilt / path.name)
        for path in [package, *package.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield package
        package.chmod(0o755)
        for path in package.rglob("*/"):
            path.chmod(0o755)


def run(installed, *command) -> subprocess.CompletedProcess:
    environment = {"PATH": "/nowhere", "HOME": "/nowhere", "PYTHONPATH": str(installed), "MPLBACKEND": "agg"}
    environment |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    if os.getuid() == 0 and not all(folder.stat().st_mode & 0o001 for folder in installed.parents):
        pytest.skip("the folder for temporary files is root's own")
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    command = [sys.executable, *map(str, command)]
    try:
        return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, **who)
    except PermissionError:
        pytest.skip("Python is in a folder of root's own")


def output_of(installed, script: str) -> str:
    result = run(installed, "-c", PREAMBLE + script, installed)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_chain_count_check_and_player(installed):
    output_of(
        installed,
        """
model, x = fgn.GemmBiasAddHardtanhMishGroupNorm(32, 64, (64,), 8), torch.rand(5, 32)
with torch.no_grad():
    assert model(x).shape == (5, 64)
assert (fgn.compare("gemm_groupnorm_hardtanh", shape=(5, 32, 64, 8)).ratio < 3).all()
weight = torch.rand(64, 32)
call = lambda: fgn.functional.linear(x, weight, version="shared_tile")
assert fgn.count(call).kernel.tolist() == ["shared_tile_gemm_kernel"]
fgn.check(call)
assert fgn.simulator.count_lines(call).file.str.endswith("gemm_3_shared_tile.cu").all()
assert "shared_tile_gemm_kernel" in repr(fgn.play(call, steps=4))
""",
    )


def test_gallery_plots_and_puzzles(installed):
    output_of(
        installed,
        """
from fgn.bugs import gallery
from fgn.plot import results
assert len(gallery.table()) > 10 and gallery.story("no_barrier_after_use")
assert results.errors(fgn.compare("gemm_groupnorm_hardtanh", shape=(5, 32, 64, 8))) is not None
assert len(fgn.model.versions("gemm_groupnorm_hardtanh", (1024, 512, 512, 16))) > 5
assert fgn.puzzles.get("map").draw() is not None
""",
    )


def test_what_needs_a_compiler_says_so_in_a_sentence(installed):
    said = output_of(
        installed,
        """
from fgn.bugs import gallery
kernel = "__global__ void k() {}"
for call in (lambda: fgn.kernel(kernel)[1, 1](), lambda: gallery.run("no_barrier_after_use")):
    try:
        call()
    except RuntimeError as error:
        print(type(error).__name__, error)
""",
    ).splitlines()
    assert len(said) == 2 and all("no C++ compiler was found" in line for line in said), said


def test_doctor(installed):
    result = run(installed, "-m", "fgn", "doctor")
    assert result.returncode == 1 and "/nowhere/.cache/cudasim cannot be written to" in result.stdout
    assert result.stdout.count(str(installed)) == 2 and not result.stderr
