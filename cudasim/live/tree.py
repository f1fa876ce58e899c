"""The syntax tree of a source, by tree-sitter and its CUDA grammar.

The text is parsed before preprocessing, so that places in the tree are the user's. The grammar leaves bodies
of macros as text; they are parsed separately as statements. Where the grammar cannot parse, the tree has
error nodes, which rewriting leaves as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import tree_sitter
import tree_sitter_cuda

_BEFORE = b"void sim_macro() {"

# Names of integer types that the grammar does not know, for which `(uint)-x` would be a difference, and names
# of the same length that it knows.
_SAME_LENGTH = {b"uint": b"char", b"uchar": b"short", b"ulong": b"short", b"ushort": b"size_t"}
_UNKNOWN = re.compile(rb"\b(?:uint|uchar|ulong|ushort)\b")
_STD = re.compile(rb"\bstd\s*::\s*(?=(?:u?int(?:8|16|32|64|ptr)_t|s?size_t|ptrdiff_t)\b)")


@dataclass(frozen=True)
class Node:
    """A node of the tree. begin, end: where it is in the source's bytes."""

    node: tree_sitter.Node
    shift: int = 0  # from the parsed text to the source

    @property
    def type(self) -> str:
        return self.node.type

    @property
    def begin(self) -> int:
        return self.node.start_byte + self.shift

    @property
    def end(self) -> int:
        return self.node.end_byte + self.shift

    @property
    def children(self) -> list[Node]:
        return [Node(child, self.shift) for child in self.node.children]

    @property
    def parent(self) -> Node | None:
        return Node(self.node.parent, self.shift) if self.node.parent else None

    def above(self) -> Iterator[Node]:
        """The nodes around this one, the nearest first."""
        node = self.node
        while (node := node.parent) is not None:
            yield Node(node, self.shift)

    def field(self, name: str) -> Node | None:
        child = self.node.child_by_field_name(name)
        return Node(child, self.shift) if child else None

    def walk(self) -> Iterator[Node]:
        """This node and all below it, in the order of the text."""
        waiting = [self.node]
        while waiting:
            node = waiting.pop()
            yield Node(node, self.shift)
            waiting.extend(reversed(node.children))


@cache
def _parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


def _parsed(data: bytes) -> tree_sitter.Node:
    data = _STD.sub(lambda match: b" " * len(match[0]), data)
    return _parser().parse(_UNKNOWN.sub(lambda match: _SAME_LENGTH[match[0]], data)).root_node


@dataclass(frozen=True)
class Source:
    """A source as bytes, with its tree, and by name the tree of each macro's body."""

    data: bytes
    tree: Node
    macros: tuple[tuple[str, Node], ...]

    @classmethod
    def of(cls, text: str) -> Source:
        data = text.encode("utf-8", "surrogateescape")
        tree = Node(_parsed(data))
        return cls(data, tree, tuple(_macros_of(data, tree)))

    def trees(self) -> Iterator[Node]:
        """The tree of the source, and then those of its macros."""
        yield self.tree
        yield from (body for _, body in self.macros)

    def walk(self) -> Iterator[Node]:
        """All nodes of these trees."""
        for tree in self.trees():
            yield from tree.walk()

    def text(self, node: Node) -> bytes:
        return self.data[node.begin : node.end]


def _macros_of(data: bytes, tree: Node) -> Iterator[tuple[str, Node]]:
    for node in tree.walk():
        if node.type in ("preproc_def", "preproc_function_def") and (value := node.field("value")):
            name = node.field("name")
            body = data[value.begin : value.end]
            body = re.sub(rb"\\(?=\n)", b" ", body)
            inner = _parsed(_BEFORE + body + b"\n;}")
            yield data[name.begin : name.end].decode(), Node(inner, value.begin - len(_BEFORE))


# A change of a source's bytes: the place, how many are removed, and their replacement.
Change = tuple[int, int, bytes]


def rewritten(text: str, rules: Iterable[Callable[[Source], Iterable[Change]]]) -> str:
    """The text with the changes of each rule. Lines keep their numbers."""
    source = Source.of(text)
    changes = [change for rule in rules for change in rule(source)]
    data = source.data
    for place, gone, new in sorted(changes, reverse=True):
        data = data[:place] + new + data[place + gone :]
    return data.decode("utf-8", "surrogateescape")


def lines_in(data: bytes) -> bytes:
    """As many line ends as in the bytes, so that a replacement moves no line."""
    return b"\n" * data.count(b"\n")
