"""What notebook 06 predicts and runs with: floats in pieces, sums that are cut off, a ring of slots, and the
notes of the steps from one float32 multiply-add after the other to a chain in one Hopper kernel.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from pandas.io.formats.style import Styler
from torch import Tensor

from fgn.chains import Shape, problem
from fgn.live.kernels import Kernel
from fgn.measure.accuracy import TORCH, compare, relative_error
from fgn.measure.benchmark import F_LINEAR, RIVALS, bench, tensor_core_versions
from fgn.measure.floors import floor
from fgn.measure.records import Record
from fgn.native.library import ROOT
from fgn.precision import PRECISIONS
from fgn.profiling import records as profile_records
from fgn.simulator.metrics import CYCLES, GRID, PIPES, TIME
from fgn.teaching.lessons import LANES, Setting, constants, tiles

QUAD = 4  # lanes that share a row of an mma's sums

# ------------------------------------------------------------------------------------------------------------
# The precisions: what each should take, takes, and gets wrong

NO_TENSOR_CORES = "float32, no tensor cores"


def predicted_times(setting: Setting) -> pd.DataFrame:
    """What a chain takes at the least in each precision, on `setting.machine`, by `fgn.measure.floor()`.

    One row for each: TFLOP/s (the fastest large product that was seen; for "ieee" a third of fp16's, because
    it takes three), compute ms, memory ms, predicted ms (the larger). Empty where no such rates are known.
    """
    machine = setting.machine
    rows = {}
    for name in (NO_TENSOR_CORES, *PRECISIONS) if machine and machine.has_tensor_cores else ():
        precision = None if name == NO_TENSOR_CORES else name
        least = floor(setting.chain, setting.machine_shape, machine, precision)
        rows[name] = {
            "TFLOP/s": least.operations / least.compute_ms / 1e9,
            "compute ms": least.compute_ms,
            "memory ms": least.memory_ms,
            "predicted ms": least.ms,
        }
    columns = ["TFLOP/s", "compute ms", "memory ms", "predicted ms"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("precision")


def _at(rows: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    """The rows of the setting's chain at its machine's shape."""
    wanted = pd.Series({"chain": setting.chain.name, **setting.machine_shape._asdict()})
    return rows[(rows[wanted.index] == wanted).all(axis=1)]


def _with_errors(times: pd.DataFrame, errors: pd.DataFrame) -> pd.DataFrame:
    """Times with the relative error of their version, or of torch.nn for torch's subjects."""
    known = errors.set_index(["precision", "version"]).relative_error
    names = times.subject.where(~times.subject.isin(RIVALS), TORCH)
    return times.assign(relative_error=[known.get(key) for key in zip(times.precision, names, strict=True)])


def recorded_precisions(setting: Setting, ordinary=("fused", "one_kernel")) -> pd.DataFrame:
    """The recorded times and errors of the setting's chain in every precision; a row for each subject.

    Columns as in `fgn.bench()`, and two more. relative_error: for torch's subjects that of torch.nn in the
    same precision (torch.compile's is not measured on its own). tensor_cores: whether it multiplies in them;
    torch's float32 does not. ordinary: the versions without them that are there, too.
    """
    record = setting.record
    if record is None or record.precisions is None:
        columns = ["precision", "part", "subject", "median_ms", "relative_error", "tensor_cores"]
        return pd.DataFrame(columns=columns)
    without = record.benchmark[record.benchmark.subject.isin(ordinary)]
    # Where a version without tensor cores is the default, both tables have it.
    known = set(record.benchmark.subject) - set(RIVALS)
    others = record.precisions[~record.precisions.subject.isin(known)]
    times = _at(pd.concat([without, others], ignore_index=True), setting)
    errors = _at(pd.concat([record.errors, record.precision_errors], ignore_index=True), setting)
    errors = errors.drop_duplicates(["precision", "version"], keep="last")
    times = _with_errors(times.dropna(subset="median_ms"), errors).reset_index(drop=True)
    return times.assign(tensor_cores=_in_tensor_cores(times) & ~times.subject.isin(known))


