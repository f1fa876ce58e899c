"""Puts the chains of a graph in the place of its nodes."""

from __future__ import annotations

import operator

import torch.nn.functional as F
from torch import fx, nn

from fgn.fusing.alone import ProductPart, may_gain
from fgn.fusing.finding import match
from fgn.fusing.parts import ChainPart
from fgn.fusing.products import PATH, Product, product_of
from fgn.fusing.row_functions import read_rows
from fgn.fusing.rows_part import RowsPart


class FusedGraph:
    """A graph whose chains have become calls of parts.

    parts: those that it calls. verdicts: (name, steps or None, what stopped it, the product) of each product.
    fixed: (module, attribute, value) that modules must have for the graph to hold.
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
        rows = read_rows(found.last, modules, nodes, False)
        is_alone = found.is_product and rows is None
        words = None if is_alone else " → ".join(found.describe(node) for node in found.nodes)
        if is_alone and not may_gain(described, self.options):
            self.verdicts.append((name, None, stopped, product))
            return
        part = (ProductPart if found.is_product else ChainPart)(described, owner, self.options)
        self.fixed += found.fixed
        has_one_value, read_again = False, None
        while rows is not None:
            part = RowsPart(part, rows, len(inputs), owner, has_one_value)
            self.fixed += rows.fixed
            words, stopped = " → ".join([words, *rows.words]), rows.ends
            nodes += rows.nodes
            inputs += rows.inputs[1:]
            has_one_value = rows.gives_one_value
            if rows.keeps_sum:
                read_again = nodes[-len(rows.nodes) - 1]
                break
            rows = read_rows(nodes[-1], modules, nodes, has_one_value) if rows.keeps else None
        self.verdicts.append((name, words, stopped, product))
        self.parts.append(part)
        graph, last = linear.graph, nodes[-1]
        with graph.inserting_after(last):
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
