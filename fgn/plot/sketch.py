"""The elements of drawings of threads and memory: rows and grids of cells, words, arrows, frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from fgn.plot.figures import WRONG_COLOUR, new_figure

INCHES = 0.34  # of a cell
PAPER, EDGE, WORDS = "#FFFFFF", "#4A5568", "#222222"
# Light colours that colour-blind readers can distinguish, also in grey.
TINTS = ("#A9C4D9", "#F4D58D", "#B7DDB0", "#E3B7C8")
PALE = "#ECEFF3"


class Sketch:
    """A drawing in units of one cell; y grows downwards, as rows of a matrix do.

    width, height: of the drawing, in cells. title: above it.
    """

    def __init__(self, width: float, height: float, title: str):
        self.figure, axes = new_figure(INCHES * width + 0.2, INCHES * height + 0.45)
        self.axis = axes[0, 0]
        self.axis.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
        self.axis.set_axis_off()
        self.axis.set_title(title, fontsize=10, loc="left")

    def cell(
        self, x: float, y: float, word="", colour: str = PAPER, size: float = 8, edge: str = EDGE, **style
    ):
        """A cell whose upper left corner is at (x, y)."""
        options = {"linewidth": 0.7} | style
        self.axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor=edge, **options))
        if word != "":
            self.axis.text(x + 0.5, y + 0.52, str(word), ha="center", va="center", fontsize=size, color=WORDS)

    def row(self, x: float, y: float, words: Sequence, colours=PAPER, **style):
        """Cells side by side. colours: one for all, or one for each."""
        for index, word in enumerate(words):
            self.cell(x + index, y, word, colours if isinstance(colours, str) else colours[index], **style)

    def grid(
        self,
        x: float,
        y: float,
        rows: int,
        columns: int,
        word: Callable[[int, int], object] = lambda row, column: "",
        colour: Callable[[int, int], str] = lambda row, column: PAPER,
        **style,
    ):
        for row in range(rows):
            for column in range(columns):
                self.cell(x + column, y + row, word(row, column), colour(row, column), **style)

    def say(self, x: float, y: float, text: str, size: float = 9, colour: str = WORDS, **style):
        """Words that begin at (x, y), or are aligned there by `ha` and `va`."""
        options = {"ha": "left", "va": "center"} | style
        self.axis.text(x, y, text, fontsize=size, color=colour, **options)

    def arrow(self, start, end, colour: str = EDGE, bend: float = 0.0, width: float = 0.9):
        style = f"arc3,rad={bend}"
        self.axis.add_patch(
            FancyArrowPatch(
                start, end, arrowstyle="-|>", mutation_scale=8, color=colour, linewidth=width,
                connectionstyle=style, shrinkA=1, shrinkB=1,
            )
        )  # fmt: skip

    def frame(self, x: float, y: float, width: float, height: float, colour: str = WRONG_COLOUR, **style):
        """A thick frame around cells."""
        options = {"linewidth": 2.0, "linestyle": "-"} | style
        self.axis.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=colour, **options))

    def done(self) -> Figure:
        return self.figure
