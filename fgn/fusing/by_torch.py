"""The nodes of a part of a model, run by torch one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import fx, nn


class _Value(NamedTuple):
    """One of the values that the parts read or compute, by its number."""

    number: int


def _mapped(value, kind: type, function):
    """A node's arguments, in which every value of the type `kind` is replaced by function(value)."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, (tuple, list)):
        mapped = [_mapped(one, kind, function) for one in value]
        return tuple(mapped) if isinstance(value, tuple) else mapped
    if isinstance(value, dict):
        return {key: _mapped(one, kind, function) for key, one in value.items()}
    if isinstance(value, slice):
        return slice(*_mapped((value.start, value.stop, value.step), kind, function))
    return value


class ByTorch:
    """Runs the nodes of a graph, each of which reads inputs or earlier nodes."""

    def __init__(self, inputs: Sequence[fx.Node], nodes: Sequence[fx.Node], owner: nn.Module):
        numbers = {node: number for number, node in enumerate([*inputs, *nodes])}

        def numbered(value):
            return _mapped(value, fx.Node, lambda node: _Value(numbers[node]))

        self.nodes = [(n.op, n.target, numbered(n.args), numbered(n.kwargs)) for n in nodes]
        self.modules = {
            node.target: owner.get_submodule(node.target) for node in nodes if node.op == "call_module"
        }

    def __call__(self, inputs: Sequence):
        """The value of the last node."""
        values = list(inputs)

        def value_of(one: _Value):
            return values[one.number]

        for op, target, args, kwargs in self.nodes:
            args, kwargs = _mapped(args, _Value, value_of), _mapped(kwargs, _Value, value_of)
            if op == "call_module":
                values.append(self.modules[target](*args, **kwargs))
            elif op == "call_method":
                values.append(getattr(args[0], target)(*args[1:], **kwargs))
            else:
                values.append(target(*args, **kwargs))
        return values[-1]
