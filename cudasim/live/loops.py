"""Loops of a source, for reports of loops that do not end."""

from __future__ import annotations

from cudasim.live.tree import Source

_LOOPS = {"for_statement", "while_statement", "do_statement", "for_range_loop"}


def loop_around(text: str, lines: set[int]) -> int | None:
    """The first line of the innermost loop around all these lines, or None if no loop contains them."""
    source = Source.of(text)
    found = None
    for node in source.tree.walk():
        if node.type not in _LOOPS:
            continue
        first, last = (1 + source.data[:place].count(b"\n") for place in (node.begin, node.end))
        if first <= min(lines) and max(lines) <= last and (found is None or first >= found):
            found = first
    return found
