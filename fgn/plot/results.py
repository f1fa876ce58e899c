"""Plots of times and errors, drawn from the DataFrames that `fgn.bench()` and `fgn.compare()` return."""

from __future__ import annotations

import functools
import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from fgn.measure.bench import COMPILED, EAGER, F_LINEAR, Ceilings, floor
from fgn.measure.compare import TORCH
from fgn.measure.records import read, recorded
from fgn.native.library import MissingToolError, version_names

# Torch's bars are warm or grey (Okabe and Ito's palette, safe for colour-blind readers); ours go from dark to
# light along the ladder, on the part of viridis that stays apart from them.
TORCH_COLOURS = {EAGER: "#D55E00", COMPILED: "#E69F00", F_LINEAR: "#7F7F7F", TORCH: "#D55E00"}
FLOOR_COLOUR = "#000000"
OTHER_COLOUR = "#7F7F7F"
LADDER_COLOURS = (plt.colormaps["viridis"], 0.0, 0.72)

PROBLEM = ["chain", "batch", "in_features", "out_features", "groups"]


@functools.cache
def ladder() -> list[str]:
    """The versions from the naive one up: the library's, or, where none can be built, those recorded."""
    try:
        return version_names()
    except MissingToolError:
        record = read(recorded()[0])
        tables = [table for table in (record.benchmark, record.precisions) if table is not None]
        subjects = pd.concat([table.subject for table in tables]).unique()
        return [subject for subject in subjects if subject not in TORCH_COLOURS]


def colour(subject: str):
    """The colour of a version or of one of torch's subjects, the same in every plot."""
    if subject in TORCH_COLOURS:
        return TORCH_COLOURS[subject]
    names = ladder()
    if subject not in names:
        return OTHER_COLOUR
    colormap, low, high = LADDER_COLOURS
    position = names.index(subject) / max(len(names) - 1, 1)
    return colormap(low + (high - low) * position)


def ladder_order(subjects) -> list[str]:
    """Ours from the naive one up, then torch's, then what else there is."""
    order = ladder() + list(TORCH_COLOURS)
    return sorted(subjects, key=lambda name: order.index(name) if name in order else len(order))


def _title(problem: tuple) -> str:
    """The heading of a panel; `problem` is a machine, if results of several are drawn, and `PROBLEM`."""
    *machine, chain, batch, in_features, out_features, groups = problem
    sizes = f"{batch} × {in_features} → {out_features}, {groups} group{'s' if groups > 1 else ''}"
    return "\n".join([*machine, chain, sizes])


def _panel_keys(results: pd.DataFrame, columns: list[str]) -> list[str]:
    """The columns that panels differ in. Results may have a column `machine`, which tells whose they are."""
    return ["machine", *columns] if "machine" in results else columns


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, **options
) -> tuple[Figure, np.ndarray]:
    """A figure of that size in inches, and its rows of axes."""
    figure, axes = plt.subplots(
        rows, columns, figsize=(width, height), squeeze=False, layout="constrained", **options
    )
    # Once closed, a figure is shown where it is returned, and not a second time by pyplot.
    plt.close(figure)
    return figure, axes


def plain(axes):
    """No frame above and to the right."""
    axes.spines[["top", "right"]].set_visible(False)


def _panels(count: int, height: float) -> tuple[Figure, list]:
    columns = min(count, 3)
    rows = math.ceil(count / columns)
    figure, axes = new_figure(max(5.2 * columns, 7.5), height * rows, rows, columns)
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
            cut = value > limit * 1.3
            where = (limit * 1.3 if cut else value, name)
            axes.annotate(f"{label} →" if cut else label, where, **offset | inside)
        else:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            axes.annotate(label, (end, name), xytext=(5, 0), bbox=box, **offset)
    axes.set_xlim(0, limit * 1.3)
    axes.invert_yaxis()
    plain(axes)


