"""Libraries of whole programs: Thrust and libcu++ from NVIDIA's wheel, CUB's device-wide functions."""

import functools
import itertools
import re
import subprocess
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from processes import patience

import cudasim
from cudasim.building.library import COUNTED_SIMULATOR, SIMULATOR, BuildError
from cudasim.live import cccl
from cudasim.programs.blas import blas
from cudasim.programs.building import Program, command

FOLDER = Path(__file__).parent / "programs"

needs_wheel = pytest.mark.skipif(cccl.headers() is None, reason="there is no nvidia-cuda-cccl here")


@pytest.fixture(scope="module", autouse=True)
def built():
    """Both simulators, whose building shows a bar on the standard error."""
    SIMULATOR.build()
    COUNTED_SIMULATOR.build()


@functools.cache
def built_program(name: str, mode: str) -> Path:
    return Program((FOLDER / name,)).library(mode)


def ran(name: str, mode: str, *arguments: str) -> subprocess.CompletedProcess:
    runs = command(mode, built_program(name, mode), name, arguments)
    return subprocess.run(runs, capture_output=True, text=True, timeout=patience(300))


def lines(name: str, mode: str) -> dict[str, list[float]]:
    """What a program prints: a name and numbers in each line."""
    of = ran(name, mode)
    assert (of.stderr, of.returncode) == ("", 0)
    names, numbers = zip(*(line.split(": ") for line in of.stdout.splitlines()), strict=True)
    return dict(zip(names, ([float(number) for number in of.split()] for of in numbers), strict=True))


