"""Values that are read more than once, and gates, as functions of rows that consist of their steps alone
(`fgn.rows`, "values"): x * s + x of a product's value x; act(W x) * (V x) of two products; a * act(b) of a
product's two halves. `read_gates()` finds them after a chain.

A value that is read again must not change before: an operator in place ends the search, unless nothing reads
the value after it.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import fx, nn

from fgn.fusing.finding import Match, Stopped, nothing_between, writes
from fgn.fusing.meanings import BINARY, not_plain
from fgn.fusing.parts import VALUE_AGAIN, Part, Step
from fgn.fusing.products import Product, arguments_of, is_of_parameters, only_user, product_of
from fgn.fusing.row_functions import RowsFound, Settings

# Methods and functions that return the same values.
_SAME = ("clone", torch.clone, "detach", torch.detach)
_CHUNKS, _SPLITS = (torch.chunk, "chunk"), (torch.split, "split")
# Operators between a gate and its product.
_MOST_BETWEEN = 8


class _Way(NamedTuple):
    """One way to begin. nodes: between the value and `start`; from there the steps go on with the node
    `first`, or with any node if that is None. again: nodes with the value that is read again. half: as in
    `fgn.rows.Rows`. steps: the meaning of `nodes`. leaves: modules among them."""

    nodes: list[fx.Node]
    start: fx.Node
    first: fx.Node | None = None
    again: tuple[fx.Node, ...] = ()
    half: int | None = None
    settings: Settings = Settings("values")
    steps: tuple[Step, ...] = ()
    leaves: tuple = ()


class _Values(Match):
    """The steps behind a value."""

    def __init__(self, value: fx.Node, way: _Way, modules: dict[str, nn.Module]):
        super().__init__(Product([value], value, None), modules)
        self.norm_node, self.last, self.way = value, way.start, way
        self.nodes += way.nodes
        self.after += way.steps
        self.leaves += way.leaves
        self.gates = len(way.steps)  # steps that read again, or multiply by another product's value

    def readers(self) -> list[fx.Node]:
        is_first = self.last is self.way.start and self.way.first is not None
        return [self.way.first] if is_first else super().readers()

    def _with_operand(self, what: str, operand) -> list[Step] | None:
        if operand in self.way.again:
            number = VALUE_AGAIN
        elif what == "multiply" and _operators_behind_product(operand, self.modules) is not None:
            number = self.input(operand)
        else:
            return super()._with_operand(what, operand)
        if self.ones or what not in ("add", "subtract", "multiply"):
            return None
        self.gates += 1
        if what == "subtract":  # v - u is -(-v + u)
            return [Step("neg"), Step("add", operand=number), Step("neg")]
        return [Step(what, operand=number)]


def _operators_behind_product(node, modules) -> int | None:
    """The number of operators of one value between a product and the node; None if there is no product."""
    for count in range(_MOST_BETWEEN):
        if not isinstance(node, fx.Node) or node.op not in ("call_module", "call_function", "call_method"):
            return None
        if isinstance(node.target, Part) or product_of(node, modules) is not None:
            return count
        before = [one for one in node.all_input_nodes if not is_of_parameters(one)]
        node = before[0] if len(before) == 1 else None
    return None


# ------------------------------------------------------------------------------------------------------------
# Halves


def _glu(value: fx.Node, modules) -> _Way | None:
    """a * sigmoid(b) as torch's own function."""
    node, leaves = only_user(value), ()
    if node is None:
        return None
    if node.op == "call_module" and type(modules[node.target]) is nn.GLU and len(node.args) == 1:
        module = modules[node.target]
        if not_plain(module, nn.GLU):
            return None
        dim, leaves = module.dim, ((module, nn.GLU, False),)
    elif node.target is F.glu:
        dim = arguments_of(node, ("input", "dim")).get("dim", -1)
    else:
        return None
    steps = (Step("sigmoid"), Step("multiply", operand=VALUE_AGAIN))
    return (
        _Way([node], node, None, (), 1, Settings("values", dim), steps, leaves) if type(dim) is int else None
    )


