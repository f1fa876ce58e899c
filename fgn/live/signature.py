"""What the kernels in a CUDA C source are called and take, and Python's values as their arguments.

Only the signatures are read here, and the structs that they name; the rest of a source is the compiler's.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path

import cffi
import torch
from torch import Tensor

from fgn.native.library import ffi
from fgn.native.places import SOURCES

# ------------------------------------------------------------------------------------------------------------
# Text


def blanked(source: str) -> str:
    """The source with spaces in place of comments and quotes, so that all else stays where it is."""
    comments_and_quotes = r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
    return re.sub(comments_and_quotes, lambda match: re.sub(r"[^\n]", " ", match[0]), source, flags=re.S)


def _with_headers(source: str, seen: set[Path]) -> str:
    """The headers of `cuda_c/` that the source includes, and then the source."""
    text = ""
    for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', source, re.M):
        path = SOURCES / name
        if path.is_file() and path not in seen:
            seen.add(path)
            text += _with_headers(path.read_text(), seen)
    return text + source


# ------------------------------------------------------------------------------------------------------------
# Types

# CUDA's vectors.
VECTORS = {
    f"{name}{count}": (element, "xyzw"[:count])
    for name, element in (("int", "int"), ("uint", "unsigned"), ("float", "float"), ("double", "double"))
    for count in {"float": (2, 3, 4), "int": (2, 3, 4), "double": (2,)}.get(name, (2, 4))
}
_QUALIFIERS = r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__)\b"
_DECLARATIONS = (
    r"^[ \t]*#[ \t]*define[ \t]+\w+[ \t]+\d+[ \t]*$"
    r"|^(?:typedef\s+)?(?:struct|enum)\b[^;{}()]*\{[^{}]*\}[^;{}()]*;"
    r"|^typedef\b[^;{}()]*;"
)


def _interface(source: str) -> cffi.FFI:
    """The types that a parameter can have: C's, CUDA's vectors, those of fgn.h, and the source's structs."""
    interface = cffi.FFI()
    interface.include(ffi())
    for name, (element, members) in VECTORS.items():
        interface.cdef(f"typedef struct {name} {{ {element} {', '.join(members)}; }} {name};")
    headers_known = {SOURCES / "fgn.h", SOURCES / "shared" / "portable.h"}
    text = blanked(_with_headers(source, headers_known))
    for declaration in re.findall(_DECLARATIONS, text, re.M):
        try:
            interface.cdef(re.sub(_QUALIFIERS, " ", declaration))
        except (cffi.CDefError, cffi.FFIError):
            continue  # if a kernel takes it, its parameter is refused
    return interface


def _is_vector(ctype) -> bool:
    return ctype.kind == "struct" and ctype.cname.removeprefix("struct ") in VECTORS


def _is_signed(ctype) -> bool:
    return ctype.cname == "char" or int(ffi().cast(ctype, -1)) < 0


def _dtype(item) -> torch.dtype | None:
    """The dtype of tensors whose elements a C type can point at; None when there is none."""
    if _is_vector(item):
        item = item.fields[0][1].type
    if item.kind != "primitive":
        return None
    floats = {"float": torch.float32, "double": torch.float64, "_Bool": torch.bool, "long double": None}
    if item.cname in floats:
        return floats[item.cname]
    return getattr(torch, f"{'' if _is_signed(item) else 'u'}int{8 * ffi().sizeof(item)}")


def _has_values(ctype) -> bool:
    """Whether Python has values for a type."""
    if ctype.kind == "struct":
        return bool(ctype.fields) and all(_has_values(member.type) for _, member in ctype.fields)
    if ctype.kind == "array":
        return ctype.length is not None and _has_values(ctype.item)
    if ctype.kind == "pointer":
        return ctype.item.kind == "void" or _dtype(ctype.item) is not None
    return ctype.kind == "enum" or (ctype.kind == "primitive" and ctype.cname != "long double")


# ------------------------------------------------------------------------------------------------------------
# Kernels


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel. declaration: as C has it. type: as cffi knows it."""

    name: str
    declaration: str
    type: object


@dataclass(frozen=True)
class Signature:
    """A kernel's name and parameters. interface: of the source that it is in."""

    kernel: str
    parameters: tuple[Parameter, ...]
    interface: cffi.FFI

    def __str__(self) -> str:
        return f"{self.kernel}({', '.join(parameter.declaration for parameter in self.parameters)})"


def _parameter(interface: cffi.FFI, kernel: str, text: str) -> Parameter:
    words = re.sub(r"\s*\*\s*", " *", " ".join(text.split())).replace("* *", "**")
    declaration = re.sub(r" ?\b(?:__restrict__|__restrict|__grid_constant__)\b ?", "", words)
    bare = re.sub(_QUALIFIERS, " ", text)
    name = re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*$", bare)
    try:
        ctype = interface.typeof(bare)
        if ctype.kind == "array":
            ctype = interface.typeof(interface.getctype(ctype.item, "*"))
    except (cffi.CDefError, cffi.FFIError):
        ctype = None
    if ctype is None or name is None or not _has_values(ctype):
        raise ValueError(
            f"{kernel}: parameter {declaration!r}: expected a number, a pointer to numbers, or a struct of "
            "these that the source defines"
        )
    return Parameter(name[1], declaration, ctype)


