"""Finds the chains in a graph: from each product along values with a single reader to the last pointwise
operator, with at most one GroupNorm. A LayerNorm over the channels is a GroupNorm with one group."""

from __future__ import annotations

import builtins
import operator

import torch
import torch.nn.functional as F
from torch import fx, nn

from fgn.fusing.formulas import formula_of
from fgn.fusing.meanings import (
    BINARY,
    CLAMP_ONE_SIDED,
    EXTREMES,
    FORWARDS,
    FUNCTIONS,
    GELU,
    IDENTITY,
    IN_PLACE,
    METHODS,
    MODULES,
    POWER,
    RELU6,
    is_in_place,
    not_plain,
)
from fgn.fusing.parts import Found, Part, Step
from fgn.fusing.products import PATH, Product, arguments_of, is_of_parameters, one_size
from fgn.fusing.rewriting import rms_norm, with_rows
from fgn.fusing.stand_ins import PLACE
from fgn.fusing.views import ones_after
from fgn.operators import POINTWISE

MOST_STEPS = 8

INFINITY = float("inf")
GROUP_NORMS = (F.group_norm, torch.group_norm)
LAYER_NORMS = (F.layer_norm, torch.layer_norm)


class Stopped(Exception):
    """Raised at the first operator that is no part of a chain; the message names it."""


