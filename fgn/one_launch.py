"""A launch of the library as a separate call: computes y from v and operands, and u if the launch keeps
it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import get_ident

import torch
from torch import Tensor

from cudasim.building.library import interruptible, is_counting
from cudasim.counting import counted
from fgn.native import repeated, replays
from fgn.native.library import ffi
from fgn.structs import library_of, raise_for


class OneLaunch:
    """What a call of one kind needs.

    library, device: where it runs, -1 for the CPU. c_forward: the C function of c_struct, v, u, y and the
    stream. arguments: the places of the operands' addresses in the struct. replays: what launches a call that
    is kept, else None.
    """

    replays = None

    def keep(self):
        """Prepares for later calls."""
        self.replays = replays.for_launches(self.library, self.device, self.launch_at)

    def results(self, v: Tensor, sizes=None) -> tuple[Tensor, Tensor | None]:
        """Memory for y and, if it is kept, u."""
        raise NotImplementedError

    def run(self, v: Tensor, y: Tensor, u: Tensor | None, stream: int) -> Tensor | tuple[Tensor, Tensor]:
        at = v.data_ptr(), 0 if u is None else u.data_ptr(), y.data_ptr(), *self.arguments.pointers
        (self.replays or self.launch_at)(at, stream)
        return y if u is None else (y, u)

    def launch_at(self, addresses: tuple, stream: int):
        """The launch for v, u (or 0) and y at these addresses. The struct has those of the operands."""
        v, u, y, *_ = addresses
        status = self.c_forward(self.c_struct, v, u, y, stream)
        if status:
            raise_for(self.library, status)

    def takes(self, operands: tuple[Tensor, ...]) -> bool:
        """Whether the call can be made here with these operands without copies; then the struct points to
        them."""
        if self.device < 0:
            if is_counting.get():
                return False
        elif torch._C._cuda_getDevice() != self.device:
            return False
        return not operands or self.arguments.point_to(operands)

    def launch(self, v: Tensor, sizes=None):
        """The result for v, after `takes()` has accepted the operands. sizes: v's, if it is no matrix."""
        if self.device < 0:
            with interruptible(self.library):
                return self.run(v, *self.results(v, sizes), 0)
        return self.run(v, *self.results(v, sizes), torch._C._cuda_getCurrentRawStream(self.device))

    def __call__(self, v: Tensor, operands: tuple[Tensor, ...]):
        """The result, or None if a tensor would have to be copied."""
        if not repeated.usable_address(v) or not self.takes(operands):
            return None
        return self.launch(v)


def need_gradients(v: Tensor, operands) -> bool:
    return torch.is_grad_enabled() and (v.requires_grad or any(one.requires_grad for one in operands))


def _key_of(of, v: Tensor, tensors) -> tuple:
    """Cache key: everything that decides a call's struct."""
    return (
        id(of),
        v.shape,
        v.stride(),
        v.dtype,
        v.get_device(),
        get_ident(),
        *[(tensor.dtype, tensor.shape) for tensor in tensors],
    )


class Calls:
    """Makes the calls of one kind of launch, and keeps them for later ones like them.

    checked: a function that takes the launch's description, v and the operands, and raises TypeError or
    ValueError if they are invalid. It returns v and the operands in the kernels' form, and a function that
    makes their call in a library. title: of the launch, for a message.
    """

    def __init__(self, checked: Callable, title: str):
        self.checked, self.title = checked, title
        self.kept: dict[tuple, OneLaunch] = {}

    def kept_call(self, of, v: Tensor, tensors) -> OneLaunch | None:
        """The library's call for tensors of these shapes, if this thread has made one."""
        return self.kept.get(_key_of(of, v, tensors))

    def __call__(self, of, v: Tensor, operands: Mapping[str, Tensor] | None = None):
        given = operands or {}
        tensors = tuple([given.get(name) for name in of.operands])
        key = None  # where one is no tensor, `checked` says what came instead
        if all(isinstance(one, Tensor) for one in (v, *tensors)):
            key = _key_of(of, v, tensors)
            known = self.kept.get(key)
            if known is not None:
                y = None if need_gradients(v, tensors) else known(v, tensors)
                if y is not None:
                    return y
        v, used, call_in = self.checked(of, v, given)
        if need_gradients(v, used.values()):
            raise RuntimeError(f"v: expected tensors that need no gradient, for {self.title} has none")
        with library_of(v.device) as (library, stream):
            call = call_in(library, v, used)
            y, u = call.results(v)
            counted.allow(v=v, y=y, **({} if u is None else {"u": u}), **used)
            y = call.run(v, y, u, int(ffi().cast("uintptr_t", stream)))
        if all(used[name] is given[name] for name in used) and v.numel() and not is_counting.get():
            if len(self.kept) >= repeated.MOST_CALLS:
                self.kept.clear()
            call.keep()
            self.kept[key] = call
        return y
