"""The locals of a kernel, for the player: a copy of the source writes them where a trace sees them.

After each change of a scalar local the copy stores it into an array in shared memory, a word for each thread
of the block. Lines keep their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from cudasim.live.tree import Change, Node, Source, rewritten

PREFIX = "sim_local_"
_MOST = 6  # of a kernel
_THREADS = 1024  # the most of a block
_THREAD = b"threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
# The types that are shown, and the dtypes of their values by the first letter of the array's name.
TYPES = {b"int": b"i", b"unsigned int": b"i", b"unsigned": b"i", b"float": b"f", b"bool": b"b"}
DTYPES = {"i": "int32", "f": "float32", "b": "uint8"}

# For the watched calls, each kernel's copy that writes its locals.
_watched: ContextVar[dict | None] = ContextVar("watched", default=None)


def _declared(source: Source, node: Node) -> Iterator[tuple[str, bytes]]:
    """The scalar locals of a declaration with a value, by name, and their type."""
    kind = node.field("type")
    if kind is None or source.text(kind) not in TYPES:
        return
    for child in node.children:
        name = child.field("declarator") if child.type == "init_declarator" else None
        if name is not None and name.type == "identifier":
            yield source.text(name).decode(), source.text(kind)


def _changed(source: Source, node: Node) -> str | None:
    """The name of the variable that an expression changes."""
    field = {"assignment_expression": "left", "update_expression": "argument"}.get(node.type)
    name = node.field(field) if field else None
    return source.text(name).decode() if name is not None and name.type == "identifier" else None


def _stores(source: Source, kernel: Node) -> Iterator[Change]:
    body = kernel.field("body")
    nodes = list(body.walk())
    types: dict[str, bytes] = {}
    for node in nodes:
        if node.type == "declaration":
            for name, kind in _declared(source, node):
                if len(types) < _MOST:
                    types.setdefault(name, kind)
    if not types:
        return

    def array(name: str) -> bytes:
        return b"%b%b_%b" % (PREFIX.encode(), TYPES[types[name]], name.encode())

    def store(names) -> bytes:
        known = (name for name in names if name in types)
        return b"".join(b" %b[%b] = %b;" % (array(name), _THREAD, name.encode()) for name in known)

    arrays = (b" __shared__ %b %b[%d];" % (kind, array(name), _THREADS) for name, kind in types.items())
    yield body.begin + 1, 0, b"".join(arrays)
    for node in nodes:
        added, around = b"", node
        if node.type == "declaration" and node.parent.type == "compound_statement":
            added = store(name for name, kind in _declared(source, node) if types.get(name) == kind)
        elif node.type == "expression_statement":
            added = store(filter(None, [_changed(source, child) for child in node.children]))
        elif node.type == "for_statement" and (first := node.field("initializer")):
            added, around = store(name for name, _ in _declared(source, first)), node.field("body")
        if not added or around is None:
            continue
        if around is not node:
            if around.type == "compound_statement":
                yield around.begin + 1, 0, added
            else:
                yield around.begin, 0, b"{" + added + b" "
                yield around.end, 0, b" }"
        elif node.parent.type == "compound_statement":
            yield node.end, 0, added
        else:
            yield node.begin, 0, b"{ "
            yield node.end, 0, added + b" }"


def local_of(array: str) -> tuple[str, str] | None:
    """The name and the dtype of the local that an array in shared memory has; None for a kernel's own."""
    if not array.startswith(PREFIX):
        return None
    letter, _, name = array.removeprefix(PREFIX).partition("_")
    return name, DTYPES[letter]


def with_locals(text: str) -> str:
    """The source whose kernels write their locals."""

    def rule(source: Source) -> Iterator[Change]:
        for node in source.tree.walk():
            if node.type == "function_definition" and any(
                child.type == "__global__" for child in node.children
            ):
                yield from _stores(source, node)

    return rewritten(text, [rule])


@contextmanager
def watching_locals():
    """In this context live kernels also write their locals. Yields them, each with its copy."""
    kernels: dict = {}
    token = _watched.set(kernels)
    try:
        yield kernels
    finally:
        _watched.reset(token)


def watched(kernel, make):
    """The copy of a kernel to launch instead while locals are watched, or None. make: makes a kernel from a
    source."""
    kernels = _watched.get()
    if kernels is None or kernel in kernels.values():
        return None
    if kernel not in kernels:
        text = with_locals(kernel.source)
        is_changed = text != kernel.source
        kernels[kernel] = (
            make(text, kernel.name, kernel.file, kernel._program.folders) if is_changed else kernel
        )
    return kernels[kernel] if kernels[kernel] is not kernel else None
