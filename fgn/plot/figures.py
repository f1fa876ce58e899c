"""Figures and colours of pictures without fgn's chains: those of puzzles need no torch."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

# Limits of a prediction: the largest decides, and the others are lighter. Measured and wrong values are red.
LIMIT_COLOUR, LARGEST_LIMIT_COLOUR = "#A9C4D9", "#31688E"
MEASURED_COLOUR = WRONG_COLOUR = "#D55E00"
PART_COLOURS = {"product": "#31688E", "operators": "#E69F00", "norm": "#35B779"}

# No frame above and to the right.
STYLE = {"axes.spines.top": False, "axes.spines.right": False}


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, **options
) -> tuple[Figure, np.ndarray]:
    """A figure of that size in inches, and its rows of axes."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            rows, columns, figsize=(width, height), squeeze=False, layout="constrained", **options
        )
    # A closed figure is shown where it is returned, and not a second time by pyplot.
    plt.close(figure)
    return figure, axes
