"""What a call returns, assigned so that the simulator sees the store.

A compiler lets a call write its result, a struct, straight to where it is assigned, and gcc's and clang's
instrumentation tells nobody of that store. So `s[i] = f(x)` becomes `s[i] = sim_result(f(x))`
(cudasim/sim/cpp/language.hpp): the call makes an object, and copying the object is a store like others.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudasim.live.tree import Change, Source


def results(source: Source) -> Iterator[Change]:
    """Rewrites the assignments of what a call returns."""
    for node in source.walk():
        if node.type != "assignment_expression" or node.node.has_error:
            continue
        operator, value = node.field("operator"), node.field("right")
        if operator is not None and operator.type == "=" and value.type == "call_expression":
            yield value.begin, 0, b"sim_result("
            yield value.end, 0, b")"
