"""Predictions: cards, occupancy, samples of blocks, machine code, the flow through it, what a user asks."""

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import patience

import cudasim
from cudasim.counting.faults import KernelFault
from cudasim.live.compiling import Instance
from cudasim.predicting import machine_code
from cudasim.predicting.caches import sharing_of, traffic_of
from cudasim.predicting.cards import FOLDER, card, cards
from cudasim.predicting.flow import flow_of
from cudasim.predicting.occupancy import occupancy
from cudasim.predicting.sampling import chosen_blocks, copied, take_sample
from cudasim.predicting.statements import Statements

ROOT = Path(__file__).resolve().parents[2]
needs_nvcc = pytest.mark.skipif(not machine_code.is_there(), reason="there is no nvcc or no nvdisasm here")

ADD = """
__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}"""
PRODUCT = """
__global__ void product(const float *a, const float *b, float *c, int n) {
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}"""
TILED = """
__global__ void tiled(const float *a, const float *b, float *c, int n) {
    __shared__ float of_a[16][16], of_b[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < n; t += 16) {
        of_a[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
        of_b[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; k++)
            sum += of_a[threadIdx.y][k] * of_b[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}"""


def floats(*shape):
    return np.random.default_rng(0).random(shape, dtype=np.float32)


def squares(n):
    return floats(n, n), floats(n, n), np.zeros((n, n), np.float32), n


# ---- Cards ----


@pytest.mark.parametrize("name", cards())
def test_every_card_has_its_figures_and_their_sources(name):
    of = card(name)
    assert of.multiprocessors > 0 and of.flops > 1e12 and 1e11 < of.dram_bandwidth < of.dram_bytes_per_second
    assert of.latency["l1"] < of.latency["l2"] < of.latency["dram"]
    wanted = {
        "multiprocessors",
        "clock_hz",
        "l2_bytes_per_clock",
        "dram_bytes_per_second",
        "lanes",
        "latency",
    }
    assert wanted <= of.sources.keys()


def test_cards_are_found_as_people_write_their_names():
    assert card("rtx4090").name == card("NVIDIA GeForce RTX 4090").name == "RTX 4090"
    assert card("h100 sxm5").name == "H100" and card("a100-40gb").name == "A100 40GB"
    with pytest.raises(ValueError, match="one of A100 40GB, A100 80GB, got 'a100'"):
        card("a100")
    with pytest.raises(ValueError, match="is it RTX 4090"):
        card("RTX 4091")
    with pytest.raises(TypeError, match="got int"):
        card(4090)


def test_a_card_of_ones_own_is_one_file(tmp_path, monkeypatch):
    text = (FOLDER / "h200.toml").read_text()
    (tmp_path / "mine.toml").write_text(text.replace('name = "H200"', 'name = "Mine"'))
    assert card(tmp_path / "mine.toml").name == "Mine"
    monkeypatch.setenv("CUDASIM_CARDS", str(tmp_path))
    assert "Mine" in cards() and card("mine").multiprocessors == 132
    for wrong, message in (
        (text.replace("warps = 64\n", ""), "warps is missing"),
        (text.replace("warps = 64", "warps = -1"), "warps: expected numbers"),
        (text.replace("alu = 4\n", ""), "latency.alu is missing"),
        ("a bad file", "expected a card in TOML"),
    ):
        (tmp_path / "wrong.toml").write_text(wrong)
        with pytest.raises(ValueError, match=message):
            card(tmp_path / "wrong.toml")


def recorded_launches():
    with (ROOT / "profiles" / "h200" / "launches.csv").open() as file:
        return list(csv.DictReader(file))


