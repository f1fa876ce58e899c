"""The trace of a block and the player: every address, value and barrier is the kernel's own."""

import struct
import xml.etree.ElementTree as xml

import pytest
import torch

import fgn
from cudasim.counting import metrics
from cudasim.counting.trace import BARRIER_REACHED, LANES_MET, REQUEST, record

pytestmark = pytest.mark.simulator

TRANSPOSE = """
__global__ void transpose(const float *x, float *y, int pitch) {
    extern __shared__ float tile[];
    int across = threadIdx.x;
    int down = threadIdx.y;
    tile[down * pitch + across] = x[down * 32 + across];
    __syncthreads();
    y[down * 32 + across] = tile[across * pitch + down];
}
"""

RACE = """
__global__ void row_sum(const float *x, float *sum, int columns) {
    __shared__ float partial[128];
    int thread = threadIdx.x;
    float share = 0.0f;
    for (int i = thread; i < columns; i += 128)
        share += x[blockIdx.x * columns + i];
    partial[thread] = share;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2)
        if (thread < half)
            partial[thread] += partial[thread + half];
    if (thread == 0)
        sum[blockIdx.x] = partial[0];
}
"""

# More accesses than a thread's log holds, and lanes that leave the loop early.
RUNNING = """
__global__ void running(float *y, const float *x, int n) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i++) {
        sum += x[i];
        y[threadIdx.x * n + i] = sum;
    }
}
"""


def as_float(bits: int) -> float:
    return struct.unpack("f", struct.pack("I", bits & 0xFFFFFFFF))[0]


def requests(trace, space="global", operation="ld"):
    return [
        event
        for event in trace.events
        if event.kind == REQUEST and event.array.space == space and event.operation == operation
    ]


def test_values_are_those_that_memory_held():
    tensors = {"x": torch.rand(64, 48), "weight": torch.rand(40, 48)}
    trace = record(lambda: fgn.functional.linear(*tensors.values(), version="shared_tile"), block=2)
    assert trace.missed == 0 and trace.fault is None
    shared = {}
    seen = 0
    for event in trace.events:
        for lane in event.lanes if event.kind == REQUEST else ():
            value, address = as_float(event.values[lane]), event.addresses[lane]
            if event.array.space == "shared" and event.operation == "st":
                shared[address] = value
            elif event.array.space == "shared":
                assert shared[address] == value
                seen += 1
            elif event.operation == "ld":
                assert value == tensors[event.array.name].flatten()[event.array.index(address)]
                seen += 1
    assert seen > 1000


@pytest.mark.parametrize("pitch", [32, 33, 36])
def test_a_trace_has_the_requests_and_sectors_that_are_counted(pitch):
    transpose = fgn.kernel(TRANSPOSE)
    x, y = torch.rand(32, 32), torch.empty(32, 32)

    def call():
        transpose[1, (32, 32), 4 * 32 * pitch](x, y, pitch)

    counts, trace = fgn.count(call).iloc[0], record(call)
    for operation in ("ld", "st"):
        found = requests(trace, "global", operation)
        assert len(found) == counts[metrics.GLOBAL_REQUESTS[operation]]
        assert sum(len(event.sectors()) for event in found) == counts[metrics.GLOBAL_SECTORS[operation]]
    assert sum(event.kind == BARRIER_REACHED for event in trace.events) == counts["barriers"]
    # All warps store, meet at the barrier, and read.
    kinds = [{event.operation or event.kind for event in step} for step in trace.steps()]
    assert kinds == [{"ld"}, {"st"}, {BARRIER_REACHED}, {"ld"}, {"st"}]


def test_values_stay_with_their_accesses_when_logs_are_full():
    running = fgn.kernel(RUNNING)
    n = 700
    x, y = torch.rand(n), torch.zeros(32, n)
    trace = record(lambda: running[1, 32](y, x, n))
    loads, stores = requests(trace), requests(trace, operation="st")
    assert sum(len(event.lanes) for event in loads) == sum(len(event.lanes) for event in stores)
    for event in stores:
        for lane, bits in event.values.items():
            assert as_float(bits) == y.flatten()[event.array.index(event.addresses[lane])]
    for event in loads:
        for lane, bits in event.values.items():
            assert as_float(bits) == x[event.array.index(event.addresses[lane])]
    known = sum(len(event.values) for event in loads + stores)
    assert known >= 0.99 * sum(len(event.lanes) for event in loads + stores)


