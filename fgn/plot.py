"""Plots of times and errors, drawn from the DataFrames that `fgn.bench()` and `fgn.compare()` return."""

from __future__ import annotations

import functools
import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fgn.bench import COMPILED, EAGER, F_LINEAR, Ceilings, floor
from fgn.compare import TORCH
from fgn.library import MissingToolError, version_names
from fgn.records import read, recorded

# Torch's bars are warm or grey (Okabe and Ito's palette, safe for colour-blind readers); ours go from dark to
# light along the ladder, on the part of viridis that stays apart from them.
TORCH_COLOURS = {EAGER: "#D55E00", COMPILED: "#E69F00", F_LINEAR: "#7F7F7F", TORCH: "#D55E00"}
FLOOR_COLOUR = "#000000"
LADDER_COLOURS = (plt.colormaps["viridis"], 0.0, 0.72)

PROBLEM = ["chain", "batch", "in_features", "out_features", "groups"]


@functools.cache
def _ladder() -> list[str]:
    """The versions from the naive one up: the library's, or, where none can be built, those recorded."""
    try:
        return version_names()
    except MissingToolError:
        subjects = read(recorded()[0]).benchmark.subject.unique()
        return [subject for subject in subjects if subject not in TORCH_COLOURS]


def colour(subject: str):
    """The colour of a version or of one of torch's subjects, the same in every plot."""
    if subject in TORCH_COLOURS:
        return TORCH_COLOURS[subject]
    names = _ladder()
    colormap, low, high = LADDER_COLOURS
    position = names.index(subject) / max(len(names) - 1, 1)
    return colormap(low + (high - low) * position)


def _ladder_order(subjects) -> list[str]:
    """Ours from the naive one up, then torch's."""
    order = _ladder() + list(TORCH_COLOURS)
    return sorted(subjects, key=order.index)


def _title(problem: tuple) -> str:
    chain, batch, in_features, out_features, groups = problem
    return f"{chain}\n{batch} × {in_features} → {out_features}, {groups} group{'s' if groups > 1 else ''}"


def _panels(count: int, height: float) -> tuple[Figure, list]:
    columns = min(count, 3)
    rows = math.ceil(count / columns)
    size = (max(5.2 * columns, 7.5), height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    # Once closed, a figure is shown where it is returned, and not a second time by pyplot.
    plt.close(figure)
    figure.get_layout_engine().set(h_pad=0.12)
    for unused in axes.flat[count:]:
        unused.set_visible(False)
    return figure, list(axes.flat)


def _bars(axes, names: list[str], values, labels: list[str], limit: float, label_at=None):
    """Horizontal bars, the first one on top, each with a label at its end; bars beyond `limit` are cut."""
    axes.barh(names, values, color=[colour(name) for name in names])
    offset = {"textcoords": "offset points", "va": "center", "fontsize": 9}
    ends = values if label_at is None else label_at
    for name, value, end, label in zip(names, values, ends, labels, strict=True):
        if value > limit:
            inside = {"xytext": (-5, 0), "ha": "right", "color": "white", "fontweight": "bold"}
            axes.annotate(f"{label} →", (limit * 1.3, name), **offset | inside)
        else:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            axes.annotate(label, (end, name), xytext=(5, 0), bbox=box, **offset)
    axes.set_xlim(0, limit * 1.3)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)


def _simulated(rows: pd.DataFrame) -> str:
    return "; ours is the simulator's" if (rows.note == "simulator").any() else ""