def test_occupancy_is_what_ncu_recorded_on_an_h200():
    compared = 0
    for row in recorded_launches():
        try:
            registers = int(float(row["launch__registers_per_thread"]))
            shared = float(row["launch__shared_mem_per_block_static"])
            shared += float(row["launch__shared_mem_per_block_dynamic"])
        except ValueError:
            continue
        found = occupancy(card("H200"), int(float(row["launch__block_size"])), registers, int(shared))
        # Of shared memory a driver may give less than there is, where other limits are lower.
        for name in ("registers", "warps"):
            assert found.limits[name] == int(float(row[f"launch__occupancy_limit_{name}"])), row["kernel"]
        assert found.limits["shared memory"] >= int(float(row["launch__occupancy_limit_shared_mem"]))
        compared += 1
    assert compared > 50


# ---- Samples ----


def test_a_sample_leaves_the_arguments_as_they_were():
    a, b, c = floats(4096), floats(4096), floats(4096)
    before = c.copy()
    take_sample(cudasim.kernel(ADD)[16, 256], (a, b, c, 4096), 1 << 14)
    assert (c == before).all()


def test_a_copied_argument_lies_as_on_a_gpu_and_two_of_one_memory_stay_one():
    x = floats(1001)[1:]
    first, second = copied([x, x])
    assert first.address % 256 == 0 and first.address == second.address != x.ctypes.data


@pytest.mark.parametrize("grid", [(1, 1, 1), (7, 1, 1), (100, 100, 1), (5, 4, 3), (1000, 1, 2)])
def test_chosen_blocks_are_blocks_of_the_grid(grid):
    total = grid[0] * grid[1] * grid[2]
    for most in (1, 3, 20, 10**6):
        chosen = chosen_blocks(grid, most)
        assert chosen == sorted(set(chosen)) and chosen[0] >= 0 and chosen[-1] < total
        assert len(chosen) == total if most >= total else len(chosen) <= max(12, 2 * most)