def _simulated(rows: pd.DataFrame) -> str:
    return "; ours is the simulator's" if (rows.note == "simulator").any() else ""


def times(results: pd.DataFrame, ceilings: Ceilings | dict[str, Ceilings] | None = None) -> Figure:
    """The time of the chain by version, next to torch's, one panel per problem.

    Bars are medians, their whiskers the 10th and 90th percentiles; a bar far longer than most is cut. The
    grey bar is the bare F.linear, which does only the chain's matrix product. With `ceilings`, a dashed line
    marks the floor (`fgn.floor()`); results of several machines, told apart by a column `machine`, come with
    the ceilings of some of them by name.
    """
    measured = results[
        results.median_ms.notna() & ((results.part == "chain") | (results.subject == F_LINEAR))
    ]
    problems = list(measured.groupby(_panel_keys(measured, PROBLEM), sort=False))
    height = 1.4 + 0.32 * max(len(rows) for _, rows in problems)
    figure, panels = _panels(len(problems), height)
    for axes, (problem, rows) in zip(panels, problems, strict=False):
        rows = rows.set_index("subject")
        rows = rows.loc[ladder_order(rows.index)]
        median, low, high = rows.median_ms, rows.p10_ms, rows.p90_ms
        limit = min(median.max(), 3 * median.median())
        labels = [_milliseconds(ms) for ms in median]
        _bars(axes, list(rows.index), median, labels, limit, high.clip(upper=1.1 * limit))
        axes.errorbar(
            median, rows.index, xerr=[median - low, high - median], fmt="none", ecolor="#444444", elinewidth=1
        )
        of_panel = ceilings.get(problem[0]) if isinstance(ceilings, dict) else ceilings
        if of_panel is not None:
            chain, *shape = problem[-len(PROBLEM) :]
            least = floor(chain, shape, of_panel).ms
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
    sizes = _panel_keys(linear, ["batch", "in_features", "out_features"])
    linear = linear.drop_duplicates([*sizes, "subject"])
    shapes = list(linear.groupby(sizes, sort=False))
    height = 1.3 + 0.32 * max(len(rows) for _, rows in shapes)
    figure, panels = _panels(len(shapes), height)
    for axes, ((*machine, batch, in_features, out_features), rows) in zip(panels, shapes, strict=False):
        rows = rows.set_index("subject")
        rows = rows.loc[ladder_order(rows.index)]
        percent = 100 * rows.median_ms[F_LINEAR] / rows.median_ms
        rates = 2 * batch * in_features * out_features / (rows.median_ms * 1e-3)
        labels = [f"{p:.3g} % ({_rate(rate)})" for p, rate in zip(percent, rates, strict=True)]
        axes.axvline(100, color=FLOOR_COLOUR, linestyle="--", linewidth=1, zorder=0)
        _bars(axes, list(rows.index), percent, labels, limit=1.2 * max(percent.max(), 100))
        axes.set_xlabel(f"speed of the matrix product (% of F.linear){_simulated(rows)}")
        axes.set_title("\n".join([*machine, f"{batch} × {in_features} → {out_features}"]), fontsize=10)
    return figure


def errors(comparison: pd.DataFrame) -> Figure:
    """The relative error against float64 by version, beside torch's; `comparison` is from `fgn.compare()`."""
    figure, (axes,) = _panels(1, 1.3 + 0.32 * len(comparison))
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
    plain(axes)
    axes.set_xlabel("relative error against float64, ‖y − y₆₄‖ / ‖y₆₄‖ (log scale)")
    return figure


# ------------------------------------------------------------------------------------------------------------
# Predictions, from `fgn.teach`

LIMIT_COLOUR, LARGEST_LIMIT_COLOUR = "#A9C4D9", "#31688E"
MEASURED_STYLES = ("-", "--", ":")
PART_COLOURS = {"product": "#31688E", "operators": "#E69F00", "norm": "#35B779"}


