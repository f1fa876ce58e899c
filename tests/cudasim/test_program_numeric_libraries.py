"""cuFFT, cuSPARSE and cublasLt of whole programs, against numpy and loops."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from processes import patience

from cudasim.building.library import COUNTED_SIMULATOR, SIMULATOR, BuildError
from cudasim.programs.blas import blas
from cudasim.programs.building import Program, command

FOLDER = Path(__file__).parent / "programs"
CPP = Path(__file__).parents[2] / "cudasim" / "sim" / "cpp"
_CHARACTERS = {"C": np.complex64, "Z": np.complex128, "R": np.float32, "D": np.float64}


@pytest.fixture(scope="module", autouse=True)
def built():
    """Both simulators, whose building shows a bar on the standard error."""
    SIMULATOR.build()
    COUNTED_SIMULATOR.build()


def _draw(type_, shape, random):
    x = random.standard_normal(shape)
    if np.issubdtype(type_, np.complexfloating):
        x = x + 1j * random.standard_normal(shape)
    return x.astype(type_)


def _transformed(kind: str, x: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    axes = tuple(range(1, 1 + len(sizes)))
    if kind == "C2C":
        return np.fft.ifftn(x, axes=axes) * np.prod(sizes)
    if kind == "Z2Z":
        return np.fft.fftn(x, axes=axes)
    if kind in ("R2C", "D2Z"):
        return np.fft.rfftn(x, axes=axes)
    return np.fft.irfftn(x, s=sizes, axes=axes) * np.prod(sizes)


def _padded(x: np.ndarray, last: int) -> np.ndarray:
    return np.concatenate([x, np.zeros((*x.shape[:-1], last - x.shape[-1]), x.dtype)], axis=-1)


@pytest.mark.parametrize("mode", ["run", "check"])
@pytest.mark.parametrize("kind", ["C2C", "Z2Z", "R2C", "D2Z", "C2R", "Z2D"])
def test_cufft_computes_what_numpy_does(mode, kind, tmp_path):
    program = Program((FOLDER / "with_cufft.cu",)).library(mode)
    random = np.random.default_rng(7)
    one = [(1,), (2,), (17,), (48,), (67,), (2 * 67 * 3,), (1000,)]
    given, arguments = [], []  # all in one process: it takes longer to start than a transform
    for sizes in [*one, (5, 8), (6, 7), (3, 4, 6), (2, 67, 5)] if mode == "run" else [(134,), (5, 8)]:
        for how in "ois":
            batch = 3 if len(sizes) == 1 or how == "s" else 1
            half = (*sizes[:-1], sizes[-1] // 2 + 1)
            x = _draw(_CHARACTERS[kind[0]], (batch, *(half if kind in ("C2R", "Z2D") else sizes)), random)
            read = (_padded(x, 2 * half[-1]) if how == "i" and kind in ("R2C", "D2Z") else x).reshape(-1)
            to = tmp_path / f"out{len(given)}"
            (tmp_path / f"in{len(given)}").write_bytes((np.repeat(read, 3) if how == "s" else read).tobytes())
            arguments += [tmp_path / f"in{len(given)}", to, kind, batch, how, *sizes, ","]
            given.append((sizes, how, x, to))
    runs = command(mode, program, "with_cufft", [str(of) for of in arguments[:-1]])
    ran = subprocess.run(runs, capture_output=True, text=True, timeout=patience(300))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    for sizes, how, x, to in given:
        expected = _transformed(kind, x.astype(complex if kind[0] in "CZ" else float), sizes)
        found = np.fromfile(to, _CHARACTERS[kind[2]])
        if how == "s":
            assert not found.reshape(-1, 3)[:, 1:].any()
            found = found.reshape(-1, 3)[:, 0]
        if how == "i" and kind in ("C2R", "Z2D"):
            found = found.reshape(len(x), *sizes[:-1], -1)[..., : sizes[-1]]
        error = np.linalg.norm(found.reshape(expected.shape) - expected) / np.linalg.norm(expected)
        assert error < (1e-7 if kind[0] in "CR" else 1e-14), (sizes, how)


def _missing_of(header: str) -> list[str]:
    text = (CPP / header).read_text()
    macro, prefix = re.search(
        r"#define (SIM_MISSING_\w+)\(name\) SIM_MISSING\(\w+, (\w+)##name\)", text
    ).groups()
    return [prefix + name for name in re.findall(rf"^{macro}\((\w+)\)", text, re.M)]


@pytest.mark.parametrize("header", ["cufft.hpp", "cusparse_functions.hpp"])
def test_what_a_library_lacks_is_refused_by_name_all_at_once(header, tmp_path):
    names = _missing_of(header)
    assert len(names) > 20
    calls = "".join(f"    {name}(0, 1.5);\n" for name in names)
    source = tmp_path / "main.cu"
    source.write_text(f"#include <{header.split('.')[0].split('_')[0]}.h>\nint main() {{\n{calls}}}\n")
    with pytest.raises(BuildError) as told:
        Program((source,)).library("run")
    for name in names:
        assert f"error: {name} is called, and neither the program nor the simulator has it" in str(told.value)


@pytest.mark.parametrize("mode", ["run", "check"])
def test_cusparse_computes_what_dense_loops_do(mode):
    """The program compares, and says what is wrong."""
    runs = command(mode, Program((FOLDER / "with_cusparse.cu",)).library(mode), "with_cusparse", ["refused"])
    ran = subprocess.run(runs, capture_output=True, text=True, timeout=patience(300))
    told = "cudasim: cusparseCreateDnVec() has no values of the type 28 here\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "refused\n", told)


@pytest.mark.parametrize("mode", ["run", "check"])
@pytest.mark.skipif(blas() is None, reason="there is no BLAS here")
def test_cublaslt_computes_what_loops_do(mode):
    """The program compares, and says what is wrong."""
    library = Program((FOLDER / "with_cublaslt.cu",)).library(mode)
    runs = command(mode, library, "with_cublaslt", ["refused"])
    ran = subprocess.run(runs, capture_output=True, text=True, timeout=patience(300))
    told = "cudasim: cublasLtMatmul() has no epilogue without its bias's type, or none at all, 192 here\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "refused\n", told)


@pytest.mark.parametrize("mode", ["run", "check"])
def test_cusparse_fills_solves_and_converts_matrices_as_dense_loops_do(mode):
    """The program compares, and says what is wrong."""
    library = Program((FOLDER / "with_cusparse_matrices.cu",)).library(mode)
    runs = command(mode, library, "with_cusparse_matrices", [])
    ran = subprocess.run(runs, capture_output=True, text=True, timeout=patience(300))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize("mode", ["run", "check"])
@pytest.mark.skipif(blas() is None, reason="there is no BLAS here")
def test_cublas_without_handles_is_right_and_keeps_its_status(mode):
    """The program compares with loops, and says results and an invalid value, once."""
    library = Program((FOLDER / "with_first_cublas.cu",)).library(mode)
    runs = command(mode, library, "with_first_cublas", [])
    ran = subprocess.run(runs, capture_output=True, text=True, timeout=patience(300))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "0 56 60 1 0\n7 0 0\n", "")


@pytest.mark.skipif(blas() is None, reason="there is no BLAS here")
def test_matrices_that_cublas_reads_are_written_and_large_enough():
    program = Program((FOLDER / "cublas_mistakes.cu",)).library("check")
    lines = (FOLDER / "cublas_mistakes.cu").read_text().splitlines()
    call = next(number for number, text in enumerate(lines, 1) if "cublasSgemm(" in text)
    for which, told in {
        "": "",
        "unwritten": r"a library reads byte 0 of b \(cudaMalloc at .*\), which nobody has written since",
        "sum": r"a library reads byte 0 of c \(cudaMalloc at .*\), which nobody has written since",
        "small": r"a library reads 256 bytes from byte 0 on of b \(cudaMalloc at .*\), which has 128",
    }.items():
        call_of = command("check", program, "cublas_mistakes", [which] if which else [])
        found = subprocess.run(call_of, capture_output=True, text=True, timeout=patience(300))
        expected = rf"cudasim: cublas_mistakes\.cu:{call}: {told}\n" if told else ""
        assert re.match(expected or "$", found.stderr), (which, found.stderr)
        assert found.returncode == (1 if told else 0)
