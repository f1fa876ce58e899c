"""Plots of the Hopper ladder, drawn from what `fgn.teaching.hopper_steps` returns."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from fgn.plot.figures import WRONG_COLOUR, new_figure
from fgn.plot.style import FLOOR_COLOUR, colour
from fgn.teaching import hopper_steps as ladder

EPILOGUE_COLOUR, STORE_COLOUR = "#E69F00", "#9E9E9E"
TENSOR_CORES = "tensor cores"


def step_timeline(frame: pd.DataFrame, title: str = "", until: float | None = None) -> Figure:
    """Who does what on one multiprocessor, from `fgn.teaching.hopper_steps.timeline()`.

    A colour is a stage of the ring: its copy, which ends when its bytes have landed, and the multiplications
    that read it. The last row has all multiplications. until: the end of the axis, in clocks.
    """
    end = until or frame.end.max()
    shown = frame[frame.begin < end]
    several = len(frame.block.unique()) > 1
    names = {
        (block, who): f"block {block}, {who}" if several else who
        for block in sorted(frame.block.unique())
        for who in ("copies", *(f"warpgroup {i}" for i in range(ladder.WARPGROUPS)))
    }
    figure, axes = new_figure(10.4, 1.0 + 0.3 * (len(names) + 1), 1, 1)
    axes = axes.flat[0]
    stages = int(frame.stage.max()) + 1
    shades = plt.colormaps["viridis"](np.linspace(0.15, 0.8, max(stages, 2)))
    places = list(names)
    for row in shown.itertuples():
        place = places.index((row.block, row.who))
        face = {ladder.EPILOGUE: EPILOGUE_COLOUR, ladder.STORE: STORE_COLOUR}.get(row.what, shades[row.stage])
        bottom, tall = place - 0.4, 0.8
        if row.what == ladder.COPY:  # copies overlap, so each stage has a part of the height
            bottom, tall = place - 0.4 + 0.8 * row.stage / stages, 0.8 / stages
        span = [(row.begin / 1e3, (min(row.end, end) - row.begin) / 1e3)]
        axes.broken_barh(span, (bottom, tall), facecolor=face, edgecolor="white", linewidth=0.4)
        if row.what == ladder.MULTIPLY:
            axes.broken_barh(span, (len(names) - 0.4, 0.8), facecolor=shades[row.stage])
    axes.axhline(len(names) - 0.5, color="#BBBBBB", linewidth=0.8)
    axes.set_yticks(range(len(names) + 1), [*names.values(), TENSOR_CORES], fontsize=9)
    axes.set_ylim(len(names) + 0.5, -0.5)
    axes.set_xlim(0, end / 1e3)
    axes.set_xlabel("time (thousand clocks), in the model")
    axes.set_title(title, fontsize=10, loc="left")
    for stage in range(stages):
        axes.broken_barh(
            [], (0, 0), facecolor=shades[stage], label=f"stage {stage}" if stages > 1 else "copy, multiply"
        )
    for what, face in ((ladder.STORE, STORE_COLOUR), (ladder.EPILOGUE, EPILOGUE_COLOUR)):
        if (shown.what == what).any():
            axes.broken_barh([], (0, 0), facecolor=face, label=what)
    figure.legend(loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    return figure


def predicted_and_measured(frame: pd.DataFrame, title: str = "") -> Figure:
    """The predicted and the measured time of the chain at each step, a panel for each shape.

    frame: from `fgn.teaching.hopper_steps.results()`.
    """
    shapes = list(dict.fromkeys(frame["shape"]))
    figure, axes = new_figure(max(6.0, 3.5 * len(shapes)), 3.9, 1, len(shapes))
    for panel, shape in zip(axes.flat, shapes, strict=True):
        rows = frame[frame["shape"] == shape]
        steps = rows[rows.subject.isin(ladder.BY_VERSION)].reset_index(drop=True)
        panel.barh(steps.index, steps.measured_ms, color=[colour(name) for name in steps.subject], height=0.6)
        panel.scatter(
            steps.predicted_ms, steps.index, marker="|", s=260, linewidth=2, color=FLOOR_COLOUR, zorder=3,
            label="predicted",
        )  # fmt: skip
        for row in steps.itertuples():
            panel.annotate(
                f"{row.measured_ms:.3g}", (max(row.measured_ms, row.predicted_ms), row.Index), (6, 0),
                textcoords="offset points", va="center", fontsize=9,
            )  # fmt: skip
        others = rows[~rows.subject.isin(ladder.BY_VERSION)]
        for row, style in zip(others.itertuples(), ("--", ":", "-."), strict=False):
            panel.axvline(
                row.measured_ms, color=WRONG_COLOUR, linestyle=style, linewidth=1.3, label=row.subject
            )
        panel.set_yticks(steps.index, steps.subject if panel is axes.flat[0] else [""] * len(steps))
        panel.invert_yaxis()
        panel.set_xlim(0, 1.18 * steps[["measured_ms", "predicted_ms"]].max().max())
        panel.set_xlabel("time (ms)")
        panel.set_title(shape, fontsize=10, loc="left")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.suptitle(title, fontsize=10)
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def together_or_in_turn(frame: pd.DataFrame) -> Figure:
    """How busy the tensor cores are in the model, from `fgn.teaching.hopper_steps.together_or_in_turn()`."""
    figure, axes = new_figure(7.4, 3.6, 1, 1)
    axes = axes.flat[0]
    words = {
        "together": "one tile of 128 rows together",
        "in turn": "a tile of 64 rows each, in turn (ping-pong)",
    }
    styles = {"together": ("#31688E", "o", "-"), "in turn": (EPILOGUE_COLOUR, "s", "--")}
    for name, (shade, marker, line) in styles.items():
        axes.plot(frame.index, frame[name], line, marker=marker, color=shade, label=words[name])
    axes.set_xscale("log", base=2)
    axes.set_xticks(frame.index, [str(steps) for steps in frame.index])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(0, 100)
    axes.grid(axis="y", color="#E8E8E8", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("steps along k of a tile (log scale)")
    axes.set_ylabel("tensor cores busy (%), in the model")
    axes.set_title("the two consumer warpgroups compute", fontsize=10, loc="left")
    axes.legend(frameon=False, fontsize=9)
    return figure
