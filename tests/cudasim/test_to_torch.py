"""A kernel as an operator of PyTorch: the file that is written, what it refuses, on a GPU what it does."""

import importlib.util
import subprocess
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import cudasim
from cudasim.building.toolchains import find_nvcc

needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="there is no nvcc")

AXPY = """
#include <cuda_fp16.h>
#include <stdio.h>
#define N 4
__global__ void axpy(float *out, const float *x, const __half *y, float a, int n, const int *in, bool twice) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = (twice ? 2 * a : a) * x[i] + __half2float(y[i] + y[i]) + (in ? in[i] : N);
}
int main() { printf("of the host"); }
"""
TEMPLATE = """
template <class T, int width> __global__ void row_sums(T *sums, const T *rows, long columns) {
    extern __shared__ double parts[];
    double sum = 0;
    for (long c = threadIdx.x; c < columns; c += width)
        sum += rows[blockIdx.x * columns + c];
    parts[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < width; i++)
            sum += parts[i];
        sums[blockIdx.x] = sum;
    }
}
"""
PORTABLE = """
__global__ void doubles(float *x) {
    float *mine = (float *)dynamic_shared;
    mine[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = 2 * mine[threadIdx.x];
}
"""
OTHERS = """
struct Both { float *a; int n; };
__constant__ float filled[4];
__constant__ float told[2] = {1, 2};
__global__ void takes_a_struct(float *y, Both both) { y[0] = both.n; }
__global__ void takes_a_table(float **y) { y[0][0] = 1; }
__global__ void takes_no_tensor(int n) {}
"""


def bound(source, grid, block, shared_bytes=0, name=None):
    return cudasim.kernel(source, name)[grid, block, shared_bytes]


