"""Tensor maps, which describe tensors to TMA, as arguments for parameters of type CUtensorMap."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from cudasim.arrays import Array, array_of, is_array
from cudasim.building.library import ffi, simulator

_SWIZZLES = (0, 32, 64, 128)  # in the order of CUtensorMapSwizzle
_TYPES = {  # the numbers of CUtensorMapDataType
    "uint8": 0, "int8": 0, "int32": 3, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
_SIZE = 128  # of a CUtensorMap, at most


@cache
def _encoder():
    ffi().cdef(
        "int sim_cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *tensor, "
        "const uint64_t *sizes, const uint64_t *strides, const uint32_t *box, "
        "const uint32_t *element_strides, int interleave, "
        "int swizzle, int promotion, int fill);",
        override=True,
    )
    return simulator().load().sim_cuTensorMapEncodeTiled


@dataclass(frozen=True)
class TensorMap:
    """A tensor whose boxes a kernel copies by TMA, `kernel[grid, block](cudasim.TensorMap(x, (64, 64)))`, for
    a parameter `const __grid_constant__ CUtensorMap map`.

    tensor: of 1 to 5 dimensions, whose last one is contiguous. box: elements along each dimension, in the
    tensor's order; a kernel's coordinates are in the other order, the contiguous one first. swizzle: 0, 32,
    64 or 128 bytes. A box is zero outside the tensor, or NaN with nan_outside.

    ValueError for what cuTensorMapEncodeTiled() of the CUDA driver refuses. Only the simulator takes tensor
    maps from Python; on a GPU, TypeError.
    """

    tensor: object
    box: tuple[int, ...]
    swizzle: int = 0
    nan_outside: bool = False
    memory: Array = field(init=False, repr=False)

    def __post_init__(self):
        memory = array_of(self.tensor) if is_array(self.tensor) else None
        if memory is None or memory.device != "cpu":
            got = memory.device if memory else type(self.tensor).__name__
            raise TypeError(
                f"tensor: expected a tensor on the cpu (the simulator has tensor maps), got {got}"
            )
        if memory.dtype not in _TYPES:
            raise TypeError(f"tensor: expected a dtype that TMA has, got {memory.dtype}")
        if not 1 <= len(memory.shape) <= 5 or memory.strides[-1] != 1:
            got = f"shape {memory.shape}, strides {memory.strides}"
            raise ValueError(f"tensor: expected 1 to 5 dimensions, the last of them contiguous, got {got}")
        if len(self.box) != len(memory.shape):
            raise ValueError(f"box: expected {len(memory.shape)} sizes, got {self.box!r}")
        if self.swizzle not in _SWIZZLES:
            raise ValueError(f"swizzle: expected one of {_SWIZZLES}, got {self.swizzle!r}")
        object.__setattr__(self, "memory", memory)

    def encoded(self, size: int) -> bytes:
        """The simulator's map, in `size` bytes. ValueError if TMA cannot address the tensor."""
        tensor, rank = self.memory, len(self.memory.shape)
        strides = [int(stride * tensor.itemsize) for stride in reversed(tensor.strides[:-1])]
        map_ = ffi().new("unsigned char[]", _SIZE)
        error = _encoder()(
            map_,
            _TYPES[tensor.dtype],
            rank,
            ffi().cast("void *", tensor.address),
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
