"""A product that begins no chain: no operator of a chain follows it.

Its module runs unchanged, except for large float32 products in "ieee" on a GPU of compute capability 9.0.
There a product of split halves (`cuda_c/shared/halves.h`) is several times as fast as cuBLAS's float32
product, and nearer to float64. In front of a function of rows, which is a launch of fgn's in any case, small
products are fgn's too where the models of both say so (`own_is_faster()`). cuBLAS computes products in 16
bits or tf32.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from fgn.chains import Chain, Shape
from fgn.fusing.parts import ChainPart, Found
from fgn.fusing.products import DTYPE
from fgn.native import prepared, repeated
from fgn.operators import Pointwise
from fgn.structs import PRODUCT, plan_of
from fgn.training_calls import FEWEST_SPLIT_OPERATIONS
from fgn.transforms import run_when_compiled

CAPABILITY = (9, 0)  # where it was measured

# What the library's model adds for the launch after torch's product (cuda_c/library/nanoseconds.h).
LAUNCH_NANOSECONDS, LAUNCH_BYTES = 2326.0, 4200.0
ONE_OPERATOR = Chain("product", before=(Pointwise("relu"),), groups=0, after=())


@functools.lru_cache(maxsize=repeated.MOST_CALLS)
def own_is_faster(device: torch.device, shape: Shape, frozen: bool, planned_for=None) -> bool:
    """Whether fgn's product in "ieee", without operators, is expected to take less time than cuBLAS's.
    planned_for: as for `plan_of()`."""
    try:
        of_torch = plan_of(ONE_OPERATOR, shape, "library", device, "ieee", planned_for)
        own = plan_of(PRODUCT, shape, None, device, "ieee", planned_for, frozen, can_multiply=False)
    except (ValueError, RuntimeError):  # sizes that no version takes
        return False
    if of_torch is None or own is None or own.nanoseconds == 0:  # there is no model
        return False
    launch = LAUNCH_NANOSECONDS + 8.0 * shape.batch * shape.out_features / LAUNCH_BYTES
    return own.nanoseconds < of_torch.nanoseconds - launch


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


def gains_before_rows(x: Tensor, weight: Tensor) -> bool:
    """Whether fgn's product of float32 factors gains before a function of rows, without gradients."""
    if not x.is_cuda or x.dtype is not torch.float32 or not x.numel() or not _has_capability(x.device):
        return False
    shape = Shape(x.numel() // weight.shape[1], *weight.shape[::-1], 0)
    return own_is_faster(x.device, shape, prepared.is_frozen(weight))


class ProductPart(ChainPart):
    """Runs one product of a model, by torch or as a product of split halves. is_before_rows: whether a
    function of rows follows it."""

    is_before_rows = False

    def __call__(self, *inputs):
        return super().__call__(*inputs) if self._gains(inputs) else self.by_torch(*inputs)

    def _gains(self, inputs) -> bool:
        x, found = inputs[0], self.found
        if type(x) is not Tensor or not x.is_cuda or found.is_transposed:
            return False
        weight = inputs[found.weight] if found.linear is None else found.linear.weight
        if weight.dtype is not torch.float32 or not _has_capability(x.device) or not self._is_float32(x):
            return False
        if 2.0 * x.numel() * weight.shape[0] >= FEWEST_SPLIT_OPERATIONS:
            return True
        if not self.is_before_rows or torch.is_grad_enabled() or not repeated.is_ordinary():
            return False
        return weight.dim() == 2 and x.shape[-1:] == weight.shape[1:] and gains_before_rows(x, weight)
