"""The report on a kernel that does not end."""

from __future__ import annotations

from cudasim.live.loops import loop_around


def words_of_loop(source: str, lines: set[int]) -> tuple[str, ...]:
    """lines: where the kernel was during the whole observation."""
    text = source.splitlines()
    if not lines or max(lines) > len(text):
        return ("there may be a loop without an end",)
    line = loop_around(source, lines) or min(lines)
    return (
        f"there may be a loop without an end, at line {line}",
        f"→ line {line}: {text[line - 1].strip()}",
    )
