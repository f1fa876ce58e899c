"""The graph of a module's forward(), and what the graph depends on.

torch.fx runs forward() once with stand-ins for tensors and records what forward() does to them. Everything
else is decided in that one run: which branch, which constants, which modules. So these decisions may depend
only on what can be compared at every call: forward() may read plain attributes, flags of training and lists
of modules, which `Plan` compares, and may do nothing but compute. The bytecode of forward() shows, before it
is traced, what it reads and does.
"""

from __future__ import annotations

import dis
import inspect
import math
import types

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode

from fgn.fusing.classes import plain_class
from fgn.fusing.meanings import FORWARDS, IN_PLACE, functions_named, has_global_hooks, has_hooks


class Untraceable(Exception):
    """Raised with the reason why a forward() is left as it is."""


# Instructions of the bytecode that do more than compute, and what they do.
_EFFECTS = {
    "STORE_ATTR": "sets an attribute",
    "DELETE_ATTR": "deletes an attribute",
    "STORE_GLOBAL": "sets a global variable",
    "DELETE_GLOBAL": "deletes a global variable",
    "STORE_SUBSCR": "writes to an element",
    "STORE_SLICE": "writes to a slice",
    "DELETE_SUBSCR": "deletes an element",
    "STORE_DEREF": "has a function in it",
    "MAKE_FUNCTION": "has a function in it",
    "IMPORT_NAME": "imports a module",
    "YIELD_VALUE": "is a generator",
    "BEFORE_WITH": "has a with statement",
    "BEFORE_ASYNC_WITH": "has a with statement",
    "PUSH_EXC_INFO": "has a try statement",
    "LOAD_BUILD_CLASS": "defines a class",
    "LOAD_SUPER_ATTR": "calls super()",
    "LOAD_CLASSDEREF": "reads a variable of another function",
}
_BUILTINS = {"range", "len", "enumerate", "zip", "reversed", "int", "float", "tuple", "list", "abs", "bool"}
# Names by which a function asks about something besides its arguments and its module.
_AMBIENT = {
    *("is_grad_enabled", "is_autocast_enabled", "is_compiling", "is_scripting", "is_tracing", "item"),
    *(
        "tolist",
        "numpy",
        "get_default_dtype",
        "named_parameters",
        "named_modules",
        "data",
        "grad",
        "__dict__",
    ),
    *("register_buffer", "register_parameter", "add_module", "seed", "append", "pop", "insert", "extend"),
    *("update", "requires_grad", "is_leaf", "grad_fn", "_version", "data_ptr"),
}
# The same, by the beginnings of names. torch.is_tensor() says False of torch.fx's stand-ins.
_AMBIENT_STARTS = (
    *("is_autocast", "get_autocast", "get_default", "is_deterministic", "are_deterministic", "is_tensor"),
    *("is_inference", "is_initialized", "is_anomaly", "get_rank", "get_world_size", "get_float32"),
    *("get_num_", "get_rng", "initial_seed", "backends"),
)
PLAIN = (int, float, bool, str, type(None))
ABSENT = object()  # stands for a value where none may be


