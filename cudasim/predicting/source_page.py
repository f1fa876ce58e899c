"""The source page: a kernel's text, each line's costs, and beside it the line's SASS or PTX."""

from __future__ import annotations

import hashlib
import html
import math

import pandas as pd

from cudasim.counting.view import HOT
from cudasim.live.kernels import BoundLaunch
from cudasim.predicting import machine_code
from cudasim.predicting.advice import Advices, advice_of
from cudasim.predicting.code_view import CodeView, colour, ptx, sass
from cudasim.predicting.prediction import Prediction, predict
from cudasim.predicting.samples import Samples

# A column's name, and the format of its numbers.
COLUMNS = {
    "instructions": "{:,.0f}",
    "clocks": "{:.0%}",
    "sectors": "{:,.0f}",
    "sectors/request": "{:.3g}",
    "conflicts": "{:,.0f}",
    "samples": "{:.0%}",
}
_MOST_HEIGHT = "44em"


class SourcePage:
    """lines: a frame by line of the source. instructions: of warps, in the whole launch. clocks: the line's
    predicted part of a warp's clocks; sectors and conflicts are counted; samples: the line's part of a
    profiler's stall samples, if any, and what the warps there waited for. advice: in words.

    `print()` shows the table; a notebook shows it beside the machine code, where a click on a line marks its
    instructions.
    """

    def __init__(
        self,
        prediction: Prediction,
        codes: dict[str, CodeView],
        file: str,
        source: str,
        samples: Samples | None = None,
    ):
        self.prediction, self.codes, self.file, self.source = prediction, codes, file, source
        self.samples = samples
        sample, scale = prediction.sample, prediction.sample.scale
        frame = prediction.lines
        frame = frame[frame.file == file].set_index("line")
        asked: dict[int, dict[str, float]] = {}
        for one in sample.instructions:
            if one.place.file == file:
                of = asked.setdefault(one.place.line, {"requests": 0.0, "sectors": 0.0, "conflicts": 0.0})
                if one.space == "global":
                    of["requests"] += one.requests * scale
                    of["sectors"] += one.sectors * scale
                elif one.space == "shared":
                    of["conflicts"] += (one.wavefronts - one.phases) * scale
        counted = pd.DataFrame.from_dict(asked, orient="index", columns=["requests", "sectors", "conflicts"])
        self.lines = frame[["instructions", "clocks"]].join(counted, how="outer").fillna(0.0)
        requests = self.lines.requests.where(self.lines.requests > 0)
        self.lines["sectors/request"] = self.lines.sectors / requests
        if samples is not None:
            own = samples.lines.samples / samples.total
            self.lines = self.lines.join(own, how="outer")
            numbers = self.lines.columns.drop("sectors/request")
            self.lines[numbers] = self.lines[numbers].fillna(0.0)
        else:
            self.lines["samples"] = 0.0

    @property
    def advice(self) -> Advices:
        return advice_of(self.prediction)

    def _number(self, line: int, column: str) -> str:
        value = self.lines.loc[line, column] if line in self.lines.index else math.nan
        return COLUMNS[column].format(value) if value and not math.isnan(value) else ""

    def _waits(self, line: int) -> str:
        return self.samples.waits_for(line) if self.samples is not None else ""

    def _head(self) -> str:
        of = self.samples
        taken = f"\n{of.total:,} stall samples, taken on {of.gpu}" if of is not None else ""
        return f"{self.prediction._head()}{taken}"

    def __str__(self) -> str:
        columns = [name for name in COLUMNS if name != "samples" or self.samples is not None]
        waits = ["waits for"] * (self.samples is not None)
        rows = [(*columns, *waits, "line", "")]
        for line, text in enumerate(self.source.splitlines(), 1):
            numbers = (self._number(line, column) for column in columns)
            rows.append((*numbers, *(self._waits(line) for _ in waits), str(line), text))
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]) - 1)]
        table = (
            "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=False)) + f"  {row[-1]}"
            for row in rows
        )
        return "\n".join((self._head(), *map(str.rstrip, table)))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        font = "font-family:monospace;font-size:12px;line-height:1.4;color:#111;"
        cell = "padding:0 .3em;text-align:right;border:0;color:#111;vertical-align:top;"
        used = sorted({line for code in self.codes.values() for line, _ in code.rows if line})
        marks = {line: colour(index) for index, line in enumerate(used)}

        def mark(line: int) -> str:
            return f"border-left:6px solid {marks.get(line, '#fff')};"

        shown = [column for column in COLUMNS if self.lines[column].fillna(0).max() > 0]
        most = {column: 32.0 if "/" in column else float(self.lines[column].max()) for column in shown}
        heads = "".join(
            f'<th style="{cell}background:#eee">{name.replace("/", "/<wbr>")}</th>' for name in shown
        )
        # At the right of the source, where the page has room.
        more = f'<th style="{cell}text-align:left;background:#eee">waits for</th>' if self.samples else ""
        file = f'<th colspan="2" style="{cell}text-align:left;background:#eee">{self.file}</th>'
        rows = [f"<tr>{heads}{file}{more}</tr>"]
        for line, text in enumerate(self.source.splitlines(), 1):
            cells = ""
            for column in shown:
                value = self.lines[column].fillna(0).get(line, 0.0)
                heat = ",".join(str(round(255 + (hot - 255) * min(1.0, value / most[column]))) for hot in HOT)
                cells += f'<td style="{cell}background:rgb({heat})">{self._number(line, column)}</td>'
            waits = ""
            if self.samples is not None:
                words = html.escape(self._waits(line))
                waits = f'<td style="{cell}text-align:left;white-space:nowrap">{words}</td>'
            rows.append(
                f'<tr data-line="{line}" style="background:#fff;cursor:pointer">{cells}'
                f'<td style="{cell}{mark(line)}color:#666">{line}</td>'
                f'<td style="{cell}text-align:left;white-space:pre">{html.escape(text)}</td>{waits}</tr>'
            )
        panes, buttons = "", ""
        for number, (name, code) in enumerate(self.codes.items()):
            buttons += f'<button type="button" data-pane="{name}">{name}</button> '
            body = "".join(
                f'<div data-of="{line}" style="{mark(line)}padding-left:4px">{html.escape(text)}</div>'
                for line, text in code.rows
            )
            panes += (
                f'<div data-code="{name}" style="{"display:none" if number else ""}">'
                f"<b>{html.escape(code.title)}</b>"
                f'<div style="max-height:{_MOST_HEIGHT};overflow:auto;white-space:pre;position:relative">'
                f"{body}</div></div>"
            )
        content = f"{''.join(rows)}{panes}"
        name = "source-page-" + hashlib.sha256(content.encode()).hexdigest()[:12]
        without = (
            "" if self.codes else "without nvcc there is no machine code, and instructions are estimated"
        )
        page = (
            f'<div id="{name}" style="{font}background:#fff;display:flex;gap:12px;align-items:flex-start">'
            f'<div style="flex:2;min-width:0;max-height:{_MOST_HEIGHT};overflow:auto">'
            f'<table style="border-collapse:collapse;{font}">{"".join(rows)}</table></div>'
            f'<div style="flex:1;min-width:0">{buttons}{without}{panes}</div></div>'
        )
        head = f'<div style="{font}background:#fff;white-space:pre-line">{html.escape(self._head())}</div>'
        return f"{head}{page}<script>{_SCRIPT % name}</script>"


