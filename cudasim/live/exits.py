"""Makes the threads of a kernel tell how they exit.

A thread that executes `return` has exited, and no barrier waits for it; a thread that comes to the last line
of its kernel has gone past the barriers in branches that it did not take (cudasim/sim/barrier.c has the
rule). Both compile to the same instructions, so each `return;` of a kernel tells it explicitly. A `return;`
in a lambda, or in a method of a local struct, does not end the thread and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cudasim.live.text import blanked, closing
from cudasim.live.tree import Change, Node, Source

_OTHER_FUNCTIONS = ("lambda_expression", "struct_specifier", "class_specifier", "union_specifier")


def _kernels(data: bytes) -> list[tuple[int, int]]:
    """Where the bodies of kernels begin and end: by their brackets, even if a macro beside them hides the
    function from the grammar."""
    text, found = blanked(data.decode("latin-1")), []
    for match in re.finditer(r"\b__global__\b", text):
        place = match.end()
        while (following := re.compile(r"[({;]").search(text, place)) and following[0] == "(":
            place = closing(text, following.start()) + 1
        if following and following[0] == "{":
            found.append((following.start(), closing(text, following.start())))
    return found


def _own(tree: Node, bodies: list[tuple[int, int]]) -> Iterator[Node]:
    """The nodes in these function bodies, without those of nested functions."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        is_inside = any(begin <= node.begin and node.end <= end for begin, end in bodies)
        if is_inside and node.type in _OTHER_FUNCTIONS:
            continue
        if is_inside:
            yield node
        waiting.extend(node.children)


def _macros_that_exit(source: Source, own: list[Node]) -> Iterator[Node]:
    """The bodies of macros whose `return;` is a kernel's: those that are used nowhere else."""
    macros = dict(source.macros)
    names = {name: [] for name in macros}  # whether each use is in a kernel itself, or the macro that uses it
    in_kernels = {node.begin for node in own if node.type == "identifier"}
    for of, root in ((None, source.tree), *macros.items()):
        for node in root.walk():
            name = source.text(node).decode(errors="replace") if node.type == "identifier" else ""
            is_definition = node.parent is not None and node.parent.type.startswith("preproc_")
            if name in names and not is_definition:
                names[name].append(of or node.begin in in_kernels)

    def is_of_kernels(name: str, seen: tuple[str, ...] = ()) -> bool:
        return all(
            use is True or (use is not False and (use in seen or is_of_kernels(use, (*seen, name))))
            for use in names[name]
        )

    yield from (body for name, body in macros.items() if is_of_kernels(name))


def exits(source: Source) -> Iterator[Change]:
    """Writes `return sim_leave();` for each `return;` of a kernel."""
    own = list(_own(source.tree, _kernels(source.data)))
    bodies = _macros_that_exit(source, own)
    nodes = (*own, *(node for body in bodies for node in _own(body, [(body.begin, body.end)])))
    returns = {node.begin for node in nodes if node.type == "return_statement" and len(node.children) == 2}
    for begin in returns:
        yield begin + len("return"), 0, b" sim_leave()"
