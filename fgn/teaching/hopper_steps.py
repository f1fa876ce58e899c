"""The Hopper ladder of `cuda_c/hopper_steps/`: a model of one multiprocessor in each step, its predicted
times, and the recorded ones.

The model has few numbers: the L2 cache's bandwidth, a copy's latency, the tensor cores' rate, and an
epilogue's time. The model and its numbers were written before the steps first ran on a GPU;
`notebooks/07_predictions.csv` keeps its predictions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch

from cudasim.counting.metrics import CYCLES, PIPES, TIME
from fgn.chains import Shape
from fgn.measure.accuracy import compare
from fgn.measure.benchmark import F_LINEAR, bench
from fgn.native.library import version_table
from fgn.native.places import ROOT, SOURCES

# A tensor core of compute capability 9.0 does 512 multiply-adds of 16-bit factors in a clock; a
# multiprocessor has four. (NVIDIA's white paper on the H100.)
MULTIPLY_ADDS_A_CLOCK = 2048
MULTIPROCESSORS = 132  # of an H200
CLOCK_GHZ = 1.65  # while the tensor cores are busy: the power that the card may draw holds it below its 1.98
MEMORY_BYTES_A_SECOND = 4.0e12  # what a kernel that copies reaches

TILE_ROWS, STEP_K, ELEMENT_BYTES = 128, 64, 2
WARPGROUPS = 2  # that multiply, 64 rows each
FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Model:
    """The numbers of the model, in clocks except the first."""

    l2_bytes_a_clock: float = 40.0  # that a multiprocessor gets when all ask at once
    latency: float = 1200.0  # from asking for a copy until its bytes are there: 700 ns
    through_registers: float = 250.0  # step 1: from the bytes' arrival to shared memory and through a barrier
    barrier: float = 60.0  # of a block
    start: float = 1500.0  # of a block: launch, mbarriers, descriptors
    epilogue: float = 6000.0  # of steps 1 to 5: 64 KiB of sums for 128 columns; twice that for 256
    norm_epilogue: float = 14000.0  # of step 6: operators, norm, y


@dataclass(frozen=True)
class Step:
    """The model's view of a step of the ladder.

    columns: of a tile of 128 rows. stages: of the ring. blocks: on a multiprocessor. sharing: the blocks of a
    cluster, which share the copies of w. by_threads: threads copy, through registers. block_barrier: a
    barrier of the block in each step along k. persistent: copies go on from tile to tile. norm: the norm is
    in the epilogue. in_turn: the two warpgroups do not share a tile of 128 rows; each has its own tiles of 64
    rows, and they take turns (ping-pong).
    """

    version: str
    words: str
    columns: int = 256
    stages: int = 4
    blocks: int = 1
    sharing: int = 1
    by_threads: bool = False
    block_barrier: bool = False
    persistent: bool = True
    norm: bool = False
    in_turn: bool = False

    @property
    def tile_rows(self) -> int:
        return TILE_ROWS // WARPGROUPS if self.in_turn else TILE_ROWS

    @property
    def multiply_clocks(self) -> float:
        """The clocks of the tensor cores for one step along k."""
        return self.tile_rows * self.columns * STEP_K / MULTIPLY_ADDS_A_CLOCK

    @property
    def copied_bytes(self) -> int:
        """The bytes that a block asks of the L2 cache in one step along k."""
        return STEP_K * ELEMENT_BYTES * (self.tile_rows + self.columns // self.sharing)

    def readers(self, tile: int) -> list[int]:
        """The warpgroups that multiply and end a tile."""
        return [tile % WARPGROUPS] if self.in_turn else list(range(WARPGROUPS))

    def epilogue_clocks(self, model: Model) -> float:
        return model.norm_epilogue if self.norm else model.epilogue * self.columns / 128


# One multiprocessor holds one block from step 3 on, and that block has all of the ring.
STEPS = (
    Step("hopper_1_wgmma", "wgmma", 128, 1, 2, by_threads=True, block_barrier=True, persistent=False),
    Step("hopper_2_tma", "TMA and a ring of stages", 128, 3, 2, block_barrier=True, persistent=False),
    Step("hopper_3_producer", "producer and consumers", persistent=False),
    Step("hopper_4_multicast", "clusters, multicast", sharing=2, persistent=False),
    Step("hopper_5_persistent", "persistent blocks", sharing=2),
    Step("hopper_6_norm", "the norm in the epilogue", sharing=2, norm=True),
)  # fmt: skip
PING_PONG = replace(
    STEPS[-1], version="hopper", words="tiles of one warpgroup, in turn", stages=5, in_turn=True
)
BY_VERSION = {step.version: step for step in STEPS}

COPY, STORE, MULTIPLY, EPILOGUE = "copy", "store in shared memory", "multiply", "epilogue"


def timeline(step: Step, steps: int, tiles: int = 1, model: Model | None = None) -> pd.DataFrame:
    """The events on one multiprocessor with their clocks: every block computes `tiles` tiles of `steps` steps
    along k.

    One row per event: block, who ("copies" or "warpgroup 0" ...), what, tile, step, stage, begin, end. A copy
    occupies the path from the L2 cache for its bytes, and ends when it lands, `latency` later.
    """
    model = model or Model()
    rows = []
    way = tensor_cores = 0.0  # until when the way from the L2 cache and the tensor cores are taken
    blocks = range(step.blocks)
    ready = np.full((step.blocks, WARPGROUPS), model.start)
    released = [[model.start] * step.stages for _ in blocks]
    started = [model.start for _ in blocks]
    for number in range(tiles * steps):
        tile, along = divmod(number, steps)
        for block in blocks:
            stage = (number if step.persistent else along) % step.stages
            where = (tile, along, stage)
            if along == 0 and tile > 0 and not step.persistent:
                started[block] = ready[block].max() + model.start  # the block before has ended
            begin = max(way, released[block][stage], started[block])
            way = begin + step.copied_bytes / model.l2_bytes_a_clock
            full = way + model.latency
            rows.append((block, "copies", COPY, *where, begin, full))
            if step.by_threads:
                rows.append((block, "copies", STORE, *where, full, full + model.through_registers))
                full += model.through_registers
            readers = step.readers(tile)
            for warpgroup in readers:
                begin = max(full, ready[block, warpgroup], tensor_cores)
                end = tensor_cores = ready[block, warpgroup] = begin + step.multiply_clocks / len(readers)
                rows.append((block, f"warpgroup {warpgroup}", MULTIPLY, *where, begin, end))
            released[block][stage] = max(ready[block, warpgroup] for warpgroup in readers)
            if step.block_barrier:
                released[block][stage] += model.barrier
                ready[block] = ready[block].max() + model.barrier
            for warpgroup in readers if along == steps - 1 else ():
                begin = ready[block, warpgroup]
                end = ready[block, warpgroup] = begin + step.epilogue_clocks(model)
                rows.append((block, f"warpgroup {warpgroup}", EPILOGUE, *where, begin, end))
    return pd.DataFrame(rows, columns=["block", "who", "what", "tile", "step", "stage", "begin", "end"])


def tensor_cores_busy(frame: pd.DataFrame) -> float:
    """The share of a `timeline()` in which the tensor cores multiply, in percent."""
    work = frame[frame.what == MULTIPLY]
    return 100 * float((work.end - work.begin).sum() / frame.end.max())


def predicted_ms(step: Step, shape: Shape, model: Model | None = None) -> float:
    """The model's time of the whole chain: the product's clocks on the multiprocessor with the most tiles,
    and the time of the norm's bytes (float32 read, bfloat16 written) if the norm is a launch."""
    all_tiles = -(-shape.batch // TILE_ROWS) * (shape.out_features // step.columns)
    each = -(-all_tiles // (MULTIPROCESSORS * step.blocks))
    clocks = timeline(step, shape.in_features // STEP_K, each, model).end.max()
    outputs = shape.batch * shape.out_features
    norm_seconds = 0.0 if step.norm else outputs * (FLOAT32_BYTES + ELEMENT_BYTES) / MEMORY_BYTES_A_SECOND
    return clocks / CLOCK_GHZ / 1e6 + norm_seconds * 1e3


def summary(model: Model | None = None) -> pd.DataFrame:
    """The model's main loop of each step, one row each: the bytes that a block copies in one step along k,
    the tensor cores' clocks for them, the bytes per clock, and the share of a long tile's time (128 steps) in
    which the tensor cores are busy."""
    rows = {
        step.version: {
            "idea": step.words,
            "KiB a step": step.copied_bytes / 1024,
            "clocks to multiply": step.multiply_clocks,
            "bytes a clock": step.copied_bytes / step.multiply_clocks,
            "tensor cores busy, %": tensor_cores_busy(timeline(step, 128, 2, model)),
        }
        for step in STEPS
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def together_or_in_turn(steps_of_tile, model: Model | None = None) -> pd.DataFrame:
    """How busy the tensor cores are in percent, by the steps of a tile: if both warpgroups share a tile
    ("together", step 6), and if each has its own ("in turn")."""
    kinds = {"together": (STEPS[-1], 8), "in turn": (PING_PONG, 16)}
    rows = [
        {
            name: tensor_cores_busy(timeline(step, count, tiles, model))
            for name, (step, tiles) in kinds.items()
        }
        for count in steps_of_tile
    ]
    return pd.DataFrame(rows, index=pd.Index(steps_of_tile, name="steps of a tile"))


# ------------------------------------------------------------------------------------------------------------
# What the steps take: measured here, or recorded by `tools/hopper_steps.py`

CHAIN, PRECISION, PRODUCTION = "matmul_groupnorm_leakyrelu_sum", "bf16", "hopper"
VERSIONS = (*BY_VERSION, PRODUCTION)
COUNTED = Shape(1024, 8192, 8192, 256)  # where ncu counted
SIZES = list(Shape._fields)

PREDICTIONS = ROOT / "notebooks" / "07_predictions.csv"
RECORDED = ROOT / "notebooks" / "07_steps.csv"
COUNTERS = ROOT / "notebooks" / "07_step_counters.csv"
L2_BYTES, INSTRUCTIONS = "lts__t_bytes.sum", "smsp__inst_executed.sum"


def table() -> pd.DataFrame:
    """The six steps and the kernel that combines them, a row each: what it adds, its file in `cuda_c/`, and
    that file's number of lines."""
    rows = {row["name"]: row for row in version_table("cpu")}
    return pd.DataFrame(
        {
            name: {
                "adds": rows[name]["summary"],
                "file": rows[name]["gemm"],
                "lines": len((SOURCES / rows[name]["gemm"]).read_text().splitlines()),
            }
            for name in VERSIONS
        }
    ).T


def measure(shape: Shape, seconds: float = 0.3, progress: bool = False) -> pd.DataFrame:
    """The times and errors of the steps, of the production kernel, and of F.linear (the product alone) on the
    GPU here; as `fgn.bench()` returns them, with a column error: relative, against float64."""
    options = {"precision": PRECISION, "versions": VERSIONS}
    times = bench(CHAIN, shape, rivals=(F_LINEAR,), seconds=seconds, progress=progress, **options)
    errors = compare(CHAIN, shape=shape, device="cuda", **options).relative_error
    times = times[(times.part == "chain") | (times.subject == F_LINEAR)]
    return times.assign(error=times.subject.map(errors))


def runs_here() -> bool:
    """Whether the steps run on this machine."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


def results(times: pd.DataFrame | None = None) -> pd.DataFrame:
    """Predicted and measured times of the whole chain, a row for each shape and subject: the six steps, the
    production kernel, and F.linear, which is the product alone.

    times: from `measure()`; None for the recorded ones. Columns: shape (in words), subject, predicted_ms (for
    the steps only), measured_ms, error.
    """
    times = pd.read_csv(RECORDED) if times is None else times
    predicted = pd.read_csv(PREDICTIONS).rename(columns={"version": "subject"})
    frame = times.merge(predicted[[*SIZES, "subject", "predicted_ms"]], "left", [*SIZES, "subject"])
    frame["shape"] = [f"{row.batch} × {row.in_features} → {row.out_features}" for row in frame.itertuples()]
    frame = frame.rename(columns={"median_ms": "measured_ms"})
    return frame[["shape", "subject", "predicted_ms", "measured_ms", "error"]]


def recorded_on() -> str:
    """The GPU, the date and the commit of the recorded times."""
    row = pd.read_csv(RECORDED).iloc[0]
    return f"{row.device}, recorded on {row.date[:10]} at commit {row.commit[:12]}"


def products() -> pd.DataFrame:
    """ncu's counts of the product's launch of each step at `COUNTED`, beside the model: a row for each step
    and the production kernel, whose single launch is the whole chain, like step 6's.

    Columns: tensor cores busy in the model and as counted (%), microseconds, thousand clocks, GHz (their
    quotient), GB through the L2 cache, and million instructions of warps.
    """
    launches = pd.read_csv(COUNTERS)
    launches = launches[launches.kernel.str.startswith("hopper_")].set_index("subject")
    along = COUNTED.in_features // STEP_K
    model = {name: tensor_cores_busy(timeline(step, along, 2)) for name, step in BY_VERSION.items()}
    frame = pd.DataFrame(index=[name for name in VERSIONS if name in launches.index])
    frame["model: busy, %"] = pd.Series(model)
    frame["tensor cores busy, %"] = launches[PIPES["tensor"]]
    frame["µs"] = launches[TIME] / 1e3
    frame["thousand clocks"] = launches[CYCLES] / 1e3
    frame["GHz"] = launches[CYCLES] / launches[TIME]
    frame["GB through L2"] = launches[L2_BYTES] / 1e9
    frame["million instructions"] = launches[INSTRUCTIONS] / 1e6
    return frame


def other_launches() -> pd.DataFrame:
    """The other launches that ncu saw in a call of each step: kernel, µs, and their number."""
    launches = pd.read_csv(COUNTERS)
    others = launches[~launches.kernel.str.startswith("hopper_")]
    frame = others.assign(us=others[TIME] / 1e3).groupby(["subject", "kernel"], sort=False).us
    return frame.agg(launches="size", µs="sum")