def limits(prediction: pd.DataFrame, measured: dict[str, float], title: str = "") -> Figure:
    """The time of each limit of a rung, from `fgn.teach.predict()`, and the measured times as vertical lines.

    Where no machine is known, the cycles of a multiprocessor for each step instead.
    """
    unit = "ms" if prediction.ms.notna().any() else "cycles"
    values = prediction[unit][prediction[unit] > 0]
    figure, (axes,) = _panels(1, 1.2 + 0.3 * len(values) + 0.22 * len(measured))
    colours = [LARGEST_LIMIT_COLOUR if value == values.max() else LIMIT_COLOUR for value in values]
    axes.barh(values.index, values, color=colours)
    for name, value in values.items():
        label = _milliseconds(value) if unit == "ms" else f"{value:.3g}"
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
        offset = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
        axes.annotate(label, (value, name), bbox=box, **offset)
    for (name, ms), style in zip(measured.items(), MEASURED_STYLES, strict=False):
        axes.axvline(ms, color="#D55E00", linestyle=style, label=f"measured: {_milliseconds(ms)}, {name}")
    if measured:
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize=9, borderaxespad=0.2)
    axes.set_xlim(0, 1.15 * max([values.max(), *measured.values()]))
    axes.invert_yaxis()
    plain(axes)
    words = {
        "ms": "predicted time of each limit alone (ms)",
        "cycles": "cycles of a multiprocessor for a step",
    }
    axes.set_xlabel(words[unit])
    axes.set_title(title, fontsize=10, loc="left")
    return figure


def _legend_below(figure: Figure):
    figure.get_layout_engine().set(h_pad=0.03)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)


def _part_of(launch: str) -> str:
    if launch.startswith("product"):
        return "product"
    return "norm" if launch.startswith(("statistics", "normalise", "norm")) else "operators"


def traffic(launches: dict[str, pd.DataFrame], title: str = "") -> Figure:
    """The bytes that each launch moves, by version: one bar per version, one piece per launch.

    `launches` has the tables of `fgn.teach.launches()` by the name of the version.
    """
    figure, (axes,) = _panels(1, 1.6 + 0.4 * len(launches))
    for version, table in launches.items():
        left = 0.0
        for row in table.itertuples():
            moved = (row.read + row.written) / 1e6
            axes.barh(version, moved, left=left, color=PART_COLOURS[_part_of(row.launch)], edgecolor="white")
            left += moved
        count = f"{left:,.0f} MB, {len(table)} launch{'es' if len(table) > 1 else ''}"
        axes.annotate(
            count, (left, version), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9
        )
    for part, colour_of_part in PART_COLOURS.items():
        axes.barh(next(iter(launches)), 0, color=colour_of_part, label=part)
    _legend_below(figure)
    axes.set_xlim(0, 1.3 * axes.dataLim.xmax)
    axes.invert_yaxis()
    plain(axes)
    axes.set_xlabel("memory read and written (MB), one piece for each launch")
    axes.set_title(title, fontsize=10, loc="left")
    return figure