def _is_plain(value) -> bool:
    """Whether the value can be compared with a later one, and cannot change in place."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, (*PLAIN, torch.dtype, torch.device))


def _is_function_of_torch(value) -> bool:
    """Whether the value is a function of torch, such as torch.relu, as an attribute of a module may be."""
    name = getattr(value, "__name__", None)
    return callable(value) and any(value is getattr(home, str(name), None) for home in (torch, F))


class Reads:
    """What a forward() reads: `names` of attributes; `globals`, (dict, name, value) of what is there now."""

    def __init__(self):
        self.names: set[str] = set()
        self.globals: list[tuple[dict, str, object]] = []
        self._seen: set = set()

    def function(self, function, owner: type | None = None):
        """Adds what the function reads. Untraceable where it does more than compute."""
        code = function.__code__
        if code in self._seen:
            return
        self._seen.add(code)
        if "__class__" in code.co_freevars:
            raise Untraceable(f"{function.__qualname__} calls super()")
        if code.co_freevars:
            raise Untraceable(f"{function.__qualname__} reads a variable of another function")
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise Untraceable(f"{function.__qualname__} is a generator")
        for instruction in dis.get_instructions(code):
            if instruction.opname in _EFFECTS:
                raise Untraceable(f"{function.__qualname__} {_EFFECTS[instruction.opname]}")
            if instruction.opname == "LOAD_GLOBAL":
                self._global(function, instruction.argval)
            elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                name = instruction.argval
                if name in _AMBIENT or name.startswith(_AMBIENT_STARTS):
                    raise Untraceable(f"{function.__qualname__} reads {name}")
                self.names.add(name)
                self._method(owner, name)

    def _global(self, function, name: str):
        if name not in function.__globals__:
            if name not in _BUILTINS:
                raise Untraceable(f"{function.__qualname__} calls {name}()")
            return
        value = function.__globals__[name]
        if isinstance(value, PLAIN):
            self.globals.append((function.__globals__, name, value))
        elif isinstance(value, types.ModuleType):
            if value not in (torch, F, nn, math) and not value.__name__.startswith("torch"):
                raise Untraceable(f"{function.__qualname__} uses the module {value.__name__}")
        elif isinstance(value, types.FunctionType) and not (value.__module__ or "").startswith("torch"):
            self.globals.append((function.__globals__, name, value))
            self.function(value)
        elif not (getattr(value, "__module__", None) or "").startswith(("torch", "math", "_operator")):
            raise Untraceable(f"{function.__qualname__} uses {name}, a {type(value).__name__}")

    def attribute(self, owner: nn.Module, name: str, is_own: bool):
        """Adds the attribute of the module or of a module inside it, where it has one of that name.

        Untraceable where it is a value that cannot be compared at the next call.
        """
        if not is_own:
            self._method(_class_with(owner, name), name)
        *before, last = _homes(owner, name) or [None]
        if last is None:
            if hasattr(_class_with(owner, name), name):  # torch's own, unless something is put before it
                self.globals.append((owner.__dict__, name, ABSENT))
            return
        value = last[name]
        if (
            _is_plain(value)
            or isinstance(value, (torch.dtype, torch.device))
            or (not before and _is_function_of_torch(value))
        ):
            self.globals.append((last, name, value))
        elif not before and isinstance(value, types.FunctionType):
            if not is_own:
                raise Untraceable(f"{type(owner).__name__}.{name} is replaced in a module inside it")
            self.globals.append((last, name, value))
            self.function(value)
        elif not isinstance(value, (types.FunctionType, property)):
            raise Untraceable(f"forward reads {type(owner).__name__}.{name}, a {type(value).__name__}")
        # What Python would find instead, if it were there.
        self.globals += [(where, name, ABSENT) for where in before]

    def _method(self, owner: type | None, name: str):
        """Adds a method or property of the module's class that forward() names."""
        found = inspect.getattr_static(owner, name, None) if owner else None
        if isinstance(found, types.FunctionType) and not (found.__module__ or "").startswith("torch."):
            self.function(found, owner)
        elif isinstance(found, (property, classmethod, staticmethod)) and name not in nn.Module.__dict__:
            raise Untraceable(f"{owner.__name__}.{name} is a {type(found).__name__}")


def reads_of(module: nn.Module, forward) -> Reads:
    """What the module's forward() reads. Untraceable where it does more than compute."""
    reads = Reads()
    if plain_class(module) is nn.Sequential and forward is FORWARDS[nn.Sequential]:
        return reads
    if not isinstance(forward, types.FunctionType):
        raise Untraceable(f"{type(module).__name__}.forward is no Python function")
    reads.function(forward, plain_class(module))
    # forward() may read the attribute of any module inside: a name is looked up in all of them. The methods
    # that it finds read names too.
    inside, looked_up = list(module.modules()), set()
    while names := sorted(reads.names - looked_up):
        looked_up.update(names)
        for owner in inside:
            for name in names:
                reads.attribute(owner, name, is_own=owner is module)
    return reads


