"""The kernels' source, shown from the files themselves."""

from __future__ import annotations

import re
from pathlib import Path

from fgn.native.places import SOURCES

# The text of what was launched last from a notebook cell or a string, under each file's name: the source view
# shows it.
launched_sources: dict[str, str] = {}


def find(file: str) -> Path:
    """The file in `cuda_c/` of this name, with or without its folder, and with or without `.cu`."""
    name = file if Path(file).suffix else f"{file}.cu"
    found = [path for path in sorted(SOURCES.rglob(Path(name).name)) if path.match(name)]
    if len(found) != 1:
        there = ", ".join(sorted(p.name for p in SOURCES.rglob("*.cu")))
        raise FileNotFoundError(f"file: expected one of {there}, got {file!r}")
    return found[0]


def source_text(file: str, kernel: str | None = None) -> str:
    """The text of a file in `cuda_c/`, or of one function in it with the comment above it.

    file: its name, with or without `.cu`. kernel: the name of a function that starts in the first column.
    FileNotFoundError or ValueError names what there is.
    """
    path = find(file)
    text = path.read_text()
    if kernel is None:
        return text
    lines = text.splitlines(keepends=True)
    for first, line in enumerate(lines):
        # A definition starts in the first column, if need be with its type in a line of its own, and its body
        # ends with a brace there.
        own_line = line.startswith(f"{kernel}(")
        if own_line or re.match(rf"[a-zA-Z_].*\b{re.escape(kernel)}\(", line):
            opening = next(i for i in range(first, len(lines)) if lines[i].rstrip().endswith(("{", ";")))
            if lines[opening].rstrip().endswith("{"):
                last = lines.index("}\n", opening)
                first -= own_line
                while lines[first - 1].startswith(("//", "/*", " *")):
                    first -= 1
                return "".join(lines[first : last + 1])
    raise ValueError(f"kernel: {path.name} has no function {kernel!r}")


class Source(str):
    """CUDA C that a notebook shows highlighted."""

    language = "cuda"

    def __repr__(self):
        return str(self)

    def _repr_html_(self) -> str:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
        from pygments.styles.default import DefaultStyle
        from pygments.token import Error

        class Plain(DefaultStyle):
            """Where a number stands before a directive, the lexer sees an error; a reader need not."""

            styles = DefaultStyle.styles | {Error: ""}

        # Styles stand in the text itself: notebook viewers disagree about style sheets, and about the font of
        # preformatted text in an output.
        formatter = HtmlFormatter(
            style=Plain, noclasses=True, nobackground=True, prestyles="font-family: monospace"
        )
        return highlight(
            str(self), get_lexer_by_name(self.language, stripall=False, stripnl=False), formatter
        )


def source(file: str, kernel: str | None = None) -> Source:
    """The same as `source_text()`, as highlighted CUDA C for a notebook."""
    return Source(source_text(file, kernel))