def loaded(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def axpy_arguments(n=1000, device="cpu"):
    x, y = torch.randn(n, device=device), torch.randn(n, device=device).half()
    return torch.zeros(n, device=device), x, y, 0.5, n, None, True


def axpy_file(folder, name="axpy", grid="(n + 127) / 128", **more) -> Path:
    launch = bound(AXPY, 8, 128)
    path = folder / f"{name}_op.py"
    assert cudasim.to_torch(launch, *axpy_arguments(), name=name, path=path, grid=grid, **more) == path
    return path


def sums_file(folder, device="cpu") -> Path:
    rows, sums = torch.rand(3, 70, device=device), torch.zeros(3, device=device)
    launch = bound(TEMPLATE, 3, 32, 32 * 8)
    path = folder / "row_sums_op.py"
    return cudasim.to_torch(launch, sums, rows, 70, name="row_sums", path=path, template=("float", 32))


def test_the_schema_says_what_the_kernel_writes(tmp_path):
    module = loaded(axpy_file(tmp_path, "axpy_schema"))
    schema = torch.ops.cudasim.axpy_schema.default._schema
    written = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    assert written == ["out"] and not schema.returns
    assert [a.name for a in schema.arguments] == [
        "out",
        "x",
        "y",
        "a",
        "n",
        "twice",
    ]  # `in` was given as None
    assert "\ngrid: (n + 127) / 128\nblock: 128, 1, 1\n" in module.__doc__
    assert "of the host" not in module.CUDA


def test_a_tensor_that_is_not_on_a_gpu_is_refused_by_name(tmp_path):
    module = loaded(axpy_file(tmp_path, "axpy_on_cpu"))
    out, x, y, a, n, _, twice = axpy_arguments()
    with pytest.raises(TypeError, match=r"axpy_on_cpu: out: expected a tensor on a GPU, got one on cpu"):
        module.axpy_on_cpu(out, x, y, a, n, twice)


def test_torch_compiles_what_calls_the_operator(tmp_path, monkeypatch):
    """With a launch of the test's own, on the CPU: torch must know what the operator writes."""
    module = loaded(axpy_file(tmp_path, "axpy_traced"))

    def launch(out, x, y, a, n, twice):
        out.copy_((2 * a if twice else a) * x + 2 * y.float() + 4)

    monkeypatch.setattr(module, "check", lambda *given: None)
    monkeypatch.setattr(module, "library", lambda: SimpleNamespace(launch=launch))
    out, x, y, a, n, _, twice = axpy_arguments()

    def function(x, y):
        out = torch.zeros_like(x)
        before = out + 1
        module.axpy_traced(out, x * 2, y, a, x.numel(), twice)
        return before, out + 1

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    expected = x * 2 + 2 * y.float() + 4 + 1
    for before, after in (function(x, y), compiled(x, y)):
        assert torch.equal(before, torch.ones_like(x)) and torch.equal(after, expected)
    torch.library.opcheck(torch.ops.cudasim.axpy_traced.default, (out, x, y, a, n, twice))


def test_what_the_operator_checks(tmp_path):
    module = loaded(sums_file(tmp_path))

    def given(**more):
        usual = {"is_cuda": True, "device": "cuda:0", "dtype": torch.float32, "is_contiguous": lambda: True}
        return SimpleNamespace(**(usual | {"data_ptr": lambda: 512, "numel": lambda: 3} | more))

    module.check("x", given(), torch.float32, 16, 3)
    for wrong, error, words in (
        (
            {"dtype": torch.float64},
            TypeError,
            "x: expected a tensor of torch.float32, got one of torch.float64",
        ),
        ({"is_contiguous": lambda: False, "stride": lambda: (1, 3)}, ValueError, "x: expected a contiguous"),
        ({"data_ptr": lambda: 520}, ValueError, "x: expected an address that 16 divides"),
        ({"numel": lambda: 4}, ValueError, "x: expected 3 elements, for which the grid is made, got 4"),
    ):
        with pytest.raises(error, match=words):
            module.check("x", given(**wrong), torch.float32, 16, 3)
    module.check_int("n", 2**31 - 1, -(2**31), 2**31 - 1)
    with pytest.raises(ValueError, match="n: expected -2147483648 <= n <= 2147483647, got 2147483648"):
        module.check_int("n", 2**31, -(2**31), 2**31 - 1)
    text = (tmp_path / "row_sums_op.py").read_text()
    assert 'check("rows", rows, torch.float32, 4, 210)' in text
    assert 'check_int("columns", columns, -(2**63), 2**63 - 1)' in text


def test_a_kernel_makes_its_file_from_its_last_launch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kernel = cudasim.kernel(AXPY)
    with pytest.raises(RuntimeError, match="axpy: expected a kernel that was launched before"):
        kernel.to_torch("axpy")
    out, *rest = axpy_arguments()
    kernel[8, 128](out, *rest)
    assert kernel.to_torch("axpy_last", writes=["out"]) == Path("axpy_last_op.py")
    text = Path("axpy_last_op.py").read_text()
    assert "grid: 8, 1, 1\nblock: 128, 1, 1\n" in text and 'check("out", out, torch.float32, 4, 1000)' in text


@pytest.mark.parametrize(
    "name, arguments, error, words",
    [
        ("takes_a_struct", (torch.zeros(1), {"n": 1}), TypeError, "both: expected a tensor or a number"),
        ("takes_a_table", ([torch.zeros(1)],), TypeError, "y: expected a tensor or a number"),
        ("takes_no_tensor", (3,), TypeError, "expected a kernel that takes a tensor"),
    ],
)
def test_what_operators_of_torch_do_not_take(name, arguments, error, words, tmp_path):
    source = OTHERS.replace("__constant__ float filled[4];", "")
    with pytest.raises(error, match=f"{name}: .*{words}"):
        cudasim.to_torch(bound(source, 1, 1, name=name), *arguments, name=name, path=tmp_path / "op.py")
    assert not (tmp_path / "op.py").exists()


def test_constants_that_python_fills_are_refused_and_those_of_the_source_are_not(tmp_path):
    used = "__global__ void k(float *y) { y[0] = told[0]; }"
    path = tmp_path / "k_op.py"
    with pytest.raises(
        ValueError, match="k: filled: expected a kernel that gets all its values by arguments"
    ):
        cudasim.to_torch(bound(OTHERS + used, 1, 1, name="k"), torch.zeros(1), name="k_op", path=path)
    source = OTHERS.replace("__constant__ float filled[4];", "") + used
    cudasim.to_torch(bound(source, 1, 1, name="k"), torch.zeros(1), name="k_op", path=path)


def test_wrong_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match="name: expected a name of Python"):
        axpy_file(tmp_path, "not a name")
    with pytest.raises(ValueError, match="writes: expected names among out, got 'x'"):
        axpy_file(tmp_path, writes=["x"])
    with pytest.raises(TypeError, match="grid: expected up to three ints or formulas"):
        axpy_file(tmp_path, grid=1.5)
    (tmp_path / "axpy_op.py").write_text("import mine\n")
    with pytest.raises(FileExistsError, match="path: expected no file, or one that was written by to_torch"):
        axpy_file(tmp_path)


