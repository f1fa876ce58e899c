"""Predictions: what the compiler leaves out or unrolls, and what memory does for each lane."""

import numpy as np
import pytest

import cudasim
from cudasim.predicting import machine_code
from cudasim.predicting.caches import local_of
from cudasim.predicting.cards import card
from cudasim.predicting.flow import Flow
from cudasim.predicting.loops import loops_of, whole_rounds
from cudasim.predicting.machine_code import EXIT, Block, MachineInstruction
from cudasim.predicting.pace import _before
from cudasim.predicting.pipes import busy_of, tensor_operations

needs_nvcc = pytest.mark.skipif(not machine_code.is_there(), reason="there is no nvcc or no nvdisasm here")


def floats(*shape):
    return np.random.default_rng(0).random(shape, dtype=np.float32)


def runs_in_a_warp(source, opcode, *arguments) -> float:
    """How often one warp runs the instructions of that kind, as a prediction has it."""
    on = cudasim.predict(cudasim.kernel(source)[1, 32], *arguments, gpu="H100").on[0]
    return sum(runs for one, runs in on.flow.executed(on.code) if one.opcode == opcode)


@needs_nvcc
def test_the_flow_knows_how_often_a_product_runs_whose_loop_the_simulator_unrolled():
    """The warps come once to the line's 32 rounds, and predicates hide how often they come there."""
    source = """
    __global__ void product(const float *x, float *y, int n) {
        __shared__ float a[32], b[32][32];
        float sum = 0;
        for (int k = 0; k < 32; k++)
            b[k][threadIdx.x] = k;
        for (int t = 0; t < n; t++) {
            if (t * 32 + threadIdx.x < n * 32 - 1)
                a[threadIdx.x] = x[t * 32 + threadIdx.x];
            else
                a[threadIdx.x] = 0;
            __syncthreads();
            #pragma unroll
            for (int k = 0; k < 32; k++)
                sum += a[k] * b[k][threadIdx.x];
            __syncthreads();
        }
        y[threadIdx.x] = sum;
    }"""
    n = 40
    adds = runs_in_a_warp(source, "FFMA", floats(n, 32), floats(32), n)
    assert adds == pytest.approx(32 * n, rel=0.05)


@needs_nvcc
@pytest.mark.parametrize("call", ["fmaf(a, b, {0})", "__fmaf_rn(a, b, {0})", "a * b + {0}"])
def test_a_multiply_add_runs_as_often_as_its_line_called_or_written_out(call):
    """The loop is unrolled, with straight parts behind it: one FFMA a turn and line in all."""
    lines = "\n".join(f"y{i} = {call.format(f'y{i}')};" for i in range(4))
    source = f"""
    __global__ void rate(float *x, float a, float b, int n) {{
        float y0 = 0, y1 = 0, y2 = 0, y3 = 0;
        for (int i = 0; i < n; i++) {{
            {lines}
        }}
        x[threadIdx.x] = y0 + y1 + y2 + y3;
    }}"""
    n = 4096
    assert runs_in_a_warp(source, "FFMA", floats(32), 1.0, 2.0, n) == pytest.approx(4 * n, rel=0.02)


@needs_nvcc
def test_a_loop_that_loads_whole_structures_runs_as_often_as_its_text_says():
    """Three floats of a float4, in three lines, are one load of 16 bytes."""
    source = """
    __global__ void far(const float4 *p, float *y, int n) {
        float sum = 0, own = y[threadIdx.x];
        for (int i = 0; i < n; i++) {
            float a = p[i].x - own;
            float b = p[i].y - own;
            float c = p[i].z - own;
            float square = a * a + b * b + c * c;
            sum += rsqrtf(square);
        }
        y[threadIdx.x] = sum;
    }"""
    n = 1000
    roots = runs_in_a_warp(source, "MUFU.RSQ", floats(n, 4), floats(32), n)
    assert roots == pytest.approx(n, rel=0.02)


