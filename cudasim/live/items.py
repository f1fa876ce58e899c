"""Items of a source: the declarations in a file, a namespace or a class. They are read from the text, not
compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cudasim.live.text import closing


@dataclass(frozen=True)
class Item:
    """A declaration or definition. head: its text without the body. body: its braces' places, or None."""

    begin: int
    end: int
    head: str
    body: tuple[int, int] | None

    @property
    def scope(self) -> str | None:
        """The namespace's name ("" for a nameless one or extern "C"); None for other items."""
        match = re.match(r"\s*(?:inline\s+)?namespace\b\s*([\w:]*)\s*$", self.head)
        if match:
            return match[1]
        return "" if re.match(r"\s*extern\s*$", self.head) and self.body else None

    @property
    def is_class(self) -> bool:
        head = re.sub(r"^\s*(?:template\s*<.*?>\s*(?=struct|class|union|enum))", "", self.head, flags=re.S)
        kind = re.match(r"\s*(?:typedef\s+|static\s+|const\s+)*(struct|class|union|enum)\b", head)
        if kind is None or self.body is None:
            return False
        # `struct P f(int a) {` is a function.
        return re.search(r"\w\s*\([^()]*\)\s*(?:const\s*)?$", self.without_alignment(head)) is None

    @staticmethod
    def without_alignment(head: str) -> str:
        return re.sub(
            r"\b(?:__align__|alignas|__attribute__|__builtin_align__)\s*\((?:[^()]|\([^()]*\))*\)", " ", head
        )

    @property
    def is_function(self) -> bool:
        """A definition with a parameter list."""
        head = self.without_alignment(self.head)
        return (
            self.body is not None
            and not self.is_class
            and self.scope is None
            and "(" in head
            and not re.search(
                r"(?<![=!<>])=(?!=)",
                re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)|<[^<>]*>|operator\s*\S+", " ", head),
            )
        )


def items(text: str, begin: int, end: int, macros: set[str] = frozenset()) -> Iterator[Item]:
    """The items between two places of a blanked text without directives.

    macros: names whose call is an item itself, if it is where an item begins or alone in its line.
    """
    place = begin
    while place < end:
        start = re.compile(r"[\s;]*").match(text, place, end).end()
        if start >= end:
            return
        call = re.compile(r"(\w+)(?:\s*(\()|[ \t]*$)", re.M).match(text, start, end)
        if call and call[1] in macros:
            stop = min(closing(text, call.end() - 1) + 1, end) if call[2] else call.end()
            yield Item(start, stop, text[start:stop], None)
            place = stop
            continue
        stop, body = start, None
        scan = re.compile(r"[;({\[]")
        while True:
            match = scan.search(text, stop, end)
            if match is None:
                stop = end
                break
            if match[0] == ";":
                stop = match.end()
                break
            close = closing(text, match.start())
            if match[0] != "{":
                stop = close + 1
                continue
            head = text[start : match.start()]
            body = (match.start(), min(close + 1, end))
            item = Item(start, body[1], head, body)
            if item.scope is not None or item.is_function:
                stop = body[1]
                # A constructor's initialisers may have braces: `: x{0} {`.
                following = re.compile(r"\s*([{,])").match(text, stop, end)
                if item.is_function and following and re.search(r"\)\s*(?:noexcept\s*)?:[^:]", head):
                    continue
                break
            stop = close + 1  # a class or an initialiser goes on to its semicolon
        head_end = body[0] if body else stop
        yield Item(start, min(stop, end), text[start:head_end], body)
        place = max(stop, start + 1)