def _in_tensor_cores(times: pd.DataFrame) -> pd.Series:
    """Which rows multiply in tensor cores, if all of our versions among them do."""
    return ~times.subject.isin(RIVALS) | (times.precision != "ieee")


def errors_here(setting: Setting) -> pd.DataFrame:
    """`fgn.compare()` of the versions on tensor cores in every precision, run here; one table."""
    frames = {
        precision: compare(
            setting.chain,
            shape=setting.shape,
            device=setting.device,
            precision=precision,
            versions=_running(setting, precision),
        )
        for precision in PRECISIONS
    }
    return pd.concat(frames, names=["precision"])


def _running(setting: Setting, precision: str) -> list[str]:
    from fgn.ladder import versions

    table = versions(setting.chain, setting.shape, setting.device, precision)
    return list(table.name[table.supported & table.name.isin(tensor_core_versions(setting.device))])


def precisions_here(setting: Setting, seconds: float = 0.2) -> pd.DataFrame:
    """The same as `recorded_precisions()`, measured on the GPU here; no rows on the simulator, whose times
    say nothing about a GPU's."""
    if not setting.on_gpu:
        return recorded_precisions(setting).iloc[:0]
    errors = errors_here(setting).reset_index()
    frames = [
        bench(
            setting.chain,
            setting.shape,
            precision=precision,
            versions=_running(setting, precision),
            device=setting.device,
            seconds=seconds,
            progress=False,
        )
        for precision in PRECISIONS
    ]
    times = pd.concat(frames, ignore_index=True).dropna(subset="median_ms")
    return _with_errors(times, errors).assign(tensor_cores=_in_tensor_cores(times))


def best_of(times: pd.DataFrame, part: str = "chain") -> pd.DataFrame:
    """Our fastest version of each precision, beside torch's fastest chain and F.linear alone, in ms; and the
    time of a call that prepares the weight first, where that is known."""
    ours, theirs = {}, {}
    whole = times[times.part == part]
    for precision, rows in whole.groupby("precision", sort=False):
        median = rows.set_index("subject").median_ms
        own = median[~median.index.isin(RIVALS)]
        ours[precision] = (own.idxmin(), own.min()) if len(own) else (None, np.nan)
        theirs[precision] = median[median.index.isin(RIVALS)].min()
    linear = times[(times.part == "linear") & (times.subject == F_LINEAR)].set_index("precision").median_ms
    frame = pd.DataFrame.from_dict(ours, orient="index", columns=["fastest", "ms"]).rename_axis("precision")
    frame["torch's fastest, ms"] = pd.Series(theirs, dtype=float)
    frame["F.linear alone, ms"] = linear
    frame["F.linear ÷ ours"] = frame["F.linear alone, ms"] / frame.ms
    cold = times[times.part == "cold"].set_index(["precision", "subject"]).median_ms
    if len(cold):
        frame["cold, ms"] = [cold.get(key) for key in frame.fastest.items()]
    return frame


# ------------------------------------------------------------------------------------------------------------
# Floats in pieces


class Pieces:
    """How many numbers of which type stand for a float, and which of their products are added up.

    Products are (piece of x, piece of w), the smallest first; those left out are below the last piece's bits.
    """

    def __init__(self, count: int, dtype: torch.dtype):
        self.count, self.dtype = count, dtype
        pairs = [(i, j) for i in range(count) for j in range(count) if i + j < count]
        self.products = sorted(pairs, key=lambda pair: (-sum(pair), pair))

    def __str__(self):
        name = {torch.float16: "fp16", torch.bfloat16: "bf16"}[self.dtype]
        return f"{self.count} × {name}, {len(self.products)} product{'s' if len(self.products) > 1 else ''}"

    def split(self, v: Tensor) -> list[Tensor]:
        """The pieces of each float of v: the nearest, then the nearest to what is left, and so on."""
        found = []
        for _ in range(self.count):
            found.append(v.to(self.dtype))
            v = v - found[-1].float()
        return found


ONE_HALF = Pieces(1, torch.float16)
TWO_HALVES = Pieces(2, torch.float16)
TWO_BFLOAT16 = Pieces(2, torch.bfloat16)
THREE_BFLOAT16 = Pieces(3, torch.bfloat16)