def times(results: pd.DataFrame, ceilings: Ceilings | None = None) -> Figure:
    """The time of the chain by version, next to torch's, one panel per problem.

    Bars are medians, their whiskers the 10th and 90th percentiles; a bar far longer than most is cut. The
    grey bar is the bare F.linear, which does only the chain's matrix product. With `ceilings`, a dashed line
    marks the floor (`fgn.bench.floor()`).
    """
    measured = results[
        results.median_ms.notna() & ((results.part == "chain") | (results.subject == F_LINEAR))
    ]
    problems = list(measured.groupby(PROBLEM, sort=False))
    height = 1.4 + 0.32 * max(len(rows) for _, rows in problems)
    figure, panels = _panels(len(problems), height)
    for axes, (problem, rows) in zip(panels, problems, strict=False):
        rows = rows.set_index("subject")
        rows = rows.loc[_ladder_order(rows.index)]
        median, low, high = rows.median_ms, rows.p10_ms, rows.p90_ms
        limit = min(median.max(), 3 * median.median())
        labels = [_milliseconds(ms) for ms in median]
        _bars(axes, list(rows.index), median, labels, limit, high.clip(upper=1.1 * limit))
        axes.errorbar(
            median, rows.index, xerr=[median - low, high - median], fmt="none", ecolor="#444444", elinewidth=1
        )
        if ceilings is not None:
            least = floor(problem[0], problem[1:], ceilings).ms
            axes.axvline(least, color=FLOOR_COLOUR, linestyle="--", linewidth=1, zorder=3)
            label = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center", "fontsize": 9}
            axes.annotate(
                f"floor {_milliseconds(least)}", (least, 1), xycoords=("data", "axes fraction"), **label
            )
        axes.set_xlabel(f"median time (ms){_simulated(rows)}")
        axes.set_title(_title(problem), fontsize=10, pad=16)
    return figure


def gemm_ladder(results: pd.DataFrame) -> Figure:
    """The speed of each version's matrix product, in percent of the bare F.linear's, one panel per shape."""
    linear = results[(results.part == "linear") & results.median_ms.notna()]
    # The matrix product is the same in every chain of a shape: the first chain's measurement stands for all.
    sizes = ["batch", "in_features", "out_features"]
    linear = linear.drop_duplicates([*sizes, "subject"])
    shapes = list(linear.groupby(sizes, sort=False))
    height = 1.3 + 0.32 * max(len(rows) for _, rows in shapes)
    figure, panels = _panels(len(shapes), height)
    for axes, ((batch, in_features, out_features), rows) in zip(panels, shapes, strict=False):
        rows = rows.set_index("subject")
        rows = rows.loc[_ladder_order(rows.index)]
        percent = 100 * rows.median_ms[F_LINEAR] / rows.median_ms
        rates = 2 * batch * in_features * out_features / (rows.median_ms * 1e-3)
        labels = [f"{p:.3g} % ({_rate(rate)})" for p, rate in zip(percent, rates, strict=True)]
        axes.axvline(100, color=FLOOR_COLOUR, linestyle="--", linewidth=1, zorder=0)
        _bars(axes, list(rows.index), percent, labels, limit=1.2 * max(percent.max(), 100))
        axes.set_xlabel(f"speed of the matrix product (% of F.linear){_simulated(rows)}")
        axes.set_title(f"{batch} × {in_features} → {out_features}", fontsize=10)
    return figure


def errors(comparison: pd.DataFrame) -> Figure:
    """The relative error against float64 by version, beside torch's; `comparison` is from `fgn.compare()`."""
    figure, (axes,) = _panels(1, 1.3 + 0.32 * len(comparison))
    names = _ladder_order(comparison.index)
    values = comparison.relative_error[names]
    positive = values[values > 0]
    if positive.empty:
        positive = pd.Series([np.finfo(np.float32).eps])
    axes.scatter(values, names, color=[colour(name) for name in names], s=60, zorder=3)
    torch_error = comparison.relative_error[TORCH]
    axes.axvspan(positive.min() / 4, 2 * torch_error, color="#E8E8E8", zorder=0)
    axes.text(2 * torch_error, -0.6, "twice torch's error ", ha="right", va="bottom", fontsize=9)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(positive.min() / 4, 4 * max(positive.max(), torch_error))
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("relative error against float64, ‖y − y₆₄‖ / ‖y₆₄‖ (log scale)")
    return figure


def _milliseconds(ms: float) -> str:
    return f"{ms:.3g} ms" if ms >= 0.1 else f"{ms * 1e3:.3g} µs"


def _rate(operations_per_second: float) -> str:
    tera = operations_per_second / 1e12
    return f"{tera:.3g} TFLOP/s" if tera >= 0.1 else f"{tera * 1e3:.3g} GFLOP/s"
