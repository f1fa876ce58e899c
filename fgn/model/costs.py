"""What a kernel costs a multiprocessor, found in recorded profiles: the constants of `fgn.model`.

A block costs its multiprocessor `block + step * steps + instruction * instructions + group * groups` seconds.
ncu's time of a launch, divided by the blocks of the busiest multiprocessor, is such a sum. The profiles of a
kernel with long sums (at the benchmark's own shape) and with short ones (at a narrow shape) separate the
terms. If memory limited a launch, its time says nothing about the multiprocessors; then the model uses the
time in which their busiest part was busy.

Nothing here is fitted to the times of whole chains, against which the model is checked. Kernels without a
profile are calibrated by the recorded times of their product alone or, without these, get the costs of
another kernel; `Cost.origin` tells which.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from cudasim.counting import metrics
from fgn.chains import CHAINS, Shape, problem, problem_of
from fgn.functional import LIBRARY
from fgn.measure import records
from fgn.measure.benchmark import F_LINEAR, RIVALS
from fgn.measure.machine import Machine
from fgn.model.work import KERNEL_TYPES, NORM, ON_TENSOR_CORES, ORDINARY, STANDS_BY, STATISTICS, Work, works
from fgn.profiling import records as profile_records

# Percentages of a resource's peak. From MEMORY_BOUND on, DRAM or L2 decides a launch's time. From SATURATED
# on, warps wait for the busy part of a multiprocessor and not for memory.
MEMORY_BOUND, SATURATED = 75, 90

# The parts of a multiprocessor, by ncu's metric of how busy they are.
PARTS = {
    "issue slots": metrics.ISSUE,
    "float pipe": metrics.PIPES["FMA"],
    "tensor cores": metrics.PIPES["tensor"],
    "special functions": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "L1 and shared memory": metrics.THROUGHPUTS["L1"],
}

# Stalls of a warp that is ready to issue but blocked by another warp.
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = [name for name in metrics.SETS["default"] if name.startswith(STALL.split("{}")[0])]
CONTENTION = [
    STALL.format(reason)
    for reason in ("not_selected", "math_pipe_throttle", "mio_throttle", "lg_throttle", "tex_throttle")
]

# Instructions of GroupNorm for an element, as `fgn.measure.floor()` counts them, and of its statistics alone.
NORM_INSTRUCTIONS = {NORM: 8.0, STATISTICS: 4.0}
# An operator without a profile has the instructions of one with a profile: an addition, or an exponential
# with a reciprocal.
LIKE_OPERATOR = {"multiply_channel": "add_channel", "silu": "mish"}

# mma.sync feeds the tensor cores of a Hopper GPU at half the rate of wgmma (gemm_9_tensor_core.cu).
MMA_SLOWER = 2.0

FROM_PRODUCTS = "recorded times of its product"

# Data that is read twice counts as kept in the L2 cache if the second read takes at most this much more from
# DRAM.
KEPT_AGAIN = 1.1


class Cost(NamedTuple):
    """What a block of a kernel costs.

    seconds: of its multiprocessor, for a block, a step, an instruction, a group (`features()`). l2_bytes: the
    bytes that the L2 cache serves, for the same. alone: the factor by which a block takes longer alone on a
    multiprocessor. busy: how busy the multiprocessor's parts are meanwhile, in percent. origin: the source of
    these numbers.
    """

    seconds: np.ndarray
    l2_bytes: np.ndarray
    alone: float
    busy: dict[str, float]
    origin: str


class Card(NamedTuple):
    """What the model knows of a GPU.

    machine: the GPU itself. l2_bytes_per_second: the most in its ceilings or in a profile. kept_bytes: how
    much data, read once, the L2 cache still has completely at the second read. dirty_bytes: how much written
    data stays in the L2 cache after a launch. instructions: of an operator on one element, by "fgn" and
    "torch". costs: by kernel.
    """

    machine: Machine
    l2_bytes_per_second: float
    kept_bytes: float
    dirty_bytes: float
    instructions: dict[str, dict[str, float]]
    costs: dict[str, Cost]


def instructions_of(operators: Iterable[str], table: Mapping[str, float]) -> float:
    """The number of instructions of some operators for an element."""
    known = NORM_INSTRUCTIONS | table
    return sum(known.get(LIKE_OPERATOR.get(kind, kind), 1.0) for kind in operators)


def features(work: Work, instructions: Mapping[str, Mapping[str, float]]) -> np.ndarray:
    """The factors of a block's costs: 1 for the block itself, its steps, its operators' instructions, its
    groups."""
    of_element = instructions_of(work.operators, instructions[work.maker])
    return np.array([1.0, work.steps, work.elements * of_element, work.groups])


def blocks_of_busiest(work: Work, multiprocessors: int) -> float:
    """The blocks of the multiprocessor with the most blocks."""
    return max(1.0, np.ceil(work.blocks / multiprocessors))


def multiprocessor_seconds(work: Work, cost: Cost, instructions, multiprocessors: int) -> float:
    """The seconds that the busiest multiprocessor needs for its blocks. If two blocks take turns, it is the
    larger of the tensor cores' part of all blocks and half of everything, and at least one block's time."""
    each = features(work, instructions) * cost.seconds
    count = blocks_of_busiest(work, multiprocessors)
    if work.takes_turns:
        return max(count * float(each[1]), count * float(each.sum()) / 2, float(each.sum()))
    return max(cost.alone, count) * float(each.sum())


# ------------------------------------------------------------------------------------------------------------
# From profiles


def _without_negatives(rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Least squares of the relative differences, without negative terms: the best fit over all sets of terms.
    A set with the term for steps is preferred."""
    scaled = rows / targets[:, None]
    size = np.abs(scaled).max(axis=0)
    used = sorted(np.flatnonzero(size), key=lambda term: (1, 0, 2, 3)[term])
    best, least = np.zeros(rows.shape[1]), np.inf
    for count in range(1, len(used) + 1):
        for chosen in map(list, itertools.combinations(used, count)):
            part = scaled[:, chosen] / size[chosen]
            if np.linalg.matrix_rank(part) < count:
                continue
            found = np.linalg.lstsq(part, np.ones(len(targets)))[0]
            residual = np.sum((part @ found - 1) ** 2)
            if (found >= 0).all() and residual < least - 1e-9:
                least, best = residual, np.zeros(rows.shape[1])
                best[chosen] = found / size[chosen]
    return best


