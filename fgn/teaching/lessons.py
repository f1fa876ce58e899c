"""What the notebooks predict with: counts, held against what a GPU can do, and recorded results beside them.

The unit of a matrix product is a *step*: one multiply-add of a warp, 32 products. A notebook counts what a
rung asks of a multiprocessor for each step; `predict()` makes cycles and times of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from fgn.chains import CHAINS, Chain, Shape, default_shape, find, problem
from fgn.functional import group_norm, linear
from fgn.ladder import default_device, versions
from fgn.measure.accuracy import relative_error
from fgn.measure.benchmark import COMPILED, EAGER, F_LINEAR, measure, summarise
from fgn.measure.floors import floor, least_work
from fgn.measure.machine import MOST_LANES, Machine, machine_here
from fgn.measure.records import Record, read, recorded
from fgn.model.work import FUSED_ORDINARY, tiles, works
from fgn.plans import Launch, plan
from fgn.problem import WARP, Problem, find_problem
from fgn.reference import ieee_float32
from fgn.teaching.guesses import guess as guess
from fgn.teaching.guesses import score as score

LANES = WARP
F_GROUP_NORM = "F.group_norm"

# The most that one multiprocessor does in a cycle, on every GPU since compute capability 7.5.
INSTRUCTIONS_A_CYCLE = 4  # of a warp each; one for each of its four schedulers
SHARED_WAVEFRONTS_A_CYCLE = 1  # of up to 128 bytes, one word from each of the 32 banks
L1_LINES_A_CYCLE = 1  # of 128 bytes, looked up in the L1 cache

# What one more kernel costs, however little it does: the GPU runs empty and fills again. An assumption.
LAUNCH_SECONDS = 2e-6


def recorded_results() -> Record | None:
    """The results that are drawn beside the reader's own: the H200's, or None while none are recorded."""
    return read("h200") if "h200" in recorded() else None


@dataclass(frozen=True)
class Setting:
    """Where a notebook runs and whose times it predicts.

    device, problem: what runs here. machine, predicted: whose times are predicted, for which problem; that is
    the GPU here, else the recorded one, else None. record: the recorded results, or None.
    """

    device: torch.device
    problem: Problem
    machine: Machine | None
    predicted: Problem
    record: Record | None

    @property
    def chain(self) -> Chain:
        return self.problem.chain

    @property
    def shape(self) -> Shape:
        """The sizes that run here."""
        return self.problem.shape

    @property
    def machine_shape(self) -> Shape:
        """The sizes whose times are predicted."""
        return self.predicted.shape

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def here(self) -> str:
        """What this machine is called beside recorded ones."""
        return self.machine.name if self.on_gpu else "the simulator"

    @property
    def steps(self) -> float:
        """Multiply-adds of a warp in the matrix product at `machine_shape`."""
        return self.predicted.steps

    def inputs(self):
        """Random (x, parameters) at `shape`, as `fgn.bench()` makes them."""
        return self.problem.inputs(self.device)

    def recorded(self) -> pd.DataFrame:
        """The recorded times of this chain at `machine_shape`; no rows when there are none."""
        if self.record is None:
            return pd.DataFrame(columns=["part", "subject", "median_ms"])
        return self.predicted.rows(self.record.benchmark)

    def recorded_errors(self) -> pd.DataFrame:
        """The recorded errors of this chain at `machine_shape`, as `fgn.compare()` returns them."""
        rows = self.predicted.rows(self.record.errors).set_index("version")
        return rows.drop(columns=["chain", *Shape._fields])

    def measured(self, times: pd.DataFrame, subject: str, part: str = "linear") -> dict[str, float]:
        """The median times in ms that a prediction is held against, by where they come from.

        `times` is from `fgn.bench()` here; it counts when it is a GPU's. The recorded time is always there,
        once there is one.
        """
        found = {}
        sources = {f"{self.here}, here": times} if self.on_gpu else {}
        if self.record is not None:
            sources[f"{self.record.environment['device']}, recorded"] = self.recorded()
        for name, rows in sources.items():
            median = rows.median_ms[(rows.part == part) & (rows.subject == subject)].dropna()
            if len(median):
                found[name] = float(median.iloc[0])
        return found

    def beside(self, times: pd.DataFrame) -> pd.DataFrame:
        """`times` from here and the recorded ones of the same subjects; the column `machine` says which."""
        here = times.assign(machine=f"here: {self.here}")
        rows = self.recorded()
        rows = rows[rows.subject.isin(times.subject)]
        if rows.empty:
            return here
        return pd.concat(
            [here, rows.assign(machine=f"recorded: {self.record.environment['device']}")], ignore_index=True
        )

    def machines(self) -> dict[str, Machine]:
        """The machines whose times `beside()` tells apart, by the names that it gives them. The simulator is
        not among them: no ceiling bounds its times."""
        found = {f"here: {self.here}": self.machine} if self.on_gpu else {}
        if self.record is not None:
            found[f"recorded: {self.record.environment['device']}"] = self.record.machine
        return found

    def __str__(self):
        predicted = "no GPU here and none recorded: predictions stop at counts and cycles"
        if self.machine is not None:
            origin = "this GPU" if self.on_gpu else "recorded"
            predicted = f"{self.machine.name} ({origin}), {self.predicted.sizes()}"
        return (
            f"chain       {self.chain.name}\n"
            f"runs on     {self.here}, {self.problem.sizes()}\n"
            f"predicts    {predicted}"
        )


def setting(chain: str | Chain) -> Setting:
    """The setting for a chain on this machine. On a GPU this measures its ceilings, once."""
    device, record, described = default_device(), recorded_results(), find(chain)
    machine = record.machine if record else None
    if device.type == "cuda":
        machine = machine_here()
    predicted = Problem(described, default_shape(described, "cuda"))
    return Setting(device, find_problem(described, device=device), machine, predicted, record)


# ------------------------------------------------------------------------------------------------------------
# Predictions for a matrix product


def predict(
    setting: Setting, *, instructions: float, l1_lines: float = 0.0, shared_wavefronts: float = 0.0
) -> pd.DataFrame:
    """What a rung's matrix product takes at the least, by each of its limits.

    For each step, the multiply-add of one warp, it is given: instructions, the multiply-add itself among
    them; l1_lines, 128-byte lines looked up in the L1 cache; shared_wavefronts, passes over shared memory.

    One row for each limit: "for each step"; "most in a cycle" (of one multiprocessor); "cycles", for each
    step; "ms" of the whole product, if `setting.machine` is known, and then also a row for the bytes that
    must cross the memory bus at least once. Everything can overlap, so the prediction is the largest.
    """
    machine = setting.machine
    lanes = machine.lanes if machine else MOST_LANES
    rows = {
        "multiply-adds": (1.0, lanes / LANES),
        "instructions": (instructions, INSTRUCTIONS_A_CYCLE),
        "shared wavefronts": (shared_wavefronts, SHARED_WAVEFRONTS_A_CYCLE),
        "L1 lines": (l1_lines, L1_LINES_A_CYCLE),
    }
    if machine is not None and machine.clock_hz is not None:
        least = floor(setting.chain, setting.machine_shape, machine)
        cycles_of_all = machine.multiprocessors * machine.clock_hz
        rows["memory bytes"] = (
            least.bytes / setting.steps,
            machine.dram_bytes_per_second / cycles_of_all,
        )
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["for each step", "most in a cycle"])
    frame["cycles"] = frame["for each step"] / frame["most in a cycle"]
    frame["ms"] = frame.cycles * setting.steps / cycles_of_all * 1e3 if "memory bytes" in rows else np.nan
    return frame.rename_axis("limit")


def explain(prediction: pd.DataFrame, measured: dict[str, float]) -> pd.DataFrame:
    """How much of each measured time every limit accounts for, in percent.

    Near 100: that limit is what the rung hits. All far below: something that was not counted, or waiting.
    Above 100: more was counted than is done.
    """
    frame = prediction[["ms"]].rename(columns={"ms": "predicted ms"})
    for name, ms in measured.items():
        frame[f"% of {ms:.3g} ms ({name})"] = 100 * prediction.ms / ms
    return frame


def bandwidth(setting: Setting, bytes_for_each_step: float, measured: dict[str, float]) -> pd.DataFrame:
    """The bytes per second that a rung moves somewhere, beside the copy bandwidth of memory, in TB/s."""
    moved = bytes_for_each_step * setting.steps
    rates = {name: moved / (ms * 1e-3) for name, ms in measured.items()}
    if setting.machine is not None:
        rates["copying in memory, for comparison"] = setting.machine.dram_bytes_per_second
    return pd.DataFrame({"TB/s": pd.Series(rates, dtype=float) / 1e12})


def k_tile_cycles(
    setting: Setting,
    prediction: pd.DataFrame,
    measured: dict[str, float],
    *,
    tile: int,
    tile_k: int,
    blocks: int,
) -> pd.DataFrame:
    """The cycles that a multiprocessor spends on one k tile of its tiles: multiplying, and in all.

    tile: a block computes tile x tile outputs, tile_k products of each in a k tile. blocks: how many of them
    a multiprocessor holds at once. The rest of the cycles it waits.
    """
    machine = setting.machine
    if machine is None or machine.clock_hz is None:
        return pd.DataFrame(columns=["multiplying", "in all", "waiting, % of all"])
    batch, in_features, out_features, _ = setting.machine_shape
    rounds = tiles(tiles(batch, tile) * tiles(out_features, tile), blocks * machine.multiprocessors)
    busy = prediction.cycles.max() * blocks * tile * tile * tile_k / LANES
    rows = {}
    for name, ms in measured.items():
        cycles = ms * 1e-3 * machine.clock_hz / (rounds * tiles(in_features, tile_k))
        rows[name] = {"multiplying": busy, "in all": cycles, "waiting, % of all": 100 * (1 - busy / cycles)}
    return pd.DataFrame.from_dict(
        rows, orient="index", columns=["multiplying", "in all", "waiting, % of all"]
    )


def check_linear(setting: Setting, version: str) -> pd.DataFrame:
    """The relative errors against float64 of a version's matrix product and of F.linear."""
    x, parameters = setting.inputs()
    weight, bias = parameters["weight"], parameters["bias"]
    with torch.no_grad(), ieee_float32():
        exact = F.linear(x.double(), weight.double(), bias.double())
        results = {version: linear(x, weight, bias, version), F_LINEAR: F.linear(x, weight, bias)}
    errors = {name: relative_error(y, exact) for name, y in results.items()}
    return pd.DataFrame({"relative error": errors})


