"""The Hopper ladder: its plans and refusals, and its results on the simulator and on a Hopper GPU."""

import math
from dataclasses import replace

import pandas as pd
import pytest
import torch

import fgn
from fgn.chains import CHAINS, Shape, problem, random_inputs
from fgn.functional import run_chain
from fgn.measure.accuracy import relative_error
from fgn.measure.records import PROFILES
from fgn.native.library import SIMULATOR, ffi, version_table
from fgn.native.places import SOURCES
from fgn.plot import hopper_steps as draw
from fgn.reference import chain_reference64
from fgn.teaching import hopper_steps as ladder

NAMES = [step.version for step in ladder.STEPS]
every_step = pytest.mark.parametrize("step", ladder.STEPS, ids=lambda step: step.version)
MOST_LINES = 200


class Planner:
    """The plans that the simulator's library makes for an H200: arithmetic, for which no GPU is needed."""

    def __init__(self):
        self.library = SIMULATOR.load()
        self.device = ffi().new("fgn_device *", {"major": 9, "minor": 0, "multiprocessors": 132})
        self.index = {row["name"]: i for i, row in enumerate(version_table("cpu"))}

    def chain(self, batch=1024, in_features=1024, out_features=1024, groups=32, **fields):
        chain = ffi().new("fgn_chain *")
        chain.batch, chain.in_features, chain.out_features = batch, in_features, out_features
        chain.groups, chain.eps, chain.type = groups, 1e-5, self.library.FGN_BFLOAT16
        for name, value in fields.items():
            setattr(chain, name, value)
        return chain

    def plan(self, version, device=None, **problem):
        """The plan, or the sentence that refuses it."""
        plan, chain = ffi().new("fgn_plan *"), self.chain(**problem)
        status = self.library.fgn_plan_chain(self.index[version], chain, device or self.device, plan)
        if status == self.library.FGN_OK:
            return plan
        assert status == self.library.FGN_NOT_SUPPORTED
        return ffi().string(self.library.fgn_last_error()).decode()


@pytest.fixture(scope="module")
def planner():
    return Planner()


# ------------------------------------------------------------------------------------------------------------
# The table, the plans, the refusals


def test_the_steps_stand_before_the_kernel_that_is_their_sum():
    names = [row["name"] for row in version_table("cpu")]
    first = names.index(NAMES[0])
    assert names[first : first + 7] == [*NAMES, ladder.PRODUCTION]


def test_each_step_is_a_short_file():
    for row in version_table("cpu"):
        if row["name"] in NAMES:
            assert len((SOURCES / row["gemm"]).read_text().splitlines()) <= MOST_LINES
    for header in (SOURCES / "hopper_steps").glob("*.h"):
        assert len(header.read_text().splitlines()) <= MOST_LINES


