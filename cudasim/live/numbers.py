"""Python's numbers as the bytes of C++'s types."""

from __future__ import annotations

import importlib
import math
import operator
import struct
from numbers import Real

from cudasim.arrays import is_array

# By dtype: bytes, and struct's format if there is one.
FORMATS = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip
_OTHER_SIZES = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "complex64": 8, "complex128": 16}


def size_of(dtype: str) -> int:
    """The bytes of one element."""
    return _OTHER_SIZES.get(dtype) or struct.calcsize(FORMATS[dtype])


def is_float(dtype: str) -> bool:
    return "float" in dtype


def described(value) -> str:
    """Describes the value that came, for a message."""
    if is_array(value):
        return f"a {value.dtype} tensor".replace("torch.", "")
    return f"{type(value).__name__} {value!r}"[:80]


def _bfloat16(value: float) -> bytes:
    """The float32 to the nearest bfloat16, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    if math.isnan(value):
        return struct.pack("<H", 0x7FC0)
    rounded = bits + 0x7FFF + (bits >> 16 & 1) >> 16
    if rounded & 0x7FFF == 0x7F80 and math.isfinite(value):
        raise OverflowError
    return struct.pack("<H", rounded)


def _as_float(dtype: str, value: float) -> bytes:
    if dtype == "bfloat16":
        return _bfloat16(value)
    if dtype not in FORMATS:
        torch = importlib.import_module("torch")
        largest = torch.finfo(getattr(torch, dtype))
        if math.isfinite(value) and abs(value) > largest.max * (1 + largest.eps / 4):
            raise OverflowError
        return bytes(torch.tensor([value], dtype=getattr(torch, dtype)).view(torch.uint8).tolist())
    return struct.pack(f"<{FORMATS[dtype]}", value)


def packed(name: str, kind, value) -> bytes:
    """An int or float that the type can hold, as its bytes. kind: a Type of cudasim/live/arguments.py."""
    dtype = kind.dtype
    if is_float(dtype):
        if is_array(value) or not isinstance(value, Real):
            raise TypeError(f"{name} ({kind}): expected a float, got {described(value)}")
        try:
            return _as_float(dtype, float(value))
        except OverflowError:
            held = "a float" if dtype == "float32" else dtype
            raise ValueError(
                f"{name} ({kind}): expected a value that {held} can hold, got {float(value)}"
            ) from None
    try:
        if is_array(value):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} ({kind}): expected an int, got {described(value)}") from None
    bits = 8 * kind.size
    low, high = (0, 1) if kind.kind == "b" else (0, (1 << bits) - 1)
    if kind.kind == "i":
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    if not low <= number <= high:
        raise ValueError(f"{name} ({kind}): expected {low} <= {name} <= {high}, got {number}")
    return struct.pack(f"<{FORMATS[dtype]}", number)


def dim3(name: str, size) -> dict[str, int]:
    """CUDA's dim3 from an int or up to three of them."""
    sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    try:
        sizes = tuple(map(operator.index, sizes))
    except TypeError:
        sizes = ()
    if not 1 <= len(sizes) <= 3:
        raise TypeError(f"{name}: expected an int or up to three of them, (x, y, z), got {size!r}")
    if any(not 0 <= size < 1 << 32 for size in sizes):
        raise ValueError(f"{name}: expected sizes that 32 bits hold, got {size!r}")
    return dict(zip("xyz", (*sizes, 1, 1), strict=False))


def bytes_of_shared(given) -> int:
    """The size of a block's dynamic shared memory."""
    try:
        size = operator.index(given)
    except TypeError:
        raise TypeError(f"shared_bytes: expected an int, got {given!r}") from None
    if not 0 <= size < 1 << 31:
        raise ValueError(f"shared_bytes: expected 0 <= shared_bytes < 2**31, got {size}")
    return size
