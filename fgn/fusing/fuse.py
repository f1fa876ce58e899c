"""fuse() runs each chain of a model as one call; explain() tells for each of the model's Linears whether it
was fused."""

from __future__ import annotations

import copy
import inspect
import threading
import types
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn

from fgn.functional import check_choice
from fgn.fusing.by_torch import function_of
from fgn.fusing.classes import fused_of, is_torchs, plain_class, set_fused, set_plain
from fgn.fusing.graphs import FusedGraph
from fgn.fusing.kept import keep
from fgn.fusing.products import unfold_parametrized
from fgn.fusing.recording import Programs, Recording, is_recording
from fgn.fusing.tracing import Plan, Untraceable, forward_of, is_tensor
from fgn.native import repeated
from fgn.transforms import run_when_compiled

# A module whose settings keep changing is traced at most this many times, and then left to torch.
MOST_PLANS = 16

_tracing = threading.local()


class Verdict(NamedTuple):
    """The verdict on one Linear. module: the path of the module whose forward() calls it. linear: its name in
    that module, or the name of the multiplying function. fused: the steps of the chain, or None. reason: what
    stopped it."""

    module: str
    linear: str
    fused: str | None
    reason: str


class _Traced:
    """A traced forward(): its plan, the chains in its graph, and the function that runs the graph with
    them."""

    def __init__(self, module: nn.Module, forward, options):
        self.plan = Plan(module, forward)
        graph = self.plan.graph
        modules = {
            node.target: module.get_submodule(node.target) for node in graph.nodes if node.op == "call_module"
        }
        self.plan.keep_as_they_are(unfold_parametrized(graph, modules))
        fused = FusedGraph(graph, modules, module, options)
        self.plan.equal += [(owner.__dict__, key, value) for owner, key, value in fused.fixed]
        self.parts = fused.parts
        self.verdicts = [(name, words, reason) for name, words, reason, _ in fused.verdicts]
        self.run = function_of(graph, module) if self.parts else None


class FusedForward:
    """Runs a module's forward() with each chain in it as one call.

    version, precision: as `fgn.chain_forward()`'s; takes_options: whether the module has attributes of these
    names instead. forward: a function that computes what torch computes; None for the forward() of the
    module's class. Copies and pickles have only the module.

    Each instance has its own class and so its own code object, because torch.compile keeps compiled code, and
    counts recompilations, by the code object of the first frame.
    """

    def __new__(cls, *_, **__):
        call = FusedForward.__call__
        own = types.FunctionType(call.__code__.replace(), call.__globals__, call.__name__)
        own_class = type(cls.__name__, (cls,), {"__call__": own, "__module__": cls.__module__})
        return super().__new__(own_class)

    def __reduce_ex__(self, protocol):
        # pickle cannot find its own class by a name.
        return FusedForward.__new__, (FusedForward,), self.__getstate__()

    def __init__(self, module, version=None, precision=None, forward=None, takes_options=False):
        self.module, self.version, self.precision = module, version, precision
        self.forward, self.takes_options = forward, takes_options
        self.traced: list[_Traced] = []
        self.reason: str | None = None
        # Describes the module's calls that no graph of forward() takes.
        self.programs = Programs()

    def __getstate__(self):
        return self.__dict__ | {"traced": [], "reason": None, "programs": Programs()}

    def of(self, module: nn.Module | None) -> FusedForward:
        """The same for a copy of the module, or without a module."""
        other = FusedForward(module, self.version, self.precision, self.forward, self.takes_options)
        if getattr(module, "_is_replica", False):
            # Its parameters are plain attributes, and it lives for one call.
            other.reason = "it is a replica of nn.DataParallel"
            warnings.warn(f"fgn: {type(module).__name__} is left to torch: {other.reason}", stacklevel=4)
        return other

    @property
    def options(self):
        """The object with the version and the precision."""
        return self.module if self.takes_options else self

    @property
    def original(self):
        """The function that computes what torch computes."""
        return forward_of(self.module) if self.forward is None else self.forward

    @property
    def __signature__(self):
        signature = inspect.signature(self.original)
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    @property
    def __code__(self):
        """The code object of the replaced forward(), which torch.export names."""
        return self.original.__code__

    @property
    def __globals__(self):
        raise AttributeError(
            "fgn.fuse: torch.jit.script compiles no fused module: give it the model before it was fused"
        )

    def current(self) -> _Traced | None:
        """The graph of the module as it is now, or None if it is left to torch. It is for torch.jit.trace,
        which then records torch's own operators."""
        if torch.compiler.is_compiling():
            self._plan_ahead()
        elif torch._C._get_tracing_state() is not None:
            return None
        for traced in self.traced:
            if traced.plan.holds():
                return traced
        return self._trace()

    @run_when_compiled
    def _plan_ahead(self) -> bool:
        """Makes the graph before torch.compile needs it, which could not trace the making."""
        return any(traced.plan.holds() for traced in self.traced) or self._trace() is not None

    def _trace(self) -> _Traced | None:
        """A new graph, or None."""
        if self.reason is not None or len(self.traced) >= MOST_PLANS or getattr(_tracing, "on", False):
            return None
        _tracing.on = True
        try:
            traced = _Traced(self.module, self.original, self.options)
        except Untraceable as reason:
            self.reason = str(reason)
            return None
        except Exception as error:  # an error of fgn's own: the model runs on, by torch
            self.reason = f"fgn does not follow it: {error!r}"
            warnings.warn(f"{type(self.module).__name__} is left to torch: {self.reason}", stacklevel=2)
            return None
        finally:
            _tracing.on = False
        self.traced.insert(0, traced)
        return traced

    def __call__(self, *args, **kwargs):
        if is_recording():  # a module inside: its products are promises too
            return self.original(self.module, *args, **kwargs)
        if not kwargs and all(map(is_tensor, args)):
            traced = self.current()
            if traced is not None and traced.run is not None and traced.plan.takes(args):
                return traced.run(*args)
        programs = self.programs
        if torch.is_grad_enabled() or programs.reason is not None or not repeated.is_ordinary():
            return self.original(self.module, *args, **kwargs)
        shapes = tuple([one.shape for one in (*args, *kwargs.values()) if is_tensor(one)])
        if shapes in programs.too_small:
            return self.original(self.module, *args, **kwargs)
        with Recording(self) as recording:
            result = self.original(self.module, *args, **kwargs)
        if not recording.began:
            keep(programs.too_small, shapes, None, MOST_PLANS)
        return result