@every_step
@pytest.mark.parametrize("batch", [1, 128, 129, 1024, 100_000])
def test_plan(planner, step, batch):
    in_features, out_features = 512, 1024
    plan = planner.plan(step.version, batch=batch, in_features=in_features, out_features=out_features)
    product = plan.launch[0]
    tiles = math.ceil(batch / (128 * step.sharing)) * step.sharing * (out_features // step.columns)
    assert plan.launch_count == (1 if step.norm else 2)
    assert plan.workspace_bytes == (0 if step.norm else 4 * batch * out_features)
    assert (product.tile_rows, product.tile_columns) == (128, step.columns)
    assert (product.steps, product.step_k, product.tiles) == (in_features // 64, 64, tiles)
    assert (product.cluster, product.stages) == (step.sharing, step.stages)
    assert product.grid[0] == (min(tiles, 132) if step.persistent else tiles)
    assert product.operations == 2.0 * batch * in_features * out_features
    wrote = planner.library.FGN_WRITES_Y if step.norm else planner.library.FGN_WRITES_WORKSPACE
    assert product.writes == wrote


@every_step
def test_the_model_knows_the_kernels_shared_memory(planner, step):
    shared_bytes = planner.plan(step.version).launch[0].shared_bytes
    ring = step.stages * ladder.STEP_K * ladder.ELEMENT_BYTES * (ladder.TILE_ROWS + step.columns)
    if step.by_threads:
        assert shared_bytes == 0 and ring == 32 << 10  # static, and small enough for that
    else:
        barriers = 1 if step.block_barrier else 2  # full, and empty
        assert shared_bytes == 1024 + ring + 8 * barriers * step.stages
        assert step.blocks * shared_bytes <= 227 << 10


REFUSED = {
    "bfloat16": {"type": 1},
    "a norm": {"groups": 0},
    "no operator that adds a tensor": {"after_count": 1, "after": [{"kind": 11}]},
    "a multiple of 64 input features": {"in_features": 1000},
    "a multiple of 256 output features": {"out_features": 1152},
}


@every_step
@pytest.mark.parametrize("needs", REFUSED)
def test_refusals_say_what_is_needed(planner, step, needs):
    assert planner.plan(step.version, **REFUSED[needs]) == f"{step.version} needs {needs}"


@every_step
@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (10, 0)])
def test_other_devices_are_refused(planner, step, capability):
    major, minor = capability
    device = ffi().new("fgn_device *", {"major": major, "minor": minor, "multiprocessors": 100})
    assert planner.plan(step.version, device) == f"{step.version} needs a GPU of compute capability 9.0"


@pytest.mark.parametrize("size, runs", [(4, False), (8, True), (96, False), (256, True), (512, False)])
def test_the_norm_is_in_the_epilogue_where_groups_are_inside_a_tile(planner, size, runs):
    problem = {"out_features": 256 * size, "groups": 256}
    refused = "hopper_6_norm needs groups of 8, 16, 32, 64, 128 or 256 channels"
    assert (planner.plan("hopper_6_norm", **problem) == refused) != runs
    assert planner.plan("hopper_5_persistent", **problem).launch_count == 2


def test_no_step_is_ever_the_default(planner):
    for batch in (1, 64, 1024, 16384):
        for features in (256, 1024, 8192):
            chain = planner.chain(batch, features, features, 32)
            best = planner.library.fgn_default_version(chain, planner.device)
            assert best >= 0 and best not in [planner.index[name] for name in NAMES]


# ------------------------------------------------------------------------------------------------------------
# The model


def test_predictions_are_those_that_were_written_down():
    written = pd.read_csv(ladder.PREDICTIONS)
    assert list(written.version.unique()) == NAMES
    for row in written.itertuples():
        shape = Shape(row.batch, row.in_features, row.out_features, row.groups)
        assert ladder.predicted_ms(ladder.BY_VERSION[row.version], shape) == pytest.approx(
            row.predicted_ms, abs=1e-4
        )


def test_the_time_line_of_a_loop_that_does_not_overlap():
    """One block, one stage, nothing beside: copy, arrive and multiply take turns."""
    step = replace(ladder.STEPS[0], blocks=1, block_barrier=False, by_threads=False)
    model = ladder.Model(l2_bytes_a_clock=32.768, latency=500, start=0, epilogue=4000)
    frame = ladder.timeline(step, 50, model=model)
    clocks = 50 * (1000 + 500 + 512) + 4000
    assert frame.end.max() == pytest.approx(clocks)
    assert ladder.tensor_cores_busy(frame) == pytest.approx(100 * 50 * 512 / clocks)


def test_more_stages_hide_the_latency_until_copies_take_longer_than_products():
    def busy(stages, bytes_a_clock):
        step = replace(ladder.BY_VERSION["hopper_5_persistent"], stages=stages)
        model = ladder.Model(l2_bytes_a_clock=bytes_a_clock)
        return ladder.tensor_cores_busy(ladder.timeline(step, 2000, model=model))

    shares = [busy(stages, 64) for stages in (1, 2, 3, 4, 8)]
    assert shares == sorted(shares) and shares[0] < 40 and shares[-1] > 97
    assert busy(8, 16) == pytest.approx(50, abs=1)  # 32 KiB in 2048 clocks, multiplied in 1024


