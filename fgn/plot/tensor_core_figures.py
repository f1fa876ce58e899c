"""Plots of notebooks 06 and 07, drawn from what `fgn.teaching.tensor_core_lessons` returns."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.ticker import LogLocator, NullFormatter

from fgn.measure.benchmark import F_LINEAR, RIVALS
from fgn.measure.subjects import ladder_order
from fgn.plot.figures import WRONG_COLOUR, new_figure
from fgn.plot.style import FLOOR_COLOUR, colour

# Neighbours on the ladder have similar colours.
# Subjects and precisions have marks, and none has the mark of another.
SUBJECT_MARKERS = {"tensor_core": "P", "hopper": "*", F_LINEAR: "X"}
PRECISION_MARKERS = {"ieee": "o", "tf32": "s", "bf16": "^", "fp16": "D"}
EPILOGUE_COLOUR = "#E69F00"
# Four colours that differ in print and for colour-blind readers; neighbours differ in lightness.
QUAD_COLOURS = ("#440154", "#31688E", "#35B779", "#FDE725")
LAUNCH_COLOURS = {"product": "#31688E", "after it": "#E69F00"}
PIECE_STYLES = (("#31688E", "o"), ("#35B779", "s"), ("#440154", "^"), ("#7F7F7F", "D"))


def _few_ticks(axis):
    """Labels at 1, 2 and 5 of a short logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _legend_below(figure: Figure, columns: int = 4):
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=9)


# ------------------------------------------------------------------------------------------------------------
# The precisions


