"""A promise: the result of a call of torch that has not been computed yet.

`fgn.fusing.recording` makes promises while a model is called, and computes them later.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from weakref import getweakrefs

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree

from fgn.fusing.finding import GROUP_NORMS, LAYER_NORMS
from fgn.fusing.map_functions import CONVOLUTIONS
from fgn.fusing.meanings import BINARY, CLAMP_ONE_SIDED, FUNCTIONS, GELU, METHODS, POWER, RELU6
from fgn.fusing.products import ADDED_PRODUCTS, MATRIX_PRODUCTS, PRODUCTS
from fgn.fusing.rewriting import CASTS, RECIPROCAL_ROOTS, with_rows
from fgn.fusing.row_functions import FUNCTIONS_OF_ROWS


def _listed() -> dict[Callable, tuple[str, object]]:
    """The functions that `__torch_function__` receives, and their names in a graph. All only compute, without
    writing to inputs."""
    listed = {}
    tables = (METHODS, FUNCTIONS, BINARY, CLAMP_ONE_SIDED, POWER, GELU, RELU6, GROUP_NORMS, LAYER_NORMS)
    tables = (*tables, FUNCTIONS_OF_ROWS, PRODUCTS, MATRIX_PRODUCTS, ADDED_PRODUCTS, CASTS, RECIPROCAL_ROOTS)
    tables = (*tables, CONVOLUTIONS)
    for one in (*itertools.chain(*tables), F.linear, F.prelu, F.dropout, with_rows):
        if isinstance(one, str):
            method = getattr(Tensor, one, None)
            if method is not None and not (one.endswith("_") and not one.endswith("__")):
                listed[method] = ("call_method", one)
        # Python's own operators arrive as methods.
        elif getattr(one, "__module__", None) not in ("builtins", "_operator") and one.__name__[-1] != "_":
            listed[one] = ("call_function", one)
    return listed


LISTED = _listed()
LISTED[Tensor.__getitem__] = ("call_function", operator.getitem)
# Products and convolutions: the positions of x and of the weight among the arguments.
PLACES = {function: (0, 1) for function, (_, name) in LISTED.items() if name in (*PRODUCTS, *MATRIX_PRODUCTS)}
PLACES |= {function: (1, 2) for function, (_, name) in LISTED.items() if name in ADDED_PRODUCTS}
PLACES[F.linear] = (0, 1)
PLACES |= {function: (0, 1) for function in CONVOLUTIONS}

VIEWS = (Tensor.view, Tensor.reshape, torch.reshape)

# What is known of a promise before its numbers.
_FACTS = frozenset(
    vars(torch._C.TensorBase)[name]
    for name in ("shape", "dtype", "device", "ndim", "requires_grad", "layout")
)
_FACTS_BY_METHOD = frozenset(
    getattr(Tensor, name) for name in ("size", "dim", "numel", "is_floating_point", "element_size")
)
_GETTER = type(Tensor.shape.__get__)


def asks_for_a_fact(function, args) -> bool:
    if type(function) is _GETTER:
        is_of_promise = type(args[0]) is Promise
        return function.__name__ == "__get__" and (not is_of_promise or function.__self__ in _FACTS)
    return function in _FACTS_BY_METHOD


class Promise(Tensor):
    """A result that has not been computed yet. recording, number: its `Recording` and its number there. meta:
    a tensor of its shape and dtype. value: its numbers once they are computed, if the object itself could not
    become an ordinary tensor."""

    @staticmethod
    def __new__(cls, recording, number: int, meta: Tensor):
        made = Tensor._make_wrapper_subclass(cls, meta.shape, dtype=meta.dtype, device=recording.device)
        made.recording, made.number, made.meta, made.value = recording, number, meta, None
        return made

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        """Called if no mode sees the call: in another thread, or for an object that stayed a promise."""
        if asks_for_a_fact(function, args):
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
        return _with_numbers(function, args, kwargs)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        """Called if C++ code got the promise."""
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


class Sizes(tuple):
    """The sizes of a view."""

    __slots__ = ()


def sizes_of_view(args, kwargs) -> tuple[int, ...]:
    """The sizes of a promise's view that keeps the last dimension; () for any other view."""
    promise, *sizes = args
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    if kwargs or len(sizes) < 2 or not all(type(one) is int for one in sizes):
        return ()
    try:
        shape = promise.meta.view(sizes).shape
    except RuntimeError:
        return ()
    return tuple(shape) if shape[-1] == promise.meta.shape[-1] else ()


def shape_of(one: Tensor | Sizes) -> tuple[int, ...]:
    if type(one) is Sizes:
        return one
    return one.meta.shape if type(one) is Promise else one.shape  # which would ask its class


def only_computes(function, args, kwargs) -> bool:
    """Whether the call neither writes to its inputs nor draws random numbers."""
    if kwargs.get("inplace") or kwargs.get("out") is not None:
        return False
    if function is with_rows:
        return bool(args[1])
    if function is Tensor.__getitem__:
        return type(args[1]) is tuple  # of what leaves all values where they are (`Recording._described`)
    if function is Tensor.to:
        return len(args) == 2 and type(args[1]) is torch.dtype
    if function is F.dropout:
        return (args[2] if len(args) > 2 else kwargs.get("training", True)) is False and len(args) < 4
    # Functions of torch.nn.functional have an argument `inplace` after the first.
    return getattr(function, "__module__", None) != F.__name__ or not any(one is True for one in args)


def result_of(function, args, kwargs) -> Tensor | None:
    """A tensor on "meta" like the result; None if torch would raise, or if a promise cannot be such a
    result."""

    def on_meta(one):
        return torch.empty(one.shape, dtype=one.dtype, device="meta")

    with torch._C.DisableTorchFunction():
        args, kwargs = _pytree.tree_map_only(Tensor, on_meta, (args, dict(kwargs)))
        try:
            result = function(*args, **kwargs)
        except Exception:
            return None
    return result if type(result) is Tensor and result.is_meta and result.is_contiguous() else None


def fulfil(promises: list[Promise], values):
    """Turns the promises into ordinary tensors."""
    given: list[Tensor] = []
    for promise, value in zip(promises, values, strict=True):
        meta = promise.meta
        if value.shape != meta.shape or value.dtype is not meta.dtype:
            raise RuntimeError(
                f"fgn.fuse: a result is {value.dtype} of shape {tuple(value.shape)}, and was promised as"
                f" {meta.dtype} of shape {tuple(meta.shape)}"
            )
        if any(value is other for other in given) or value._use_count() > 1:
            value = value.detach()  # another tensor of the same memory: a view refers to this one
        given.append(value)
    for promise, value in zip(promises, given, strict=True):
        # Like torch.utils.swap_tensors(), which has requirements that a promise cannot meet and takes twice
        # as long.
        if promise._use_count() > 1 or getweakrefs(promise):
            promise.value = value
            continue
        promise.__dict__.clear()
        promise.__class__, value.__class__ = Tensor, Promise
        torch._C._swap_tensor_impl(promise, value)
