"""The graph of a module's forward(), and what the graph depends on.

torch.fx runs forward() once with stand-ins for tensors and records what it does to them. That run decides
everything else: branches, constants, modules. So these decisions may depend only on what can be compared at
every call: forward() may read plain attributes, training flags and lists of modules, which `Plan` compares,
and may only compute. Before tracing, the bytecode of forward() shows what it reads and does.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import math
import types

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fgn.fusing.classes import is_torchs, plain_class
from fgn.fusing.meanings import FORWARDS, functions_named, has_global_hooks, has_hooks
from fgn.fusing.stand_ins import Tracer, Untraceable

# Bytecode instructions that do more than compute, and their effects.
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
    "LOAD_CLASSDEREF": "reads a variable of another function",
}
_BUILTINS = {
    *("range", "len", "enumerate", "zip", "reversed", "int", "float", "tuple", "list", "abs", "bool"),
    *("any", "all", "min", "max", "sum", "sorted", "map", "super"),
}
# Names by which a function depends on more than its arguments and its module.
_AMBIENT = {
    *("is_grad_enabled", "is_autocast_enabled", "is_compiling", "is_tracing", "item"),
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
# The same, by the beginnings of names. torch.is_tensor() is False for torch.fx's stand-ins.
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
    """Whether the value is a function of torch, such as torch.relu, which may be an attribute of a module."""
    name = getattr(value, "__name__", None)
    return callable(value) and any(value is getattr(home, str(name), None) for home in (torch, F))


class Reads:
    """What a forward() reads: `names` of attributes; `plain`, (dict, name, value) for comparable values;
    `same`, (dict, name, object) for the others; Python `functions` with their code and defaults; Python
    `modules`, which may have `names` as attributes."""

    def __init__(self):
        self.names: set[str] = set()
        self.lines: dict[str, tuple[str, int]] = {}  # where each of them is read first
        self.plain: list[tuple[dict, str, object]] = []
        self.same: list[tuple[dict, str, object]] = []
        self.functions: list[tuple] = []
        self.modules: dict[str, types.ModuleType] = {}
        self._seen: set = set()

    def function(self, function, owner: type | None = None):
        """Adds what the function reads. Raises Untraceable if it does more than compute."""
        code = function.__code__
        defaults, by_name = function.__defaults__, function.__kwdefaults__
        self.functions.append((function, code, defaults, by_name and by_name.copy()))
        if code in self._seen:
            return
        self._seen.add(code)
        if not all(map(_is_plain, (*(defaults or ()), *(by_name or {}).values()))):
            raise Untraceable(f"{function.__qualname__} has a default that is no plain value")
        calls_super = "__class__" in code.co_freevars
        if set(code.co_freevars) - {"__class__"} or (calls_super and owner is None):
            raise Untraceable(f"{function.__qualname__} reads a variable of another function")
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise Untraceable(f"{function.__qualname__} is a generator")
        for instruction in dis.get_instructions(code):
            line = code.co_filename, instruction.positions.lineno
            try:
                self._instruction(instruction, function, owner, calls_super)
            except Untraceable as reason:
                raise reason.at(*line) from None
            for name in self.names - self.lines.keys():
                self.lines[name] = line

    def _instruction(self, instruction, function, owner: type | None, calls_super: bool):
        if instruction.opname in _EFFECTS:
            raise Untraceable(f"{function.__qualname__} {_EFFECTS[instruction.opname]}")
        if instruction.opname == "LOAD_GLOBAL":
            self._global(function, instruction.argval)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            name = instruction.argval
            if name in _AMBIENT or name.startswith(_AMBIENT_STARTS):
                raise Untraceable(f"{function.__qualname__} reads {name}")
            self.names.add(name)
            self._method(owner, name)
            if calls_super:
                self._methods_of_parents(owner, name)

    def _global(self, function, name: str):
        if name not in function.__globals__:
            value = getattr(builtins, name, None)
            is_error = isinstance(value, type) and issubclass(value, Exception)  # to raise it
            if name not in _BUILTINS and not is_error:
                raise Untraceable(f"{function.__qualname__} calls {name}()")
            self.same += [
                (function.__globals__, name, ABSENT),
                (vars(builtins), name, value),
            ]
            return
        value = function.__globals__[name]
        if _is_plain(value):
            self.plain.append((function.__globals__, name, value))
            return
        self.same.append((function.__globals__, name, value))
        if isinstance(value, types.ModuleType):
            if value is not math and not is_torchs(value.__name__):
                raise Untraceable(f"{function.__qualname__} uses the module {value.__name__}")
            self.modules[value.__name__] = value
        elif isinstance(value, types.FunctionType) and not is_torchs(value.__module__):
            self.function(value)
        else:
            home = getattr(value, "__module__", None)
            if home not in ("math", "_operator") and not is_torchs(home):
                raise Untraceable(f"{function.__qualname__} uses {name}, a {type(value).__name__}")

    def of_modules(self):
        """Adds the values of `names` in Python's modules, such as math.pi and torch.special.erf, and among
        the functions' attributes."""
        left = list(self.modules.values())
        while left:
            home = vars(left.pop())
            for name in self.names & home.keys():
                value = home[name]
                self.same.append((home, name, value))
                if isinstance(value, types.ModuleType) and value.__name__ not in self.modules:
                    self.modules[value.__name__] = value
                    left.append(value)
        for function, *_ in self.functions:
            for name in self.names & vars(function).keys():
                value = vars(function)[name]
                if not _is_plain(value):
                    raise Untraceable(
                        f"forward reads {function.__qualname__}.{name}, a {type(value).__name__}"
                    )
                self.plain.append((vars(function), name, value))

    def attribute(self, owner: nn.Module, name: str, is_own: bool):
        """Adds the attribute of the module or of an inner module, if it has one of that name.

        Raises Untraceable for a value that cannot be compared at the next call.
        """
        if not is_own:
            self._method(_class_with(owner, name), name)
        *before, last = _homes(owner, name) or [None]
        if last is None:
            if hasattr(_class_with(owner, name), name):  # torch's own, unless something is put before it
                self.same.append((owner.__dict__, name, ABSENT))
            return
        value = last[name]
        if _is_plain(value):
            self.plain.append((last, name, value))
        elif not before and _is_function_of_torch(value):
            self.same.append((last, name, value))
        elif isinstance(value, (types.FunctionType, property)):
            self.same.append((last, name, value))
            if not before and isinstance(value, types.FunctionType):
                if not is_own:
                    raise Untraceable(f"{type(owner).__name__}.{name} is replaced in a module inside it")
                self.function(value)
        else:
            raise Untraceable(f"forward reads {type(owner).__name__}.{name}, a {type(value).__name__}")
        # What Python would find instead, if it existed.
        self.same += [(where, name, ABSENT) for where in before]

    def _method(self, owner: type | None, name: str):
        """Adds a method or property of the module's class that forward() names."""
        found = inspect.getattr_static(owner, name, None) if owner else None
        if isinstance(found, types.FunctionType) and not is_torchs(found.__module__):
            self.function(found, owner)
        elif isinstance(found, (property, classmethod, staticmethod)) and name not in nn.Module.__dict__:
            raise Untraceable(f"{owner.__name__}.{name} is a {type(found).__name__}")

    def _methods_of_parents(self, owner: type, name: str):
        """Adds what super() may find under the name: every class of the module is searched."""
        for cls in owner.__mro__[: owner.__mro__.index(nn.Module)]:
            found = vars(cls).get(name, ABSENT)
            self.same.append((vars(cls), name, found))
            if isinstance(found, types.FunctionType):
                self.function(found, owner)
            elif found is not ABSENT and not _is_plain(found):
                raise Untraceable(f"{owner.__name__}.{name} is a {type(found).__name__}")


