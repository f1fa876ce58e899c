"""Python's values as the arguments of a kernel: checked against the parameters' types, which the compiler
reports, and packed into bytes.
"""

from __future__ import annotations

import math
import operator
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real

import torch
from torch import Tensor

from fgn.live.tensor_maps import TensorMap
from fgn.live.textures import Texture

# ------------------------------------------------------------------------------------------------------------
# Types

# CUDA's vector types, and the dtypes of their elements.
_ELEMENTS = {
    "char": torch.int8, "uchar": torch.uint8, "short": torch.int16, "ushort": torch.uint16,
    "int": torch.int32, "uint": torch.uint32, "long": torch.int64, "ulong": torch.uint64,
    "longlong": torch.int64, "ulonglong": torch.uint64, "float": torch.float32, "double": torch.float64,
    "dim": torch.uint32,
}  # fmt: skip
_FORMATS = {
    torch.int8: "b", torch.uint8: "B", torch.int16: "h", torch.uint16: "H", torch.int32: "i",
    torch.uint32: "I", torch.int64: "q", torch.uint64: "Q", torch.float32: "f", torch.float64: "d",
    torch.bool: "?",
}  # fmt: skip
_SIXTEEN_BITS = {
    "sim_float16<sim_binary16>": torch.float16,
    "__half": torch.float16,
    "sim_float16<sim_bfloat16>": torch.bfloat16,
    "__nv_bfloat16": torch.bfloat16,
    "sim_float16x2<sim_binary16>": torch.float16,
    "__half2": torch.float16,
    "sim_float16x2<sim_bfloat16>": torch.bfloat16,
    "__nv_bfloat162": torch.bfloat16,
    "__nv_fp8_e4m3": torch.float8_e4m3fn,
    "__nv_fp8_e5m2": torch.float8_e5m2,
}
_SHOWN = {
    "sim_float16<sim_binary16>": "__half",
    "sim_float16<sim_bfloat16>": "__nv_bfloat16",
    "sim_float16x2<sim_binary16>": "__half2",
    "sim_float16x2<sim_bfloat16>": "__nv_bfloat162",
}


@dataclass(frozen=True)
class Member:
    """A member of a struct, and how many bytes into it."""

    name: str
    type: Type
    offset: int


