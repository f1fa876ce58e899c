"""What notebook 05 predicts and draws about requests, beside what is counted."""

import numpy as np
import pandas as pd
import pytest
import torch

import fgn
from cudasim.counting.counts import count
from cudasim.live.kernels import kernel
from fgn.bugs.diagnosis import diagnose, never_written
from fgn.plot import lessons as plot
from fgn.plot import results
from fgn.teaching import lessons as teach
from fgn.teaching.warp_requests import SECTOR_BYTES

LANES = np.arange(32)

GATHER = kernel("""
__global__ void gather(const float *x, float *y, int count, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        y[i] = x[i * stride];
}""")

COLUMN = kernel("""
__global__ void column(float *y, int pitch) {
    extern __shared__ float words[];
    for (int i = threadIdx.x; i < 32 * pitch; i += 32)
        words[i] = i;
    __syncwarp();
    y[threadIdx.x] = words[threadIdx.x * pitch];
}""")


def texts_of(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


@pytest.mark.parametrize("stride, sectors", [(1, 4), (2, 8), (5, 20), (8, 32), (33, 32)])
def test_sectors_are_predicted_as_they_are_counted(stride, sectors):
    assert teach.sectors_of(4 * stride * LANES) == sectors
    # 32-byte boundaries have to be where the prediction has them
    x, y = (torch.empty(size + 8) for size in (128 * stride, 128))
    x, y = (t[-t.data_ptr() % 32 // 4 :][: len(t) - 8] for t in (x, y))
    each = teach.each_request(count(lambda: GATHER[1, 128](x, y, 128, stride)))
    assert each["sectors of a global load"] == sectors and each["sectors of a global store"] == 4
    assert "wavefronts of a shared load" not in each


@pytest.mark.parametrize("pitch, wavefronts", [(1, 1), (2, 2), (7, 1), (32, 32), (33, 1), (48, 16)])
def test_wavefronts_are_predicted_as_they_are_counted(pitch, wavefronts):
    assert teach.wavefronts_of(4 * pitch * LANES) == wavefronts
    y = torch.empty(32)
    each = teach.each_request(count(lambda: COLUMN[1, 32, 4 * 32 * pitch](y, pitch)))
    assert y.equal(torch.arange(32.0) * pitch)
    assert each["wavefronts of a shared load"] == wavefronts
    assert each["wavefronts of a shared store"] == 1


def test_a_word_that_several_lanes_want_counts_once():
    assert teach.wavefronts_of(np.zeros(32, int)) == teach.sectors_of(np.zeros(32, int)) == 1
    assert teach.words_in_banks(4 * np.array([0, 0, 32, 1])).tolist() == [2, 1, *[0] * 30]


def test_bytes_asked():
    x, y = torch.empty(1024), torch.empty(1024)
    counts = count(lambda: GATHER[4, 256](x, y, 1024, 1))
    asked = teach.bytes_asked(counts)
    assert asked["read"] >= 4096 and asked["written"] >= 4096
    assert max(asked.values()) <= 4096 + 32 * SECTOR_BYTES  # memory need not begin at a sector


def test_plots():
    strips = plot.warp_sectors({"near": 4 * LANES, "far": 64 * LANES}, {"near": 4.0, "far": 32.0})
    assert {"4 predicted, 4 counted", "32 predicted, 32 counted"} <= set(texts_of(strips))
    banks = plot.warp_banks({"pitch 2": teach.words_in_banks(8 * LANES)}, {"pitch 2": 2.0})
    assert texts_of(banks).count("2") == 16 and "2 predicted, 2 counted" in texts_of(banks)
    frame = pd.DataFrame({"predicted": [1.0, 2.0], "counted": [1.5, 2.0]}, index=["a", "b"])
    assert texts_of(plot.predictions(frame, "numbers")) == ["1.5", "2"]
    bytes_frame = pd.DataFrame({"read": [8.0], "written": [4.0]}, index=["a"])
    assert texts_of(plot.asked(bytes_frame, "bytes")) == ["8 + 4"]


def test_error_maps_show_what_diagnose_has():
    chain, shape = fgn.chains.problem("gemm_groupnorm_hardtanh", (8, 16, 24, 3))
    x, parameters = fgn.chains.random_inputs(chain, shape)
    y = fgn.reference.chain_reference(chain, x, parameters)
    y[:, 16:] = never_written(8, 8)
    y[0, 0] += 1.0
    errors = diagnose(y, chain, x, parameters).errors
    assert errors[:, 16:].isnan().all() and errors[:, :16].isfinite().all()
    assert errors[0, 0].item() == pytest.approx(1.0, rel=1e-3)
    figure = results.error_maps({"a": errors, "b": errors})
    assert [axes.get_title() for axes in figure.axes[:2]] == ["a", "b"]


def test_time_calls():
    here = teach.setting("gemm_groupnorm_hardtanh")
    frame = teach.time_calls(here, {"a": lambda: None, "b": lambda: None}, seconds=0.01)
    assert list(frame.index) == ["a", "b"] and (frame.median_ms >= 0).all()
