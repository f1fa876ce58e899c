"""Casts to integers, written so that a float is converted as on a GPU.

C++ leaves the conversion of a float to an integer undefined where the integer cannot hold the value. A GPU
returns the nearest value that the integer can hold (PTX ISA, "cvt"); x86 returns another one. So `(int)x`,
`int(x)` and `static_cast<int>(x)` become `sim_cast<int>(x)` (cudasim/sim/cpp/conversions.hpp). A conversion
without such a cast, as in `int i = x;`, is reported when it happens (cudasim/sim/undefined.c).
"""

from __future__ import annotations

import re

from cudasim.live.text import COMMENTS_AND_QUOTES, closing

_WORDS = r"(?:(?:unsigned|signed|long|short|int|char)\b\s*)+"
_NAMES = (
    r"(?:std::\s*)?(?:u?int(?:8|16|32|64)_t|s?size_t|ptrdiff_t|u?intptr_t)\b|"
    r"\b(?:uint|ushort|uchar|ulong)\b"
)
_INTEGER = rf"(?:{_WORDS}|{_NAMES})"
_CAST = re.compile(rf"\(\s*(?:const\s+)?({_INTEGER})\s*\)(?=\s*[\w.(+\-!~*&:])")
_FUNCTION = re.compile(rf"(?<![\w:>])({_INTEGER})\((?!\s*\))")
_STATIC = re.compile(rf"\bstatic_cast\s*<\s*({_INTEGER})\s*>(?=\s*\()")

_ANY_TYPE = re.compile(r"\(\s*(?:const\s+)?[A-Za-z_][\w:]*(?:\s+[A-Za-z_]\w*)*\s*(?:<[\w\s:,*]*>)?[\s*&]*\)")
_BUILT_IN_TYPE = re.compile(
    rf"\(\s*(?:const\s+)?(?:{_INTEGER}|float|double|bool|half|__half|[\w:<>,\s]+\*)\s*\)"
)
_BEGINS_OPERAND = re.compile(r"\s*[\w.(+\-!~*&:]")
_NO_OPERAND = re.compile(r"\b(?:return|case|else|do|throw|co_return|and|or|not)\s*$")
_ARGUMENTS = r"(?:\s*<[\w\s:,*]*>(?=\s*(?:\(|::)))?"
_NUMBER = re.compile(r"\.?\d(?:[eEpP][+-]|[\w.'])*")
_NAME = re.compile(
    rf"(?:::\s*)?[A-Za-z_]\w*{_ARGUMENTS}(?:\s*::\s*(?:template\s+)?[A-Za-z_]\w*{_ARGUMENTS})*"
)
_MEMBER = re.compile(rf"[ \t]*(?:\.|->)\s*(?:template\s+)?[A-Za-z_]\w*{_ARGUMENTS}")


def _masked(source: str) -> str:
    """The source with spaces for comments and zeros for quotes, so that a quoted character is an operand."""
    return COMMENTS_AND_QUOTES.sub(
        lambda match: re.sub(r"[^\n]", " " if match[0][0] == "/" else "0", match[0]), source
    )


def _is_after_operand(text: str, place: int) -> bool:
    """Whether the text before `place` ends with an operand, or with a name that is declared or called."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    if re.fullmatch(r"[ \t]*#[ \t]*define[ \t]+\w+(?:\([^()]*\))?[ \t]*", line):
        return False
    before = text[max(0, place - 200) : place].rstrip()
    if re.search(r"[\w\])\"]$", before):
        return _NO_OPERAND.search(before) is None
    return False


def _follows_cast(text: str, place: int) -> bool:
    """Whether a cast in parentheses ends before `place`."""
    before = text[max(0, place - 200) : place].rstrip()
    opening = len(text[:place].rstrip()) - len(before)
    if not before.endswith(")"):
        return False
    begin = before.rfind("(")
    opening += begin
    return (
        begin >= 0
        and _BUILT_IN_TYPE.fullmatch(before, begin) is not None
        and (not _is_after_operand(text, opening) or _follows_cast(text, opening))
    )


def _end_of_operand(text: str, place: int) -> int | None:
    """Where the operand of a cast that begins at `place` ends; None where the text alone does not show
    that."""
    while True:
        place = re.compile(r"\s*").match(text, place).end()
        prefix = re.compile(r"\+\+|--|[+\-!~*&]").match(text, place)
        if prefix:
            place = prefix.end()
            continue
        cast = _ANY_TYPE.match(text, place)
        if cast is None:
            break
        of_built_in = _BUILT_IN_TYPE.fullmatch(cast[0]) and _BEGINS_OPERAND.match(text, cast.end())
        if not of_built_in and not re.compile(r"\s*[\w(]").match(text, cast.end()):
            break
        place = cast.end()
    if text[place : place + 1] == "(":
        place = closing(text, place) + 1
    else:
        primary = _NUMBER.match(text, place) or _NAME.match(text, place)
        if primary is None:
            return None
        place = primary.end()
    while True:
        bracket = re.compile(r"[ \t]*([(\[])").match(text, place)
        follows = _MEMBER.match(text, place) or re.compile(r"\+\+|--").match(text, place)
        if bracket:
            place = closing(text, bracket.start(1)) + 1
        elif follows:
            place = follows.end()
        else:
            return min(place, len(text))


def with_casts(source: str) -> str:
    """The source with its casts to integers written as calls of sim_cast; no line moves."""
    text = _masked(source)
    changes = []  # (place, how much goes, what comes)
    for match in _CAST.finditer(text):
        if _is_after_operand(text, match.start()) and not _follows_cast(text, match.start()):
            continue
        end = _end_of_operand(text, match.end())
        if end is not None:
            lines = "\n" * match[0].count("\n")
            changes += [
                (match.start(), match.end() - match.start(), f"sim_cast<{match[1].strip()}>({lines}"),
                (end, 0, ")"),
            ]
    for match in _FUNCTION.finditer(text):
        if _is_after_operand(text, match.start()) or re.match(
            rf"\s*(?:\*|{_INTEGER}|float|double|void)\b", text[match.end() :]
        ):
            continue
        if re.compile(r"\)\s*\(").match(text, closing(text, match.end() - 1)):
            continue  # a pointer to a function is declared
        if re.search(r"(?:^|[;{}]|\bfor\s*\()\s*$", text[max(0, match.start() - 200) : match.start()]):
            continue  # `int(x) = 3;` declares x
        changes.append((match.start(), len(match[1]), f"sim_cast<{match[1].strip()}>"))
    for match in _STATIC.finditer(text):
        changes.append((match.start(), len("static_cast"), "sim_cast"))
    directives = [
        (m.start(), m.end()) for m in re.finditer(r"^[ \t]*#[ \t]*(?!define\b)\w+(?:\\\n|[^\n])*", text, re.M)
    ]
    for place, gone, new in sorted(changes, reverse=True):
        if not any(begin <= place < end for begin, end in directives):
            source = source[:place] + new + source[place + gone :]
    return source