def roofline(points: pd.DataFrame, ceilings: dict[str, Ceilings]) -> Figure:
    """What chains reach against what memory bandwidth and arithmetic allow.

    points: label, intensity (operations for each byte of the floor), rate (operations per second), subject.
    ceilings: one roof for each machine, by its name.
    """
    figure, (axes,) = _panels(1, 4.6)
    intensities = points.intensity
    low, high = intensities.min() / 4, intensities.max() * 4
    for (name, roof), style in zip(ceilings.items(), MEASURED_STYLES, strict=False):
        ridge = roof.operations_per_second / roof.bytes_per_second
        x = np.array([low, np.clip(ridge, low, high), high])
        y = np.minimum(x * roof.bytes_per_second, roof.operations_per_second)
        axes.plot(x, y, color="black", linestyle=style, linewidth=1.2, label=f"roof: {name}")
    markers = {EAGER: "o", COMPILED: "s"}
    for subject, rows in points.groupby("subject", sort=False):
        marker, of_subject = markers.get(subject, "D"), TORCH_COLOURS.get(subject, LARGEST_LIMIT_COLOUR)
        axes.scatter(
            rows.intensity, rows.rate, color=of_subject, marker=marker, s=30, label=subject, zorder=3
        )
    for label, intensity in points[["label", "intensity"]].drop_duplicates("label").itertuples(index=False):
        axes.axvline(intensity, color="#DDDDDD", linewidth=0.8, zorder=0)
        place = {
            "xytext": (-3, 4),
            "textcoords": "offset points",
            "rotation": 90,
            "ha": "right",
            "va": "bottom",
        }
        axes.annotate(label, (intensity, 0), xycoords=("data", "axes fraction"), fontsize=8, **place)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    # Room below the points for the labels.
    axes.set_ylim(bottom=points.rate.min() / 4)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(EngFormatter("FLOP/s"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter("{x:g}")
    plain(axes)
    axes.set_xlabel("operations for each byte that must move (log scale)")
    axes.set_ylabel("speed (log scale)")
    _legend_below(figure)
    return figure


def savings(frame: pd.DataFrame, title: str = "") -> Figure:
    """Predicted and measured savings, from `fgn.teach.savings()`, one line per recorded problem.

    A loss far beyond the largest saving is cut off, with its size beside the mark.
    """
    figure, (axes,) = _panels(1, 1.4 + 0.3 * len(frame))
    sizes = [f"{row.batch} × {row.in_features} → {row.out_features}" for row in frame.itertuples()]
    labels = [f"{chain}   {size}" for chain, size in zip(frame.chain, sizes, strict=True)]
    places = np.arange(len(frame))
    most = max(frame.predicted_percent.max(), frame.measured_percent.max(), 5)
    measured = frame.measured_percent.clip(lower=-2 * most)
    axes.hlines(places, frame.predicted_percent, measured, color="#BBBBBB", linewidth=2, zorder=1)
    ring = {"facecolors": "white", "edgecolors": LARGEST_LIMIT_COLOUR, "linewidths": 1.5}
    axes.scatter(frame.predicted_percent, places, s=45, label="predicted", zorder=2, **ring)
    axes.scatter(measured, places, s=30, color="#D55E00", label="measured", zorder=3)
    for place, shown, percent in zip(places, measured, frame.measured_percent, strict=True):
        if percent < shown:
            axes.annotate(
                f"← {percent:.0f} %", (shown, place), (8, 4), textcoords="offset points", fontsize=8
            )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(places, labels, fontsize=9)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#E8E8E8", linewidth=0.6)
    axes.set_axisbelow(True)
    plain(axes)
    _legend_below(figure)
    axes.set_xlabel("time saved (% of the version before)")
    axes.set_title(title, fontsize=10, loc="left")
    return figure


def share_of_fusion(curves: pd.DataFrame, measured: pd.DataFrame, title: str = "") -> Figure:
    """The predicted share of the time that fusion saves, by in_features; recorded savings as points.

    curves: a column for each chain, indexed by in_features. measured: from `fgn.teach.savings()`.
    """
    figure, (axes,) = _panels(1, 3.8)
    colours = plt.colormaps["viridis"](np.linspace(0.1, 0.75, len(curves.columns)))
    for chain, of_chain in zip(curves, colours, strict=True):
        axes.plot(curves.index, curves[chain], color=of_chain, label=f"{chain}, predicted")
        rows = measured[measured.chain == chain] if len(measured) else measured
        if len(rows):
            axes.scatter(rows.in_features, rows.measured_percent, color=[of_chain], s=35, zorder=3)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    axes.grid(color="#E8E8E8", linewidth=0.6)
    axes.set_axisbelow(True)
    plain(axes)
    axes.legend(frameon=False, fontsize=9)
    axes.set_xlabel("in_features (log scale)")
    axes.set_ylabel("time saved (%)")
    axes.set_title(title, fontsize=10, loc="left")
    return figure


# ------------------------------------------------------------------------------------------------------------
# Counts, from the counted simulator

TOUCHED_COLOUR, USED_COLOUR, WRONG_COLOUR = "#D9E4EC", "#31688E", "#D55E00"


def warp_sectors(addresses: dict[str, np.ndarray], counted: dict[str, float], title: str = "") -> Figure:
    """Which memory one request of a warp touches: a strip for each access pattern.

    addresses: of the 32 lanes, in bytes from the first, each reading 4. counted: the sectors of a request.
    Light: sectors of 32 bytes that have to move. Dark: the bytes of them that were asked for.
    """
    figure, (axes,) = _panels(1, 1.3 + 0.34 * len(addresses))
    end = 32 * (1 + max(int(of_lanes.max()) for of_lanes in addresses.values()) // 32)
    for place, (name, of_lanes) in enumerate(addresses.items()):
        sectors = np.unique(of_lanes // 32) * 32
        axes.broken_barh([(s, 32) for s in sectors], (place - 0.32, 0.64), color=TOUCHED_COLOUR, linewidth=0)
        axes.broken_barh([(a, 4) for a in of_lanes], (place - 0.32, 0.64), color=USED_COLOUR, linewidth=0)
        text = f"{len(sectors)} predicted, {counted[name]:.3g} counted"
        axes.annotate(
            text, (1, place), (6, 0), ("axes fraction", "data"), "offset points", va="center", fontsize=9
        )
    axes.set_xlim(0, end)
    axes.set_yticks(range(len(addresses)), list(addresses))
    axes.invert_yaxis()
    plain(axes)
    axes.set_xlabel("address (bytes from the first lane's); light: moved, dark: asked for")
    axes.set_title(title, fontsize=10, loc="left")
    axes.text(1.01, 1.02, "sectors of a request", transform=axes.transAxes, fontsize=9, va="bottom")
    return figure


def warp_banks(words: dict[str, np.ndarray], counted: dict[str, float], title: str = "") -> Figure:
    """How many words one request of a warp wants of each bank: a strip for each access pattern.

    words: 32 numbers for each pattern, from `fgn.teach.words_in_banks()`. counted: wavefronts of a request.
    """
    figure, (axes,) = _panels(1, 1.6 + 0.34 * len(words))
    grid = np.array(list(words.values()))
    colours = plt.colormaps["viridis_r"](np.linspace(0.05, 0.9, max(grid.max(), 1) + 1))
    for place, row in enumerate(grid):
        for bank, count in enumerate(row):
            face = "white" if count == 0 else colours[count]
            axes.add_patch(
                plt.Rectangle((bank - 0.5, place - 0.36), 1, 0.72, facecolor=face, edgecolor="#BBBBBB")
            )
            if count > 1:
                ink = "white" if count > grid.max() / 3 else "black"
                axes.text(bank, place, count, ha="center", va="center", fontsize=7, color=ink)
        text = f"{row.max()} predicted, {counted[list(words)[place]]:.3g} counted"
        axes.annotate(
            text, (1, place), (6, 0), ("axes fraction", "data"), "offset points", va="center", fontsize=9
        )
    axes.set_xlim(-0.6, grid.shape[1] - 0.4)
    axes.set_ylim(len(words) - 0.4, -0.6)
    axes.set_yticks(range(len(words)), list(words))
    axes.set_xticks(range(0, grid.shape[1], 4))
    plain(axes)
    axes.set_xlabel("bank; in it, how many different words of it are wanted (white: none, no number: one)")
    axes.set_title(title, fontsize=10, loc="left")
    axes.text(1.01, 1.02, "wavefronts of a request", transform=axes.transAxes, fontsize=9, va="bottom")
    return figure


def predictions(frame: pd.DataFrame, label: str, title: str = "") -> Figure:
    """Predicted and counted numbers, a line each: the columns `predicted` and `counted`, indexed by name."""
    figure, (axes,) = _panels(1, 1.5 + 0.3 * len(frame))
    places = np.arange(len(frame))
    axes.hlines(places, frame.predicted, frame.counted, color="#BBBBBB", linewidth=2, zorder=1)
    ring = {"facecolors": "white", "edgecolors": LARGEST_LIMIT_COLOUR, "linewidths": 1.5}
    axes.scatter(frame.predicted, places, s=70, label="predicted", zorder=2, **ring)
    axes.scatter(frame.counted, places, s=22, color=WRONG_COLOUR, label="counted", zorder=3)
    for place, value in zip(places, frame.counted, strict=True):
        axes.annotate(
            f"{value:,.4g}", (value, place), (9, 0), textcoords="offset points", va="center", fontsize=9
        )
    axes.set_yticks(places, frame.index)
    axes.set_ylim(len(frame) - 0.5, -0.5)
    axes.set_xlim(0, 1.15 * frame.to_numpy().max())
    axes.grid(axis="x", color="#E8E8E8", linewidth=0.6)
    axes.set_axisbelow(True)
    plain(axes)
    axes.legend(
        ncols=2, loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize=9, borderaxespad=0.2
    )
    axes.set_xlabel(label)
    axes.set_title(title, fontsize=10, loc="left")
    return figure


def asked(frame: pd.DataFrame, label: str) -> Figure:
    """Bytes read and written, a bar for each row of `frame`, which has the columns `read` and `written`."""
    figure, (axes,) = _panels(1, 1.4 + 0.4 * len(frame))
    axes.barh(frame.index, frame.read, color=LARGEST_LIMIT_COLOUR, label="read")
    axes.barh(frame.index, frame.written, left=frame.read, color=LIMIT_COLOUR, label="written")
    for name, row in frame.iterrows():
        text = f"{row.read:.3g} + {row.written:.3g}"
        place = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
        axes.annotate(text, (row.read + row.written, name), **place)
    axes.set_xlim(0, 1.15 * (frame.read + frame.written).max())
    axes.invert_yaxis()
    plain(axes)
    axes.legend(
        ncols=2, loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize=9, borderaxespad=0.2
    )
    axes.set_xlabel(label)
    return figure


def error_maps(maps: dict[str, np.ndarray]) -> Figure:
    """Where results are wrong: a panel for each, the error of every element from `Diagnosis.errors`.

    Elements that are NaN or were never written, and should not be, are black.
    """
    maps = {name: np.asarray(errors) for name, errors in maps.items()}
    count = len(maps)
    columns = min(count, 3)
    rows = math.ceil(count / columns)
    figure, panels = new_figure(10.4, 1.9 * rows, rows, columns)
    largest = max(np.nanmax(errors, initial=0.0, where=np.isfinite(errors)) for errors in maps.values())
    colormap = plt.colormaps["YlOrRd"].with_extremes(bad="black")
    for axes, (name, errors) in zip(panels.flat, maps.items(), strict=False):
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
    for unused in panels.flat[count:]:
        unused.set_visible(False)
    bar = figure.colorbar(image, ax=panels, label="|y − y₆₄| (log scale); black: NaN", shrink=0.9)
    bar.ax.tick_params(labelsize=8)
    return figure


def _milliseconds(ms: float) -> str:
    return f"{ms:.3g} ms" if ms >= 0.1 else f"{ms * 1e3:.3g} µs"


def _rate(operations_per_second: float) -> str:
    tera = operations_per_second / 1e12
    return f"{tera:.3g} TFLOP/s" if tera >= 0.1 else f"{tera * 1e3:.3g} GFLOP/s"
