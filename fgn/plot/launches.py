"""Plots of launches, from the DataFrames that `fgn.profile()` returns: by ncu, recorded, or simulated.

`bars()`                what each launch took or moved, stacked, versions and torch side by side
`memory_chart()`        bytes between registers, L1 and shared memory, L2 and DRAM
`stalls()`              why warps waited
`pipes()`               how busy each part of the machine was
`occupancy()`           how many warps there were, and what limits them
`predicted_measured()`  predictions against what was measured
`draw()` all of these for which a profile has the metrics, and the roofline (`fgn.plot.roofline`)

A plot raises ValueError with the missing metric: a simulator has no times and no waiting warps.
"""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import EngFormatter, NullFormatter

from cudasim.counting import metrics as m
from fgn.chains import CHAINS
from fgn.measure.floors import floor
from fgn.measure.machine import Machine
from fgn.measure.subjects import ladder_order
from fgn.plot.figures import PART_COLOURS, new_figure
from fgn.plot.roofline import launch_roofline
from fgn.plot.style import (
    TORCH_COLOURS,
    WIDE,
    WIDTH,
    colour,
    launches_title,
    number_of,
    number_squares,
    require,
)
from fgn.problem import PROBLEM
from fgn.profiling.launch_words import part_of
from fgn.profiling.launches import WAVEFRONT_BYTES, heads

# Okabe and Ito's palette, and greys for what matters less.
PARTS = {"preparation": "#CC79A7"} | PART_COLOURS | {"in reserve": "#BBBBBB"}
REASON_COLOURS = {
    "long scoreboard": "#0072B2",
    "lg throttle": "#56B4E9",
    "short scoreboard": "#E69F00",
    "mio throttle": "#F0E442",
    "barrier": "#D55E00",
    "math pipe throttle": "#CC79A7",
    "gmma": "#3B0FB3",
    "wait": "#009E73",
    "not selected": "#BBBBBB",
    "selected": "#444444",
    "other": "#E5E5E5",
}
INWARDS, OUTWARDS, UNKNOWN = "#31688E", "#E69F00", "#999999"
LIMITING = "#B04A00"


