"""Casts to integers, written so that a float is converted as on a GPU.

C++ leaves the conversion of a float to an integer undefined if the integer cannot hold the value. A GPU
returns the nearest value that the integer can hold (PTX ISA, "cvt"); x86 returns another one. So `(int)x`,
`int(x)` and `static_cast<int>(x)` become `sim_cast<int>(x)` (cudasim/sim/cpp/conversions.hpp), and a
variable's value, `int i = x;`, becomes `int i = sim_cast<int>(x);`. Another conversion without a cast, as in
`a[i] = x;`, is reported when the integer cannot hold the float (cudasim/sim/undefined.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudasim.live.tree import Change, Node, Source, lines_in

_INTEGER = re.compile(
    rb"\s*(?:const\s+)?((?:(?:unsigned|signed|long|short|int|char)\b\s*)+|"
    rb"(?:std\s*::\s*)?(?:u?int(?:8|16|32|64|ptr)_t|s?size_t|ptrdiff_t)|uint|ushort|uchar|ulong)\s*"
)


def _integer(text: bytes) -> bytes | None:
    """The integer type that the text names, else None."""
    found = _INTEGER.fullmatch(text)
    return found and b" ".join(found[1].split())


# Expressions that may be floats. One with < or > is left out: it may have a template, and end elsewhere.
_MAY_BE_FLOAT = {
    *("identifier", "subscript_expression", "field_expression", "pointer_expression", "call_expression"),
    *("parenthesized_expression", "conditional_expression", "unary_expression", "binary_expression"),
}
_PLACES = re.compile(rb"\b(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*[xyz]\b")


def _may_be_float(source: Source, value: Node | None) -> bool:
    if value is None or value.type not in _MAY_BE_FLOAT:
        return False
    text = source.text(value)
    return not re.search(rb"[<>#]", text) and bool(re.search(rb"[A-Za-z_]\w*", _PLACES.sub(b"", text)))


def _begins_a_statement(node: Node) -> bool:
    """Whether a statement begins with the node: `int(x) = 3;` declares x."""
    parent = node.parent
    while parent is not None and parent.begin == node.begin:
        if parent.type in ("expression_statement", "declaration"):
            return True
        parent = parent.parent
    return parent is not None and parent.type == "for_statement"


def casts(source: Source) -> Iterator[Change]:
    """Writes the casts to integers as calls of sim_cast."""
    for node in source.walk():
        if node.node.has_error:
            continue
        if node.type == "cast_expression":
            integer = _integer(source.text(node.field("type")))
            value = node.field("value")
            if integer and value.type not in ("initializer_list", "compound_literal_expression"):
                head = source.data[node.begin : value.begin]
                yield node.begin, len(head), b"sim_cast<" + integer + b">(" + lines_in(head)
                yield node.end, 0, b")"
        elif node.type == "init_declarator":
            value, declaration = node.field("value"), node.parent
            integer = declaration.type == "declaration" and _integer(source.text(declaration.field("type")))
            in_function = declaration.parent.type in ("compound_statement", "for_statement")
            is_plain = node.field("declarator").type == "identifier" and _may_be_float(source, value)
            if integer and in_function and is_plain:
                yield value.begin, 0, b"sim_cast<" + integer + b">("
                yield value.end, 0, b")"
        elif node.type == "call_expression":
            called, arguments = node.field("function"), node.field("arguments")
            text = source.text(called)
            if sum(child.node.is_named for child in arguments.children) != 1:
                continue
            cast = re.fullmatch(rb"static_cast\s*<(.*)>\s*", text, re.S)
            if cast and _integer(cast[1]):
                yield called.begin, len("static_cast"), b"sim_cast"
            elif (integer := _integer(text)) and not _begins_a_statement(node):
                yield called.begin, len(text), b"sim_cast<" + integer + b">" + lines_in(text)