def reads_of(module: nn.Module, forward) -> Reads:
    """What the module's forward() reads. Raises Untraceable if it does more than compute."""
    reads = Reads()
    if plain_class(module) is nn.Sequential and forward is FORWARDS[nn.Sequential]:
        return reads
    if not isinstance(forward, types.FunctionType):
        raise Untraceable(f"{type(module).__name__}.forward is no Python function")
    reads.function(forward, plain_class(module))
    # forward() may read attributes of any inner module: a name is looked up in all of them. Methods found
    # there read names too.
    inside, looked_up = list(module.modules()), set()
    while names := sorted(reads.names - looked_up):
        looked_up.update(names)
        for owner in inside:
            for name in names:
                try:
                    reads.attribute(owner, name, is_own=owner is module)
                except Untraceable as reason:
                    raise reason.at(*reads.lines[name]) from None
    reads.of_modules()
    return reads


def _class_with(module: nn.Module, name: str) -> type:
    """The class in which the name is looked up; forward() is the fused one."""
    return plain_class(module) if name == "forward" else type(module)


def _homes(module: nn.Module, name: str) -> list[dict]:
    """Where Python looks for the module's attribute: the dicts of the module and of its classes outside
    torch, up to the first with the name; empty if none has it."""
    classes = _class_with(module, name).__mro__
    homes = [module.__dict__]
    homes += [cls.__dict__ for cls in classes if not is_torchs(cls.__module__)]
    for count, where in enumerate(homes, 1):
        if name in where:
            return homes[:count]
    return []