def _class_with(module: nn.Module, name: str) -> type:
    """The class in which the name is looked up: forward() is the one that is fused."""
    return plain_class(module) if name == "forward" else type(module)


def _homes(module: nn.Module, name: str) -> list[dict]:
    """Where Python looks for the module's attribute: the dicts of the module and of its classes that are not
    torch's, up to the first that has the name; none where no such dict has it."""
    classes = _class_with(module, name).__mro__
    homes = [module.__dict__]
    homes += [cls.__dict__ for cls in classes if not (cls.__module__ or "").startswith("torch.")]
    for count, where in enumerate(homes, 1):
        if name in where:
            return homes[:count]
    return []


class _NothingRuns(TorchFunctionMode):
    """Refuses operators that torch would run while the graph is made: their result would be a constant from
    then on."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if any(issubclass(kind, fx.Proxy) for kind in types):
            return function(*args, **(kwargs or {}))
        raise Untraceable(f"{getattr(function, '__name__', function)}() does not depend on the input")


class _Proxy(fx.Proxy):
    """A value of the graph that refuses `v += w`. torch.fx would take that for `v = v + w`, but other names
    may share v's memory."""


for _operator in IN_PLACE:

    def _in_place(self, other, _operator=_operator):
        return self.tracer.create_proxy("call_function", _operator, (self, other), {})

    setattr(_Proxy, f"__{_operator.__name__}__", _in_place)


class _Input(_Proxy):
    """An argument of forward(), of which a graph that asks for the number of its dimensions is the one for
    (batch, features)."""

    def dim(self) -> int:
        self.tracer.matrices.add(self.node.name)
        return 2

    ndimension = dim
    ndim = property(dim)


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def __init__(self, forward, names: list[str], defaults: dict):
        super().__init__()
        self.forward, self.names, self.defaults = forward, names, defaults
        self.inlined: dict[nn.Module, Reads] = {}
        self.matrices: set[str] = set()

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        nodes = [self.create_node("placeholder", name, (), {}) for name in self.names]
        args = [self.root, *(_Input(node, self) for node in nodes)]

        def forward(*values):
            with _NothingRuns():
                return self.forward(*values, **self.defaults)

        return forward, args

    def is_leaf_module(self, module, qualified_name):
        cls = plain_class(module)
        if cls.__module__.startswith("torch.") and cls is not nn.Sequential:
            return True
        if has_hooks(module) or has_global_hooks() or type(module).__call__ is not nn.Module.__call__:
            return True
        if "forward" in module.__dict__:
            return True  # somebody has replaced it
        try:
            self.inlined[module] = reads_of(module, cls.forward)
        except Untraceable:
            return True
        return False


_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.Sequential, nn.ParameterList, nn.ParameterDict)


