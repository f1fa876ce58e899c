"""A launch of a public kernel at a size for a GPU, and the pieces that tables of them are made of.

Arguments are made on `device`, the GPU where launches are timed and the CPU where they are predicted: their
values differ, what the kernels do with them does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from launch_form import At
from torch import Tensor

device = "cpu"
f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
i8, u8, i32, u32, i64 = torch.int8, torch.uint8, torch.int32, torch.uint32, torch.int64


@dataclass(frozen=True)
class Timed:
    """One launch. file: in its repository, or in `within`, the file that includes it. ladder: the name of the
    problem, where several kernels solve the same one at the same size."""

    file: str
    kernel: str
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    arguments: Callable[[], tuple]
    template: tuple | None = None
    shared: int = 0
    ladder: str = ""
    within: str = ""


def at(file: str, kernel: str, **more) -> At:
    """`at(file, kernel, template=..., ladder=...)[grid, block, shared](arguments)` is a `Timed`."""
    return At(partial(Timed, file, kernel, **more))


def half(repository: str) -> str:
    """The model is fitted to one half of the repositories and judged by the other: by the first digit of the
    SHA-1 of the name."""
    return "calibration" if int(hashlib.sha1(repository.encode()).hexdigest()[0], 16) % 2 == 0 else "aside"


def up(value: int, by: int) -> int:
    """Blocks of `by` for so many."""
    return -(-value // by)


def floats(*size: int, dtype: torch.dtype = f32) -> Tensor:
    """Uniform in [-1, 1)."""
    return (torch.rand(*size, device=device) * 2 - 1).to(dtype)


def positive(*size: int, dtype: torch.dtype = f32) -> Tensor:
    """Uniform in [0.01, 1.01)."""
    return (torch.rand(*size, device=device) + 0.01).to(dtype)


def integers(low: int, high: int, *size: int, dtype: torch.dtype = i32) -> Tensor:
    return torch.randint(low, high, size, device=device).to(dtype)


def zeros(*size: int, dtype: torch.dtype = f32) -> Tensor:
    return torch.zeros(*size, dtype=dtype, device=device)
