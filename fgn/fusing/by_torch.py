"""Python functions for graphs: for a fused model's whole forward(), and for the nodes of one part, run by
torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import fx, nn


def function_of(graph: fx.Graph, module: nn.Module) -> Callable:
    """A Python function that runs the graph. module: has the graph's parts and parameters."""
    names, known, lines, arguments = {}, {}, [], []

    class Name(str):
        __slots__ = ()

        def __repr__(self):
            return str(self)

    def constant(value) -> Name:
        name = Name(f"_constant_{len(known)}")
        known[str(name)] = value
        return name

    def attribute(owner: nn.Module, name: str) -> str:
        """Reads the attribute as Python does; a parameter or buffer, for which Python calls a function of
        torch's, first where modules keep it. Those of a ParameterList are called 0, 1, ..."""
        module, cls = constant(owner), type(owner)
        read = f"getattr({module}, {name!r})"
        if (cls.__getattr__, cls.__getattribute__) != (nn.Module.__getattr__, object.__getattribute__):
            return read
        for home in ("_parameters", "_buffers"):
            if name in getattr(owner, home) and not hasattr(cls, name):
                own = f"{name!r} in (own := {module}.__dict__)[{home!r}] and {name!r} not in own"
                return f"own[{home!r}][{name!r}] if {own} else {read}"
        return read

    def text(value) -> str:
        def leaf(node):
            return names[node]

        def walk(value):
            if isinstance(value, fx.Node):
                return leaf(value)
            if isinstance(value, tuple) and type(value) is tuple:
                return tuple(map(walk, value))
            if isinstance(value, list):
                return list(map(walk, value))
            if isinstance(value, dict):
                return {key: walk(item) for key, item in value.items()}
            if isinstance(value, slice):
                return Name(f"slice({walk(value.start)!r}, {walk(value.stop)!r}, {walk(value.step)!r})")
            if value is None or isinstance(value, (bool, int, str)):
                return value
            return constant(value)

        return repr(walk(value))

    for number, node in enumerate(graph.nodes):
        names[node] = Name(f"v{number}")
        if node.op == "placeholder":
            arguments.append(names[node])
            continue
        if node.op == "output":
            lines.append(f"return {text(node.args[0])}")
            continue
        inside = ", ".join(
            [*map(text, node.args), *(f"{key}={text(value)}" for key, value in node.kwargs.items())]
        )
        if node.op == "get_attr":
            *path, last = node.target.split(".")
            lines.append(f"{names[node]} = {attribute(module.get_submodule('.'.join(path)), last)}")
        elif node.op == "call_module":
            lines.append(f"{names[node]} = {constant(module.get_submodule(node.target))}({inside})")
        elif node.op == "call_method":
            rest = ", ".join([*map(text, node.args[1:]), *(f"{k}={text(v)}" for k, v in node.kwargs.items())])
            lines.append(f"{names[node]} = {text(node.args[0])}.{node.target}({rest})")
        else:
            lines.append(f"{names[node]} = {constant(node.target)}({inside})")
    body = "\n    ".join(lines)
    exec(f"def forward({', '.join(arguments)}):\n    {body}\n", known)
    return known["forward"]


def by_torch(inputs: Sequence[fx.Node], nodes: Sequence[fx.Node], owner: nn.Module, results=()) -> Callable:
    """A function of the values of `inputs` that runs the nodes in order; each reads inputs or earlier nodes.
    It returns the last one's value, or a tuple of those of `results` if these are several."""
    graph = fx.Graph()
    copies = {node: graph.placeholder(f"input_{number}") for number, node in enumerate(inputs)}
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    values = tuple(copies[node] for node in results)
    graph.output(values if len(values) > 1 else copies[nodes[-1]])
    return function_of(graph, owner)
