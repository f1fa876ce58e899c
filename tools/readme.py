"""The tables of results, generated from `profiles/` and never typed: the newest GPU's in short in README.md,
all of them in docs/results.md. `python tools/readme.py` writes both."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from fgn.measure.accuracy import TORCH
from fgn.measure.benchmark import COMPILED, EAGER, F_LINEAR, RIVALS
from fgn.measure.floors import floor
from fgn.measure.records import AGAIN, PROFILES, Record, precision_times, read
from fgn.measure.sweep import summary
from fgn.native.places import ROOT

README, RESULTS = ROOT / "README.md", ROOT / "docs" / "results.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def machine_of(environment: dict) -> str:
    """Where, with what and when a table was recorded, and of which commit."""
    return (
        f"{environment['device']}, torch {environment['torch']}, {environment['date'][:10]}, commit "
        f"{environment['commit'][:7]}"
    )


def precisions_environment(record: Record) -> dict:
    """The environment of the tables on tensor cores, which may have been recorded again."""
    return {**record.environment, **record.environment.get(AGAIN, {})}


def results_table(record: Record) -> str:
    """The recorded times as Markdown: a row per shape and chain."""
    environment = record.environment
    head = ["chain", "batch × in → out, groups", "`F.linear` alone", "torch eager", "torch.compile"]
    head += ["fgn, best version", "torch.compile ÷ fgn", "floor", "fgn's matrix product, % of `F.linear`"]
    lines = [
        f"{machine_of(environment)}: fp32 without tensor cores, medians in ms, the L2 cache flushed "
        "before each call.",
        "",
        f"| {' | '.join(head)} |",
        "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    columns = ["batch", "in_features", "out_features", "groups"]
    for (chain, *shape), rows in record.benchmark.groupby(["chain", *columns], sort=False):
        whole, linear = (
            rows[rows.part == part].set_index("subject").median_ms for part in ("chain", "linear")
        )
        ours, our_linear = (times.drop(RIVALS, errors="ignore") for times in (whole, linear))
        best = ours.idxmin()
        eager, compiled, f_linear = whole.get(EAGER), whole.get(COMPILED), linear.get(F_LINEAR)
        batch, in_features, out_features, groups = shape
        cells = (
            chain,
            f"{batch} × {in_features} → {out_features}, {groups}",
            _number(f_linear, 3),
            _number(eager, 3),
            _number(compiled, 3),
            f"**{_number(ours[best], 3)}** {best}",
            _number(compiled and compiled / ours[best], 2),
            _number(floor(chain, shape, record.machine).ms, 3),
            _number(f_linear and 100 * f_linear / our_linear.min(), 0),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def precisions_table(record: Record) -> str:
    """The recorded times on tensor cores as Markdown: a row per shape, chain and precision."""
    times, errors = record.precisions, record.precision_errors
    keys = ["chain", "batch", "in_features", "out_features", "groups", "precision"]
    errors = errors.set_index([*keys, "version"]).relative_error
    lines, ratios = [], []
    for key, whole, linear, ours in precision_times(times):
        chain, batch, in_features, out_features, groups, precision = key
        best, compiled, f_linear = ours.idxmin(), whole.get(COMPILED), linear.get(F_LINEAR)
        ratios.append(compiled / ours[best] if compiled else float("nan"))
        cells = (
            chain,
            f"{batch} × {in_features} → {out_features}, {groups}",
            precision,
            _number(f_linear, 4),
            _number(compiled, 4),
            f"**{_number(ours[best], 4)}** {best}",
            _number(compiled and compiled / ours[best], 2),
            f"{errors.get((*key, best), float('nan')):.1e} / {errors.get((*key, TORCH), float('nan')):.1e}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    ratios = pd.Series(ratios).dropna()
    return "\n".join(
        [
            f"On tensor cores (ieee is float32 accuracy): {len(ratios)} problems, torch.compile ÷ fgn "
            f"between {ratios.min():.2f} and {ratios.max():.2f}, "
            f"geometric mean {np.exp(np.log(ratios).mean()):.2f}.",
            "",
            "| chain | batch × in → out, groups | precision | `F.linear` alone | torch.compile | fgn | "
            "torch.compile ÷ fgn | error, fgn / torch |",
            "| --- | --- | --- | ---: | ---: | --- | ---: | ---: |",
            *lines,
        ]
    )


def _number(value: float | None, digits: int) -> str:
    """A dash stands for what failed or was not measured."""
    return "–" if pd.isna(value) else f"{value:.{digits}f}"


# README shows this chain, which has the most operators, at these shapes, in these precisions.
SHOWN_CHAIN = "gemm_biasadd_hardtanh_mish_groupnorm"
SHOWN_SHAPES = (
    *((1024, 8192, 8192), (16, 8192, 8192), (16384, 1024, 1024)),
    *((65536, 512, 512), (128, 512, 1024)),
)
SHOWN_PRECISIONS = ("ieee", "bf16")


def ten_rows(record: Record) -> str:
    """README's table: one chain, five shapes, two precisions."""
    place = {shape: number for number, shape in enumerate(SHOWN_SHAPES)}
    times = record.precisions
    sizes = times[["batch", "in_features", "out_features"]].itertuples(index=False, name=None)
    times = times.assign(place=[place.get(tuple(map(int, shape)), np.nan) for shape in sizes])
    shown = times.chain.eq(SHOWN_CHAIN) & times.precision.isin(SHOWN_PRECISIONS) & times.place.notna()
    return precisions_table(replace(record, precisions=times[shown].sort_values("place", kind="stable")))


