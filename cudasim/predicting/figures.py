"""The pictures of a prediction: the roofline, where the time goes, GPUs side by side; and of a comparison."""

from __future__ import annotations

import io
import math

import numpy as np

_INK, _GREY, _BLUE, _ORANGE = "#222222", "#9aa0a6", "#2f6fb0", "#d9772b"


def _figure(**how):
    """A figure that a notebook shows as a picture, whether or not its program has loaded pyplot."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            data = io.BytesIO()
            self.savefig(data, format="png", dpi=90)
            return data.getvalue()

    return Picture(**how)


def _plain(axis):
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=9)


def _roofline(axis, prediction):
    one = prediction.on[0]
    card, terms = one.card, one.terms
    moved = terms.traffic.dram_read + terms.traffic.dram_written
    flops = prediction.flops
    ridge = card.flops / card.dram_bandwidth
    x = flops / moved if flops and moved else ridge / 100
    intensities = np.geomspace(min(x, ridge) / 10, max(x, ridge) * 10, 100)
    axis.loglog(
        intensities, np.minimum(card.flops, intensities * card.dram_bandwidth) / 1e12, color=_GREY, lw=2
    )
    axis.plot(x, flops / one.seconds / 1e12, "o", color=_ORANGE, ms=8)
    axis.annotate(
        prediction.kernel,
        (x, flops / one.seconds / 1e12),
        xytext=(8, -12),
        textcoords="offset points",
        fontsize=9,
        color=_INK,
    )
    axis.set_title(f"Roofline of the {card.name}", fontsize=10, loc="left")
    axis.set_xlabel("operations of a byte from DRAM", fontsize=9)
    axis.set_ylabel("TFLOP/s, float", fontsize=9)
    axis.yaxis.set_minor_formatter("")


def _parts(axis, prediction):
    terms = prediction.on[0].terms
    parts = dict(sorted(terms.busy.items(), key=lambda item: -item[1])[:4])
    parts |= {"L2": terms.l2, "DRAM": terms.dram, "one warp alone": terms.alone, "launch": terms.launch}
    if terms.starts > terms.seconds / 2:
        parts["starting blocks"] = terms.starts
    names = sorted(parts, key=parts.get)
    axis.barh(names, [1e6 * parts[name] for name in names], color=_BLUE, height=0.65)
    axis.axvline(1e6 * terms.seconds, color=_ORANGE, lw=2)
    axis.set_title("If only this took time; the line: predicted", fontsize=10, loc="left")
    axis.set_xlabel("µs", fontsize=9)


def _gpus(axis, prediction, measured):
    on = [one for one in prediction.on if not math.isnan(one.seconds)][::-1]
    names = [one.card.name for one in on]
    values = np.array([1e6 * one.seconds for one in on])
    spread = np.array([[1e6 * (one.seconds - one.low), 1e6 * (one.high - one.seconds)] for one in on]).T
    axis.barh(names, values, xerr=spread, color=_BLUE, height=0.6, error_kw={"ecolor": _INK, "capsize": 3})
    for name, seconds in (measured or {}).items():
        if name in names:
            axis.plot(1e6 * seconds, names.index(name), "D", color=_ORANGE, ms=7)
    axis.set_xlim(0, 1.05 * (values + spread[1]).max())
    title = "Predicted; ◆ measured" if measured else "Predicted, and its range"
    axis.set_title(title, fontsize=10, loc="left")
    axis.set_xlabel("µs", fontsize=9)


def prediction_figure(prediction, measured: dict[str, float] | None = None):
    """measured: seconds by the card's name, drawn beside the predictions."""
    if prediction.on[0].terms is None:
        raise ValueError(
            f"{prediction.on[0].card.name}: the launch cannot run there, so there is nothing to draw"
        )
    figure = _figure(figsize=(13, 3.6), layout="constrained")
    axes = figure.subplots(1, 3)
    _roofline(axes[0], prediction)
    _parts(axes[1], prediction)
    _gpus(axes[2], prediction, measured)
    for axis in axes:
        _plain(axis)
    return figure


def occupancy_figure(curves: dict[str, list[tuple[str, list[float], list[float], float]]]):
    """Occupancy over block size, registers and shared memory: by title, lines of name, x, y and the launch's
    own x."""
    figure = _figure(figsize=(12, 3.2), layout="constrained")
    for axis, (title, lines) in zip(
        figure.subplots(1, len(curves), sharey=True), curves.items(), strict=True
    ):
        for name, x, y, own in lines:
            axis.step(x, [100 * of for of in y], where="post", color=_BLUE, label=name)
            at = max((i for i, value in enumerate(x) if value <= own), default=0)
            axis.plot(own, 100 * y[at], "o", color=_ORANGE, ms=8)
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_ylim(0, 105)
        _plain(axis)
    figure.axes[0].set_ylabel("% of the warps", fontsize=9)
    return figure


def comparison_figure(table):
    """Times of the versions over sizes; measured ones have diamonds."""
    figure = _figure(figsize=(7.5, 4), layout="constrained")
    axis = figure.subplots()
    best = table.loc[table.groupby(["version", "size"])["us"].idxmin()]
    sizes = list(dict.fromkeys(table["size"]))
    colours = ("#2f6fb0", "#d9772b", "#3a8f5c", "#8a5fb0", "#b03a48", "#6b6b6b")
    for index, (name, rows) in enumerate(best.groupby("version", sort=False)):
        rows = rows.set_index("size").loc[[size for size in sizes if size in set(rows["size"])]]
        places = [sizes.index(size) for size in rows.index]
        axis.plot(places, rows["us"], "o-", color=colours[index % len(colours)], label=name)
        axis.fill_between(places, rows["low"], rows["high"], color=colours[index % len(colours)], alpha=0.15)
        if rows["measured us"].notna().any():
            axis.plot(places, rows["measured us"], "D", color=colours[index % len(colours)], ms=8, mfc="none")
    axis.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axis.set_yscale("log")
    axis.set_xlabel("size", fontsize=9)
    axis.set_ylabel("µs", fontsize=9)
    axis.set_title(f"{table['gpu'].iloc[0]}: predicted, with its range; ◇ measured", fontsize=10, loc="left")
    axis.legend(frameon=False, fontsize=9)
    _plain(axis)
    return figure
