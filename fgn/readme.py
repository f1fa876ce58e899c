"""The results table of README.md, generated from `profiles/` and never typed."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from fgn.bench import COMPILED, EAGER, F_LINEAR, RIVALS, floor
from fgn.library import ROOT
from fgn.records import PROFILES, Record, read

README = ROOT / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def results_table(record: Record) -> str:
    """The recorded times as Markdown: a row per shape and chain."""
    environment = record.environment
    head = ["chain", "batch × in → out, groups", "`F.linear` alone", "torch eager", "torch.compile"]
    head += ["fgn, best version", "torch.compile ÷ fgn", "floor", "fgn's matrix product, % of `F.linear`"]
    lines = [
        f"{environment['device']}, torch {environment['torch']}, {environment['date'][:10]}: fp32 without "
        "TF32, medians in ms, the L2 cache flushed before each call.",
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
            _number(floor(chain, shape, record.ceilings).ms, 3),
            _number(f_linear and 100 * f_linear / our_linear.min(), 0),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _number(value: float | None, digits: int) -> str:
    """A dash stands for what failed or was not measured."""
    return "–" if pd.isna(value) else f"{value:.{digits}f}"


def updated(text: str, profiles: Path = PROFILES) -> str:
    """README.md's text with the table between its two markers made anew. ValueError without the markers."""
    if BEGIN not in text or END not in text:
        raise ValueError(
            f"README.md: expected the lines {BEGIN} and {END}, between which the results table goes"
        )
    tables = [
        results_table(read(path.parent.name, profiles)) for path in sorted(profiles.glob("*/benchmark.csv"))
    ]
    inside = "\n\n".join(tables) or "No results are recorded yet."
    return re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n\n{inside}\n\n{END}", text, count=1, flags=re.S)