def precisions_words(record: Record) -> str:
    """README's table with where and when it was recorded."""
    recorded = machine_of(precisions_environment(record))
    return f"{recorded}: medians in ms, the L2 cache flushed before each call.\n\n{ten_rows(record)}"


SWEEPS_HEAD = """
At random shapes on {device}, torch.compile's time ÷ fgn's; each seed is 60 problems:

| seed | commit, date | on the device: geometric mean, smallest, below 1 | in a loop |
| --- | --- | --- | --- |
"""


def sweeps_words(record: Record, root: str = "") -> str:
    """What the recorded sweeps say, a line for each seed, with their picture. root: where the page finds the
    project's root."""
    lines = []
    for seed, rows in record.sweeps.groupby("seed"):
        measures = [
            f"{row.geometric_mean:.2f}, {row.smallest:.2f}, {row.below_1} of {row.problems}"
            for row in summary(rows).itertuples()
        ]
        recorded = f"{rows.commit.iloc[0][:7]}, {rows.date.iloc[0][:10]}"
        lines.append(f"| {' | '.join([str(seed), recorded, *measures])} |")
    picture = f"{root}profiles/{record.name}/sweeps.png"
    return (
        SWEEPS_HEAD.lstrip().format(**record.environment)
        + "\n".join(lines)
        + f"\n\n![How much longer torch.compile takes than fgn at random shapes]({picture})"
    )


TRAINING_HEAD = """
A training step on {device} (forward and backward, the gradients of x and of all parameters) at the first
of these shapes and at a large layer, torch.compile's time ÷ fgn's. Kept: the bytes between forward and
backward, fgn's ÷ torch.compile's, their geometric mean:

| problems | commit, date | on the device: geometric mean, smallest, below 1 | in a loop | kept |
| --- | --- | --- | --- | ---: |
"""


def training_words(record: Record) -> str:
    """What the recorded training steps say, a line for each seed, and for each precision of a large layer."""
    lines = []
    for name, rows in record.training.groupby("set"):
        by_precision = rows.groupby("precision", sort=False) if "seed" not in name else [("", rows)]
        for precision, some in by_precision:
            measures = [
                f"{row.geometric_mean:.2f}, {row.smallest:.2f}, {row.below_1} of {row.problems}"
                for row in summary(some).itertuples()
            ]
            memory = np.exp(np.log(some["kept fgn"] / some["kept torch.compile"]).mean())
            recorded = f"{some.commit.iloc[0][:7]}, {some.date.iloc[0][:10]}"
            cells = (f"{name} {precision}".strip(), recorded, *measures, f"{memory:.2f}")
            lines.append(f"| {' | '.join(cells)} |")
    return TRAINING_HEAD.lstrip().format(**record.environment) + "\n".join(lines)


def updated(text: str, profiles: Path = PROFILES) -> str:
    """README.md's text with the table between its two markers made anew. ValueError without the markers."""
    if BEGIN not in text or END not in text:
        raise ValueError(
            f"README.md: expected the lines {BEGIN} and {END}, between which the results table goes"
        )
    records = [read(path.parent.name, profiles) for path in profiles.glob("*/benchmark.csv")]
    tables = []
    if records:
        newest = max(records, key=lambda record: precisions_environment(record)["date"])
        tables += [precisions_words(newest)] if newest.precisions is not None else []
    for words, part in ((sweeps_words, "sweeps"), (training_words, "training")):  # of the last GPU each
        with_part = [record for record in records if getattr(record, part) is not None]
        if with_part:
            tables.append(words(max(with_part, key=lambda record: getattr(record, part)["date"].max())))
    inside = "\n\n".join(tables) or "No results are recorded yet."
    return re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n\n{inside}\n\n{END}", text, count=1, flags=re.S)


RESULTS_HEAD = """# All recorded results

Written by `tools/readme.py` from `profiles/`; each table was measured in one run, the rivals on the same
inputs.

*Floor*: the larger of two times, the bytes that must move over the copy bandwidth, and the operations over
the rate of the fastest large product that was seen on the card. *Error*: ‖y − y₆₄‖ / ‖y₆₄‖ against float64.
In "ieee" on tensor cores, the first call after a weight changes also pays for splitting it; `precisions.csv`
has that time as the part "cold".
"""


def all_results(profiles: Path = PROFILES) -> str:
    """The text of docs/results.md."""
    parts = [RESULTS_HEAD]
    for path in sorted(profiles.glob("*/benchmark.csv")):
        record = read(path.parent.name, profiles)
        parts.append(results_table(record))
        if record.precisions is not None:
            parts.append(f"{machine_of(precisions_environment(record))}:\n\n{precisions_table(record)}")
        if record.sweeps is not None:
            parts.append(sweeps_words(record, "../"))
        if record.training is not None:
            parts.append(training_words(record))
    return "\n\n".join(part.strip() for part in parts) + "\n"


if __name__ == "__main__":
    README.write_text(updated(README.read_text()))
    RESULTS.write_text(all_results())
