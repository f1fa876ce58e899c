"""Shifts, written so that a count of at least the number of bits gives a GPU's value.

C++ leaves such a shift undefined. A GPU defines it (PTX ISA, "shl" and "shr": a count beyond the register's
width is clamped to it), and x86 gives another value. So `a << b` becomes `a << sim_by << b`, which binds as
before: the first part makes an object of a, and cudasim/sim/cpp/shifts.hpp shifts it by b. A literal count
stays as it is. So does a shift that the grammar takes for the end of template arguments, as in `i < n && a >>
b`: there a count too large is reported at run time (cudasim/sim/undefined.c).
"""

from __future__ import annotations

from collections.abc import Iterator

from cudasim.live.tree import Change, Source

_SHIFTS = ("<<", ">>", "<<=", ">>=")


def shifts(source: Source) -> Iterator[Change]:
    """Rewrites the shifts by a count that is no literal."""
    for node in source.walk():
        if node.type not in ("binary_expression", "assignment_expression"):
            continue
        operator, count = node.field("operator"), node.field("right")
        if operator is None or count is None or operator.type not in _SHIFTS:
            continue
        if count.type != "number_literal" and not operator.node.has_error:
            yield operator.end, 0, b" sim_by " + source.text(operator)
