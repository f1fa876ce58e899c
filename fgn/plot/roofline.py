"""The roofline: the rates that kernels reach, against those that bandwidth and arithmetic allow. All pictures
share one roof.

`chain_roofline()`    whole chains, over the operations for each byte that must move; from `fgn.bench()`
`launch_roofline()`   every launch under the roofs of DRAM, L2 and L1: from `fgn.profile()`

The roofline model: S. Williams, A. Waterman and D. Patterson, "Roofline: an insightful visual performance
model for multicore architectures", Communications of the ACM 52 (2009).
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from cudasim.counting import metrics as m
from fgn.measure.benchmark import COMPILED, EAGER
from fgn.measure.machine import Machine
from fgn.measure.subjects import ladder_order
from fgn.plot.figures import LARGEST_LIMIT_COLOUR, new_figure
from fgn.plot.style import (
    MEASURED_STYLES,
    TORCH_COLOURS,
    WIDE,
    colour,
    launches_title,
    legend_below,
    number_of,
    number_squares,
    panels,
    require,
)
from fgn.profiling.launches import heads, level_bytes, operations


def _draw_roof(axis, ends: tuple[float, float], bandwidth: float, top: float, style: str, **options):
    """The roof between two arithmetic intensities: bandwidth up to the ridge, then arithmetic."""
    x = np.array([ends[0], np.clip(top / bandwidth, *ends), ends[1]])
    y = np.minimum(x * bandwidth, top)
    axis.plot(x, y, color="black", linestyle=style, linewidth=1.2, zorder=2, **options)


def _logarithmic(axis, low: float, high: float):
    """Both axes logarithmic, the rate in FLOP/s, the arithmetic intensity between two values."""
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(low, high)
    axis.yaxis.set_major_formatter(EngFormatter("FLOP/s"))
    axis.yaxis.set_minor_formatter(NullFormatter())


def chain_roofline(points: pd.DataFrame, machines: dict[str, Machine]) -> Figure:
    """The rates of chains against those that memory bandwidth and arithmetic allow.

    points: label, intensity (operations for each byte of the floor), rate (operations per second), subject.
    machines: one roof for each, by its name.
    """
    figure, (axes,) = panels(1, 4.6)
    intensities = points.intensity
    low, high = intensities.min() / 4, intensities.max() * 4
    _logarithmic(axes, low, high)
    for (name, machine), style in zip(machines.items(), MEASURED_STYLES, strict=False):
        top = machine.product_operations_per_second["ieee"]
        _draw_roof(axes, (low, high), machine.dram_bytes_per_second, top, style, label=f"roof: {name}")
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
    # Room below the points for the labels.
    axes.set_ylim(bottom=points.rate.min() / 4)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("arithmetic intensity: operations for each byte that must move (log scale)")
    axes.set_ylabel("speed (log scale)")
    axes.set_title(f"whole chains under the roof of {' and '.join(machines)}", fontsize=10, loc="left")
    legend_below(figure)
    return figure


def launch_roofline(launches: pd.DataFrame, machine: Machine) -> Figure:
    """Every launch under the roofs of DRAM, L2 and L1: operations per second over operations per byte there.

    Squares are the launches with the matrix product, and arrows go along the ladder from one to the next;
    dots are the other launches. Launches without operations on floats are left out.
    """
    require(launches, [m.TIME, m.DRAM_READ, m.L2_BYTES, m.L1_BYTES, *m.FP32], "launch_roofline()")
    figure, axes = new_figure(WIDE, 5.0, columns=3, sharey=True)
    work = operations(launches)
    if not work.any():
        raise ValueError("launches: launch_roofline() expected operations on floats, got none")
    rate = work / (launches[m.TIME] * 1e-9)
    levels = level_bytes(launches)
    bandwidths = {
        "DRAM": machine.dram_bytes_per_second,
        "L2": machine.l2_bytes_per_second,
        "L1 and shared memory": machine.l1_bytes_per_second,
    }
    tops = _tops(launches.precision.iloc[0], machine)
    main = heads(launches)
    is_main = launches.launch == launches.subject.map(main.launch)
    for axis, (level, bandwidth) in zip(axes[0], bandwidths.items(), strict=True):
        intensity = work / levels[level]
        seen = (intensity > 0) & np.isfinite(intensity)
        ridge = max(tops.values()) / bandwidth
        low, high = min(intensity[seen].min(), ridge) / 6, max(intensity[seen].max(), ridge) * 6
        _logarithmic(axis, low, high)
        axis.set_ylim(rate[seen].min() / 3, 4 * max(tops.values()))
        for (name, top), style in zip(tops.items(), ("-", "--"), strict=False):
            _draw_roof(axis, (low, high), bandwidth, top, style)
            # Nothing is above the roof, so the words are at the left, where the roof is lower.
            axis.plot([low, top / bandwidth], [top, top], color="#BBBBBB", linewidth=0.7, zorder=1)
            offset = {"xytext": (3, 3), "textcoords": "offset points", "fontsize": 8}
            axis.annotate(f"{name}\n{top / 1e12:.0f} TFLOP/s", (low, top), va="bottom", **offset)
        for depth, subject in enumerate(ladder_order(launches.subject.unique())):
            of_subject = (launches.subject == subject) & seen
            rest, of_main = of_subject & ~is_main, of_subject & is_main
            shade = colour(subject)
            axis.scatter(intensity[rest], rate[rest], color=shade, s=14, alpha=0.7, linewidths=0)
            square = {"marker": "s", "edgecolors": "black", "linewidths": 0.6, "zorder": 4 + depth, "s": 46}
            label = f"{number_of(subject)}  {subject}"
            axis.scatter(
                intensity[of_main], rate[of_main], color=[shade] * of_main.sum(), label=label, **square
            )
        places = {
            subject: (intensity[row], rate[row])
            for subject in main.index
            for row in launches.index[(launches.subject == subject) & is_main & seen]
        }
        path = [place for subject, place in places.items() if subject not in TORCH_COLOURS]
        for begin, end in itertools.pairwise(path):
            arrow = {"arrowstyle": "->", "color": "#555555", "linewidth": 1, "shrinkA": 4, "shrinkB": 4}
            axis.annotate("", end, begin, arrowprops=arrow, zorder=3)
        number_squares(axis, places, tuple(tops.values()))
        axis.set_title(f"{level}: {bandwidth / 1e12:.3g} TB/s", fontsize=10)
        axis.set_xlabel(f"arithmetic intensity at\n{level} (FLOP/B, log scale)")
        axis.xaxis.set_major_locator(LogLocator(numticks=7))
        axis.xaxis.set_minor_formatter(NullFormatter())
    axes[0][0].set_ylabel("operations per second (log scale)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    figure.suptitle(launches_title(launches), fontsize=10)
    return figure


def _tops(precision: str, machine: Machine) -> dict[str, float]:
    """The flat roofs for a precision: multiply-adds without tensor cores, and the fastest measured product in
    them; "ieee" takes three of float16 (`fgn.measure.floor()`)."""
    tops = {"float32 multiply-adds": machine.fp32_operations_per_second}
    if not precision:  # a call of one's own
        return tops
    seen = machine.product_operations_per_second
    if precision == "ieee":
        name, rate = "fastest product in fp16, ÷ 3", seen["fp16"] / 3
    else:
        name, rate = f"fastest product in {precision}", seen[precision]
    if rate > 1.2 * machine.fp32_operations_per_second:
        tops[name] = rate
    return tops