def test_ping_pong_is_for_short_products():
    shares = ladder.together_or_in_turn([8, 16, 256])
    assert (shares["in turn"] > shares.together).tolist() == [True, True, False]


@pytest.mark.parametrize("step", [*ladder.STEPS, ladder.PING_PONG], ids=lambda step: step.words)
def test_time_line(step):
    frame = ladder.timeline(step, steps=6, tiles=2)
    assert (frame.end > frame.begin).all()
    for key, rows in frame[frame.who != "copies"].groupby(["block", "who"]):
        rows = rows.sort_values("begin")
        assert (rows.begin.to_numpy()[1:] >= rows.end.to_numpy()[:-1]).all(), key
    work = frame[frame.what == ladder.MULTIPLY].sort_values("begin")
    # The tensor cores do one thing at a time, and all of it.
    assert (work.begin.to_numpy()[1:] >= work.end.to_numpy()[:-1]).all()
    assert (work.end - work.begin).sum() == pytest.approx(step.blocks * 12 * step.multiply_clocks)
    for (block, tile, along), of_step in frame.groupby(["block", "tile", "step"]):
        copy = of_step[of_step.what == ladder.COPY]
        assert copy.end.item() <= of_step[of_step.what == ladder.MULTIPLY].begin.min(), (block, tile, along)
    # A stage is filled again only after all warpgroups have read it.
    for _, of_stage in frame[frame.what.isin([ladder.COPY, ladder.MULTIPLY])].groupby(["block", "stage"]):
        read = 0.0
        for _, of_step in of_stage.groupby(["tile", "step"]):
            assert of_step[of_step.what == ladder.COPY].begin.item() >= read
            read = of_step[of_step.what == ladder.MULTIPLY].end.max()


def test_recorded_results_are_of_every_step_and_right():
    frame = ladder.results()
    for _, rows in frame.groupby("shape"):
        assert list(rows.subject) == [*NAMES, ladder.PRODUCTION, "F.linear"]
    steps = frame[frame.subject.isin(NAMES)]
    assert (steps.measured_ms > 0).all() and steps.predicted_ms.notna().all()
    assert frame[frame.subject != "F.linear"].error.between(1e-3, 2e-3).all()  # the rounding of y
    counted = ladder.products()
    assert list(counted.index) == [*NAMES, ladder.PRODUCTION]
    assert counted["tensor cores busy, %"].between(1, 100).all()
    assert set(ladder.table().index) == set(counted.index)
    draw.predicted_and_measured(frame, ladder.recorded_on()).canvas.draw()


def test_pictures_are_drawn():
    for step in (ladder.STEPS[1], ladder.PING_PONG):
        draw.step_timeline(ladder.timeline(step, 6, 2), step.words, until=20_000).canvas.draw()
    draw.together_or_in_turn(ladder.together_or_in_turn([4, 64])).canvas.draw()


# ------------------------------------------------------------------------------------------------------------
# Results

is_hopper = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
on_hopper = pytest.mark.skipif(not is_hopper, reason="needs a GPU of compute capability 9.0")

SHAPES = (
    Shape(128, 64, 256, 8),
    Shape(1, 64, 256, 32),
    Shape(300, 256, 512, 2),
    Shape(257, 320, 2560, 10),
    Shape(2048, 512, 4096, 64),
    Shape(131, 576, 768, 12),
    Shape(1024, 1024, 1024, 128),
    Shape(16384, 128, 1024, 32),
)

# The sums, the operators and the norm are float32: what is left is the rounding of y to bfloat16.
Y_ROUNDING = 2.0**-9


SMALL_SHAPES = (Shape(128, 64, 256, 8), Shape(1, 64, 256, 32), Shape(140, 448, 512, 2))


