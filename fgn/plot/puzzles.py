"""The board of all puzzles: it shows which are solved."""

from __future__ import annotations

import textwrap

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from fgn.plot.figures import LARGEST_LIMIT_COLOUR, LIMIT_COLOUR, PART_COLOURS, new_figure

SOLVED, READ, TRIED, OPEN = "solved", "solved with the solution read", "tried", "to be begun"
COLOURS = {SOLVED: PART_COLOURS["norm"], READ: LIMIT_COLOUR, TRIED: "#F4D58D", OPEN: "#EEEEEE"}


def _state(record) -> str:
    if record.solved:
        return READ if record.read_solution else SOLVED
    return TRIED if record.checks else OPEN


# The look of a student's puzzle in a picture of the class, by the check's verdict.
OF_CLASS = {
    "solved": (PART_COLOURS["norm"], "✓"),
    "over budget": ("#CFE8C9", "slow"),
    "wrong numbers": ("#F4D58D", "wrong"),
    "wrong answer": ("#F4D58D", "answer"),
    "fault": ("#F0A58A", "fault"),
    "not begun": ("#EEEEEE", ""),
    "not handed in": ("#FFFFFF", ""),
}
_OTHER = ("#E08E8E", "fails")  # it does not compile, ends its process, does not end


def class_board(details) -> Figure:
    """Where students are stuck: a row for each student, a column for each puzzle, and how many have solved
    it.

    details: a table with the columns student, puzzle, points and kind, as `grading.details()` makes it.
    """
    names, puzzles = (list(dict.fromkeys(details[column])) for column in ("student", "puzzle"))
    figure, axes = new_figure(2.6 + 0.62 * len(puzzles), 2.3 + 0.3 * len(names))
    axis = axes[0, 0]
    for row in details.itertuples():
        colour, word = OF_CLASS.get(row.kind, _OTHER)
        x, y = puzzles.index(row.puzzle), names.index(row.student)
        axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="white"))
        axis.text(x + 0.5, y + 0.5, word, ha="center", va="center", fontsize=8)
    solved = details[details.kind == "solved"].groupby("puzzle").size()
    for x, puzzle in enumerate(puzzles):
        share = f"{solved.get(puzzle, 0)} of {len(names)}"
        axis.text(x + 0.5, len(names) + 0.5, share, ha="center", va="center", fontsize=8)
    axis.set_xticks([x + 0.5 for x in range(len(puzzles))], puzzles, rotation=40, ha="left", fontsize=8)
    axis.set_yticks([y + 0.5 for y in range(len(names) + 1)], [*names, "solved by"], fontsize=8)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.set(xlim=(0, len(puzzles)), ylim=(len(names) + 1, 0))
    for side in axis.spines.values():
        side.set_visible(False)
    axis.grid(visible=False)
    return figure


def board(notebooks: dict[str, list[tuple[str, object]]]) -> Figure:
    """A tile for each puzzle, a row for each notebook, coloured by how far the learner is.

    notebooks: by the beginning of each notebook's name, the titles of its puzzles, each with its record of
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