# Two pages with the same content share a name, so the script takes the first that is not ready.
_SCRIPT = """
(function () {
  const root = document.querySelector('[id="%s"]:not([data-ready])');
  if (!root) return;
  root.dataset.ready = 1;
  root.querySelectorAll('[data-pane]').forEach(button => button.addEventListener('click', () =>
    root.querySelectorAll('[data-code]').forEach(pane => {
      pane.style.display = pane.dataset.code === button.dataset.pane ? '' : 'none';
    })));
  function choose(line) {
    root.querySelectorAll('[data-line]').forEach(row => {
      row.style.outline = row.dataset.line === line ? '2px solid #31688E' : '';
    });
    root.querySelectorAll('[data-of]').forEach(row => {
      row.style.background = row.dataset.of === line ? '#FFF1C9' : '';
    });
    root.querySelectorAll('[data-code]').forEach(pane => {
      const first = pane.querySelector('[data-of="' + line + '"]');
      if (first) first.parentElement.scrollTop = first.offsetTop - 40;
    });
  }
  root.querySelectorAll('[data-line]').forEach(row =>
    row.addEventListener('click', () => choose(row.dataset.line)));
  root.querySelectorAll('[data-of]').forEach(row =>
    row.addEventListener('click', () => choose(row.dataset.of)));
})();
"""


def source_page(
    launch: BoundLaunch,
    *arguments,
    gpu="H200",
    template=None,
    seconds: float = 4.0,
    samples: Samples | None = None,
) -> SourcePage:
    """Each line's costs on a GPU that need not be present, with its SASS and PTX beside.

    launch, arguments, gpu, template, seconds: as for `predict()`. samples: a profiler's, for this text
    (`cudasim.predicting.samples`, which fgn.profiling takes on a GPU or reads from a report); the SASS is
    then the code that ran there. Without nvcc and nvdisasm there is no other machine code beside. ValueError
    for samples of another text.
    """
    if samples is not None and (why := samples.not_of(launch.kernel)):
        raise ValueError(f"samples: {why}")
    prediction = predict(launch, *arguments, gpu=gpu, template=template, seconds=seconds)
    kernel, codes = launch.kernel, {}
    if machine_code.is_there():
        for name, of in (("SASS", sass), ("PTX", ptx)):
            codes[name] = of(kernel, *arguments, gpu=gpu, template=template)
    if samples is not None:
        codes = {"SASS": samples.code()} | {name: of for name, of in codes.items() if name != "SASS"}
    return SourcePage(prediction, codes, kernel.file, kernel.source, samples)