def _halves(value: fx.Node) -> tuple[list[fx.Node], list[fx.Node], Settings] | None:
    """(nodes, the two halves, their dimension and size), if nothing else of the value is read."""
    node = only_user(value)
    if node is None:
        return _slices(value)
    if node.target not in (*_CHUNKS, *_SPLITS):
        return None
    given = arguments_of(node, ("input", "size", "dim"))
    given["size"] = next(
        (given.pop(n) for n in ("chunks", "split_size", "split_size_or_sections") if n in given),
        given.get("size"),
    )
    size, dim = given["size"], given.get("dim", 0)
    if isinstance(size, (tuple, list)) and len(size) == 2 and size[0] == size[1]:
        size = size[0]
    if given.get("input") is not value or type(size) is not int or type(dim) is not int:
        return None
    if node.target in _CHUNKS:
        if size != 2:
            return None
        size = None
    halves = {user.args[1]: user for user in node.users if user.target is operator.getitem}
    if list(map(type, halves)) != [int, int] or set(halves) != {0, 1} or len(node.users) != 2:
        return None
    return [node, *halves.values()], [halves[0], halves[1]], Settings("values", dim, size)


def _slices(value: fx.Node):
    """The same for v[..., :n] and v[..., n:], or v[:, :n] and v[:, n:]."""
    users = list(value.users)
    if len(users) != 2 or any(user.target is not operator.getitem for user in users):
        return None
    for first, second in (users, users[::-1]):
        index = first.args[1]
        if type(index) is not tuple or len(index) != 2 or type(index[1]) is not slice:
            return None
        outer, size = index[0], index[1].stop
        if outer is not ... and not (type(outer) is slice and outer == slice(None)):
            return None
        rest = second.args[1]
        is_rest = type(rest) is tuple and rest == (outer, slice(size, None))
        if is_rest and type(size) is int and size > 0 and index[1] == slice(None, size):
            return users, [first, second], Settings("values", -1 if outer is ... else 1, size)
    return None


# ------------------------------------------------------------------------------------------------------------
# All ways


def _same_values(value: fx.Node) -> list[fx.Node]:
    """The other nodes with the same values."""
    same = []
    for user in value.users:
        if user.target in _SAME and user.op != "call_module" and len(user.args) == 1 and not user.kwargs:
            same += [user, *_same_values(user)]
    return same


def _ways(found: Match, modules) -> list[_Way]:
    value = found.last
    glu, halves, same, user = _glu(value, modules), _halves(value), _same_values(value), only_user(value)
    if glu is not None:
        return [glu]
    if halves is not None:
        nodes, both, settings = halves
        firsts = list(map(only_user, both))
        if None in firsts:
            return []
        return [_Way(nodes, both[n], firsts[n], (both[1 - n],), n, settings) for n in (0, 1)]
    if user is None or same:
        again = (value, *same)
        return [_Way(same, one, user, again) for one in again for user in one.users if user not in same]
    if BINARY.get(user.target) != "multiply" or len(user.args) != 2 or user.op == "call_module":
        return []
    other = user.args[1] if user.args[0] is value else user.args[0]
    if found.is_product and _operators_behind_product(other, modules):
        return []  # the other product's chain is longer, and takes this one as its gate
    return [_Way([], value, user)]


def _read(found: Match, way: _Way, modules) -> RowsFound | None:
    value, ends, kept = found.last, "", None
    behind = _Values(value, way, modules)
    try:
        while True:
            own = set(behind.nodes)
            is_whole = all(
                user in own for node in (value, *way.nodes) if node is not behind.last for user in node.users
            )
            if is_whole and behind.gates and behind.ones == 0:
                if not nothing_between([*found.nodes, *behind.nodes[1:]], modules):
                    raise Stopped("what runs between its parts, which may write to what they read")
                kept = behind.state()
            elif not is_whole and any(writes(node, modules) for node in behind.nodes[1:]):
                raise Stopped("an operator in place, of what is read again")
            behind.advance()
    except Stopped as reason:
        ends = str(reason)
    if kept is None:
        return None
    steps = len(found.before) + len(found.after) + len(kept.after)
    if steps < 2 and way.half is None:
        return None  # torch's operator is one launch too
    order = {node: number for number, node in enumerate(value.graph.nodes)}
    nodes = sorted(kept.nodes[1:], key=order.__getitem__)
    of_module = [modules[node.target] for node in nodes if node.op == "call_module"]
    fixed = [(module, "inplace", False) for module in of_module if getattr(module, "inplace", None) is False]
    return RowsFound(
        nodes,
        kept.inputs,
        way.settings,
        None,
        True,
        kept.is_of_matrix,
        kept.after,
        kept.leaves,
        [*kept.fixed, *fixed],
        [kept.describe(node) for node in nodes],
        ends,
        half=way.half,
    )


def read_gates(found: Match, modules: dict[str, nn.Module]) -> RowsFound | None:
    """The steps after the chain, if some of them read its value again, or multiply by another product's; else
    None."""
    for way in _ways(found, modules):
        rows = _read(found, way, modules)
        if rows is not None:
            return rows
    return None
