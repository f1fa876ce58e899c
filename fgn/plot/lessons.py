"""Plots of the notebooks' predictions and counts (`fgn.teaching.lessons`), before and after measurements."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fgn.plot.figures import (
    LARGEST_LIMIT_COLOUR,
    LIMIT_COLOUR,
    MEASURED_COLOUR,
    PART_COLOURS,
    WRONG_COLOUR,
)
from fgn.plot.style import (
    MEASURED_STYLES,
    PASS_COLOURS,
    TOUCHED_COLOUR,
    USED_COLOUR,
    legend_below,
    milliseconds,
    panels,
)


def limits(prediction: pd.DataFrame, measured: dict[str, float], title: str = "") -> Figure:
    """The time of each limit of a rung, from `lessons.predict()`, and the measured times as vertical lines.

    Without a known machine, the bars are the cycles of a multiprocessor for each step.
    """
    unit = "ms" if prediction.ms.notna().any() else "cycles"
    values = prediction[unit][prediction[unit] > 0]
    figure, (axes,) = panels(1, 1.2 + 0.3 * len(values) + 0.22 * len(measured))
    colours = [LARGEST_LIMIT_COLOUR if value == values.max() else LIMIT_COLOUR for value in values]
    axes.barh(values.index, values, color=colours)
    for name, value in values.items():
        label = milliseconds(value) if unit == "ms" else f"{value:.3g}"
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
        offset = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
        axes.annotate(label, (value, name), bbox=box, **offset)
    for (name, ms), style in zip(measured.items(), MEASURED_STYLES, strict=False):
        axes.axvline(
            ms, color=MEASURED_COLOUR, linestyle=style, label=f"measured: {milliseconds(ms)}, {name}"
        )
    if measured:
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize=9, borderaxespad=0.2)
    axes.set_xlim(0, 1.15 * max([values.max(), *measured.values()]))
    axes.invert_yaxis()
    words = {
        "ms": "predicted time of each limit alone (ms)",
        "cycles": "cycles of a multiprocessor for a step",
    }
    axes.set_xlabel(words[unit])
    axes.set_title(title, fontsize=10, loc="left")
    return figure


def _part_of(launch: str) -> str:
    if launch.startswith("product"):
        return "product"
    return "norm" if launch.startswith(("statistics", "normalise", "norm")) else "operators"


def _bars(
    launches: dict[str, pd.DataFrame], height: float, moved, colours: dict, words
) -> tuple[Figure, Axes]:
    """One bar for each version, one piece for each row of its table. moved: (the length, the key of the
    colour) of a row. words: a function of a bar's length and table, which returns the text at its end."""
    figure, (axes,) = panels(1, 1.6 + height * len(launches))
    for version, table in launches.items():
        left = 0.0
        for row in table.itertuples():
            length, part = moved(row)
            axes.barh(version, length, left=left, color=colours[part], edgecolor="white")
            left += length
        place = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
        axes.annotate(words(left, table), (left, version), **place)
    for part, colour in colours.items():
        axes.barh(next(iter(launches)), 0, color=colour, label=part)
    legend_below(figure)
    axes.set_xlim(0, 1.3 * axes.dataLim.xmax)
    axes.invert_yaxis()
    return figure, axes


def traffic(launches: dict[str, pd.DataFrame], title: str = "") -> Figure:
    """The bytes that each launch moves, by version: one bar per version, one piece per launch.

    `launches` has the tables of `fgn.teaching.lessons.launches()` by the name of the version.
    """
    figure, axes = _bars(
        launches,
        0.4,
        lambda row: ((row.read + row.written) / 1e6, _part_of(row.launch)),
        PART_COLOURS,
        lambda left, table: f"{left:,.0f} MB, {len(table)} launch{'es' if len(table) > 1 else ''}",
    )
    axes.set_xlabel("memory read and written (MB), one piece for each launch")
    axes.set_title(title, fontsize=10, loc="left")
    return figure


def passes(launches: dict[str, pd.DataFrame], title: str = "") -> Figure:
    """The bytes of each launch for each element, one bar for each version and one piece for each launch.

    `launches` has the tables of `fgn.teaching.backward.moved()` by the name of the version.
    """
    parts = list(dict.fromkeys(part for table in launches.values() for part in table.part))
    figure, axes = _bars(
        launches,
        0.45,
        lambda row: (row.read + row.written, row.part),
        dict(zip(parts, PASS_COLOURS, strict=False)),
        lambda left, table: f"{left:.0f} bytes, {len(table)} launches",
    )
    axes.set_xlabel("bytes read and written for each element, one piece for each launch")
    axes.set_title(title, fontsize=10, loc="left")
    return figure


