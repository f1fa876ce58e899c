"""What only a GPU can show: streams, graphs, other devices, 64-bit sizes, errors of the CUDA runtime."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from accuracy import with_groups

import fgn
from cudasim.building.library import BuildError
from cudasim.building.toolchains import find_nvcc
from fgn.chains import CHAINS, Shape, default_shape, problem, random_inputs
from fgn.functional import launch_count, run_chain
from fgn.measure.accuracy import relative_error
from fgn.native.library import GPU, version_names
from fgn.native.places import ROOT
from fgn.reference import chain_reference64

pytestmark = pytest.mark.gpu

every_version = pytest.mark.parametrize("version", version_names())
CHAIN, SHAPE = problem("gemm_biasadd_hardtanh_mish_groupnorm", Shape(300, 256, 512, 16))


@pytest.fixture
def inputs():
    return random_inputs(CHAIN, SHAPE, "cuda")


def skip_unless_it_runs(version, x, parameters):
    shape = (*x.shape, parameters["weight"].shape[0], CHAIN.groups)
    if launch_count(CHAIN, Shape(*shape), version, x.device) is None:
        pytest.skip(f"{version} does not run {shape}")


@every_version
def test_cuda_graph(version, inputs):
    x, parameters = inputs
    skip_unless_it_runs(version, x, parameters)
    expected = fgn.chain_forward(CHAIN, x, parameters, version)
    graph, static_x = torch.cuda.CUDAGraph(), torch.zeros_like(x)
    with torch.cuda.graph(graph):
        y = fgn.chain_forward(CHAIN, static_x, parameters, version)
    static_x.copy_(x)
    graph.replay()
    assert torch.equal(y, expected)


@every_version
def test_it_runs_on_the_current_stream(version, inputs):
    x, parameters = inputs
    skip_unless_it_runs(version, x, parameters)
    expected = fgn.chain_forward(CHAIN, x, parameters, version)
    late_x = torch.zeros_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        # The stream is kept busy before it makes x: a kernel on another stream would read zeros.
        torch.cuda._sleep(50_000_000)
        late_x.copy_(x)
        y = fgn.chain_forward(CHAIN, late_x, parameters, version)
    torch.cuda.synchronize()
    assert torch.equal(y, expected)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@every_version
def test_another_gpu_than_the_current_one(version, inputs):
    x, parameters = inputs
    skip_unless_it_runs(version, x, parameters)
    expected = fgn.chain_forward(CHAIN, x, parameters, version)
    there = {name: value.to("cuda:1") for name, value in parameters.items()}
    y = fgn.chain_forward(CHAIN, x.to("cuda:1"), there, version)
    assert y.device == torch.device("cuda:1") and torch.equal(y.to("cuda:0"), expected)
    assert torch.cuda.current_device() == 0


def test_torch_compile(inputs):
    x, parameters = inputs
    compiled = torch.compile(lambda x: fgn.chain_forward(CHAIN, x, parameters).exp(), fullgraph=True)
    assert torch.allclose(compiled(x), fgn.chain_forward(CHAIN, x, parameters).exp())


# Beyond 2^31 elements of x, of the weight, and of y.
@every_version
@pytest.mark.parametrize(
    "shape",
    [
        Shape(2**17 + 1, 2**14 + 8, 16, 2),
        Shape(3, 2**15 + 8, 2**16 + 32, 2**12 + 2),
        Shape(2**17 + 1, 16, 2**14 + 32, 2**9 + 1),
    ],
    ids=["x", "weight", "y"],
)
def test_more_than_two_to_the_31_elements(version, shape):
    if torch.cuda.mem_get_info()[0] < 60 * 2**30:
        pytest.skip("needs 60 GiB of GPU memory")
    chain = with_groups(CHAINS["gemm_groupnorm_hardtanh"], shape.groups)
    if launch_count(chain, shape, version, torch.device("cuda")) is None:
        pytest.skip("the version does not run this shape")
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.rand(shape.batch, shape.in_features, device="cuda", generator=generator)
    weight = torch.rand(shape.out_features, shape.in_features, device="cuda", generator=generator) - 0.5
    y = run_chain(chain, x, {"weight": weight}, version, poison=True)
    assert not y.isnan().any()
    # The first and the last group of the first and the last rows. This is about which elements are read and
    # written, and a wrong one is far off; how accurate sums are is for the other tests.
    channels = shape.out_features // shape.groups
    for rows in (slice(0, 2), slice(shape.batch - 2, shape.batch)):
        for first in (0, shape.out_features - channels):
            part = slice(first, first + channels)
            exact = chain_reference64(with_groups(chain, 1), x[rows], {"weight": weight[part]})
            assert relative_error(y[rows, part], exact) < 1e-3


@pytest.mark.parametrize("name", CHAINS)
def test_errors_at_the_benchmark_shape(name):
    chain = CHAINS[name]
    frame = fgn.compare(chain, shape=default_shape(chain, "cuda"), device="cuda")
    assert (frame.ratio <= 2).all() and (frame.misplaced == 0).all()


def test_an_error_of_the_cuda_runtime_is_an_exception():
    # The error makes the process's context unusable, so the process is one of its own.
    script = """
