"""The profiling session of a kernel of one's own: the questions, pictures and advice, without a GPU."""

import pytest
import torch

import fgn
from cudasim.counting import metrics as m
from cudasim.predicting import machine_code
from cudasim.predicting.as_ncu import metrics_of, waits_of
from cudasim.predicting.pace import accesses_in_flight
from cudasim.predicting.prediction import predict
from cudasim.predicting.samples import load
from fgn.measure.records import PROFILES
from fgn.profiling import open_own_session
from fgn.profiling.own_session import QUESTIONS

ROW_SUMS = """
__global__ void row_sums(float *y, const float *x, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int column = 0; column < columns; column++)
        sum += x[row * columns + column];
    y[row] = sum;
}
"""
ROWS, COLUMNS = 4096, 64


@pytest.fixture(scope="module")
def own():
    # torch's memory begins at a multiple of 64 bytes, and a prediction is of such arrays, as a GPU's are.
    x, y = torch.ones(ROWS, COLUMNS).numpy(), torch.zeros(ROWS).numpy()
    return open_own_session(fgn.kernel(ROW_SUMS)[ROWS // 128, 128], y, x, ROWS, COLUMNS)


def test_what_is_counted_is_what_count_says(own):
    counted = fgn.count(lambda: own.launch(*own.arguments)).iloc[0]
    row = metrics_of(own.prediction)
    for names in (m.GLOBAL_REQUESTS, m.GLOBAL_SECTORS, m.SHARED_WAVEFRONTS, m.BANK_CONFLICTS):
        for name in names.values():
            assert row[name] == counted.get(name, 0), name


def test_every_question_is_answered_with_its_picture(own):
    assert "predicted" in str(own) and "the arguments are on the CPU" in str(own)
    for name, question in QUESTIONS.items():
        assert question in str(own)
        answer = own.ask(name)
        if name != "waits" or machine_code.is_there():
            assert answer.figure is not None, answer.why
            assert "matrix product" not in "".join(
                text.get_text() for text in answer.figure.findobj(_is_text)
            )
        assert "data:image/png" in answer._repr_html_() or answer.figure is None
    assert "32 sectors for a request of a global load" in own.ask("moved").words
    with pytest.raises(ValueError, match="expected one of full, moved"):
        own.ask("speed")


def _is_text(artist):
    return hasattr(artist, "get_text")


@pytest.mark.skipif(not machine_code.is_there(), reason="no nvcc and nvdisasm")
def test_what_warps_wait_for_fills_their_time(own):
    row, one = metrics_of(own.prediction), own.prediction.on[0]
    waits = {name: row.get(metric, 0.0) for name, metric in m.STALLS.items()}
    assert waits["selected"] == pytest.approx(1.0)
    # Warps that are there x clocks = clocks of each instruction x instructions, as for ncu's numbers.
    warps = own.prediction.sample.total * own.prediction.sample.warps
    there = (one.seconds - one.card.launch_seconds) * one.card.clock_hz * warps
    assert sum(waits.values()) * row[m.INSTRUCTIONS] == pytest.approx(there, rel=0.35)
    assert max(waits, key=waits.get) == "long scoreboard"


def _parts(waits):
    total = sum(waits.values())
    return {name: waits.get(name, 0.0) / total for name in ("lg throttle", "long scoreboard")}


@pytest.mark.skipif(not machine_code.is_there(), reason="no nvcc and nvdisasm")
@pytest.mark.parametrize(("unroll", "in_flight"), [("", 16), ("#pragma unroll 1", 1)])
def test_warps_are_throttled_by_what_they_issue_before_they_wait(unroll, in_flight):
    source = ROW_SUMS.replace("    for", f"    {unroll}\n    for")
    rows, columns = 16384, 256  # as the samples were taken
    launch = fgn.kernel(source)[rows // 128, 128]
    x, y = torch.ones(rows, columns).numpy(), torch.zeros(rows).numpy()
    prediction = predict(launch, y, x, rows, columns, gpu="H100")
    one = prediction.on[0]
    assert max(accesses_in_flight(one.code.blocks, one.flow.runs), key=lambda of: of[1])[0] == in_flight
    parts = _parts(waits_of(prediction, one))
    if in_flight == 1:
        assert parts["lg throttle"] < 0.01 < parts["long scoreboard"]
        return
    seen = load(PROFILES / "h100" / "samples" / "row_sums.json")
    assert seen.source.strip() == ROW_SUMS.strip()
    assert parts == pytest.approx(_parts(seen.rows[seen.reasons].sum().to_dict()), abs=0.15)


def test_advice_and_the_source_page_name_the_line(own):
    first = own.advice[0]
    assert first.line == 8 and "32 sectors in a request where 4 would hold" in first.words
    assert "row_sums.cu" in own.page()._repr_html_()