def savings(frame: pd.DataFrame, title: str = "") -> Figure:
    """Predicted and measured savings, from `fgn.teaching.lessons.savings()`: for each chain its name, and
    below it a line for each recorded shape.

    A loss far beyond the largest saving is cut off, with its size beside the mark.
    """
    frame = frame.sort_values("chain", kind="stable")
    chains = list(dict.fromkeys(frame.chain))
    figure, (axes,) = panels(1, 1.4 + 0.27 * (len(frame) + len(chains)))
    sizes = [f"{row.batch} × {row.in_features} → {row.out_features}" for row in frame.itertuples()]
    # A chain's name has its own line, above its shapes.
    places = np.array([row + 1 + chains.index(chain) for row, chain in enumerate(frame.chain)])
    most = max(frame.predicted_percent.max(), frame.measured_percent.max(), 5)
    measured = frame.measured_percent.clip(lower=-2 * most)
    axes.hlines(places, frame.predicted_percent, measured, color="#BBBBBB", linewidth=2, zorder=1)
    ring = {"facecolors": "white", "edgecolors": LARGEST_LIMIT_COLOUR, "linewidths": 1.5}
    axes.scatter(frame.predicted_percent, places, s=45, label="predicted", zorder=2, **ring)
    axes.scatter(measured, places, s=30, color=MEASURED_COLOUR, label="measured", zorder=3)
    for place, shown, percent in zip(places, measured, frame.measured_percent, strict=True):
        if percent < shown:
            axes.annotate(
                f"← {percent:.0f} %", (shown, place), (8, 4), textcoords="offset points", fontsize=8
            )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(places, sizes, fontsize=9)
    for chain in chains:
        first = places[list(frame.chain).index(chain)] - 1
        place = {"xytext": (4, 0), "textcoords": "offset points", "fontweight": "bold", "fontsize": 9}
        # The line at 0 and the grid do not cross the name.
        place["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        axes.annotate(chain, (0, first), xycoords=("axes fraction", "data"), va="center", **place)
    axes.set_ylim(-0.6, places.max() + 0.6)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#E8E8E8", linewidth=0.6)
    axes.set_axisbelow(True)
    legend_below(figure)
    axes.set_xlabel("time saved (% of the version before)")
    axes.set_title(title, fontsize=10, loc="left")
    return figure


def share_of_fusion(curves: pd.DataFrame, measured: pd.DataFrame, title: str = "") -> Figure:
    """The predicted share of the time that fusion saves, by in_features; recorded savings as points.

    curves: a column for each chain, indexed by in_features. measured: from `fgn.teaching.lessons.savings()`.
    """
    figure, (axes,) = panels(1, 3.8)
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
    axes.legend(frameon=False, fontsize=9)
    axes.set_xlabel("in_features (log scale)")
    axes.set_ylabel("time saved (%)")
    axes.set_title(title, fontsize=10, loc="left")
    return figure


def warp_sectors(addresses: dict[str, np.ndarray], counted: dict[str, float], title: str = "") -> Figure:
    """The memory that one request of a warp touches: a strip for each access pattern.

    addresses: of the 32 lanes, in bytes from the first, each reading 4. counted: the sectors of a request.
    Light: sectors of 32 bytes that have to move. Dark: their requested bytes.
    """
    figure, (axes,) = panels(1, 1.3 + 0.34 * len(addresses))
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
    axes.set_xlabel("address (bytes from the first lane's); light: moved, dark: asked for")
    axes.set_title(title, fontsize=10, loc="left")
    axes.text(1.01, 1.02, "sectors of a request", transform=axes.transAxes, fontsize=9, va="bottom")
    return figure


def warp_banks(words: dict[str, np.ndarray], counted: dict[str, float], title: str = "") -> Figure:
    """The number of words that one request of a warp needs from each bank: a strip for each access pattern.

    words: 32 numbers for each pattern, from `lessons.words_in_banks()`. counted: wavefronts of a request.
    """
    figure, (axes,) = panels(1, 1.6 + 0.34 * len(words))
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
    axes.set_xlabel("bank; in it, how many different words of it are wanted (white: none, no number: one)")
    axes.set_title(title, fontsize=10, loc="left")
    axes.text(1.01, 1.02, "wavefronts of a request", transform=axes.transAxes, fontsize=9, va="bottom")
    return figure


def _two_in_a_legend(axes, label: str):
    """The legend of two kinds above the axes, and the label of x."""
    axes.legend(
        ncols=2, loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize=9, borderaxespad=0.2
    )
    axes.set_xlabel(label)


def predictions(frame: pd.DataFrame, label: str, title: str = "") -> Figure:
    """Predicted and counted numbers, a line each: the columns `predicted` and `counted`, indexed by name."""
    figure, (axes,) = panels(1, 1.5 + 0.3 * len(frame))
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
    _two_in_a_legend(axes, label)
    axes.set_title(title, fontsize=10, loc="left")
    return figure


def asked(frame: pd.DataFrame, label: str) -> Figure:
    """Bytes read and written, a bar for each row of `frame`, which has the columns `read` and `written`."""
    figure, (axes,) = panels(1, 1.4 + 0.4 * len(frame))
    axes.barh(frame.index, frame.read, color=LARGEST_LIMIT_COLOUR, label="read")
    axes.barh(frame.index, frame.written, left=frame.read, color=LIMIT_COLOUR, label="written")
    for name, row in frame.iterrows():
        text = f"{row.read:.3g} + {row.written:.3g}"
        place = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
        axes.annotate(text, (row.read + row.written, name), **place)
    axes.set_xlim(0, 1.15 * (frame.read + frame.written).max())
    axes.invert_yaxis()
    _two_in_a_legend(axes, label)
    return figure
