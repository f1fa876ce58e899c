"""Calls of a member template of a dependent class, which nvcc accepts without the word `template`.

    cast_of<T>::to<N>(x)        cast_of<T>::template to<N>(x)

In C++ the first is a comparison while T is unknown. So the second is written only where the compiler has
found a comparison of a function, or with nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudasim.live.tree import Change, Source

# The C++ compilers' messages about the comparison.
TAKEN_FOR_A_COMPARISON = (
    "unresolved overloaded function type",
    "expected primary-expression before",
    "missing 'template' keyword",
    "reference to overloaded function",
)


def dependent(source: Source) -> Iterator[Change]:
    """Adds the word `template` to them."""
    for node in source.walk():
        if node.type != "call_expression":
            continue
        around, name = None, node.field("function")
        while name is not None and name.type == "qualified_identifier":
            around, name = name.field("scope"), name.field("name")
        if around is not None and around.type == "template_type" and name.type == "template_function":
            yield name.begin, 0, b"template "
