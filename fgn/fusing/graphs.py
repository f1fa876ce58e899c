"""Replaces nodes of a graph by chains."""

from __future__ import annotations

import operator

import torch
import torch.nn.functional as F
from torch import fx, nn

from fgn.fusing.alone import ProductPart, may_gain
from fgn.fusing.finding import MOST_STEPS, match, nothing_between
from fgn.fusing.gates import read_gates
from fgn.fusing.map_functions import is_convolution, is_group_norm, read_maps
from fgn.fusing.maps_part import MapsPart
from fgn.fusing.meanings import BINARY, is_in_place
from fgn.fusing.parts import ChainPart, Part
from fgn.fusing.products import (
    ADDED_PRODUCTS,
    MATRIX_PRODUCTS,
    PATH,
    PRODUCTS,
    Product,
    arguments_of,
    product_of,
)
from fgn.fusing.row_functions import read_rows
from fgn.fusing.rows_part import RowsPart

BY_OTHERS = (
    *PRODUCTS,
    *MATRIX_PRODUCTS,
    *ADDED_PRODUCTS,
    torch.einsum,
)  # even where they are no product_of()


class FusedGraph:
    """A graph whose chains have become calls of parts.

    parts: those that it calls. verdicts: (name, steps or None, what stopped it, the product) for each
    product. fixed: (module, attribute, value) that must hold for the graph to be valid.
    """

    def __init__(self, graph: fx.Graph, modules: dict[str, nn.Module], owner: nn.Module, options):
        self.graph, self.modules, self.owner, self.options = graph, modules, owner, options
        self.parts: list = []
        self.verdicts: list[tuple[str, str | None, str, Product]] = []
        self.fixed: list[tuple[nn.Module, str, object]] = []
        for node in list(graph.nodes):
            if node.graph is graph and not getattr(node, "_erased", False):
                product = product_of(node, modules)
                if product is not None:
                    self._replace(product)
        for node in list(graph.nodes):
            if is_convolution(node, modules):
                self._replace_maps(node, True)
        for node in list(graph.nodes):
            is_norm = not getattr(node, "_erased", False) and is_group_norm(node, modules)
            if is_norm and not self._is_of_product(node):
                self._replace_maps(node.all_input_nodes[0], False)
        if self.parts:
            self._drop_copies()

    def _drop_copies(self):
        """Replaces a copy by its original where operators read it before anything may be written."""
        for node in list(self.graph.nodes):
            if node.target not in ("clone", torch.clone) or len(node.args) != 1 or node.kwargs:
                continue
            same, readers = [node], []
            for one in same:
                for user in one.users:
                    is_same = user.target in ("detach", torch.detach) and len(user.args) == 1
                    (same if is_same else readers).append(user)
            if not all(one.target in BINARY and not is_in_place(one) for one in readers):
                continue
            if nothing_between([*same, *readers], self.modules):
                inside = [self.modules[one.target] for one in self.graph.nodes if one.op == "call_module"]
                inside = [one for one in inside if getattr(one, "inplace", None) is False]
                self.fixed += [(one, "inplace", False) for one in inside]
                node.replace_all_uses_with(node.args[0])
                self.graph.erase_node(node)

    def _replace(self, product: Product):
        modules, owner = self.modules, self.owner
        found, stopped = match(product, modules)
        linear = product.nodes[-1]
        name = linear.meta.get(PATH) or getattr(linear.target, "__name__", str(linear.target))
        if linear.target is F.linear and PATH not in linear.meta:
            name = "F.linear"
        if found is None:
            self.verdicts.append((name, None, stopped, product))
            return
        described, nodes, inputs = found.found(name), list(found.nodes), list(found.inputs)
        rows = read_rows(found.last, modules, nodes, False, owner) or read_gates(found, modules)
        is_alone = found.is_product and rows is None
        words = None if is_alone else " → ".join(found.describe(node) for node in found.nodes)
        if is_alone and not may_gain(described, self.options):
            self.verdicts.append((name, None, stopped, product))
            return
        part = (ProductPart if found.is_product else ChainPart)(described, owner, self.options)
        self.fixed += found.fixed
        has_one_value, read_again = False, None
        while rows is not None:
            of_part = [rows]
            if rows.is_pooling and not has_one_value:
                second = read_rows(rows.nodes[-1], modules, [*nodes, *rows.nodes], False, owner)
                if second is not None and second.is_reduction:
                    of_part += [second] if len(rows.after) + len(second.after) <= MOST_STEPS else []
            part = RowsPart(part, rows, len(inputs), owner, has_one_value, *of_part[1:])
            for rows in of_part:
                self.fixed += rows.fixed
                words, stopped = " → ".join([words, *rows.words]), rows.ends
                nodes += rows.nodes
                inputs += rows.inputs[1:]
                has_one_value = rows.gives_one_value
            if rows.keeps_sum:
                read_again = nodes[-len(rows.nodes) - 1]
                break
            rows = read_rows(nodes[-1], modules, nodes, has_one_value, owner) if rows.keeps else None
        self.verdicts.append((name, words, stopped, product))
        self._put(part, nodes, inputs, nodes[-1], read_again)

    def _is_of_product(self, node: fx.Node) -> bool:
        """Whether the norm's input comes from a product, and so is no feature map."""
        while node.all_input_nodes:
            node = node.all_input_nodes[0]
            if is_convolution(node, self.modules) or isinstance(node.target, MapsPart):
                return False
            is_product = product_of(node, self.modules) is not None or node.target in BY_OTHERS
            if is_product or isinstance(node.target, Part):
                return True
        return False

    def _replace_maps(self, begin: fx.Node, convolves: bool):
        found = read_maps(begin, self.modules, convolves)
        if found is None:
            return
        named = found.nodes[0]
        name = named.target if named.op == "call_module" else named.target.__name__
        weight = arguments_of(named, ("input", "weight")).get("weight") if convolves else None
        if found.norm_weight is not None and not convolves:
            weight = found.inputs[found.norm_weight]
        self.verdicts.append((name, found.words, found.ends, Product(found.nodes, found.inputs[0], weight)))
        self.fixed += found.fixed
        part = MapsPart(found, self.owner, name)
        self._put(part, found.nodes, found.inputs, found.place, found.kept)

    def _put(self, part, nodes: list[fx.Node], inputs: list[fx.Node], place: fx.Node, read_again):
        """Replaces the nodes by a call of the part after `place`. read_again: the node whose value is a
        second result, or None."""
        self.parts.append(part)
        graph, last = place.graph, nodes[-1]
        with graph.inserting_after(place):
            call = graph.create_node("call_function", part, tuple(inputs), {}, name="chain")
        if read_again is None:
            last.replace_all_uses_with(call)
        else:
            with graph.inserting_after(call):
                for number, node in enumerate((last, read_again)):
                    node.replace_all_uses_with(graph.call_function(operator.getitem, (call, number)))
        order = {node: number for number, node in enumerate(graph.nodes)}
        for node in sorted(nodes, key=order.__getitem__, reverse=True):
            graph.erase_node(node)