def _matched(expected: list[Work], launches: list[dict]) -> list[tuple[Work, dict]]:
    """The recorded launches of a call, each beside its work; none if the profile has other kernels than the
    model. fgn's kernels are found by name, and launches between them are left out."""
    if expected[0].maker == "torch":
        return list(zip(expected, launches, strict=True)) if len(expected) == len(launches) else []
    rest, found = iter(launches), []
    for work in expected:
        own = work.kernel.split(" ")[0]
        launch = next((launch for launch in rest if launch["kernel"] == own), None)
        if launch is None:
            return []
        found.append((work, launch))
    return found


def _profiled(launches: pd.DataFrame, multiprocessors: int):
    """Each recorded launch beside its work in the model."""
    for (name, *sizes, precision, subject), rows in launches.groupby(
        ["chain", *Shape._fields, "precision", "subject"], sort=False
    ):
        if name not in CHAINS or subject not in (*ORDINARY, *ON_TENSOR_CORES, LIBRARY, *RIVALS):
            continue
        chain, shape = problem(CHAINS[name], tuple(map(int, sizes)))
        try:
            expected = works(chain, shape, subject, precision, multiprocessors)
        except ValueError:
            continue
        expected = [work for work in expected if work.kernel != STANDS_BY]
        yield from _matched(expected, rows.to_dict("records"))


def _operator_instructions(pairs: list) -> dict[str, dict[str, float]]:
    """The instructions of each pointwise operator for an element: those of its own kernel, less the overhead
    that all such kernels share. The kernel of v + v, which is one instruction, shows the overhead."""
    counted: dict[str, dict[str, list]] = {"fgn": {}, "torch": {}}
    for work, launch in pairs:
        if work.kernel in ("pointwise_kernel", "torch elementwise, 4 bytes"):
            warps = work.blocks * work.elements / 32
            of_kind = counted[work.maker].setdefault(work.operators[0], [])
            of_kind.append(launch[metrics.INSTRUCTIONS] / warps)
    found = {}
    for maker, kinds in counted.items():
        least = np.median(kinds["double"]) - 1 if "double" in kinds else 0.0
        found[maker] = {kind: max(1.0, float(np.median(values) - least)) for kind, values in kinds.items()}
    return found


