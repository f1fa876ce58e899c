"""Functions of rows in a graph: softmax, RMSNorm, sums and other reductions over the features, pooling, with
the operators after them. `read_rows()` finds one after a chain; `fgn.fusing.rows_part` has the part that runs
it."""

from __future__ import annotations

import operator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from fgn.fusing.accepting import NotAChain
from fgn.fusing.finding import Match, Stopped, nothing_between, writes
from fgn.fusing.meanings import not_plain
from fgn.fusing.parts import VALUE_AGAIN, Step
from fgn.fusing.products import Product, arguments_of, is_of_parameters, one_size, only_user
from fgn.fusing.rewriting import rms_norm
from fgn.rows import ROW_FUNCTIONS

# Functions and methods by what they compute.
_REDUCING = {
    **dict.fromkeys((torch.sum, "sum"), "sum"),
    **dict.fromkeys((torch.mean, "mean"), "mean"),
    **dict.fromkeys((torch.amax, "amax"), "max"),
    **dict.fromkeys((torch.amin, "amin"), "min"),
    **dict.fromkeys((torch.logsumexp, torch.special.logsumexp, "logsumexp"), "logsumexp"),
}
# With the name of the argument that selects the norm.
_LENGTHS = {
    **dict.fromkeys((torch.norm, "norm"), "p"),
    **dict.fromkeys((torch.linalg.norm, torch.linalg.vector_norm), "ord"),
}
_WITH_INDICES = {torch.max: "max", "max": "max", torch.min: "min", "min": "min"}
_OF_EACH_VALUE = {
    **dict.fromkeys((torch.softmax, F.softmax, torch.special.softmax, "softmax"), "softmax"),
    **dict.fromkeys((torch.log_softmax, F.log_softmax, torch.special.log_softmax), "log_softmax"),
    "log_softmax": "log_softmax",
}
_MODULES = {nn.Softmax: "softmax", nn.LogSoftmax: "log_softmax"}
_NORMS = {nn.RMSNorm: "rms_norm", nn.LayerNorm: "layer_norm"}
_NORM_FUNCTIONS = {
    **dict.fromkeys((F.layer_norm, torch.layer_norm), "layer_norm"),
    **dict.fromkeys((F.rms_norm, torch.rms_norm, rms_norm), "rms_norm"),
}
_POOLS = {nn.MaxPool1d: "max", nn.AvgPool1d: "mean"}
# For rows as maps of one channel, (batch, 1, features) or (batch, 1, 1, features).
_OF_MAPS = {**dict.fromkeys(_POOLS, 1), nn.InstanceNorm1d: 1, nn.InstanceNorm2d: 2}
_STACKED = (F.softmax, F.log_softmax)  # whose third argument is none of the user's
# Functions that a graph without modules may call.
FUNCTIONS_OF_ROWS = (*_REDUCING, *_LENGTHS, *_OF_EACH_VALUE, *_NORM_FUNCTIONS)
# The window of a norm over all features, however many.
ALL = -1
# Functions that return a single value unchanged.
_OF_ONE_VALUE = ("sum", "mean", "max", "min", "logsumexp")


class Settings(NamedTuple):
    """A function at a call. dim: its dimension, or None for the last one. window: of pooling."""

    function: str
    dim: int | None = None
    window: int | None = None
    eps: float = 0.0


class RowsFound(NamedTuple):
    """A function of rows in a graph, and the steps after it.

    nodes: in order. inputs: what they read, the function's input first. settings: the function's; module: if
    it is one, its settings at the call are used. keeps: whether a single value keeps the features' dimension.
    after: the steps. ends: what stopped it. half: for "values", as in `fgn.rows.Rows`.
    """

    nodes: list[fx.Node]
    inputs: list[fx.Node]
    settings: Settings
    module: nn.Module | None
    keeps: bool
    of_matrix: bool
    after: list[Step]
    leaves: list[tuple[nn.Module, type, bool]]
    fixed: list[tuple[nn.Module, str, object]]
    words: list[str]
    ends: str
    keeps_sum: bool = False
    half: int | None = None

    @property
    def reads_again(self) -> bool:
        """Whether the steps read the product's result again, so that no operator may come between."""
        is_values = self.settings.function == "values"
        return self.half is not None or (is_values and any(s.operand == VALUE_AGAIN for s in self.after))

    @property
    def is_reduction(self) -> bool:
        """Whether it is a function, and no module, that gives each row one value, with no operand after it,
        so that the launch of pooling can compute it too."""
        settings, operands = self.settings, [step.operand for step in self.after if step.operand is not None]
        of_features = self.module is None and not self.keeps_sum and settings.dim != 0
        return of_features and ROW_FUNCTIONS[settings.function].reduces and not operands

    @property
    def is_pooling(self) -> bool:
        return type(self.module) in _POOLS and not self.keeps_sum

    @property
    def gives_one_value(self) -> bool:
        """Whether it leaves each row one value in the features' dimension."""
        return self.keeps and self.module is None and ROW_FUNCTIONS[self.settings.function].reduces


