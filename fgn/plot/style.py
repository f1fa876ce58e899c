"""The style of every plot of fgn: its colours, its figures, its words for numbers."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from fgn.measure.accuracy import TORCH
from fgn.measure.benchmark import COMPILED, EAGER, F_LINEAR
from fgn.measure.subjects import ladder
from fgn.plot.figures import new_figure
from fgn.problem import PROBLEM

# Torch's bars are warm or grey (Okabe and Ito's palette, safe for colour-blind readers); ours go from dark to
# light along the ladder, on the part of viridis that differs from those.
TORCH_COLOURS = {EAGER: "#D55E00", COMPILED: "#E69F00", F_LINEAR: "#7F7F7F", TORCH: "#D55E00"}
FLOOR_COLOUR = "#000000"
OTHER_COLOUR = "#7F7F7F"
LADDER_COLOURS = (plt.colormaps["viridis"], 0.0, 0.72)

# The width of figures in inches.
WIDTH, WIDE = 9.5, 12.0

TOUCHED_COLOUR, USED_COLOUR = "#D9E4EC", "#31688E"
MEASURED_STYLES = ("-", "--", ":")
# The colour of results at shapes that are not drawn as bars.
OUTLINE_COLOUR = "#31688E"
PASS_COLOURS = ("#E69F00", "#31688E", "#35B779", "#440154")


def with_palette(png: bytes) -> bytes:
    """A PNG picture with at most 256 colours, which takes a third of the bytes; a plot has hardly more
    colours. A picture with transparency or a palette stays as it is."""
    picture = Image.open(io.BytesIO(png))
    if picture.mode == "P" or (picture.mode == "RGBA" and picture.getextrema()[3][0] < 255):
        return png
    small = io.BytesIO()
    picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return small.getvalue()


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


def panels(count: int, height: float) -> tuple[Figure, list]:
    columns = min(count, 3)
    rows = math.ceil(count / columns)
    figure, axes = new_figure(max(5.2 * columns, 7.5), height * rows, rows, columns)
    figure.get_layout_engine().set(h_pad=0.12)
    for unused in axes.flat[count:]:
        unused.set_visible(False)
    return figure, list(axes.flat)


def legend_below(figure: Figure):
    figure.get_layout_engine().set(h_pad=0.03)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)


def milliseconds(ms: float) -> str:
    return f"{ms:.3g} ms" if ms >= 0.1 else f"{ms * 1e3:.3g} µs"


def rate(operations_per_second: float) -> str:
    tera = operations_per_second / 1e12
    return f"{tera:.3g} TFLOP/s" if tera >= 0.1 else f"{tera * 1e3:.3g} GFLOP/s"


def number_of(subject: str) -> str:
    """A short sign for a subject: its number on the ladder, or a letter for torch's."""
    torchs = {EAGER: "E", COMPILED: "C", F_LINEAR: "F"}
    return torchs.get(subject) or (str(ladder().index(subject) + 1) if subject in ladder() else "·")


NEAR = 14  # points
HALF_LINE = 6  # points, of a line of numbers


def number_squares(axis, places: dict[str, tuple[float, float]], levels: Sequence[float] = ()):
    """Writes the squares' numbers beside them; overlapping squares have their numbers in one line. A line of
    numbers does not cover another one, nor the horizontal lines at `levels`."""
    scale = 72 / axis.figure.dpi
    clusters: list[tuple[np.ndarray, list[str]]] = []
    for subject, place in places.items():
        at = axis.transData.transform(place) * scale
        for centre, names in clusters:
            if np.abs(centre - at).max() < NEAR:
                names.append(subject)
                break
        else:
            clusters.append((at, [subject]))
    drawn: list[np.ndarray] = []
    heights = [axis.transData.transform((places[clusters[0][1][0]][0], level))[1] * scale for level in levels]

    def is_free(at: np.ndarray) -> bool:
        covers_another = any(np.abs(at - other).max() <= NEAR for other in drawn)
        return not covers_another and all(abs(at[1] - height) > HALF_LINE for height in heights)

    for centre, names in clusters:
        # The layout of the figure is not known yet and only makes the axes a little smaller.
        offsets = ((8, -8), (10, 3), (-8, 9), (8, 9), (-8, -8), (14, 0))
        offset = next((o for o in offsets if is_free(centre + o)), (8, -8))
        drawn.append(centre + offset)
        horizontal = "left" if offset[0] > 0 else "right"
        axis.annotate(
            " ".join(map(number_of, names)), places[names[0]], xytext=offset, textcoords="offset points",
            ha=horizontal, va="center", fontsize=8, fontweight="bold", zorder=30,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8},
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------
# Tables of launches


def require(launches: pd.DataFrame, names, plot: str):
    """Raises ValueError unless the launches are those of one problem and have these metrics."""
    if launches.empty:
        raise ValueError(f"launches: {plot} expected some, got none")
    missing = [name for name in names if name not in launches or launches[name].isna().all()]
    if missing:
        raise ValueError(f"launches: {plot} needs the metric {missing[0]}, which {_machine(launches)} lacks")
    if len(launches[PROBLEM].drop_duplicates()) > 1:
        raise ValueError(f"launches: {plot} expected those of one problem, at one precision, got several")


def _machine(launches: pd.DataFrame) -> str:
    return launches.attrs.get("machine", "this profile")


def launches_title(launches: pd.DataFrame) -> str:
    """A title with the profiled chain, its sizes, the precision and the machine."""
    row = launches.iloc[0]
    if not row.chain:
        return _machine(launches)
    sizes = f"{row.batch} × {row.in_features} → {row.out_features}, {row.groups} groups"
    return f"{row.chain}, {sizes}\n{row.precision}, {_machine(launches)}"
