"""Stall samples: read from a report, kept in JSON, shown beside the lines; or said why there are none."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import cudasim
from cudasim.predicting.samples import Samples, load
from fgn.profiling import ProfilerError, read_samples, records, take_samples
from fgn.profiling.ncu import read_report

LADDER, SOURCE = sorted(records.read("h200").reports)

TURNED = """
__global__ void turned(float *y, const float *x, int n) {
    __shared__ float tile[32][32];
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = x[row * n + column];
    __syncthreads();
    y[(column - threadIdx.x + threadIdx.y) * n + row - threadIdx.y + threadIdx.x] =
        tile[threadIdx.x][threadIdx.y];
}
"""


@pytest.fixture(scope="module")
def recorded():
    return read_samples(SOURCE)


def test_samples_of_a_report_are_all_there(recorded):
    launches = read_report(SOURCE)
    assert [each.kernel for each in recorded] == list(launches.kernel)
    for each, total in zip(recorded, launches["smsp__pcsamp_sample_count"], strict=True):
        # Each sample has one reason, and an address of the kernel; ncu's own sums are the same.
        assert each.total == total and (each.rows[each.reasons].sum(axis=1) == each.rows.samples).all()
        assert each.rows.address.iloc[0] == 0 and (each.rows.address.diff().dropna() % 16 == 0).all()
        assert each.lines.samples.sum() > 0.95 * total and each.gpu == "NVIDIA H200"
        assert each.source.splitlines()[each.lines.index[0] - 1].startswith("__global__ void")


def test_a_line_is_told_with_what_its_warps_wait_for(recorded):
    naive, coalesced, tiled = recorded
    # The multiply-add of each is where most samples are, and each waits for something else there.
    for each, reason in ((naive, "lg throttle"), (coalesced, "long scoreboard"), (tiled, "mio throttle")):
        line = each.lines.samples.idxmax()
        assert "+=" in each.source.splitlines()[line - 1] or "fma" in each.source.splitlines()[line - 1]
        assert each.waits_for(line).startswith(reason), each.waits_for(line)
    # Who arrives at a barrier first is seen waiting at the loop's next line, or at the barrier's own.
    assert sum("barrier" in tiled.waits_for(line) for line in tiled.lines.index) >= 1
    assert naive.waits_for(1) == ""
    assert "← lg throttle" in str(naive.code()) and "0x7f" not in str(naive.code())


def test_samples_are_kept(recorded, tmp_path):
    recorded[0].save(tmp_path / "naive.json")
    (again,) = read_samples(tmp_path / "naive.json")
    pd.testing.assert_frame_equal(again.lines, recorded[0].lines)
    assert (again.kernel, again.gpu, again.source) == ("naive_gemm_kernel", "NVIDIA H200", recorded[0].source)
    (tmp_path / "naive.json").write_text('{"kernel": "naive"}')
    with pytest.raises(ValueError, match="expected samples"):
        load(tmp_path / "naive.json")


def test_reasons_that_are_as_frequent_have_one_order(recorded):
    orders = [
        replace(recorded[0], rows=recorded[0].rows.assign(**of))
        for of in ({"a": 1, "b": 1}, {"b": 1, "a": 1})
    ]
    pd.testing.assert_frame_equal(orders[0].lines, orders[1].lines)


def test_where_there_are_none_it_is_told(tmp_path):
    with pytest.raises(ValueError, match="SourceCounters"):
        read_samples(LADDER)
    with pytest.raises(FileNotFoundError, match="expected a report"):
        read_samples(tmp_path / "no.ncu-rep")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_none_are_taken():
    turned = cudasim.kernel(TURNED)
    with pytest.raises(ProfilerError, match="no GPU"):
        take_samples(turned[(1, 1), (32, 32)], np.zeros(1024, np.float32), np.zeros(1024, np.float32), 32)


def _samples(source: str, file: str = "turned.cu") -> Samples:
    rows = [
        (0x00, file, 4, "S2R R0, SR_TID.X", 10, 6, 0, 4),
        (0x10, file, 5, "LDG.E R2, [R2.64]", 30, 25, 0, 5),
        (0x20, file, 5, "STS [R4], R2", 160, 0, 150, 10),
        (0x30, "other.h", 7, "NOP", 0, 0, 0, 0),
    ]
    columns = ["address", "file", "line", "sass", "samples", "wait", "long scoreboard", "selected"]
    return Samples("turned", "a GPU", file, source, pd.DataFrame(rows, columns=columns))


def test_the_source_page_has_them_beside_the_lines():
    turned = cudasim.kernel(TURNED)
    x, y = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    page = cudasim.source_page(turned[(2, 2), (32, 32)], y, x, 64, samples=_samples(TURNED))
    assert page.lines.samples[5] == pytest.approx(190 / 200)
    row = next(text for text in str(page).splitlines() if "tile[threadIdx.y][threadIdx.x] = x" in text)
    assert "95%" in row and "long scoreboard 79%" in row and "200 stall samples, taken on a GPU" in str(page)
    shown = page._repr_html_()
    assert "waits for" in shown and "160  STS [R4], R2   ← long scoreboard" in shown
    assert "turned on a GPU: 200 samples" in shown
    without = cudasim.source_page(turned[(2, 2), (32, 32)], y, x, 64)
    assert "waits for" not in without._repr_html_() and "samples" not in str(without)


def test_samples_of_another_text_are_refused():
    turned = cudasim.kernel(TURNED)
    arguments = np.zeros(1024, np.float32), np.zeros(1024, np.float32), 32
    changed = TURNED.replace("[32][32]", "[32][33]")
    with pytest.raises(ValueError, match=r"another text of turned\.cu, from line 3 on"):
        cudasim.source_page(turned[(1, 1), (32, 32)], *arguments, samples=_samples(changed))
    with pytest.raises(ValueError, match=r"expected some of turned.cu, got those of other.cu"):
        cudasim.source_page(turned[(1, 1), (32, 32)], *arguments, samples=_samples(TURNED, "other.cu"))