def settings_of(found: RowsFound) -> Settings:
    """The function with its module's present settings. NotAChain if these are not for a row."""
    module, settings = found.module, found.settings
    if module is None:
        return settings
    if type(module) in _MODULES:
        if type(module.dim) is not int:
            raise NotAChain("softmax without a dimension")
        return settings._replace(dim=module.dim)
    if type(module) in _NORMS:
        if len(module.normalized_shape) != 1:
            raise NotAChain("the norm is over more than the features")
        return Settings(settings.function, settings.dim, module.normalized_shape[0], module.eps)
    if type(module) in (nn.InstanceNorm1d, nn.InstanceNorm2d):
        if any(
            getattr(module, name) is not None for name in ("weight", "bias", "running_mean", "running_var")
        ):
            raise NotAChain("an instance norm with parameters or statistics")
        return settings._replace(eps=module.eps, window=ALL)
    size, stride, padding = (one_size(getattr(module, name)) for name in ("kernel_size", "stride", "padding"))
    dilation = one_size(getattr(module, "dilation", 1))
    if stride != size or padding != 0 or dilation != 1 or module.ceil_mode:
        raise NotAChain("pooling of windows that are not side by side")
    if getattr(module, "return_indices", False):
        raise NotAChain("pooling that returns indices")
    return settings._replace(window=size)


class _Behind(Match):
    """The steps after a function of rows, which are read like those after a norm. owner: the module whose
    parameters the graph reads. has_one_value: whether the function leaves each row one value, which further
    functions of one value do not change. way: the reader of the function's result from which the steps go
    on, where another of them reads that result again, as in y * mish(y); None for the only reader."""

    def __init__(
        self, last: fx.Node, first_input: fx.Node, modules, owner: nn.Module, has_one_value: bool, way=None
    ):
        super().__init__(Product([last], first_input, None), modules)
        self.norm_node, self.owner, self.has_one_value = last, owner, has_one_value
        self.result, self.way = last, way

    def readers(self) -> list[fx.Node]:
        return [self.way] if self.way is not None and self.last is self.result else super().readers()

    @property
    def is_whole(self) -> bool:
        """Whether the steps have all readers of the function's result."""
        own = set(self.nodes)
        return self.last is self.result or all(user in own for user in self.result.users)

    def advance(self):
        user = only_user(self.last)
        if self.has_one_value and user is not None and not self.ones:
            reader = _Reader(self.last, self.modules)
            settings = reader.read_function(user)
            is_same = settings is not None and settings.function in _OF_ONE_VALUE and reader.keeps
            if is_same and settings.dim in (-1, 1):
                self.is_of_matrix = self.is_of_matrix or settings.dim == 1
                self._take(*reader.nodes)
                return
        super().advance()

    def _with_operand(self, what: str, operand) -> list[Step] | None:
        if _dimensions_of(operand, self.owner) > 2:
            return None
        if self.way is not None and operand is self.result and what in ("add", "multiply") and not self.ones:
            return [Step(what, operand=VALUE_AGAIN)]
        steps = super()._with_operand(what, operand)
        # An added tensor tells whether it is whole.
        is_whole = not self.ones and what == "multiply" and operand in self.inputs[1:]
        return [Step(what, operand=self.input(operand))] if steps is None and is_whole else steps


def _dimensions_of(operand, owner: nn.Module) -> int:
    """The number of dimensions of a parameter; 0 for anything else."""
    if not isinstance(operand, fx.Node) or operand.op != "get_attr":
        return 0
    value = operator.attrgetter(operand.target)(owner)
    return value.dim() if isinstance(value, Tensor) else 0


def _given(node: fx.Node, names: tuple[str, ...]) -> dict:
    """The node's arguments by name, except those that are None."""
    return {name: value for name, value in arguments_of(node, names).items() if value is not None}


