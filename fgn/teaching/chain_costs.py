"""The costs of chains: the bytes of their launches, their floors, fusion's savings, beside recorded times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fgn.chains import CHAINS, Chain, Shape, problem
from fgn.ladder import versions
from fgn.measure.benchmark import COMPILED, EAGER, F_LINEAR
from fgn.measure.floors import floor, least_work
from fgn.measure.machine import Machine
from fgn.measure.records import Record
from fgn.model.work import FUSED_ORDINARY, works
from fgn.plans import Launch, plan
from fgn.problem import Problem
from fgn.teaching.settings import Setting

# The assumed cost of one more kernel, however little it does: the GPU drains and fills again.
LAUNCH_SECONDS = 2e-6


def launches(chain: str | Chain, shape, version: str, device="cpu") -> pd.DataFrame:
    """The launches of one call, in order, with the bytes that each has to read from memory and write there.

    One row per launch: launch (what it computes), read, written. The product reads x and the weight once, as
    if nothing had to be read twice. Versions that split float32 into halves do so in a launch before the
    product; the fallback launches after it move nothing.
    """
    chain, shape = problem(chain, shape, device)
    table = versions(chain, shape, device).set_index("name")
    if version not in table.index or not table.supported[version]:
        raise ValueError(f"version: expected one that runs this chain, got {version!r}")
    found = works(chain, shape, version, device=device)
    rows = [(work.launch, work.read, work.written) for work in found]
    return pd.DataFrame(rows, columns=["launch", "read", "written"])


def planned_product(problem: Problem, version: str) -> Launch:
    """The planned launch of a version's matrix product: tile_rows, tile_columns, step_k, threads,
    thread_rows, thread_columns and more, as in `fgn.plans.Launch`.

    problem: the chain and its sizes. ValueError if the version does not run it.
    """
    return plan(problem.chain, problem.shape, version, problem.precision).product


def rest_ms(
    chain: str | Chain, shape, version: str, machine: Machine, launch_seconds: float = LAUNCH_SECONDS
) -> float:
    """The predicted cost of a version's chain beyond its matrix product, in ms.

    Every launch after the first costs its bytes at the machine's copy bandwidth, and a launch.
    """
    after_product = launches(chain, shape, version).iloc[1:]
    moved = float((after_product.read + after_product.written).sum())
    return (moved / machine.dram_bytes_per_second + len(after_product) * launch_seconds) * 1e3


def rest_of(times: pd.DataFrame, machine: Machine, subject: str = EAGER) -> pd.DataFrame:
    """The cost of a chain beyond F.linear: measured, and predicted from the bytes of separate kernels.

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
    """The cost of the recorded chain beyond the same version's matrix product, in ms, by version."""
    rows = setting.recorded()
    chain, product = (
        rows[rows.part == part].set_index("subject").median_ms.dropna() for part in ("chain", "linear")
    )
    names = [name for name in chain.index if name in product.index]
    frame = pd.DataFrame({"chain ms": chain[names], "product ms": product[names]})
    frame["beyond it, ms"] = frame["chain ms"] - frame["product ms"]
    return frame


def chains_table() -> pd.DataFrame:
    """The named chains: their operators, and the groups of their norm at the benchmark's sizes."""

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


def _recorded_chains(record: Record) -> Iterator[tuple[str, Shape, pd.Series]]:
    """Each recorded problem, and the median times of its chain in ms, by subject."""
    whole = record.benchmark[record.benchmark.part == "chain"].dropna(subset="median_ms")
    for (chain, *sizes), times in whole.groupby(["chain", *Shape._fields], sort=False):
        yield chain, Shape(*map(int, sizes)), times.set_index("subject").median_ms


def savings(record: Record, before: str = "tiled", after: str = "fused") -> pd.DataFrame:
    """A version's savings against another, predicted and measured, for every recorded problem that both run.

    One row per chain and shape: chain, the sizes, predicted_ms, measured_ms, predicted_percent and
    measured_percent (of the version before), saved_tb_per_s (saved bytes over saved time, without launches),
    in_l2 (whether the intermediate fits in the L2 cache).
    """
    machine = record.machine
    rows = []
    for chain, shape, times in _recorded_chains(record):
        if before not in times.index or after not in times.index:
            continue
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
    """The time of the fastest fused version, and how many times as long the others take; a row for each
    recorded problem that one of them runs."""
    rows = []
    for chain, shape, times in _recorded_chains(record):
        fused = times[times.index.isin(versions)]
        if fused.empty:
            continue
        row = {"chain": chain, "shape": f"{shape.batch} × {shape.in_features} → {shape.out_features}"}
        row |= {"best": fused.idxmin(), "ms": fused.min()}
        others = [name for name in ("tiled", EAGER, COMPILED) if name in times.index]
        rows.append(row | {f"{name} ÷ best": times[name] / fused.min() for name in others})
    return pd.DataFrame(rows)
