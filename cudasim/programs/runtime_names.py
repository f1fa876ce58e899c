"""The functions of CUDA's runtime, as its header lists them, and which of them are there: the table of
docs/runtime.md. `python -m cudasim.programs.runtime_names HEADER` prints it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from cudasim.live.source import CPP
from cudasim.live.text import blanked
from cudasim.programs.refused import why_refused

_PART = re.compile(
    r"\\defgroup (?P<group>\w+) (?P<title>[^*\n]+)|\\addtogroup (?P<again>\w+)"
    r"|CUDARTAPI\s+(?P<name>cuda\w+)\s*\("
)


def sections_of(header: str) -> dict[str, list[str]]:
    """The functions of cuda_runtime_api.h, by its sections."""
    found: dict[str, list[str]] = {}
    titles, section, seen = {}, "", set()
    for match in _PART.finditer(header):
        if match["group"]:
            titles[match["group"]] = match["title"].strip()
        if group := match["group"] or match["again"]:
            section = titles.get(group, group)
        elif match["name"] not in seen:
            seen.add(match["name"])
            found.setdefault(section, []).append(match["name"])
    return {section: names for section, names in found.items() if names}


def defined() -> frozenset[str]:
    """The names that the simulator's headers declare."""
    text = "\n".join(blanked(path.read_text()) for path in (*CPP.glob("*.hpp"), *CPP.glob("*.h")))
    return frozenset(re.findall(r"\bcuda[A-Z]\w*(?=[(;])|(?<=#define )cuda\w+", text))


def table(header: str) -> str:
    """The rows of the docs."""
    there, rows = defined(), []
    for section, names in sections_of(header).items():
        refused = {name: why_refused(name) for name in names if name not in there}
        by_reason: dict[str, list[str]] = {}
        for name, why in refused.items():
            by_reason.setdefault(why or "nobody has asked for it", []).append(f"`{name}`")
        why = "; ".join(f"{', '.join(of)} ({reason})" for reason, of in by_reason.items())
        present = ", ".join(f"`{name}`" for name in names if name in there)
        rows.append(f"| {section} | {present} | {why} |")
    return "\n".join(("| | there | not there |", "| --- | --- | --- |", *rows))


if __name__ == "__main__":
    print(table(Path(sys.argv[1]).read_text()))