def _view_of(node: fx.Node | None, name: str) -> bool:
    """Whether the node is v.unsqueeze(1) or v.squeeze(1)."""
    return (
        node is not None
        and node.target in (name, getattr(torch, name))
        and not node.kwargs
        and node.args[1:] in ((1,), (-2,))
    )


class _Reader:
    def __init__(self, last: fx.Node, modules: dict[str, nn.Module]):
        self.value, self.modules = last, modules
        self.nodes: list[fx.Node] = []
        self.module, self.leaves = None, []
        self.keeps, self.of_matrix, self.keeps_sum = True, False, False
        self.weight: fx.Node | None = None
        self.bias: fx.Node | None = None

    def read(self) -> Settings | None:
        user = only_user(self.value)
        if user is None:
            return self._read_norm_beside_others()
        if _view_of(user, "unsqueeze"):
            self.of_matrix = True
            module, self.nodes = only_user(user), [user]
            while _view_of(module, "unsqueeze"):
                self.nodes.append(module)
                module = only_user(module)
            count = len(self.nodes)
            if module is None or module.op != "call_module":
                return None
            if _OF_MAPS.get(type(self.modules[module.target])) != count:
                return None
            settings, end = self._of_module(module), module
            for _ in range(count):
                end = only_user(end)
                if settings is None or not _view_of(end, "squeeze"):
                    return None
                self.nodes.append(end)
            return settings
        if user.op == "call_module":
            return self._of_module(user)
        return self.read_function(user)

    def read_function(self, user: fx.Node) -> Settings | None:
        """The function, if the reader is one."""
        if user.op not in ("call_function", "call_method") or user.all_input_nodes[0] is not self.value:
            return None
        return self._of_function(user)

    def _read_norm_beside_others(self) -> Settings | None:
        """The norm of a value that others read later, as the next block of a transformer does."""
        users, order = list(self.value.users), {node: n for n, node in enumerate(self.value.graph.nodes)}
        norms = [user for user in users if self._is_norm(user)]
        if len(norms) != 1 or any(order[user] < order[norms[0]] for user in users):
            return None
        self.keeps_sum = True
        return (self._of_module if norms[0].op == "call_module" else self._of_norm)(norms[0])

    def _is_norm(self, node: fx.Node) -> bool:
        if node.op == "call_module":
            return type(self.modules[node.target]) in _NORMS
        return node.target in _NORM_FUNCTIONS and node.all_input_nodes[0] is self.value

    def _of_norm(self, node: fx.Node) -> Settings | None:
        if node.target is rms_norm:
            _, self.weight, eps = node.args
            self.nodes.append(node)
            return Settings("rms_norm", window=ALL, eps=eps)
        given = _given(node, ("input", "normalized_shape", "weight", "bias", "eps"))
        if node.target in (F.rms_norm, torch.rms_norm) and len(node.args) > 3:
            return None  # its fourth argument is eps
        size = one_size(given.get("normalized_shape"))
        if set(given) - {"input", "normalized_shape", "weight", "bias", "eps"} or type(size) is not int:
            return None
        function = _NORM_FUNCTIONS[node.target]
        self.nodes.append(node)
        self.weight, self.bias = given.get("weight"), given.get("bias")
        default = 1e-5 if function == "layer_norm" else None
        return Settings(function, window=size, eps=given.get("eps", default))

    def _of_module(self, node: fx.Node) -> Settings | None:
        module = self.modules[node.target]
        cls = type(module)
        function = _MODULES.get(cls) or _POOLS.get(cls) or _NORMS.get(cls)
        function = (
            "layer_norm" if cls in (nn.InstanceNorm1d, nn.InstanceNorm2d) and self.of_matrix else function
        )
        if function is None or len(node.args) != 1 or node.kwargs or not_plain(module, cls):
            return None
        self.module = module
        self.leaves.append((module, cls, False))
        self.nodes.append(node)
        with node.graph.inserting_before(node):
            for name in ("weight", "bias"):
                if cls in _NORMS and getattr(module, name, None) is not None:
                    setattr(self, name, node.graph.create_node("get_attr", f"{node.target}.{name}", (), {}))
        return Settings(function)

    def _of_function(self, node: fx.Node) -> Settings | None:
        if node.target in _OF_EACH_VALUE:
            given = _given(node, ("input", "dim", "_stacklevel" if node.target in _STACKED else "dtype"))
            if set(given) - {"input", "dim", "_stacklevel"} or type(given.get("dim")) is not int:
                return None
            self.nodes.append(node)
            return Settings(_OF_EACH_VALUE[node.target], given["dim"])
        if node.target in _NORM_FUNCTIONS:
            return self._of_norm(node)
        if node.target in _LENGTHS:
            which = _LENGTHS[node.target]
            function, given = "length", _given(node, ("input", which, "dim", "keepdim"))
            if given.pop(which, 2) not in (2, "fro"):
                return None
        else:
            function = _REDUCING.get(node.target) or _WITH_INDICES.get(node.target)
            if function is None:
                return None
            given = _given(node, ("input", "dim", "keepdim"))
        dim, self.keeps = given.get("dim"), given.get("keepdim", False)
        if node.target not in _WITH_INDICES:
            dim = one_size(dim)
        if set(given) - {"input", "dim", "keepdim"} or type(dim) is not int or type(self.keeps) is not bool:
            return None
        self.nodes.append(node)
        if node.target in _WITH_INDICES:
            values = only_user(node)
            taken = (operator.getitem, 0), (getattr, "values")
            if values is None or values.kwargs or (values.target, *values.args[1:]) not in taken:
                return None
            self.nodes.append(values)
        return Settings(function, dim)


