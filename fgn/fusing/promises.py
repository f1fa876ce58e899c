"""Fuses a model whose forward() cannot be traced: the user's own forward() runs, and a product in it is a
promise.

While such a forward() runs, a mode of `__torch_function__` sees each function of torch that this thread
calls. The result of a product is a `Promise`, a tensor that has a shape and no numbers yet, and so is what
functions of the list below make of one. Anything else settles all promises first: they are one small graph,
in which chains become parts (`fgn.fusing.graphs`), as in a traced one, and from then on they are ordinary
tensors. The graph depends on nothing but the calls that were seen, so it cannot be stale; it is kept, and the
next calls that are alike find it by following `State.next` from one to the other.

A value that nobody holds any more when the promises are settled is not written: whether the sum before a norm
is read again is so known without looking ahead.

Promises cost the host more than torch's operators do, so calls too small to pay are left to torch. They are
made only where no gradient is wanted.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from weakref import getweakrefs

import torch
import torch.nn.functional as F
from torch import Tensor, fx
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from fgn.fusing.by_torch import function_of
from fgn.fusing.finding import GROUP_NORMS, LAYER_NORMS
from fgn.fusing.graphs import FusedGraph
from fgn.fusing.kept import keep
from fgn.fusing.meanings import BINARY, CLAMP_ONE_SIDED, FUNCTIONS, GELU, METHODS, POWER, RELU6
from fgn.fusing.products import ADDED_PRODUCTS, DTYPE, IS_PARAMETER, MATRIX_PRODUCTS, PRODUCTS
from fgn.fusing.rewriting import ALIKE, CASTS, DIMENSIONS, RECIPROCAL_ROOTS, rewrite, with_rows
from fgn.fusing.row_functions import FUNCTIONS_OF_ROWS
from fgn.fusing.stand_ins import PLACE, place_of_caller
from fgn.native import repeated
from fgn.native.repeated import ORDINARY_TENSORS
from fgn.precision import resolve

# Graphs of one model: one whose constants change at every call would otherwise make one for each.
MOST_STATES = 4096
MOST_SHAPES = 256

# ------------------------------------------------------------------------------------------------------------
# What is promised


def _listed() -> dict[Callable, tuple[str, object]]:
    """What `__torch_function__` is given, and what that is in a graph. All compute and write to nothing."""
    listed = {}
    named = (*METHODS, *BINARY, *CLAMP_ONE_SIDED, *POWER, *FUNCTIONS_OF_ROWS, *PRODUCTS, *MATRIX_PRODUCTS)
    for name in (*named, *ADDED_PRODUCTS, *CASTS, *RECIPROCAL_ROOTS):
        method = getattr(Tensor, name, None) if isinstance(name, str) else None
        if method is not None and not (name.endswith("_") and not name.endswith("__")):
            listed[method] = ("call_method", name)
    functions = (*FUNCTIONS, *BINARY, *CLAMP_ONE_SIDED, *POWER, *GELU, *RELU6, *FUNCTIONS_OF_ROWS)
    functions = (*functions, *GROUP_NORMS, *LAYER_NORMS, *PRODUCTS, *MATRIX_PRODUCTS, *ADDED_PRODUCTS)
    for function in (*functions, *RECIPROCAL_ROOTS, F.prelu, F.dropout):
        home = getattr(function, "__module__", None) or ""
        is_torchs = callable(function) and home not in ("builtins", "_operator", "math")
        if is_torchs and not getattr(function, "__name__", "").endswith("_"):
            listed[function] = ("call_function", function)
    listed[with_rows] = ("call_function", with_rows)
    return listed | {F.linear: ("call_function", F.linear)}


LISTED = _listed()
# Products: the places of x and of the weight among the arguments.
_PLACES = {
    function: (0, 1) for function, (_, name) in LISTED.items() if name in (*PRODUCTS, *MATRIX_PRODUCTS)
}
_PLACES |= {function: (1, 2) for function, (_, name) in LISTED.items() if name in ADDED_PRODUCTS}
_PLACES[F.linear] = (0, 1)

_VIEWS = (Tensor.view, Tensor.reshape, torch.reshape)

# What is known of a promise without its numbers.
_FACTS = frozenset(
    vars(torch._C.TensorBase)[name]
    for name in ("shape", "dtype", "device", "ndim", "requires_grad", "layout")
)
_FACTS_BY_METHOD = frozenset(
    getattr(Tensor, name) for name in ("size", "dim", "numel", "is_floating_point", "element_size")
)
_GETTER = type(Tensor.shape.__get__)


def _asks_for_a_fact(function, args) -> bool:
    if type(function) is _GETTER:
        is_of_promise = type(args[0]) is Promise
        return function.__name__ == "__get__" and (not is_of_promise or function.__self__ in _FACTS)
    return function in _FACTS_BY_METHOD


_stream_of = torch._C._cuda_getCurrentRawStream if torch.cuda.is_available() else None


class Promise(Tensor):
    """A result that has not been computed. recording: of which it is one, the `number`-th. meta: a tensor of
    its shape and dtype. value: its numbers once they are there, where the object itself could not become an
    ordinary tensor."""

    @staticmethod
    def __new__(cls, recording: Recording, number: int, meta: Tensor):
        made = Tensor._make_wrapper_subclass(cls, meta.shape, dtype=meta.dtype, device=recording.device)
        made.recording, made.number, made.meta, made.value = recording, number, meta, None
        return made

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        """Where no mode sees the call: in another thread, or for an object that stayed a promise."""
        if _asks_for_a_fact(function, args):
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
        return _with_numbers(function, args, kwargs)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        """Where code in C++ was given the promise."""
        return _with_numbers(function, args, kwargs)


def _with_numbers(function, args, kwargs):
    args, kwargs = _pytree.tree_map_only(Promise, _numbers, (args, kwargs or {}))
    return function(*args, **kwargs)


def _numbers(promise: Promise) -> Tensor:
    promise.recording.settle()
    if type(promise) is not Promise:
        return promise
    if promise.value is None:
        raise RuntimeError("fgn.fuse: a result is read that nobody held when it could be computed")
    return promise.value


# ------------------------------------------------------------------------------------------------------------
# Graphs


class Run(NamedTuple):
    """A graph with its chains. run: a function of its inputs, which returns the values that somebody holds.
    products: (number of the input that is its weight, name, steps or None, what stopped it). alone: such
    numbers of products that are torch's."""

    run: Callable
    products: list[tuple[int, str, str | None, str]]
    alone: list[int]


