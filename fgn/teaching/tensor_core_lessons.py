"""Functions for notebooks 06 and 07: floats in pieces, truncated sums, few rows, and the history of the
kernels on tensor cores. The Hopper ladder is in `hopper_steps`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from pandas.io.formats.style import Styler
from torch import Tensor

from cudasim.counting.metrics import TIME
from cudasim.live.kernels import Kernel
from fgn.chains import Shape, problem
from fgn.measure.accuracy import TORCH, compare, relative_error
from fgn.measure.benchmark import F_LINEAR, RIVALS, bench, tensor_core_versions
from fgn.measure.floors import floor
from fgn.measure.records import Record
from fgn.native.places import ROOT
from fgn.precision import PRECISIONS
from fgn.problem import WARP
from fgn.profiling import records as profile_records
from fgn.teaching.settings import Setting

QUAD = 4  # lanes that share a row of an mma's sums

# ------------------------------------------------------------------------------------------------------------
# The precisions: what each should take, takes, and gets wrong

NO_TENSOR_CORES = "float32, no tensor cores"


def predicted_times(setting: Setting) -> pd.DataFrame:
    """The minimum time of a chain in each precision, on `setting.machine`, by `fgn.measure.floor()`.

    One row for each: TFLOP/s (of the fastest measured large product; for "ieee" a third of fp16's, because it
    takes three), compute ms, memory ms, predicted ms (the larger). Empty if no such rates are known.
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
    torch's float32 does not. ordinary: also include versions without them.
    """
    record = setting.record
    if record is None or record.precisions is None:
        columns = ["precision", "part", "subject", "median_ms", "relative_error", "tensor_cores"]
        return pd.DataFrame(columns=columns)
    without = record.benchmark[record.benchmark.subject.isin(ordinary)]
    # If a version without tensor cores is the default, both tables have it.
    known = set(record.benchmark.subject) - set(RIVALS)
    others = record.precisions[~record.precisions.subject.isin(known)]
    times = _at(pd.concat([without, others], ignore_index=True), setting)
    errors = _at(pd.concat([record.errors, record.precision_errors], ignore_index=True), setting)
    errors = errors.drop_duplicates(["precision", "version"], keep="last")
    times = _with_errors(times.dropna(subset="median_ms"), errors).reset_index(drop=True)
    return times.assign(tensor_cores=_in_tensor_cores(times) & ~times.subject.isin(known))


def _in_tensor_cores(times: pd.DataFrame) -> pd.Series:
    """The rows that multiply in tensor cores, if all fgn's versions among them do."""
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
    """fgn's fastest version in each precision, beside torch's fastest chain and F.linear alone, in ms; and
    the time of a call that prepares the weight first, if that is known."""
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
    """The number and type of the pieces of a float, and which of their products are added up.

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
        """The pieces of each float of v: the nearest, then the nearest to the remainder, and so on."""
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

    As in `cuda_c/shared/halves.h`, because float16 has only five bits of exponent. v: (rows, k), no row all
    zeros.
    """
    return torch.exp2(14 - torch.floor(torch.log2(v.abs().amax(1, keepdim=True))))


def pieces_table(v: float, kinds=(ONE_HALF, TWO_HALVES, TWO_BFLOAT16, THREE_BFLOAT16)) -> pd.DataFrame:
    """One number in pieces: their values, and the remainder."""
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
    """Where an mma can run: the GPU here if its compute capability is at least 8.0, else the simulator."""
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
    kernel[columns // MMA_COLUMNS, WARP](y, *factors, *sizes)
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
    """The cost of truncation alone: the relative error for each number of k between promotions.

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

    It uses the `sample()` with positive w, so that all sums are always positive.
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
    """The lane of each sum of an mma, from the notebook's kernel `whose`: (16, 8) lane numbers."""
    sums = torch.full((WARP, MMA_ROWS * MMA_COLUMNS // WARP), float("nan"), device=device)
    kernel[1, WARP](sums)
    lanes = torch.full((MMA_ROWS * MMA_COLUMNS,), -1)
    for lane, of_lane in enumerate(sums.cpu().long().tolist()):
        lanes[of_lane] = lane
    return lanes.view(MMA_ROWS, MMA_COLUMNS)


def quad_sums(values: Tensor) -> Tensor:
    """The sum of a row's group as the four lanes of a quad find it: (3, 4), each lane's value before the
    first shuffle, after it and after the second, as in `lane_sums()` of `cuda_c/shared/fragment_norm.h`.

    values: (columns,); a lane has two of every eight.
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
# Launches


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


# ------------------------------------------------------------------------------------------------------------
# Few rows

MOST_FEW_ROWS = 64
FEW_ROWS = "few_rows"


def weight_times(record: Record) -> pd.DataFrame:
    """The recorded times of a few rows, beside the time in which the weight can be copied.

    One row per batch and precision of the chain recorded with few rows: weight MB, "weight ms" (its bytes
    over the copy bandwidth), "few_rows ms", "F.linear ms", and TB/s (the weight's bytes over the time of
    few_rows).
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
    """The bytes of a chain's x, weight, vectors of parameters and y, all of one dtype."""
    chain, (batch, in_features, out_features, _) = problem(chain, shape)
    return {
        "x": batch * in_features * dtype.itemsize,
        "weight": out_features * in_features * dtype.itemsize,
        "vectors": (3 + len(chain.channels)) * out_features * dtype.itemsize,
        "y": batch * out_features * dtype.itemsize,
    }


# ------------------------------------------------------------------------------------------------------------
# The notes of how the kernels on tensor cores came to be

HISTORY = ROOT / "notebooks" / "07_history.csv"
NOT_RECORDED = "not recorded"


def history(rung: str | None = None) -> pd.DataFrame:
    """The notes of `notebooks/07_history.csv`, in their order; of one rung, if it is named.

    They are history: they tell what was tried, and some of that code is gone. Columns: rung, step,
    prediction, time, outcome, and date and commit of the version of this project that first had the note.
    Values that were not noted at the time are "not recorded".
    """
    frame = pd.read_csv(HISTORY)
    words = ["prediction", "time", "outcome"]
    frame[words] = frame[words].fillna(NOT_RECORDED)
    return frame if rung is None else frame[frame.rung == rung].reset_index(drop=True)


def notes(frame: pd.DataFrame) -> Styler:
    """Rows of `history()` as a table for a notebook."""
    words = frame[["rung", "step", "prediction", "time", "outcome"]]
    left = {"text-align": "left", "vertical-align": "top", "padding": "0.2em 1em 0.2em 0"}
    return (
        words.style.hide()
        .set_uuid(f"notes_{frame.index[0]}")
        .set_properties(**left)
        .set_table_styles([{"selector": "th", "props": list(left.items())}])
    )
