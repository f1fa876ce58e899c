"""A model of fusion: the time of every version of a chain, what binds it, and what fusing each operator buys.

A call consists of launches (`fgn.model.work`). A launch takes as long as the slowest of these, because they
overlap:

    DRAM               its bytes over the measured copy bandwidth
    L2                 the bytes that the L2 cache serves over the most that was seen of it
    multiprocessors    what a block costs (`fgn.model.costs`), times the blocks of the busiest multiprocessor

and a launch itself takes `launch_seconds`. Bytes of an intermediate do not count if the L2 cache still has
them. The measured calls begin with a cache full of written data, which has to go to memory first, and end
with some of their own data in the cache.

    predict("gemm_groupnorm_hardtanh", (1024, 8192, 8192), "fused")    a row for each launch
    versions("gemm_groupnorm_hardtanh", (1024, 8192, 8192))            a row for each version
    operators("gemm_groupnorm_hardtanh", (1024, 8192, 8192))           what fusing each operator buys
    errors(check())                                                    against all recorded times
    fusion_map("gemm_groupnorm_hardtanh", "bf16")                      over batch and width

It is known to fail for few rows in torch (a library has many kernels for them, and the model knows an
average), for calls of a few microseconds (instructions that are not yet in the caches), and for the largest
products (power sets the clock).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from fgn.chains import Chain, Shape, find, problem, problem_of
from fgn.measure import records
from fgn.measure.benchmark import COMPILED, EAGER, F_LINEAR
from fgn.model.costs import FROM_PRODUCTS, Card, blocks_of_busiest, card, features, multiprocessor_seconds
from fgn.model.work import FUSED_ORDINARY, NORM, ON_TENSOR_CORES, STANDS_BY, SUBJECTS, Work, works
from fgn.precision import PRECISIONS, check_precision
from fgn.profiling import records as profile_records

DRAM, L2, LAUNCH, EPILOGUE, WAITING = "DRAM", "L2", "launch", "epilogue", "waiting"
# A multiprocessor whose parts are all less busy than this, in percent, mostly waits for memory.
BUSY = 50

# As a subject: the best of fgn's versions with a launch or two. In float32 it does not use tensor cores, like
# torch's product; otherwise the comparison would be of arithmetic, not of fusion.
BEST = "fgn, best fused"
FUSED = {name: ON_TENSOR_CORES for name in PRECISIONS} | {"ieee": FUSED_ORDINARY}


class Times(NamedTuple):
    """The seconds that each resource needs for a launch, and the seconds of the launch itself. of_block: the
    seconds that one block costs its multiprocessor."""

    dram: float
    l2: float
    multiprocessors: float
    launch: float
    of_block: float = 0.0

    @property
    def seconds(self) -> float:
        return max(self.dram, self.l2, self.multiprocessors) + self.launch


def _card(of: Card | str | None) -> Card:
    return of if isinstance(of, Card) else card(of or "h200")


def times_of(work: Work, of: Card, first: bool = False, last: bool = False) -> Times:
    """The seconds that each resource needs for one launch. first, last: whether the launch is the first or
    the last of its call."""
    if work.kernel == STANDS_BY:
        return Times(0.0, 0.0, 0.0, of.machine.launch_seconds)
    in_memory = work.read - (work.kept if work.kept <= of.kept_bytes else 0) + work.written
    if work.weight > of.kept_bytes:
        in_memory += (work.passes - 1) * work.weight
    if first:
        in_memory += min(of.dirty_bytes, in_memory)
    if last:
        in_memory -= min(of.dirty_bytes, work.written)
    dram = in_memory / of.machine.dram_bytes_per_second
    if work.kernel not in of.costs:
        raise ValueError(f"of: what {work.kernel} costs is not known for {of.machine.name}; profile it there")
    cost = of.costs[work.kernel]
    of_block = features(work, of.instructions)
    return Times(
        dram,
        float(of_block @ cost.l2_bytes) * work.blocks / of.l2_bytes_per_second,
        multiprocessor_seconds(work, cost, of.instructions, of.machine.multiprocessors),
        of.machine.launch_seconds,
        float(of_block @ cost.seconds),
    )


def binds(work: Work, times: Times, of: Card) -> str:
    """What decides a launch's time: DRAM, L2, a part of the multiprocessors, their work after the sums
    (epilogue), waiting for memory, or the launch itself."""
    busiest = max(times[:3])
    if times.launch >= busiest:
        return LAUNCH
    if busiest == times.dram:
        return DRAM
    if busiest == times.l2:
        return L2
    cost = of.costs[work.kernel]
    _, of_steps, of_instructions, _ = features(work, of.instructions) * cost.seconds
    if "product" in work.launch and work.operators and 2 * of_steps < times.of_block:
        return EPILOGUE
    if not work.steps and 2 * of_instructions > times.of_block:
        return "issue slots"
    if not cost.busy or cost.alone > blocks_of_busiest(work, of.machine.multiprocessors):
        return WAITING
    part = max(cost.busy, key=cost.busy.get)
    return part if cost.busy[part] >= BUSY else WAITING


def _without(work: Work, operator: str) -> Work:
    kinds = tuple(kind for kind in work.operators if kind != operator)
    return work._replace(operators=kinds, groups=work.groups if NORM in kinds else 0)


def _launches(chain: Chain, shape: Shape, subject: str, precision: str, of: Card, without: str = ""):
    """The launches of a call with their times; `without`: an operator to leave out of the launch that it is
    fused into."""
    check_precision(precision)
    found = works(chain, shape, subject, precision, of.machine.multiprocessors)
    last = max(index for index, work in enumerate(found) if work.kernel != STANDS_BY)
    return [
        (work, times_of(_without(work, without), of, index == 0, index == last))
        for index, work in enumerate(found)
    ]


def _seconds(launches) -> float:
    return sum(times.seconds for _, times in launches)


def predict(
    chain: str | Chain,
    shape=None,
    subject: str = "fused",
    precision: str = "ieee",
    of: Card | str | None = None,
) -> pd.DataFrame:
    """The time of each launch of one call.

    chain, shape: as in `fgn.compare()`, by default the benchmark's shape. subject: a version or one of
    `fgn.measure.RIVALS`. precision: a key of `PRECISIONS`. of: a card, or the name of a folder in profiles/.

    Columns: launch, kernel; DRAM, L2, multiprocessors (the time of each alone, in µs), launch itself, µs (the
    largest of the three, and the launch), binds. ValueError if the version does not run the chain at this
    shape.
    """
    of = _card(of)
    chain, shape = problem(chain, shape, "cuda")
    rows = [
        {
            "launch": work.launch,
            "kernel": work.kernel,
            "DRAM, µs": times.dram * 1e6,
            "L2, µs": times.l2 * 1e6,
            "multiprocessors, µs": times.multiprocessors * 1e6,
            "launch itself, µs": times.launch * 1e6,
            "µs": times.seconds * 1e6,
            "binds": binds(work, times, of),
        }
        for work, times in _launches(chain, shape, subject, precision, of)
    ]
    return pd.DataFrame(rows)


def milliseconds(chain: Chain, shape: Shape, subject: str, precision: str, of: Card) -> float:
    """The time of one call in ms; for `BEST`, that of its fastest version. NaN if the subject does not run
    the chain."""
    if subject == BEST:
        found = [milliseconds(chain, shape, name, precision, of) for name in FUSED[precision]]
        return float(pd.Series(found).min())
    try:
        launches = _launches(chain, shape, subject, precision, of)
    except ValueError:
        return np.nan
    return 1e3 * _seconds(launches)


def versions(
    chain: str | Chain, shape=None, precision: str = "ieee", of: Card | str | None = None
) -> pd.DataFrame:
    """The predicted time of each version and of torch: subject, launches, ms, binds (the longest launch)."""
    of = _card(of)
    check_precision(precision)
    chain, shape = problem(chain, shape, "cuda")
    rows = {}
    for subject in SUBJECTS:
        try:
            launches = _launches(chain, shape, subject, precision, of)
        except ValueError:
            continue
        longest = max(launches, key=lambda launch: launch[1].seconds)
        rows[subject] = {
            "launches": len(launches),
            "ms": 1e3 * _seconds(launches),
            "binds": binds(*longest, of),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("subject")


# ------------------------------------------------------------------------------------------------------------
# What fusing buys


def best_version(
    chain: str | Chain, shape=None, precision: str = "ieee", of: Card | str | None = None
) -> str:
    """The version meant by `BEST`: the one predicted to be fastest."""
    of = _card(of)
    chain, shape = problem(chain, shape, "cuda")
    found = {name: milliseconds(chain, shape, name, precision, of) for name in FUSED[precision]}
    return pd.Series(found).idxmin()


def operators(
    chain: str | Chain,
    shape=None,
    precision: str = "ieee",
    unfused: str = EAGER,
    of: Card | str | None = None,
) -> pd.DataFrame:
    """What fusing each operator buys: the time of its own launches in `unfused`, less its part of the fused
    launch.

    One row for each operator of the chain, in order: operator; own launches (their number); alone, µs (their
    time); its bytes, µs (the time of their bytes at the copy bandwidth); fused, µs (the time that it adds to
    its fused launch in `best_version()`); buys, µs; % of the unfused chain; binds (its longest launch).
    """
    of = _card(of)
    chain, shape = problem(chain, shape, "cuda")
    version = best_version(chain, shape, precision, of)
    fused = _seconds(_launches(chain, shape, version, precision, of))
    separate = _launches(chain, shape, unfused, precision, of)
    norm_launches = len(separate) - 1 - len(chain.before) - len(chain.after)
    if norm_launches < 1:
        raise ValueError(f"unfused: expected a subject with a launch for each operator, got {unfused!r}")
    total = _seconds(separate)
    kinds = [step.kind for step in chain.before] + [NORM] + [step.kind for step in chain.after]
    rows, index = [], 1
    for kind in kinds:
        count = norm_launches if kind == NORM else 1
        own = separate[index : index + count]
        index += count
        alone = _seconds(own)
        added = fused - _seconds(_launches(chain, shape, version, precision, of, without=kind))
        added /= kinds.count(kind)
        moved = sum(work.read + work.written for work, _ in own)
        rows.append(
            {
                "operator": kind,
                "own launches": count,
                "alone, µs": alone * 1e6,
                "its bytes, µs": moved / of.machine.dram_bytes_per_second * 1e6,
                "fused, µs": added * 1e6,
                "buys, µs": (alone - added) * 1e6,
                "% of the unfused chain": 100 * (alone - added) / total,
                "binds": binds(*max(own, key=lambda launch: launch[1].seconds), of),
            }
        )
    frame = pd.DataFrame(rows)
    frame.attrs |= {"version": version, "unfused": unfused}
    return frame


def by_precision(
    chain: str | Chain, shape=None, unfused: str = COMPILED, of: Card | str | None = None
) -> pd.DataFrame:
    """The predicted times in µs, for each precision.

    Columns: product (the bare F.linear), unfused, beyond the product (of unfused), fused (by `BEST`), version
    (which that is), beyond it (fused, less the product), unfused ÷ fused.
    """
    of = _card(of)
    chain, shape = problem(chain, shape, "cuda")
    rows = {}
    for precision in PRECISIONS:
        product, slow, fast = (
            1e3 * milliseconds(chain, shape, subject, precision, of) for subject in (F_LINEAR, unfused, BEST)
        )
        rows[precision] = {
            "product": product,
            "unfused": slow,
            "beyond the product": slow - product,
            "fused": fast,
            "version": best_version(chain, shape, precision, of),
            "beyond it": fast - product,
            "unfused ÷ fused": slow / fast,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("precision")


# The axes of the map.
BATCHES = tuple(2**k for k in range(0, 17))
WIDTHS = tuple(2**k for k in range(7, 15))
# Fusing buys nothing if the time falls by less than this share.
NOTHING = 0.05


CHANNELS_OF_GROUP = 32


def fusion_map(
    chain: str | Chain,
    precision: str = "ieee",
    unfused: str = EAGER,
    fused: str = BEST,
    batches=BATCHES,
    widths=WIDTHS,
    channels: int = CHANNELS_OF_GROUP,
    of: Card | str | None = None,
) -> pd.DataFrame:
    """What fusing buys: the predicted time of `unfused` over that of `fused`, by batch (rows) and by width
    (columns), which is in_features and out_features.

    unfused, fused: a version, one of `fgn.measure.RIVALS`, or `BEST`. channels: in each group of the norm.
    NaN if one of the two does not run.
    """
    of = _card(of)
    chain = find(chain)
    check_precision(precision)
    ratios = {}
    for width in widths:
        groups = max(1, width // channels)
        problems = [problem(chain, (batch, width, width, groups), "cuda") for batch in batches]
        slow, fast = (
            np.array([milliseconds(*each, subject, precision, of) for each in problems])
            for subject in (unfused, fused)
        )
        ratios[width] = slow / fast
    frame = pd.DataFrame(ratios, index=pd.Index(batches, name="batch")).rename_axis(columns="width")
    frame.attrs |= {"chain": chain.name, "precision": precision, "unfused": unfused, "fused": fused}
    frame.attrs |= {"channels": channels, "machine": of.machine.name}
    return frame


# ------------------------------------------------------------------------------------------------------------
# Against what is recorded


def compared(times: pd.DataFrame, of: Card, profiled=frozenset()) -> pd.DataFrame:
    """Times of whole chains and of F.linear, as `fgn.bench()` returns them, beside the predicted ones.

    profiled: the (batch, in_features, out_features) from which costs come. Columns: chain, the sizes,
    precision, subject, measured_ms, predicted_ms, error (predicted over measured, less 1), binds (the longest
    launch), held_out (no cost comes from this shape: it is not profiled, and no kernel's cost comes from a
    recorded product there). Unknown subjects are left out.
    """

    def from_product(work: Work) -> bool:
        return work.kernel in of.costs and of.costs[work.kernel].origin.endswith(FROM_PRODUCTS)

    times = times[times.median_ms.notna() & ((times.part == "chain") | (times.subject == F_LINEAR))]
    rows = []
    for row in times.itertuples():
        chain, shape = problem_of(row)
        try:
            launches = _launches(chain, shape, row.subject, row.precision, of)
        except ValueError:
            continue
        predicted = 1e3 * _seconds(launches)
        found_here = shape[:3] in profiled or any(from_product(work) for work, _ in launches)
        rows.append(
            {
                "chain": chain.name,
                **shape._asdict(),
                "precision": row.precision,
                "subject": row.subject,
                "measured_ms": row.median_ms,
                "predicted_ms": predicted,
                "error": predicted / row.median_ms - 1,
                "binds": binds(*max(launches, key=lambda launch: launch[1].seconds), of),
                "held_out": not found_here,
            }
        )
    return pd.DataFrame(rows)


def check(name: str = "h200") -> pd.DataFrame:
    """`compared()` with every recorded time of a card."""
    launches = profile_records.read(name).launches
    profiled = launches[["batch", "in_features", "out_features"]].itertuples(index=False, name=None)
    return compared(records.read(name).times, card(name), frozenset(profiled))


def errors(checked: pd.DataFrame, by: str = "subject") -> pd.DataFrame:
    """The size of the errors in percent, by a column of `check()`, and overall: times, median, 90 % (nine of
    ten are smaller), largest; and for held-out ones: times, median."""

    def summary(rows: pd.DataFrame) -> dict:
        size = 100 * rows.error.abs()
        return {
            "times": len(rows),
            "median": size.median(),
            "90 %": size.quantile(0.9),
            "largest": size.max(),
            "held out": int(rows.held_out.sum()),
            "median of these": size[rows.held_out].median(),
        }

    table = {str(value): summary(rows) for value, rows in checked.groupby(by, sort=False)}
    return pd.DataFrame.from_dict(table | {"all": summary(checked)}, orient="index").rename_axis(by)


def recorded_rows(chain: str | Chain, places, name: str = "h200") -> pd.DataFrame:
    """The recorded times of a chain at some places, each a (shape, precision), as `fgn.bench()` returns them:
    the whole chain once by each subject, and F.linear."""
    times = records.read(name).times
    times = times[(times.part == "chain") | (times.subject == F_LINEAR)]
    found = []
    for sizes, precision in places:
        described, shape = problem(chain, sizes)
        wanted = pd.Series({"chain": described.name, **shape._asdict(), "precision": precision})
        found.append(times[(times[wanted.index] == wanted).all(axis=1)].drop_duplicates("subject"))
    return pd.concat(found, ignore_index=True)


def recorded_ratios(
    chain: str | Chain, precision: str = "ieee", unfused: str = EAGER, fused: str = BEST, name: str = "h200"
) -> pd.DataFrame:
    """What fusing buys as measured, at the recorded shapes whose in_features and out_features are equal.

    Columns: batch, width, groups, ratio (measured, as in `fusion_map()`; `BEST` is then the version measured
    to be fastest), predicted (the same, with this shape's own groups).
    """
    of = card(name)
    times = records.read(name).times
    times = times[times.part == "chain"]
    wanted = (times.chain == find(chain).name) & (times.precision == precision)
    rows = []
    for sizes, group in times[wanted].groupby(list(Shape._fields)):
        shape = Shape(*map(int, sizes))
        slow = group.median_ms[group.subject == unfused]
        fast = group.median_ms[group.subject.isin(FUSED[precision] if fused == BEST else [fused])]
        if shape.in_features == shape.out_features and len(slow) and len(fast):
            described, _ = problem(chain, shape)
            predicted = [milliseconds(described, shape, who, precision, of) for who in (unfused, fused)]
            rows.append(
                {
                    "batch": shape.batch,
                    "width": shape.in_features,
                    "groups": shape.groups,
                    "ratio": slow.min() / fast.min(),
                    "predicted": predicted[0] / predicted[1],
                }
            )
    return pd.DataFrame(rows, columns=["batch", "width", "groups", "ratio", "predicted"])
