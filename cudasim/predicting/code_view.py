"""A kernel's machine code, or its PTX, beside its source: which instructions each line became."""

from __future__ import annotations

import colorsys
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cudasim.predicting import machine_code
from cudasim.predicting.cards import card

_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)(?:.*?inlined_at\s+\d+)?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)


@dataclass(frozen=True)
class CodeView:
    """Instructions beside the source. rows: (line of the source or 0, text) in the order of the code.

    `print()` shows the code, each run of it under the line that it came from; a notebook shows source and
    code side by side, a line and its instructions in one colour.
    """

    title: str
    file: str
    source: str
    rows: tuple[tuple[int, str], ...]

    def of_line(self, line: int) -> list[str]:
        """The instructions of a line of the source, from 1 on."""
        return [text for of, text in self.rows if of == line]

    def __str__(self) -> str:
        lines, shown, last = self.source.splitlines(), [self.title], None
        for line, text in self.rows:
            if line != last and 0 < line <= len(lines):
                shown.append(f"{self.file}:{line}: {lines[line - 1].strip()}")
            last = line
            shown.append(f"        {text}")
        return "\n".join(shown)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        used = sorted({line for line, _ in self.rows if line})
        colours = {line: colour(index) for index, line in enumerate(used)}
        style = "font-family:monospace;font-size:12px;line-height:1.4;color:#111;white-space:pre-wrap;"
        cell = f"{style}vertical-align:top;text-align:left;background:#fff;border:1px solid #ddd;width:50%;"

        def row(line: int, text: str, number: str) -> str:
            background = f"background:{colours[line]};" if line in colours else ""
            return f'<div style="{background}">{number}{html.escape(text) or " "}</div>'

        source = "".join(
            row(line, text, f'<span style="color:#666">{line:>4}  </span>')
            for line, text in enumerate(self.source.splitlines(), 1)
        )
        code = "".join(row(line, text, "") for line, text in self.rows)
        return (
            f'<table style="width:100%;border-collapse:collapse"><tr>'
            f'<th style="{cell}">{html.escape(self.file)}'
            f'</th><th style="{cell}">{html.escape(self.title)}</th></tr>'
            f'<tr><td style="{cell}">{source}</td><td style="{cell}">{code}</td></tr></table>'
        )


def colour(index: int) -> str:
    """A light colour, far from those of the lines before."""
    red, green, blue = colorsys.hls_to_rgb(index * 0.381966 % 1, 0.88, 0.7)
    return f"rgb({round(255 * red)},{round(255 * green)},{round(255 * blue)})"


def _code(kernel, gpu, template, arguments: Sequence):
    of = card(gpu)
    architecture = machine_code.architecture_for(of.capability)
    instance = kernel._instance(list(arguments), template)
    return of, architecture, instance


def sass(kernel, *arguments, gpu="H200", template=None) -> CodeView:
    """The machine code of a kernel for a GPU, which need not be there.

    arguments: those of a launch, where the kernel is a template whose types follow from them. template: its
    arguments otherwise. MissingToolError without nvcc and nvdisasm; BuildError where nvcc refuses the kernel.
    """
    of, architecture, instance = _code(kernel, gpu, template, arguments)
    code = machine_code.machine_code(kernel, instance, architecture)
    rows = tuple(
        (next((line for file, line in one.lines if file == kernel.file), 0), str(one))
        for one in code.instructions
        if one.name != "NOP"
    )
    title = (
        f"{kernel.name} for {of.name} ({architecture}): {code.registers} registers, {len(rows)} instructions"
    )
    return CodeView(title, kernel.file, kernel.source, rows)


def ptx(kernel, *arguments, gpu="H200", template=None) -> CodeView:
    """The PTX of a kernel, from which its machine code is made; see `sass()`."""
    of, architecture, instance = _code(kernel, gpu, template, arguments)
    name = machine_code.machine_code(kernel, instance, architecture).name
    text = (machine_code.folder_of(kernel, instance, architecture) / "kernel.ptx").read_text()
    files = {number: file.rpartition("/")[2] for number, file in _FILE.findall(text)}
    begin = text.index(f".entry {name}(")
    end = text.find("\n}", begin)
    rows, line = [], 0
    for row in text[begin:end].splitlines():
        if found := _LOC.match(row):
            line = int(found[2]) if files.get(found[1]) == kernel.file else line
        elif row.strip() and not row.strip().startswith(("//", ".reg", "{", "}")):
            rows.append((line if row.startswith("\t") else 0, row.strip()))
    title = f"{kernel.name} for {of.name} ({architecture}): PTX"
    return CodeView(title, kernel.file, kernel.source, tuple(rows))
