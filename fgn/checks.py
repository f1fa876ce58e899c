"""Checks of a call's arguments, made before anything is launched. Each exception names the argument:

TypeError     not a tensor, or of a dtype or a layout that is not expected
ValueError    a shape, a count or a version that nothing here accepts
RuntimeError  tensors on different devices
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import torch
from torch import Tensor

from cudasim.building.compilers import MissingToolError
from cudasim.building.library import BuildError
from fgn.precision import OF_CALLS, check_precision
from fgn.structs import C_TYPES, index_of_version


def check_kind(name: str, value, device: torch.device | None = None, dtypes=tuple(C_TYPES)):
    """Checks everything except the shape of one argument."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(value).__name__}")
    if value.dtype not in dtypes:
        expected = " or ".join(map(str, dict.fromkeys(dtypes)))
        raise TypeError(f"{name}: expected dtype {expected}, got {value.dtype}")
    if value.layout is not torch.strided:
        raise TypeError(f"{name}: expected a dense tensor, got one of layout {value.layout}")
    if device is not None and value.device != device:
        raise RuntimeError(f"{name}: expected it on {device}, where x is, got {value.device}")


def check_shape(name: str, value: Tensor, *expected: int | str):
    """Checks the shape of one argument. In `expected`, a name stands for any size."""
    sizes = tuple(value.shape)
    known = [size if isinstance(name, str) else name for name, size in zip(expected, sizes, strict=False)]
    if len(sizes) != len(expected) or list(sizes) != known:
        words = ", ".join(map(str, expected)) + ("," if len(expected) == 1 else "")
        raise ValueError(f"{name}: expected shape ({words}), got {sizes}")


def check_vectors(length: int, x: Tensor, vectors: Mapping[str, Tensor | None]):
    for name, value in vectors.items():
        if value is not None:
            check_kind(name, value, x.device, (x.dtype, torch.float32))
            check_shape(name, value, length)


def check_linear(x: Tensor, weight: Tensor, vectors: Mapping[str, Tensor | None]) -> tuple[int, int, int]:
    """Checks x, weight and the (out_features,) vectors. Returns batch, in_features and out_features."""
    check_input(x)
    check_kind("weight", weight, x.device, (x.dtype,))
    check_shape("weight", weight, "out_features", "in_features")
    out_features, in_features = weight.shape
    for name, size in (("in_features", in_features), ("out_features", out_features)):
        if size == 0:
            raise ValueError(f"{name}: expected 1 or more, got 0 in a weight of shape {tuple(weight.shape)}")
    check_shape("x", x, "batch", in_features)
    check_vectors(out_features, x, vectors)
    return x.shape[0], in_features, out_features


def check_input(x):
    """Checks x: (batch, in_features), of a floating dtype that the kernels have."""
    check_kind("x", x)
    check_shape("x", x, "batch", "in_features")


def check_groups(groups: int, channels: int, name: str = "groups"):
    if groups < 1 or channels % groups != 0:
        raise ValueError(f"{name}: expected a number that divides {channels} channels, got {groups}")


def check_choice(version: str | None, precision: str | None):
    """Refuses a version or a precision that does not exist, before there are tensors.

    ValueError lists the existing names. Without a library, names of versions cannot be checked, and pass.
    """
    if precision is not None:
        check_precision(precision, OF_CALLS)
    if version is not None:
        with suppress(MissingToolError, BuildError):
            index_of_version(version, torch.device("cpu"))


def check_call(version, precision, x, others: Mapping[str, Tensor], tensors=()):
    """Refuses, with fgn's messages, what torch.library would refuse with other messages, or would not
    refuse."""
    if version is not None and not isinstance(version, str):
        raise TypeError(f"version: expected None or the name of a version, got {type(version).__name__}")
    if precision is not None and not isinstance(precision, str):
        raise TypeError(f"precision: expected None or a precision, got {type(precision).__name__}")
    check_kind("x", x)
    for name, value in others.items():
        check_kind(
            name, value, x.device, (x.dtype,) if name in ("weight", *tensors) else (x.dtype, torch.float32)
        )
