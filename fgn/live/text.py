"""The text of a source: what is code, and what comments, quotes and directives; lines and brackets."""

from __future__ import annotations

import re

COMMENTS_AND_QUOTES = re.compile(
    r"""//(?:\\\n|[^\n])*|/\*.*?\*/|R"(?P<fence>[^()\s]*)\(.*?\)(?P=fence)"|"(?:\\.|[^"\\\n])*"|"""
    r"""(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'""",
    re.S,
)


def spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def blanked(source: str) -> str:
    """The source with spaces in place of comments and quotes, so that all else stays where it is."""
    return COMMENTS_AND_QUOTES.sub(lambda match: spaces(match[0]), source)


def without_directives(text: str) -> str:
    """Blanked text with spaces in place of preprocessor directives."""
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda match: spaces(match[0]), text, flags=re.M)


def line_of(text: str, position: int) -> int:
    return 1 + text.count("\n", 0, position)


def open_braces(text: str) -> list[int]:
    """Where the braces are that are open at the text's end, the outermost first."""
    opened = []
    for brace in re.finditer("[{}]", text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            opened.pop()
    return opened


def closing(text: str, opening: int) -> int:
    """Where the bracket at `opening` is closed; the text's end when it is not."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    open_one, close_one = text[opening], pairs[text[opening]]
    depth = 0
    for match in re.compile(f"[{re.escape(open_one + close_one)}]").finditer(text, opening):
        depth += 1 if match[0] == open_one else -1
        if depth == 0:
            return match.start()
    return len(text)