def _has_products(module: nn.Module) -> bool:
    """Whether promises of the module may gain anything."""
    return any(parameter.dim() > 1 for parameter in module.parameters())


def candidates(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules whose forward() may contain a chain: modules of users, and nn.Sequential."""
    for path, module in model.named_modules():
        cls = plain_class(module)
        if cls is nn.Sequential or not is_torchs(cls.__module__):
            yield path, module


def fuse(
    model: nn.Module, *, inplace: bool = False, version: str | None = None, precision: str | None = None
):
    """The model, with each Linear → [pointwise …] → GroupNorm → [pointwise …] in it as one call, and each
    Linear → pointwise … without a norm. A product of x and a parameter by another function of torch counts as
    a Linear, a LayerNorm over the channels as a GroupNorm, and BatchNorm in evaluation as pointwise. If no
    gradient is wanted, a following softmax, RMSNorm, reduction or pooling over the features is one more
    launch, with the operators around it. Large float32 products without following operators are fgn's on a
    GPU of compute capability 9.0.

    model: any nn.Module. inplace: whether to change the model itself; otherwise a copy is changed, which
    shares the model's parameters and buffers. version, precision: as `fgn.chain_forward()`'s.

    Only the forward() of modules is replaced: names, parameters, hooks and state_dict stay. A fused module
    gets a subclass of its class, of the same name (`fgn.fusing.classes`).
    All settings are read when the model is called. If a part cannot be a chain (`explain()` tells why), torch
    runs it. A forward() that cannot be traced runs as it is, and its products are promises
    (`fgn.fusing.recording`): without gradients, and on a GPU if a product is large enough to pay. TypeError
    if the model is no nn.Module, ValueError for a version or a precision that does not exist.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    check_choice(version, precision)
    if not inplace:
        kept = [*model.parameters(), *model.buffers()]
        # torch does not copy tensors that a module has computed from its parameters, as pruning does; the
        # next call computes them again.
        for module in model.modules():
            kept += [v for v in vars(module).values() if is_tensor(v) and not v.is_leaf]
        model = copy.deepcopy(model, {id(tensor): tensor for tensor in kept})
    modules = [
        module
        for _, module in candidates(model)
        # or the module calls a chain itself, or other code has replaced its forward()
        if not hasattr(module, "fused_forward") and "forward" not in module.__dict__
    ]
    for module in modules:  # a graph notes the classes of all modules inside, so these come first
        set_fused(module, FusedForward(module, version, precision))
    traced = {module: fused_of(module).current() for module in modules}
    # Modules for which promises are made: those not wholly in a graph, and those that call them.
    unread = {module for module, graph in traced.items() if graph is None and _has_products(module)}
    for module, graph in traced.items():
        if not (graph is not None and graph.parts) and unread.isdisjoint(module.modules()):
            set_plain(module)
    return model
