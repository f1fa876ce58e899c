"""What a sample tells of sectors that blocks share, of loads that wait, and of blocks that start."""

from types import SimpleNamespace

import numpy as np
import pytest

import cudasim
from cudasim.predicting import machine_code
from cudasim.predicting.caches import Traffic, _different, _far_apart, _union, sharing_of, traffic_of
from cudasim.predicting.cards import card
from cudasim.predicting.sampling import take_sample

needs_nvcc = pytest.mark.skipif(not machine_code.is_there(), reason="there is no nvcc or no nvdisasm here")

GATHER = """
__global__ void gather(const float *x, const int *where, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[where[i]];
}"""


@pytest.mark.parametrize(("apart", "expected"), [(1, 256.0), (0, 1.0)])
def test_neighbours_that_share_a_sector_do_not_stand_for_all_blocks(apart, expected):
    places = (0, 1, 2, 3, 400, 401, 402, 403, 800, 801, 802, 803)
    own = {number: np.array([apart * (number // 4)]) for number in places}
    assert _far_apart(SimpleNamespace(total=1024), own, 1e6) == expected


@pytest.mark.parametrize("apart", [1, 1 << 20])
def test_the_union_of_sectors_is_the_same_marked_and_sorted(apart):
    parts = [apart * np.arange(first, first + 9, dtype=np.uint64) for first in (1 << 42, (1 << 42) + 5)]
    expected = apart * np.arange(1 << 42, (1 << 42) + 14, dtype=np.uint64)
    assert np.array_equal(_union([*parts, np.empty(0, np.uint64)]), expected)
    assert not len(_union([]))


@pytest.mark.parametrize(("ordered", "expected"), [([], 0), ([7], 1), ([0, 0, 1, 1, 1, 4, 9, 9], 4)])
def test_different_numbers_are_counted_in_a_list_in_order(ordered, expected):
    assert _different(np.array(ordered, np.uint64)) == expected


@pytest.mark.parametrize("is_random", [False, True])
def test_places_at_random_cost_dram_64_bytes_each_and_neighbours_four(is_random):
    """x is larger than L2, which has a part of it where all of it is asked for several times."""
    n = 1 << 24
    where = np.random.default_rng(0).integers(0, n, n, dtype=np.int32)
    where = where if is_random else np.arange(n, dtype=np.int32)
    x, y = np.zeros(n, np.float32), np.zeros(n, np.float32)
    sample = take_sample(cudasim.kernel(GATHER)[n // 256, 256], (x, where, y), 1 << 15, seconds=0.5)
    of = card("H100")
    read = traffic_of(sample, sharing_of(sample), of, 8 * of.multiprocessors).dram_read - 4 * n
    assert read < 64 * n and (read > 32 * n if is_random else read == pytest.approx(4 * n, rel=0.02))


def test_the_time_that_the_simulator_may_take_is_a_positive_number():
    x = np.zeros(256, np.float32)
    with pytest.raises(TypeError, match="seconds: expected a number, got str 'long'"):
        cudasim.predict(cudasim.kernel(TREE)[1, 256], x, seconds="long")
    for seconds in (0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="seconds: expected more than 0"):
            cudasim.predict_call(lambda: None, seconds=seconds)


def test_a_launch_whose_threads_return_at_once_reads_nothing_of_a_large_array():
    source = """
    __global__ void begin(float *x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n)
            x[i] = 1;
    }"""
    x = np.zeros(1 << 20, np.float32)  # 4 MB, as much as a T4's L2 has
    p = cudasim.predict(cudasim.kernel(source)[x.size // 256, 256], x, 10, gpu="T4")
    assert p.on[0].terms.traffic.dram_read == 0 and p.seconds < 100e-6


TREE = """
__global__ void tree(float *x) {
    float *own = x + blockIdx.x * blockDim.x;
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride)
            own[threadIdx.x] += own[threadIdx.x + stride];
        __syncthreads();
    }
}"""


def test_what_a_warp_asked_for_before_a_barrier_is_there_after_it():
    """The first warp misses in the first of its eight rounds alone, whichever warp asked for the others."""
    n = 1 << 14
    sample = take_sample(
        cudasim.kernel(TREE)[n // 256, 256], (np.zeros(n, np.float32),), 1 << 15, seconds=0.5
    )
    loads = [one for one in sample.instructions if one.operation == "ld"]
    blocks = len(sample.blocks)
    assert [one.first_requests for one in loads] == [8 * blocks] * len(loads) and len(loads) == 2
    assert [one.first_waits for one in loads] == [blocks] * 2


CONVOLUTION = """
__global__ void convolution(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 9; k++)
        if (i + k < n)
            sum += x[i + k];
    y[i] = sum;
}"""


def test_a_warp_that_has_waited_finds_what_others_asked_for_before():
    """All warps wait in the first of nine rounds, and once more at most, for the line behind theirs."""
    n = 1 << 16
    arguments = np.zeros(n, np.float32), np.zeros(n, np.float32), n
    sample = take_sample(cudasim.kernel(CONVOLUTION)[n // 256, 256], arguments, 1 << 15, seconds=0.5)
    (load,) = [one for one in sample.instructions if one.operation == "ld"]
    warps = 8 * len(sample.blocks)
    assert load.requests == 9 * warps and warps <= load.waits <= 2 * warps


@pytest.mark.parametrize(("threads", "clocks"), [(64, 1.21), (256, 23 * 8 / 132)])
def test_a_gpu_needs_its_time_to_start_many_small_blocks(threads, clocks):
    """As published kernels with so many blocks showed, whatever they did."""
    copy = "__global__ void copy(char *x) { x[blockIdx.x * blockDim.x + threadIdx.x]++; }"
    found = cudasim.predict(
        cudasim.kernel(copy)[1 << 18, threads], np.zeros(threads << 18, np.int8), gpu="H100"
    )
    assert found.seconds == pytest.approx(clocks * 2**18 / card("H100").clock_hz, rel=0.05)
    assert "all blocks start in" in found.why and "one block after another" in str(found.advice)


@needs_nvcc
def test_a_load_waits_as_long_as_an_idle_gpus_where_nothing_else_uses_dram():
    source = """
    __global__ void follow(const int *next, int *last, int n) {
        int at = 0;
        for (int i = 0; i < n; i++)
            at = next[at];
        *last = at;
    }"""
    n = 4096
    next_of = np.arange(64 * n, dtype=np.int32) + 64
    found = cudasim.predict(cudasim.kernel(source)[1, 1], next_of, np.zeros(1, np.int32), n, gpu="H100")
    of = card("H100")
    assert 1.0 <= (found.seconds - of.launch_seconds) * of.clock_hz / n / of.latency["dram"] <= 1.2


TABLE = """
__constant__ float table[1024];
__global__ void look_up(const int *where, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = table[where[i]];
}"""


@pytest.mark.parametrize("is_random", [False, True])
def test_constants_are_read_one_address_after_another(is_random):
    n = 1 << 16
    where = np.random.default_rng(0).integers(0, 1024, n, dtype=np.int32) * is_random
    p = cudasim.predict(cudasim.kernel(TABLE)[n // 256, 256], where, np.zeros(n, np.float32), gpu="H100")
    (read,) = [one for one in p.sample.instructions if one.space == "constant"]
    assert read.addresses > 31 * read.requests if is_random else read.addresses == read.requests
    busy = p.on[0].terms.busy
    assert (max(busy, key=busy.get) == "constants") == is_random and (busy["constants"] > 0) == is_random


def test_bins_of_each_block_do_not_hide_how_crowded_the_common_ones_are():
    """L2 takes longer for both than for the common bins alone, to which all blocks add in either case."""
    source = """
    __global__ void add(float *own, float *common, int both) {
        if (both)
            atomicAdd(&own[blockIdx.x * blockDim.x + threadIdx.x], 1.0f);
        atomicAdd(&common[threadIdx.x], 1.0f);
    }"""
    kernel, blocks = cudasim.kernel(source)[1 << 14, 256], 1 << 14
    own, common = np.zeros(256 * blocks, np.float32), np.zeros(256, np.float32)
    alone, both = (cudasim.predict(kernel, own, common, of, gpu="H100") for of in (0, 1))
    assert both.on[0].terms.l2 > alone.on[0].terms.l2


@needs_nvcc
def test_loads_that_nvcc_joins_before_a_branch_hit_as_those_of_its_two_ways_do():
    """Steps of a sort: nvcc names the branch's line for the loads of both ways, where none was counted."""
    source = """
    __global__ void steps(int *x, int rounds) {
        int i = threadIdx.x;
        for (int k = rounds; k >= 0; k--) {
            int j = i ^ (k & 31);
            if (i < j) {
                if (i & 64) {
                    if (x[i] > x[j]) { int y = x[i]; x[i] = x[j]; x[j] = y; }
                } else {
                    if (x[i] < x[j]) { int y = x[i]; x[i] = x[j]; x[j] = y; }
                }
            }
            __syncthreads();
        }
    }"""
    launch = cudasim.kernel(source)[1, 256]
    waits = cudasim.predict(launch, np.zeros(256, np.int32), 100, gpu="H100").on[0].terms.waits
    assert waits["long scoreboard"] < 100 * 60


def test_what_a_launch_reads_sends_others_written_lines_to_dram():
    """A third of L2 waits to be written at any time: all of it, where a launch brings more than L2 holds."""
    of = card("H100")
    read, little = (Traffic(bytes_, 0.0, bytes_, 0.0, 0.0) for bytes_ in (2.0 * of.l2_bytes, 3e6))
    assert read.dram_bytes(of) == pytest.approx((2 + 1 / 3) * of.l2_bytes)
    assert little.dram_bytes(of) == pytest.approx(4e6)
    writes = Traffic(1e8, 1e8, 1e8, 1e8, 0.0)
    assert writes.dram_bytes(of) == 2e8


def test_at_another_clock_what_is_beyond_l1_takes_the_same_time():
    of = card("H100")
    slow = of.at_clock(of.clock_hz / 2)
    assert slow.l2_bandwidth == of.l2_bandwidth and slow.latency["fma"] == of.latency["fma"]
    beyond = [(one.latency["dram"] - one.latency["l1"]) / one.clock_hz for one in (of, slow)]
    assert beyond[0] == pytest.approx(beyond[1])


@pytest.mark.parametrize("apart, offsets, partly", [(1, 1, False), (2, 1, True), (4, 1, True), (2, 2, False)])
def test_dram_sends_the_sectors_of_which_a_launch_writes_a_part(apart, offsets, partly):
    """Two stores that each write every second float write whole sectors together."""
    source = """
    __global__ void copy(const float *x, float *y, int apart, int offsets) {
        int i = (blockIdx.x * blockDim.x + threadIdx.x) * apart;
        for (int k = 0; k < offsets; k++)
            y[i + k] = x[i + k];
    }"""
    n = 1 << 20
    kernel = cudasim.kernel(source)
    x, y = np.zeros((2, n), np.float32)
    found = cudasim.predict(kernel[n // apart // 256, 256], x, y, apart, offsets, gpu="H200")
    traffic = found.on[0].terms.traffic
    assert traffic.dram_read == pytest.approx((2 if partly else 1) * 4 * n, rel=0.01)
    assert traffic.dram_written == pytest.approx(4 * n, rel=0.01)


@needs_nvcc
def test_lanes_that_add_one_to_an_address_of_shared_memory_are_counted_at_once():
    """nvcc makes ATOMS.POPC.INC of them, so that one bin takes no longer than 32."""
    source = """
    __global__ void histogram(const int *x, int *y) {
        __shared__ int bins[32];
        bins[threadIdx.x] = 0;
        __syncwarp();
        atomicAdd(&bins[x[threadIdx.x]], 1);
        __syncwarp();
        y[threadIdx.x] = bins[threadIdx.x];
    }"""
    launch, counts = cudasim.kernel(source)[1, 32], np.zeros(32, np.int32)
    one, each = (
        cudasim.predict(launch, x.astype(np.int32), counts, gpu="H100").on[0]
        for x in (np.zeros(32), np.arange(32))
    )
    assert any(i.opcode.startswith("ATOMS.POPC") for block in one.code.blocks for i in block.instructions)
    part = "L1 and shared memory"
    assert one.terms.busy[part] == pytest.approx(each.terms.busy[part])


@needs_nvcc
def test_two_parts_that_are_as_busy_take_longer_than_each():
    """Loads of shared memory and multiply-adds: a warp that waits for the ones cannot keep the others busy,
    though there are many warps, and each by itself takes little time."""
    source = """
    __global__ void mixed(const float *x, float *y, int n) {
        __shared__ float s[1024];
        for (int i = threadIdx.x; i < 1024; i += 256)
            s[i] = x[i];
        __syncthreads();
        float sums[8] = {};
        for (int k = 0; k < n; k++) {
            float of[8];
            for (int i = 0; i < 8; i++)
                of[i] = s[(threadIdx.x + (k * 8 + i) * 32) % 1024];
            for (int again = 0; again < 2; again++)
                for (int i = 0; i < 8; i++)
                    sums[i] = sums[i] * of[i] + of[(i + again) % 8];
        }
        for (int i = 0; i < 8; i++)
            y[(blockIdx.x * 8 + i) * 256 + threadIdx.x] = sums[i];
    }"""
    blocks = 132 * 8
    launch, y = cudasim.kernel(source)[blocks, 256], np.zeros(blocks * 8 * 256, np.float32)
    terms = cudasim.predict(launch, np.zeros(1024, np.float32), y, 400, gpu="H200").on[0].terms
    longest = max(terms.busy.values())
    assert min(terms.busy["issue slots"], terms.busy["L1 and shared memory"]) > 0.65 * longest
    assert terms.alone < 0.2 * longest and terms.seconds - terms.launch > 1.15 * longest


@needs_nvcc
def test_a_volatile_load_waits_for_l2():
    """What a thread has stored and loads again is in L1 for it, but a volatile load goes to L2."""

    def clocks(kind):
        source = f"""
        __global__ void chain({kind} int *x, int n) {{
            for (int i = 0; i < n; i++) {{
                x[threadIdx.x] += 1;
                __syncwarp();
            }}
        }}"""
        x = np.zeros(32, np.int32)
        return cudasim.predict(cudasim.kernel(source)[1, 32], x, 500, gpu="H200").on[0].terms.clocks_alone

    of = card("H200").latency
    assert clocks("volatile") - clocks("") > 0.8 * 500 * (of["l2"] - of["l1"])
