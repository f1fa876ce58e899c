"""Pointwise operators that a forward() writes as formulas, such as x * torch.sigmoid(x).

The nodes between a value and a result that depends on it alone are one expression. It is brought into a
normal form, with sorted products and sums and gathered constants, and looked up. The table has a formula only
if it equals the operator at every value. x * relu6(x + 3) / 6 is missing, because its slope at -3 differs
from hardswish's; so is torch.where(x > 0, x, 0), which turns NaN into 0.
"""

from __future__ import annotations

import math
import operator
from typing import NamedTuple

import torch
from torch import fx, nn

from fgn.fusing.meanings import BINARY, FUNCTIONS, METHODS, POWER, is_in_place, not_plain
from fgn.fusing.parts import Step
from fgn.fusing.products import arguments_of

MOST_NODES = 12

VALUE = "v"
_MODULES = {nn.Sigmoid: "sigmoid", nn.Tanh: "tanh", nn.Softplus: "softplus"}
_UNARY = ("sigmoid", "tanh", "softplus", "abs", "exp")
_COMPARED = {
    **dict.fromkeys((operator.gt, torch.gt, torch.greater, "gt", "greater"), ">"),
    **dict.fromkeys((operator.le, torch.le, torch.less_equal, "le", "less_equal"), "<="),
}


class Unknown(Exception):
    """Raised if a node is no part of an expression."""


class Formula(NamedTuple):
    """nodes: in order; the last one has the result. steps: their meaning. leaves: modules among them. fixed:
    (module, attribute, value) that must hold."""

    nodes: list[fx.Node]
    steps: list[Step]
    leaves: list[tuple[nn.Module, type, bool]]
    fixed: list[tuple[nn.Module, str, object]]


def _gathered(kind: str, neutral: float, both, parts):
    """(kind, constant, parts) with all constants combined and inner parts of the same kind flattened; or the
    part alone if there is one and no constant. both: combines two constants."""
    constant, flat = neutral, []
    for part in parts:
        if isinstance(part, float):
            constant = both(constant, part)
        elif isinstance(part, tuple) and part[0] == kind:
            constant = both(constant, part[1])
            flat += part[2]
        else:
            flat.append(part)
    if not flat:
        return constant
    if len(flat) == 1 and constant == neutral:
        return flat[0]
    return kind, constant, tuple(sorted(flat, key=repr))


def _product(*factors):
    return _gathered("*", 1.0, operator.mul, factors)


def _sum(*terms):
    return _gathered("+", 0.0, operator.add, terms)


def _gelu_tanh(cubic):
    root = math.sqrt(2 / math.pi)
    return _product(0.5, VALUE, _sum(1.0, ("tanh", _product(root, cubic))))


_CUBE = _product(0.044715, VALUE, VALUE, VALUE)
_KNOWN = [
    ("silu", _product(VALUE, ("sigmoid", VALUE))),
    ("mish", _product(VALUE, ("tanh", ("softplus", VALUE)))),
    ("gelu", _product(0.5, VALUE, _sum(1.0, ("erf", _product(math.sqrt(0.5), VALUE))))),
    ("gelu_tanh", _gelu_tanh(_sum(VALUE, _CUBE))),
    ("gelu_tanh", _gelu_tanh(_product(VALUE, _sum(1.0, _product(0.044715, VALUE, VALUE))))),
    ("tanhshrink", _sum(VALUE, _product(-1.0, ("tanh", VALUE)))),
    ("softsign", _product(VALUE, ("1 /", _sum(1.0, ("abs", VALUE))))),
]