def signatures(source: str) -> dict[str, Signature]:
    """A source's kernels by name, in its order. ValueError when a parameter has no Python value."""
    interface = _interface(source)
    text = re.sub(r"\b__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)", " ", blanked(source))
    found = {}
    for kernel, inside in re.findall(r"\b__global__\b[^(){};]*?(\w+)\s*\(([^()]*)\)", text):
        pieces = [] if inside.strip() in ("", "void") else inside.split(",")
        parameters = tuple(_parameter(interface, kernel, piece) for piece in pieces)
        found[kernel] = Signature(kernel, parameters, interface)
    return found


# ------------------------------------------------------------------------------------------------------------
# Arguments


@dataclass
class Arguments:
    """The arguments of one launch. tensors: those among them, by the names that C has for them."""

    tensors: dict[str, Tensor] = field(default_factory=dict)

    def values(self, signature: Signature, given: Sequence) -> list:
        """What cffi puts into memory for each argument. Errors name the argument and what was expected."""
        parameters = signature.parameters
        if len(given) != len(parameters):
            raise TypeError(f"expected {len(parameters)} arguments for {signature}, got {len(given)}")
        pairs = zip(parameters, given, strict=True)
        return [self._value(parameter.name, parameter.type, value) for parameter, value in pairs]

    def _value(self, name: str, ctype, value):
        if ctype.kind == "pointer":
            return self._pointer(name, ctype, value)
        if ctype.kind == "struct":
            return self._struct(name, ctype, value)
        if ctype.kind == "array":
            if not isinstance(value, Sequence) or len(value) > ctype.length:
                raise TypeError(f"{name}: expected a sequence of at most {ctype.length}, got {value!r}")
            return [self._value(f"{name}[{i}]", ctype.item, item) for i, item in enumerate(value)]
        return _number(name, ctype, value)

    def _struct(self, name: str, ctype, value):
        members = dict(ctype.fields)
        if _is_vector(ctype) and isinstance(value, Sequence) and len(value) == len(members):
            value = dict(zip(members, value, strict=True))
        if not isinstance(value, Mapping):
            raise TypeError(f"{name}: expected a dict for {ctype.cname}, got {_described(value)}")
        unknown = [key for key in value if key not in members]
        if unknown:
            raise ValueError(
                f"{name}: expected members of {ctype.cname} ({', '.join(members)}), got {unknown[0]!r}"
            )
        return {key: self._value(f"{name}.{key}", members[key].type, item) for key, item in value.items()}

    def _pointer(self, name: str, ctype, value):
        if value is None:
            return ffi().NULL
        dtype = _dtype(ctype.item)
        wanted = f"a {dtype} tensor" if dtype else "a tensor"
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} ({ctype.cname}): expected {wanted}, got {_described(value)}")
        if dtype not in (None, value.dtype):
            raise TypeError(f"{name} ({ctype.cname}): expected {wanted}, got {value.dtype}")
        if value.layout != torch.strided or not value.is_contiguous():
            got = f"strides {value.stride()}" if value.layout == torch.strided else value.layout
            raise ValueError(
                f"{name}: expected a contiguous tensor (a kernel is given its memory as it is), got {got}"
            )
        if value.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                f"{name} requires grad, and a kernel has no backward: "
                "call it inside torch.no_grad() or torch.inference_mode()"
            )
        if _is_vector(ctype.item) and value.data_ptr() % ffi().sizeof(ctype.item):
            size = ffi().sizeof(ctype.item)
            raise ValueError(f"{name} ({ctype.cname}): expected an address that is a multiple of {size}")
        first = next(iter(self.tensors.items()), None)
        if first is not None and value.device != first[1].device:
            raise RuntimeError(
                f"{name}: expected it on {first[1].device}, where {first[0]} is, got {value.device}"
            )
        self.tensors[name] = value
        return ffi().cast("void *", value.data_ptr())


def _described(value) -> str:
    if isinstance(value, Tensor):
        return f"a {value.dtype} tensor"
    return f"{type(value).__name__} {value!r}"[:80]


def _number(name: str, ctype, value):
    """An int or float that C's type can hold."""
    if ctype.cname in ("float", "double"):
        if isinstance(value, Tensor) or not isinstance(value, Real):
            raise TypeError(f"{name} ({ctype.cname}): expected a float, got {_described(value)}")
        value = float(value)
        if ctype.cname == "float" and math.isfinite(value) and math.isinf(float(ffi().cast("float", value))):
            raise ValueError(f"{name} (float): expected a value that a float can hold, got {value}")
        return value
    try:
        if isinstance(value, Tensor):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} ({ctype.cname}): expected an int, got {_described(value)}") from None
    low, high = _range(ctype)
    if not low <= number <= high:
        raise ValueError(f"{name} ({ctype.cname}): expected {low} <= {name} <= {high}, got {number}")
    return ffi().cast(ctype, number) if ctype.cname == "char" else number


@functools.cache
def _range(ctype) -> tuple[int, int]:
    if ctype.cname == "_Bool":
        return 0, 1
    bits = 8 * ffi().sizeof(ctype)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if _is_signed(ctype) else (0, (1 << bits) - 1)