# ------------------------------------------------------------------------------------------------------------
# Predictions for a chain


def launches(chain: str | Chain, shape, version: str, device="cpu") -> pd.DataFrame:
    """The launches of one call, in order, with the bytes that each has to read from memory and write there.

    One row per launch: launch (what it computes), read, written. The product reads x and the weight once, as
    if nothing had to be read twice. Versions that split float32 into halves do so in a launch before the
    product; what stands by after it moves nothing.
    """
    chain, shape = problem(chain, shape, device)
    table = versions(chain, shape, device).set_index("name")
    if version not in table.index or not table.supported[version]:
        raise ValueError(f"version: expected one that runs this chain, got {version!r}")
    found = works(chain, shape, version, device=device)
    rows = [(work.launch, work.read, work.written) for work in found]
    return pd.DataFrame(rows, columns=["launch", "read", "written"])


def planned_product(problem: Problem, version: str) -> Launch:
    """The launch with a version's matrix product, as the version plans it: tile_rows, tile_columns, step_k,
    threads, thread_rows, thread_columns and more, as in `fgn.plans.Launch`.

    problem: in which chain and at which sizes. ValueError where the version does not run it.
    """
    return plan(problem.chain, problem.shape, version, problem.precision).product


def rest_ms(
    chain: str | Chain, shape, version: str, machine: Machine, launch_seconds: float = LAUNCH_SECONDS
) -> float:
    """What a version's chain is predicted to cost beyond its matrix product, in ms.

    Every launch after the first costs its bytes at the machine's copy bandwidth, and a launch.
    """
    after_product = launches(chain, shape, version).iloc[1:]
    moved = float((after_product.read + after_product.written).sum())
    return (moved / machine.dram_bytes_per_second + len(after_product) * launch_seconds) * 1e3


