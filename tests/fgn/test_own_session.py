"""The profiling session of a kernel of one's own: the questions, pictures and advice, without a GPU."""

from types import SimpleNamespace

import pytest
import torch

import fgn
from cudasim.counting import metrics as m
from cudasim.predicting import machine_code
from cudasim.predicting.as_ncu import metrics_of, waits_of
from cudasim.predicting.pace import accesses_in_flight
from cudasim.predicting.prediction import predict
from cudasim.predicting.samples import Samples, load
from fgn.measure.records import PROFILES
from fgn.profiling import ProfilerError, open_own_session, own_session
from fgn.profiling.own_session import QUESTIONS
from fgn.profiling.stalls import SECTION

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
RECORDED = PROFILES / "h100" / "samples" / "row_sums.json"


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
    assert max(accesses_in_flight(one.code.blocks, one.flow), key=lambda of: of[1])[0] == in_flight
    parts = _parts(waits_of(prediction, one))
    if in_flight == 1:
        assert parts["lg throttle"] < 0.01 < parts["long scoreboard"]
        return
    seen = load(RECORDED)
    assert seen.source.strip() == ROW_SUMS.strip()
    assert parts == pytest.approx(_parts(seen.rows[seen.reasons].sum().to_dict()), abs=0.15)


def test_advice_and_the_source_page_name_the_line(own):
    first = own.advice[0]
    assert first.line == 8 and "32 sectors in a request where 4 would hold" in first.words
    assert "row_sums.cu" in own.page()._repr_html_()


def _on_a_gpu(monkeypatch, own, runs):
    """Lets a session believe that its arguments are on a GPU, and ncu answer with what is predicted."""
    samples = Samples("row_sums", "a GPU", "row_sums.cu", ROW_SUMS, load(RECORDED).rows)

    def answered(launch, *arguments, metrics, sections):
        runs.append((tuple(metrics), sections))
        return own.launches, samples if sections else None

    monkeypatch.setattr(own_session, "array_of", lambda of: SimpleNamespace(device="cuda:0"))
    monkeypatch.setattr(own_session, "profile_launch", answered)
    monkeypatch.setattr(own_session, "machine_here", lambda: own.machine)


def test_on_a_gpu_ncu_is_started_once_and_recorded_samples_are_not_read(monkeypatch, own):
    runs = []
    _on_a_gpu(monkeypatch, own, runs)
    monkeypatch.setattr(own_session, "recorded_samples", lambda kernel: pytest.fail("read"))
    session = open_own_session(own.launch, *own.arguments)
    assert runs == [(m.SETS["default"], (SECTION,))] and session.samples.gpu == "a GPU" and not session.note
    session = open_own_session(own.launch, *own.arguments, samples=RECORDED)
    assert runs[1:] == [(m.SETS["default"], ())] and "H100" in session.samples.gpu


def test_where_ncu_may_not_count_the_recorded_samples_are_shown(monkeypatch, own):
    def refused(*arguments, **options):
        raise ProfilerError("ncu: this user may not read the GPU's counters")

    _on_a_gpu(monkeypatch, own, [])
    monkeypatch.setattr(own_session, "profile_launch", refused)
    session = open_own_session(own.launch, *own.arguments)
    assert "may not read" in str(session) and "H100" in session.samples.gpu


def test_samples_of_another_text_are_refused_at_once(own):
    other = fgn.kernel(ROW_SUMS.replace("0.0f", "0"))[ROWS // 128, 128]
    with pytest.raises(ValueError, match=r"samples: they are of another text of row_sums\.cu, from line 6"):
        open_own_session(other, *own.arguments, samples=RECORDED)


@pytest.mark.gpu
def test_a_launch_on_a_gpu_is_profiled_and_sampled():
    x, y = torch.ones(ROWS, COLUMNS, device="cuda"), torch.zeros(ROWS, device="cuda")
    session = open_own_session(fgn.kernel(ROW_SUMS)[ROWS // 128, 128], y, x, ROWS, COLUMNS)
    if session.note:
        pytest.skip(session.note)
    assert session.samples.total > 0 and session.samples.gpu == torch.cuda.get_device_name()
    assert session.launches[m.GLOBAL_SECTORS["ld"]].item() == ROWS * COLUMNS
    for name in QUESTIONS:
        assert session.ask(name).figure is not None