class State:
    """The calls that were seen up to one of them. call: its (op, target), arguments and names of arguments by
    their descriptions. next: the states behind it. shapes: of the result, by those of its arguments. runs:
    by which of the values are held."""

    __slots__ = ("before", "call", "next", "place", "runs", "shapes")

    def __init__(self, before: State | None = None, call=None, place: str | None = None):
        self.before, self.call, self.place = before, call, place
        self.next: dict = {}
        self.shapes: dict = {}
        self.runs: dict[tuple, Run] = {}


class Programs:
    """The graphs of one model."""

    def __init__(self):
        self.root, self.count = State(), 0

    def behind(self, state: State, call) -> State | None:
        """The state after one more call; None where there are too many."""
        found = state.next.get(call)
        if found is None:
            if self.count >= MOST_STATES:
                return None
            self.count += 1
            found = state.next.setdefault(call, State(state, call, place_of_caller()))
        return found

    def run(self, state: State, held: tuple[int, ...], owner, options) -> Run:
        """The graph that ends with the state, and returns the values of the numbers in `held`."""
        found = state.runs.get(held)
        if found is None:
            found = state.runs[held] = _made(state, held, owner, options)
        return found


def _made(state: State, held: tuple[int, ...], owner, options) -> Run:
    states = []
    while state.before is not None:
        states.insert(0, state)
        state = state.before
    graph = fx.Graph()
    inputs: dict[int, fx.Node] = {}
    described = [one for state in states for one in (*state.call[1], *(v for _, v in state.call[2]))]
    read = {one for one in described if one[0] in ("tensor", "sizes")}
    for _, number, *facts in sorted(read, key=operator.itemgetter(1)):
        inputs[number] = node = graph.placeholder(f"input_{number}")
        if facts:
            is_parameter, node.meta[DIMENSIONS], node.meta[DTYPE] = facts
            node.meta |= {IS_PARAMETER: True} if is_parameter else {}
    nodes = []
    known = {"promise": nodes, "tensor": inputs, "sizes": inputs}

    def value_of(one):
        kind, value, *_ = one
        return known[kind][value] if kind in known else value

    for state in states:
        (op, target), args, kwargs, are_alike = state.call
        args = tuple(map(value_of, args))
        nodes.append(graph.create_node(op, target, args, {name: value_of(one) for name, one in kwargs}))
        like = next(meta for meta in state.shapes.values() if meta is not None)
        nodes[-1].meta |= {PLACE: state.place, DTYPE: like.dtype, ALIKE: are_alike}
    graph.output(tuple(nodes[number] for number in held))
    rewrite(graph)
    fused = FusedGraph(graph, {}, owner, options)
    numbers = {node: number for number, node in inputs.items()}
    products, alone = [], []
    for name, words, reason, product in fused.verdicts:
        if product.weight in numbers:
            products.append((numbers[product.weight], name, words, reason))
            if words is None and product.nodes[-1] in graph.nodes:
                alone.append(numbers[product.weight])
    return Run(function_of(graph, owner), products, alone)