def _swatches(axes, names, places=None):
    """A square in the version's colour beside each name at a vertical axis; `places` are the names'
    positions."""
    axes.tick_params(axis="y", length=0, pad=14)
    for name, place in zip(names, names if places is None else places, strict=True):
        axes.plot(
            [-0.012], [place], marker="s", markersize=8, color=colour(name), clip_on=False,
            transform=axes.get_yaxis_transform(), markeredgecolor="none",
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------
# Time and bytes by launch

QUANTITIES = {
    "time": ([m.TIME], 1e-6, "time of the launches, one after another (ms), caches cold", "ms"),
    "dram": ([m.DRAM_READ, m.DRAM_WRITE], 1e-6, "bytes between L2 and DRAM (MB)", "MB"),
}


def bars(launches: pd.DataFrame, quantity: str = "time", machine: Machine | None = None) -> Figure:
    """What each launch took or moved: a bar for each version and torch's, a piece for each launch.

    launches: of one problem. quantity: "time" or "dram". With `machine`, lines mark the floor: the least time
    that it allows, or the bytes that must move. A bar far longer than most is cut off.
    """
    if quantity not in QUANTITIES:
        raise ValueError(f"quantity: expected one of {', '.join(QUANTITIES)}, got {quantity!r}")
    metrics, scale, label, unit = QUANTITIES[quantity]
    require(launches, metrics, f"bars({quantity!r})")
    names = ladder_order(launches.subject.unique())
    amounts = launches.assign(
        amount=scale * launches[metrics].sum(axis=1), part=launches.operator.map(part_of)
    )
    totals = amounts.groupby("subject").amount.sum()[names]
    limit = min(totals.max(), 2 * totals.median())
    cut = 1.25 * limit
    figure, ((axes,),) = new_figure(WIDTH, 2.0 + 0.32 * len(names))
    for name in names:
        left = 0.0
        rows = amounts[amounts.subject == name].sort_values("launch")
        for row in rows.itertuples():
            shown = min(left + row.amount, cut) - left
            if shown > 0:
                axes.barh(name, shown, left=left, color=PARTS[row.part], edgecolor="white", linewidth=0.8)
            left += row.amount
        text = f"{_short(totals[name])} {unit}, {len(rows)} launch{'es' if len(rows) > 1 else ''}"
        offset = {"textcoords": "offset points", "va": "center", "fontsize": 9}
        if totals[name] > cut:
            inside = {"xytext": (-5, 0), "ha": "right", "color": "white", "fontweight": "bold"}
            inside |= {"path_effects": [withStroke(linewidth=2.5, foreground="#222222")]}
            axes.annotate(f"{text} →", (cut, name), **offset | inside)
        else:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            axes.annotate(text, (totals[name], name), xytext=(5, 0), bbox=box, zorder=4, **offset)
    axes.set_xlim(
        0, 1.45 * limit if totals.max() <= cut else max(1.01 * cut, 1.45 * totals[totals <= cut].max())
    )
    axes.invert_yaxis()
    _swatches(axes, names)
    handles = [Patch(color=PARTS[part], label=part) for part in PARTS if (amounts.part == part).any()]
    for (words, at), style in zip(_floors(launches, quantity, machine).items(), ("--", ":"), strict=False):
        line = axes.axvline(at, color="black", linestyle=style, linewidth=1.2)
        line.set_label(f"{words} {_short(at)} {unit}")
        handles.append(line)
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    axes.set_xlabel(label)
    axes.set_title(launches_title(launches), fontsize=10, loc="left")
    return figure


def _floors(launches: pd.DataFrame, quantity: str, machine: Machine | None) -> dict[str, float]:
    """The floor of the problem, in ms or MB, and the floor without tensor cores."""
    chain, *sizes, precision = launches[PROBLEM].iloc[0]
    if machine is None or chain not in CHAINS:
        return {}
    least = floor(chain, sizes, machine, precision)
    if quantity == "dram":
        return {"must move:": least.bytes / 1e6}
    found = {"floor:": least.ms}
    without = floor(chain, sizes, machine).ms
    if precision == "ieee" and without > 1.2 * least.ms:
        found["floor without tensor cores:"] = without
    return found


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# ------------------------------------------------------------------------------------------------------------
# Memory chart


def _sum(row: pd.Series, names) -> float | None:
    there = [row[name] for name in names if name in row.index and pd.notna(row[name])]
    return float(sum(there)) if there else None


def flows(launch: pd.Series) -> dict[tuple[str, str], float | None]:
    """The bytes of one launch from one level to the next, None if the profile does not have them.

    Between registers and L1 or shared memory, these are the bytes that instructions asked for; if only
    requests were counted, shared memory has 128 bytes for each wavefront. From L1 to shared memory go copies
    that bypass registers; copies by TMA are not counted.
    """
    asked = m.ASKED
    shared_in = [asked["shared", "ld"], asked["shared", "ldsm"], asked["shared", "gmma"]]
    shared_out = [asked["shared", "st"], asked["shared", "stsm"]]
    loads, stores = _sum(launch, shared_in), _sum(launch, shared_out)
    if loads is None:
        waves = m.SHARED_WAVEFRONTS
        loads, stores = (_sum(launch, [waves[op]]) for op in ("ld", "st"))
        loads, stores = (None if v is None else v * WAVEFRONT_BYTES for v in (loads, stores))
    # TMA copied the factors to shared memory that the tensor cores read from there.
    by_tma = _sum(launch, [asked["shared", "gmma"]])
    copies = None if by_tma else _sum(launch, [asked["global", "ldgsts"]]) or 0.0
    return {
        ("shared", "registers"): loads,
        ("registers", "shared"): stores,
        ("L1", "shared"): copies,
        ("L1", "registers"): _sum(launch, [asked["global", "ld"], asked["local", "ld"]]),
        ("registers", "L1"): _sum(launch, [asked["global", "st"], asked["local", "st"]]),
        ("L2", "L1"): _sum(launch, [m.L2_TO_L1]),
        ("L1", "L2"): _sum(launch, [m.L1_TO_L2]),
        ("DRAM", "L2"): _sum(launch, [m.DRAM_READ]),
        ("L2", "DRAM"): _sum(launch, [m.DRAM_WRITE]),
    }


_BYTES = EngFormatter("B", places=1, sep=" ")
_PLACES = {
    "registers": (0.5, 0.92),
    "shared": (0.17, 0.64),
    "L1": (0.8, 0.64),
    "L2": (0.8, 0.36),
    "DRAM": (0.8, 0.08),
}
_LEVEL_WORDS = {"shared": "shared\nmemory", "L1": "L1 cache", "L2": "L2 cache"}
MOST_CHARTS = 4


def memory_chart(launches: pd.DataFrame) -> Figure:
    """The bytes of each launch between the levels of memory, one column of boxes for each launch, four at
    most. An arrow's width shows its bytes, on a logarithmic scale."""
    if not 1 <= len(launches) <= MOST_CHARTS:
        raise ValueError(f"launches: memory_chart() expected 1 to {MOST_CHARTS}, got {len(launches)}")
    figure, axes = new_figure(max(6.5, 3.2 * len(launches)), 5.4, columns=len(launches))
    moved = [flows(row) for _, row in launches.iterrows()]
    most = max([value or 0 for each in moved for value in each.values()] + [1])
    for axis, (_, row), each in zip(axes[0], launches.iterrows(), moved, strict=True):
        axis.set_xlim(-0.14, 1.16)
        axis.set_ylim(-0.02, 1.02)
        axis.axis("off")
        for name, (x, y) in _PLACES.items():
            half = 0.5 if name == "registers" else 0.17
            style = {"boxstyle": "round,pad=0.01", "facecolor": "#EEF3F7", "edgecolor": INWARDS}
            axis.add_patch(FancyBboxPatch((x - half, y - 0.045), 2 * half, 0.09, **style))
            axis.text(x, y, _LEVEL_WORDS.get(name, name), ha="center", va="center", fontsize=9)
        for (source, target), value in each.items():
            if value != 0:
                _flow(axis, source, target, value, most)
        took = f", {_time(row[m.TIME])}" if m.TIME in row.index else ""
        words = "\n".join(textwrap.wrap(row.operator, 32))
        axis.set_title(f"{row.subject}{took}\n{words}", fontsize=9)
    note = "blue: towards the registers, orange: away from them; wider: more bytes (log scale)"
    figure.suptitle(f"{launches_title(launches)}\n{note}", fontsize=9)
    return figure


def _flow(axis, source: str, target: str, value: float | None, most: float):
    words = "not counted" if value is None else _BYTES(value)
    width = 0.8 + 4.2 * max(0.0, np.log10(max(value or 1, 1) / most * 1e4) / 4)
    arrow = {
        "arrowstyle": "-|>",
        "linewidth": width,
        "linestyle": ":" if value is None else "-",
        "mutation_scale": 9 + 2 * width,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    if (source, target) == ("L1", "shared"):
        shade = UNKNOWN if value is None else INWARDS
        y = _PLACES["L1"][1]
        axis.annotate("", (0.365, y), (0.615, y), arrowprops=arrow | {"color": shade})
        axis.text(0.49, y - 0.02, words.replace("not ", "not\n"), ha="center", va="top", fontsize=8)
        return
    x = _PLACES[source if source != "registers" else target][0]
    begin, end = _PLACES[source][1], _PLACES[target][1]
    down = begin > end
    at, step = (x + 0.08, -0.065) if down else (x - 0.08, 0.065)
    shade = UNKNOWN if value is None else OUTWARDS if down else INWARDS
    axis.annotate("", (at, end - step), (at, begin + step), arrowprops=arrow | {"color": shade})
    words = words.replace("not ", "not\n")
    beside, side = (0.055, "left") if down else (-0.055, "right")
    height = (begin + end) / 2 + (-0.03 if down else 0.03)
    axis.text(at + beside, height, words, va="center", fontsize=8, ha=side)


def _time(nanoseconds: float) -> str:
    return f"{_short(nanoseconds / 1e6)} ms" if nanoseconds >= 1e5 else f"{nanoseconds / 1e3:.3g} µs"


# ------------------------------------------------------------------------------------------------------------
# Inside the multiprocessor


def _title(launches: pd.DataFrame) -> str:
    # A user's call is no chain, and has no product to distinguish from other launches.
    which = "the launch with the matrix product: " if launches.chain.iloc[0] else ""
    return f"{which}{launches_title(launches)}"


def stalls(launches: pd.DataFrame) -> Figure:
    """Why warps did not issue, in the launch with the matrix product of each subject.

    A bar is the whole time of the resident warps, and its pieces are their states: "selected" is issuing, and
    every other piece is waiting, for ncu's reason.
    """
    require(launches, [m.STALLS["selected"]], "stalls()")
    main = heads(launches)
    table = pd.DataFrame({name: main[metric] for name, metric in m.STALLS.items() if metric in main})
    named = [name for name in REASON_COLOURS if name in table]
    table["other"] = table.drop(columns=named).sum(axis=1)
    cycles = table[[*named, "other"]].sum(axis=1)
    shares = 100 * table[[*named, "other"]].div(cycles, axis=0)
    figure, ((axes,),) = new_figure(WIDTH, 2.3 + 0.32 * len(shares))
    left = np.zeros(len(shares))
    for name in shares:
        if shares[name].max() >= 0.5:
            style = {"color": REASON_COLOURS[name], "edgecolor": "white", "linewidth": 0.5}
            axes.barh(shares.index, shares[name], left=left, label=name, **style)
        left += shares[name].to_numpy()
    for subject, value in cycles.items():
        offset = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
        axes.annotate(f"{value:,.1f} cycles", (100, subject), **offset)
    axes.set_xlim(0, 118)
    axes.set_xticks(range(0, 101, 20))
    axes.invert_yaxis()
    _swatches(axes, shares.index)
    axes.set_xlabel("share of the warps' time (%); beside it: cycles of a warp for each of its instructions")
    axes.set_title(_title(launches), fontsize=10, loc="left")
    figure.legend(loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    return figure


def pipes(launches: pd.DataFrame) -> Figure:
    """How busy each part of the machine was in the launch with the matrix product, in percent of its peak."""
    require(launches, [m.ISSUE], "pipes()")
    main = heads(launches)
    columns = {"issue slots": m.ISSUE} | m.PIPES | {k: m.THROUGHPUTS[k] for k in ("L2", "DRAM")}
    table = pd.DataFrame({name: main[metric] for name, metric in columns.items() if metric in main})
    figure, ((axes,),) = new_figure(WIDTH, 1.8 + 0.34 * len(table))
    image = axes.imshow(table, cmap="cividis", vmin=0, vmax=100, aspect="auto")
    for (i, j), value in np.ndenumerate(table.to_numpy()):
        shade = "black" if value > 50 else "white"
        axes.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=9, color=shade)
    axes.set_xticks(range(table.shape[1]), table.columns, fontsize=9)
    axes.set_yticks(range(len(table)), table.index)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    _swatches(axes, table.index, range(len(table)))
    axes.set_ylim(len(table) - 0.5, -0.5)
    figure.colorbar(image, ax=axes, label="busy (%)", pad=0.01)
    axes.set_title(_title(launches), fontsize=10, loc="left", pad=10)
    return figure


RESERVED_BYTES = 1024  # of shared memory, which CUDA takes for each block


def blocks_by_shared_memory(launches: pd.DataFrame) -> pd.Series:
    """How many blocks shared memory would allow each launch.

    ncu uses the part of L1 that the driver has made shared memory for this launch, and the driver gives only
    what the blocks allowed by registers can use. So kernels with the same shared memory get limits of 1 and
    of 10. Here each gets the most that any of the launches shows to be available.
    """
    counted = launches[m.OCCUPANCY_LIMITS["shared memory"]]
    asked = launches[m.SHARED_STATIC] + launches[m.SHARED_DYNAMIC]
    own = asked.where(asked > 0) + RESERVED_BYTES
    largest = (own * counted).max()
    return counted.where(asked == 0, (largest // own).fillna(0).clip(lower=counted))


def occupancy(launches: pd.DataFrame) -> Figure:
    """The possible and measured warps on a multiprocessor in the launch with the matrix product, and the
    warps that each resource would allow. The resource that allows the fewest is bold and red."""
    require(launches, [*m.OCCUPANCY_LIMITS.values(), m.OCCUPANCY], "occupancy()")
    main = heads(launches)
    figure, ((axes, table),) = new_figure(WIDE, 2.0 + 0.34 * len(main), columns=2, width_ratios=(1, 1.5))
    axes.barh(main.index, main[m.OCCUPANCY_POSSIBLE], color="#D5DEE6", label="possible")
    axes.barh(main.index, main[m.OCCUPANCY], height=0.45, color=[colour(name) for name in main.index])
    axes.set_xlim(0, 100)
    axes.invert_yaxis()
    axes.set_xlabel("warps on a multiprocessor (% of the most it holds)\nlight: possible, dark: seen")
    limits = pd.DataFrame({name: main[metric] for name, metric in m.OCCUPANCY_LIMITS.items()})
    limits["shared memory"] = blocks_by_shared_memory(main)
    shared = (main[m.SHARED_STATIC] + main[m.SHARED_DYNAMIC]) / 1024
    uses = pd.DataFrame(
        {"registers\nof a thread": main[m.REGISTERS], "shared memory\nof a block, KiB": shared}
    )
    table.set_xlim(-0.6, uses.shape[1] + limits.shape[1] - 0.4)
    table.set_ylim(*axes.get_ylim())
    table.axvspan(-0.6, uses.shape[1] - 0.5, color="#F2F2F2", linewidth=0)
    for row in range(len(main)):
        for column, value in enumerate(uses.iloc[row]):
            table.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=10)
        for column, value in enumerate(limits.iloc[row], start=uses.shape[1]):
            limiting = value == limits.iloc[row].min()
            style = {"color": LIMITING, "fontweight": "bold"} if limiting else {"color": "#555555"}
            table.text(column, row, f"{min(value, 32):.0f}", ha="center", va="center", fontsize=10, **style)
    words = [*uses.columns, *(f"by\n{name}" for name in limits.columns)]
    table.set_xticks(range(len(words)), words, fontsize=9)
    table.set_yticks([])
    table.tick_params(length=0)
    table.spines[:].set_visible(False)
    table.set_xlabel("grey: what it uses; right: blocks that each resource would allow, red: what limits")
    figure.suptitle(_title(launches), fontsize=10)
    return figure


# ------------------------------------------------------------------------------------------------------------
# Predictions


def predicted_measured(frame: pd.DataFrame, unit: str, words: str = "") -> Figure:
    """Predictions against measurements, on logarithmic axes. On the line the two agree; in the grey band they
    differ by at most 15 %.

    frame: predicted, measured, subject (a version or one of torch's). unit: of both. words: the title. If
    each subject has one point, its number is beside the point.
    """
    missing = [name for name in ("predicted", "measured", "subject") if name not in frame]
    if missing:
        raise ValueError(f"frame: expected the columns predicted, measured and subject, got no {missing[0]}")
    figure, ((axes,),) = new_figure(7.6, 5.2)
    values = frame[["predicted", "measured"]]
    low, high = 0.6 * values.min().min(), 1.7 * values.max().max()
    ends = np.array([low, high])
    axes.fill_between(ends, 0.85 * ends, 1.15 * ends, color="#E0E0E0", zorder=0, label="within 15 %")
    axes.plot(ends, ends, color="black", linewidth=1)
    for subject in ladder_order(list(frame.subject.unique())):
        rows = frame[frame.subject == subject]
        style = {"s": 30, "edgecolors": "black", "linewidths": 0.4, "zorder": 3}
        shades = [colour(subject)] * len(rows)
        label = f"{number_of(subject)}  {subject}" if frame.subject.is_unique else subject
        axes.scatter(rows.measured, rows.predicted, color=shades, label=label, **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    if frame.subject.is_unique:
        number_squares(axes, {row.subject: (row.measured, row.predicted) for row in frame.itertuples()})
    axes.set_xlabel(f"measured ({unit}, log scale)")
    axes.set_ylabel(f"predicted ({unit}, log scale)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    axes.set_title(words, fontsize=10, loc="left")
    figure.legend(loc="outside right center", frameon=False, fontsize=9)
    return figure


# ------------------------------------------------------------------------------------------------------------
# All of them


def _some_heads(launches: pd.DataFrame) -> pd.DataFrame:
    """The product's launch of some versions, from the first to the last: as many as a memory chart has room
    for."""
    main = heads(launches)
    names = [name for name in main.index if name not in TORCH_COLOURS] or list(main.index)
    chosen = np.unique(np.linspace(0, len(names) - 1, MOST_CHARTS).round().astype(int))
    rows = main.loc[[names[index] for index in chosen]].reset_index()
    rows.attrs = launches.attrs
    return rows


def draw(launches: pd.DataFrame, machine: Machine | None = None) -> tuple[dict[str, Figure], dict[str, str]]:
    """Every plot of the launches of one problem, by name, and the reason for each plot that cannot be drawn.

    machine: the machine on which the launches ran; without it there is no roofline and no floor.
    """
    plots = {
        "time": lambda: bars(launches, "time", machine),
        "dram": lambda: bars(launches, "dram", machine),
        "memory": lambda: memory_chart(_some_heads(launches)),
        "stalls": lambda: stalls(launches),
        "pipes": lambda: pipes(launches),
        "occupancy": lambda: occupancy(launches),
    }
    figures, reasons = {}, {}
    if machine is not None:
        plots["roofline"] = lambda: launch_roofline(launches, machine)
    else:
        reasons["roofline"] = "machine: launch_roofline() needs measured ceilings, got none"
    for name, plot in plots.items():
        try:
            figures[name] = plot()
        except ValueError as error:
            reasons[name] = str(error)
    return figures, reasons
