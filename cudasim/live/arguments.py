"""Python's values as the arguments of a kernel: checked against the parameters' types, which the compiler
reports, and packed into bytes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cudasim.arrays import Array, array_of, is_array, loaded_torch, on_cpu
from cudasim.building.library import ffi
from cudasim.live.numbers import described, is_float, packed, size_of
from cudasim.live.tensor_maps import TensorMap
from cudasim.live.textures import Texture

# ------------------------------------------------------------------------------------------------------------
# Types

# CUDA's vector types, and the dtypes of their elements.
_ELEMENTS = {
    "char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16",
    "int": "int32", "uint": "uint32", "long": "int64", "ulong": "uint64",
    "longlong": "int64", "ulonglong": "uint64", "float": "float32", "double": "float64",
    "dim": "uint32",
}  # fmt: skip
_SIXTEEN_BITS = {
    "sim_float16<sim_binary16>": "float16",
    "__half": "float16",
    "sim_float16<sim_bfloat16>": "bfloat16",
    "__nv_bfloat16": "bfloat16",
    "sim_float16x2<sim_binary16>": "float16",
    "__half2": "float16",
    "sim_float16x2<sim_bfloat16>": "bfloat16",
    "__nv_bfloat162": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
}
_SHOWN = {
    "sim_float16<sim_binary16>": "__half",
    "sim_float16<sim_bfloat16>": "__nv_bfloat16",
    "sim_float16x2<sim_binary16>": "__half2",
    "sim_float16x2<sim_bfloat16>": "__nv_bfloat162",
}


@dataclass(frozen=True)
class Member:
    """A member of a struct, and its offset in bytes."""

    name: str
    type: Type
    offset: int


@dataclass(frozen=True)
class Type:
    """A type of C++. kind: see sim_described in entry.hpp. item: the type to which a pointer points, or of an
    array's elements.
    """

    name: str
    kind: str
    size: int
    alignment: int
    item: Type | None = None
    members: tuple[Member, ...] = field(default=(), compare=False)

    @property
    def dtype(self) -> str | None:
        """The dtype of tensors with elements of this type; for a vector, the dtype of its elements."""
        if self.kind == "b":
            return "bool"
        if self.kind == "f":
            return {4: "float32", 8: "float64"}.get(self.size)
        if self.kind in "iu":
            return f"{'u' if self.kind == 'u' else ''}int{8 * self.size}"
        if self.name in _SIXTEEN_BITS:
            return _SIXTEEN_BITS[self.name]
        vector = re.fullmatch(r"([a-z]+)([1234])", self.name)
        return _ELEMENTS.get(vector[1]) if vector and self.kind == "s" else None

    @property
    def count(self) -> int:
        """The number of elements of an array or a vector."""
        if self.kind == "a":
            return self.size // self.item.size if self.item.size else 0
        return self.size // size_of(self.dtype) if self.kind == "s" and self.dtype else 1

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

    moves: (begin, end, distance) of memory that the launch has copied that far away.
    """

    moves: list[tuple[int, int, int]] = field(default_factory=list)
    tensors: dict[str, Array] = field(default_factory=dict)
    kept: list = field(default_factory=list)  # until the launch has ended

    def packed(self, names: Sequence[str], types: Sequence[Type], given: Sequence) -> list[bytes]:
        """Returns each argument as bytes. Errors name the argument, what was expected and what came."""
        return [self._bytes(name, kind, value) for name, kind, value in zip(names, types, given, strict=True)]

    def _bytes(self, name: str, kind: Type, value) -> bytes:
        if kind.kind == "p":
            return struct.pack("P", self._pointer(name, kind, value))
        if isinstance(value, Texture) and (kind.kind, kind.size) == ("u", 8):
            self.tensors |= {name: value.memory, f"{name} (descriptor)": value.descriptor}
            return struct.pack("P", value.descriptor.address)
        if kind.name == "CUtensorMap":
            return self._tensor_map(name, kind, value)
        if kind.kind == "a":
            return self._array(name, kind, value)
        if kind.kind in "biuf" or (kind.dtype and kind.count == 1):
            return packed(name, kind, value)
        if kind.kind == "s":
            return self._struct(name, kind, value)
        raise TypeError(f"{name} ({kind}): Python has no value for this type")

    def _tensor_map(self, name: str, kind: Type, value) -> bytes:
        if not isinstance(value, TensorMap):
            raise TypeError(f"{name} ({kind}): expected an cudasim.TensorMap, got {described(value)}")
        self.tensors[name] = value.memory
        try:
            return value.encoded(kind.size)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def _array(self, name: str, kind: Type, value) -> bytes:
        if is_array(value):
            value = value.tolist()
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)) or len(value) > kind.count:
            raise TypeError(f"{name}: expected a sequence of at most {kind.count}, got {described(value)}")
        data = b"".join(self._bytes(f"{name}[{i}]", kind.item, item) for i, item in enumerate(value))
        return data.ljust(kind.size, b"\0")

    def _struct(self, name: str, kind: Type, value) -> bytes:
        members = {member.name: member for member in kind.members}
        if kind.dtype is not None:
            element = _scalar_type(kind.dtype)
            members = {"xyzw"[i]: Member("xyzw"[i], element, i * element.size) for i in range(kind.count)}
        if isinstance(value, (bytes, bytearray)) and len(value) == kind.size:
            return bytes(value)
        if members and is_array(value):
            value = value.tolist()
        is_sequence = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        if members and is_sequence and len(value) == len(members):
            value = dict(zip(members, value, strict=True))
        if not isinstance(value, Mapping):
            wanted = "a dict" if members else f"its {kind.size} bytes"
            raise TypeError(f"{name}: expected {wanted} for {kind}, got {described(value)}")
        unknown = [key for key in value if key not in members]
        if unknown and not members:
            raise TypeError(
                f"{name}: expected the {kind.size} bytes of {kind}, which has no members that Python can "
                f"fill (its own are private, bit-fields, or a template's), got {described(value)}"
            )
        if unknown:
            listed = ", ".join(members)
            raise ValueError(f"{name}: expected public members of {kind} ({listed}), got {unknown[0]!r}")
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
        if item.kind == "p" and not is_array(value):
            return self._pointers(name, kind, value)
        if item.name == "CUtensorMap":
            encoded = on_cpu(bytearray(self._tensor_map(name, item, value)))
            self.kept.append(encoded)
            self.tensors[f"{name} (map)"] = encoded
            return encoded.address
        dtype = "int64" if item.kind == "p" else item.dtype
        wanted = f"a {dtype} tensor" if dtype else "a tensor"
        if not is_array(value):
            raise TypeError(f"{name} ({kind}): expected {wanted}, got {described(value)}")
        given = _array(name, value)
        if dtype not in (None, given.dtype) and not _same_bits(dtype, given.dtype, item):
            raise TypeError(f"{name} ({kind}): expected {wanted}, got {given.dtype}")
        if not given.is_contiguous:
            raise ValueError(
                f"{name}: expected a contiguous tensor (a kernel is given its memory as it is), got strides "
                f"{given.strides}"
            )
        if "const" not in kind.name and _is_read_only(value):
            raise ValueError(f"{name}: expected an array that may be written to, got a read-only one")
        if item.alignment and given.address % item.alignment:
            raise ValueError(f"{name} ({kind}): expected an address that is a multiple of {item.alignment}")
        first = next(iter(self.tensors.items()), None)
        if first is not None and given.device != first[1].device:
            raise RuntimeError(
                f"{name}: expected it on {first[1].device}, where {first[0]} is, got {given.device}"
            )
        self.tensors[name] = given
        return self.moved(given.address)

    def moved(self, address: int) -> int:
        """The launch's address for this address."""
        return address + next((far for begin, end, far in self.moves if begin <= address < end), 0)

    def _pointers(self, name: str, kind: Type, value) -> int:
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            raise TypeError(f"{name} ({kind}): expected a list of tensors, got {described(value)}")
        addresses = [self._pointer(f"{name}[{i}]", kind.item, item) for i, item in enumerate(value)]
        device = next((tensor.device for tensor in self.tensors.values()), "cpu")
        table = on_cpu(bytearray(struct.pack(f"{len(addresses)}q", *addresses)), "int64")
        if device != "cpu":
            table = array_of(loaded_torch().from_numpy(table.value).to(device))
        self.kept.append(table)
        self.tensors[name] = table
        return table.address


