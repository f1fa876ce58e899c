"""Plots of launches, from the DataFrames that `fgn.profile()` returns: by ncu, recorded, or simulated.

`bars()`             what each launch took or moved, stacked, versions and torch side by side
`roofline()`         operations against bytes of DRAM, L2 and L1, under measured roofs
`memory_chart()`     bytes between registers, L1 and shared memory, L2 and DRAM
`stalls()`           why warps waited
`pipes()`            how busy each part of a multiprocessor was
`occupancy()`        how many warps there were, and what limits them
`predicted_measured()`  predictions against what was measured
"""

from __future__ import annotations

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from fgn import metrics as m
from fgn.bench import Ceilings, floor
from fgn.ceilings import Roofs
from fgn.plot import PART_COLOURS, TORCH_COLOURS, colour, ladder_order
from fgn.profile import MATRIX_PRODUCTS, PROBLEM

WIDTH = 9.5
SECTOR_BYTES, WAVEFRONT_BYTES = 32, 128

# Okabe and Ito's palette, and greys for what matters less.
REASON_COLOURS = {
    "long scoreboard": "#0072B2",
    "lg throttle": "#56B4E9",
    "short scoreboard": "#E69F00",
    "mio throttle": "#F0E442",
    "barrier": "#D55E00",
    "math pipe throttle": "#CC79A7",
    "gmma": "#882255",
    "wait": "#009E73",
    "not selected": "#BBBBBB",
    "selected": "#444444",
    "other": "#E5E5E5",
}


def _figure(rows: int = 1, columns: int = 1, height: float = 3.0, width: float = WIDTH, **options):
    figure, axes = plt.subplots(
        rows, columns, figsize=(width, height), squeeze=False, layout="constrained", **options
    )
    # Once closed, a figure is shown where it is returned, and not a second time by pyplot.
    plt.close(figure)
    return figure, axes


def _plain(axes):
    axes.spines[["top", "right"]].set_visible(False)


def _require(launches: pd.DataFrame, names, what: str):
    missing = [name for name in names if name not in launches]
    if missing:
        raise ValueError(
            f"launches: {what} needs the metric {missing[0]}, which "
            f"{launches.attrs.get('machine', 'this profile')} does not have"
        )


def title(launches: pd.DataFrame) -> str:
    """What was profiled, where: the chain, its sizes, the precisions and the machine."""
    problems = launches[PROBLEM].drop_duplicates()
    words = []
    if len(problems.drop(columns="precision").drop_duplicates()) == 1:
        row = problems.iloc[0]
        if row.chain:
            words += [row.chain, f"{row.batch} × {row.in_features} → {row.out_features}"]
            words += [f"{row.groups} groups", ", ".join(problems.precision.unique())]
    return ", ".join([*words, launches.attrs.get("machine", "")]).strip(", ")


def part_of(operator: str) -> str:
    """Whether a launch is the matrix product (with whatever is fused to it), a norm, or other operators."""
    if operator.startswith(("product", "hopper")) or MATRIX_PRODUCTS.search(operator):
        return "product"
    return "norm" if re.search(r"statistics|normalise|norm", operator) else "operators"


def _subjects(launches: pd.DataFrame) -> list[str]:
    return ladder_order(list(launches.subject.unique()))


def products(launches: pd.DataFrame) -> pd.DataFrame:
    """The launch with the matrix product of each subject, indexed by subject in the ladder's order."""
    rows = launches[launches.operator.map(part_of) == "product"]
    if m.TIME in rows:
        rows = rows.sort_values(m.TIME, ascending=False)
    rows = rows.drop_duplicates("subject").set_index("subject")
    return rows.loc[ladder_order(list(rows.index))]


# ------------------------------------------------------------------------------------------------------------
# Time and bytes by launch

QUANTITIES = {
    "time": (lambda row: row[m.TIME] / 1e6, "time of the launches (ms), caches cold", "ms"),
    "dram": (
        lambda row: (row[m.DRAM_READ] + row[m.DRAM_WRITE]) / 1e6,
        "bytes between L2 and DRAM (MB)",
        "MB",
    ),
}