class Plan:
    """The graph of a module's forward(), and everything that must be unchanged for the graph to hold."""

    def __init__(self, module: nn.Module, forward):
        """Untraceable where forward() depends on something that cannot be compared."""
        names, defaults = _arguments(forward)
        self.count = len(names)
        reads = reads_of(module, forward)
        tracer = _Tracer(forward, names, defaults)
        try:
            self.graph = tracer.trace(module)
        except Untraceable:
            raise
        except Exception as error:
            raise Untraceable(f"torch.fx: {str(error).splitlines()[0] if str(error) else error!r}") from None
        # Which of the arguments have to have two dimensions.
        places = [node.name for node in self.graph.nodes if node.op == "placeholder"]
        self.matrices = [places.index(name) for name in tracer.matrices]
        inlined = {module: reads, **tracer.inlined}
        # (a dict, a key, what is there): the modules in their places, and plain attributes. absent: keys.
        self.same: list[tuple[dict, str, object]] = []
        self.equal: list[tuple[dict, str, object]] = []
        self.absent: list[tuple[dict, str]] = []
        for owner, read in inlined.items():
            self.same += [(owner._modules, name, child) for name, child in owner._modules.items()]
            self.same.append((owner.__dict__, "_modules", owner._modules))
            self.equal.append((owner.__dict__, "training", owner.training))
            self.equal += [one for one in read.globals if one[2] is not ABSENT]
            self.absent += [(where, name) for where, name, value in read.globals if value is ABSENT]
        # The classes and their forward(), which somebody may replace.
        owners = set(inlined) if forward is plain_class(module).forward else set(tracer.inlined)
        self.forwards = [(cls, cls.forward) for cls in map(plain_class, owners)]
        self.counts = [(owner._modules, len(owner._modules)) for owner in inlined]
        # The modules inside whose call is not in the graph, where no hook sees it.
        self.has_global_hooks = has_global_hooks()
        self.hooked = [owner for owner in inlined if owner is not module]
        self.absent += [(owner.__dict__, "forward") for owner in self.hooked]
        self.types: list[tuple[nn.Module, type]] = []
        self._add_paths(module)
        names = set().union(*(read.names for read in inlined.values()))
        self._add_containers(module, names)
        self.same += functions_named(names)
        self.same = list(
            {(id(where), name): (where, name, value) for where, name, value in self.same}.values()
        )

    def _add_paths(self, module: nn.Module):
        """Adds every module on the path to what the graph calls or reads."""
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                owner = module
                for name in node.target.split("."):
                    child = owner._modules.get(name)
                    if child is None:
                        break  # a parameter
                    self.same.append((owner._modules, name, child))
                    owner = child

    def _add_containers(self, module: nn.Module, names: set[str]):
        """Adds the contents of the containers that forward() names: the graph has fixed how often forward()
        loops over them."""
        for owner in module.modules():
            for name, child in owner._modules.items():
                if isinstance(child, _CONTAINERS) and (name in names or isinstance(owner, _CONTAINERS)):
                    self.same += [(child._modules, key, part) for key, part in child._modules.items()]
                    self.counts += [(child._modules, len(child._modules))]
                    self.counts += [(child._parameters, len(child._parameters))]

    def keep_as_they_are(self, linears: list[nn.Module]):
        """Adds Linears of which the graph has taken the call apart."""
        self.types += [(linear, type(linear)) for linear in linears]
        self.absent += [(linear.__dict__, "forward") for linear in linears]
        self.hooked += linears
        if linears:
            self.forwards.append((nn.Linear, nn.Linear.forward))
            self.same += functions_named(("linear",))

    def takes(self, args: tuple[Tensor, ...]) -> bool:
        """Whether the graph is one for these arguments."""
        return len(args) == self.count and all(args[place].dim() == 2 for place in self.matrices)

    def holds(self) -> bool:
        """Whether everything is still as it was when the graph was made."""
        if has_global_hooks() is not self.has_global_hooks:
            return False
        for where, name, value in self.same:
            if where.get(name) is not value:
                return False
        for where, name, value in self.equal:
            if where.get(name, ABSENT) != value:
                return False
        for where, name in self.absent:
            if name in where:
                return False
        for cls, forward in self.forwards:
            if cls.forward is not forward:
                return False
        for where, count in self.counts:
            if len(where) != count:
                return False
        for module, cls in self.types:
            if type(module) is not cls:
                return False
        return not any(has_hooks(owner) for owner in self.hooked)


def _arguments(forward) -> tuple[list[str], dict]:
    """The names of the arguments without a default, which are tensors, and the defaults of the others."""
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        raise Untraceable("forward() takes any number of arguments")
    names = [p.name for p in parameters if p.default is p.empty]
    if any(p.kind is p.KEYWORD_ONLY for p in parameters if p.default is p.empty):
        raise Untraceable("forward() takes an argument by keyword only")
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    if not all(isinstance(value, PLAIN) for value in defaults.values()):
        raise Untraceable("forward() has a default that is no plain value")
    return names, defaults


def forward_of(module: nn.Module):
    """The forward() of the module's class."""
    return plain_class(module).forward


def is_tensor(value) -> bool:
    return isinstance(value, Tensor)