def rest_of(times: pd.DataFrame, machine: Machine, subject: str = EAGER) -> pd.DataFrame:
    """What a chain costs beyond F.linear: measured, and predicted from the bytes of separate kernels.

    times: from `fgn.bench()`, with F.linear and `subject` among the rivals. One row per problem.
    """
    rows = []
    for (chain, *sizes), group in times.groupby(["chain", *Shape._fields], sort=False):
        shape = Shape(*map(int, sizes))
        median = group.set_index(["part", "subject"]).median_ms
        moved = launches(chain, shape, "tiled").iloc[1:][["read", "written"]].to_numpy().sum()
        rows.append(
            {
                "chain": chain,
                **shape._asdict(),
                "F.linear ms": median["linear", F_LINEAR],
                f"{subject} ms": median["chain", subject],
                "rest ms": median["chain", subject] - median["linear", F_LINEAR],
                "rest by bytes, ms": moved / machine.dram_bytes_per_second * 1e3,
            }
        )
    return pd.DataFrame(rows)


def beyond_product(setting: Setting) -> pd.DataFrame:
    """What the recorded chain costs beyond the same version's matrix product, in ms, by version."""
    rows = setting.recorded()
    chain, product = (
        rows[rows.part == part].set_index("subject").median_ms.dropna() for part in ("chain", "linear")
    )
    names = [name for name in chain.index if name in product.index]
    frame = pd.DataFrame({"chain ms": chain[names], "product ms": product[names]})
    frame["beyond it, ms"] = frame["chain ms"] - frame["product ms"]
    return frame


