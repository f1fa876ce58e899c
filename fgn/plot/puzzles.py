"""The board of all puzzles: which are solved."""

from __future__ import annotations

import textwrap

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from fgn.plot.style import LARGEST_LIMIT_COLOUR, LIMIT_COLOUR, PART_COLOURS, new_figure

SOLVED, READ, TRIED, OPEN = "solved", "solved with the solution read", "tried", "to be begun"
COLOURS = {SOLVED: PART_COLOURS["norm"], READ: LIMIT_COLOUR, TRIED: "#F4D58D", OPEN: "#EEEEEE"}


def _state(record) -> str:
    if record.solved:
        return READ if record.read_solution else SOLVED
    return TRIED if record.checks else OPEN


def board(notebooks: dict[str, list[tuple[str, object]]]) -> Figure:
    """A tile for each puzzle, a row for each notebook, coloured by how far the learner is.

    notebooks: for the beginning of each notebook's name, the titles of its puzzles, each with its record of
    `fgn.puzzles.store`.
    """
    most = max(map(len, notebooks.values()))
    figure, axes = new_figure(11.0, 0.8 * len(notebooks) + 0.9)
    axis = axes[0, 0]
    solved = number = 0
    for row, (notebook, puzzles) in enumerate(notebooks.items()):
        title = notebook.replace("_", " · ", 1).replace("_", " ")
        axis.text(-0.15, row + 0.45, title, ha="right", va="center", fontsize=10)
        for column, (name, record) in enumerate(puzzles):
            number += 1
            state = _state(record)
            solved += bool(record.solved)
            box = FancyBboxPatch(
                (column + 0.05, row + 0.08), 0.88, 0.74, boxstyle="round,pad=0.02,rounding_size=0.06",
                facecolor=COLOURS[state], edgecolor=LARGEST_LIMIT_COLOUR, linewidth=0.6,
            )  # fmt: skip
            axis.add_patch(box)
            mark = "✓ " if record.solved else ""
            text = "\n".join(textwrap.wrap(f"{mark}{number} {name}", 15))
            axis.text(column + 0.49, row + 0.45, text, ha="center", va="center", fontsize=8.5)
    axis.set(
        xlim=(-1.6, most + 0.1),
        ylim=(len(notebooks) + 0.55, -0.1),
        title=f"{solved} of {number} puzzles solved",
    )
    for index, (state, colour) in enumerate(COLOURS.items()):
        place = (0.0, 1.1, 3.6, 4.5)[index]
        axis.add_patch(
            FancyBboxPatch(
                (place, len(notebooks) + 0.2), 0.2, 0.2, boxstyle="square,pad=0",
                facecolor=colour, edgecolor=LARGEST_LIMIT_COLOUR, linewidth=0.6,
            )
        )  # fmt: skip
        axis.text(place + 0.28, len(notebooks) + 0.3, state, va="center", fontsize=9)
    axis.set_axis_off()
    return figure
