"""Warns of code that relies on the lanes of a warp running in lockstep.

Before Volta a warp could add up shared memory through a volatile pointer, without a barrier between the
steps. Since Volta a GPU need not run its lanes in lockstep, though it mostly does; here each lane runs until
it waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from cudasim.live.text import blanked

_IS_VOLATILE = re.compile(r"\bvolatile\b[^;(){}=,]*?[\s*&](\w+)\s*(?=[=,);\[])")
_WAITS = re.compile(r"__sync\w*|\bsync\s*\(|__shfl\w*")


def warnings_of(source: Path) -> Iterator[str]:
    """A warning for each volatile name, at the first line of such a use."""
    text = blanked(source.read_text(errors="replace"))
    for name in dict.fromkeys(_IS_VOLATILE.findall(text)):
        element = rf"\b{name}\s*\[([^\]]*)\]"
        step = re.compile(rf"{element}\s*[-+*&|^]?=(?!=)[^;]*?{element}")
        place, before = 0, False
        for statement in text.split(";"):
            found = step.search(statement)
            is_step = bool(found) and found[1].split() != found[2].split()
            if is_step and before and not _WAITS.search(statement):
                line = text.count("\n", 0, place + found.start()) + 1
                yield (
                    f"cudasim: warning: {source.name}:{line}: lanes of a warp read {name}, which is volatile,"
                    " after others have written it, with no __syncwarp() between: here each lane runs until"
                    " it waits, so they may read what is old or what is too new"
                )
                break
            before = is_step
            place += len(statement) + 1
