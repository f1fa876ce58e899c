"""Shifts, written so that a count of as many bits as there are, or more, has a GPU's value.

C++ leaves such a shift undefined. On a GPU it has a value (PTX ISA, "shl" and "shr": a count beyond the
register's width is clamped to it), and x86 makes another one. So `a << b` becomes `a << sim_by << b`, which
binds just as before: the first part makes an object of a, whose shift by b is cudasim/sim/cpp/shifts.hpp's.
A count that is a number stays as it is, and so does a shift that the grammar takes for the end of template
arguments, as in `i < n && a >> b`: such a shift by too much is reported when it happens
(cudasim/sim/undefined.c).
"""

from __future__ import annotations

from collections.abc import Iterator

from cudasim.live.tree import Change, Source

_SHIFTS = ("<<", ">>", "<<=", ">>=")


def shifts(source: Source) -> Iterator[Change]:
    """Writes the shifts by what is no number as above."""
    for node in source.walk():
        if node.type not in ("binary_expression", "assignment_expression"):
            continue
        operator, count = node.field("operator"), node.field("right")
        if operator is None or count is None or operator.type not in _SHIFTS:
            continue
        if count.type != "number_literal" and not operator.node.has_error:
            yield operator.end, 0, b" sim_by " + source.text(operator)
