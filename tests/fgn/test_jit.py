"""Kernels that are compiled for one call compute what the library's own do (`fgn.native.jit`)."""

import functools
import random
import re
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import pytest
import torch
from rounding import ROUNDOFF
from test_feature_maps import random_problems as random_maps

from cudasim.building.library import BuildError, run
from cudasim.building.places import SOURCES as SIMULATOR_SOURCES
from cudasim.building.toolchains import find_nvcc, nvcc_toolchain
from fgn import chain_forward
from fgn.chains import Chain, Shape, random_inputs
from fgn.feature_maps import feature_maps_forward
from fgn.measure.accuracy import misplaced, relative_error
from fgn.native import cublas, jit
from fgn.native.library import GPU, ffi
from fgn.native.places import SOURCES
from fgn.operators import IN_CHAINS, POINTWISE, Pointwise
from fgn.rows import AGAIN, ROW_FUNCTIONS, Rows, rows_forward

needs_nvrtc = pytest.mark.skipif(jit.nvrtc() is None, reason="needs cuda-bindings and NVRTC")


def random_steps(draw: random.Random, features: int, batch: int, dtype, operands: dict, reads_again: bool):
    """Up to four operators of any kind, and their operands."""
    steps = []
    for _ in range(draw.randrange(5)):
        kind = draw.choice([*POINTWISE])
        name, operator = f"operand{len(operands)}", POINTWISE[kind]
        if operator.operand == "channel":
            steps.append(Pointwise(kind, channel=name))
            operands[name] = torch.rand(features).to(dtype) + 0.5
        elif operator.operand == "tensor":
            again = reads_again and draw.random() < 0.5
            steps.append(Pointwise(kind, tensor=AGAIN if again else name))
            if not again:
                operands[name] = torch.randn(batch, features).to(dtype)
        else:
            constants = (draw.uniform(0.5, 2), draw.uniform(2, 4))[: len(operator.constants)]
            steps.append(Pointwise(kind, *constants))
    return tuple(steps)


def random_rows(seed: int):
    draw, operands = random.Random(seed), {}
    torch.manual_seed(seed)
    function, dtype = (
        draw.choice([*ROW_FUNCTIONS]),
        draw.choice((torch.float32, torch.float16, torch.bfloat16)),
    )
    features, batch = (
        draw.choice((1, 7, 64, 200, 256, 1000, 1536, 4096, 5120, 9000)),
        draw.choice((1, 3, 128, 700)),
    )
    window = draw.choice((2, 4, 5, 16)) if ROW_FUNCTIONS[function].reduces and draw.random() < 0.4 else None
    window = window if window is not None and window <= features else None
    results = Rows(function, window=window).results_of(features)
    before = random_steps(draw, features, batch, dtype, operands, False)
    after = random_steps(
        draw, results, batch, dtype, operands, function == "values" or ROW_FUNCTIONS[function].reduces
    )
    keeps = function != "values" and (window is None or features % window == 0) and draw.random() < 0.3
    second, last = None, ()
    if ROW_FUNCTIONS[function].reduces and not keeps and draw.random() < 0.5:
        second, last = draw.choice(("sum", "max", "logsumexp", "length")), (Pointwise("silu"),)
    return (
        Rows(function, before, after, window, 1e-5, keeps, second=second, last=last),
        torch.randn(batch, features).to(dtype),
        operands,
    )


def source_of(file: str, facts: str) -> str:
    """As the library makes it (compiled() in cuda_c/jit/jit.cu)."""
    return f'#define JIT_COMPILED\n#include "jit/beginning.h"\n#define FACTS {{{facts}}}\n#include "{file}"\n'


def by_nvcc(source: str, architecture: str) -> bytes:
    toolchain = nvcc_toolchain((f"-arch=sm_{architecture}",))
    includes = (f"-I{SOURCES}", f"-I{SIMULATOR_SOURCES}")
    with tempfile.TemporaryDirectory() as folder:
        file, image = Path(folder) / "kernel.cu", Path(folder) / "kernel.cubin"
        file.write_text(source)
        run([toolchain.compiler, *toolchain.flags, *includes, "-cubin", "-o", str(image), str(file)])
        return image.read_bytes()


@needs_nvrtc
def test_a_source_becomes_machine_code():
    """Facts: the sum of sigmoids of rows of 5120 bfloat16 values."""
    facts = "2, 2, 0, 0, 5120, 1, 5120, 5120, -1, 0, 5120, 1, 1, 256, 256, 8, 1, 27, 0, 0, 0, 0, 0, 0, 0, 0"
    image = jit.compiled(source_of("rows/long_rows.cu", facts), "90a")
    assert image[:4] == b"\x7fELF" and jit.KERNEL.encode() in image
    with pytest.raises(BuildError, match="no_such_file"):
        jit.compiled('#include "no_such_file.cu"\n', "90a")


