"""A source view: a kernel's text with what each line asks of memory, like ncu's source page.

    cudasim.source_view(lambda: scale[grid, block](y, x, 2.0, n))

A notebook shows it as a heat map, `print()` as text, as text.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from cudasim.counting.counts import count_lines
from cudasim.source import launched_sources

_OPERATIONS = ("ld", "st", "atom")

# A column's name, and the ncu metrics that it adds up, for loads, stores and atomics.
_SUMS = {
    "requests": "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum",
    "sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum",
    "shared requests": "smsp__inst_executed_op_shared_{}.sum",
    "wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum",
    "conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum",
}
COLUMNS = ("requests", "sectors", "sectors/request", "shared requests", "wavefronts", "conflicts")

WHOLE_UP_TO = 60  # lines: of a longer file, those around accesses of memory are shown
CONTEXT = 6
HOT = (230, 120, 20)  # of a column's largest number; white is 0. One hue alone can be read in grey as well.


@dataclass(frozen=True)
class _Part:
    """The lines of one file that one kernel ran. lines: a frame by line number, with `COLUMNS`."""

    kernel: str
    file: str
    lines: pd.DataFrame
    text: list[str]

    def shown(self) -> list[int | None]:
        """The numbers of the lines to show; None is a gap."""
        if len(self.text) <= WHOLE_UP_TO:
            return list(range(1, len(self.text) + 1))
        near = {line + step for line in self.lines.index for step in range(-CONTEXT, CONTEXT + 1)}
        kept = [line for line in sorted(near) if 1 <= line <= len(self.text)]
        shown: list[int | None] = []
        for line in kept:
            if (shown and shown[-1] != line - 1) or (not shown and line > 1):
                shown.append(None)
            shown.append(line)
        return shown if kept and kept[-1] == len(self.text) else [*shown, None]


def _number(column: str, value: float) -> str:
    if pd.isna(value) or value == 0:
        return ""
    return f"{value:.1f}" if column == "sectors/request" else f"{int(value):,}"


class SourceView:
    """The text of the kernels of a call, with numbers by line.

    frame: a row for each kernel, file and line: requests and sectors (32 bytes) of global memory, sectors per
    request, requests of shared memory, its wavefronts and bank conflicts; loads, stores and atomics added up,
    over all launches of the kernel. `cudasim.count_lines()` has the separate numbers.
    """

    def __init__(self, frame: pd.DataFrame, texts: dict[str, str]):
        self.frame = frame
        self._parts = [
            _Part(kernel, file, rows.set_index("line"), texts[file].splitlines())
            for (kernel, file), rows in frame.groupby(["kernel", "file"], sort=False)
            if file in texts
        ]
        self._most = frame[list(COLUMNS)].max()

    def _heat(self, column: str, value: float) -> float:
        """A number relative to the column's largest number in the whole view, from 0 to 1."""
        most = 32.0 if column == "sectors/request" else self._most[column]  # 32: a sector for each lane
        return 0.0 if pd.isna(value) or not most > 0 else min(1.0, float(value / most))

    def __str__(self) -> str:
        blocks = []
        for part in self._parts:
            cells = {
                line: [_number(column, row[column]) for column in COLUMNS]
                for line, row in part.lines.iterrows()
            }
            widths = [
                max(len(column), *(len(row[index]) for row in cells.values()))
                for index, column in enumerate(COLUMNS)
            ]
            rows = [f"{part.kernel} ({Path(part.file).name})"]
            heads = (f"{column:>{width}}" for column, width in zip(COLUMNS, widths, strict=True))
            rows.append("  ".join(heads) + "  heat  line")
            for line in part.shown():
                if line is None:
                    rows.append(" " * (sum(widths) + 2 * len(widths)) + "         …")
                    continue
                values = cells.get(line, [""] * len(COLUMNS))
                numbers = "  ".join(f"{value:>{width}}" for value, width in zip(values, widths, strict=True))
                bar = "#" * round(4 * self._line_heat(part, line))
                rows.append(f"{numbers}  {bar:<4}  {line:>4}  {part.text[line - 1]}".rstrip())
            blocks.append("\n".join(rows))
        return "\n\n".join(blocks) or "no line of these kernels accesses memory"

    def _line_heat(self, part: _Part, line: int) -> float:
        if line not in part.lines.index:
            return 0.0
        return max(self._heat(column, part.lines.loc[line, column]) for column in ("sectors", "wavefronts"))

    __repr__ = __str__

    def _shown_columns(self) -> list[str]:
        """The columns with a number in at least one row."""
        return [column for column in COLUMNS if self._most[column] > 0]

    def _repr_html_(self) -> str:
        # Each element has its style as an attribute, because notebook viewers disagree about style sheets.
        # Long lines are folded, so that the page is no wider than its window.
        cell = "padding:0 .5em;text-align:right;border:0;vertical-align:top;color:#111;"
        head = cell + "font-weight:bold;background:#eee;"
        code = cell + "text-align:left;white-space:pre-wrap;"
        columns = self._shown_columns()
        blocks = []
        for part in self._parts:
            title = html.escape(f"{part.kernel} ({Path(part.file).name})")
            heads = "".join(f'<th style="{head}">{column.replace("/", "/<wbr>")}</th>' for column in columns)
            rows = [
                f'<tr>{heads}<th style="{head}">line</th><th style="{head}text-align:left">{title}</th></tr>'
            ]
            for line in part.shown():
                if line is None:
                    gap = f'<td style="{cell}color:#666">⋮</td>'
                    empty = f'<td style="{cell}" colspan="{len(columns)}"></td>' if columns else ""
                    rows.append(f'<tr style="background:#fff">{empty}{gap}<td></td></tr>')
                    continue
                cells = []
                for column in columns:
                    value = part.lines.loc[line, column] if line in part.lines.index else 0
                    share = self._heat(column, value)
                    colour = ",".join(str(round(255 + (hot - 255) * share)) for hot in HOT)
                    number = _number(column, value)
                    cells.append(f'<td style="{cell}background:rgb({colour})">{number}</td>')
                text = html.escape(part.text[line - 1])
                rows.append(
                    f'<tr style="background:#fff">{"".join(cells)}<td style="{cell}color:#666">{line}</td>'
                    f'<td style="{code}">{text}</td></tr>'
                )
            style = "border-collapse:collapse;font-family:monospace;font-size:12px;line-height:1.35;"
            blocks.append(f'<table style="{style}margin-bottom:1em">{"".join(rows)}</table>')
        return f'<div style="overflow-x:auto">{"".join(blocks)}</div>'


def _texts(files) -> dict[str, str]:
    """The text of each file that exists: a live kernel's, or one in `cuda_c/`."""
    found = {}
    for file in files:
        if file in launched_sources:
            found[file] = launched_sources[file]
        elif Path(file).is_file():
            found[file] = Path(file).read_text()
    return found


def source_view(call: Callable[[], object]) -> SourceView:
    """Runs `call` on the counted simulator, and shows its kernels' text with what each line asks of memory.

    call: a function without arguments that launches kernels on CPU tensors. KernelFault at the first fault,
    as in `cudasim.check()`.
    """
    lines = count_lines(call)
    if lines.empty:
        return SourceView(pd.DataFrame(columns=["kernel", "file", "line", *COLUMNS]), {})
    for column, metric in _SUMS.items():
        lines[column] = sum(lines[metric.format(operation)] for operation in _OPERATIONS)
    keys = ["kernel", "file", "line"]
    frame = lines.groupby(keys, sort=False)[list(_SUMS)].sum().reset_index()
    frame["sectors/request"] = (frame["sectors"] / frame["requests"]).where(frame["requests"] > 0)
    return SourceView(frame[[*keys, *COLUMNS]], _texts(frame["file"].unique()))
