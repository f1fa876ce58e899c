"""Fuses a model whose forward() cannot be traced: the user's own forward() runs, and a product in it is a
promise.

While such a forward() runs, a mode of `__torch_function__` sees each function of torch that this thread
calls. The result of a product is a `Promise`, a tensor with a shape but no numbers yet, and so is the result
of a listed function of a promise. Anything else first settles all promises: they are one small graph, in
which chains become parts (`fgn.fusing.graphs`), as in a traced one, and then they become ordinary tensors.
The graph depends only on the recorded calls, so it cannot be stale. It is kept, and later calls of the same
sequence find it by following `State.next`.

A value without references when the promises are settled is not written. So it is known whether the sum before
a norm is read again, without looking ahead.

Promises cost the host more than torch's operators, so calls too small to pay are left to torch. They are made
only if no gradient is wanted.
"""

from __future__ import annotations

import operator
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode

from fgn.fusing.by_torch import function_of
from fgn.fusing.graphs import FusedGraph
from fgn.fusing.kept import keep
from fgn.fusing.map_functions import is_convolution
from fgn.fusing.products import DTYPE, IS_PARAMETER
from fgn.fusing.promises import (
    LISTED,
    PLACES,
    VIEWS,
    Promise,
    Sizes,
    asks_for_a_fact,
    fulfil,
    only_computes,
    result_of,
    shape_of,
    sizes_of_view,
)
from fgn.fusing.rewriting import ALIKE, DIMENSIONS, rewrite, with_rows
from fgn.fusing.stand_ins import PLACE, place_of_caller
from fgn.native import repeated
from fgn.native.repeated import ORDINARY_TENSORS
from fgn.precision import resolve

# The most graphs of one model: with constants that change, every call would make one.
MOST_STATES = 4096
MOST_SHAPES = 256

_stream_of = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # where torch knows CUDA

# ------------------------------------------------------------------------------------------------------------
# Graphs


class Run(NamedTuple):
    """A graph with its chains. run: a function of its inputs, which returns the values that are still
    referenced. products: (input number of the weight, name, steps or None, what stopped it). alone: input
    numbers of the weights whose products are torch's."""

    run: Callable
    products: list[tuple[int, str, str | None, str]]
    alone: list[int]


class State:
    """The calls up to one of them. call: its (op, target), and descriptions of its arguments and named
    arguments. next: the following states. shapes: of the result, by the arguments' shapes. runs: by the set
    of referenced values."""

    __slots__ = ("before", "call", "next", "place", "runs", "shapes")

    def __init__(self, before: State | None = None, call=None, place: str | None = None):
        self.before, self.call, self.place = before, call, place
        self.next: dict = {}
        self.shapes: dict = {}
        self.runs: dict[tuple, Run] = {}