@dataclass(frozen=True)
class Type:
    """A type of C++. kind: see sim_described in entry.hpp. item: what a pointer points to, or an array is
    of.
    """

    name: str
    kind: str
    size: int
    alignment: int
    item: Type | None = None
    members: tuple[Member, ...] = field(default=(), compare=False)

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of the tensors whose elements have this type; of a vector, the dtype of its elements."""
        if self.kind == "b":
            return torch.bool
        if self.kind == "f":
            return {4: torch.float32, 8: torch.float64}.get(self.size)
        if self.kind in "iu":
            return getattr(torch, f"{'u' if self.kind == 'u' else ''}int{8 * self.size}")
        if self.name in _SIXTEEN_BITS:
            return _SIXTEEN_BITS[self.name]
        vector = re.fullmatch(r"([a-z]+)([1234])", self.name)
        return _ELEMENTS.get(vector[1]) if vector and self.kind == "s" else None

    @property
    def count(self) -> int:
        """How many elements an array or a vector has."""
        if self.kind == "a":
            return self.size // self.item.size
        return self.size // self.dtype.itemsize if self.kind == "s" and self.dtype else 1

    def __str__(self) -> str:
        if self.kind == "p":
            return f"{self.item} *"
        return _SHOWN.get(self.name, self.name)


# ------------------------------------------------------------------------------------------------------------
# Arguments


@dataclass
class Arguments:
    """The arguments of one launch. tensors: the tensors among the arguments, by the names of their
    parameters.

    moves: (begin, end, distance) of memory of which the launch has a copy that far away.
    """

    moves: list[tuple[int, int, int]] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    kept: list = field(default_factory=list)  # until the launch has ended

    def packed(self, names: Sequence[str], types: Sequence[Type], given: Sequence) -> list[bytes]:
        """Each argument as bytes. Errors name the argument, what was expected and what came."""
        return [self._bytes(name, kind, value) for name, kind, value in zip(names, types, given, strict=True)]

    def _bytes(self, name: str, kind: Type, value) -> bytes:
        if kind.kind == "p":
            return struct.pack("P", self._pointer(name, kind, value))
        if isinstance(value, Texture) and (kind.kind, kind.size) == ("u", 8):
            self.tensors |= {name: value.tensor, f"{name} (descriptor)": value.descriptor}
            return struct.pack("P", value.descriptor.data_ptr())
        if kind.name == "CUtensorMap":
            return self._tensor_map(name, kind, value)
        if kind.kind == "a":
            return self._array(name, kind, value)
        if kind.kind in "biuf" or (kind.dtype and kind.count == 1):
            return _number(name, kind, value)
        if kind.kind == "s":
            return self._struct(name, kind, value)
        raise TypeError(f"{name} ({kind}): Python has no value for this type")

    def _tensor_map(self, name: str, kind: Type, value) -> bytes:
        if not isinstance(value, TensorMap):
            raise TypeError(f"{name} ({kind}): expected an fgn.live.TensorMap, got {_described(value)}")
        self.tensors[name] = value.tensor
        try:
            return value.encoded(kind.size)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def _array(self, name: str, kind: Type, value) -> bytes:
        if isinstance(value, Tensor):
            value = value.tolist()
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)) or len(value) > kind.count:
            raise TypeError(f"{name}: expected a sequence of at most {kind.count}, got {_described(value)}")
        data = b"".join(self._bytes(f"{name}[{i}]", kind.item, item) for i, item in enumerate(value))
        return data.ljust(kind.size, b"\0")

    def _struct(self, name: str, kind: Type, value) -> bytes:
        members = {member.name: member for member in kind.members}
        if kind.dtype is not None:
            element = Type(
                str(kind.dtype).removeprefix("torch."), "f", kind.dtype.itemsize, kind.dtype.itemsize
            )
            element = _scalar_type(kind.dtype) or element
            members = {"xyzw"[i]: Member("xyzw"[i], element, i * element.size) for i in range(kind.count)}
        if isinstance(value, (bytes, bytearray)) and len(value) == kind.size:
            return bytes(value)
        if members and isinstance(value, (Sequence, Tensor)) and not isinstance(value, (str, bytes)):
            value = value.tolist() if isinstance(value, Tensor) else value
            if len(value) == len(members):
                value = dict(zip(members, value, strict=True))
        if not isinstance(value, Mapping):
            wanted = "a dict" if members else f"its {kind.size} bytes"
            raise TypeError(f"{name}: expected {wanted} for {kind}, got {_described(value)}")
        unknown = [key for key in value if key not in members]
        if unknown:
            raise ValueError(f"{name}: expected members of {kind} ({', '.join(members)}), got {unknown[0]!r}")
        data = bytearray(kind.size)
        for key, item in value.items():
            member = members[key]
            piece = self._bytes(f"{name}.{key}", member.type, item)
            data[member.offset : member.offset + len(piece)] = piece
        return bytes(data)

    def _pointer(self, name: str, kind: Type, value) -> int:
        if value is None:
            return 0
        item = kind.item
        if item.kind == "p" and not isinstance(value, Tensor):
            return self._pointers(name, kind, value)
        if item.name == "CUtensorMap":
            encoded = torch.frombuffer(bytearray(self._tensor_map(name, item, value)), dtype=torch.uint8)
            self.kept.append(encoded)
            self.tensors[f"{name} (map)"] = encoded
            return encoded.data_ptr()
        dtype = torch.int64 if item.kind == "p" else item.dtype
        wanted = f"a {dtype} tensor" if dtype else "a tensor"
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} ({kind}): expected {wanted}, got {_described(value)}")
        if dtype not in (None, value.dtype) and not _same_bits(dtype, value.dtype, item):
            raise TypeError(f"{name} ({kind}): expected {wanted}, got {value.dtype}")
        if value.layout != torch.strided or not value.is_contiguous():
            got = f"strides {value.stride()}" if value.layout == torch.strided else value.layout
            raise ValueError(
                f"{name}: expected a contiguous tensor (a kernel is given its memory as it is), got {got}"
            )
        if value.is_neg() or value.is_conj():
            raise ValueError(
                f"{name}: expected a tensor whose memory has its values, got a view that negates them "
                "(resolve_neg() and resolve_conj() make a copy)"
            )
        if value.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                f"{name} requires grad, and a kernel has no backward: "
                "call it inside torch.no_grad() or torch.inference_mode()"
            )
        if item.alignment and value.data_ptr() % item.alignment:
            raise ValueError(f"{name} ({kind}): expected an address that is a multiple of {item.alignment}")
        first = next(iter(self.tensors.items()), None)
        if first is not None and value.device != first[1].device:
            raise RuntimeError(
                f"{name}: expected it on {first[1].device}, where {first[0]} is, got {value.device}"
            )
        self.tensors[name] = value
        return self.moved(value.data_ptr())

    def moved(self, address: int) -> int:
        """Where the launch has what is at this address."""
        return address + next((far for begin, end, far in self.moves if begin <= address < end), 0)

    def _pointers(self, name: str, kind: Type, value) -> int:
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            raise TypeError(f"{name} ({kind}): expected a list of tensors, got {_described(value)}")
        addresses = [self._pointer(f"{name}[{i}]", kind.item, item) for i, item in enumerate(value)]
        device = next((tensor.device for tensor in self.tensors.values()), torch.device("cpu"))
        table = torch.tensor(addresses, dtype=torch.int64, device=device)
        self.kept.append(table)
        self.tensors[name] = table
        return table.data_ptr()


def _scalar_type(dtype: torch.dtype) -> Type | None:
    name = str(dtype).removeprefix("torch.")
    if dtype in (torch.float16, torch.bfloat16):
        shown = "__half" if dtype == torch.float16 else "__nv_bfloat16"
        return Type(shown, "s", 2, 2)
    kind = "f" if dtype.is_floating_point else "b" if dtype == torch.bool else "u" if name[0] == "u" else "i"
    cname = {"float32": "float", "float64": "double", "int32": "int", "uint32": "unsigned int"}.get(
        name, name
    )
    return Type(cname, kind, dtype.itemsize, dtype.itemsize)


def _same_bits(wanted: torch.dtype, got: torch.dtype, item: Type) -> bool:
    """Whether a tensor's elements have the same bits as the wanted type: bytes pass for characters of either
    sign and for bools, and integers of 64 bits for those that have another name in C++."""
    bytes_ = (torch.int8, torch.uint8, torch.bool)
    return (
        item.size == 1 and item.kind in "iub" and wanted in bytes_ and got in bytes_ and item.name == "char"
    )


def _described(value) -> str:
    if isinstance(value, Tensor):
        return f"a {value.dtype} tensor"
    return f"{type(value).__name__} {value!r}"[:80]


def _number(name: str, kind: Type, value) -> bytes:
    """An int or float that the type can hold."""
    dtype = kind.dtype
    if dtype.is_floating_point:
        if isinstance(value, Tensor) or not isinstance(value, Real):
            raise TypeError(f"{name} ({kind}): expected a float, got {_described(value)}")
        value = float(value)
        if dtype == torch.float64:
            return struct.pack("d", value)
        if math.isfinite(value) and abs(value) > torch.finfo(dtype).max * (1 + torch.finfo(dtype).eps / 4):
            held = "a float" if dtype == torch.float32 else str(dtype)
            raise ValueError(f"{name} ({kind}): expected a value that {held} can hold, got {value}")
        return bytes(torch.tensor([value], dtype=dtype).view(torch.uint8).tolist())
    try:
        if isinstance(value, Tensor):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} ({kind}): expected an int, got {_described(value)}") from None
    bits = 8 * kind.size
    low, high = (0, 1) if kind.kind == "b" else (0, (1 << bits) - 1)
    if kind.kind == "i":
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    if not low <= number <= high:
        raise ValueError(f"{name} ({kind}): expected {low} <= {name} <= {high}, got {number}")
    return struct.pack(_FORMATS[dtype], number)


def cpp_name(dtype: torch.dtype) -> str:
    """The type of C++ whose values a tensor of this dtype has."""
    names = {
        torch.float32: "float", torch.float64: "double", torch.float16: "__half", torch.bool: "bool",
        torch.bfloat16: "__nv_bfloat16", torch.int8: "signed char", torch.uint8: "unsigned char",
        torch.int16: "short", torch.uint16: "unsigned short", torch.int32: "int", torch.uint32: "unsigned",
        torch.int64: "long long", torch.uint64: "unsigned long long",
    }  # fmt: skip
    if dtype not in names:
        raise TypeError(f"template: C++ has no type for {dtype}")
    return names[dtype]