@pytest.mark.parametrize("mode", ["run", "check"])
@needs_wheel
def test_thrust_computes_what_numpy_does_and_kernels_use_its_vectors(mode):
    n = 64
    i = np.arange(n)
    scan = np.cumsum(i)
    keys = np.bincount(i // 10)
    expected = {
        "first": [1, n - 1],
        "products": 3 * i,
        "placeholders": 2 * i + 1,
        "zipped": i + 3,
        "scan": scan,
        "pointers": [n - 1, n - 2, 0],
        "sum": [(i + 1).sum(), 1, n // 2],
        "by key": keys,
        "odd": i[i % 2 == 1],
        "even": scan[scan % 2 == 0],
        "squares": [(i**2).sum()] * 2,
        "inner product": [(3 * i).sum()],
        "extremes": [0, n - 1],
        "bounds": np.searchsorted(i, [3, 5, 60]),
        "shuffled": [i.sum()],
        "universal": [3, 3],
        "malloc": [10],
        "complex": [-3, 2.2],
        "from std": [77, n + 2],
        "logic": [1, 0],
        "lambda": [103],
        "many": [2**24 + 2**20] * 2,
    }
    found = lines("with_thrust.cu", mode)
    random = found.pop("random")
    assert len(random) == 5 and set(random) <= set(range(10))
    assert {name: list(of[:8]) for name, of in expected.items()} == found


@needs_wheel
def test_cub_computes_what_numpy_does():
    x = np.array([8, 6, 7, 5, 3, 0, 9, 9, 9, 2])
    runs = [(value, len(list(of))) for value, of in itertools.groupby(x)]
    segments = [x[0:3], x[3:3], x[3:10]]
    even = x[x % 2 == 0]
    expected = {
        "argmin": [x.argmin(), x.min()],
        "squares": [(x**2).sum()],
        "exclusive": np.cumsum(x) - x + 1,
        "bits": x[np.argsort(x % 4, kind="stable")],
        "even": even,
        "lengths": [length for _, length in runs],
        "segments": [of.sum() for of in segments],
        "sorted segments": np.concatenate([np.sort(of) for of in segments]),
        "histogram": np.histogram(x, 5, (0, 10))[0],
        "by key": [value * length for value, length in runs],
        "merge": np.sort(x)[::-1],
        "many": [2**24 + 2**20],
    }
    assert {name: list(of) for name, of in expected.items()} == lines("with_cub.cu", "run")


@needs_wheel
def test_cub_launches_its_own_kernels_which_are_checked_and_counted():
    right, counted = ran("cub_mistakes.cu", "check", "none"), ran("cub_mistakes.cu", "count", "none")
    assert (right.stdout, right.stderr, right.returncode) == ("300000\n", "", 0)
    kernels = next(line for line in counted.stderr.splitlines() if line.startswith("kernel"))
    assert kernels.split()[1:] == [
        *("DeviceScanInitKernel", "DeviceScanKernel"),
        *("DeviceReduceKernel", "DeviceReduceSingleTileKernel"),
    ]


@pytest.mark.parametrize(
    ("which", "told"),
    [
        ("temporary", "a library's call fails: invalid argument (cub/util_temporary_storage.cuh:"),
        ("count", "reads 4 bytes at in[100000], which has 100000 elements"),
        ("freed", "which was freed at cub_mistakes.cu:"),
    ],
)
@needs_wheel
def test_mistakes_around_cub_are_told_with_the_line_of_its_call(which, told):
    found = ran("cub_mistakes.cu", "check", which)
    source = (FOLDER / "cub_mistakes.cu").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if text.endswith("// here"))
    assert found.returncode != 0 and told in found.stderr
    assert f"cudasim: cub_mistakes.cu:{line}: " in found.stderr


@needs_wheel
def test_cub_has_the_iterators_of_thrust(tmp_path):
    source = tmp_path / "main.cu"
    source.write_text(
        "#include <cub/cub.cuh>\nint main() { return thrust::constant_iterator<char, int>(3)[5]; }\n"
    )
    ran = subprocess.run(command("run", Program((source,)).library("run"), "main", ()))
    assert ran.returncode == 3


@pytest.mark.parametrize("mode", ["run", "check"])
@needs_wheel
def test_libcudacxx_of_the_wheel_is_beside_the_simulators_barriers_and_atomics(mode):
    def value(thread):
        # of array, optional, tuple, complex, popcount; of maximum, ceil_div, sqrt, max
        return [1, 2, 3][thread % 3] + (5 if thread % 2 else 1) + 4 - 1 + 3 + 4 + 4 + 4 + 2

    values = [value(thread) for thread in range(31)]
    assert lines("with_libcudacxx.cu", mode) == {
        "values": [values[0], values[1], sum(values), 2**31 - 1],
        "barrier": [31],
        "pair": [2],
    }


@needs_wheel
def test_a_right_program_with_vectors_has_neither_faults_nor_leaks():
    found = ran("thrust_mistakes.cu", "check")
    assert (found.stdout, found.stderr, found.returncode) == ("1\n", "", 0)


@pytest.mark.parametrize(
    ("which", "told", "line"),
    [
        ("unwritten", "reads x[1], whose memory was given unwritten", "y[0] = x[1]"),
        ("library", "a library reads byte 0 of x (cudaMalloc at thrust_mistakes.cu:", "thrust::reduce("),
        ("overrun", "reads 4 bytes at x[64], which has 64 elements", ""),
        ("host", "accesses byte 8 of memory of Thrust, which is memory of the GPU", "kept.data().get()[2]"),
        ("after", "accesses byte 12 of x, which is memory of the GPU", "x[3]"),
    ],
)
@needs_wheel
def test_mistakes_around_thrust_are_told(which, told, line):
    found = ran("thrust_mistakes.cu", "check", which)
    assert told in found.stderr and found.returncode != 0 and found.stderr.count("cudasim: ") == 1
    source = (FOLDER / "thrust_mistakes.cu").read_text().splitlines()
    numbers = [number for number, text in enumerate(source, 1) if line in text]
    assert not line or f"thrust_mistakes.cu:{numbers[0]}" in found.stderr


@needs_wheel
def test_only_a_version_whose_text_is_known_is_taken(monkeypatch):
    texts = [path.read_text() for pattern in cccl._TRANSLATED for path in cccl.headers().glob(pattern)]
    for pattern, _ in cccl._CHANGES:
        assert any(re.search(pattern, text) for text in texts), pattern
    monkeypatch.setattr(cccl, "_KNOWN", cccl._KNOWN + 1)
    assert cccl.headers.__wrapped__() is None


def test_without_the_wheel_the_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(cccl, "headers", lambda: None)
    source = tmp_path / "main.cu"
    source.write_text(
        "#if 0\n#include <thrust/scan.h>\n#endif\n\n#include <thrust/sort.h>\nint main() {\n}\n"
    )
    with pytest.raises(
        BuildError, match=r"main\.cu:5.*thrust/sort\.h.*pip install 'nvidia-cuda-cccl"
    ) as told:
        Program((source,)).library("run")
    assert "thrust/scan.h" not in str(told.value)


@pytest.mark.parametrize("include", ["#include <cub/block/block_scan.cuh>", ""])
def test_without_the_wheel_cub_says_what_to_install(monkeypatch, tmp_path, include):
    monkeypatch.setattr(cccl, "headers", lambda: None)
    text = f"{include}\n__global__ void k(int *y) {{ *y = cub::Sum()(*y, 1); }}\n"
    (tmp_path / "main.cu").write_text(text + "int main() {}\n")
    says = r"1:.*cub/cub\.cuh.*pip install 'nvidia-cuda-cccl.*cudasim\[cccl\]"
    with pytest.raises(BuildError, match=says):
        Program((tmp_path / "main.cu",)).library("run")
    with pytest.raises(BuildError, match=says):
        cudasim.kernel(text).build()


@pytest.mark.parametrize(
    ("which", "reads"),
    [
        ("runs", "Reduce(shared.reduce).Sum(tails)"),
        ("compacted", "out[i] = kept[i]"),
        ("exchanged", "bins[threadIdx.x]"),
    ],
)
@needs_wheel
def test_a_missing_barrier_between_collectives_of_cub_is_told_with_its_line(which, reads):
    right, wrong = ran("cub_blocks.cu", "check", which), ran("cub_blocks.cu", "check", which, "wrong")
    assert (right.stdout, right.stderr, right.returncode) == ("right\n", "", 0)
    source = (FOLDER / "cub_blocks.cu").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if reads in text)
    assert wrong.returncode != 0 and "race in " in wrong.stderr and f"cub_blocks.cu:{line}" in wrong.stderr