# ------------------------------------------------------------------------------------------------------------
# What a thread promises


class Noted(NamedTuple):
    """A product that was computed. weight: its own. steps: of the chain, or None. reason: what stopped it."""

    weight: Tensor
    name: str
    steps: str | None
    reason: str


_noting = threading.local()


@contextmanager
def noting() -> Iterator[list[Noted]]:
    """Notes every product of this thread that was a promise."""
    before, _noting.noted = getattr(_noting, "noted", None), []
    try:
        yield _noting.noted
    finally:
        _noting.noted = before


def _held(pending: list) -> list[int]:
    """How many references there are to each."""
    return [sys.getrefcount(one) for one in pending]


_NOBODY = _held([object()])[0]


class Recording(TorchFunctionMode):
    """One call of a model.

    fused: the `FusedForward` of the model. began: how many products were promised.
    """

    def __init__(self, fused):
        super().__init__()
        self.fused, self.programs = fused, fused.programs
        self.lock = threading.RLock()
        self.began, self.device, self.index, self.stream = 0, None, -1, None
        self._clear()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.settle()

    def _clear(self):
        self.pending: list[Promise] = []
        self.inputs: list[Tensor] = []
        self.numbers: dict[int, int] = {}
        self.state = self.programs.root

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if _asks_for_a_fact(function, args):
            return function(*args, **kwargs)
        with self.lock:
            result = self._promised(function, args, kwargs)
        if result is None:
            self.settle()
        elif result is not NotImplemented:
            return result
        return function(*args, **kwargs)

    def _promised(self, function, args, kwargs):
        """A promise of the result. NotImplemented where the call may run now and the promises stay; None
        where they have to be settled first."""
        target = LISTED.get(function)
        if target is None and function not in _VIEWS:
            return None
        if function in _VIEWS and type(args[0]) is Promise:
            function, args = with_rows, (args[0], _Sizes(_sizes_of_view(args, kwargs)))
            kwargs, target = {}, LISTED[with_rows]
        places = _PLACES.get(function)
        if places is not None and (
            len(args) <= places[1] or kwargs or id(args[places[1]]) in self.fused.alone
        ):
            return None
        if not self.pending:
            if places is None or not self._may_begin(*(args[place] for place in places)):
                return None
        elif not self._is_as_at_the_beginning():
            return None
        if not _only_computes(function, args, kwargs):
            return None
        count = len(self.inputs)
        described = [self._described(one) for one in args]
        by_name = [(name, self._described(one)) for name, one in kwargs.items()]
        every = (*described, *(one for _, one in by_name))
        result = self._next(function, target, args, kwargs, described, by_name) if all(every) else None
        if result is not None and (places is not None or any(one[0] == "promise" for one in every)):
            state, meta = result
            self.began += places is not None
            self.state = state
            promise = Promise(self, len(self.pending), meta)
            self.pending.append(promise)
            return promise
        for one in self.inputs[count:]:
            del self.numbers[id(one)]
        del self.inputs[count:]
        return None if result is None else NotImplemented

    def _may_begin(self, x, weight) -> bool:
        if type(x) is not Tensor or torch.is_grad_enabled() or not repeated.is_ordinary():
            return False
        if (
            type(weight) not in ORDINARY_TENSORS
            or weight.dim() != 2
            or not pays(x, weight, self.fused.options)
        ):
            return False
        if x.device != self.device:
            self.device, self.index = x.device, x.get_device()
        self.stream = None if self.index < 0 else _stream_of(self.index)
        return True

    def _is_as_at_the_beginning(self) -> bool:
        """Whether a function means what it did at the first promise."""
        return not torch.is_grad_enabled() and repeated.is_ordinary() and not self._is_on_another_stream()

    def _is_on_another_stream(self) -> bool:
        return self.stream is not None and _stream_of(self.index) != self.stream

    def _described(self, one) -> tuple | None:
        """What an argument is in a graph: (kind, value or number, facts …), or None."""
        kind = type(one)
        if kind is Promise:
            is_own = one.recording is self and one.value is None
            return ("promise", one.number) if is_own else None
        if kind in ORDINARY_TENSORS:
            if one.device != self.device or one.layout is not torch.strided or not one.is_contiguous():
                return None
            number = self.numbers.setdefault(id(one), len(self.inputs))
            if number == len(self.inputs):
                self.inputs.append(one)
            return "tensor", number, kind is not Tensor, one.dim(), one.dtype
        if kind is _Sizes:
            self.inputs.append(tuple(one))
            self.numbers[id(self.inputs[-1])] = len(self.inputs) - 1
            return "sizes", len(self.inputs) - 1
        if kind is float and one == 0.0:
            return kind, one, str(one)  # -0.0 is equal to it
        if kind in (int, float, bool, str, type(None), torch.dtype) and one == one:
            return kind, one
        if kind in (tuple, list, torch.Size) and all(type(each) is int for each in one):
            return kind, tuple(one)
        return None

    def _next(self, function, target, args, kwargs, described, by_name) -> tuple[State, Tensor] | None:
        """The state behind the call, and a tensor without memory that is as the result is."""
        given = (*args, *kwargs.values())
        shapes = tuple([_shape(one) for one in given if isinstance(one, (Tensor, _Sizes))])
        matrices = [shape for shape in shapes if len(shape) > 1]
        are_alike = all([shape == matrices[0] for shape in matrices])
        state = self.programs.behind(self.state, (target, tuple(described), tuple(by_name), are_alike))
        if state is None:
            self.fused.leave("the constants of its operators keep changing")
            return None
        if shapes not in state.shapes:
            keep(state.shapes, shapes, _result_of(function, args, kwargs), MOST_SHAPES)
        meta = state.shapes.get(shapes)
        return None if meta is None else (state, meta)

    def settle(self):
        """Computes what is promised and held by somebody."""
        with self.lock:
            pending, inputs, state = self.pending, self.inputs, self.state
            if not pending:
                return
            self._clear()
            held = tuple([n for n, count in enumerate(_held(pending)) if count > _NOBODY])
            if not held:
                return
            fused = self.fused
            made = self.programs.run(state, held, fused.module, fused.options)
            with ExitStack() as stack:
                moved = self._is_on_another_stream()
                if moved:
                    stream = torch.cuda.ExternalStream(self.stream, self.device)
                    stack.enter_context(torch.cuda.stream(stream))
                if torch.is_grad_enabled():
                    stack.enter_context(torch.no_grad())
                if torch._C._is_any_autocast_enabled():
                    stack.enter_context(torch.autocast(self.device.type, enabled=False))
                stack.enter_context(torch._C.DisableTorchFunction())
                values = made.run(*inputs)
            if moved:
                # Whoever reads a value on another stream has waited for the work before the promise.
                stream.synchronize()
                fused.leave("it changes the CUDA stream within forward()")
            _fulfil([pending[number] for number in held], values)
            for number in made.alone:
                keep(fused.alone, id(inputs[number]), None, MOST_STATES)
            noted = getattr(_noting, "noted", None)
            if noted is not None:
                noted += [Noted(inputs[number], *rest) for number, *rest in made.products]