def assert_compiles(module, folder, headers_of_torch):
    """Compiles the sources with the flags that torch has for them, as far as that needs no GPU."""
    from torch.utils import cpp_extension

    (folder / "cuda.cu").write_text(module.CUDA)
    stub = folder / "c10" / "cuda" / "impl"  # a torch for the CPU has all headers but this one
    stub.mkdir(parents=True)
    (stub / "cuda_cmake_macros.h").write_text("#pragma once\n")
    given = {}
    original = module.load_inline
    module.load_inline = lambda **keywords: given.update(keywords)
    module.library()
    module.load_inline = original
    flags = [*cpp_extension.COMMON_NVCC_FLAGS, *given["extra_cuda_cflags"], "-std=c++20", "-arch=sm_90"]
    flags += [f"-I{path}" for path in given["extra_include_paths"]]
    nvcc = Path(find_nvcc()).resolve()
    run = {"cwd": folder, "capture_output": True, "text": True}
    built = subprocess.run([nvcc, *flags, "-c", "cuda.cu", "-o", "cuda.o"], **run)
    assert built.returncode == 0, built.stderr
    if not headers_of_torch:  # which take seconds
        return
    # Of all that extension.h includes, the sources name tensors, and a GPU's own test includes the rest.
    (folder / "main.cpp").write_text(module.CPP.replace("<torch/extension.h>", "<torch/types.h>"))
    cuda = [path for path in cuda_folders() if (path / "cuda_runtime_api.h").is_file()]
    folders = [*cpp_extension.include_paths(), *cuda, folder]
    headers = [f"-I{path}" for path in folders]
    python = f"-I{sysconfig.get_paths()['include']}"
    said = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", *headers, python, "main.cpp"], **run)
    assert said.returncode == 0, said.stderr[:4000]


def cuda_folders():
    """Where the headers of nvcc are, as nvcc says itself."""
    said = subprocess.run(
        [find_nvcc(), "--dryrun", "-c", "x.cu"], capture_output=True, text=True, cwd="/"
    ).stderr
    return [Path(piece.strip('"')[2:]) for piece in said.split() if piece.strip('"').startswith("-I")]


@needs_nvcc
@pytest.mark.parametrize("which", ["axpy", "row_sums", "doubles"])
def test_the_sources_compile(which, tmp_path):
    if which == "axpy":
        path = axpy_file(tmp_path, "axpy_compiled")
    elif which == "row_sums":
        path = sums_file(tmp_path)
    else:
        launch = bound(PORTABLE, 1, 32, 128)
        path = cudasim.to_torch(launch, torch.zeros(32), name="doubles", path=tmp_path / "doubles_op.py")
    assert_compiles(loaded(path), tmp_path, which == "axpy")


@pytest.mark.gpu
def test_on_a_gpu_the_operator_is_the_kernel(tmp_path):
    module = loaded(axpy_file(tmp_path, "axpy_gpu"))
    kernel = cudasim.kernel(AXPY)
    for n in (1, 1000, 4097):
        out, x, y, a, n, none, twice = axpy_arguments(n, "cuda")
        kernel[(n + 127) // 128, 128](expected := torch.zeros_like(out), x, y, a, n, none, twice)
        module.axpy_gpu(out, x, y, a, n, twice)
        assert torch.equal(out, expected)
    with pytest.raises(ValueError, match="axpy_gpu: x: expected a contiguous tensor"):
        module.axpy_gpu(out, x.repeat_interleave(2)[::2], y, a, n, twice)
    with pytest.raises(TypeError, match=r"axpy_gpu: y: expected a tensor of torch\.float16"):
        module.axpy_gpu(out, x, x, a, n, twice)
    with pytest.raises(ValueError, match="n: expected"):
        module.axpy_gpu(out, x, y, a, 1 << 40, twice)


@pytest.mark.gpu
def test_on_a_gpu_a_template_with_shared_memory_runs_on_the_current_stream(tmp_path):
    module = loaded(sums_file(tmp_path, "cuda"))
    late = torch.zeros(3, 70, device="cuda")
    sums = torch.zeros(3, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(50_000_000)  # a kernel on another stream would read zeros
        late.copy_(torch.ones_like(late))
        module.row_sums(sums, late, 70)
    torch.cuda.synchronize()
    assert sums.tolist() == [70.0] * 3
    with pytest.raises(ValueError, match="rows: expected 210 elements"):
        module.row_sums(sums, late[:2], 70)


@pytest.mark.gpu
def test_on_a_gpu_the_operator_compiles_and_passes_torchs_own_check(tmp_path):
    module = loaded(axpy_file(tmp_path, "axpy_compiled_gpu"))
    out, x, y, a, n, _, twice = axpy_arguments(1000, "cuda")

    def function(x, y):
        out = torch.empty_like(x)
        module.axpy_compiled_gpu(out, x * 2, y, a, x.numel(), twice)
        return out + 1

    expected = function(x, y)
    assert torch.equal(torch.compile(function, fullgraph=True)(x, y), expected)
    torch.library.opcheck(torch.ops.cudasim.axpy_compiled_gpu.default, (out, x, y, a, n, twice))