def chains_table() -> pd.DataFrame:
    """The chains that have a name: their operators, and the groups of their norm at the benchmark's sizes."""

    def words(steps) -> str:
        return ", ".join(step.kind for step in steps) or "–"

    rows = [(words(chain.before), chain.groups, words(chain.after)) for chain in CHAINS.values()]
    return pd.DataFrame(rows, columns=["before", "groups", "after"], index=list(CHAINS))


def floors(chain: str | Chain, shapes, machine: Machine) -> pd.DataFrame:
    """The floor of a chain at several shapes: what must move, what must be computed, and which decides."""
    rows = []
    for sizes in shapes:
        described, shape = problem(chain, sizes)
        least = floor(described, shape, machine)
        rows.append(
            {
                **shape._asdict(),
                "MB": least.bytes / 1e6,
                "Gop": least.operations / 1e9,
                "op/byte": least.operations / least.bytes,
                "memory ms": least.memory_ms,
                "compute ms": least.compute_ms,
                "floor ms": least.ms,
                "decides": "memory" if least.memory_ms > least.compute_ms else "arithmetic",
            }
        )
    return pd.DataFrame(rows)


def roofline_points(times: pd.DataFrame, subjects: list[str]) -> pd.DataFrame:
    """The rates that `fgn.bench()` measured, as `chain_roofline()` draws them: one row per time."""
    whole = times[times.subject.isin(subjects) & (times.part == "chain") & times.median_ms.notna()]
    rows = []
    for row in whole.itertuples():
        shape = (row.batch, row.in_features, row.out_features, row.groups)
        least = least_work(row.chain, shape)
        rows.append(
            {
                "label": f"{row.batch} × {row.in_features} → {row.out_features}",
                "intensity": least.operations / least.bytes,
                "rate": least.operations / (row.median_ms * 1e-3),
                "subject": row.subject,
            }
        )
    return pd.DataFrame(rows)


