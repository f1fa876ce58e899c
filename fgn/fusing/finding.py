"""Finds the chains in a graph: from each Linear along the values that only the next step reads, to a
GroupNorm and on to the last pointwise operator behind it."""

from __future__ import annotations

import builtins
import operator

import torch
import torch.nn.functional as F
from torch import fx, nn

from fgn.fusing.meanings import (
    BINARY,
    CLAMP_ONE_SIDED,
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
from fgn.fusing.parts import ChainPart, Found, Step
from fgn.operators import POINTWISE

MOST_STEPS = 8

INFINITY = float("inf")
GROUP_NORMS = (F.group_norm, torch.group_norm)
LINEARS = (F.linear,)


class Stopped(Exception):
    """Raised at the first operator that is no part of a chain, which the message names."""


class Match:
    """A chain as far as it has been read: the steps that follow a Linear."""

    def __init__(self, linear: fx.Node, modules: dict[str, nn.Module]):
        self.modules, self.last = modules, linear
        self.nodes, self.inputs = [linear], [linear.args[0]]
        self.leaves: list[tuple[nn.Module, type, bool]] = []
        self.before: list[Step] = []
        self.after: list[Step] = []
        self.parts: dict = {"linear": None, "norm": None}
        self.norm_node: fx.Node | None = None

    def describe(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return f"{node.target} ({type(self.modules[node.target]).__name__})"
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

    def found(self, name: str) -> Found:
        return Found(
            name,
            self.nodes,
            self.inputs,
            before=self.before,
            after=self.after,
            leaves=self.leaves,
            **self.parts,
        )

    def read_linear(self):
        """Reads the Linear, which is the first node."""
        node = self.last
        if node.op == "call_module":
            self.parts["linear"] = self._leaf(node, nn.Linear)
            return
        arguments = _arguments(node, ("input", "weight", "bias"))
        self.parts["weight"] = self.input(arguments["weight"])
        if isinstance(arguments.get("bias"), fx.Node):
            self.parts["bias"] = self.input(arguments["bias"])

    def _leaf(self, node: fx.Node, cls: type, only_in_eval: bool = False) -> nn.Module:
        module = self.modules[node.target]
        if reason := not_plain(module, cls):
            raise Stopped(f"{self.describe(node)}: {reason}")
        self.leaves.append((module, cls, only_in_eval))
        return module

    def advance(self):
        """Reads the next step of the chain. Stopped where the next node is no step of a chain."""
        users = list(self.last.users)
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
            raise Stopped(" and ".join(self.describe(user) for user in users))
        side = self.before if self.norm_node is None else self.after
        if len(side) + len(steps) > MOST_STEPS:
            raise Stopped(
                f"{self.describe(user)}, which would be operator {len(side) + len(steps)} of {MOST_STEPS}"
            )
        side += steps
        self._take(user)

    def _take(self, *nodes: fx.Node):
        self.nodes += nodes
        self.last = nodes[-1]

    # ---- GroupNorm ----

    def _is_norm(self, node: fx.Node) -> bool:
        if self.norm_node is not None:
            return False
        if node.op == "call_module":
            return type(self.modules[node.target]) is nn.GroupNorm
        return node.target in GROUP_NORMS

    def _read_norm(self, node: fx.Node):
        if node.op == "call_module":
            self.parts["norm"] = self._leaf(node, nn.GroupNorm)
        else:
            arguments = _arguments(node, ("input", "num_groups", "weight", "bias", "eps"))
            if arguments["input"] is not self.last or not isinstance(arguments["num_groups"], int):
                raise Stopped(f"{self.describe(node)} with a number of groups that the input decides")
            self.parts["groups"], self.parts["eps"] = arguments["num_groups"], arguments.get("eps", 1e-5)
            for name in ("weight", "bias"):
                if isinstance(arguments.get(name), fx.Node):
                    self.parts[f"norm_{name}"] = self.input(arguments[name])
        self.norm_node = node
        self._take(node)

    # ---- One reader of the value ----

    def _of_one(self, user: fx.Node) -> list[Step] | None:
        """The steps that the value's only reader stands for; None where the reader is no step."""
        if user.op == "call_module":
            return self._of_module(user)
        if user.target in BINARY:
            return self._of_binary(user)
        if not user.args or user.args[0] is not self.last:
            return None
        return self._of_function(user)

    def _of_module(self, node: fx.Node) -> list[Step] | None:
        module = self.modules[node.target]
        cls = type(module)
        if cls is nn.Flatten and module.start_dim == 1 and module.end_dim in (-1, 1):
            self._leaf(node, cls)
            return []
        if cls is nn.RReLU and not module.training:
            self._leaf(node, cls, only_in_eval=True)
            return [Step("leaky_relu", ((module.lower + module.upper) / 2,))]
        meaning = MODULES.get(cls)
        if meaning is None or (meaning.in_training and module.training):
            return None
        self._leaf(node, cls, meaning.in_training)
        if meaning.kind == IDENTITY:
            return []
        if meaning.operand is not None:
            if module.weight is None:
                return None
            weight = self._attribute_node(node, meaning.operand)
            return [Step(meaning.kind, operand=self.input(weight))]
        return [Step(meaning.kind, module=module, attributes=meaning.constants)]

    def _attribute_node(self, node: fx.Node, name: str) -> fx.Node:
        """A node that reads a parameter of a module, before the chain's first node."""
        with node.graph.inserting_before(self.nodes[0]):
            return node.graph.create_node("get_attr", f"{node.target}.{name}", (), {})

    def _of_function(self, node: fx.Node) -> list[Step] | None:
        target = node.target
        if target in POWER:
            arguments = _arguments(node, ("input", "exponent"))
            return [Step("square")] if arguments.get("exponent") == 2 else None
        if target in GELU:
            arguments = _arguments(node, ("input", "approximate"))
            kind = {"none": "gelu", "tanh": "gelu_tanh"}.get(arguments.get("approximate", "none"))
            return kind and [Step(kind)]
        if target in RELU6:
            return [Step("hardtanh", (0.0, 6.0))]
        if target is F.prelu:
            weight = _arguments(node, ("input", "weight"))["weight"]
            return [Step("prelu", operand=self.input(weight))] if isinstance(weight, fx.Node) else None
        if target is F.dropout:
            arguments = _arguments(node, ("input", "p", "training", "inplace"))
            return [] if arguments.get("training", True) is False else None
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        if name in CLAMP_ONE_SIDED and node.op in ("call_method", "call_function"):
            bound = next(iter((*node.args[1:], *node.kwargs.values())))
            bounds = (-INFINITY, bound) if CLAMP_ONE_SIDED[name] else (bound, INFINITY)
            return [Step("clamp", bounds)] if isinstance(bound, (int, float)) else None
        if self._changes_nothing(node):
            return []
        meaning = (METHODS if node.op == "call_method" else FUNCTIONS).get(target)
        if meaning is None:
            return None
        return self._with_constants(node, meaning)

    def _with_constants(self, node: fx.Node, meaning) -> list[Step] | None:
        if meaning.kind == IDENTITY:
            return []
        arguments = _arguments(node, ("input", *meaning.constants, "inplace"))
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
        # A constant that is not given has torch's default, which is also the operator's.
        if None in constants and constants.index(None) < len(given):
            defaults = POINTWISE[meaning.kind].defaults
            given = [d if c is None else c for c, d in zip(constants, defaults, strict=False)]
        return [Step(meaning.kind, tuple(map(float, given)))]

    def _changes_nothing(self, node: fx.Node) -> bool:
        """Whether the node returns a (batch, channels) value as it is, in the same shape."""
        if node.target in ("flatten", torch.flatten):
            arguments = _arguments(node, ("input", "start_dim", "end_dim"))
            return arguments.get("start_dim", 0) == 1 and arguments.get("end_dim", -1) in (-1, 1)
        return False

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

    def _with_operand(self, what: str, operand) -> list[Step] | None:
        """A step with an operand: a vector or, for a sum, a whole tensor."""
        if not isinstance(operand, fx.Node) or (what != "add" and not _is_of_parameters(operand)):
            return None
        return [Step(what, operand=self.input(operand))]

    def _of_several(self, users: list[fx.Node]) -> tuple[list[Step] | None, fx.Node]:
        """The steps of a value with several readers: sigmoid(v) * v, v * tanh(softplus(v)), and a view by v's
        own sizes."""
        for last in users:
            if last.op not in ("call_function", "call_method") or is_in_place(last):
                continue
            if BINARY.get(last.target) == "multiply" and len(last.args) == 2 and not last.kwargs:
                gate = next((arg for arg in last.args if arg is not self.last), None)
                gates = _line_to(gate, self.last) if isinstance(gate, fx.Node) else None
                if gates and set(users) == {last, gates[0]}:
                    kinds = [self._kind_of(node) for node in gates]
                    kind = {("sigmoid",): "silu", ("softplus", "tanh"): "mish"}.get(tuple(kinds))
                    if kind:
                        self.nodes += gates
                        return [Step(kind)], last
            sizes = self._sizes_of_view(last)
            if sizes is not None and set(users) == {
                last,
                *[s for s in sizes if self.last in s.all_input_nodes],
            }:
                self.nodes += sizes
                return [], last
        return None, users[0]

    def _kind_of(self, node: fx.Node) -> str | None:
        """The kind of the operator that the node is, if its constants are the defaults."""
        if node.op == "call_module":
            module = self.modules[node.target]
            cls = type(module)
            if cls not in (nn.Sigmoid, nn.Softplus, nn.Tanh) or not_plain(module, cls):
                return None
            if cls is nn.Softplus and (module.beta, module.threshold) != (1, 20):
                return None
            self.leaves.append((module, cls, False))
            return MODULES[cls].kind
        meaning = (METHODS if node.op == "call_method" else FUNCTIONS).get(node.target)
        plain = meaning is not None and len(node.args) == 1 and not node.kwargs
        return meaning.kind if plain and isinstance(meaning.kind, str) else None

    def _sizes_of_view(self, node: fx.Node) -> list[fx.Node] | None:
        """For v.view(v.size(0), -1): the nodes that ask for the size. None for anything else."""
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


def _is_of_parameters(node: fx.Node) -> bool:
    """Whether a value depends on the module's parameters alone, so that it is hardly a whole (batch,
    channels) tensor."""
    return node.op == "get_attr" or (
        node.op in ("call_function", "call_method")
        and bool(node.all_input_nodes)
        and all(map(_is_of_parameters, node.all_input_nodes))
    )


def _line_to(node: fx.Node, start: fx.Node) -> list[fx.Node] | None:
    """The nodes from the reader of `start` to `node`, each the only reader of the one before."""
    nodes = []
    while node is not start:
        if (
            len(node.users) != 1
            or not node.args
            or not isinstance(node.args[0], fx.Node)
            or is_in_place(node)
        ):
            return None
        nodes.insert(0, node)
        node = node.args[0]
    return nodes


def _arguments(node: fx.Node, names: tuple[str, ...]) -> dict:
    return dict(zip(names, node.args, strict=False)) | dict(node.kwargs)


def _is_pure(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    """Whether the node writes to nothing that other nodes may read."""
    if is_in_place(node):
        return False
    if node.op == "call_module":
        module = modules[node.target]
        return (
            type(module) in FORWARDS
            and not getattr(module, "inplace", False)
            and not_plain(module, type(module)) is None
        )
    if node.op == "call_function":
        name = getattr(node.target, "__name__", "")
        homes = (torch, F, operator, builtins)
        return isinstance(node.target, ChainPart) or any(
            getattr(home, name, None) is node.target for home in homes
        )
    return True


def _nothing_between(nodes: list[fx.Node], modules) -> bool:
    """Whether all the nodes can run in the place of the last one: no other node between them writes."""
    order = {node: number for number, node in enumerate(nodes[0].graph.nodes)}
    first, last = order[nodes[0]], max(order[node] for node in nodes)
    own = set(nodes)
    between = [node for node, number in order.items() if first < number < last and node not in own]
    return all(_is_pure(node, modules) for node in between)


def is_linear(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    """Whether the node is a Linear, with which a chain may begin."""
    if node.op == "call_module":
        return isinstance(modules[node.target], nn.Linear) and len(node.args) == 1
    return node.op == "call_function" and node.target in LINEARS


def match(linear: fx.Node, modules: dict[str, nn.Module]) -> tuple[Match | None, str]:
    """The longest chain from this Linear, and what stopped it."""
    found, longest = Match(linear, modules), None
    try:
        found.read_linear()
        while True:
            found.advance()
            if found.norm_node is not None:
                if not _nothing_between(found.nodes, modules):
                    raise Stopped("what runs between its parts, which may write to what they read")
                longest = _copy(found)
    except Stopped as reason:
        return longest, str(reason)


def _copy(found: Match) -> Match:
    same = Match.__new__(Match)
    same.__dict__.update(
        {
            name: value.copy() if isinstance(value, (list, dict)) else value
            for name, value in found.__dict__.items()
        }
    )
    same.modules = found.modules
    return same
