"""Shifts, written so that a count of as many bits as there are, or more, has a GPU's value.

C++ leaves such a shift undefined. On a GPU it has a value (PTX ISA, "shl" and "shr": a count beyond the
register's width is clamped to it), and x86 makes another one. So `a << b` becomes `a << sim_by << b`, which
binds just as before: the first part makes an object of a, whose shift by b is cudasim/sim/cpp/shifts.hpp's.
A count that is a number stays as it is, and so does a shift that the grammar takes for the end of template
arguments, as in `i < n && a >> b`: such a shift by too much is reported when it happens
(cudasim/sim/undefined.c).
"""

from __future__ import annotations

from cudasim.live.tree import Node, changed, macros_of, tree_of

_SHIFTS = ("<<", ">>", "<<=", ">>=")


def _changes(data: bytes, tree: Node):
    """(where, how many bytes go, what comes in their place)"""
    for node in tree.walk():
        if node.type not in ("binary_expression", "assignment_expression"):
            continue
        operator, count = node.field("operator"), node.field("right")
        if operator is None or count is None or operator.type not in _SHIFTS:
            continue
        if count.type != "number_literal" and not operator.node.has_error:
            yield operator.end, 0, b" sim_by " + data[operator.begin : operator.end]


def with_shifts(source: str) -> str:
    """The source with its shifts by what is no number written as above; its lines stay its lines."""
    data = source.encode("utf-8", "surrogateescape")
    if b"<<" not in data and b">>" not in data:
        return source
    tree = tree_of(data)
    trees = (tree, *(body for _, body in macros_of(data, tree)))
    return changed(data, [change for each in trees for change in _changes(data, each)])