def fusion_curves(machine: Machine, in_features, before: str = "tiled", after: str = "fused") -> pd.DataFrame:
    """The share of the time, in percent, that fusion is predicted to save, by in_features, for every chain.

    The product is assumed to run at its floor; batch and out_features are large and hardly matter.
    """
    shape = Shape(16384, 0, 2048, 64)
    columns = {}
    for name in CHAINS:
        shares = []
        for size in in_features:
            sizes = shape._replace(in_features=int(size))
            rest, rest_after = (rest_ms(name, sizes, version, machine) for version in (before, after))
            product = max(
                2
                * sizes.batch
                * sizes.in_features
                * sizes.out_features
                / machine.product_operations_per_second["ieee"],
                float(launches(name, sizes, before).iloc[0][["read", "written"]].sum())
                / machine.dram_bytes_per_second,
            )
            shares.append(100 * (rest - rest_after) / (product * 1e3 + rest))
        columns[name] = shares
    return pd.DataFrame(columns, index=pd.Index(in_features, name="in_features"))


def savings(record: Record, before: str = "tiled", after: str = "fused") -> pd.DataFrame:
    """What a version saves against another, predicted and measured, for every recorded problem that both run.

    One row per chain and shape: chain, the sizes, predicted_ms, measured_ms, predicted_percent and
    measured_percent (of the version before), saved_tb_per_s (the bytes that are saved over the time that is,
    launches left out), in_l2 (whether the intermediate fits in the L2 cache).
    """
    machine = record.machine
    rows = []
    whole = record.benchmark[record.benchmark.part == "chain"].dropna(subset="median_ms")
    for (chain, *sizes), times in whole.groupby(["chain", *Shape._fields], sort=False):
        times = times.set_index("subject").median_ms
        if before not in times.index or after not in times.index:
            continue
        shape = Shape(*map(int, sizes))
        predicted, only_bytes = (
            rest_ms(chain, shape, before, machine, launch) - rest_ms(chain, shape, after, machine, launch)
            for launch in (LAUNCH_SECONDS, 0.0)
        )
        measured = times[before] - times[after]
        bytes_saved = only_bytes * 1e-3 * machine.dram_bytes_per_second
        in_transit = (measured - (predicted - only_bytes)) * 1e-3
        rows.append(
            {
                "chain": chain,
                **shape._asdict(),
                "predicted_ms": predicted,
                "measured_ms": measured,
                "predicted_percent": 100 * predicted / times[before],
                "measured_percent": 100 * measured / times[before],
                "saved_tb_per_s": bytes_saved / in_transit / 1e12 if in_transit > 0 else np.nan,
                "in_l2": 4 * shape.batch * shape.out_features <= machine.l2_bytes,
            }
        )
    return pd.DataFrame(rows)


def bought(record: Record, versions=FUSED_ORDINARY) -> pd.DataFrame:
    """What the fastest of the fused versions takes, and how many times as long the others take; a row for
    each recorded problem that one of them runs."""
    rows = []
    whole = record.benchmark[record.benchmark.part == "chain"].dropna(subset="median_ms")
    for (chain, *sizes), times in whole.groupby(["chain", *Shape._fields], sort=False):
        times = times.set_index("subject").median_ms
        fused = times[times.index.isin(versions)]
        if fused.empty:
            continue
        batch, in_features, out_features, _ = sizes
        row = {"chain": chain, "shape": f"{batch} × {in_features} → {out_features}"}
        row |= {"best": fused.idxmin(), "ms": fused.min()}
        others = [name for name in ("tiled", EAGER, COMPILED) if name in times.index]
        rows.append(row | {f"{name} ÷ best": times[name] / fused.min() for name in others})
    return pd.DataFrame(rows)


