"""A launch of the library that is a call of its own: y of v and operands, and u where the launch keeps it."""

from __future__ import annotations

import torch
from torch import Tensor

from cudasim.building.library import interruptible, is_counting
from fgn.native import repeated
from fgn.structs import raise_for


class OneLaunch:
    """What a call of one kind needs.

    library, device: where it runs, -1 for the CPU. c_forward: the C function of c_struct, v, u, y and the
    stream. arguments: where the operands' addresses go in the struct.
    """

    def results(self, v: Tensor, sizes=None) -> tuple[Tensor, Tensor | None]:
        """Memory for y and, where it is kept, u."""
        raise NotImplementedError

    def run(self, v: Tensor, y: Tensor, u: Tensor | None, stream: int) -> Tensor | tuple[Tensor, Tensor]:
        kept = 0 if u is None else u.data_ptr()
        status = self.c_forward(self.c_struct, v.data_ptr(), kept, y.data_ptr(), stream)
        if status:
            raise_for(self.library, status)
        return y if u is None else (y, u)

    def takes(self, operands: tuple[Tensor, ...]) -> bool:
        """Whether the call can be made here, with these operands as they are; the struct points to them
        then."""
        if self.device < 0:
            if is_counting.get():
                return False
        elif torch._C._cuda_getDevice() != self.device:
            return False
        return self.arguments.point_to(operands)

    def launch(self, v: Tensor, sizes=None):
        """The result of v, where `takes()` has taken the operands. sizes: v's, where it is no matrix."""
        if self.device < 0:
            with interruptible(self.library):
                return self.run(v, *self.results(v, sizes), 0)
        return self.run(v, *self.results(v, sizes), torch._C._cuda_getCurrentRawStream(self.device))

    def __call__(self, v: Tensor, operands: tuple[Tensor, ...]):
        """The result, or None where a tensor is not one that can be used as it is."""
        if not repeated.usable_address(v) or not self.takes(operands):
            return None
        return self.launch(v)


def need_gradients(v: Tensor, operands) -> bool:
    return torch.is_grad_enabled() and (v.requires_grad or any(one.requires_grad for one in operands))
