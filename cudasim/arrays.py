"""The arrays with which kernels are launched: torch's tensors and numpy's arrays, seen alike.

torch takes seconds to import and numpy a twentieth of one, and each is asked for only where a program has
loaded it: who has no torch has no tensors of it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Array:
    """What a launch has to know about a tensor or an array.

    value: the user's object, which lives as long as this. address: of its first element. strides: in
    elements. dtype: its name, as "float32". device: "cpu" or, with the number of a GPU, "cuda:0".
    """

    value: object
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    itemsize: int
    device: str = "cpu"

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes from its first to its last element, with any gaps between strided elements."""
        if self.count == 0:
            return 0
        steps = zip(self.shape, self.strides, strict=True)
        return (sum((count - 1) * stride for count, stride in steps) + 1) * self.itemsize

    @property
    def is_contiguous(self) -> bool:
        expected = 1
        for count, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if count != 1 and stride != expected:
                return self.count == 0
            expected *= count
        return True


def loaded_torch():
    """torch if the program has loaded it, else None."""
    return sys.modules.get("torch")


def _is_of_numpy(value, name: str) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, getattr(numpy, name))


def is_array(value) -> bool:
    torch = loaded_torch()
    is_tensor = torch is not None and isinstance(value, torch.Tensor)
    return is_tensor or isinstance(value, Array) or _is_of_numpy(value, "ndarray")


def array_of(value) -> Array:
    """The array as a launch sees it. value: a tensor of torch or an array of numpy. TypeError for anything
    else, and for a layout that is not strided memory."""
    if isinstance(value, Array):
        return value
    if _is_of_numpy(value, "ndarray"):
        if value.dtype.hasobject or value.dtype.names or value.dtype.byteorder == ">":
            raise TypeError(f"expected an array of numbers as this processor has them, got {value.dtype}")
        size = value.dtype.itemsize
        strides = tuple(stride / size for stride in value.strides)
        strides = tuple(int(s) if s == int(s) else s for s in strides)
        return Array(value, value.ctypes.data, value.shape, strides, value.dtype.name, size)
    if not is_array(value):
        raise TypeError(f"expected a tensor of torch or an array of numpy, got {type(value).__name__}")
    if value.layout != loaded_torch().strided:
        raise TypeError(f"expected a tensor in one piece of memory, got {value.layout}")
    name = str(value.dtype).removeprefix("torch.")
    shape, strides = tuple(value.shape), tuple(value.stride())
    return Array(value, value.data_ptr(), shape, strides, name, value.element_size(), str(value.device))


def dtype_name(value) -> str | None:
    """The name of a dtype of torch or of numpy, as "float32"; None for anything else."""
    torch = loaded_torch()
    if torch is not None and isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if _is_of_numpy(value, "dtype"):
        return value.name
    numpy = sys.modules.get("numpy")
    is_type = numpy is not None and isinstance(value, type) and issubclass(value, numpy.generic)
    return numpy.dtype(value).name if is_type else None


def default_device() -> str:
    """ "cuda" if the program has loaded torch and there is a GPU, else "cpu", which is the simulator."""
    torch = loaded_torch()
    return "cuda" if torch is not None and torch.cuda.is_available() else "cpu"


def on_cpu(data: bytearray, dtype: str = "uint8") -> Array:
    """An array of these bytes."""
    import numpy as np

    return array_of(np.frombuffer(data, dtype=dtype))


def typed(data, dtype: str | None, shape: tuple[int, ...]):
    """The memory of these bytes with another dtype and shape: a tensor if the program has loaded torch, else
    an array of numpy. A dtype that numpy lacks becomes unsigned integers."""
    torch = loaded_torch()
    if torch is not None:
        tensor = torch.as_tensor(data)
        return tensor if dtype is None else tensor.view(getattr(torch, dtype)).view(shape)
    if dtype is None:
        return data
    names = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
    return data.view(names.get(dtype, dtype)).reshape(shape)