def bars(launches: pd.DataFrame, quantity: str = "time", roofs: Roofs | None = None) -> Figure:
    """What each launch took or moved: a bar for each version and each of torch's ways, a piece for each launch.

    launches: of one problem. quantity: "time" or "dram". With `roofs`, a line marks the floor: the least time
    that these roofs allow, or the bytes that must move. A bar far longer than most is cut.
    """
    if quantity not in QUANTITIES:
        raise ValueError(f"quantity: expected one of {', '.join(QUANTITIES)}, got {quantity!r}")
    value, label, unit = QUANTITIES[quantity]
    _require(launches, [m.TIME] if quantity == "time" else [m.DRAM_READ, m.DRAM_WRITE], f"bars({quantity!r})")
    names = _subjects(launches)
    rows = {name: launches[launches.subject == name].sort_values("launch") for name in names}
    totals = pd.Series({name: sum(value(row) for _, row in rows[name].iterrows()) for name in names})
    limit = min(totals.max(), 3 * totals.median())
    figure, ((axes,),) = _figure(height=1.6 + 0.34 * len(names))
    for name in names:
        left = 0.0
        for _, row in rows[name].iterrows():
            width = value(row)
            shown = min(left + width, 1.25 * limit) - left
            if shown > 0:
                colour_of_part = PART_COLOURS[part_of(row.operator)]
                axes.barh(name, shown, left=left, color=colour_of_part, edgecolor="white", linewidth=0.8)
            left += width
        count = len(rows[name])
        text = f"{_short(totals[name])} {unit}, {count} launch{'es' if count > 1 else ''}"
        offset = {"textcoords": "offset points", "va": "center", "fontsize": 9}
        if totals[name] > 1.25 * limit:
            inside = {"xytext": (-5, 0), "ha": "right", "color": "white", "fontweight": "bold"}
            axes.annotate(f"{text} →", (1.25 * limit, name), **offset | inside)
        else:
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            axes.annotate(text, (totals[name], name), xytext=(5, 0), bbox=box, zorder=4, **offset)
    axes.set_xlim(0, 1.55 * limit if totals.max() <= 1.25 * limit else 1.26 * limit)
    axes.invert_yaxis()
    for tick in axes.get_yticklabels():
        tick.set_color("#B04A00" if tick.get_text() in TORCH_COLOURS else "black")
    handles = [Patch(color=shade, label=part) for part, shade in PART_COLOURS.items()]
    if roofs is not None:
        least = _floor(launches, roofs)
        at = least.ms if quantity == "time" else least.bytes / 1e6
        line = axes.axvline(
            at, color="black", linestyle="--", linewidth=1, label=f"floor {_short(at)} {unit}"
        )
        handles.append(line)
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    _plain(axes)
    axes.set_xlabel(label)
    axes.set_title(title(launches), fontsize=10, loc="left")
    return figure