def precisions(predicted: pd.DataFrame, times: pd.DataFrame, title: str = "") -> Figure:
    """The time of a chain in each precision: predicted, by fgn's versions, and by torch, a line for each.

    predicted: from `fgn.teaching.tensor_core_lessons.predicted_times()`, whose first line is without tensor
    cores; times: from `recorded_precisions()`.
    """
    names = list(predicted.index)
    figure, ((axes,),) = new_figure(8.6, 1.6 + 0.55 * len(names))
    shown = times[(times.part == "chain") | (times.subject == F_LINEAR)]
    order = ladder_order(shown.subject.unique())
    shown = shown.sort_values("subject", key=lambda subject: subject.map(order.index), kind="stable")
    for place, name in enumerate(names):
        rows = shown[shown.tensor_cores & (shown.precision == name)] if place else shown[~shown.tensor_cores]
        places = place + np.linspace(-0.28, 0.28, len(rows)) if len(rows) > 1 else [place]
        least = predicted["predicted ms"][name]
        axes.plot([least, least], [place - 0.42, place + 0.42], color=FLOOR_COLOUR, linewidth=1.8, zorder=2)
        for row, height in zip(rows.itertuples(), places, strict=True):
            marker = SUBJECT_MARKERS.get(row.subject, "h")
            axes.scatter(row.median_ms, height, s=40, color=[colour(row.subject)], marker=marker, zorder=3)
        if place:
            axes.axhline(place - 0.5, color="#E8E8E8", linewidth=0.6)
    axes.plot([], [], color=FLOOR_COLOUR, linewidth=1.8, label="predicted")
    for subject in dict.fromkeys(shown.subject):
        marker = SUBJECT_MARKERS.get(subject, "h")
        axes.scatter([], [], s=40, color=[colour(subject)], marker=marker, label=subject)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xscale("log")
    _few_ticks(axes.xaxis)
    axes.grid(axis="x", color="#E8E8E8", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("time (ms, log scale); F.linear: the product alone, the others: the chain")
    axes.set_title(title, fontsize=10, loc="left")
    _legend_below(figure)
    return figure


def ladder(times: pd.DataFrame, title: str = "") -> Figure:
    """Error against time: a line for each subject, from precision to precision.

    times: from `fgn.teaching.tensor_core_lessons.recorded_precisions()`. F.linear is drawn at the error of
    torch's chain.
    """
    figure, ((axes,),) = new_figure(8.6, 5.0)
    rows = times[((times.part == "chain") | (times.subject == F_LINEAR)) & times.relative_error.notna()]
    for subject, of_subject in rows.groupby("subject", sort=False):
        of_subject = of_subject.sort_values("median_ms")
        style = {"color": colour(subject), "zorder": 3}
        line = ":" if subject in RIVALS else "-"
        axes.plot(of_subject.median_ms, of_subject.relative_error, line, linewidth=1.2, **style)
        for row in of_subject.itertuples():
            marker = PRECISION_MARKERS[row.precision]
            axes.scatter(row.median_ms, row.relative_error, s=52, marker=marker, **style)
        axes.plot([], [], line, color=colour(subject), linewidth=2, label=subject)
        if subject not in RIVALS and len(of_subject) > 1:
            last = of_subject.iloc[-1]
            place = (last.median_ms, last.relative_error)
            words = {"textcoords": "offset points", "fontsize": 9, "va": "center", "ha": "right"}
            axes.annotate(subject, place, (-8, -2), **words)
    for precision, marker in PRECISION_MARKERS.items():
        axes.scatter([], [], s=46, marker=marker, color="#555555", label=precision)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _few_ticks(axes.xaxis)
    axes.grid(color="#E8E8E8", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.annotate(
        "better", (0.02, 0.03), (0.09, 0.12), "axes fraction", "axes fraction", fontsize=9, color="#555555",
        arrowprops={"arrowstyle": "->", "color": "#555555"},
    )  # fmt: skip
    axes.set_xlabel("time (ms, log scale); F.linear: the product alone")
    axes.set_ylabel("relative error against float64 (log scale)")
    axes.set_title(title, fontsize=10, loc="left")
    _legend_below(figure, 4)
    return figure


# ------------------------------------------------------------------------------------------------------------
# Truncation in tensor cores


def promotion(
    errors: pd.DataFrame, predicted: pd.DataFrame, float32: float, marked: dict[str, int], title: str = ""
) -> Figure:
    """The error by the number of k that tensor cores add up before ordinary additions take over.

    errors: a column for each kind of pieces; predicted: from `predicted_errors()`; float32: the error of
    torch's own product; marked: places on the axis with a name.
    """
    figure, ((axes,),) = new_figure(8.6, 4.8)
    for (name, values), (of_kind, marker) in zip(errors.items(), PIECE_STYLES, strict=False):
        axes.plot(errors.index, values, marker=marker, color=of_kind, label=name)
    axes.plot(predicted.index, predicted.together, "--", color=FLOOR_COLOUR, linewidth=1.2, label="predicted")
    axes.axhline(float32, color=WRONG_COLOUR, linestyle=":", linewidth=1.5, label="torch, float32, here")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(errors.index, [f"{k:,}" for k in errors.index])
    axes.xaxis.set_minor_formatter(NullFormatter())
    low, high = axes.get_ylim()
    axes.set_ylim(low / 2.5, high)
    for name, k_between in marked.items():
        axes.axvline(k_between, color="#DDDDDD", linewidth=1, zorder=0)
        axes.annotate(
            name, (k_between, 0), (3, 4), ("data", "axes fraction"), "offset points", fontsize=9, rotation=90,
            va="bottom", ha="left",
        )  # fmt: skip
    axes.grid(axis="y", color="#E8E8E8", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("k that tensor cores add up before a promotion (log scale); the last: all of them")
    axes.set_ylabel("relative error against float64 (log scale)")
    axes.set_title(title, fontsize=10, loc="left")
    _legend_below(figure, 3)
    return figure


def signed_errors(frame: pd.DataFrame, title: str = "") -> Figure:
    """The direction of results' errors: a histogram for each column of
    `fgn.teaching.tensor_core_lessons.signed_errors()`."""
    figure, (panels,) = new_figure(8.6, 2.9, columns=len(frame.columns))
    for axes, (k_between, values) in zip(panels, frame.items(), strict=True):
        power = int(np.floor(np.log10(values.abs().max())))
        unit, reach = 10.0**power, values.abs().max() / 10.0**power
        axes.hist(
            values / unit,
            bins=np.linspace(-reach, reach, 42),
            color="#31688E",
            edgecolor="white",
            linewidth=0.3,
        )
        axes.axvline(0, color="black", linewidth=1)
        axes.axvline(values.mean() / unit, color=WRONG_COLOUR, linestyle="--", linewidth=1.5, label="mean")
        axes.set_title(f"a promotion every {k_between:,} k", fontsize=10, loc="left")
        axes.set_xlabel(f"error ($10^{{{power}}}$ of a typical output); left of 0: too small")
        axes.set_ylabel("outputs")
    figure.suptitle(title, fontsize=10)
    panels[0].legend(frameon=False, fontsize=9)
    return figure


# ------------------------------------------------------------------------------------------------------------
# Where an mma leaves its sums


def quad(owners: np.ndarray, values: np.ndarray, sums: np.ndarray) -> Figure:
    """The lane of each sum of an mma, and how the four lanes of a row find the sum of a group.

    owners: (16, 8) lane numbers; values: the group's values of a row, one for each channel; sums: (3, 4), the
    lanes' values before, between and after the two shuffles.
    """
    owners, values, sums = (np.asarray(array) for array in (owners, values, sums))
    figure, ((left, right),) = new_figure(11.0, 5.4, columns=2, width_ratios=(1, 2.1))
    rows, columns = owners.shape
    for row in range(rows):
        for column in range(columns):
            _cell(left, column, row, owners[row, column] % 4, str(owners[row, column]))
    left.set_xlim(0, columns)
    left.set_ylim(rows, 0)
    left.set_xticks(np.arange(columns) + 0.5, range(columns))
    left.set_yticks(np.arange(rows) + 0.5, range(rows))
    left.tick_params(length=0, labelsize=8)
    left.set_xlabel("column")
    left.set_ylabel("row")
    left.set_title("the lane that has each sum of an mma", fontsize=10, loc="left")

    channels = len(values)
    width = 32 / channels
    for channel, value in enumerate(values):
        lane = owners[0, channel % columns]
        _cell(right, channel * width, 0, lane % 4, f"{value:g}", width=width, fontsize=7.5)
    right.text(0, -0.35, f"row 0 of a group of {channels} channels", fontsize=9)
    lane_width, heights = 5.0, (3.0, 5.6, 8.2)
    lefts = [1.5 + 8 * lane for lane in range(4)]
    words = ("own values added", "after __shfl_xor 1", "after __shfl_xor 2")
    for step, (height, word) in enumerate(zip(heights, words, strict=True)):
        right.text(-0.6, height + 0.5, word, ha="right", va="center", fontsize=9)
        for lane in range(4):
            _cell(right, lefts[lane], height, lane, f"{sums[step, lane]:g}", width=lane_width, fontsize=10)
    for lane in range(4):
        right.text(lefts[lane] + lane_width / 2, 2.75, f"lane {lane}", ha="center", fontsize=9)
    for step, distance in enumerate((1, 2)):
        for lane in range(4):
            for source, shade in ((lane, "#555555"), (lane ^ distance, WRONG_COLOUR)):
                right.add_patch(
                    FancyArrowPatch(
                        (lefts[source] + lane_width / 2, heights[step] + 1.05),
                        (lefts[lane] + lane_width / 2, heights[step + 1] - 0.05),
                        arrowstyle="->",
                        mutation_scale=10,
                        color=shade,
                        linewidth=1,
                    )
                )
    right.set_xlim(-9.5, 33)
    right.set_ylim(9.6, -0.9)
    right.set_axis_off()
    right.set_title("the sum of its group, in every lane, by two shuffles", fontsize=10, loc="left")
    return figure


def _cell(axes, x: float, y: float, lane: int, text: str, width: float = 1.0, fontsize: float = 8):
    axes.add_patch(Rectangle((x, y), width, 1, facecolor=QUAD_COLOURS[lane], edgecolor="white", linewidth=1))
    ink = "black" if lane == 3 else "white"
    axes.text(x + width / 2, y + 0.52, text, ha="center", va="center", fontsize=fontsize, color=ink)


# ------------------------------------------------------------------------------------------------------------
# Launches


def launches(frame: pd.DataFrame, title: str = "") -> Figure:
    """The launches of a chain, one after the other: a bar for each subject, a piece for each kernel.

    frame: from `fgn.teaching.tensor_core_lessons.recorded_launches()`.
    """
    names = list(dict.fromkeys(frame.subject))
    figure, ((axes,),) = new_figure(9.4, 1.5 + 0.5 * len(names))
    longest = frame.groupby("subject").us.sum().max()
    for name in names:
        left = 0.0
        rows = frame[frame.subject == name]
        for row in rows.itertuples():
            shade = LAUNCH_COLOURS.get(row.part, colour(name))
            axes.barh(name, row.us, left=left, color=shade, edgecolor="white", height=0.62)
            if row.us > 0.04 * longest:
                ink = "black" if row.part == "after it" else "white"
                words = f"{row.us:.0f}" if row.part in LAUNCH_COLOURS else f"{row.part}: {row.us:.0f}"
                axes.text(left + row.us / 2, name, words, ha="center", va="center", color=ink)
            left += row.us
        text = f"{left:.0f} µs, {len(rows)} launch{'es' if len(rows) > 1 else ''}"
        axes.annotate(text, (left, name), (5, 0), textcoords="offset points", va="center", fontsize=9)
    for part, shade in LAUNCH_COLOURS.items():
        axes.barh(names[0], 0, color=shade, label=part)
    axes.set_xlim(0, 1.22 * axes.dataLim.xmax)
    axes.invert_yaxis()
    axes.set_xlabel("time of each kernel (µs), as ncu measures it")
    axes.set_title(title, fontsize=10, loc="left")
    _legend_below(figure)
    return figure


# ------------------------------------------------------------------------------------------------------------
# Few rows


def few_rows(frame: pd.DataFrame, title: str = "") -> Figure:
    """Time by batch, from `fgn.teaching.tensor_core_lessons.weight_times()`, a panel for each precision."""
    names = list(dict.fromkeys(frame.precision))
    figure, (panels,) = new_figure(10.4, 3.6, columns=len(names), sharey=True)
    for axes, name in zip(panels, names, strict=True):
        rows = frame[frame.precision == name]
        first = axes is panels[0]
        places = np.arange(len(rows))
        for column, subject, marker in (("few_rows ms", "few_rows", "o"), ("F.linear ms", F_LINEAR, "D")):
            label = {"few_rows": "few_rows, the chain", F_LINEAR: "F.linear, the product alone"}[subject]
            axes.plot(
                places,
                rows[column] * 1e3,
                marker=marker,
                color=colour(subject),
                label=label if first else None,
            )
        floor = rows["weight ms"].iloc[0] * 1e3
        label = "the weight once, at the copy bandwidth" if first else None
        axes.axhline(floor, color=FLOOR_COLOUR, linestyle="--", linewidth=1, label=label)
        axes.set_xticks(places, rows.batch)
        axes.set_title(f"{name}: {rows['weight MB'].iloc[0]:.0f} MB of weight", fontsize=10, loc="left")
        axes.set_xlabel("rows")
        axes.set_yscale("log")
        _few_ticks(axes.yaxis)
        axes.grid(axis="y", color="#E8E8E8", linewidth=0.6)
        axes.set_axisbelow(True)
    panels[0].set_ylabel("time (µs, log scale)")
    figure.suptitle(title, fontsize=10)
    _legend_below(figure, 3)
    return figure