import torch, fgn
from fgn.chains import problem, random_inputs
from fgn.structs import PRODUCT, chain_struct, library_of, raise_for
from fgn.native.library import ffi
x = torch.rand(4, 8, device="cuda")
with library_of(x.device) as (library, stream):
    nowhere, elsewhere = (ffi().cast("float *", address) for address in (1 << 12, 1 << 20))
    product = chain_struct(library, PRODUCT, (4, 8, 16, 0), "ieee", {"weight": x})
    library.fgn_forward(0, product, nowhere, elsewhere, elsewhere, 0, stream)
try:
    torch.cuda.synchronize()
except RuntimeError:
    pass
with torch.no_grad(), library_of(x.device) as (library, stream):
    try:
        raise_for(library, library.fgn_forward(0, product, nowhere, elsewhere, elsewhere, 0, stream))
    except RuntimeError as error:
        print(error)
"""
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert "illegal memory access" in result.stdout, result.stderr


# ------------------------------------------------------------------------------------------------------------
# Live kernels

FILL = "__global__ void fill(float *y, float value, int n) {\n    for (int i = threadIdx.x; i < n; i += 32)\n"
FILL += "        y[i] = value;\n}\n"


def test_live_kernel_runs_on_the_current_stream():
    fill = fgn.kernel(FILL)
    y = torch.zeros(1 << 20, device="cuda")
    fill[1, 32](y, 0.0, 4)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        fill[1, 32](y, 2.0, 4)
        assert not stream.query()
    assert torch.cuda.current_stream().query()
    stream.synchronize()
    assert y[:5].tolist() == [2.0] * 4 + [0.0]


def test_live_kernel_errors():
    fill = fgn.kernel(FILL)
    y = torch.zeros(4, device="cuda")
    with pytest.raises(RuntimeError, match="fill: invalid"):
        fill[1, 1536](y, 1.0, 4)
    fill[1, 32](y, 1.0, 4)
    assert y.tolist() == [1.0] * 4
    with pytest.raises(BuildError, match=r"broken\.cu\(2\): error: identifier \"b\" is undefined"):
        fgn.kernel("__global__ void broken(int *a) {\n    a[0] = b;\n}").build("cuda")


def test_live_kernel_with_much_shared_memory():
    much = fgn.kernel(
        "__global__ void much(float *y) {\n    extern __shared__ float values[];\n    values[20000] = 5.0f;\n"
        "    y[0] = values[20000];\n}"
    )
    y = torch.zeros(1, device="cuda")
    much[1, 1, 100_000](y)
    assert y.item() == 5.0


def test_no_kernel_keeps_the_sums_of_a_tile_in_local_memory():
    """A thread's sums are an array of 128 floats, 512 bytes, of which nvcc has to make registers. With one
    of its options it did not, and the epilogue took 20 times as long."""
    cuobjdump = Path(find_nvcc() or "nvcc").with_name("cuobjdump")
    if not cuobjdump.exists():
        pytest.skip("needs the CUDA toolkit's cuobjdump")
    said = subprocess.run(
        [str(cuobjdump), "-res-usage", str(GPU.build())], capture_output=True, text=True, check=True
    ).stdout
    stacks = re.findall(r"Function (\S+):\s+REG:\d+ STACK:(\d+)", said)
    assert len(stacks) > 100
    assert {kernel: bytes for kernel, bytes in stacks if int(bytes) >= 512} == {}