@needs_nvcc
def test_operands_that_the_compiler_keeps_in_registers_cost_shared_memory_once():
    def source(before, product):
        return f"""
        __global__ void tile(const float *x, float *y, int n) {{
            __shared__ float a[512], b[512];
            a[threadIdx.x] = x[threadIdx.x];
            b[threadIdx.x] = x[threadIdx.x + 512];
            __syncthreads();
            float sum[8][8] = {{}};
            int of_a = threadIdx.x / 16 * 8, of_b = threadIdx.x % 16 * 8;
            for (int k = 0; k < n; k++) {{
                {before}
                #pragma unroll
                for (int i = 0; i < 8; i++)
                    for (int j = 0; j < 8; j++)
                        sum[i][j] += {product};
                __syncthreads();
            }}
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    y[(threadIdx.x * 8 + i) * 8 + j] = sum[i][j];
        }}"""

    kept = "float p[8], q[8]; for (int i = 0; i < 8; i++) { p[i] = a[(of_a + i + k) % 512];"
    kept += " q[i] = b[(of_b + i + k) % 512]; }"
    said = cudasim.kernel(source(kept, "p[i] * q[j]"))
    unsaid = cudasim.kernel(source("", "a[(of_a + i + k) % 512] * b[(of_b + j + k) % 512]"))
    one, other = (
        cudasim.predict(kernel[1, 512], floats(1024), np.zeros(512 * 64, np.float32), 256, gpu="H100")
        for kernel in (said, unsaid)
    )
    part = "L1 and shared memory"
    assert other.on[0].terms.busy[part] == pytest.approx(one.on[0].terms.busy[part], rel=0.3)


@needs_nvcc
def test_a_tile_of_registers_runs_as_often_as_its_barriers_say():
    """The simulator's compiler has unrolled its rounds and keeps some operands: it loads less than the text
    says, so that its loads are the least that the line does."""
    source = """
    __global__ void product(const float *x, const float *z, float *y, int n) {
        __shared__ float a[2][8][16], b[2][8][32];
        int tx = threadIdx.x % 8, ty = threadIdx.x / 8, now = 0;
        float sums[4][4] = {};
        for (int t = 0; t < n; t++) {
            for (int i = ty; i < 8; i += 4) {
                for (int j = tx; j < 16; j += 8)
                    a[now][i][j] = i < n ? x[(t * 8 + i) * 16 + j] : 0.f;
                for (int j = tx; j < 32; j += 8)
                    b[now][i][j] = i < n ? z[(t * 8 + i) * 32 + j] : 0.f;
            }
            __syncthreads();
            #pragma unroll
            for (int k = 0; k < 8; k++)
                #pragma unroll
                for (int m = 0; m < 4; m++)
                    #pragma unroll
                    for (int w = 0; w < 4; w++)
                        sums[m][w] += a[now][k][ty * 4 + m] * b[now][k][tx * 4 + w];
            now = 1 - now;
        }
        for (int m = 0; m < 4; m++)
            for (int w = 0; w < 4; w++)
                y[(ty * 4 + m) * 32 + tx * 4 + w] = sums[m][w];
    }"""
    n = 40
    adds = runs_in_a_warp(source, "FFMA", floats(n, 8, 16), floats(n, 8, 32), floats(16, 32), n)
    assert adds == pytest.approx(8 * 4 * 4 * n, rel=0.05)


@needs_nvcc
def test_floats_that_all_lanes_add_to_one_address_are_added_one_by_one():
    def seconds(kind):
        kernel = cudasim.kernel(f"""
        __global__ void total(const {kind} *x, {kind} *sum) {{
            atomicAdd(sum, x[blockIdx.x * blockDim.x + threadIdx.x]);
        }}""")
        values = floats(1 << 20).astype(np.float32 if kind == "float" else np.int32)
        return cudasim.predict(kernel[4096, 256], values, np.zeros(1, values.dtype), gpu="H100").seconds

    assert seconds("float") > 3 * seconds("int")