class _Leaves:
    """The modules that a graph calls, and what the forward() of the other modules reads."""

    def __init__(self):
        self.inlined: dict[nn.Module, Reads] = {}

    def has(self, module: nn.Module) -> bool:
        cls = plain_class(module)
        if is_torchs(cls.__module__) and cls is not nn.Sequential:
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
    """The graph of a module's forward(), and everything that must stay unchanged for it to be valid."""

    def __init__(self, module: nn.Module, forward):
        """Raises Untraceable if forward() depends on something that cannot be compared."""
        names, defaults = _arguments(forward)
        self.count = len(names)
        reads = reads_of(module, forward)
        leaves = _Leaves()
        tracer = Tracer(leaves.has)
        try:
            self.graph = tracer.graph_of(module, forward, names, defaults)
        except Untraceable:
            raise
        except Exception as error:
            raise Untraceable(f"torch.fx: {str(error).splitlines()[0] if str(error) else error!r}") from None
        # The arguments that must have two dimensions.
        places = [node.name for node in self.graph.nodes if node.op == "placeholder"]
        self.matrices = [places.index(name) for name in tracer.matrices]
        inlined = {module: reads, **leaves.inlined}
        # (a dict, a key, its value or ABSENT): modules in their places, functions, plain values.
        self.same: list[tuple[dict, str, object]] = []
        self.equal: list[tuple[dict, str, object]] = []
        self.functions: list[tuple] = []
        for owner, read in inlined.items():
            self.same += [(owner._modules, name, child) for name, child in owner._modules.items()]
            self.same += [(owner.__dict__, "_modules", owner._modules), *read.same]
            self.equal += [(owner.__dict__, "training", owner.training), *read.plain]
            self.functions += read.functions
        # The classes and their forward(), which other code may replace.
        owners = set(inlined) if forward is plain_class(module).forward else set(leaves.inlined)
        self.forwards = [_as_it_is(cls) for cls in set(map(plain_class, owners))]
        self.counts = [(owner._modules, len(owner._modules)) for owner in inlined]
        # The inner modules whose call is not in the graph, so that no hook sees it.
        self.has_global_hooks = has_global_hooks()
        self.types: list[tuple[nn.Module, type]] = []
        self.hooked: list[nn.Module] = []
        self._keep_calls(owner for owner in inlined if owner is not module)
        self._add_paths(module)
        self._add_containers(module, set().union(*(read.names for read in inlined.values())))
        self._keep_once()

    def _keep_once(self):
        def once(guards):
            return list({(id(where), name): (where, name, value) for where, name, value in guards}.values())

        self.same, self.equal = once(self.same), once(self.equal)
        self.functions = list(
            {id(function): (function, *rest) for function, *rest in self.functions}.values()
        )

    def _keep_calls(self, modules):
        """Adds modules whose call the graph has inlined."""
        for module in modules:
            self.types.append((module, type(module)))
            self.same.append((module.__dict__, "forward", ABSENT))
            self.hooked.append(module)

    def _add_paths(self, module: nn.Module):
        """Adds every module on the path to a called module or a read attribute."""
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
        """Adds the contents of the containers that forward() names: the graph has unrolled loops over
        them."""
        for owner in module.modules():
            for name, child in owner._modules.items():
                if isinstance(child, _CONTAINERS) and (name in names or isinstance(owner, _CONTAINERS)):
                    self.same += [(child._modules, key, part) for key, part in child._modules.items()]
                    self.counts += [(child._modules, len(child._modules))]
                    self.counts += [(child._parameters, len(child._parameters))]

    def keep_as_they_are(self, linears: list[nn.Module]):
        """Adds Linears whose call the graph has inlined."""
        self._keep_calls(linears)
        if linears:
            self.forwards.append(_as_it_is(nn.Linear))
            self.same += functions_named(("linear",))

    def takes(self, args: tuple[Tensor, ...]) -> bool:
        """Whether the graph is one for these arguments."""
        if len(args) != self.count:
            return False
        return not self.matrices or all([args[place].dim() == 2 for place in self.matrices])

    def holds(self) -> bool:
        """Whether everything is unchanged since the graph was made."""
        for where, name, value in self.same:
            if where.get(name, ABSENT) is not value:
                return False
        for where, name, value in self.equal:
            if where.get(name, ABSENT) != value:
                return False
        for cls, forward, call, order in self.forwards:
            if cls.forward is not forward or cls.__call__ is not call or cls.__mro__ != order:
                return False
        for function, code, defaults, by_name in self.functions:
            if function.__code__ is not code or not (
                function.__defaults__ == defaults and function.__kwdefaults__ == by_name
            ):
                return False
        for module in self.hooked:
            if has_hooks(module):
                return False
        for where, count in self.counts:
            if len(where) != count:
                return False
        for module, cls in self.types:
            if type(module) is not cls:
                return False
        return has_global_hooks() is self.has_global_hooks


def _as_it_is(cls: type) -> tuple:
    """The class, what a call of its modules runs, and the classes in which names are looked up."""
    return cls, cls.forward, cls.__call__, cls.__mro__


def _arguments(forward) -> tuple[list[str], dict]:
    """The names of the arguments without a default, which are tensors, and the others' defaults. Calls with
    further arguments (*args, **kwargs) use no graph."""
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    parameters = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
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
