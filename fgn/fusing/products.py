"""The products with which a chain may begin: x W^T, in any way that a forward() writes it."""

from __future__ import annotations

import operator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn.utils import parametrize

from fgn.fusing.meanings import FORWARDS, has_hooks

PRODUCTS = (operator.matmul, torch.matmul, "matmul", "__matmul__")
MATRIX_PRODUCTS = (torch.mm, "mm")
ADDED_PRODUCTS = (torch.addmm, "addmm")
# An attribute of a node: the module that it stands for.
PATH = "fgn: path of the module"
# Attributes of an input: whether it is a parameter, and a tensor's dtype.
IS_PARAMETER, DTYPE = "fgn: a parameter", "fgn: dtype"
TRANSPOSES = (
    *(torch.t, "t", torch.transpose, "transpose", torch.swapaxes, "swapaxes"),
    *(torch.permute, "permute"),
)


class Product(NamedTuple):
    """x W^T + bias in a graph. nodes: the last one is the product. weight: (out_features, in_features), or if
    is_transposed (in_features, out_features). bias: a node or None. is_of_matrix: whether torch refuses an x
    of more than two dimensions."""

    nodes: list[fx.Node]
    x: fx.Node
    weight: fx.Node
    bias: fx.Node | None = None
    is_transposed: bool = False
    is_of_matrix: bool = False


def arguments_of(node: fx.Node, names: tuple[str, ...]) -> dict:
    """The node's arguments by name. names: of the positional ones."""
    return dict(zip(names, node.args, strict=False)) | dict(node.kwargs)


def only_user(node: fx.Node) -> fx.Node | None:
    """The only node that reads this one, else None."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def one_size(sizes):
    """The element of a list with one size; anything else unchanged."""
    return sizes[0] if isinstance(sizes, (tuple, list)) and len(sizes) == 1 else sizes


def is_of_parameters(node) -> bool:
    """Whether a value depends on the module's parameters alone. Such a value is hardly ever a whole (batch,
    channels) tensor."""
    return isinstance(node, fx.Node) and (
        node.op == "get_attr"
        or IS_PARAMETER in node.meta
        or (
            node.op in ("call_function", "call_method")
            and bool(node.all_input_nodes)
            and all(map(is_of_parameters, node.all_input_nodes))
        )
    )


def _is_transpose(node) -> bool:
    """Whether the node is a transpose of its first argument, a matrix."""
    if not isinstance(node, fx.Node) or node.kwargs or not node.args:
        return False
    rest = node.args[1:]
    if node.op == "call_function" and node.target is getattr:
        return rest in (("T",), ("mT",))
    if node.op not in ("call_function", "call_method") or node.target not in TRANSPOSES:
        return False
    if node.target in (torch.t, "t"):
        return not rest
    if node.target in ("permute", torch.permute):
        return rest in ((1, 0), ((1, 0),), ([1, 0],))
    return rest in ((0, 1), (1, 0), (-1, -2), (-2, -1))


def _of_matrix(node: fx.Node, x, weight, bias=None) -> Product | None:
    """The product of x and a weight that is stored as (in_features, out_features)."""
    if not isinstance(x, fx.Node) or not is_of_parameters(weight):
        return None
    of_matrix = node.target not in PRODUCTS
    if _is_transpose(weight) and len(weight.users) == 1:
        return Product([weight, node], x, weight.args[0], bias, is_of_matrix=of_matrix)
    return Product([node], x, weight, bias, is_transposed=True, is_of_matrix=of_matrix)


def _of_einsum(node: fx.Node) -> Product | None:
    """torch.einsum("bi,oi->bo", x, weight), by any letters."""
    if node.kwargs or len(node.args) != 3 or not isinstance(node.args[0], str):
        return None
    equation = node.args[0].replace(" ", "")
    factors, arrow, result = equation.partition("->")
    first, comma, second = factors.partition(",")
    if not arrow or not comma or "." in equation:
        return None
    x, weight = node.args[1:]
    if is_of_parameters(x) and not is_of_parameters(weight):
        first, second, x, weight = second, first, weight, x
    if not isinstance(x, fx.Node) or not is_of_parameters(weight):
        return None
    if len(first) != 2 or len(second) != 2 or len(result) != 2 or len({*first, *second}) != 3:
        return None
    (batch, inputs), outputs = first, result[1]
    if result[0] != batch or {*second} != {inputs, outputs}:
        return None
    return Product([node], x, weight, is_transposed=second[0] == inputs, is_of_matrix=True)


def _is_parametrized_linear(module: nn.Module) -> bool:
    """Whether the module is a Linear, perhaps with parameters parametrized by torch.nn.utils.parametrize."""
    cls = type(module)
    return (
        parametrize.is_parametrized(module)
        and cls.__bases__ == (nn.Linear,)
        and cls.forward is nn.Linear.forward is FORWARDS[nn.Linear]
        and "forward" not in module.__dict__
        and not has_hooks(module)
    )


def unfold_parametrized(graph: fx.Graph, modules: dict[str, nn.Module]) -> list[nn.Module]:
    """Replaces each parametrized Linear by F.linear of its parameters: every call computes its weight once.
    Returns these modules, which must not change."""
    found = []
    for node in list(graph.nodes):
        if node.op != "call_module" or len(node.args) != 1 or node.kwargs:
            continue
        module = modules[node.target]
        if not _is_parametrized_linear(module):
            continue
        found.append(module)
        with graph.inserting_before(node):
            weight = graph.create_node("get_attr", f"{node.target}.weight", (), {})
            bias = module.bias
            if bias is not None:
                bias = graph.create_node("get_attr", f"{node.target}.bias", (), {})
            product = graph.call_function(F.linear, (node.args[0], weight, bias))
        product.meta[PATH] = str(node.target)
        node.replace_all_uses_with(product)
        graph.erase_node(node)
    return found


def product_of(node: fx.Node, modules: dict[str, nn.Module]) -> Product | None:
    """The node as a product, or None if it is none by a function of torch. A Linear module keeps its
    parameters in the module, so it has no weight here."""
    if node.op == "call_module":
        is_linear = isinstance(modules[node.target], nn.Linear) and len(node.args) == 1
        return Product([node], node.args[0], None) if is_linear else None
    if node.op not in ("call_function", "call_method"):
        return None
    if node.target is F.linear:
        given = arguments_of(node, ("input", "weight", "bias"))
        bias = given.get("bias")
        is_whole = isinstance(given.get("input"), fx.Node) and isinstance(given.get("weight"), fx.Node)
        return Product([node], given["input"], given["weight"], bias) if is_whole else None
    if node.target in (*PRODUCTS, *MATRIX_PRODUCTS) and len(node.args) == 2 and not node.kwargs:
        return _of_matrix(node, *node.args)
    if node.target in ADDED_PRODUCTS and len(node.args) == 3 and not node.kwargs:
        bias, x, weight = node.args
        return _of_matrix(node, x, weight, bias) if isinstance(bias, fx.Node) else None
    if node.target is torch.einsum:
        return _of_einsum(node)
    return None