NEGATE = """
__global__ void negate(T *y, const T *x) {
    __shared__ T part[64];
    part[threadIdx.x] = -x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = part[threadIdx.x];
}
"""


@pytest.mark.parametrize(
    "name, dtype",
    [("int", torch.int32), ("long long", torch.int64), ("double", torch.float64), ("short", torch.int16)],
)
def test_values_are_shown_as_the_numbers_that_they_are(name, dtype):
    negate = fgn.kernel(NEGATE.replace("T ", f"{name} "))
    x, y = torch.arange(64, dtype=dtype), torch.empty(64, dtype=dtype)
    player = fgn.play(lambda: negate[1, 64](y, x))
    for step, sign in ((0, ""), (1, "-"), (len(player) - 2, "-"), (len(player) - 1, "-")):
        picture = player.scene.svg(step)
        assert all(f">{sign}{number}<" in picture for number in range(1, 8)), step


def test_whole_numbers_in_shared_memory_among_floats():
    source = "__global__ void f(float *y) { __shared__ int s[32]; s[threadIdx.x] = (int)threadIdx.x - 4;"
    kernel = fgn.kernel(source + " y[threadIdx.x] = s[threadIdx.x]; }")
    picture = fgn.play(lambda: kernel[1, 32](torch.empty(32))).scene.svg(0)
    assert all(f">{number}<" in picture for number in range(-4, 4))


def test_a_meeting_of_some_lanes_is_not_shown_at_a_wrong_time():
    source = """__global__ void halves(float *y, const float *x) {
        if (threadIdx.x < 16) {
            y[threadIdx.x] = x[threadIdx.x];
            __syncwarp(0xffff);
            y[threadIdx.x + 16] = y[15 - threadIdx.x];
        }
    }"""
    kernel = fgn.kernel(source)
    trace = record(lambda: kernel[1, 32](torch.empty(32), torch.rand(32)))
    assert [event.operation or event.kind for event in trace.events] == ["ld", "st", "ld", "st"]


def test_shuffles_are_meetings():
    v, w, b = torch.rand(4, 64), torch.rand(64), torch.rand(64)
    trace = record(lambda: fgn.functional.group_norm(v, 2, w, b, version="tiled"))
    assert any(event.kind == LANES_MET for event in trace.events)


def test_a_race_is_played_to_its_end():
    row_sum = fgn.kernel(RACE)
    x, sums = torch.rand(3, 300), torch.empty(3)
    player = fgn.play(lambda: row_sum[3, 128](x, sums, 300))
    assert player.trace.fault.kind == "race"
    last = player.scene.svg(-1)
    assert "race" in last and "partial[thread] += partial[thread + half];" in last
    assert "#D5322D" in last  # the word that both threads access
    assert "#D5322D" not in player.scene.svg(0)


def test_bank_conflicts_are_seen():
    transpose = fgn.kernel(TRANSPOSE)
    x, y = torch.rand(32, 32), torch.empty(32, 32)
    conflict = fgn.play(lambda: transpose[1, (32, 32), 4 * 32 * 32](x, y, 32)).scene.svg(3)
    padded = fgn.play(lambda: transpose[1, (32, 32), 4 * 32 * 33](x, y, 33)).scene.svg(3)
    assert ">32</text>" in conflict.partition("different words")[2]
    assert ">32</text>" not in padded.partition("different words")[2]


def test_pages_are_the_same_in_every_run_and_every_frame_is_a_picture():
    x, weight = torch.ones(32, 32), torch.ones(32, 32)

    def player():
        return fgn.play(lambda: fgn.functional.linear(x, weight, version="tiled"), steps=20)

    first, second = player(), player()
    assert first._repr_html_() == second._repr_html_()
    for step in range(len(first)):
        xml.fromstring(first.scene.svg(step))
    assert first.frames(0, -1)._repr_html_().count("<img") == 2