def check_results(step, shape, name, device):
    chain, shape = problem(name, shape)
    x, parameters = random_inputs(chain, shape, torch.device(device), seed=7, dtype=torch.bfloat16)
    y = run_chain(chain, x, parameters, step.version, poison=True, precision="bf16")
    again = run_chain(chain, x, parameters, step.version, poison=True, precision="bf16")
    exact = chain_reference64(chain, x, parameters)
    rounding = relative_error(exact.bfloat16(), exact)
    assert torch.equal(y, again)
    assert relative_error(y, exact) <= 1.1 * rounding + 2e-4
    assert ((y.double() - exact).abs().max() / exact.abs().max()) <= 2 * Y_ROUNDING


@pytest.mark.gpu
@on_hopper
@every_step
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_results(step, shape, name):
    check_results(step, shape, name, "cuda")


@every_step
@pytest.mark.simulator
@pytest.mark.parametrize("shape", SMALL_SHAPES, ids=str)
@pytest.mark.memory
def test_results_on_the_simulator(step, shape):
    """Seven steps along k are more than any ring has stages; 140 rows leave a tile with 12 of its 128."""
    check_results(step, shape, "gemm_biasadd_hardtanh_mish_groupnorm", "cpu")


GMMA_BYTES = "smsp__sass_data_bytes_mem_shared_op_gmma.sum"


def gmma_bytes(multiply_adds, products, k=16):
    """What wgmma reads of shared memory: 32 bytes of 64 and of 128 rows for 64 x 128 x k multiply-adds."""
    return products * multiply_adds / (64 * 128 * k) * (64 + 128) * 32


@every_step
@pytest.mark.simulator
def test_no_step_has_a_fault_and_its_products_are_counted(step):
    """Whole tiles, so that every row and column that is multiplied is one of the problem's."""
    chain, shape = problem("gemm_groupnorm_hardtanh", Shape(256, 384, 256, 8))
    x, parameters = random_inputs(chain, shape, torch.device("cpu"), seed=3, dtype=torch.bfloat16)
    frame = fgn.count(lambda: run_chain(chain, x, parameters, step.version, precision="bf16"))
    product = frame.iloc[0]
    assert product[GMMA_BYTES] == gmma_bytes(256 * 384 * 256, products=1)
    tiles = 2 * 256 // step.columns
    copied = tiles * (128 / step.sharing * step.sharing + step.columns / step.sharing) * 384 * 2
    assert product.tensor_bytes == (0 if step.by_threads else copied)
    assert math.isnan(product["dram__bytes_read.sum"]) != step.by_threads


def test_what_ncu_counted_is_what_the_formula_says():
    recorded = pd.read_csv(PROFILES / "h200" / "launches.csv")
    rows = recorded[recorded.kernel.str.startswith("hopper_")]
    assert len(rows) >= 6
    for row in rows.itertuples():
        multiply_adds = row.batch * row.in_features * row.out_features
        products, k = (3, 16) if row.precision == "ieee" else (1, 8) if row.precision == "tf32" else (1, 16)
        counted = gmma_bytes(multiply_adds, products, k)
        assert recorded.loc[row.Index, GMMA_BYTES] == pytest.approx(counted, rel=1e-6)


@pytest.mark.gpu
@on_hopper
@every_step
def test_a_matrix_that_is_not_aligned_is_refused_and_not_read_wrongly(step):
    chain, shape = problem("matmul_groupnorm_leakyrelu_sum", Shape(128, 64, 256, 8))
    x, parameters = random_inputs(chain, shape, torch.device("cuda"), dtype=torch.bfloat16)
    shifted = torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)[1:].view_as(x).copy_(x)
    try:
        y = run_chain(chain, shifted, parameters, step.version, poison=True, precision="bf16")
    except RuntimeError as error:
        assert step.version in str(error) and "misaligned" in str(error)
    else:  # the caller copied it to where it is aligned
        assert torch.equal(y, run_chain(chain, x, parameters, step.version, precision="bf16"))