class Programs:
    """The graphs of one model, and what is known of its promises.

    alone: weights, by their ids, of products without a following operator, which are not promised again.
    too_small: shapes of arguments for which no product paid. reason: why no more promises are made, or None.
    """

    def __init__(self):
        self.root, self.count = State(), 0
        self.alone: dict[int, None] = {}
        self.too_small: dict[tuple, None] = {}
        self.reason: str | None = None

    def leave(self, module: nn.Module, reason: str):
        """Stops making promises, with one warning."""
        if self.reason is None:
            self.reason = reason
            warnings.warn(f"fgn: {type(module).__name__} is left to torch: {reason}", stacklevel=2)

    def behind(self, state: State, call) -> State | None:
        """The state after one more call; None if there are too many."""
        found = state.next.get(call)
        if found is None:
            if self.count >= MOST_STATES:
                return None
            self.count += 1
            found = state.next.setdefault(call, State(state, call, place_of_caller()))
        return found

    def run(self, state: State, held: tuple[int, ...], owner, options) -> Run:
        """The graph that ends with the state, and returns the values numbered in `held`."""
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
        if kind == "index":
            return tuple([slice(None) if each == ":" else each for each in value])
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
    convolutions = [node for node in graph.nodes if is_convolution(node, {})]
    alone += [numbers[node.args[1]] for node in convolutions if node.args[1] in numbers]
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
    """The number of references to each."""
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
        if asks_for_a_fact(function, args):
            return function(*args, **kwargs)
        with self.lock:
            result = self._promised(function, args, kwargs)
        if result is None:
            self.settle()
        elif result is not NotImplemented:
            return result
        return function(*args, **kwargs)

    def _promised(self, function, args, kwargs):
        """A promise of the result. NotImplemented if the call may run now and the promises stay; None if they
        have to be settled first."""
        target = LISTED.get(function)
        if target is None and function not in VIEWS:
            return None
        if function in VIEWS and type(args[0]) is Promise:
            function, args = with_rows, (args[0], Sizes(sizes_of_view(args, kwargs)))
            kwargs, target = {}, LISTED[with_rows]
        places = PLACES.get(function)
        if places is not None and (
            len(args) <= places[1] or kwargs or id(args[places[1]]) in self.programs.alone
        ):
            return None
        begins = places is not None or function is F.group_norm
        if not self.pending:
            if not begins or not self._may_begin(*(args[place] for place in places or (0,))):
                return None
        elif not self._is_as_at_the_beginning():
            return None
        if not only_computes(function, args, kwargs):
            return None
        count = len(self.inputs)
        described = [self._described(one) for one in args]
        by_name = [(name, self._described(one)) for name, one in kwargs.items()]
        every = (*described, *(one for _, one in by_name))
        result = self._next(function, target, args, kwargs, described, by_name) if all(every) else None
        if result is not None and (begins or any(one[0] == "promise" for one in every)):
            state, meta = result
            self.began += begins
            self.state = state
            promise = Promise(self, len(self.pending), meta)
            self.pending.append(promise)
            return promise
        for one in self.inputs[count:]:
            del self.numbers[id(one)]
        del self.inputs[count:]
        return None if result is None else NotImplemented

    def _may_begin(self, x, weight=None) -> bool:
        """Whether promises may begin with a product, a convolution or a GroupNorm of x."""
        if type(x) is not Tensor or torch.is_grad_enabled() or not repeated.is_ordinary():
            return False
        if weight is None:
            if not norm_pays(x):
                return False
        elif (
            type(weight) not in ORDINARY_TENSORS
            or weight.dim() < 2
            or not pays(x, weight, self.fused.options)
        ):
            return False
        if x.device != self.device:
            self.device, self.index = x.device, x.get_device()
        self.stream = None if self.index < 0 else _stream_of(self.index)
        return True

    def _is_as_at_the_beginning(self) -> bool:
        """Whether a function is the same as at the first promise."""
        return not torch.is_grad_enabled() and repeated.is_ordinary() and not self._is_on_another_stream()

    def _is_on_another_stream(self) -> bool:
        return self.stream is not None and _stream_of(self.index) != self.stream

    def _described(self, one) -> tuple | None:
        """An argument's description in a graph: (kind, value or number, facts …), or None."""
        kind = type(one)
        if kind is Promise:
            is_own = one.recording is self and one.value is None
            return ("promise", one.number) if is_own else None
        if kind in ORDINARY_TENSORS:
            if one.device != self.device or one.layout is not torch.strided or not _is_dense(one):
                return None
            number = self.numbers.setdefault(id(one), len(self.inputs))
            if number == len(self.inputs):
                self.inputs.append(one)
            return "tensor", number, kind is not Tensor, one.dim(), one.dtype
        if kind is Sizes:
            self.inputs.append(tuple(one))
            self.numbers[id(self.inputs[-1])] = len(self.inputs) - 1
            return "sizes", len(self.inputs) - 1
        if kind is float and one == 0.0:
            return kind, one, str(one)  # -0.0 is equal to it
        if kind in (int, float, bool, str, type(None), torch.dtype) and one == one:
            return kind, one
        if kind in (tuple, list, torch.Size) and all(type(each) is int for each in one):
            return kind, tuple(one)
        if kind is tuple and all(map(_leaves_values, one)):
            return "index", tuple([":" if type(each) is slice else each for each in one])
        return None

    def _next(self, function, target, args, kwargs, described, by_name) -> tuple[State, Tensor] | None:
        """The state after the call, and a tensor without memory like the result."""
        given = (*args, *kwargs.values())
        shapes = tuple([shape_of(one) for one in given if isinstance(one, (Tensor, Sizes))])
        matrices = [shape for shape in shapes if len(shape) > 1]
        are_alike = all([shape == matrices[0] for shape in matrices])
        state = self.programs.behind(self.state, (target, tuple(described), tuple(by_name), are_alike))
        if state is None:
            self.programs.leave(self.fused.module, "the constants of its operators keep changing")
            return None
        if shapes not in state.shapes:
            keep(state.shapes, shapes, result_of(function, args, kwargs), MOST_SHAPES)
        meta = state.shapes.get(shapes)
        return None if meta is None else (state, meta)

    def settle(self):
        """Computes the promises that are still referenced."""
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
                # A reader on another stream has waited only for the work before the promise.
                stream.synchronize()
                self.programs.leave(fused.module, "it changes the CUDA stream within forward()")
            fulfil([pending[number] for number in held], values)
            for number in made.alone:
                keep(self.programs.alone, id(inputs[number]), None, MOST_STATES)
            noted = getattr(_noting, "noted", None)
            if noted is not None:
                noted += [Noted(inputs[number], *rest) for number, *rest in made.products]


def is_recording() -> bool:
    """Whether a model being called in this thread makes promises."""
    return torch._C._is_torch_function_mode_enabled() and type(_get_current_function_mode()) is Recording


# From this many operations on, a product's promise gains more on the GPU than it costs the host; by whether
# the product has float32's accuracy (lab/README.md: blocks of transformers on an H100).
FEWEST_OPERATIONS = {True: 2.0**32, False: 2.0**36}


def pays(x: Tensor, weight: Tensor, options) -> bool:
    """Whether promises of a product of x, or of a convolution, may gain what they cost the host. On a CPU,
    where the simulator computes, time does not matter."""
    is_ieee = x.dtype is torch.float32 and resolve(options.precision, torch.float32) == "ieee"
    outputs = max(weight.shape) if weight.dim() == 2 else weight.numel() / max(1, weight.shape[1])
    return not x.is_cuda or 2.0 * x.numel() * outputs >= FEWEST_OPERATIONS[is_ieee]


# From this many elements of feature maps on, a GroupNorm alone begins promises on a GPU: there its launch and
# an activation's take as long as the promises take the host.
FEWEST_OF_NORM = 2**26


def norm_pays(x: Tensor) -> bool:
    return x.dim() > 2 and (not x.is_cuda or x.numel() >= FEWEST_OF_NORM)


def _leaves_values(index) -> bool:
    """Whether an index takes all values in order. For an array only the type is checked, because it compares
    value by value."""
    return index is None or index is ... or (type(index) is slice and index == slice(None))


def _is_dense(one: Tensor) -> bool:
    """Whether a tensor has the layout that `promises.result_of()` assumes, or channels_last, which changes no
    values."""
    return one.is_contiguous() or (one.dim() > 2 and one.movedim(1, -1).is_contiguous())
