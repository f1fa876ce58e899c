"""What a part keeps of a call, so that a similar call only compares: the checked tensors, and the call of the
library."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from threading import get_ident

import torch
from torch import Tensor

from fgn import autocast
from fgn.fusing.accepting import as_operand
from fgn.native.repeated import ORDINARY_TENSORS, layout_of, part_of


class Checked:
    """Tensors that have passed all checks, so that the next call only compares its own tensors with them."""

    def __init__(self, x: Tensor, tensors: tuple[Tensor | None, ...], roles: list[str], names: list[str]):
        self.channels, self.roles = tensors[0].shape[0], roles
        self.has_rows = "tensor" in roles
        self.x = self._facts(x)
        self.tensors = [None if tensor is None else (tensor.shape, tensor.dtype) for tensor in tensors]
        # The kernels see a vector of one element, or of shape (1, channels), as another tensor.
        self.vectors = all(
            role == "tensor" or (tensor.dim() == 1 and tensor.numel() == self.channels)
            for role, tensor in zip(roles, tensors[4:], strict=True)
        )
        self.names = ("weight", "bias", "norm_weight", "norm_bias", *names)

    def _facts(self, x: Tensor) -> tuple:
        # An added tensor has as many rows as x.
        sizes = x.shape if self.has_rows else x.shape[1:]
        return (sizes, x.dtype, x.device, x.layout, autocast.dtype_for(x))

    def holds(self, x, tensors) -> bool:
        """Whether x and the tensors have the shapes, dtypes, device and kind of the checked ones."""
        if type(x) is not Tensor or x.dim() != 2 or self._facts(x) != self.x:
            return False
        device = x.device
        for tensor, seen in zip(tensors, self.tensors, strict=True):
            if tensor is None or seen is None:
                if tensor is not seen:
                    return False
            elif (
                type(tensor) not in ORDINARY_TENSORS
                or tensor.shape != seen[0]
                or tensor.dtype is not seen[1]
                or tensor.device != device
                or tensor.layout is not torch.strided
            ):
                return False
        return True

    def as_vectors(self, x: Tensor, tensors) -> tuple[Tensor | None, ...]:
        """The tensors, with operands of one element as vectors."""
        if self.vectors:
            return tensors
        return *tensors[:4], *each_once(lambda one: as_operand(one, x, self.channels)[1], tensors[4:])

    def parameters(self, tensors) -> dict[str, Tensor | None]:
        """The tensors of `as_vectors()` by the names of `fgn.chain_forward()`."""
        return dict(zip(self.names, tensors, strict=True))


def each_once(convert: Callable, tensors: Sequence) -> list:
    """What convert() gives for each of the tensors: the same object for a tensor that comes again. Code that
    torch.compile traces cannot tell that, and converts each."""
    if torch.compiler.is_compiling():
        return [convert(one) for one in tensors]
    known: dict[int, object] = {}
    for one in tensors:
        if id(one) not in known:
            known[id(one)] = convert(one)
    return [known[id(one)] for one in tensors]


# The most kinds of calls that a part keeps: shapes, dtypes and threads.
MOST_KINDS = 64


def recall(known: dict, key):
    """What is kept under a key, or None. Code that torch.compile traces keeps nothing and finds nothing: what
    it had found would be what its next call has to find, which would be compiled anew if it does not."""
    return None if torch.compiler.is_compiling() else known.get(key)


def keep(known: dict, key, value, most: int):
    """Keeps a value under its key for `recall()`; with `most` entries it replaces the oldest. Other threads
    may do the same at the same time."""
    if torch.compiler.is_compiling():
        return
    if len(known) >= most:
        for oldest in list(known)[:1]:
            known.pop(oldest, None)
    known[key] = value


def kind_of(x: Tensor) -> tuple:
    """What calls with the same plan have in common, besides a part's settings and its tensors."""
    return x.shape, x.dtype, x.get_device(), get_ident(), torch.is_grad_enabled()


def as_vector(one: Tensor, size: int) -> Tensor:
    """A contiguous tensor of one element, or of `size` ones, as a vector, of which autograd notes nothing."""
    if one.numel() == size:
        return part_of(one, (size,), (1,))
    return part_of(one, (size,), (0,)).contiguous()


def ones_of(given: Sequence, numbers: Sequence[int], tensors: tuple) -> tuple | None:
    """A chain's tensors with the operands of one element, which kernels have seen as vectors of copies, as
    they are; None if there are none. given: a part's inputs; numbers: of the operands among them."""
    ones = {}
    for number, seen in zip(numbers, tensors[4:], strict=True):
        one = given[number]
        if one.numel() == 1 and seen.numel() > 1 and one.is_contiguous():
            ones[number] = one if one.shape == (1,) else part_of(one, (1,), (1,))
    if not ones:
        return None
    operands = zip(numbers, tensors[4:], strict=True)
    return *tensors[:4], *[ones.get(number, seen) for number, seen in operands]


def dtypes_of(tensors) -> list:
    """For each of a chain's parameters; None for those that kernels do not read."""
    return [one.dtype if type(one) in ORDINARY_TENSORS else None for one in tensors]


class Last:
    """A call that later ones may repeat. call: the library's, or None if gradients are wanted. chain,
    checked, settings: of this call; chain is None if torch runs the parts. dtypes: of the chain's tensors.
    x_sizes, y_sizes: as kernels see them; sizes, layout: y's, if x is no matrix. results: the values in a row
    of a function's result. after_product: cuBLAS's product and the call, if it begins with one. views: the
    operands that kernels see in another shape: their numbers, their shapes, and the sizes and strides there.
    """

    __slots__ = (
        *("call", "chain", "checked", "dtypes", "layout", "settings", "sizes", "views"),
        *("x_sizes", "y_sizes", "results", "after_product"),
    )

    def __init__(self, given, x, y, settings=None, chain=None, checked=None, operands=(), tensors=()):
        self.settings, self.chain, self.checked, self.call = settings, chain, checked, None
        self.dtypes, self.x_sizes, self.y_sizes = dtypes_of(tensors), x.shape, y.shape
        self.sizes = None if given[0] is x else (*given[0].shape[:-1], y.shape[1])
        self.layout = None if self.sizes is None else layout_of(self.sizes)
        seen = dict(zip(operands, tensors[4:], strict=True))  # an operand of several steps is seen once
        self.views = [
            (number, given[number].shape, layout_of(one.shape))
            for number, one in seen.items()
            if given[number].shape != one.shape
        ]

    def with_views(self, inputs):
        """The inputs with operands as kernels see them: one element is copied to a vector. None if one has
        another shape, or would have to be copied for another reason."""
        if not self.views:
            return inputs
        seen_so, has_gradients = [*inputs], torch.is_grad_enabled()
        for number, shape, (sizes, strides) in self.views:
            one = inputs[number]
            if type(one) not in ORDINARY_TENSORS or one.shape != shape or not one.is_contiguous():
                return None
            if math.prod(shape) != math.prod(sizes):
                wide = one.reshape(-1).expand(sizes).contiguous() if has_gradients else as_vector(one, *sizes)
                seen_so[number] = wide
            else:  # without autograd's notes of a view the host takes a third of the time
                seen_so[number] = one.view(sizes) if has_gradients else part_of(one, sizes, strides)
        return seen_so
