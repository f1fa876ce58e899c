"""Lets the threads of a kernel say by which way they exit.

A thread that executes `return` has exited, and no barrier waits for it; a thread that comes to the last line
of its kernel has gone past the barriers in branches that it did not take (cudasim/sim/barrier.c has the
rule). A compiler makes the same instructions of both, so each `return;` of a kernel says so itself.
"""

from __future__ import annotations

import re

from cudasim.live.text import blanked, closing

_RETURN = re.compile(r"\breturn(\s*);")
_DEFINITION = re.compile(r"^[ \t]*#[ \t]*define\b(?:\\\n|[^\n])*", re.M)


def _bodies(text: str):
    """Where kernels and macros begin and end: a macro may contain a kernel's `return`."""
    for match in re.finditer(r"\b__global__\b", text):
        place = match.end()
        while (following := re.compile(r"[({;]").search(text, place)) and following[0] == "(":
            place = closing(text, following.start()) + 1
        if following and following[0] == "{":
            yield following.start(), closing(text, following.start())
    for match in _DEFINITION.finditer(text):
        yield match.span()


def with_exits(source: str) -> str:
    """The source with `return sim_leave();` for each `return;` of a kernel; no line moves."""
    text = blanked(source)
    places = {match.start(1) for begin, end in _bodies(text) for match in _RETURN.finditer(text, begin, end)}
    for place in sorted(places, reverse=True):
        source = source[:place] + " sim_leave()" + source[place:]
    return source
