"""Plots of times and errors, drawn from the DataFrames that `fgn.bench()` and `fgn.compare()` return."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from fgn.measure.accuracy import TORCH
from fgn.measure.benchmark import COMPILED, F_LINEAR
from fgn.measure.floors import floor
from fgn.measure.machine import Machine
from fgn.measure.records import precision_times
from fgn.measure.subjects import ladder_order
from fgn.measure.sweep import ratios
from fgn.plot.figures import new_figure
from fgn.plot.style import FLOOR_COLOUR, OUTLINE_COLOUR, WIDTH, colour, milliseconds, panels, rate

PROBLEM = ["chain", "batch", "in_features", "out_features", "groups"]


def _title(problem: tuple) -> str:
    """The heading of a panel; `problem` is the machine, if results of several are drawn, and `PROBLEM`."""
    *machine, chain, batch, in_features, out_features, groups = problem
    sizes = f"{batch} × {in_features} → {out_features}, {groups} group{'s' if groups > 1 else ''}"
    return "\n".join([*machine, chain, sizes])


def _panel_keys(results: pd.DataFrame, columns: list[str]) -> list[str]:
    """The columns that differ between panels. Results may have a column `machine`, the machine of the
    measurement."""
    return ["machine", *columns] if "machine" in results else columns


def _bars(axes, names: list[str], values, labels: list[str], limit: float, label_at=None):
    """Horizontal bars, the first one on top, each with a label at its end; bars beyond `limit` are cut."""
    axes.barh(names, values, color=[colour(name) for name in names])
    offset = {"textcoords": "offset points", "va": "center", "fontsize": 9}
    ends = values if label_at is None else label_at
    for name, value, end, label in zip(names, values, ends, labels, strict=True):
        if value > limit:
            inside = {"xytext": (-5, 0), "ha": "right", "color": "white", "fontweight": "bold"}
            cut = value > limit * 1.3
            where = (limit * 1.3 if cut else value, name)
            axes.annotate(f"{label} →" if cut else label, where, **offset | inside)
        else:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            axes.annotate(label, (end, name), xytext=(5, 0), bbox=box, **offset)
    axes.set_xlim(0, limit * 1.3)
    axes.invert_yaxis()


def _simulated(rows: pd.DataFrame) -> str:
    return "; ours is the simulator's" if (rows.note == "simulator").any() else ""


def times(results: pd.DataFrame, machines: Machine | dict[str, Machine] | None = None) -> Figure:
    """The time of the chain by version, next to torch's, one panel per problem.

    Bars are medians, their whiskers the 10th and 90th percentiles; a bar far longer than most is cut off. The
    grey bar is the bare F.linear, which does only the chain's matrix product. With `machines`, a dashed line
    marks the floor (`fgn.measure.floor()`). Results of several machines have a column `machine`, and
    `machines` has the descriptions of some by name.
    """
    measured = results[
        results.median_ms.notna() & ((results.part == "chain") | (results.subject == F_LINEAR))
    ]
    problems = list(measured.groupby(_panel_keys(measured, PROBLEM), sort=False))
    height = 1.4 + 0.32 * max(len(rows) for _, rows in problems)
    figure, all_axes = panels(len(problems), height)
    for axes, (problem, rows) in zip(all_axes, problems, strict=False):
        rows = rows.set_index("subject")
        rows = rows.loc[ladder_order(rows.index)]
        median, low, high = rows.median_ms, rows.p10_ms, rows.p90_ms
        limit = min(median.max(), 3 * median.median())
        labels = [milliseconds(ms) for ms in median]
        _bars(axes, list(rows.index), median, labels, limit, high.clip(upper=1.1 * limit))
        axes.errorbar(
            median, rows.index, xerr=[median - low, high - median], fmt="none", ecolor="#444444", elinewidth=1
        )
        of_panel = machines.get(problem[0]) if isinstance(machines, dict) else machines
        if of_panel is not None:
            chain, *shape = problem[-len(PROBLEM) :]
            least = floor(chain, shape, of_panel).ms
            axes.axvline(least, color=FLOOR_COLOUR, linestyle="--", linewidth=1, zorder=3)
            label = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center", "fontsize": 9}
            axes.annotate(
                f"floor {milliseconds(least)}", (least, 1), xycoords=("data", "axes fraction"), **label
            )
        axes.set_xlabel(f"median time (ms){_simulated(rows)}")
        axes.set_title(_title(problem), fontsize=10, pad=16)
    return figure


def gemm_ladder(results: pd.DataFrame) -> Figure:
    """The speed of each version's matrix product, in percent of the bare F.linear's, one panel per shape."""
    linear = results[(results.part == "linear") & results.median_ms.notna()]
    # The matrix product is the same in every chain of a shape, so the first chain's measurement is used for
    # all.
    sizes = _panel_keys(linear, ["batch", "in_features", "out_features"])
    linear = linear.drop_duplicates([*sizes, "subject"])
    shapes = list(linear.groupby(sizes, sort=False))
    height = 1.3 + 0.32 * max(len(rows) for _, rows in shapes)
    figure, all_axes = panels(len(shapes), height)
    for axes, ((*machine, batch, in_features, out_features), rows) in zip(all_axes, shapes, strict=False):
        rows = rows.set_index("subject")
        rows = rows.loc[ladder_order(rows.index)]
        percent = 100 * rows.median_ms[F_LINEAR] / rows.median_ms
        rates = 2 * batch * in_features * out_features / (rows.median_ms * 1e-3)
        labels = [f"{p:.3g} % ({rate(each)})" for p, each in zip(percent, rates, strict=True)]
        axes.axvline(100, color=FLOOR_COLOUR, linestyle="--", linewidth=1, zorder=0)
        _bars(axes, list(rows.index), percent, labels, limit=1.2 * max(percent.max(), 100))
        axes.set_xlabel(f"speed of the matrix product (% of F.linear){_simulated(rows)}")
        axes.set_title("\n".join([*machine, f"{batch} × {in_features} → {out_features}"]), fontsize=10)
    return figure


def errors(comparison: pd.DataFrame) -> Figure:
    """The relative error against float64 by version, beside torch's; `comparison` is from `fgn.compare()`."""
    figure, (axes,) = panels(1, 1.3 + 0.32 * len(comparison))
    names = ladder_order(comparison.index)
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
    axes.xaxis.set_minor_formatter(NullFormatter())
    if np.floor(np.log10(axes.get_xlim()[1])) <= np.floor(np.log10(axes.get_xlim()[0])) + 1:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("relative error against float64, ‖y − y₆₄‖ / ‖y₆₄‖ (log scale)")
    axes.set_title("how far each version is from float64", fontsize=10, loc="left", pad=16)
    return figure