def _floor(launches: pd.DataFrame, roofs: Roofs):
    chain, *sizes, precision = launches[PROBLEM].iloc[0]
    rate = roofs.product_operations_per_second[precision]
    least = floor(chain, sizes, Ceilings(roofs.dram_bytes_per_second, rate))
    if precision in ("bf16", "fp16"):
        halved = least.memory_ms / 2
        return least._replace(bytes=least.bytes // 2, memory_ms=halved)
    return least


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# ------------------------------------------------------------------------------------------------------------
# Roofline


def operations(launches: pd.DataFrame) -> pd.Series:
    """Operations of each launch: float32 ones (a multiply-add is two) and the tensor cores'."""
    total = pd.Series(0.0, index=launches.index)
    for name, each in m.FP32.items():
        total += launches.get(name, 0) * each
    for name in m.TENSOR:
        total += launches.get(name, 0)
    return total


def level_bytes(launches: pd.DataFrame) -> pd.DataFrame:
    """Bytes that crossed each level: DRAM; L2 (all its traffic); L1 (its sectors, and 128 bytes for each
    wavefront of shared memory)."""
    shared = sum(
        (launches[name] for name in m.SHARED_WAVEFRONTS.values() if name in launches),
        start=pd.Series(0.0, index=launches.index),
    )
    return pd.DataFrame(
        {
            "DRAM": launches[m.DRAM_READ] + launches[m.DRAM_WRITE],
            "L2": launches[m.L2_BYTES],
            "L1 and shared": launches[m.L1_BYTES] + WAVEFRONT_BYTES * shared,
        }
    )


def roofline(launches: pd.DataFrame, roofs: Roofs) -> Figure:
    """Every launch under the roofs of DRAM, L2 and L1: operations per second over operations per byte there.

    Squares are launches with the matrix product, arrows go along the ladder from one to the next; dots are
    the other launches. Launches without operations of floats are left out.
    """
    _require(launches, [m.TIME, m.L2_BYTES, m.L1_BYTES, *m.FP32], "roofline()")
    figure, axes = _figure(1, 3, height=4.6, width=12.5, sharey=True)
    work = operations(launches)
    rate = work / (launches[m.TIME] * 1e-9)
    levels = level_bytes(launches)
    bandwidths = {
        "DRAM": roofs.dram_bytes_per_second,
        "L2": roofs.l2_bytes_per_second,
        "L1 and shared": roofs.l1_bytes_per_second,
    }
    precision = launches.precision.iloc[0]
    tops = {"FP32 multiply-adds": roofs.fp32_operations_per_second}
    fastest = roofs.product_operations_per_second.get(precision, 0)
    if fastest > 1.2 * roofs.fp32_operations_per_second:
        tops[f"fastest product, {precision}"] = fastest
    heads = products(launches)
    for axis, (level, bandwidth) in zip(axes[0], bandwidths.items(), strict=True):
        intensity = work / levels[level]
        seen = (intensity > 0) & np.isfinite(intensity)
        low, high = intensity[seen].min() / 3, max(intensity[seen].max(), max(tops.values()) / bandwidth) * 4
        for (name, top), style in zip(tops.items(), ("-", "--"), strict=False):
            x = np.array([low, top / bandwidth, high])
            axis.plot(x, np.minimum(x * bandwidth, top), color="black", linestyle=style, linewidth=1.2)
            axis.annotate(
                f"{name} {top / 1e12:.0f} TFLOP/s",
                (high, top),
                xytext=(0, 3),
                textcoords="offset points",
                ha="right",
                fontsize=8,
            )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlim(low, high)
        for subject in _subjects(launches):
            rows = launches.index[(launches.subject == subject) & seen]
            main = [row for row in rows if part_of(launches.operator[row]) == "product"]
            rest = [row for row in rows if row not in main]
            shade = colour(subject)
            axis.scatter(intensity[rest], rate[rest], color=shade, s=14, alpha=0.7, linewidths=0)
            style = {"marker": "s", "edgecolors": "black", "linewidths": 0.6, "zorder": 4, "s": 46}
            axis.scatter(intensity[main], rate[main], color=[shade] * len(main), label=subject, **style)
        path = []
        for subject in heads.index:
            if subject in TORCH_COLOURS:
                continue
            row = launches.index[(launches.subject == subject) & (launches.launch == heads.launch[subject])][
                0
            ]
            path.append((intensity[row], rate[row]))
        for begin, end in zip(path, path[1:], strict=False):
            arrow = {"arrowstyle": "->", "color": "#555555", "linewidth": 1, "shrinkA": 3, "shrinkB": 3}
            axis.annotate("", end, begin, arrowprops=arrow, zorder=3)
        axis.set_title(f"{level}: {bandwidth / 1e12:.3g} TB/s", fontsize=10)
        axis.set_xlabel(f"operations for each byte of {level}")
        axis.yaxis.set_major_formatter(EngFormatter("FLOP/s"))
        axis.yaxis.set_minor_formatter(NullFormatter())
        axis.xaxis.set_major_locator(LogLocator(numticks=7))
        axis.xaxis.set_minor_formatter(NullFormatter())
        _plain(axis)
    axes[0][0].set_ylabel("operations per second (log scale)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    figure.suptitle(title(launches), fontsize=10)
    return figure


# ------------------------------------------------------------------------------------------------------------
# Memory chart


def _sum(row: pd.Series, names) -> float | None:
    there = [row[name] for name in names if name in row.index and pd.notna(row[name])]
    return float(sum(there)) if there else None


def flows(launch: pd.Series) -> dict[tuple[str, str], float | None]:
    """The bytes of one launch from one level to the next, None where the profile does not say.

    Between registers and L1 or shared memory it is what instructions asked for; where only requests were
    counted, shared memory's are the wavefronts, of 128 bytes each. Copies that go to shared memory without
    passing through registers (ldgsts) count between L1 and shared memory only.
    """
    asked = m.ASKED
    shared_in = [asked["shared", "ld"], asked["shared", "ldsm"], asked["shared", "gmma"]]
    shared_out = [asked["shared", "st"], asked["shared", "stsm"]]
    loads, stores = _sum(launch, shared_in), _sum(launch, shared_out)
    if loads is None:
        waves = m.SHARED_WAVEFRONTS
        loads, stores = (_sum(launch, [waves[op]]) for op in ("ld", "st"))
        loads, stores = (None if v is None else v * WAVEFRONT_BYTES for v in (loads, stores))
    return {
        ("shared", "registers"): loads,
        ("registers", "shared"): stores,
        ("L1", "registers"): _sum(launch, [asked["global", "ld"], asked["local", "ld"]]),
        ("registers", "L1"): _sum(launch, [asked["global", "st"], asked["local", "st"]]),
        ("L2", "L1"): _sum(launch, [m.L2_TO_L1]),
        ("L1", "L2"): _sum(launch, [m.L1_TO_L2]),
        ("DRAM", "L2"): _sum(launch, [m.DRAM_READ]),
        ("L2", "DRAM"): _sum(launch, [m.DRAM_WRITE]),
    }


_BYTES = EngFormatter("B", places=1, sep=" ")


def memory_chart(launches: pd.DataFrame) -> Figure:
    """The bytes of each launch between the levels of memory, one column of boxes for each launch (four at most
    can be read). An arrow is the wider the more bytes it carries, on a logarithmic scale."""
    count = len(launches)
    figure, axes = _figure(1, count, height=5.0, width=max(4.6, 3.3 * count))
    places = {
        "registers": (0.5, 0.92),
        "shared": (0.2, 0.64),
        "L1": (0.8, 0.64),
        "L2": (0.8, 0.36),
        "DRAM": (0.8, 0.08),
    }
    words = {"shared": "shared\nmemory", "L1": "L1 cache", "L2": "L2 cache"}
    moved = [flows(row) for _, row in launches.iterrows()]
    most = max([value or 0 for each in moved for value in each.values()] + [1])
    for axis, (_, row), each in zip(axes[0], launches.iterrows(), moved, strict=True):
        axis.set_xlim(-0.12, 1.12)
        axis.set_ylim(-0.02, 1.02)
        axis.axis("off")
        for name, (x, y) in places.items():
            half = 0.5 if name == "registers" else 0.2
            box = FancyBboxPatch(
                (x - half, y - 0.045), 2 * half, 0.09, boxstyle="round,pad=0.01", facecolor="#EEF3F7",
                edgecolor="#31688E",
            )  # fmt: skip
            axis.add_patch(box)
            axis.text(x, y, words.get(name, name), ha="center", va="center", fontsize=9)
        for (source, target), value in each.items():
            x = places[source if source != "registers" else target][0]
            down = places[source][1] > places[target][1]
            at = x + (0.09 if down else -0.09)
            begin, end = places[source][1], places[target][1]
            step = -0.065 if down else 0.065
            if value == 0:
                continue
            width = 0.8 + 4.2 * max(0.0, np.log10(max(value or 1, 1) / most * 1e4) / 4)
            style = ":" if value is None else "-"
            shade = "#999999" if value is None else "#E69F00" if down else "#31688E"
            arrow = {"arrowstyle": "-|>", "linewidth": width, "color": shade, "linestyle": style,
                     "mutation_scale": 9 + 2 * width, "shrinkA": 0, "shrinkB": 0}  # fmt: skip
            axis.annotate("", (at, end - step), (at, begin + step), arrowprops=arrow)
            text = "not counted" if value is None else _BYTES(value)
            side = {"ha": "left"} if down else {"ha": "right"}
            height = (begin + end) / 2 + (-0.03 if down else 0.03)
            axis.text(at + (0.035 if down else -0.035), height, text, va="center", fontsize=8, **side)
        took = f", {_short(row[m.TIME] / 1e3)} µs" if m.TIME in row.index else ""
        axis.set_title(f"{row.subject}{took}\n{_wrapped(row.operator)}", fontsize=9)
    figure.suptitle(f"{title(launches)}\nblue: towards the registers, orange: away from them", fontsize=9)
    return figure


def _wrapped(text: str, width: int = 30) -> str:
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + len(word) + 1 > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


# ------------------------------------------------------------------------------------------------------------
# Inside the multiprocessor


def stalls(launches: pd.DataFrame) -> Figure:
    """Why warps did not issue, for the launch with the matrix product of each subject.

    A bar is all the time of the warps that were there; its pieces are what they did: issuing is "selected",
    and every other piece is waiting, for the reason that ncu gives it.
    """
    _require(launches, [m.STALLS["selected"]], "stalls()")
    heads = products(launches)
    table = pd.DataFrame({name: heads[metric] for name, metric in m.STALLS.items() if metric in heads})
    named = [name for name in REASON_COLOURS if name in table]
    table["other"] = table.drop(columns=named).sum(axis=1)
    warps = table[[*named, "other"]].sum(axis=1)
    shares = 100 * table[[*named, "other"]].div(warps, axis=0)
    figure, ((axes,),) = _figure(height=1.9 + 0.34 * len(shares))
    left = np.zeros(len(shares))
    for name in shares:
        if shares[name].max() >= 0.5:
            axes.barh(
                shares.index, shares[name], left=left, color=REASON_COLOURS[name], label=name,
                edgecolor="white", linewidth=0.5,
            )  # fmt: skip
        left += shares[name].to_numpy()
    for subject, cycles in warps.items():
        text = f"{cycles:,.1f} cycles an instruction"
        axes.annotate(
            text, (100, subject), xytext=(5, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.set_xlim(0, 128)
    axes.set_xticks(range(0, 101, 20))
    axes.invert_yaxis()
    _plain(axes)
    axes.set_xlabel("share of the warps' time (%); beside: cycles of a warp for each of its instructions")
    axes.set_title(f"matrix product: {title(launches)}", fontsize=10, loc="left")
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return figure


def pipes(launches: pd.DataFrame) -> Figure:
    """How busy each part of the machine was in the launch with the matrix product, in percent of its most."""
    _require(launches, [m.ISSUE], "pipes()")
    heads = products(launches)
    columns = {"issue slots": m.ISSUE} | m.PIPES | {k: m.THROUGHPUTS[k] for k in ("L2", "DRAM")}
    table = pd.DataFrame({name: heads[metric] for name, metric in columns.items() if metric in heads})
    figure, ((axes,),) = _figure(height=1.5 + 0.36 * len(table))
    image = axes.imshow(table, cmap="cividis", vmin=0, vmax=100, aspect="auto")
    for (i, j), value in np.ndenumerate(table.to_numpy()):
        shade = "black" if value > 55 else "white"
        axes.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=9, color=shade)
    axes.set_xticks(range(table.shape[1]), table.columns, fontsize=9)
    axes.set_yticks(range(len(table)), table.index)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    figure.colorbar(image, ax=axes, label="% of the most it can do", pad=0.01)
    axes.set_title(f"matrix product: {title(launches)}", fontsize=10, loc="left")
    return figure


def occupancy(launches: pd.DataFrame) -> Figure:
    """The warps on a multiprocessor, possible and seen, in the launch with the matrix product; and how many
    blocks each resource would allow. The least of them is what limits, and is drawn in red."""
    _require(launches, [*m.OCCUPANCY_LIMITS.values(), m.OCCUPANCY], "occupancy()")
    heads = products(launches)
    limits = pd.DataFrame({name: heads[metric] for name, metric in m.OCCUPANCY_LIMITS.items()})
    figure, ((axes, table),) = _figure(1, 2, height=1.5 + 0.36 * len(heads), width=11, width_ratios=(1, 1.1))
    axes.barh(heads.index, heads[m.OCCUPANCY_POSSIBLE], color="#D5DEE6", label="possible")
    shades = [colour(name) for name in heads.index]
    axes.barh(heads.index, heads[m.OCCUPANCY], height=0.45, color=shades, label="seen")
    axes.set_xlim(0, 100)
    axes.invert_yaxis()
    _plain(axes)
    axes.set_xlabel("warps on a multiprocessor, % of its most\n(light: possible; dark: seen)")
    shown = limits.clip(upper=32)
    table.set_xlim(-0.5, limits.shape[1] - 0.5)
    table.set_ylim(*axes.get_ylim())
    for i in range(len(heads)):
        least = limits.iloc[i].min()
        for j in range(limits.shape[1]):
            value = shown.iloc[i, j]
            limiting = limits.iloc[i, j] == least
            style = {"color": "#D55E00", "fontweight": "bold"} if limiting else {"color": "#555555"}
            table.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=10, **style)
    registers = heads[m.REGISTERS].astype(int).astype(str)
    shared = ((heads[m.SHARED_STATIC] + heads[m.SHARED_DYNAMIC]) / 1024).map("{:.0f}".format)
    words = [f"{r} regs, {s} KiB" for r, s in zip(registers, shared, strict=True)]
    table.set_yticks(range(len(heads)), words, fontsize=9)
    table.set_xticks(range(limits.shape[1]), limits.columns, fontsize=9)
    table.tick_params(length=0)
    table.spines[:].set_visible(False)
    table.set_xlabel("blocks that each would allow on a multiprocessor\n(red: what limits)")
    table.set_ylabel("of a thread, of a block", fontsize=8)
    figure.suptitle(f"matrix product: {title(launches)}", fontsize=10)
    return figure


# ------------------------------------------------------------------------------------------------------------
# Predictions


def predicted_measured(frame: pd.DataFrame, unit: str, words: str = "") -> Figure:
    """Predictions against measurements, both axes logarithmic; on the line they agree, in the grey band they
    differ by 15 % at most.

    frame: predicted, measured, subject. unit: of both.
    """
    figure, ((axes,),) = _figure(height=5.2, width=7.2)
    low = 0.6 * frame[["predicted", "measured"]].min().min()
    high = 1.7 * frame[["predicted", "measured"]].max().max()
    ends = np.array([low, high])
    axes.fill_between(ends, 0.85 * ends, 1.15 * ends, color="#E8E8E8", zorder=0, label="within 15 %")
    axes.plot(ends, ends, color="black", linewidth=1)
    for subject in ladder_order(list(frame.subject.unique())):
        rows = frame[frame.subject == subject]
        style = {"s": 28, "edgecolors": "black", "linewidths": 0.4, "zorder": 3}
        axes.scatter(
            rows.measured, rows.predicted, color=[colour(subject)] * len(rows), label=subject, **style
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_xlabel(f"measured ({unit}, log scale)")
    axes.set_ylabel(f"predicted ({unit}, log scale)")
    _plain(axes)
    axes.set_title(words, fontsize=10, loc="left")
    figure.legend(loc="outside right center", frameon=False, fontsize=9)
    return figure
