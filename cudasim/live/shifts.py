"""Shifts, written so that a count of as many bits as there are, or more, has a GPU's value.

C++ leaves such a shift undefined. On a GPU it has a value (PTX ISA, "shl" and "shr": a count beyond the
register's width is clamped to it), and x86 makes another one. So `a << b` becomes `a << sim_by << b`, which
binds just as before: the first part makes an object of a, whose shift by b is cudasim/sim/cpp/shifts.hpp's.
A count that is a number stays as it is, and so does `>>` where `<` stands before it in its statement, which
may be a template's: such a shift by too much is reported when it happens (cudasim/sim/undefined.c).
"""

from __future__ import annotations

import re

from cudasim.live.text import blanked, spaces

_SHIFT = re.compile(r"(?<![<>])(<<|>>)(=?)(?![<>=])")
_NUMBER = re.compile(r"\s*(?:0[xX][0-9a-fA-F]+|\d+)[uUlL]*\s*(?:[;,)\]}&|^?:=!]|$)")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?!define\b)\w+(?:\\\n|[^\n])*", re.M)
_CLOSED_TEMPLATE = re.compile(r"\b\w+\s*<[\w\s:,*&]*>(?!>)")
_BEGINS_STATEMENT = re.compile(r"[;{}](?=[^;{}]*$)")


def _may_close_templates(text: str, place: int) -> bool:
    statement = text[max(0, place - 400) : place]
    begin = _BEGINS_STATEMENT.search(statement)
    statement = _CLOSED_TEMPLATE.sub(" ", statement[begin.end() if begin else 0 :])
    return re.search(r"(?<!<)<(?![<=])", statement) is not None


def with_shifts(source: str) -> str:
    """The source with its shifts by what is no number written as above; its lines stay its lines."""
    text = _DIRECTIVE.sub(lambda match: spaces(match[0]), blanked(source))
    for match in reversed(list(_SHIFT.finditer(text))):
        operator, assigns = match.groups()
        if _NUMBER.match(text, match.end()) or re.search(r"\boperator\s*$", text[: match.start()]):
            continue
        if operator == ">>" and not assigns and _may_close_templates(text, match.start()):
            continue
        source = f"{source[: match.end()]} sim_by {match[0]}{source[match.end() :]}"
    return source
