"""The text of a source: separates code from comments, quotes and directives; finds lines and brackets."""

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
    """The source with spaces instead of comments and quotes, so that all else stays in place."""
    return COMMENTS_AND_QUOTES.sub(lambda match: spaces(match[0]), source)


_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?P<name>\w*)(?:\\\n|[^\n])*", re.M)


def without_directives(text: str) -> str:
    """Blanked text with spaces instead of preprocessor directives.

    If each branch of an #if opens or closes the same brace, only the first branch stays, so that the
    remaining braces are in pairs.
    """
    branches: list[list[int]] = []  # of each open #if: where its branches begin
    for match in _DIRECTIVE.finditer(text):
        if match["name"] in ("if", "ifdef", "ifndef"):
            branches.append([match.end()])
        elif match["name"] in ("else", "elif") and branches:
            branches[-1].append(match.end())
        elif match["name"] == "endif" and branches:
            text = _one_branch(text, branches.pop(), match.start())
    return _DIRECTIVE.sub(lambda match: spaces(match[0]), text)


def _one_branch(text: str, begins: list[int], end: int) -> str:
    bodies = [text[begin:stop] for begin, stop in zip(begins, [*begins[1:], end], strict=True)]
    bodies = [_DIRECTIVE.sub("", body) for body in bodies]
    opened = {body.count("{") - body.count("}") for body in bodies}
    if len(bodies) == 1 or len(opened) > 1 or opened == {0}:
        return text
    return text[: begins[1]] + spaces(text[begins[1] : end]) + text[end:]


def directives_of(source: str) -> str:
    """The source's directives, and spaces instead of all else."""
    pieces, end = [], 0
    for match in _DIRECTIVE.finditer(source):
        pieces += [spaces(source[end : match.start()]), match[0]]
        end = match.end()
    return "".join(pieces) + spaces(source[end:])


def line_of(text: str, position: int) -> int:
    return 1 + text.count("\n", 0, position)


def open_braces(text: str) -> list[int]:
    """The positions of the braces that are still open at the text's end, the outermost first."""
    opened = []
    for brace in re.finditer("[{}]", text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            opened.pop()
    return opened


def closing(text: str, opening: int) -> int:
    """The position at which the bracket at `opening` is closed, or the text's end."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    open_one, close_one = text[opening], pairs[text[opening]]
    depth = 0
    for match in re.compile(f"[{re.escape(open_one + close_one)}]").finditer(text, opening):
        depth += 1 if match[0] == open_one else -1
        if depth == 0:
            return match.start()
    return len(text)


def places_in(text: str) -> list[tuple[str, int]]:
    """For each line of a text the file and the line that its #line directives give it."""
    found, file, line = [], "", 0
    for content in text.split("\n"):
        line += 1
        found.append((file, line))
        if named := re.match(r'\s*#\s*line\s+(\d+)\s+"([^"]*)"', content):
            file, line = named[2], int(named[1]) - 1
    return found