def _cost(pairs: list, instructions, multiprocessors: int) -> Cost:
    rows, seconds, l2_bytes, alone, busy = [], [], [], [], []
    for work, launch in pairs:
        on_busiest = blocks_of_busiest(work, multiprocessors)
        # A GPU may lack some of the metrics.
        parts = {name: float(np.nan_to_num(launch[metric])) for name, metric in PARTS.items()}
        took = launch[metrics.TIME] * 1e-9
        if max(launch[metrics.THROUGHPUTS["DRAM"]], launch[metrics.THROUGHPUTS["L2"]]) > MEMORY_BOUND:
            took *= max(parts.values()) / 100
        rows.append(features(work, instructions))
        # Only narrow shapes, where the operators after the sums take longer than the sums.
        seconds.append((2 if work.takes_turns else 1) * took / on_busiest)
        l2_bytes.append(launch[metrics.L2_BYTES] / work.blocks)
        busy.append(parts)
        # A block lives as long as a wave. Alone it would wait too, except for other warps.
        stalled, contended = (np.nansum([launch[name] for name in names]) for names in (STALLS, CONTENTION))
        own = 1 - contended / stalled
        takes_turns = launch[metrics.GRID] <= multiprocessors < work.blocks
        if takes_turns or max(parts.values()) > SATURATED:
            own = 0.0
        alone.append(max(1.0, on_busiest / max(1.0, launch[metrics.WAVES]) * own))
    rows = np.array(rows)
    return Cost(
        _without_negatives(rows, np.array(seconds)),
        _without_negatives(rows, np.array(l2_bytes)),
        min(alone),
        pd.DataFrame(busy).mean().to_dict(),
        f"{len(pairs)} profiled launches",
    )


# ------------------------------------------------------------------------------------------------------------
# What is not profiled


def _from_products(record: records.Record, costs: dict[str, Cost], instructions):
    """Costs of products without a profile, from their recorded times alone, less the launch."""
    times, machine = record.times, record.machine
    times = times[times.part == "linear"]
    times = times[times.subject.isin((*ORDINARY, *ON_TENSOR_CORES, F_LINEAR))]
    pairs: dict[str, list] = {}
    for row in times.itertuples():
        chain, shape = problem_of(row)
        try:
            launches = works(chain, shape, row.subject, row.precision, machine.multiprocessors)
        except ValueError:
            continue
        product = next((work for work in launches if "product" in work.launch), None)
        several = any(work.kernel in (STANDS_BY, "halves_kernel") for work in launches)
        if product is None or product.kernel in costs or several:
            continue
        took = row.median_ms * 1e-3 - machine.launch_seconds
        on_busiest = blocks_of_busiest(product, machine.multiprocessors)
        bare = features(product._replace(operators=(), groups=0), instructions)
        pairs.setdefault(product.kernel, []).append((bare, took / on_busiest))
    for kernel, found in pairs.items():
        rows, seconds = (np.array(column) for column in zip(*found, strict=True))
        origin = f"{len(found)} {FROM_PRODUCTS}"
        costs[kernel] = Cost(_without_negatives(rows, seconds), np.zeros(4), 1.0, {}, origin)
    for kernel in list(costs):
        # The kernel for 32 rows is that for 64 with half the tiles of x.
        costs.setdefault(kernel.replace("few_rows_64", "few_rows_32"), costs[kernel])
    # Other kernels that normalise with a few values in each thread.
    like = costs["group_norm_team_kernel"]._replace(origin="like group_norm_team_kernel")
    for kernel in ("group_norm_team", "group_norm_block"):
        for to in ("", "_to_float16", "_to_bfloat16"):
            costs.setdefault(f"{kernel}{to}_kernel", like)
    costs.setdefault("few_rows_end_kernel", like)
    sizes = ("large_", "short_", "large_short_", "staged_", "tiny_", "long_")
    columns = ("columns_", "short_columns_", "many_columns_")
    for form in ("", *sizes, *columns):
        for name in ("float32", "float16", "bfloat16"):
            costs.setdefault(f"norm_forward_{form}{name}_kernel", like)
    costs.setdefault("norm_forward_wide_kernel", like)
    # Both read a matrix and write it in another form, 16 bytes a thread.
    costs.setdefault("repack_kernel", costs["halves_kernel"]._replace(origin="like halves_kernel"))


def _float16_like_bfloat16(costs: dict[str, Cost], machine: Machine):
    """The costs of float16 kernels without a profile: those of bfloat16, at float16's rate."""
    rates = machine.product_operations_per_second
    for kernel, cost in list(costs.items()):
        half = kernel.replace("bfloat16", "float16").replace("bf16", "fp16")
        if half not in costs:
            slower = np.array([1.0, rates["bf16"] / rates["fp16"], 1.0, 1.0])
            costs[half] = cost._replace(seconds=cost.seconds * slower, origin=f"like {kernel}")