class Match:
    """A chain as far as it has been read: the steps that follow a product. is_of_matrix: whether one of them
    treats a tensor of more dimensions differently from its rows. ones: dimensions of size 1 after the value's
    channels."""

    def __init__(self, product: Product, modules: dict[str, nn.Module]):
        self.modules, self.product, self.last = modules, product, product.nodes[-1]
        self.nodes, self.inputs = list(product.nodes), [product.x]
        self.fixed: list[tuple[nn.Module, str, object]] = []
        self.is_layer_norm, self.is_of_matrix = False, product.is_of_matrix
        self.ones = 0
        self.leaves: list[tuple[nn.Module, type, bool]] = []
        self.before: list[Step] = []
        self.after: list[Step] = []
        self.parts: dict = {"linear": None, "norm": None}
        self.norm_node: fx.Node | None = None

    def describe(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return f"{node.target} ({type(self.modules[node.target]).__name__})"
        if PATH in node.meta:
            return f"{node.meta[PATH]} (Linear, parametrized)"
        if isinstance(node.target, Part):
            return f"the chain of {node.target.name}"
        name = (
            node.target
            if isinstance(node.target, str)
            else getattr(node.target, "__name__", str(node.target))
        )
        return {"output": "the module's result"}.get(node.op, name)

    def input(self, node: fx.Node) -> int:
        """The number of a node among the chain's inputs."""
        if node not in self.inputs:
            self.inputs.append(node)
        return self.inputs.index(node)

    @property
    def is_product(self) -> bool:
        return self.norm_node is None and not self.before

    def found(self, name: str) -> Found:
        return Found(
            name,
            self.nodes,
            self.inputs,
            before=self.before,
            after=self.after,
            leaves=self.leaves,
            has_norm=self.norm_node is not None,
            by_rows=(self.is_layer_norm or self.norm_node is None) and not self.is_of_matrix,
            **self.parts,
        )

    def read_product(self):
        """Reads the product at the chain's beginning."""
        product = self.product
        if product.weight is None:
            self.parts["linear"] = self._leaf(self.last, nn.Linear)
            return
        self.parts["weight"] = self.input(product.weight)
        self.parts["is_transposed"] = product.is_transposed
        if isinstance(product.bias, fx.Node):
            self.parts["bias"] = self.input(product.bias)

    def _leaf(self, node: fx.Node, cls: type, only_in_eval: bool = False) -> nn.Module:
        module = self.modules[node.target]
        if reason := not_plain(module, cls):
            raise Stopped(f"{self.describe(node)}: {reason}")
        self.leaves.append((module, cls, only_in_eval))
        return module

    def state(self) -> Match:
        """A copy, which stays as it is while this one reads on."""
        same = self.__class__.__new__(self.__class__)
        same.__dict__.update(
            {
                name: value.copy() if isinstance(value, (list, dict)) else value
                for name, value in self.__dict__.items()
            }
        )
        same.modules = self.modules
        return same

    def advance(self):
        """Reads the next step of the chain. Raises Stopped if the next node is no step of a chain."""
        users = self.readers()
        if not users:
            raise Stopped("nothing: its result is not used")
        if len(users) == 1 and users[0].op in ("call_module", "call_function", "call_method"):
            user = users[0]
            if self._is_norm(user):
                self._read_norm(user)
                return
            steps = self._of_one(user)
        else:
            steps, user = self._of_several(users)
        if steps is None:
            raise Stopped(" and ".join(dict.fromkeys(self.describe(user) for user in users)))
        side = self.before if self.norm_node is None else self.after
        if len(side) + len(steps) > MOST_STEPS:
            raise Stopped(
                f"{self.describe(user)}, which would be operator {len(side) + len(steps)} of {MOST_STEPS}"
            )
        side += steps
        self._take(user)

    def readers(self) -> list[fx.Node]:
        """The nodes that read the last value."""
        return list(self.last.users)

    def _take(self, *nodes: fx.Node):
        self.nodes += nodes
        self.last = nodes[-1]

    # ---- GroupNorm ----

    def _is_norm(self, node: fx.Node) -> bool:
        if self.norm_node is not None:
            return False
        if node.op == "call_module":
            return type(self.modules[node.target]) in (nn.GroupNorm, nn.LayerNorm)
        return node.target in (*GROUP_NORMS, *LAYER_NORMS)

    def _read_norm(self, node: fx.Node):
        is_layer_norm = node.target in LAYER_NORMS
        if node.op == "call_module":
            is_layer_norm = type(self.modules[node.target]) is nn.LayerNorm
        if is_layer_norm and self.ones:
            raise Stopped(f"{self.describe(node)}, which is over the last dimension")
        self.is_layer_norm = is_layer_norm
        if node.op == "call_module":
            self.parts["norm"] = self._leaf(node, type(self.modules[node.target]))
        elif is_layer_norm:
            self._read_layer_norm(node)
        else:
            arguments = arguments_of(node, ("input", "num_groups", "weight", "bias", "eps"))
            if arguments["input"] is not self.last or not isinstance(arguments["num_groups"], int):
                raise Stopped(f"{self.describe(node)} with a number of groups that the input decides")
            self.parts["groups"], self.parts["eps"] = arguments["num_groups"], arguments.get("eps", 1e-5)
            for name in ("weight", "bias"):
                if isinstance(arguments.get(name), fx.Node):
                    self.parts[f"norm_{name}"] = self.input(arguments[name])
        self.norm_node = node
        self._take(node)

    def _read_layer_norm(self, node: fx.Node):
        arguments = arguments_of(node, ("input", "normalized_shape", "weight", "bias", "eps"))
        size = one_size(arguments.get("normalized_shape"))
        if arguments.get("input") is not self.last or type(size) is not int:
            raise Stopped(f"{self.describe(node)} over more than the channels, or as many as the input has")
        self.parts["groups"], self.parts["eps"] = 1, arguments.get("eps", 1e-5)
        self.parts["normalized"] = size
        for name in ("weight", "bias"):
            if isinstance(arguments.get(name), fx.Node):
                self.parts[f"norm_{name}"] = self.input(arguments[name])

    # ---- One reader of the value ----

    def _of_one(self, user: fx.Node) -> list[Step] | None:
        """The steps of the value's only reader; None if the reader is no step."""
        if user.op == "call_module":
            return self._of_module(user)
        if user.target in BINARY:
            return self._of_binary(user)
        if user.target in EXTREMES:
            return self._of_extreme(user)
        if not user.args or user.args[0] is not self.last:
            return None
        return self._of_function(user)

    def _of_module(self, node: fx.Node) -> list[Step] | None:
        module = self.modules[node.target]
        cls = type(module)
        if cls is nn.Flatten:
            if not self._is_view(node):
                return None
            self._leaf(node, cls)
            return []
        if cls is nn.RReLU and not module.training:
            self._leaf(node, cls, only_in_eval=True)
            return [Step("leaky_relu", ((module.lower + module.upper) / 2,))]
        if cls is nn.BatchNorm1d:
            return self._of_batch_norm(node)
        meaning = MODULES.get(cls)
        if meaning is None or (meaning.in_training and module.training):
            return None
        self._leaf(node, cls, meaning.in_training)
        if meaning.kind == IDENTITY:
            return []
        if meaning.operand is not None:
            if module.weight is None or self.ones:
                return None
            weight = self._attribute_node(node, meaning.operand)
            self.is_of_matrix = True  # the slopes are those of the second dimension
            return [Step(meaning.kind, operand=self.input(weight))]
        return [Step(meaning.kind, module=module, attributes=meaning.constants)]

    def _of_batch_norm(self, node: fx.Node) -> list[Step] | None:
        """BatchNorm in evaluation, with its running statistics: they are constants of each channel."""
        module = self.modules[node.target]
        if module.training or module.running_mean is None or module.running_var is None or self.ones:
            return None
        self._leaf(node, nn.BatchNorm1d, only_in_eval=True)
        self.is_of_matrix = True  # its channels are those of the second dimension

        def step(kind: str, name: str, *attributes: str) -> Step:
            operand = self.input(self._attribute_node(node, name))
            return Step(kind, module=module, attributes=attributes, operand=operand)

        steps = [step("subtract", "running_mean"), step("divide_deviation", "running_var", "eps")]
        if module.affine:
            steps += [step("multiply", "weight"), step("add", "bias")]
        return steps

    def _attribute_node(self, node: fx.Node, name: str) -> fx.Node:
        """A node that reads a parameter of a module, before the chain's first node."""
        with node.graph.inserting_before(self.nodes[0]):
            return node.graph.create_node("get_attr", f"{node.target}.{name}", (), {})

    def _of_function(self, node: fx.Node) -> list[Step] | None:
        target = node.target
        if target in POWER:
            arguments = arguments_of(node, ("input", "exponent"))
            return [Step("square")] if arguments.get("exponent") == 2 else None
        if target in GELU:
            arguments = arguments_of(node, ("input", "approximate"))
            kind = {"none": "gelu", "tanh": "gelu_tanh"}.get(arguments.get("approximate", "none"))
            return kind and [Step(kind)]
        if target in RELU6:
            return [Step("hardtanh", (0.0, 6.0))]
        if target is F.prelu:
            weight = arguments_of(node, ("input", "weight"))["weight"]
            if self.ones or not isinstance(weight, fx.Node):
                return None
            self.is_of_matrix = True
            return [Step("prelu", operand=self.input(weight))]
        if target is F.dropout:
            arguments = arguments_of(node, ("input", "p", "training", "inplace"))
            return [] if arguments.get("training", True) is False else None
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        if name in CLAMP_ONE_SIDED and node.op in ("call_method", "call_function"):
            bound = next(iter((*node.args[1:], *node.kwargs.values())))
            bounds = (-INFINITY, bound) if CLAMP_ONE_SIDED[name] else (bound, INFINITY)
            return [Step("clamp", bounds)] if isinstance(bound, (int, float)) else None
        if self._is_view(node):
            return []
        meaning = (METHODS if node.op == "call_method" else FUNCTIONS).get(target)
        if meaning is None:
            return None
        return self._with_constants(node, meaning)

    def _with_constants(self, node: fx.Node, meaning) -> list[Step] | None:
        if meaning.kind == IDENTITY:
            return []
        arguments = arguments_of(node, ("input", *meaning.constants, "inplace"))
        if set(arguments) - {"input", "inplace", "self", "_stacklevel", *meaning.constants}:
            return None
        constants = [arguments.get(name) for name in meaning.constants]
        if meaning.kind == "clamp":
            constants = [
                c if c is not None else bound
                for c, bound in zip(constants, (-INFINITY, INFINITY), strict=True)
            ]
        given = [constant for constant in constants if constant is not None]
        if not all(type(constant) in (int, float) for constant in given):
            return None
        # A missing constant has torch's default, which is also the operator's.
        if None in constants and constants.index(None) < len(given):
            defaults = POINTWISE[meaning.kind].defaults
            given = [d if c is None else c for c, d in zip(constants, defaults, strict=False)]
        return [Step(meaning.kind, tuple(map(float, given)))]

    def _is_view(self, node: fx.Node) -> bool:
        """Whether the node only adds or removes dimensions of size 1."""
        ones = ones_after(node, self.ones, self.modules)
        if ones is None:
            return False
        self.ones, self.is_of_matrix = ones, True
        return True

    # ---- Two values ----

    def _of_binary(self, node: fx.Node) -> list[Step] | None:
        if len(node.args) != 2 or node.kwargs:
            return None
        first, second = node.args
        what = BINARY[node.target]
        if first is self.last and second is self.last:
            return {"add": [Step("double")], "multiply": [Step("square")]}.get(what)
        if first is self.last:
            if type(second) in (int, float):
                if what == "subtract":
                    return [Step("add", (-float(second),))]
                return [Step(what, (float(second),))]
            return self._with_operand(what, second)
        if is_in_place(node) or node.target in IN_PLACE:
            return None  # it writes to the other value
        turned = {"add": [], "multiply": [], "subtract": [Step("neg")]}.get(what)
        if turned is None:
            return None
        what = "multiply" if what == "multiply" else "add"
        if type(first) in (int, float):
            return [*turned, Step(what, (float(first),))]
        steps = self._with_operand(what, first)
        return steps and [*turned, *steps]

    def _of_extreme(self, node: fx.Node) -> list[Step] | None:
        """The minimum or maximum of two tensors; with a number it is over a dimension."""
        if len(node.args) != 2 or node.kwargs or node.args[0] is node.args[1]:
            return None
        first, second = node.args
        return self._with_operand(EXTREMES[node.target], second if first is self.last else first)

    def _with_operand(self, what: str, operand) -> list[Step] | None:
        """A step with an operand: a vector or, for a sum, a whole tensor."""
        if self.ones or not isinstance(operand, fx.Node) or (what != "add" and not is_of_parameters(operand)):
            return None
        return [Step(what, operand=self.input(operand))]

    def _of_several(self, users: list[fx.Node]) -> tuple[list[Step] | None, fx.Node]:
        """The steps of a value with several readers: a formula, and a view by the value's own sizes."""
        formula = formula_of(self.last, self.modules)
        if formula is not None:
            self.nodes += formula.nodes[:-1]
            self.leaves += formula.leaves
            self.fixed += formula.fixed
            return formula.steps, formula.nodes[-1]
        for last in users:
            if last.op not in ("call_function", "call_method") or is_in_place(last):
                continue
            sizes = self._sizes_of_view(last)
            if sizes is not None and set(users) == {
                last,
                *[s for s in sizes if self.last in s.all_input_nodes],
            }:
                self.nodes += sizes
                self.ones, self.is_of_matrix = 0, True
                return [], last
        return None, users[0]

    def _sizes_of_view(self, node: fx.Node) -> list[fx.Node] | None:
        """For v.view(v.size(0), -1): the nodes that compute the size; else None."""
        if (
            node.target not in ("view", "reshape", torch.reshape)
            or node.args[0] is not self.last
            or node.kwargs
        ):
            return None
        shape = node.args[1:]
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if len(shape) != 2 or shape[1] != -1 or not isinstance(shape[0], fx.Node):
            return None
        size, nodes = shape[0], []
        while size is not self.last:
            if len(size.users) != 1 or size.op not in ("call_method", "call_function"):
                return None
            nodes.insert(0, size)
            name = size.target if isinstance(size.target, str) else size.target.__name__
            expected = {"size": [(0,), ()], "getitem": [(0,)], "getattr": [("shape",)]}.get(name)
            if expected is None or size.args[1:] not in expected or size.kwargs:
                return None
            size = size.args[0]
        return nodes


def writes(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    """Whether the node is an operator that works in place."""
    of_module = node.op == "call_module" and bool(getattr(modules[node.target], "inplace", False))
    return of_module or is_in_place(node)


def _is_pure(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    """Whether the node writes nothing that other nodes may read."""
    if writes(node, modules):
        return False
    if node.op == "call_module":
        module = modules[node.target]
        return type(module) in FORWARDS and not_plain(module, type(module)) is None
    if node.op == "call_function":
        name = getattr(node.target, "__name__", "")
        homes = (torch, F, operator, builtins)
        return (
            isinstance(node.target, Part)
            or node.target in (rms_norm, with_rows)
            or any(getattr(home, name, None) is node.target for home in homes)
        )
    return True


def nothing_between(nodes: list[fx.Node], modules) -> bool:
    """Whether all the nodes can run at the last one's place: no other node between them writes."""
    order = {node: number for number, node in enumerate(nodes[0].graph.nodes)}
    first, last = order[nodes[0]], max(order[node] for node in nodes)
    own = set(nodes)
    between = [node for node, number in order.items() if first < number < last and node not in own]
    return all(_is_pure(node, modules) for node in between)


def match(product: Product, modules: dict[str, nn.Module]) -> tuple[Match | None, str]:
    """The longest chain from this product, and what stopped it. The product alone if no chain begins there;
    None if its module is no ordinary Linear."""
    found, longest = Match(product, modules), None
    try:
        found.read_product()
        longest = found.state()
        while True:
            found.advance()
            if found.ones == 0:
                if not nothing_between(found.nodes, modules):
                    raise Stopped("what runs between its parts, which may write to what they read")
                longest = found.state()
    except Stopped as reason:
        places = {user.meta[PLACE]: None for user in found.last.users if PLACE in user.meta}
        return longest, str(reason) + (f" ({' and '.join(places)})" if places else "")