def test_the_second_launch_of_a_call():
    chain = fgn.chains.CHAINS["gemm_groupnorm_hardtanh"]
    x, parameters = fgn.chains.random_inputs(chain, fgn.chains.Shape(8, 32, 64, 4))
    trace = record(lambda: fgn.chain_forward(chain, x, parameters, "naive"), launch=1)
    assert "gemm" not in trace.kernel


def test_what_is_not_there():
    x, weight = torch.rand(8, 8), torch.rand(8, 8)

    def call():
        fgn.functional.linear(x, weight, version="naive")

    with pytest.raises(IndexError, match="launch 7"):
        record(call, launch=7)
    with pytest.raises(IndexError, match="block 100000"):
        record(call, block=100_000)
    with pytest.raises(ValueError, match="warp"):
        fgn.play(call, warp=99)
    with pytest.raises(ValueError, match="steps"):
        fgn.play(call, steps=0)
    with pytest.raises(TypeError, match="steps: expected a whole number"):
        fgn.play(call, steps=2.5)
    with pytest.raises(IndexError, match="block: expected 0 or more"):
        fgn.play(call, block=-1)
    with pytest.raises(IndexError, match="step: expected -2 to 1, got 2"):
        fgn.play(call, steps=2).frames(2)
    for run in (fgn.play, fgn.check, fgn.count):
        with pytest.raises(TypeError, match="call: expected a function, as in lambda"):
            run(call())


LOOP = """__global__ void f(float *y, const float *x) {
    __shared__ float tile[SIZE];
    int i = threadIdx.x;
    float sum = 0.5f;
    for (int step = 0; step < 3; step++)
        sum += step;
    if (i % 2) sum = -1; else sum += i;
    tile[i] = x[i];
    y[i] = sum + tile[i];
}"""


def test_locals_are_those_of_each_lane_and_the_rest_is_as_without():
    kernel = fgn.kernel(LOOP.replace("SIZE", "32"))
    x, y = torch.rand(32), torch.empty(32)
    player = fgn.play(lambda: kernel[1, 32](y, x))
    alone = record(lambda: kernel[1, 32](y, x))
    shown = [(each.kind, each.place, each.operation, each.array.name) for each in player.trace.events]
    assert shown == [(each.kind, each.place, each.operation, each.array.name) for each in alone.events]
    values = {name.split("_")[-1]: lanes for name, lanes in player.trace.events[0].locals.items()}
    assert values["i"] == {lane: lane for lane in range(32)} and set(values["step"].values()) == {2}
    assert all(as_float(bits) == (-1 if lane % 2 else 3.5 + lane) for lane, bits in values["sum"].items())
    picture = player.scene.svg(0)
    assert "locals, before the step" in picture and ">9.5<" in picture
    assert "sim_local" not in picture and "__shared__ float tile[32];" in picture


def test_a_kernel_without_room_for_its_locals_is_played_without_them():
    kernel = fgn.kernel(LOOP.replace("SIZE", "12000"))
    player = fgn.play(lambda: kernel[1, 32](torch.empty(32), torch.rand(32)))
    assert player.trace.fault is None and "locals" not in player.scene.svg(0)


def test_two_calls_are_played_in_step():
    steps = "for (int s = 0; s < COUNT; s++) y[STRIDE * threadIdx.x + s] = s;"
    source = "__global__ void f(float *y) { " + steps + " }"
    wide = fgn.kernel(source.replace("COUNT", "4").replace("STRIDE", "8"))
    narrow = fgn.kernel(source.replace("COUNT", "2").replace("STRIDE", "2"))
    y = torch.empty(256)
    player = fgn.play(lambda: wide[1, 32](y), lambda: narrow[1, 32](y))
    assert len(player.traces) == 2 and len(player) == 4
    assert "64 sectors, in 2 requests" in player.scene.svg(1) and "16 sectors, in 2" in player.scene.svg(1)
    assert "done after 2 steps" in player.scene.svg(3) and "128 sectors, in 4" in player.scene.svg(3)
    assert 'aria-label="one step back"' in player._repr_html_()
    moving = xml.fromstring(player.scene.animated(0.5))
    assert sum(element.tag.endswith("animate") for element in moving.iter()) == 4