@needs_nvcc
def test_a_whole_number_of_each_block_for_one_address_takes_less_than_half_as_long_as_a_float():
    """1.70 and 3.71 clocks, as lab/atomics.cu measured on an H200."""

    def seconds(kind):
        source = f"""
        __global__ void total(const {kind} *x, {kind} *y) {{
            if (threadIdx.x == 0)
                atomicAdd(y, x[blockIdx.x]);
        }}"""
        x = np.ones(1 << 17, np.float32 if kind == "float" else np.int32)
        of = cudasim.predict(cudasim.kernel(source)[len(x), 32], x, x[:1].copy(), gpu="H100").on[0]
        return of.terms.l2

    assert 2.0 < seconds("float") / seconds("int") < 2.5


@needs_nvcc
def test_a_statement_of_several_lines_is_one_place():
    """nvcc names the line of each load's own text, the simulator's compiler the statement's first."""
    source = """
    __global__ void product(const float *x, float *y, int n) {
        __shared__ float a[8][32], b[8][32];
        float sum[8] = {0};
        for (int t = 0; t < n; t++) {
            for (int k = 0; k < 8; k++)
                a[k][threadIdx.x] = b[k][threadIdx.x] = x[(t * 8 + k) * 32 + threadIdx.x];
            __syncthreads();
            #pragma unroll
            for (int k = 0; k < 8; k++) {
                #pragma unroll
                for (int m = 0; m < 8; m++) {
                    float const left =
                        a[k][threadIdx.x / 8 * 8 + m];
                    float const right =
                        b[k][threadIdx.x];
                    sum[m] += left *
                              right;
                }
            }
            __syncthreads();
        }
        for (int m = 0; m < 8; m++)
            y[m * 32 + threadIdx.x] = sum[m];
    }"""
    n = 40
    assert runs_in_a_warp(source, "FFMA", floats(n * 8, 32), floats(8, 32), n) == pytest.approx(
        64 * n, rel=0.15
    )


@needs_nvcc
def test_a_kernel_of_a_namespace_without_a_name_is_found():
    source = """
    namespace {
    template <typename T, int times>
    __global__ void scaled(const T *x, T *y) { y[threadIdx.x] = times * x[threadIdx.x]; }
    }"""
    x = floats(32)
    scaled = cudasim.kernel(source)
    assert cudasim.predict(scaled[1, 32], x, 0 * x, gpu="H100", template=("float", 2)).seconds > 0


@needs_nvcc
def test_a_power_runs_its_usual_path():
    """The counts do not tell which way warps go within powf()."""
    source = """
    __global__ void power(const float *x, float *y, float of) {
        float value = x[threadIdx.x];
        if (value <= 0.0f)
            value = 0.0f;
        else
            value = powf(value, of);
        y[threadIdx.x] = value;
    }"""
    assert runs_in_a_warp(source, "FFMA", floats(32) + 0.1, floats(32), 2.2) > 10