def _array(name: str, value) -> Array:
    """The memory of a pointer argument. Errors name what a kernel cannot take."""
    torch = loaded_torch()
    if torch is not None and isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise ValueError(
                f"{name}: expected a contiguous tensor (a kernel is given its memory as it is), got "
                f"{value.layout}"
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
    try:
        return array_of(value)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None


def _is_read_only(value) -> bool:
    flags = getattr(value, "flags", None)
    return flags is not None and not flags.writeable


def _scalar_type(dtype: str) -> Type:
    if dtype in ("float16", "bfloat16"):
        shown = "__half" if dtype == "float16" else "__nv_bfloat16"
        return Type(shown, "s", 2, 2)
    kind = "f" if is_float(dtype) else "b" if dtype == "bool" else "u" if dtype[0] == "u" else "i"
    names = {"float32": "float", "float64": "double", "int32": "int", "uint32": "unsigned int"}
    return Type(names.get(dtype, dtype), kind, size_of(dtype), size_of(dtype))


def _same_bits(wanted: str, got: str, item: Type) -> bool:
    """Whether a tensor's elements have the same bits as the wanted type: bytes pass for characters of either
    sign and for bools, and 64-bit integers for those with another name in C++."""
    bytes_ = ("int8", "uint8", "bool")
    return (
        item.size == 1 and item.kind in "iub" and wanted in bytes_ and got in bytes_ and item.name == "char"
    )


def cpp_name(dtype: str) -> str:
    """The C++ type of a tensor's elements with this dtype."""
    names = {
        "float32": "float", "float64": "double", "float16": "__half", "bool": "bool",
        "bfloat16": "__nv_bfloat16", "int8": "signed char", "uint8": "unsigned char",
        "int16": "short", "uint16": "unsigned short", "int32": "int", "uint32": "unsigned",
        "int64": "long long", "uint64": "unsigned long long",
    }  # fmt: skip
    if dtype not in names:
        raise TypeError(f"template: C++ has no type for {dtype}")
    return names[dtype]


def in_memory(values: Sequence[bytes]):
    """The arguments for a launch: pointers to values in one piece of memory; the bytes of that memory; and
    the object that keeps it alive."""
    place, places = 8 * len(values), []
    for value in values:
        # The distance that the strictest alignment needs.
        place = -(-place // 16) * 16
        places.append(place)
        place += len(value)
    memory = ffi().new("char[]", place + 32)
    # Kernels may read a vector by an aligned load, so the memory is aligned too.
    start = int(ffi().cast("uintptr_t", memory))
    start += -start % 16
    pointers = ffi().cast("void **", start)
    for index, (value, offset) in enumerate(zip(values, places, strict=True)):
        pointers[index] = ffi().cast("void *", start + offset)
        ffi().memmove(pointers[index], value, len(value))
    return pointers, place, memory
