"""The kernels' source, shown from the files themselves."""

from __future__ import annotations

import re
from pathlib import Path

from cudasim.source import Source
from fgn.native.places import SOURCES


def find(file: str) -> Path:
    """The file in `cuda_c/` of this name; its folder and `.cu` may be left out."""
    name = file if Path(file).suffix else f"{file}.cu"
    found = [path for path in sorted(SOURCES.rglob(Path(name).name)) if path.match(name)]
    if len(found) != 1:
        there = ", ".join(sorted(p.name for p in SOURCES.rglob("*.cu")))
        raise FileNotFoundError(f"file: expected one of {there}, got {file!r}")
    return found[0]


def source_text(file: str, kernel: str | None = None) -> str:
    """The text of a file in `cuda_c/`, or of one function in it with the comment above it.

    file: its name, with or without `.cu`. kernel: the name of a function that starts in the first column.
    FileNotFoundError or ValueError lists what exists.
    """
    path = find(file)
    text = path.read_text()
    if kernel is None:
        return text
    lines = text.splitlines(keepends=True)
    for first, line in enumerate(lines):
        # A definition starts in the first column, perhaps with its type in a separate line, and its body ends
        # with a brace there.
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


def source(file: str, kernel: str | None = None) -> Source:
    """The same as `source_text()`, as highlighted CUDA C for a notebook."""
    return Source(source_text(file, kernel))