@needs_nvcc
def test_updates_of_several_sectors_of_a_line_wait_for_each_other():
    """Bytes at random in 256 bins took an H100 16 clocks of L2 for a warp, in 8 lines at a time."""
    source = """
    __global__ void histogram(const unsigned char *x, int *bins) {
        atomicAdd(&bins[x[blockIdx.x * blockDim.x + threadIdx.x]], 1);
    }"""
    n = 1 << 20
    x = np.random.default_rng(0).integers(0, 256, n, dtype=np.uint8)
    found = cudasim.predict(
        cudasim.kernel(source)[n // 256, 256], x, np.zeros(256, np.int32), gpu="H100", seconds=0.5
    )
    clocks = found.on[0].terms.l2 * found.on[0].card.clock_hz / (n / 32)
    assert 14 < clocks < 20


@needs_nvcc
@pytest.mark.parametrize(
    ("lanes", "blocks_apart", "least", "most"), [(10, 0, 2, 4), (32, 0, 4, 6), (32, 32, 0, 0.4)]
)
def test_a_line_that_every_request_updates_takes_a_few_clocks(lanes, blocks_apart, least, most):
    """3.1 clocks of L2 for 10 numbers side by side, 5.0 for 32, and 0.15 to 0.42 where each block has its own
    line, as lab/atomics.cu measured on an H200."""
    source = """
    __global__ void update(int *data, int lanes, int apart) {
        if (threadIdx.x < lanes)
            atomicAdd(&data[blockIdx.x * apart + threadIdx.x], 1);
    }"""
    blocks = 1 << 15
    data = np.zeros(32 + blocks * blocks_apart, np.int32)
    kernel = cudasim.kernel(source)[blocks, 32]
    of = cudasim.predict(kernel, data, lanes, blocks_apart, gpu="H100").on[0]
    assert least < of.terms.l2 * of.card.clock_hz / blocks < most


@needs_nvcc
def test_shuffles_that_nvcc_writes_again_for_parted_warps_run_once():
    source = """
    __global__ void sums(const float *x, float *y, int n, int sizes) {
        for (int i = 0; i < n; i++) {
            float value = x[i * 32 + threadIdx.x];
            if (sizes >> i % 4 & 1)
                for (int k = 16; k > 0; k /= 2)
                    value += __shfl_xor_sync(0xffffffff, value, k);
            y[i * 32 + threadIdx.x] = value;
        }
    }"""
    n = 40
    runs = runs_in_a_warp(source, "SHFL.BFLY", floats(n, 32), floats(n, 32), n, 15)
    assert runs == pytest.approx(5 * n, rel=0.05)


@needs_nvcc
def test_what_a_register_holds_during_a_loop_is_stored_once():
    """The counts have a store for each round, and the machine's stands behind its loop."""
    source = """
    __global__ void total(const float *x, float *y, int n) {
        __shared__ float sums[32];
        sums[threadIdx.x] = 0;
        for (int i = threadIdx.x; i < n; i += 32)
            sums[threadIdx.x] += x[i];
        for (int step = 16; step > 0; step /= 2) {
            __syncthreads();
            if (threadIdx.x < step)
                sums[threadIdx.x] += sums[threadIdx.x + step];
        }
        y[threadIdx.x] = sums[0];
    }"""
    assert runs_in_a_warp(source, "STS", floats(32 * 64), floats(32), 32 * 64) < 10


@needs_nvcc
def test_percentages_are_those_of_ncus_clock_where_the_card_has_it():
    source = "__global__ void add(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }"
    found = cudasim.predict(cudasim.kernel(source)[1 << 14, 256], floats(1 << 22), gpu=["H100", "T4"])
    slow, same = (one.terms for one in found.on)
    assert 1 < slow.units["compute"] / slow.units_here["compute"] < 1.98 / 1.59
    assert same.units == same.units_here


def test_what_follows_a_guarded_load_comes_after_the_load_where_its_guard_holds():
    """All three blocks run as often as each other, and no warp goes around the second."""
    blocks = [Block(0, [], [2, 1]), Block(1, [], [2]), Block(2, [], [EXIT])]
    edges = {(0, 2): 0.0, (0, 1): 4.0, (1, 2): 4.0, (2, EXIT): 4.0}
    assert _before(blocks, Flow(np.full(3, 4.0), 0.0, edges)) == {1: 0, 2: 1}


@needs_nvcc
def test_a_division_of_64_bits_goes_around_its_call():
    """Small numbers take the way that divides 32 bits, which is longer in the caller, and call nothing."""
    source = """
    __global__ void rests(unsigned long long *x, unsigned long long of) {
        x[threadIdx.x] = x[threadIdx.x] % of;
    }"""
    x = np.arange(32, dtype=np.uint64)
    on = cudasim.predict(cudasim.kernel(source)[1, 32], x, 7, gpu="H100").on[0]
    assert any(one.name == "CALL" for block in on.code.blocks for one in block.instructions)
    assert not any(one.name == "CALL" for one, _ in on.flow.executed(on.code))


@needs_nvcc
def test_a_function_that_is_not_inlined_takes_its_time():
    """Its code stands behind the kernel's, and no edge of the flow goes there."""
    source = """
    __device__ __noinline__ float squares(const float *x, int n) {
        float sum = 0;
        for (int k = 0; k < n; k++)
            sum += x[k] * x[k];
        return sum;
    }
    __global__ void sums(const float *x, float *y, int n) { y[threadIdx.x] = squares(x + threadIdx.x, n); }"""
    one = cudasim.predict(cudasim.kernel(source)[1, 32], floats(300), floats(32), 256, gpu="H100").on[0]
    runs = sum(runs for each, runs in one.flow.executed(one.code) if each.name in ("FFMA", "FMUL"))
    assert any(block.is_called for block in one.code.blocks) and runs == pytest.approx(256, rel=0.05)


@needs_nvcc
def test_a_loop_runs_because_warps_enter_it():
    """A loop that nobody enters keeps the rule of flow and has all loads: all warps left at once."""
    source = """
    __device__ float at(const float *x, int i, int n) { return x[min(max(i, 0), n - 1)]; }
    __global__ void blur(const float *x, float *y, int w, int h, int radius) {
        int row = blockIdx.y * blockDim.y + threadIdx.y;
        if (row >= h)
            return;
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < w; i += blockDim.x * gridDim.x) {
            float sum = 0;
            for (int j = i - radius; j <= i + radius; j++) sum += at(x + row * w, j, w);
            y[row * w + i] = sum / (2 * radius + 1);
        }
    }"""
    launch = cudasim.kernel(source)[(16, 32), (16, 8)]
    p = cudasim.predict(launch, floats(256, 256), floats(256, 256), 256, 256, 8, gpu="H100")
    one, loops = p.on[0], loops_of(p.on[0].code.blocks)
    runs = one.flow.runs / (p.sample.warps * len(p.sample.blocks))
    (loop,) = {of for index, of in enumerate(loops) if of != -1 and runs[index] > 1}
    entering = [
        times for (source, to), times in one.flow.edges.items() if loops[source] != loop == loops[to] != -1
    ]
    assert sum(entering) == pytest.approx(p.sample.warps * len(p.sample.blocks))


@needs_nvcc
@pytest.mark.parametrize(("blocks", "lost"), [(1, 0.0), (4096, 1.0)])
def test_arrays_in_local_memory_go_to_l2_where_many_threads_have_them(blocks, lost):
    """512 bytes of a thread are 128 KB for a block, which L1 has, and 1 MB for the blocks that it holds."""
    source = """
    __global__ void shuffled(const int *where, float *y, int n) {
        float own[128];
        for (int i = 0; i < 128; i++)
            own[i] = i * n;
        float sum = 0;
        for (int i = 0; i < n; i++)
            sum += own[where[i] + threadIdx.x % 2];
        y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    }"""
    where = np.arange(64, dtype=np.int32)
    p = cudasim.predict(cudasim.kernel(source)[blocks, 256], where, floats(256 * blocks), 64, gpu="H100")
    one = p.on[0]
    local = local_of(one.code, one.flow, p.sample, one.card, one.held)
    assert one.code.local_bytes >= 512 and local.read > 0 and local.written > 0 and local.lost == lost
    assert one.terms.l2 > 100e-6 or not lost


@pytest.mark.parametrize(
    ("opcode", "bytes_"), [("LDSM.16.M88.2", 8), ("LDSM.16.MT88.4", 16), ("LDSM.16.M88", 4)]
)
def test_matrices_that_are_loaded_transposed_are_as_large(opcode, bytes_):
    assert MachineInstruction(0, "", opcode, "R4, [R2]", ()).bytes == bytes_


@needs_nvcc
@pytest.mark.parametrize(("side", "whole"), [(3, 0), (5, 1), (9, 2)])
def test_an_unrolled_loop_makes_no_part_of_a_round(side, whole):
    """nvcc unrolls the inner loop by 4 and 16: its remainder has three rounds of three, one of five."""
    source = """
    __global__ void convolution(const float *x, const float *mask, float *y, int width, int side) {
        int at = blockIdx.x * blockDim.x + threadIdx.x;
        float sum = 0;
        for (int i = 0; i < side; i++)
            for (int j = 0; j < side; j++)
                sum += mask[i * side + j] * x[i * width + at + j];
        y[at] = sum;
    }"""
    x, mask, y = floats(16 * 64), floats(side * side), floats(32)
    one = cudasim.predict(cudasim.kernel(source)[1, 32], x, mask, y, 64, side, gpu="H100").on[0]
    products = [sum(each.name == "FFMA" for each in block.instructions) for block in one.code.blocks]
    assert max(products) >= 4
    assert sum(of * runs for of, runs in zip(products, one.flow.runs, strict=True)) == pytest.approx(side**2)
    unrolled = [runs for of, runs in zip(products, one.flow.runs, strict=True) if of >= 4]
    assert sum(unrolled) == pytest.approx(side * whole)


def test_a_remainder_before_an_unrolled_loop_has_the_rounds_that_it_leaves():
    """Block 1 makes one round, and block 2, a loop, four. Each of eight warps has five."""
    runs, edges = {0: 0, 1: 1, 2: 2}, {(0, 1): 3, (0, 2): 4, (1, 2): 5, (2, 2): 6}
    rows = list(whole_rounds({2}, {0, 1, 2}, {2}, runs, edges, {1: 4.0, 2: 16.0}, 8 * 5 * 4.0, 8, 5))
    assert ({2: 1.0, 4: -1.0, 5: -1.0}, 0.0) in rows  # at most once for each time that warps come to it
    assert ({1: 1.0}, 8.0) in rows and ({1: -1.0}, -8.0) in rows


def test_a_multiply_add_of_integers_with_a_wide_result_takes_twice_as_long():
    plain, wide = (MachineInstruction(0, "", name, "R2, R3, R4, R6", ()) for name in ("IMAD", "IMAD.WIDE"))
    clocks = [busy_of(one, card("H100"), 1.0)[1] for one in (plain, wide)]
    assert clocks == [0.5, 1.0]


@needs_nvcc
def test_a_loop_of_fragments_runs_once_a_round():
    """Its lanes load four floats of each fragment, one after the other on the simulator."""
    source = """
    #include <mma.h>
    using namespace nvcuda::wmma;
    __global__ void product(const float *a, const float *b, float *c, int n) {
        fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> left;
        fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> right;
        fragment<accumulator, 16, 16, 8, float> sum;
        fill_fragment(sum, 0.0f);
        for (int k = 0; k < n; k += 8) {
            load_matrix_sync(left, a + k, n);
            load_matrix_sync(right, b + k * 16, 16);
            mma_sync(sum, left, right, sum);
        }
        store_matrix_sync(c, sum, 16, mem_row_major);
    }"""
    n = 512
    launch = cudasim.kernel(source)[1, 32]
    on = cudasim.predict(launch, floats(16, n), floats(n, 16), floats(16, 16), n, gpu="H100").on[0]
    run = [(one, runs) for one, runs in on.flow.executed(on.code) if one.name == "HMMA"]
    operations = sum(tensor_operations(one)[0] * runs for one, runs in run)
    assert operations == pytest.approx(2 * 16 * 16 * n)