def _steps_behind(behind: _Behind, reader: _Reader, before: list[fx.Node], is_reduced: bool):
    """(the longest state with all readers of the function's result, what ended it). before: the nodes up to
    that result."""
    if reader.weight is not None:
        behind.after.append(Step("multiply", operand=behind.input(reader.weight)))
    if reader.bias is not None:
        behind.after.append(Step("add", operand=behind.input(reader.bias)))
    kept = behind.state()
    try:
        if reader.keeps_sum:  # whose readers may stand between the norm and what follows it
            raise Stopped("the sum, which others read too")
        while True:
            behind.advance()
            operands = [s.operand for s in behind.after if s.operand not in (None, VALUE_AGAIN)]
            if is_reduced and not all(is_of_parameters(behind.inputs[number]) for number in operands):
                raise Stopped("an operand that is hardly one value for each row")
            if not reader.keeps and operands:
                raise Stopped("an operand, of a value that has lost a dimension")
            if not behind.is_whole:
                if any(writes(node, behind.modules) for node in behind.nodes[1:]):
                    raise Stopped("an operator in place, of what is read again")
            elif behind.ones == 0:
                if not nothing_between([*before, *behind.nodes[1:]], behind.modules):
                    raise Stopped("what runs between its parts, which may write to what they read")
                kept = behind.state()
    except Stopped as reason:
        return kept, str(reason)


def read_rows(
    last: fx.Node, modules: dict[str, nn.Module], before: list[fx.Node], has_one_value: bool, owner: nn.Module
) -> RowsFound | None:
    """The function of rows that is the only reader of `last`, and the steps after it; None if there is none.
    before: the nodes that will run together with it. has_one_value: whether a row has one value already, so
    that a reduction returns it. owner: the module whose parameters the graph reads."""
    reader = _Reader(last, modules)
    settings = reader.read()
    if settings is None:
        return None
    nodes = list(reader.nodes)
    if has_one_value and settings.function not in _OF_ONE_VALUE:
        return None
    is_reduced = ROW_FUNCTIONS[settings.function].reduces
    gives_one = is_reduced and reader.keeps and reader.module is None
    if not nothing_between([*before, *nodes], modules):
        return None
    result = nodes[-1]
    ways = [*result.users] if is_reduced and len(result.users) > 1 else []
    for way in [*ways, None]:
        behind = _Behind(result, last, modules, owner, gives_one, way)
        kept, ends = _steps_behind(behind, reader, [*before, *nodes], is_reduced)
        if kept.nodes[1:]:
            break
    fixed = []
    if way is not None:
        inside = [modules[node.target] for node in kept.nodes if node.op == "call_module"]
        fixed = [(one, "inplace", False) for one in inside if getattr(one, "inplace", None) is False]
    return RowsFound(
        [*nodes, *kept.nodes[1:]],
        kept.inputs,
        settings,
        reader.module,
        reader.keeps,
        reader.of_matrix or kept.is_of_matrix,
        kept.after,
        [*reader.leaves, *kept.leaves],
        [*kept.fixed, *fixed],
        [kept.describe(node) for node in (*nodes, *kept.nodes[1:])],
        ends,
        reader.keeps_sum,
    )