# ------------------------------------------------------------------------------------------------------------
# Times that `fgn.bench()` does not take


def time_group_norm(setting: Setting, names: list[str], seconds: float = 0.2) -> pd.DataFrame:
    """The times of some versions' GroupNorm alone and of torch's, on the chain's intermediate.

    One row each, as `fgn.bench()` has them, with the part "norm".
    """
    batch, _, out_features, groups = setting.shape
    x = torch.randn(batch, out_features, generator=torch.Generator().manual_seed(0)).to(setting.device)
    calls = {name: lambda name=name: group_norm(x, groups, version=name) for name in names}
    calls[F_GROUP_NORM] = lambda: F.group_norm(x, groups)
    with torch.no_grad():
        times = measure(calls, setting.device, seconds)
    rows = [
        {
            "chain": setting.chain.name,
            **setting.shape._asdict(),
            "device": setting.device.type,
            "part": "norm",
            "subject": name,
            **summarise(values),
            "note": "simulator" if name in names and not setting.on_gpu else "",
        }
        for name, values in times.items()
    ]
    return pd.DataFrame(rows)


def time_calls(
    setting: Setting, calls: dict[str, Callable[[], object]], seconds: float = 0.2
) -> pd.DataFrame:
    """The times of any calls, taken in turns, as `fgn.bench()` takes and states them; a row each."""
    with torch.no_grad():
        times = measure(calls, setting.device, seconds)
    frame = pd.DataFrame({name: summarise(values) for name, values in times.items()}).T
    return frame.assign(machine=setting.here)


# ------------------------------------------------------------------------------------------------------------
# What one request of a warp costs, from the addresses of its lanes

SECTOR_BYTES = 32
BANKS, BANK_BYTES = 32, 4


def sectors_of(addresses) -> int:
    """The sectors of global memory that lanes touch, each reading 4 bytes at its address (in bytes)."""
    return len(np.unique(np.asarray(addresses) // SECTOR_BYTES))


def words_in_banks(addresses) -> np.ndarray:
    """How many words lanes want of each bank of shared memory; a word that several want counts once."""
    words = np.unique(np.asarray(addresses) // BANK_BYTES)
    return np.bincount(words % BANKS, minlength=BANKS)


def wavefronts_of(addresses) -> int:
    """The passes over shared memory that lanes need, each reading 4 bytes: the most words of one bank."""
    return int(words_in_banks(addresses).max())


def each_request(counts: pd.DataFrame) -> pd.Series:
    """What a request costs on average, over all launches of `fgn.count()`: sectors of global memory and
    wavefronts of shared memory, for loads and stores. Only what there were requests of."""
    total = counts.sum(numeric_only=True)
    costs = {}
    for operation, name in (("ld", "load"), ("st", "store")):
        in_global = f"pipe_lsu_mem_global_op_{operation}.sum"
        pairs = {
            f"sectors of a global {name}": (
                f"l1tex__t_sectors_{in_global}",
                f"l1tex__t_requests_{in_global}",
            ),
            f"wavefronts of a shared {name}": (
                f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{operation}.sum",
                f"smsp__inst_executed_op_shared_{operation}.sum",
            ),
        }
        costs |= {
            name: total[cost] / total[requests] for name, (cost, requests) in pairs.items() if total[requests]
        }
    return pd.Series(costs)


def bytes_asked(counts: pd.DataFrame) -> dict[str, int]:
    """The bytes of all sectors that the launches of `fgn.count()` asked of global memory."""
    total = counts.sum(numeric_only=True)
    name = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
    return {
        "read": SECTOR_BYTES * int(total[name.format("ld")]),
        "written": SECTOR_BYTES * int(total[name.format("st")]),
    }