@pytest.mark.parametrize("mode", ["run", "check"])
def test_curand_fills_arrays_with_its_distributions(mode):
    # Mean and variance; of n numbers they are so near that four standard errors are less than 3 %.
    found = lines("with_curand.cu", mode)
    expected = {
        "uniform": [1 / 2, 1 / 12],
        "normal": [3, 4],
        "normal double": [-1, 1 / 4],
        "poisson": [4, 4],
        "host": [1 / 2, 1 / 12],
    }
    assert found.pop("as in a kernel") == [0, 0]
    assert found.pop("odd") == [105]
    for name, of in expected.items():
        assert found.pop(name) == pytest.approx(of, rel=0.03)
    assert found == {}


@pytest.mark.parametrize(
    ("which", "told"),
    [
        ("host", "which is no memory of the GPU"),
        ("overrun", "writes 262152 bytes to x, which has 262144"),
    ],
)
def test_where_curand_cannot_write_is_told(which, told):
    found = ran("with_curand.cu", "check", which)
    assert told in found.stderr and "with_curand.cu:" in found.stderr
    assert found.stdout.startswith("201\n")


@pytest.mark.parametrize("mode", ["run", "check"])
@pytest.mark.skipif(blas() is None, reason="there is no BLAS here")
def test_cublas_is_right(mode):
    """The program compares with loops, and says ok."""
    of = ran("with_cublas.cu", mode)
    assert (of.returncode, of.stdout, of.stderr) == (0, "ok\n", "")


def test_kernels_of_a_source_that_uses_cublas_run_without_it():
    fill = cudasim.kernel(
        "#include <cublas_v2.h>\n__global__ void fill(float *y) { y[threadIdx.x] = threadIdx.x; }\n"
        "void host(cublasHandle_t handle) { cublasDestroy(handle); }\n"
    )
    y = np.zeros(4, np.float32)
    fill[1, 4](y)
    assert list(y) == [0, 1, 2, 3]


def test_a_program_is_not_sent_to_torch(tmp_path):
    source = tmp_path / "main.cu"
    source.write_text("int main() {\n    cublasHandle_t handle;\n    return cublasCreate(&handle);\n}\n")
    with pytest.raises(BuildError, match=r"main\.cu:2.*cublasHandle_t") as told:
        Program((source,)).library("run")
    assert "torch" not in str(told.value)


@pytest.mark.parametrize("mode", ["run", "check"])
def test_quasi_random_numbers_are_sobol_s(mode):
    qmc = pytest.importorskip("scipy.stats.qmc", reason="SciPy has the same numbers")
    dimensions, count = 12, 40
    points = qmc.Sobol(dimensions, scramble=False, bits=32).random(64).T
    found = lines("with_sobol.cu", mode)
    for name, first, half in (
        ("32", 1, 2**-33),
        ("64", 1, 2**-54),
        ("kernel 32", 1, 2**-33),
        ("kernel 64", 7, 2**-54),
    ):
        expected = points[:, first : first + count].ravel() + half
        assert np.array_equal(found[name], expected), name
    inner = [NormalDist().inv_cdf(point) for point in (0.5, 0.75)]
    assert found["normal"][1:] == pytest.approx([1 + 2 * x for x in inner], abs=1e-6)
    assert found["refused"] == [103, 105, 103]  # wrong type, length not multiple, wrong type
