"""Runs a forward() with stand-ins for its modules and its tensors, and records the graph of what it does.

torch.fx's own `trace()` replaces `nn.Module.__call__`, `nn.Module.__getattr__` and functions of `math` for
the whole process while it runs, which disturbs models in other threads. Here forward() gets a stand-in for
its module instead: an object of a subclass, with the same attributes, which records calls of modules and
reads of parameters. Other threads see no change.
"""

from __future__ import annotations

import linecache
import sys
import types
from pathlib import Path

from torch import fx, nn
from torch.overrides import TorchFunctionMode

from fgn.fusing.classes import is_torchs, subclass_of
from fgn.fusing.meanings import IN_PLACE


class Untraceable(Exception):
    """Raised with the reason why a forward() stays unchanged."""

    where = ""

    def at(self, file: str, line: int) -> Untraceable:
        """The same with the line of the source, unless it has one already."""
        self.where = self.where or f" ({place(file, line)})"
        return self

    def __str__(self) -> str:
        return super().__str__() + self.where


# An attribute of a node: the source line that made it.
PLACE = "fgn: line of the source"


def place(file: str, line: int) -> str:
    """A line for a reader: the file's name, the number, and its text, if that can be read."""
    text = linecache.getline(file, line).strip() if line else ""
    return f"{Path(file).name}:{line}: {text}".removesuffix(": ")


def place_of_caller(within: types.CodeType | None = None) -> str | None:
    """The calling line in source that is neither torch's nor fgn's. within: a function that called it."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not within:
        name = frame.f_globals.get("__name__", "")
        if not is_torchs(name) and not name.startswith("fgn."):
            return place(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


class _NothingRuns(TorchFunctionMode):
    """Refuses operators that torch would run while the graph is made: their result would become a
    constant."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if any(issubclass(kind, fx.Proxy) for kind in types):
            return function(*args, **(kwargs or {}))
        raise Untraceable(f"{getattr(function, '__name__', function)}() does not depend on the input")


class _Proxy(fx.Proxy):
    """A value of the graph that refuses `v += w`. torch.fx would treat it as `v = v + w`, but other names may
    share v's memory."""


for _operator in IN_PLACE:

    def _in_place(self, other, _operator=_operator):
        return self.tracer.create_proxy("call_function", _operator, (self, other), {})

    setattr(_Proxy, f"__{_operator.__name__}__", _in_place)


class _Input(_Proxy):
    """An argument of forward(). If forward() asks for its number of dimensions, the graph is only for (batch,
    features)."""

    def dim(self) -> int:
        self.tracer.matrices.add(self.node.name)
        return 2

    ndimension = dim
    ndim = property(dim)


# Attributes of an object of such a class: the tracer, and the module that it stands for.
_TRACER, _MODULE = "_tracer_of_stand_in", "_module_of_stand_in"


def _init(self, *args, **kwargs):
    # `self.layers[1:]` makes another container of its own class. It stands for no module.
    self.__class__ = type(self).__bases__[0]
    self.__init__(*args, **kwargs)


def _call(self, *args, **kwargs):
    return self.__dict__[_TRACER].call_module(self, self.forward, args, kwargs)


def _getattr(self, name):
    tracer = self.__dict__[_TRACER]
    return tracer.getattr(name, super(type(self), self).__getattr__(name), tracer.parameters)


class _Forward:
    """forward() of the module's original class."""

    def __get__(self, stand_in, cls):
        forward = cls.__mro__[1].forward
        return forward if stand_in is None else types.MethodType(forward, stand_in)


_STAND_IN = {"__init__": _init, "__call__": _call, "__getattr__": _getattr, "forward": _Forward()}


class Tracer(fx.Tracer):
    """is_leaf: whether a module is called in the graph; the forward() of others becomes part of the graph.
    matrices: after the graph is made, the names of the arguments that must have two dimensions."""

    proxy_buffer_attributes = True

    def __init__(self, is_leaf):
        super().__init__()
        self.is_leaf = is_leaf
        self.matrices: set[str] = set()
        self.parameters: dict[str, fx.Proxy] = {}
        self._stand_ins: dict[nn.Module, nn.Module] = {}

    def graph_of(self, module: nn.Module, forward, names: list[str], defaults: dict) -> fx.Graph:
        """The graph of forward(module, *names, **defaults)."""
        self.root = self._stand_in(module)
        self.submodule_paths = {part: name for name, part in self.root.named_modules()}
        self.tensor_attrs = {}
        self.graph = fx.Graph(tracer_cls=fx.Tracer)
        nodes = [self.create_node("placeholder", name, (), {}) for name in names]
        with _NothingRuns():
            result = forward(self.root, *(_Input(node, self) for node in nodes), **defaults)
        self.create_node("output", "output", (self.create_arg(result),), {})
        return self.graph

    def create_node(self, *args, **kwargs) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        where = place_of_caller(Tracer.graph_of.__code__)
        if where is not None:
            node.meta[PLACE] = where
        return node

    def _stand_in(self, module: nn.Module) -> nn.Module:
        made = self._stand_ins.get(module)
        if made is None:
            cls = subclass_of(type(module), "_is_stand_in", _STAND_IN)
            made = self._stand_ins[module] = object.__new__(cls)
            made.__dict__.update(module.__dict__)
            made.__dict__.update({_TRACER: self, _MODULE: module})
            children = module._modules.items()
            made.__dict__["_modules"] = {
                name: child if child is None else self._stand_in(child) for name, child in children
            }
        return made

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def is_leaf_module(self, module, qualified_name):
        return self.is_leaf(module.__dict__[_MODULE])
