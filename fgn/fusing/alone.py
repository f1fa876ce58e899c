"""A product that begins no chain: no operator of a chain follows it.

Its module runs unchanged, except for large float32 products in "ieee" on a GPU of compute capability 9.0.
There a product of split halves (`cuda_c/shared/halves.h`) is several times as fast as cuBLAS's float32
product, and nearer to float64. cuBLAS computes products in 16 bits or tf32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fgn.fusing.parts import ChainPart, Found
from fgn.fusing.products import DTYPE
from fgn.training_calls import FEWEST_SPLIT_OPERATIONS
from fgn.transforms import run_when_compiled

CAPABILITY = (9, 0)  # where it was measured


@run_when_compiled
def _has_capability(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) == CAPABILITY


def may_gain(found: Found, options) -> bool:
    """Whether the part may compute some input without torch: its weight is float32 now, and neither a version
    nor another precision was requested."""
    if options.version is not None or options.precision not in (None, "ieee") or found.is_transposed:
        return False
    if found.linear is not None:
        return found.linear.weight.dtype is torch.float32
    return found.inputs[found.weight].meta.get(DTYPE) is torch.float32


class ProductPart(ChainPart):
    """Runs one product of a model, by torch or as a product of split halves."""

    def __call__(self, *inputs):
        return super().__call__(*inputs) if self._gains(inputs) else self.by_torch(*inputs)

    def _gains(self, inputs) -> bool:
        x, found = inputs[0], self.found
        if type(x) is not Tensor or not x.is_cuda or found.is_transposed:
            return False
        weight = inputs[found.weight] if found.linear is None else found.linear.weight
        return (
            2.0 * x.numel() * weight.shape[0] >= FEWEST_SPLIT_OPERATIONS
            and weight.dtype is torch.float32
            and _has_capability(x.device)
            and self._is_float32(x)
        )