def row_scales(v: Tensor) -> Tensor:
    """The power of two that brings the largest magnitude of each row of v into [2^14, 2^15): (rows, 1).

    As `cuda_c/shared/halves.h` does it, for float16 has but five bits of exponent. v: (rows, k), no row all
    zeros.
    """
    return torch.exp2(14 - torch.floor(torch.log2(v.abs().amax(1, keepdim=True))))


def pieces_table(v: float, kinds=(ONE_HALF, TWO_HALVES, TWO_BFLOAT16, THREE_BFLOAT16)) -> pd.DataFrame:
    """One number in pieces: their values, and what they leave out of it."""
    one = torch.tensor([v])
    rows = {}
    for kind in kinds:
        found = [piece.double().item() for piece in kind.split(one)]
        left_out = one.double().item() - sum(found)
        rows[str(kind)] = {
            "pieces": "  ".join(f"{piece:+.9g}" for piece in found),
            "left out": left_out,
            "of the number": abs(left_out / one.double().item()),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


# ------------------------------------------------------------------------------------------------------------
# What tensor cores cut off

MMA_ROWS, MMA_COLUMNS, MMA_K = 16, 8, 16


def tensor_core_device(setting: Setting) -> torch.device:
    """Where an mma can run: the GPU here if it is of compute capability 8.0 or more, else the simulator."""
    if setting.on_gpu and torch.cuda.get_device_capability(setting.device) >= (8, 0):
        return setting.device
    return torch.device("cpu")


def sample(device, k: int = 8192, columns: int = 64, seed: int = 0) -> tuple[Tensor, Tensor]:
    """x (16, k), uniform in [0, 1), and w (columns, k), uniform around 0 as nn.Linear makes it."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(MMA_ROWS, k, generator=generator)
    w = (2 * torch.rand(columns, k, generator=generator) - 1) * k**-0.5
    return x.to(device), w.to(device)


def promoted_product(kernel: Kernel, x: Tensor, w: Tensor, kind: Pieces, every: int) -> Tensor:
    """x w^T by the notebook's kernel `promoted`: from pieces, in tensor cores, whose sums are added to
    ordinary ones every `every` k.

    x: (16, k), w: (columns, k), float32; k is a multiple of 16 and columns of 8. Returns (16, columns).
    """
    scales = [row_scales(v) if kind.dtype == torch.float16 else torch.ones_like(v[:, :1]) for v in (x, w)]
    split = [kind.split(v * scale) for v, scale in zip((x, w), scales, strict=True)]
    # The kernel reads pairs of 16-bit numbers, and the factors of each product one after the other.
    factors = [
        torch.stack([pieces[pair[side]] for pair in kind.products]).view(torch.int32)
        for side, pieces in enumerate(split)
    ]
    columns, k = w.shape
    y = torch.full((MMA_ROWS, columns), float("nan"), device=x.device)
    is_bfloat16 = int(kind.dtype == torch.bfloat16)
    sizes = columns, k, len(kind.products), every, is_bfloat16
    kernel[columns // MMA_COLUMNS, LANES](y, *factors, *sizes)
    return y / scales[0] / scales[1].T


def promoted_errors(
    kernel: Kernel, device, every, kinds=(TWO_HALVES, TWO_BFLOAT16, THREE_BFLOAT16), k: int = 8192
) -> pd.DataFrame:
    """The relative errors of `promoted_product()`: a column for each kind, a row for each of `every`."""
    x, w = sample(device, k)
    exact = F.linear(x.double(), w.double())
    columns = {
        str(kind): [
            relative_error(promoted_product(kernel, x, w, kind, k_between), exact) for k_between in every
        ]
        for kind in kinds
    }
    return pd.DataFrame(columns, index=pd.Index(every, name="k between promotions"))


def float32_error(device, k: int = 8192) -> float:
    """The relative error of torch's own float32 product of the same `sample()`."""
    x, w = sample(device, k)
    return relative_error(F.linear(x, w), F.linear(x.double(), w.double()))


def predicted_errors(every, k: int = 8192) -> pd.DataFrame:
    """What cutting off should cost by itself: the relative error for each number of k between promotions.

    cut off: every 16 k the tensor cores add to a sum and drop what is below its last bit, always towards
    zero, half a unit on average, where a float's unit is about 2^-23.5 of it. While a sum of random signs
    grows like the square root of its length, it is 2/3 of its last value on average. So n additions lose
    about n 2^-24.5 2/3, roughly n 2^-25. rounded: ordinary additions go up as often as down: the square root
    of their number, times 2^-25. together: both, which know nothing of each other.
    """
    frame = pd.DataFrame(index=pd.Index(every, name="k between promotions"))
    frame["cut off"] = [k_between / MMA_K * 2.0**-25 for k_between in every]
    frame["rounded"] = [(k / k_between) ** 0.5 * 2.0**-25 for k_between in every]
    frame["together"] = (frame["cut off"] ** 2 + frame.rounded**2) ** 0.5
    return frame


def signed_errors(kernel: Kernel, device, every, kind: Pieces = TWO_HALVES, k: int = 8192) -> pd.DataFrame:
    """The error of each output over the typical output; a column for each of `every`.

    Of the `sample()` with the signs of w left out, so that all sums are positive from beginning to end.
    """
    x, w = sample(device, k)
    w = w.abs()
    exact = F.linear(x.double(), w.double())
    typical = exact.square().mean().sqrt()
    columns = {}
    for k_between in every:
        y = promoted_product(kernel, x, w, kind, k_between).double()
        columns[k_between] = ((y - exact) / typical).flatten().tolist()
    return pd.DataFrame(columns)


# ------------------------------------------------------------------------------------------------------------
# Where an mma leaves its sums


def owners(kernel: Kernel, device) -> Tensor:
    """Which lane has which sum of an mma, asked of the notebook's kernel `whose`: (16, 8) lane numbers."""
    sums = torch.full((LANES, MMA_ROWS * MMA_COLUMNS // LANES), float("nan"), device=device)
    kernel[1, LANES](sums)
    lanes = torch.full((MMA_ROWS * MMA_COLUMNS,), -1)
    for lane, of_lane in enumerate(sums.cpu().long().tolist()):
        lanes[of_lane] = lane
    return lanes.view(MMA_ROWS, MMA_COLUMNS)


def quad_sums(values: Tensor) -> Tensor:
    """The sum of a row's group as the four lanes of a quad find it: (3, 4), what each lane has before the
    first shuffle, after it and after the second, as `lane_sums()` in `cuda_c/shared/quad_norm.h`.

    values: (columns,), of which a lane has two of every eight.
    """
    v = values.view(-1, QUAD, 2).sum((0, 2))
    found = [v]
    lanes = torch.arange(QUAD)
    for distance in (1, 2):
        v = v + v[lanes ^ distance]
        found.append(v)
    return torch.stack(found)


def shared_bytes(lines: pd.DataFrame, outputs: int) -> pd.Series:
    """The bytes of shared memory loaded and stored for each output, by the file that asks for them; `lines`
    are from `fgn.simulator.count_lines()`."""
    asked = lines["smsp__sass_data_bytes_mem_shared_op_ld.sum"]
    asked = asked + lines["smsp__sass_data_bytes_mem_shared_op_st.sum"]
    files = lines.file.str.rsplit("/", n=1).str[-1]
    asked = asked.groupby(files).sum() / outputs
    return asked[asked > 0]


# ------------------------------------------------------------------------------------------------------------
# The ring of slots

# A tensor core of compute capability 9.0 multiplies and adds 512 pairs of 16-bit factors in a clock, half as
# many of tf32; a multiprocessor has four. (NVIDIA's white paper on the H100; notebook 06 checks it.)
HOPPER_MULTIPLY_ADDS_A_CLOCK = {2: 2048, 4: 1024}

# What the L2 cache hands to a multiprocessor in a clock (cuda_c/hopper/tile.h).
L2_BYTES_A_CLOCK = 32


def step_clocks(precision: str = "bf16") -> int:
    """Clocks of the tensor cores for one step of a tile of both teams (`cuda_c/hopper/tile.h`)."""
    c = constants("hopper/sizes.h")
    factor = 2 if precision == "ieee" else PRECISIONS[precision].dtype.itemsize
    multiply_adds = c.COMMON_ROWS * c.TILE_COLUMNS * c.STEP_BYTES // factor
    products = 3 if precision == "ieee" else 1
    return products * multiply_adds // HOPPER_MULTIPLY_ADDS_A_CLOCK[factor]


def step_bytes(pair: bool = True, own: bool = False) -> int:
    """Bytes that a block asks of the L2 cache for one step: in pairs that share w or alone, for tiles of both
    teams or of one."""
    c = constants("hopper/sizes.h")
    rows = c.WARPGROUP_ROWS if own else c.COMMON_ROWS
    return c.STEP_BYTES * (rows + c.TILE_COLUMNS // (c.PAIR if pair else 1))


def slots(own: bool = False) -> int:
    """How many slots the ring has, for tiles of both teams or of one (`cuda_c/hopper/tile.h`)."""
    c = constants("hopper/sizes.h")
    rows = c.WARPGROUP_ROWS if own else c.COMMON_ROWS
    return c.RING_BYTES // (c.STEP_BYTES * (rows + c.TILE_COLUMNS))


def ring(
    slots: int,
    steps: int,
    tiles: int = 1,
    *,
    copy_clocks: float,
    latency_clocks: float,
    multiply_clocks: float,
    epilogue_clocks: float = 0.0,
    own: bool = False,
) -> pd.DataFrame:
    """A model of one block of the Hopper kernel: who does what, from which clock to which.

    The producer begins to fill a slot when it has been read; copies follow one another, and each lands
    `latency_clocks` later. A tile is either of both teams, which take turns at the tensor cores and need
    `multiply_clocks` together for a step, or (own) of one, which needs as many, and then the next tile is the
    other's. At the end of a tile its teams are busy with their epilogue, while the producer goes on.

    One row per event: who ("TMA", "team 0", ...), what ("copy", "multiply", "epilogue"), tile,
    step, slot, begin, end.
    """
    rows = []
    teams = constants("hopper/sizes.h").TEAMS
    released = [0.0] * (slots + tiles * steps)  # when the slot of each step became free
    engine = tensor_cores = 0.0
    free = [0.0] * teams
    for number in range(tiles * steps):
        tile, step, slot = number // steps, number % steps, number % slots
        begin = max(engine, released[number])
        engine = begin + copy_clocks
        full = engine + latency_clocks
        rows.append(("TMA", "copy", tile, step, slot, begin, full))
        readers = [tile % teams] if own else range(teams)
        for reader in readers:
            name = f"team {reader}"
            begin = max(full, free[reader], tensor_cores)
            end = tensor_cores = free[reader] = begin + multiply_clocks / len(readers)
            rows.append((name, "multiply", tile, step, slot, begin, end))
            if step == steps - 1 and epilogue_clocks:
                free[reader] += epilogue_clocks
                rows.append((name, "epilogue", tile, step, slot, end, free[reader]))
        released[number + slots] = tensor_cores
    return pd.DataFrame(rows, columns=["who", "what", "tile", "step", "slot", "begin", "end"])


def tensor_core_share(timeline: pd.DataFrame) -> float:
    """The share of a `ring()`'s time in which the tensor cores work, in percent."""
    work = timeline[timeline.what == "multiply"]
    return 100 * float((work.end - work.begin).sum() / timeline.end.max())


def recorded_launches(setting: Setting, precision: str = "bf16") -> pd.DataFrame:
    """The recorded launches of the setting's chain at its machine's shape, by versions on tensor cores and
    torch.

    One row per launch: subject, part ("the whole chain", "product" or "after it"), kernel, us (ncu's time).
    """
    columns = ["subject", "part", "kernel", "us"]
    recorded = profile_records.recorded()
    if not recorded:
        return pd.DataFrame(columns=columns)
    rows = _at(profile_records.read(recorded[0]).launches, setting)
    rows = rows[rows.precision == precision]
    alone = rows.groupby("subject").launch.transform("size") == 1
    part = rows.operator.eq("product").map({True: "product", False: "after it"})
    rows = rows.assign(part=part.mask(alone, "the whole chain"), us=rows[TIME] / 1e3)
    return rows[columns].reset_index(drop=True)


# The launches of the Hopper kernel that were recorded when all tiles were of both teams, as
# `fgn.profile()` returns them, with the columns that are used here.
COMMON_TILES = ROOT / "notebooks" / "06_common_tiles.csv"

WHERE_COLUMNS = (
    *("chain", "shape", "precision", "tiles", "steps", "main loop", "elapsed", "rest", "rest of a tile"),
    "tensor cores busy, %",
)


def common_tiles() -> pd.DataFrame:
    """The launches in `notebooks/06_common_tiles.csv`."""
    return pd.read_csv(COMMON_TILES)


def where_time_goes(launches: pd.DataFrame) -> pd.DataFrame:
    """The clocks of launches of the Hopper kernel: at the tensor cores' rate, and the rest.

    One row per launch: tiles (of 128 x 256 outputs, of the block that has most), steps (of a tile), main loop
    (clocks of those tiles at the tensor cores' rate), elapsed (clocks), rest (their difference), rest of a
    tile, and "tensor cores busy, %" as ncu saw it.
    """
    rows = []
    c = constants("hopper/sizes.h")
    for row in launches[launches.kernel.astype(str).str.startswith("hopper_")].to_dict("records"):
        batch, in_features, out_features = (int(row[name]) for name in Shape._fields[:3])
        factor = 2 if row["precision"] == "ieee" else PRECISIONS[row["precision"]].dtype.itemsize
        all_tiles = tiles(batch, c.COMMON_ROWS) * tiles(out_features, c.TILE_COLUMNS)
        of_block = tiles(all_tiles, int(row[GRID]))
        steps = tiles(in_features * factor, c.STEP_BYTES)
        main_loop = of_block * steps * step_clocks(row["precision"])
        elapsed = int(row[CYCLES])
        where = row["chain"], f"{batch} × {in_features} → {out_features}", row["precision"]
        counts = of_block, steps, main_loop, elapsed, elapsed - main_loop, (elapsed - main_loop) // of_block
        rows.append((*where, *counts, row[PIPES["tensor"]]))
    return pd.DataFrame(rows, columns=WHERE_COLUMNS)


def epilogue_clocks(frame: pd.DataFrame, main_loop_rate: float = 0.97) -> pd.DataFrame:
    """What a tile costs after its main loop, and what a launch costs once, from `where_time_goes()`.

    The rest of a launch is taken to be (once) + tiles (epilogue), which two shapes of the same chain and
    precision tell apart. main_loop_rate: how much of the tensor cores' rate the main loop reaches.
    """
    rows = {}
    for key, group in frame.groupby(["chain", "precision"], sort=False):
        group = group.drop_duplicates("tiles")
        if len(group) < 2:
            continue
        rest = group.elapsed - group["main loop"] / main_loop_rate
        epilogue, once = np.polyfit(group.tiles, rest, 1)
        rows[key] = {"epilogue": epilogue, "once": once}
    index = pd.MultiIndex.from_tuples(rows, names=["chain", "precision"])
    return pd.DataFrame(rows.values(), index, ["epilogue", "once"]).round().astype(int)


def busy(frame: pd.DataFrame, epilogues: pd.DataFrame, model: dict[str, float]) -> pd.DataFrame:
    """How busy the tensor cores are in percent: in a `ring()` with those epilogues, and as ncu saw it.

    frame: from `where_time_goes()`, of which the rows of precisions with one product for each step are taken;
    epilogues: from `epilogue_clocks()`; model: the arguments of `ring()`.
    """
    rows = []
    for row in frame[frame.precision != "ieee"].to_dict("records"):
        key = row["chain"], row["precision"]
        if key not in epilogues.index:
            continue
        epilogue = float(epilogues.epilogue[key])
        timeline = ring(slots(), row["steps"], row["tiles"], **model, epilogue_clocks=epilogue)
        names = ("chain", "precision", "shape", "steps")
        in_model = {"model, %": tensor_core_share(timeline), "ncu, %": row["tensor cores busy, %"]}
        rows.append({name: row[name] for name in names} | in_model)
    return pd.DataFrame(rows)


def own_or_common(steps, epilogue_clocks: float, latency_clocks: float) -> pd.DataFrame:
    """How busy the tensor cores are in percent, in the model, by the steps of a tile: with tiles of both
    teams, and with tiles of one ("common", "own"). bf16, with pairs of blocks that share w."""
    c = constants("hopper/sizes.h")
    common = {"copy_clocks": step_bytes() / L2_BYTES_A_CLOCK, "multiply_clocks": step_clocks()}
    own = {
        "copy_clocks": step_bytes(own=True) / L2_BYTES_A_CLOCK,
        "multiply_clocks": step_clocks() * c.WARPGROUP_ROWS / c.COMMON_ROWS,
        "own": True,
    }
    both = {"latency_clocks": latency_clocks, "epilogue_clocks": epilogue_clocks}
    rows = [
        {
            "common": tensor_core_share(ring(slots(), count, 8, **common, **both)),
            "own": tensor_core_share(ring(slots(own=True), count, 16, **own, **both)),
        }
        for count in steps
    ]
    return pd.DataFrame(rows, index=pd.Index(steps, name="steps of a tile"))


# ------------------------------------------------------------------------------------------------------------
# Few rows

MOST_FEW_ROWS = 64
FEW_ROWS = "few_rows"


def weight_times(record: Record) -> pd.DataFrame:
    """The recorded times of a few rows, beside the time in which the weight can be copied.

    One row per batch and precision of the chain that is recorded with few rows: weight MB, "weight ms" (its
    bytes over the copy bandwidth), "few_rows ms", "F.linear ms", and TB/s (the weight's bytes over the time
    of few_rows).
    """
    whole = record.precisions.dropna(subset="median_ms")
    whole = whole[whole.batch <= MOST_FEW_ROWS]
    rows = []
    keys = ["precision", *Shape._fields]
    for (precision, batch, in_features, out_features, _), group in whole.groupby(keys, sort=False):
        median = group.set_index(["part", "subject"]).median_ms
        if ("chain", FEW_ROWS) not in median.index:
            continue
        weight = in_features * out_features * PRECISIONS[precision].dtype.itemsize
        took = median["chain", FEW_ROWS]
        rows.append(
            {
                "precision": precision,
                "batch": batch,
                "weight MB": weight / 1e6,
                "weight ms": weight / record.machine.dram_bytes_per_second * 1e3,
                "few_rows ms": took,
                "F.linear ms": median.get(("linear", F_LINEAR)),
                "TB/s": weight / took / 1e9,
            }
        )
    return pd.DataFrame(rows)


def bytes_once(chain, shape, dtype: torch.dtype) -> dict[str, int]:
    """The bytes of a chain's x, weight, vectors of parameters (float32, whatever the precision) and y."""
    chain, (batch, in_features, out_features, _) = problem(chain, shape)
    return {
        "x": batch * in_features * dtype.itemsize,
        "weight": out_features * in_features * dtype.itemsize,
        "vectors": (3 + len(chain.channels)) * out_features * torch.float32.itemsize,
        "y": batch * out_features * dtype.itemsize,
    }


# ------------------------------------------------------------------------------------------------------------
# The notes of the steps

NOTES = ROOT / "notebooks" / "06_steps.csv"
NOT_RECORDED = "not recorded"


def steps(rung: str | None = None) -> pd.DataFrame:
    """The notes of the steps, `notebooks/06_steps.csv`, in their order; of one rung, if it is named.

    Columns: rung, step, prediction, time, outcome, and ms, the time as a number where it can be compared with
    the step before. What nobody wrote down at the time is "not recorded".
    """
    frame = pd.read_csv(NOTES)
    words = ["prediction", "time", "outcome"]
    frame[words] = frame[words].fillna(NOT_RECORDED)
    return frame if rung is None else frame[frame.rung == rung].reset_index(drop=True)


def notes(frame: pd.DataFrame) -> Styler:
    """Rows of `steps()` as a table to be read in a notebook."""
    words = frame[["rung", "step", "prediction", "time", "outcome"]]
    left = {"text-align": "left", "vertical-align": "top"}
    return (
        words.style.hide()
        .set_uuid(f"notes_{frame.index[0]}")
        .set_properties(**left)
        .set_table_styles([{"selector": "th", "props": list(left.items())}])
    )