@pytest.mark.parametrize("compiler, dtype", [("NVRTC", 0), ("NVRTC", 1), ("NVRTC", 2), ("nvcc", 2)])
def test_every_kernel_compiles(compiler, dtype):
    """By NVRTC, and by nvcc, which machines without a GPU have. A norm, its gradient and functions of rows,
    without operators, in each type. Facts: one group of 1024 channels, and rows of 1024 values."""
    if (jit.nvrtc() if compiler == "NVRTC" else find_nvcc()) is None:
        pytest.skip(f"needs {compiler}")
    compiled = jit.compiled if compiler == "NVRTC" else by_nvcc
    lists, division = "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0", "1024, 1, 1, 128, 128, 8"
    norm = f"{dtype}, {dtype}, 1024, 1, 0, 1, 1, 1, 2, 2, 0, 7, {division}, {lists}"
    rows = f"{dtype}, {dtype}, 0, 0, 1024, 1, 1024, 1024, -1, 0, {division}, {lists}"
    pooled = f"{dtype}, {dtype}, 2, 0, 1024, 64, 16, 1024, 0, 0, {division}, {lists}"
    gradient = f"{dtype}, {dtype}, 1024, 1, 1, 1, 1, 0, 2, 2, 0, {division}, 0, {'-1, ' * 19} 0, 0, {lists}"
    for facts, files in (
        (norm, ("norm_forward", "norm_forward_columns", "norm_forward_tiny")),
        (norm, ("operators_alone", "operators_alone_large")),
        (rows, ("short_rows", "long_rows", "small_windows", "values")),
        (pooled, ("pooled_rows",)),
    ):
        for file in files:
            folder = "norm" if facts is norm else "rows"
            compiled(source_of(f"{folder}/{file}.cu", facts), "90a")
    compiled(source_of("backward/gradient_jit.h", gradient), "90a")
    halves, silu = 1 + (dtype == 0), "0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0"
    for file, of_launch in (
        ("nchw", f"2, 2, 5, 4, 160, {halves}, 0, 1, 0"),
        ("nhwc", f"8, 8, 11, 5, 19456, {halves}, 1, 4, 0"),
        ("nhwc_apart", f"8, 96, 9, 0, 19456, {halves}, 0, 32, 0"),
        ("nhwc_apart", f"8, 96, 9, 0, 19456, {halves}, 0, 32, 1"),
    ):
        maps = f"{dtype}, {dtype}, 320, 32, 4096, 1, 1, 1, 0, 0, 256, 8, {of_launch}, {silu}"
        compiled(source_of(f"feature_maps/group_norm_{file}.cu", maps), "90a")


@pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")
@pytest.mark.parametrize("file", ("short_rows", "small_windows", "pooled_rows"))
def test_no_arguments_are_copied_to_local_memory(file, tmp_path):
    """A list of operators that a loop indexes by what is not known would be. Facts: the maximum of
    gelu(mean of 16) * 2, in bfloat16, or the mean of windows of 16 or 4 alone."""
    second = "2, 2" if file == "pooled_rows" else "-1, 0"
    sizes = "64, 16, 4, 64" if file == "small_windows" else "64, 4, 16, 64"
    steps = "0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 35, 13, 0, 0, 0, 0, 0, 0"
    facts = f"2, 2, 1, 0, {sizes}, {second}, 16, 4, 1, 4, 64, 8, {steps}"
    source = tmp_path / "kernel.cu"
    source.write_text(source_of(f"rows/{file}.cu", facts))
    # Not the flags of `make test`, which may tell nvcc to optimise nothing.
    command = [find_nvcc(), "-O3", "-std=c++17", "-arch=sm_90a", "-Xptxas=-v", f"-I{SOURCES}", "-cubin"]
    command += [f"-I{SIMULATOR_SOURCES}", "-o", str(tmp_path / "kernel.cubin"), str(source)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert set(re.findall(r"(\d+) bytes stack frame", said)) == {"0"}, said


@needs_nvrtc
def test_an_interrupt_while_a_kernel_compiles_follows_the_call(monkeypatch):
    def interrupted(source, architecture):
        raise KeyboardInterrupt

    monkeypatch.setattr(jit, "compiled", interrupted)
    monkeypatch.setattr(jit, "_architecture", lambda: "90a")
    monkeypatch.setattr(type(jit.GPU), "find", lambda library: "a library")
    compiler = ffi().callback("fgn_jit_compiler", functools.partial(jit._compile, None))
    with pytest.raises(KeyboardInterrupt):
        assert compiler(ffi().new("char[]", b"")) == ffi().NULL
        time.sleep(5)


@pytest.mark.parametrize("deterministic", (False, True))
@pytest.mark.gpu
def test_one_kernel_for_all_calls_where_torch_is_deterministic(deterministic, compiles):
    v = torch.randn(33, 100 + deterministic, device="cuda")
    torch.use_deterministic_algorithms(deterministic)
    try:
        before = compiles()
        for _ in range(5):
            rows_forward(Rows("sum", (Pointwise("tanh"),)), v)
        assert compiles() - before == (0 if deterministic else 3)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.gpu
def test_calls_that_a_graph_captures(compiles):
    """No kernel is loaded while a stream is captured; the graph computes the same."""
    v, rows, graph = (
        torch.randn(33, 104, device="cuda"),
        Rows("mean", (Pointwise("tanh"),)),
        torch.cuda.CUDAGraph(),
    )
    own, before = rows_forward(rows, v), compiles()
    with torch.cuda.graph(graph):
        for _ in range(4):
            y = rows_forward(rows, v)
    assert compiles() == before
    v.mul_(2)
    graph.replay()
    assert is_near(y, rows.by_torch(v)) and not torch.equal(own, y)
    rows_forward(rows, v)
    assert compiles() == before + 1


@pytest.fixture
def compiles(monkeypatch):
    """Returns a function that counts the launches of compiled kernels."""
    if jit.nvrtc() is None:
        pytest.skip("needs cuda-bindings and NVRTC")
    # Otherwise a repeated call's product may differ too.
    monkeypatch.setattr(cublas, "product", lambda *_, **__: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield GPU.load().fgn_jit_launches


def is_near(y, own) -> bool:
    return misplaced(y, own) == 0 and relative_error(y, own.double()) <= ROUNDOFF[own.dtype]


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.gpu
def test_functions_of_rows(seed, compiles):
    rows, v, operands = random_rows(seed)
    v, operands = v.cuda(), {name: value.cuda() for name, value in operands.items()}
    own = rows_forward(rows, v, operands)
    rows_forward(rows, v, operands)
    before = compiles()
    compiled = rows_forward(rows, v, operands)
    assert compiles() == before + 1
    for one, other in zip(*[y if isinstance(y, tuple) else (y,) for y in (own, compiled)], strict=True):
        assert is_near(other, one), rows


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.gpu
def test_feature_maps(seed, compiles):
    for maps, v, operands in random_maps(100 + seed, 2):
        # Groups of one value are noise in each kernel.
        if v.shape[1] == maps.groups and v[0, 0].numel() == 1:
            continue
        v, operands = v.cuda(), {name: value.cuda() for name, value in operands.items()}
        own, _ = (feature_maps_forward(maps, v, operands) for _ in range(2))
        before = compiles()
        compiled = feature_maps_forward(maps, v, operands)
        assert compiles() > before
        for one, other in zip(*[y if isinstance(y, tuple) else (y,) for y in (own, compiled)], strict=True):
            assert is_near(other, one), maps


# Groups of one channel to 9000, divided among threads in every way, and no norm.
CHANNELS_AND_GROUPS = (
    *((64, 8), (768, 256), (1000, 5), (1024, 0), (1024, 32), (1024, 4), (2048, 1), (4096, 0)),
    *((4200, 2), (8192, 2), (96, 3), (512, 128), (300, 20), (9000, 1), (2304, 1), (1536, 2)),
)


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.gpu
def test_training_steps(seed, compiles):
    draw = random.Random(seed)
    dtype, batch = (
        draw.choice((torch.float32, torch.float16, torch.bfloat16)),
        draw.choice((1, 7, 128, 1000, 5000)),
    )
    channels, groups = draw.choice(CHANNELS_AND_GROUPS)

    def steps():
        kinds = [draw.choice([*IN_CHAINS]) for _ in range(draw.randrange(4))]
        return tuple(
            Pointwise(kind, *(draw.uniform(0.5, 2), draw.uniform(2, 4))[: len(POINTWISE[kind].constants)])
            if POINTWISE[kind].operand is None
            else Pointwise(kind, **{POINTWISE[kind].operand: f"{kind}{place}{draw.randrange(10**6)}"})
            for place, kind in enumerate(kinds)
        )

    chain = Chain("random", steps(), groups, steps() if groups else ())
    x, parameters = random_inputs(chain, Shape(batch, 24, channels, groups), "cuda", seed, dtype)
    leaves = [value.requires_grad_() for value in (x, *parameters.values())]
    dy = torch.randn(batch, channels, device="cuda", dtype=dtype)

    def step():
        y = chain_forward(chain, leaves[0], dict(zip(parameters, leaves[1:], strict=True)))
        return y.detach(), *torch.autograd.grad(y, leaves, dy)

    with torch.enable_grad():
        own = step()
        step()
        before = compiles()
        compiled = step()
    assert compiles() > before
    for name, one, other in zip(("y", "x", *parameters), own, compiled, strict=True):
        assert is_near(other, one), (name, chain)
