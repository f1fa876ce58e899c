"""Kernels from a cell or a string beside fgn's own: the same calls, the same views, the same stop button."""

import os
import subprocess
import sys

import pytest
import torch
from processes import said_when_interrupted

import fgn
from fgn.native.places import ROOT

SCALE = """
__global__ void scale(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i];
}
"""

INTERRUPTED = """
import torch, fgn
big = torch.zeros(4096, 2048)
fgn.functional.linear(torch.zeros(1, 1), torch.zeros(1, 1))
print("runs", flush=True)
try:
    fgn.functional.linear(big, big, version="naive")
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(fgn.functional.linear(torch.ones(1, 1), torch.ones(1, 1)).item(), flush=True)
"""


def test_time(device):
    scale = fgn.kernel(SCALE)
    x = torch.zeros(1024, device=device)
    times = fgn.measure.time_call(lambda: scale[4, 256](x, x, 1.0, 1024), device, seconds=0.05)
    assert 0 < times["min_ms"] <= times["median_ms"] <= times["p90_ms"]


def test_names_of_cudasim():
    import cudasim

    assert fgn.kernel is cudasim.kernel and fgn.check is cudasim.check and fgn.count is cudasim.count
    assert fgn.live.Texture is cudasim.Texture and fgn.simulator.source_view is cudasim.source_view


def test_source_view_of_a_rung():
    view = fgn.simulator.source_view(
        lambda: fgn.functional.linear(torch.rand(40, 40), torch.rand(40, 40), version="naive")
    )
    assert "naive_gemm_kernel (gemm_1_naive.cu)" in str(view)
    assert len(view.frame) > 0 and (view.frame["requests"] > 0).all()


def test_source_view_on_the_command_line():
    command = [sys.executable, "-m", "fgn", "source_view", "--shape", "32,32,32,4", "--version", "naive"]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "naive_gemm_kernel (gemm_1_naive.cu)" in text and "sectors/request" in text


def test_ctrl_c():
    assert said_when_interrupted(INTERRUPTED) == ["runs", "interrupted", "1.0"]


def test_reads_of_a_weight_that_nobody_set_are_told():
    x, weight = torch.rand(20, 32), torch.rand(40, 32)
    for version in ("naive", "vectorized"):
        call = lambda version=version: fgn.functional.linear(x, weight, version=version)  # noqa: E731
        # Two blocks run at a time, and either may be the first one to read.
        with pytest.raises(fgn.KernelFault, match=r"weight\[\d+\], whose memory was") as caught:
            fgn.check(call, unwritten=[weight])
        assert caught.value.kind == "unwritten"
        fgn.check(call)


def test_import_alone_tells_where_headers_and_the_cache_are(tmp_path):
    says = (
        "import fgn, sys; from cudasim.building import places; assert 'torch' not in sys.modules; "
        "has_header = any((folder / 'ptx/mbarrier.h').is_file() for folder in places.HEADER_FOLDERS); "
        "print(has_header, places.build_folder())"
    )
    environment = os.environ | {"FGN_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", says]
    said = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert said.split() == ["True", str(tmp_path)]
