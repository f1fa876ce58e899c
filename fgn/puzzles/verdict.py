"""The verdict of a puzzle's check: a sentence, the details, the counts beside the budget."""

from __future__ import annotations

import html
from dataclasses import dataclass

SOLVED = "solved"
NOT_BUILT = "does not compile"
NOT_LAUNCHED = "cannot be launched"
ENDLESS = "does not end"
CRASHED = "ended its process"
STOPPED = "stopped"
NOTHING = "nothing to check"

_MOST_PRINTED = 20  # lines


@dataclass(frozen=True)
class Counted:
    """A limit and its count. metric: by ncu's name. where: the source line with most of it."""

    words: str
    metric: str
    counted: float
    most: float
    where: str = ""
    is_least: bool = False  # `most` is the smallest number that is allowed

    @property
    def is_kept(self) -> bool:
        return self.counted >= self.most if self.is_least else self.counted <= self.most


def number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


@dataclass(frozen=True)
class Verdict:
    """The answer to one check. As a bool it tells whether the puzzle is solved; printed, it tells everything.

    title: the puzzle's.
    kind: "solved", "fault", "wrong numbers", "over budget", "wrong answer", "does not compile", "cannot be
        launched", "does not end", "ended its process", "stopped" or "nothing to check".
    sentence: what happened. details: lines that show it. printed: what the kernel printed.
    budget: what was counted, for the sizes `budget_sizes`. progress: a line about all puzzles.
    """

    title: str
    kind: str
    sentence: str
    details: tuple[str, ...] = ()
    budget: tuple[Counted, ...] = ()
    budget_sizes: str = ""
    printed: str = ""
    progress: str = ""

    def __bool__(self) -> bool:
        return self.kind == SOLVED

    @property
    def _head(self) -> str:
        return f"{'✓' if self else '✗'} {self.title}: {self.sentence}"

    def _printed(self) -> list[str]:
        lines = self.printed.splitlines()
        left_out = len(lines) - _MOST_PRINTED
        return [*lines[:_MOST_PRINTED], *([f"… and {left_out} more lines"] if left_out > 0 else [])]

    def _table(self) -> list[tuple[str, str, str, str, str]]:
        rows = [("", "counted", "limit", f"for {self.budget_sizes}", "by ncu's name")]
        for limit in self.budget:
            mark = "✓" if limit.is_kept else "✗"
            rows.append(
                (
                    mark,
                    number(limit.counted),
                    f"{'≥' if limit.is_least else '≤'} {number(limit.most)}",
                    limit.words,
                    limit.metric,
                )
            )
        return rows

    def __str__(self) -> str:
        lines = [self._head, *(f"  {line}" for line in self.details)]
        if self.budget:
            rows = self._table()
            widths = [max(len(row[column]) for row in rows) for column in range(4)]
            for mark, counted, most, words, metric in rows:
                lines.append(
                    f"  {mark:{widths[0]}} {counted:>{widths[1]}} {most:>{widths[2]}}  "
                    f"{words:{widths[3]}}  {metric}".rstrip()
                )
            lines += [f"  {limit.where}" for limit in self.budget if limit.where]
        if self.printed:
            lines += ["  the kernel printed:", *(f"    {line}" for line in self._printed())]
        if self.progress:
            lines.append(self.progress)
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        # Each element has its colours as attributes, so that a dark theme also shows black on white.
        line_colour, ground = ("#1a7f37", "#eefaf1") if self else ("#c0392b", "#fdf1ef")
        block = (
            f"border-left:4px solid {line_colour};background:{ground};color:#111;padding:.5em .8em;"
            "font-size:13px;line-height:1.45"
        )
        mono = "font-family:monospace;white-space:pre-wrap;margin:.4em 0 0 0;color:#111"
        parts = [f"<b>{html.escape(self._head)}</b>"]
        if self.details:
            parts.append(f'<div style="{mono}">{html.escape(chr(10).join(self.details))}</div>')
        if self.budget:
            rows = []
            for index, row in enumerate(self._table()):
                colour = "#111" if index == 0 or self.budget[index - 1].is_kept else "#c0392b"
                style = f"padding:.1em .7em;border:0;background:{ground};color:{colour};font-size:12px;"
                aligned = ("center", "right", "right", "left", "left")
                wraps = ("nowrap", "nowrap", "nowrap", "normal", "normal")
                cells = "".join(
                    f'<td style="{style}text-align:{side};white-space:{wrap}">{html.escape(cell)}</td>'
                    for side, wrap, cell in zip(aligned, wraps, row, strict=True)
                )
                rows.append(f'<tr style="background:{ground}">{cells}</tr>')
            parts.append(f'<table style="border-collapse:collapse;margin:.4em 0 0 0">{"".join(rows)}</table>')
            where = "\n".join(limit.where for limit in self.budget if limit.where)
            if where:
                parts.append(f'<div style="{mono}">{html.escape(where)}</div>')
        if self.printed:
            printed = html.escape("\n".join(self._printed()))
            parts.append(
                f'<div style="margin-top:.4em">The kernel printed:</div><div style="{mono}">{printed}</div>'
            )
        if self.progress:
            parts.append(f'<div style="margin-top:.4em;color:#555">{html.escape(self.progress)}</div>')
        return f'<div style="{block}">{"".join(parts)}</div>'