def _is_same(one, other) -> bool:
    """Whether two expressions are the same, their constants as float32."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=2.0**-25)
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return all(map(_is_same, one, other))
    return type(one) is type(other) and one == other


def _steps_of(expression) -> list[Step] | None:
    """The operators that equal the expression, or None."""
    for kind, known in _KNOWN:
        if _is_same(expression, known):
            return [Step(kind)]
    if not isinstance(expression, tuple):
        return None
    if expression[0] == "*" and expression[1] == 1.0 and len(expression[2]) == 2:
        gate = next((factor for factor in expression[2] if factor != VALUE), None)
        inside = gate[1] if VALUE in expression[2] and gate and gate[0] == "sigmoid" else None
        if isinstance(inside, tuple) and inside[0] == "*" and inside[2] == (VALUE,):
            factor = inside[1]  # v sigmoid(c v) is silu(c v) / c
            if 2.0**-20 <= abs(factor) <= 2.0**20:
                return [Step("multiply", (factor,)), Step("silu"), Step("divide", (factor,))]
    if expression[0] == "where":
        _, (compared, *sides), first, second = expression
        if compared == "<=":
            first, second = second, first
        is_slope = isinstance(second, tuple) and second[0] == "*" and second[2] == (VALUE,)
        if sides == [VALUE, 0.0] and first == VALUE and is_slope:
            return [Step("leaky_relu", (second[1],))]
    return None


class _Reader:
    """Reads nodes as expressions of one value. modules: of the graph, by their names."""

    def __init__(self, start: fx.Node, modules: dict[str, nn.Module]):
        self.known, self.modules = {start: VALUE}, modules
        self.leaves: list[tuple[nn.Module, type, bool]] = []
        self.fixed: list[tuple[nn.Module, str, object]] = []

    def value(self, argument):
        if isinstance(argument, fx.Node):
            return self.known[argument]
        if type(argument) in (int, float):
            return float(argument)
        raise Unknown

    def read(self, node: fx.Node):
        """Raises Unknown if the node is no operator of an expression."""
        if is_in_place(node):
            raise Unknown
        self.known[node] = self._of_module(node) if node.op == "call_module" else self._of_function(node)

    def _of_module(self, node: fx.Node):
        module = self.modules[node.target]
        cls = type(module)
        if cls not in _MODULES or not_plain(module, cls) or len(node.args) != 1:
            raise Unknown
        if cls is nn.Softplus:
            if (module.beta, module.threshold) != (1, 20):
                raise Unknown
            self.fixed += [(module, "beta", module.beta), (module, "threshold", module.threshold)]
        self.leaves.append((module, cls, False))
        return _MODULES[cls], self.value(node.args[0])

    def _of_function(self, node: fx.Node):
        target = node.target
        if node.op not in ("call_function", "call_method") or not node.args:
            raise Unknown
        if target in POWER:
            exponent = arguments_of(node, ("input", "exponent")).get("exponent")
            if exponent not in (2, 3) or not isinstance(node.args[0], fx.Node):
                raise Unknown
            return _product(*[self.value(node.args[0])] * int(exponent))
        if node.kwargs:
            raise Unknown
        if target in (torch.erf, "erf", torch.special.erf) and len(node.args) == 1:
            return "erf", self.value(node.args[0])
        if target in BINARY and len(node.args) == 2:
            return self._of_two(BINARY[target], *map(self.value, node.args))
        if target in _COMPARED and len(node.args) == 2:
            return _COMPARED[target], *map(self.value, node.args)
        if target is torch.where and len(node.args) == 3:
            condition, *sides = map(self.value, node.args)
            if isinstance(condition, tuple) and condition[0] in _COMPARED.values():
                return "where", condition, *sides
            raise Unknown
        meaning = (METHODS if node.op == "call_method" else FUNCTIONS).get(target)
        kind = getattr(meaning, "kind", None)
        if kind == "neg" and len(node.args) == 1:
            return _product(-1.0, self.value(node.args[0]))
        if kind == "square" and len(node.args) == 1:
            return _product(*[self.value(node.args[0])] * 2)
        if kind in _UNARY and len(node.args) == 1:
            return kind, self.value(node.args[0])
        raise Unknown

    def _of_two(self, what: str, first, second):
        if what == "add":
            return _sum(first, second)
        if what == "subtract":
            return _sum(first, _product(-1.0, second))
        if what == "multiply":
            return _product(first, second)
        if isinstance(second, float):
            if second == 0.0:
                raise Unknown
            return _product(first, 1.0 / second)
        return _product(first, ("1 /", second))


def formula_of(start: fx.Node, modules: dict[str, nn.Module]) -> Formula | None:
    """The operators that the readers of `start` form together, or None."""
    reader, inside = _Reader(start, modules), []
    node = start.next
    while node.op != "output" and len(inside) < MOST_NODES:
        inputs = node.all_input_nodes
        if any(one in reader.known for one in inputs):
            if not all(one in reader.known for one in inputs):
                return None  # it has something else beside the value, so nobody reads the value alone
            try:
                reader.read(node)
            except Unknown:
                return None
            inside.append(node)
            own = {start, *inside}
            if all(user in own for one in own - {node} for user in one.users):
                steps = _steps_of(reader.known[node])
                if steps is not None:
                    return Formula(inside, steps, reader.leaves, reader.fixed)
        node = node.next
    return None