# Operations from which a product's promise gains more on the GPU than it costs the host, by whether the
# product is one of float32's accuracy (lab/README.md: blocks of transformers on an H100).
FEWEST_OPERATIONS = {True: 2.0**32, False: 2.0**36}


def pays(x: Tensor, weight: Tensor, options) -> bool:
    """Whether promises of a product of x may gain what they cost the host. On a CPU, where the simulator
    computes, its time is nobody's measure."""
    is_ieee = x.dtype is torch.float32 and resolve(options.precision, torch.float32) == "ieee"
    return not x.is_cuda or 2.0 * x.numel() * max(weight.shape) >= FEWEST_OPERATIONS[is_ieee]


class _Sizes(tuple):
    """Of a view."""

    __slots__ = ()


def _sizes_of_view(args, kwargs) -> tuple[int, ...]:
    """Of the result of a view of a promise that leaves the last dimension as it is; none for any other."""
    promise, *sizes = args
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    if kwargs or len(sizes) < 2 or not all(type(one) is int for one in sizes):
        return ()
    try:
        shape = promise.meta.view(sizes).shape
    except RuntimeError:
        return ()
    return tuple(shape) if shape[-1] == promise.meta.shape[-1] else ()


def _shape(one: Tensor | _Sizes) -> tuple[int, ...]:
    if type(one) is _Sizes:
        return one
    return one.meta.shape if type(one) is Promise else one.shape  # which would ask its class