def error_maps(maps: dict[str, np.ndarray]) -> Figure:
    """Where results are wrong: a panel for each, the error of every element from `Diagnosis.errors`.

    Elements that are wrongly NaN or were never written are black.
    """
    maps = {name: np.asarray(errors) for name, errors in maps.items()}
    count = len(maps)
    columns = min(count, 3)
    rows = math.ceil(count / columns)
    figure, all_axes = new_figure(10.4, 1.9 * rows, rows, columns)
    largest = max(np.nanmax(errors, initial=0.0, where=np.isfinite(errors)) for errors in maps.values())
    colormap = plt.colormaps["YlOrRd"].with_extremes(bad="black")
    for axes, (name, errors) in zip(all_axes.flat, maps.items(), strict=False):
        axes.spines[:].set_visible(True)
        shown = np.where(np.isfinite(errors), errors, np.nan)
        image = axes.imshow(
            shown,
            cmap=colormap,
            norm=LogNorm(1e-4, largest, clip=True),
            aspect="auto",
            interpolation="nearest",
        )
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("column", fontsize=8)
        axes.set_ylabel("row", fontsize=8)
        axes.tick_params(labelsize=8)
    for unused in all_axes.flat[count:]:
        unused.set_visible(False)
    bar = figure.colorbar(image, ax=all_axes, label="|y − y₆₄| (log scale); black: NaN", shrink=0.9)
    bar.ax.tick_params(labelsize=8)
    return figure


# The bins of a histogram of ratios: this many for each doubling.
BINS_OF_A_DOUBLING = 4


def sweeps(frame: pd.DataFrame, precisions: pd.DataFrame | None = None) -> Figure:
    """How much longer torch.compile takes than fgn at random shapes, on the device and in a loop.

    frame: rows of `fgn.measure.sweep.sweep()`. precisions: the recorded shapes' times, as in
    `fgn.measure.records.read().precisions`; their ratios are drawn as an outline.
    """
    figure, axes = new_figure(WIDTH, 3.6, 1, 2, sharey=True)
    shown = {where: ratios(frame, where) for where in ("device", "loop")}
    outlines = {} if precisions is None else {"device": _recorded_ratios(precisions)}
    every = np.concatenate([*shown.values(), *outlines.values()])
    low, high = (math.floor(np.log2(every.min())), math.ceil(np.log2(every.max())))
    bins = 2.0 ** np.arange(low, high + 1e-9, 1 / BINS_OF_A_DOUBLING)
    for axis, (where, values) in zip(axes.flat, shown.items(), strict=True):
        mean = math.exp(np.log(values).mean())
        label = f"{len(values)} random shapes, geometric mean {mean:.2f}"
        axis.hist(values, bins, color=colour(COMPILED), label=label)
        if where in outlines:
            rest = outlines[where]
            axis.hist(
                rest, bins, weights=np.full(len(rest), len(values) / len(rest)),
                histtype="step", color=OUTLINE_COLOUR, linewidth=1.5,
                label=f"the {len(rest)} recorded shapes, as many in all",
            )  # fmt: skip
        axis.axvline(1.0, color=FLOOR_COLOUR, linewidth=1.0)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_xlabel("torch.compile's time ÷ fgn's: right of 1 fgn is faster")
        axis.set_title({"device": "On the device", "loop": "In a loop, with the host's time"}[where])
        axis.legend(loc="upper right", fontsize=8, frameon=False)
        axis.margins(y=0.3)
    axes.flat[0].set_ylabel("problems")
    return figure


def _recorded_ratios(precisions: pd.DataFrame) -> np.ndarray:
    """torch.compile's time over the fastest version's, for each recorded problem that has both."""
    found = [whole.get(COMPILED, math.nan) / ours.min() for _, whole, _, ours in precision_times(precisions)]
    return np.array(found)[np.isfinite(found)]
