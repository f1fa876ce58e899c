"""Rewrites a graph of promises so that chains are found in it: an RMSNorm by formulas becomes one call, and a
view of rows moves before their product."""

from __future__ import annotations

import operator

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from fgn.fusing.meanings import BINARY, FUNCTIONS, METHODS, POWER
from fgn.fusing.products import ADDED_PRODUCTS, DTYPE, arguments_of, one_size, only_user

# Attributes of a node: the number of an input's dimensions, and whether all matrices that the node reads have
# one shape.
DIMENSIONS, ALIKE = "fgn: dimensions", "fgn: of one shape"
CASTS = ("to", "float", "type_as")
_MEANS = (torch.mean, "mean")
RECIPROCAL_ROOTS = (torch.rsqrt, "rsqrt")


def rms_norm(v: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """RMSNorm over the last dimension of v, by torch."""
    return F.rms_norm(v, v.shape[-1:], weight, eps)


def with_rows(v: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """v's rows (along its last dimension), arranged in the dimensions before the last of `sizes`."""
    return v.reshape(*sizes[:-1], v.shape[-1])


def rewrite(graph: fx.Graph):
    """Rewrites the graph in place. Its nodes have their dtypes under `DTYPE`."""
    for node in list(graph.nodes):
        if node.target in RECIPROCAL_ROOTS:
            _rewrite_rms_norm(node)
    for node in reversed(list(graph.nodes)):
        if node.target is with_rows:
            _lift(node)


# ------------------------------------------------------------------------------------------------------------
# RMSNorm


def _without_cast(node) -> fx.Node:
    """The input of a cast, which has the same values or more exact ones."""
    while isinstance(node, fx.Node) and node.op == "call_method" and node.target in CASTS:
        node = node.args[0]
    return node


def _is(node, what: str) -> bool:
    return isinstance(node, fx.Node) and BINARY.get(node.target) == what and len(node.args) == 2


def _square_of(node) -> fx.Node | None:
    """v if the node is v² in any notation."""
    if not isinstance(node, fx.Node) or not node.args:
        return None
    if node.target in POWER and arguments_of(node, ("input", "exponent")).get("exponent") == 2:
        return node.args[0]
    meaning = (METHODS if node.op == "call_method" else FUNCTIONS).get(node.target)
    if meaning is not None and meaning.kind == "square":
        return node.args[0]
    return node.args[0] if _is(node, "multiply") and node.args[0] is node.args[1] else None


def _rewrite_rms_norm(root: fx.Node):
    """v * rsqrt(mean(v²) + eps), times a weight, with casts to float32 and back."""
    sum_ = root.args[0] if len(root.args) == 1 else None
    if not _is(sum_, "add"):
        return
    mean, eps = sum_.args if isinstance(sum_.args[0], fx.Node) else reversed(sum_.args)
    if not isinstance(eps, float) or not isinstance(mean, fx.Node) or mean.target not in _MEANS:
        return
    given = arguments_of(mean, ("input", "dim", "keepdim"))
    square, dim = given.pop("input"), given.pop("dim", None)
    inside, product = _square_of(square), only_user(root)
    if inside is None or one_size(dim) != -1 or given != {"keepdim": True} or not _is(product, "multiply"):
        return
    v = _without_cast(inside)
    value = product.args[0] if product.args[1] is root else product.args[1]
    if not isinstance(v, fx.Node) or not isinstance(value, fx.Node) or _without_cast(value) is not v:
        return
    last, weight = product, None
    while True:
        user = only_user(last)
        if user is not None and user.op == "call_method" and user.target in CASTS and user.args[0] is last:
            last = user
        elif _is(user, "multiply") and weight is None:
            weight = user.args[0] if user.args[1] is last else user.args[1]
            if not isinstance(weight, fx.Node) or weight.op != "placeholder" or weight.meta[DIMENSIONS] != 1:
                return
            last = user
        else:
            break
    if last.meta[DTYPE] is not v.meta[DTYPE] or (
        weight is not None and weight.meta[DTYPE] is not v.meta[DTYPE]
    ):
        return
    graph = last.graph
    with graph.inserting_before(last):
        norm = graph.call_function(rms_norm, (v, weight, eps))
    norm.meta.update(last.meta)
    last.replace_all_uses_with(norm)
    _erase_unread(last)


def _erase_unread(node: fx.Node):
    """Erases the node and its inputs without other readers."""
    if node.users or node.op in ("placeholder", "output"):
        return
    inputs = node.all_input_nodes
    node.graph.erase_node(node)
    for one in inputs:
        _erase_unread(one)


# ------------------------------------------------------------------------------------------------------------
# Views of rows


def _lift(view: fx.Node):
    """Moves the view of rows backwards through the operators, up to the product's x."""
    node, sizes = view.args
    places = _places_of_rows(node) if only_user(node) is view else None
    if places is None:
        return
    graph = view.graph
    with graph.inserting_before(node):
        seen = {place: graph.call_function(with_rows, (node.args[place], sizes)) for place in places}
        args = tuple(seen.get(place, one) for place, one in enumerate(node.args))
        for place, one in seen.items():
            one.meta.update(node.args[place].meta)
        if node.target in ADDED_PRODUCTS:  # it takes matrices only
            bias, x, weight = args
            product = graph.call_function(torch.matmul, (x, weight))
            product.meta.update(node.meta)
            moved = graph.call_function(operator.add, (product, bias))
        else:
            moved = graph.create_node(node.op, node.target, args, dict(node.kwargs))
    moved.meta.update(node.meta)
    view.replace_all_uses_with(moved)
    graph.erase_node(view)
    graph.erase_node(node)
    for one in seen.values():
        _lift(one)


def _places_of_rows(node: fx.Node) -> list[int] | None:
    """The node's arguments that have the rows of its result; None if it does not work row by row."""
    if node.target in ADDED_PRODUCTS:
        is_whole = len(node.args) == 3 and not node.kwargs and _is_for_all_rows(node.args[0])
        return [1] if is_whole else None
    if node.target is F.linear:
        return [0]
    if node.target is with_rows:
        return None
    if node.target in BINARY and len(node.args) == 2 and not node.kwargs:
        places = [
            place
            for place, one in enumerate(node.args)
            if isinstance(one, fx.Node) and not _is_for_all_rows(one)
        ]
        return places if len(places) == 1 or node.meta[ALIKE] else None
    meaning = (METHODS if node.op == "call_method" else FUNCTIONS).get(node.target)
    return [0] if meaning is not None or node.target is F.dropout else None


def _is_for_all_rows(node) -> bool:
    """Whether it is a vector or a number without dimensions, which each row reads whole."""
    return isinstance(node, fx.Node) and node.op == "placeholder" and node.meta.get(DIMENSIONS, 2) < 2
