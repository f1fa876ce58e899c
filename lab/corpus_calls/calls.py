"""A call of a public kernel, what it must compute, and the pieces that tables of them are made of.

Random arguments come from one generator, which the runner seeds before each call. All sizes are small, and
where a kernel allows it they are no multiples of its block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from launch_form import At
from torch import Tensor

generator = torch.Generator()
f16, bf16, i8, u8 = torch.float16, torch.bfloat16, torch.int8, torch.uint8


@dataclass(frozen=True)
class Run:
    """One call of a kernel, and its reference.

    file: in its repository. block, grid: as in kernel[grid, block]. arguments: makes them. expected: takes
    the arguments as they were before, floats as float64, and returns what they must be afterwards, by their
    places; the tensors may have other shapes. tolerance: of the largest difference, relative to the largest
    value. bug: what is wrong in the kernel itself, where `check` reports it or its result is not what its
    author wanted; empty when it must be right and unflagged. within: the file that includes the kernel's,
    where that one does not stand alone.
    """

    file: str
    kernel: str
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    arguments: Callable[[], tuple]
    expected: Callable[..., dict[int, Tensor]]
    template: tuple | None = None
    shared: int = 0
    tolerance: float = 1e-4
    bug: str = ""
    within: str = ""


def at(file: str, kernel: str, **more) -> At:
    """`at(file, kernel, template=...)[grid, block, shared](arguments, expected)` is a `Run`."""
    return At(partial(Run, file, kernel, **more))


def floats(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Uniform in [-1, 1)."""
    return (torch.rand(*size, generator=generator) * 2 - 1).to(dtype)


def integers(low: int, high: int, *size: int, dtype: torch.dtype = torch.int32) -> Tensor:
    return torch.randint(low, high, size, generator=generator).to(dtype)


def zeros(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(*size, dtype=dtype)


def ints(*size: int) -> Tensor:
    """Zeros of int32, for results."""
    return torch.zeros(*size, dtype=torch.int32)


def positive_definite(n: int) -> Tensor:
    a = floats(n, n)
    return a @ a.T + n * torch.eye(n)


def blocks_of(x: Tensor, size: int) -> Tensor:
    """x in rows of `size`, the last one filled up with zeros."""
    return torch.nn.functional.pad(x.flatten(), (0, -x.numel() % size)).view(-1, size)
