"""What fusing a model saves, chain by chain: `fgn.explain(model, x).plot()`."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fgn.measure import EAGER
from fgn.plot.figures import new_figure
from fgn.plot.style import WIDTH, colour, legend_below


def gains(frame: pd.DataFrame, gpu: str) -> Figure:
    """Two bars for each chain: torch's operators one after the other, and the chain as one call; in ms if
    they were measured, else in MB. frame: `Explanation.chains`. ValueError if no chain was called."""
    if not len(frame):
        raise ValueError("chains: expected at least one chain, and the model called none")
    measured = "fgn_ms" in frame
    names = ("torch_ms", "fgn_ms") if measured else ("torch_bytes", "bytes")
    scale = 1.0 if measured else 1e-6
    figure, [[axes]] = new_figure(WIDTH, 1.2 + 0.6 * len(frame))
    places = np.arange(len(frame))
    subjects = ("torch, one operator after the other", EAGER), ("fgn, one call", "hopper")
    for offset, name, (label, subject) in zip((-0.2, 0.2), names, subjects, strict=True):
        axes.barh(places + offset, frame[name] * scale, 0.38, color=colour(subject), label=label)
    for place, row in zip(places, frame.itertuples(), strict=True):
        times = f", {row.times} such chains" if row.times > 1 else ""
        saved = f"{row.torch_launches} launches → {row.launches}, {row.saved_us:.3g} µs less on {gpu}{times}"
        right = getattr(row, names[1]) * scale
        inside = right > 0.55 * frame[list(names)].to_numpy().max() * scale
        axes.annotate(
            saved,
            (right, place + 0.2),
            (-4 if inside else 4, 0),
            textcoords="offset points",
            ha="right" if inside else "left",
            va="center",
            color="white" if inside else "black",
            fontsize=8,
        )
    labels = [f"{row.linear}\n{textwrap.shorten(row.steps, 34)}" for row in frame.itertuples()]
    axes.set_yticks(places, labels, fontsize=8)
    axes.set_xlabel(
        "ms, measured here" if measured else "MB that the launches read and write, each byte once"
    )
    axes.invert_yaxis()
    legend_below(figure)
    return figure
