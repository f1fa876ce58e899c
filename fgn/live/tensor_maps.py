"""Tensor maps as arguments of kernels, for parameters of type CUtensorMap: what TMA knows of a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from fgn.native.library import ffi, for_device

_SWIZZLES = (0, 32, 64, 128)  # in the order of CUtensorMapSwizzle
_TYPES = {  # the numbers of CUtensorMapDataType
    torch.uint8: 0, torch.int8: 0, torch.int32: 3, torch.int64: 5, torch.float16: 6, torch.float32: 7,
    torch.float64: 8, torch.bfloat16: 9,
}  # fmt: skip
_SIZE = 128  # of a CUtensorMap, at most


@cache
def _encoder():
    ffi().cdef(
        "int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *tensor, const uint64_t *sizes, "
        "const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides, int interleave, "
        "int swizzle, int promotion, int fill);",
        override=True,
    )
    return for_device("cpu").load().cuTensorMapEncodeTiled


@dataclass(frozen=True)
class TensorMap:
    """A tensor that a kernel copies boxes of by TMA, `kernel[grid, block](fgn.live.TensorMap(x, (64, 64)))`,
    for a parameter `const __grid_constant__ CUtensorMap map`.

    tensor: of 1 to 5 dimensions, whose last one is contiguous. box: elements along each dimension, in the
    tensor's order; a kernel's coordinates are in the other order, the contiguous one first. swizzle: 0, 32,
    64 or 128 bytes. What a box has outside the tensor is zero, or NaN with nan_outside.

    ValueError for what cuTensorMapEncodeTiled() of the CUDA driver refuses. The simulator has tensor maps
    from Python; on a GPU, TypeError.
    """

    tensor: Tensor
    box: tuple[int, ...]
    swizzle: int = 0
    nan_outside: bool = False

    def __post_init__(self):
        if not isinstance(self.tensor, Tensor) or self.tensor.device.type != "cpu":
            got = self.tensor.device if isinstance(self.tensor, Tensor) else type(self.tensor).__name__
            raise TypeError(
                f"tensor: expected a tensor on the cpu (the simulator has tensor maps), got {got}"
            )
        if self.tensor.dtype not in _TYPES:
            raise TypeError(f"tensor: expected a dtype that TMA has, got {self.tensor.dtype}")
        if not 1 <= self.tensor.dim() <= 5 or self.tensor.stride(-1) != 1:
            got = f"shape {tuple(self.tensor.shape)}, strides {self.tensor.stride()}"
            raise ValueError(f"tensor: expected 1 to 5 dimensions, the last of them contiguous, got {got}")
        if len(self.box) != self.tensor.dim():
            raise ValueError(f"box: expected {self.tensor.dim()} sizes, got {self.box!r}")
        if self.swizzle not in _SWIZZLES:
            raise ValueError(f"swizzle: expected one of {_SWIZZLES}, got {self.swizzle!r}")

    def encoded(self, size: int) -> bytes:
        """The map as the simulator has it, in `size` bytes. ValueError when TMA cannot address the tensor."""
        tensor, rank = self.tensor, self.tensor.dim()
        strides = [stride * tensor.element_size() for stride in reversed(tensor.stride()[:-1])]
        map_ = ffi().new("unsigned char[]", _SIZE)
        error = _encoder()(
            map_,
            _TYPES[tensor.dtype],
            rank,
            ffi().cast("void *", tensor.data_ptr()),
            ffi().new("uint64_t[]", list(reversed(tensor.shape))),
            ffi().new("uint64_t[]", strides or [0]),
            ffi().new("uint32_t[]", list(reversed(self.box))),
            ffi().new("uint32_t[]", [1] * rank),
            0,
            _SWIZZLES.index(self.swizzle),
            0,
            int(self.nan_outside),
        )
        if error != 0:
            raise ValueError(
                "expected an address and strides that are multiples of 16 bytes, boxes of at most 256 "
                "elements a side, and rows of a box that are multiples of 16 bytes and at most the swizzle's "
                f"(CUDA driver API, cuTensorMapEncodeTiled); got strides {strides} bytes, box {self.box} and "
                f"swizzle {self.swizzle}"
            )
        return bytes(ffi().buffer(map_, size))