def _only_computes(function, args, kwargs) -> bool:
    """Whether the call writes to nothing and draws no random numbers."""
    if kwargs.get("inplace") or kwargs.get("out") is not None:
        return False
    if function is with_rows:
        return bool(args[1])
    if function is Tensor.to:
        return len(args) == 2 and type(args[1]) is torch.dtype
    if function is F.dropout:
        return (args[2] if len(args) > 2 else kwargs.get("training", True)) is False and len(args) < 4
    # Functions of torch.nn.functional have their argument `inplace` somewhere behind the first.
    return getattr(function, "__module__", None) != F.__name__ or not any(one is True for one in args)


def _result_of(function, args, kwargs) -> Tensor | None:
    """A tensor on "meta" that is as the result; None where torch would raise, or the result is none that a
    promise can be."""

    def on_meta(one):
        return torch.empty(one.shape, dtype=one.dtype, device="meta")

    with torch._C.DisableTorchFunction():
        args, kwargs = _pytree.tree_map_only(Tensor, on_meta, (args, dict(kwargs)))
        try:
            result = function(*args, **kwargs)
        except Exception:
            return None
    return result if type(result) is Tensor and result.is_meta and result.is_contiguous() else None


def _fulfil(promises: list[Promise], values):
    """Makes ordinary tensors of the promises."""
    given: list[Tensor] = []
    for promise, value in zip(promises, values, strict=True):
        meta = promise.meta
        if value.shape != meta.shape or value.dtype is not meta.dtype:
            raise RuntimeError(
                f"fgn.fuse: a result is {value.dtype} of shape {tuple(value.shape)}, and was promised as"
                f" {meta.dtype} of shape {tuple(meta.shape)}"
            )
        if any(value is other for other in given):
            value = value.detach()  # another name of the same memory
        given.append(value)
    for promise, value in zip(promises, given, strict=True):
        # As torch.utils.swap_tensors(), which asks for more than a promise can have and takes twice as long.
        if promise._use_count() > 1 or value._use_count() > 1 or getweakrefs(promise):
            promise.value = value
            continue
        promise.__dict__.clear()
        promise.__class__, value.__class__ = Tensor, Promise
        torch._C._swap_tensor_impl(promise, value)