def test_a_sample_of_some_blocks_tells_what_all_of_them_ask_for():
    kernel, n = cudasim.kernel(PRODUCT), 512
    grid = (n // 16, n // 16)
    aligned = copied(list(squares(n)))  # as on a GPU
    whole = cudasim.count(lambda: kernel[grid, (16, 16)](*aligned))
    sample = take_sample(kernel[grid, (16, 16)], squares(n), 1 << 15, seconds=0.05)
    assert len(sample.blocks) < sample.total
    for operation in ("ld", "st"):
        of = [one for one in sample.instructions if one.operation == operation]
        requests = sum(one.requests for one in of) * sample.scale
        sectors = sum(one.sectors for one in of) * sample.scale
        assert requests == whole[f"l1tex__t_requests_pipe_lsu_mem_global_op_{operation}.sum"][0]
        assert sectors == whole[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{operation}.sum"][0]


def test_what_blocks_share_is_read_once_from_dram():
    kernel, n = cudasim.kernel(PRODUCT), 512
    sample = take_sample(kernel[(32, 32), (16, 16)], squares(n), 1 << 15, seconds=0.05)
    traffic = traffic_of(sample, sharing_of(sample), card("H200"), 132 * 8)
    assert traffic.dram_read == 2 * 4 * n * n and traffic.dram_written == 4 * n * n
    assert traffic.l2_read > 10 * traffic.dram_read


def test_one_block_does_not_show_what_blocks_share():
    kernel = cudasim.kernel(
        "__global__ void sums(float *y, const float *x, int n) {"
        " float sum = 0;"
        " for (int i = 0; i < n; i++) sum += x[i];"
        " y[blockIdx.x * blockDim.x + threadIdx.x] = sum; }"
    )
    y, x = np.zeros(64 * 256, np.float32), np.ones(1 << 12, np.float32)
    for seconds, told in ((1e-3, True), (4.0, False)):
        found = cudasim.predict(kernel[64, 256], y, x, x.size, gpu="H200", seconds=seconds)
        assert ("one block does not show what blocks share" in found.why) is told


STRIDED = """
__global__ void strided(float *out, int step, int lanes) {
    __shared__ __align__(16) float tile[2048];
    for (int i = threadIdx.x; i < 2048; i += 32)
        tile[i] = i;
    __syncwarp();
    const WORD *words = (const WORD *)tile; // what clang knows of tile + i is aligned to a float
    ((WORD *)out)[threadIdx.x] = words[threadIdx.x % lanes * step * sizeof(float) / sizeof(WORD)];
}"""


@pytest.mark.parametrize("step, lanes", [(4, 32), (8, 16), (8, 2), (32, 32), (64, 16)])
def test_narrow_loads_of_shared_memory_know_the_wavefronts_of_a_wide_one_at_their_places(step, lanes):
    """What a compiler makes of neighbouring loads has the bank conflicts of its own lanes."""

    def load(word):
        kernel = cudasim.kernel(STRIDED.replace("WORD", word))
        sample = take_sample(kernel[1, 32], (np.zeros(128, np.float32), step, lanes), 1 << 14)
        return next(one for one in sample.instructions if (one.space, one.operation) == ("shared", "ld"))

    narrow = load("float")
    for word, bytes_ in (("float2", 8), ("float4", 16)):
        wide = load(word)
        assert wide.bytes == bytes_ and wide.wavefronts == getattr(narrow, f"wavefronts_of_{bytes_}")


def test_a_race_does_not_end_a_sample_and_an_access_out_of_bounds_does():
    racing = "__global__ void racing(float *x) { x[0] = threadIdx.x; __syncthreads(); x[1] = x[0]; }"
    assert take_sample(cudasim.kernel(racing)[4, 64], (floats(2),), 1 << 14).total == 4
    beyond = "__global__ void beyond(float *x) { x[threadIdx.x + 100] = 1; }"
    with pytest.raises(KernelFault, match="out of bounds"):
        cudasim.predict(cudasim.kernel(beyond)[4, 64], floats(64))


def test_other_launches_of_the_process_still_run_all_their_blocks():
    kernel, c = cudasim.kernel(ADD), np.zeros(1 << 16, np.float32)
    a = floats(1 << 16)
    take_sample(kernel[256, 256], (a, a, c, 1 << 16), 1 << 14, seconds=0.001)
    kernel[256, 256](a, a, c, 1 << 16)
    assert (c == 2 * a).all()


# ---- Machine code and the flow through it ----


def of_a_warp(source, *arguments):
    """The machine code of a kernel, and its flow where one warp runs it."""
    kernel = cudasim.kernel(source)
    sample = take_sample(kernel[1, 32], arguments, 1 << 15)
    code = machine_code.machine_code(kernel, Instance(kernel._signature), "sm_90")
    files = Statements({kernel.file: kernel.source})
    return code, flow_of(code, files.of_sample(sample), files)


def times(code, flow, wanted) -> float:
    """How often the instructions run of which `wanted` is true."""
    return sum(runs for instruction, runs in flow.executed(code) if wanted(instruction))


@needs_nvcc
def test_the_flow_has_the_instructions_of_a_loop_that_the_compiler_unrolled():
    """A lone warp's loop of 1003 turns, whatever the compiler made of it, loads 1003 times."""
    source = """
    __global__ void rows(const float *x, float *y, int n) {
        float sum = 0;
        for (int i = 0; i < n; i++)
            sum += x[i * 32 + threadIdx.x] * 0.5f;
        y[threadIdx.x] = sum;
    }"""
    n = 1003
    code, flow = of_a_warp(source, floats(n, 32), floats(32), n)
    loads = times(code, flow, lambda one: one.name == "LDG")
    adds = times(code, flow, lambda one: one.name in ("FADD", "FFMA"))
    assert flow.missed == 0 and loads == pytest.approx(n) and adds == pytest.approx(n, rel=0.02)


@needs_nvcc
@pytest.mark.parametrize("turns", [0, 1, 7, 1000])
def test_the_flow_knows_how_often_a_loop_without_loads_runs(turns):
    source = """
    __global__ void chaos(float *x, int n) {
        float y = x[threadIdx.x];
        for (int i = 0; i < n; i++)
            y = 3.9f * y * (1 - y);
        x[threadIdx.x] = y;
    }"""
    code, flow = of_a_warp(source, floats(32), turns)
    products = times(code, flow, lambda one: one.name in ("FMUL", "FFMA"))
    assert 2 * turns <= products + 1e-6 and products <= 3.5 * turns + 4


@needs_nvcc
def test_machine_code_says_what_the_kernel_takes_and_where_it_comes_from():
    kernel = cudasim.kernel(TILED)
    code = machine_code.machine_code(kernel, Instance(kernel._signature), "sm_80")
    assert code.shared_bytes == 2048 and 16 <= code.registers <= 64 and code.spilled_bytes == 0
    lines = {one.lines[-1] for one in code.instructions if one.name == "BAR" and one.lines}
    assert lines == {("tiled.cu", 9), ("tiled.cu", 12)}


@needs_nvcc
def test_the_instance_that_is_called_is_the_one_that_is_compiled():
    source = "template <int N> __global__ void fill(float *x) { for (int i = 0; i < N; i++) x[i * 32] = i; }"
    kernel = cudasim.kernel(source)
    few = cudasim.predict(kernel[1, 1], floats(4096), template=(2,))
    many = cudasim.predict(kernel[1, 1], floats(4096), template=(100,))
    assert many.on[0].terms.instructions > 10 * few.on[0].terms.instructions
    twice = cudasim.kernel("template <class T> __global__ void twice(T *x) { x[threadIdx.x] *= 2; }")
    assert cudasim.predict(twice[1, 32], floats(32)).seconds > 0  # T is found as for a launch


# ---- What a user asks ----


def test_a_prediction_has_what_its_names_say():
    kernel, n = cudasim.kernel(ADD), 1 << 22
    x = floats(n)
    arguments = (x, x.copy(), np.zeros_like(x), n)
    found = cudasim.predict(kernel[n // 256, 256], *arguments, gpu=["H200", "T4", "RTX 4090"])
    assert found.low < found.seconds < found.high and found.limiter in ("L2", "DRAM")
    assert list(found.table["gpu"]) == ["H200", "T4", "RTX 4090"]
    # A stream: the slower a card's memory, the longer.
    h200, t4, rtx = (one.seconds for one in found.on)
    assert h200 < rtx < t4
    for one in found.on:
        assert one.seconds > 3 * 4 * n / one.card.dram_bytes_per_second
        assert one.seconds < 3 * 3 * 4 * n / one.card.dram_bytes_per_second
    assert "DRAM" in found.why and "c[i] = a[i] + b[i];" in found.why
    assert found.lines["sectors"].sum() == 3 * n / 8


def test_more_work_takes_longer_and_a_tiled_product_less_than_a_naive_one():
    naive, tiled = cudasim.kernel(PRODUCT), cudasim.kernel(TILED)

    def of(kernel, n):
        return cudasim.predict(kernel[(n // 16, n // 16), (16, 16)], *squares(n), seconds=1).seconds

    assert 5 < of(naive, 1024) / of(naive, 512) < 10
    assert of(tiled, 1024) < of(naive, 1024)


def test_without_nvcc_the_range_is_wider_and_it_says_so(monkeypatch):
    kernel, n = cudasim.kernel(PRODUCT), 512
    with_nvcc = cudasim.predict(kernel[(32, 32), (16, 16)], *squares(n), seconds=1)
    monkeypatch.setattr(machine_code, "is_there", lambda: False)
    without = cudasim.predict(kernel[(32, 32), (16, 16)], *squares(n), seconds=1)
    assert without.high / without.low > 3 and "no nvcc" in without.why
    assert 1 / 3 < without.seconds / with_nvcc.seconds < 3


def test_mistakes_are_told_by_the_argument():
    kernel, x = cudasim.kernel(ADD), floats(256)
    with pytest.raises(TypeError, match=r"expected kernel\[grid, block\]"):
        cudasim.predict(kernel, x)
    with pytest.raises(TypeError, match=r"expected kernel\[grid, block\]"):
        cudasim.occupancy_plot(kernel, x)
    with pytest.raises(TypeError, match="expected 4 arguments"):
        cudasim.predict(kernel[1, 256], x)
    with pytest.raises(ValueError, match="gpu: expected one of"):
        cudasim.predict(kernel[1, 256], x, x, x, 256, gpu="a toaster")
    with pytest.raises(ValueError, match="at least one GPU"):
        cudasim.predict(kernel[1, 256], x, x, x, 256, gpu=[])


def test_a_block_that_a_card_cannot_hold_cannot_run_there():
    source = (
        "extern __shared__ float s[]; __global__ void wide(float *x) { s[threadIdx.x] = 1; x[0] = s[0]; }"
    )
    found = cudasim.predict(cudasim.kernel(source)[1, 1, 200_000], floats(1), gpu=["H200", "T4"])
    assert found.limiter != "cannot run" and found.on[1].limiter == "cannot run"
    assert np.isnan(found.on[1].seconds)


def test_pictures_are_drawn(tmp_path):
    kernel, n = cudasim.kernel(PRODUCT), 256
    found = cudasim.predict(kernel[(16, 16), (16, 16)], *squares(n), gpu=["H200", "A100 40GB"], seconds=1)
    found.plot().savefig(tmp_path / "prediction.png")
    assert (tmp_path / "prediction.png").stat().st_size > 10_000


def test_compare_checks_versions_against_each_other():
    wrong = PRODUCT.replace("sum += a", "sum -= a").replace("product", "wrong")
    kernels = {
        "naive": cudasim.kernel(PRODUCT),
        "tiled": cudasim.kernel(TILED),
        "wrong": cudasim.kernel(wrong),
    }

    def launch(kernel):
        return lambda n, block: kernel[(n // 16, n // 16), (16, 16)]

    found = cudasim.compare(
        {name: launch(kernel) for name, kernel in kernels.items()}, squares, sizes=[64, 128], gpu="A100 40GB"
    )
    right = found.table.groupby("version")["right"].all()
    assert right["naive"] and right["tiled"] and not right["wrong"]
    assert set(found.table["size"]) == {64, 128} and (found.table["gpu"] == "A100 40GB").all()
    found.plot()


def test_compare_takes_other_blocks_of_one_dimension():
    x = floats(1 << 14)
    arguments = (x, x, np.zeros_like(x), x.size)
    found = cudasim.compare({"add": cudasim.kernel(ADD)[64, 256]}, arguments, blocks=[64, 128, 256])
    assert list(found.table["block"]) == [64, 128, 256] and list(found.table["grid"]) == [256, 128, 64]
    assert found.table["right"].all()
    with pytest.raises(ValueError, match="blocks: expected launches of one dimension"):
        cudasim.compare({"add": cudasim.kernel(ADD)[(8, 8), 256]}, arguments, blocks=[64])


def test_compare_gives_a_reference_arrays_of_the_users_kind_and_finds_nan():
    nan = ADD.replace("add", "nan").replace("a[i] +", "(i == 5 ? NAN : a[i]) +")
    assert nan.count("NAN") == 1
    x = floats(1 << 10).reshape(32, 32)
    arguments = (x, x, np.zeros_like(x), x.size)

    def reference(a, b, c, n):
        assert c.shape == (32, 32) and c.dtype == np.float32 and a is not x
        c[:] = a + b

    versions = {"add": cudasim.kernel(ADD)[4, 256], "nan": cudasim.kernel(nan)[4, 256]}
    for given in (reference, None):
        assert list(cudasim.compare(versions, arguments, reference=given).table["right"]) == [True, False]


@pytest.mark.parametrize(
    ("name", "value"),
    [("blocks", [0]), ("blocks", [1.5]), ("blocks", []), ("sizes", 5), ("reference", 3), ("tolerance", "a")],
)
def test_what_compare_cannot_take_is_named(name, value):
    x = floats(256)
    with pytest.raises((TypeError, ValueError), match=f"^{name}: expected .* got "):
        cudasim.compare({"add": cudasim.kernel(ADD)[1, 256]}, (x, x, x, 256), **{name: value})


# ---- Programs ----

PROGRAM = (
    ADD
    + """
int main() {
    const int n = 1 << 14;
    float *a, *b, *c;
    cudaMalloc(&a, 4 * n), cudaMalloc(&b, 4 * n), cudaMalloc(&c, 4 * n);
    cudaMemset(a, 0, 4 * n), cudaMemset(b, 0, 4 * n);
    add<<<n / 256, 256>>>(a, b, c, n);
    add<<<n / 128, 128>>>(a, b, c, n);
    return cudaDeviceSynchronize() != cudaSuccess;
}"""
)


def run(*arguments):
    command = [sys.executable, "-m", "cudasim", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=patience(300))


def test_a_programs_launches_are_predicted(tmp_path):
    (tmp_path / "two.cu").write_text(PROGRAM)
    found = run("predict", tmp_path / "two.cu", "--gpu", "H200", "T4", "--csv", "")
    assert found.returncode == 0, found.stderr
    assert all(word in found.stderr for word in ("H200 us", "T4 limiter", "all launches together"))
    assert run("predict", tmp_path / "two.cu", "--gpu", "toaster").returncode == 2
    assert "--csv: expected" in run("count", tmp_path / "two.cu", "--csv", tmp_path / "none" / "t").stderr
    assert run("build", tmp_path / "two.cu", "-o", tmp_path / "none" / "t").stderr.startswith("cudasim: ")


def test_cards_are_listed_on_the_command_line():
    assert run("card").stdout.splitlines() == cards()
    assert "source of clock_hz" in run("card", "rtx", "4090").stdout
    assert run("card", "toaster").returncode == run("card", "--measure", "a.toml", "b").returncode == 2
    assert "\n    card  " in run("--help").stdout


def test_nvdisasm_of_a_wheel_is_found():
    if shutil.which("nvdisasm") is None and not machine_code.is_there():
        pytest.skip("there is no nvdisasm here")
    assert Path(machine_code.find_cuda_tool("nvdisasm")).is_file()


@needs_nvcc
def test_a_programs_overloads_have_their_own_machine_code(tmp_path):
    """Both are named `work`. Of two instances of one template nothing tells which runs, and it says so."""
    source = """
    __global__ void work(float *x) { x[threadIdx.x] += 1; }
    __global__ void work(float *x, int n) {
        for (int i = 0; i < n; i++)
            x[threadIdx.x] = sinf(x[threadIdx.x]);
    }
    template <int N> __global__ void rounds(float *x) {
        float v = x[threadIdx.x];
        for (int i = 0; i < N; i++) v = sinf(v) * v;
        x[threadIdx.x] = v;
    }
    int main() {
        float *x;
        cudaMalloc(&x, 4096), cudaMemset(x, 0, 4096);
        work<<<1, 32>>>(x), work<<<1, 32>>>(x, 200);
        rounds<1><<<1, 32>>>(x), rounds<200><<<1, 32>>>(x);
        return cudaDeviceSynchronize() != cudaSuccess;
    }"""
    (tmp_path / "work.cu").write_text(source)
    ended = run("predict", tmp_path / "work.cu", "--csv", tmp_path / "work.csv")
    assert "2 instances of the template rounds are not told apart" in ended.stderr
    assert "template work" not in ended.stderr
    with open(tmp_path / "work.csv") as table:
        short, long, *_ = (float(row["H200 us"]) for row in csv.DictReader(table))
    assert long > 5 * short