HOPPER_TILES = ("_narrow", "_any", "_any_96", "_any_narrow", "_any_64")


def _narrow_like_wide(costs: dict[str, Cost]):
    """The costs of hopper's kernels with narrower tiles, which `fgn.model.work` counts as parts of the widest
    tile."""
    for name in KERNEL_TYPES.values():
        wide = f"hopper_{name}_kernel"
        if wide in costs:
            for tile in HOPPER_TILES:
                costs[f"hopper_{name}{tile}_kernel"] = costs[wide]._replace(origin=f"like {wide}")


def _tensor_core_like_hopper(costs: dict[str, Cost]):
    """The costs of tensor_core without a profile: its sums at half the rate of hopper's, or from recorded
    times of its product; the rest as in hopper."""
    for precision, name in KERNEL_TYPES.items():
        kernel, hopper = f"tensor_core_{name}_kernel", f"hopper_{name}_kernel"
        known = costs.get(kernel)
        if hopper not in costs or (known and not known.origin.endswith(FROM_PRODUCTS)):
            continue
        # A step has twice the rows, half the bytes of a row and, for split factors, half the columns; the end
        # has twice the rows and twice the warps.
        columns = 0.5 if precision == "ieee" else 1.0
        like = costs[hopper]
        seconds = like.seconds * np.array([1.0, MMA_SLOWER * columns, 0.5, 0.5])
        origin = f"like {hopper}, at half its rate"
        if known:
            seconds[:2], origin = known.seconds[:2], f"like {hopper}, and {known.origin}"
        costs[kernel] = like._replace(seconds=seconds, origin=origin)


# ------------------------------------------------------------------------------------------------------------
# The card


def _kept_bytes(folder, l2_bytes: int) -> float:
    """How many bytes the L2 cache still has at a second read; half of the cache if it was not measured."""
    path = folder / "read_twice.csv"
    if not path.exists():
        return l2_bytes / 2
    rows = pd.read_csv(path)
    kept = rows[metrics.DRAM_READ] <= KEPT_AGAIN * rows["bytes"]
    return float(rows["bytes"][kept].max())


def _dirty_bytes(pairs: list) -> float:
    """The largest number of written bytes that are not yet in memory when a launch ends."""
    left = [work.written - launch[metrics.DRAM_WRITE] for work, launch in pairs]
    return float(max(left))


@functools.cache
def card(name: str = "h200") -> Card:
    """The card whose profiles and times are recorded under that name. FileNotFoundError lists the existing
    ones."""
    profiles, record = profile_records.read(name), records.read(name)
    machine = record.machine
    multiprocessors = machine.multiprocessors
    pairs = list(_profiled(profiles.launches, multiprocessors))
    instructions = _operator_instructions(pairs)
    by_kernel: dict[str, list] = {}
    for work, launch in pairs:
        by_kernel.setdefault(work.kernel, []).append((work, launch))
    costs = {kernel: _cost(found, instructions, multiprocessors) for kernel, found in by_kernel.items()}
    _float16_like_bfloat16(costs, machine)
    _from_products(record, costs, instructions)
    _tensor_core_like_hopper(costs)
    _narrow_like_wide(costs)
    seen = (profiles.launches[metrics.L2_BYTES] / (profiles.launches[metrics.TIME] * 1e-9)).max()
    return Card(
        machine,
        max(machine.l2_bytes_per_second, float(seen)),
        _kept_bytes(records.PROFILES / name, machine.l2_bytes),
        _dirty_bytes(pairs),
        instructions,
        costs,
    )


def costs_table(of: Card) -> pd.DataFrame:
    """The calibrated costs: one row for each kernel, in nanoseconds of a multiprocessor, and their origin."""
    rows = {}
    for kernel, cost in of.costs.items():
        block, step, instruction, group = cost.seconds * 1e9
        busiest = max(cost.busy, key=cost.busy.get) if cost.busy else ""
        rows[kernel] = {
            "block, ns": block,
            "step, ns": step,
            "1000 instructions, ns": 1000 * instruction,
            "group, ns": group,
            "alone": cost.alone,
            "busiest part": busiest,
            "busy, %": cost.busy.get(busiest, np.nan),
            "found in": cost.origin,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("kernel")
