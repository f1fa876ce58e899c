"""Pictures of the model of fusion: `fgn.model`'s tables as matplotlib figures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from fgn.measure.benchmark import RIVALS
from fgn.model.predictions import NOTHING
from fgn.plot.figures import PART_COLOURS, new_figure
from fgn.plot.style import colour

# Everybody can distinguish purple and orange; 1, where nothing is bought, is white.
MAP_COLOURS = plt.colormaps["PuOr"]
MAP_LIMITS = (0.25, 16)
ALONE_COLOUR, BYTES_COLOUR, FUSED_COLOUR = "#A9C4D9", "#31688E", "#E69F00"
AIM = 0.15


def checked(frame: pd.DataFrame, title: str = "") -> Figure:
    """Predicted over measured, against the measured time: a point for each row of `fgn.model.check()`.

    Filled: held out. Hollow: a cost was found at this shape. The band is the aim, 15 %.
    """
    figure, ((axes,),) = new_figure(10.4, 5.0)
    axes.axhspan(1 / (1 + AIM), 1 + AIM, color="#E8E8E8", zorder=0)
    axes.axhline(1, color="black", linewidth=0.8, zorder=1)
    subjects = [name for name in dict.fromkeys(frame.subject) if name not in RIVALS]
    subjects += [name for name in RIVALS if name in set(frame.subject)]
    # Neighbours on the ladder have nearly the same colour, so each has its own mark.
    marks = itertools.cycle(("o", "^", "v", "<", ">", "P", "*", "h", "d", "p"))
    markers = dict(zip(RIVALS, ("s", "D", "X"), strict=True))
    markers |= {name: next(marks) for name in subjects if name not in markers}
    for name in subjects:
        for held_out, rows in frame[frame.subject == name].groupby("held_out"):
            axes.scatter(
                rows.measured_ms,
                1 + rows.error,
                s=26,
                marker=markers.get(name, "o"),
                facecolors=[colour(name)] if held_out else "none",
                edgecolors=[colour(name)],
                linewidths=1.1,
                zorder=3 if held_out else 2,
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    most = max(2.0, 1.1 * max((1 + frame.error).max(), (1 / (1 + frame.error)).max()))
    axes.set_ylim(1 / most, most)
    axes.yaxis.set_major_locator(FixedLocator([0.25, 0.33, 0.5, 0.7, 0.85, 1, 1.15, 1.4, 2, 3, 4]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda ms, _: f"{ms:g} ms" if ms >= 1 else f"{ms * 1e3:g} µs")
    )
    axes.set_xlabel("measured time (log scale)")
    axes.set_ylabel("predicted ÷ measured (log scale)")
    axes.set_title(title, fontsize=10, loc="left")

    def handle(name):
        style = {"marker": markers.get(name, "o"), "linestyle": "", "markersize": 6}
        return Line2D([], [], color=colour(name), label=name, **style)

    hollow = Line2D([], [], color="black", marker="o", linestyle="", fillstyle="none", label="not held out")
    band = Rectangle((0, 0), 1, 1, color="#E8E8E8", label="within 15 %")
    handles = [*map(handle, subjects), hollow, band]
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    return figure


def composition(tables: dict[str, pd.DataFrame], measured: dict[str, float] | None = None, title: str = ""):
    """The launches of some versions, a bar each, from `fgn.model.predict()`; measured times (ms) as marks."""
    figure, ((axes,),) = new_figure(9.4, 1.4 + 0.42 * len(tables))
    whole = {name: table["µs"].sum() for name, table in tables.items()}
    ends = [*whole.values(), *(1e3 * ms for ms in (measured or {}).values())]
    for name, table in tables.items():
        left = 0.0
        for row in table.to_dict("records"):
            words = row["launch"].split(" + ")
            part = "norm" if {"norm", "statistics", "normalise"} & set(words) else "operators"
            if "product" in words or "halves" in words:
                part = "product"
            axes.barh(name, row["µs"], left=left, color=PART_COLOURS[part], edgecolor="white", linewidth=0.8)
            left += row["µs"]
        longest = table.loc[table["µs"].idxmax(), "binds"]
        label = f"{_microseconds(left)}, {len(table)} launch{'es' if len(table) > 1 else ''}; {longest}"
        at = max(left, 1e3 * (measured or {}).get(name, 0.0))
        offset = {"xytext": (8, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
        axes.annotate(label, (at, name), **offset)
        if measured and name in measured:
            ms = measured[name]
            axes.plot(
                [1e3 * ms] * 2,
                [list(tables).index(name) + d for d in (-0.4, 0.4)],
                color="black",
                linewidth=2,
            )
    for part, of_part in PART_COLOURS.items():
        label = f"{part}, and what is fused into it" if part == "product" else part
        axes.barh(next(iter(tables)), 0, color=of_part, label=label)
    handles, _ = axes.get_legend_handles_labels()
    if measured:
        handles.append(Line2D([], [], color="black", linewidth=2, label="measured"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    axes.set_xlim(0, 1.45 * max(ends))
    axes.invert_yaxis()
    axes.set_xlabel("predicted time (µs), one piece for each launch; in words: what binds the longest one")
    axes.set_title(title, fontsize=10, loc="left")
    return figure


def operators(frame: pd.DataFrame, title: str = "") -> Figure:
    """The time of each operator in its own launches, and fused; from `fgn.model.operators()`."""
    figure, ((axes,),) = new_figure(9.4, 1.5 + 0.62 * len(frame))
    places = np.arange(len(frame))
    axes.barh(places - 0.18, frame["alone, µs"], 0.34, color=ALONE_COLOUR, label="in launches of its own")
    axes.barh(
        places - 0.18,
        frame["its bytes, µs"],
        0.1,
        color=BYTES_COLOUR,
        label="its bytes at the speed of memory",
    )
    axes.barh(places + 0.18, frame["fused, µs"], 0.34, color=FUSED_COLOUR, label="fused")
    far = {"textcoords": "offset points", "va": "center", "fontsize": 9, "xytext": (5, 0)}
    for place, row in zip(places, frame.to_dict("records"), strict=True):
        end = max(row["alone, µs"], row["its bytes, µs"])
        axes.annotate(f"{_microseconds(row['alone, µs'])}; {row['binds']}", (end, place - 0.18), **far)
        axes.annotate(_microseconds(row["fused, µs"]), (max(row["fused, µs"], 0), place + 0.18), **far)
    axes.set_yticks(places, frame.operator)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.25 * max(frame["alone, µs"].max(), frame["its bytes, µs"].max()))
    axes.set_xlabel("predicted time (µs); in words: what binds the launches")
    axes.set_title(title, fontsize=10, loc="left")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def fusion_maps(
    maps: Sequence[pd.DataFrame], recorded: Sequence[pd.DataFrame] = (), title: str = "", mark=None
) -> Figure:
    """What fusing buys, a panel for each map of `fgn.model.fusion_map()`.

    A number: how many times as long the unfused chain takes. Hatched: nothing is bought; the time falls by
    less than 5 %, or grows. Circles: measured values, from `fgn.model.recorded_ratios()`, for each map. mark:
    a (batch, width) to be framed.
    """
    across = 1 if len(maps) == 1 else 2
    down = -(-len(maps) // across)
    rows, columns = max(len(frame) for frame in maps), max(len(frame.columns) for frame in maps)
    size = max(1.3 + across * (0.5 * columns + 0.4), 5.2), 1.2 + down * (0.9 + 0.31 * rows)
    figure, panels = new_figure(*size, down, across, sharey=True)
    for unused in panels.flat[len(maps) :]:
        unused.set_visible(False)
    norm = TwoSlopeNorm(0.0, math.log2(MAP_LIMITS[0]), math.log2(MAP_LIMITS[1]))
    for place, (axes, frame) in enumerate(zip(panels.flat, maps, strict=False)):
        axes.spines[:].set_visible(True)
        points = (
            recorded[place] if place < len(recorded) else pd.DataFrame(columns=["batch", "width", "ratio"])
        )
        measured = {(row.batch, row.width): row.ratio for row in points.itertuples()}
        image = axes.imshow(
            np.log2(frame.to_numpy()), cmap=MAP_COLOURS, norm=norm, aspect="auto", origin="lower"
        )
        for y, batch in enumerate(frame.index):
            for x, of_width in enumerate(frame.columns):
                ratio = frame.loc[batch, of_width]
                if not np.isfinite(ratio):
                    axes.text(x, y, "–", ha="center", va="center", fontsize=9)
                    continue
                if ratio < 1 / (1 - NOTHING):
                    corner = (x - 0.5, y - 0.5)
                    hatch = {"hatch": "///", "edgecolor": "#888888", "linewidth": 0}
                    axes.add_patch(Rectangle(corner, 1, 1, fill=False, **hatch))
                _number(axes, x, y, ratio, norm, measured.get((batch, of_width)))
        if mark is not None:
            x, y = list(frame.columns).index(mark[1]), list(frame.index).index(mark[0])
            frame_style = {"edgecolor": "black", "linewidth": 2, "zorder": 5}
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, **frame_style))
        axes.set_xticks(range(len(frame.columns)), [f"{value}" for value in frame.columns], rotation=90)
        axes.set_yticks(range(len(frame.index)), [f"{value}" for value in frame.index])
        axes.tick_params(labelsize=8)
        axes.set_xlabel("width (in = out features)", fontsize=9)
        axes.set_title(frame.attrs.get("precision", ""), fontsize=10)
    for panel in panels[:, 0]:
        panel.set_ylabel("batch (rows)", fontsize=9)
    first = maps[0].attrs
    bar = figure.colorbar(image, ax=panels, shrink=0.9, pad=0.01)
    ticks = [ratio for ratio in (0.25, 0.5, 1, 2, 4, 8, 16) if MAP_LIMITS[0] <= ratio <= MAP_LIMITS[1]]
    bar.set_ticks([math.log2(ratio) for ratio in ticks], labels=[f"{ratio:g}" for ratio in ticks])
    bar.set_label(f"time of {first.get('unfused', '')} ÷ {first.get('fused', '')}", fontsize=9)
    handles = [
        Rectangle(
            (0, 0), 1, 1, fill=False, hatch="///", edgecolor="#888888", label="buys nothing (less than 5 %)"
        ),
        Line2D(
            [], [], color="black", marker="o", linestyle="", fillstyle="none", markersize=11, label="measured"
        ),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    if title:
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    return figure


def _number(axes, x: int, y: int, predicted: float, norm, measured: float | None):
    """The number in a cell of a map; a measured one replaces it, in a circle of its own colour."""
    shown = predicted if measured is None else measured
    face = MAP_COLOURS(norm(math.log2(shown)))
    ink = "white" if np.dot(face[:3], (0.3, 0.59, 0.11)) < 0.45 else "black"
    text = f"{shown:.2f}" if shown < 1.095 else f"{shown:.1f}" if shown < 9.95 else f"{shown:.0f}"
    weight = "normal"
    if measured is not None:
        axes.plot(x, y, marker="o", markersize=22, markerfacecolor=face, markeredgecolor="black", zorder=3)
        weight = "bold"
    box = None
    if measured is None and predicted < 1 / (1 - NOTHING):
        box = {"facecolor": face, "edgecolor": "none", "pad": 0.6}
    axes.text(x, y, text, ha="center", va="center", fontsize=9, color=ink, weight=weight, bbox=box, zorder=4)


def _microseconds(value: float) -> str:
    return f"{value:.3g} µs" if value < 1000 else f"{value / 1000:.3g} ms"
