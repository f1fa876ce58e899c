"""Which tensors a chain takes: checks at the call what the kernels multiply, add and scale by."""

from __future__ import annotations

import torch
from torch import Tensor

from fgn import autocast
from fgn.functional import C_TYPES


class NotAChain(Exception):
    """Raised with the reason why these tensors and constants make no chain."""


def check_linear(x, weight):
    """Raises NotAChain if the kernels cannot multiply x and the weight."""
    if not isinstance(x, Tensor) or not isinstance(weight, Tensor):
        raise NotAChain(f"x is a {type(x).__name__} and the weight a {type(weight).__name__}")
    if x.dim() != 2:
        raise NotAChain(
            f"x has {x.dim()} dimensions, and a part is something else there than for (batch, channels)"
        )
    if x.device.type not in ("cpu", "cuda", "meta") or weight.device != x.device:
        raise NotAChain(f"x is on {x.device} and the weight on {weight.device}")
    if x.layout != torch.strided or weight.layout != torch.strided:
        raise NotAChain("a tensor is sparse")
    if weight.dim() != 2 or weight.shape[1] != x.shape[1]:
        raise NotAChain(f"x has shape {tuple(x.shape)} and the weight {tuple(weight.shape)}")
    if autocast.dtype_for(x) is not None and weight.dtype in C_TYPES:
        return
    if x.dtype not in C_TYPES:
        raise NotAChain(f"x is of {x.dtype}, and kernels have {', '.join(map(str, C_TYPES))}")
    if weight.dtype != x.dtype:
        raise NotAChain(f"x is of {x.dtype} and the weight of {weight.dtype}")


def _may_be(dtype: torch.dtype, x: Tensor) -> bool:
    """Whether a vector of a chain on x may have the dtype."""
    return dtype in (C_TYPES if autocast.dtype_for(x) is not None else (x.dtype, torch.float32))


def check_vector(name: str, vector: Tensor, x: Tensor, channels: int):
    """Raises NotAChain if `vector` is no vector of the chain's channels."""
    if not isinstance(vector, Tensor) or vector.shape != (channels,):
        raise NotAChain(f"{name} is no vector of {channels} channels")
    if vector.device != x.device or not _may_be(vector.dtype, x):
        raise NotAChain(f"{name} is of {vector.dtype} on {vector.device}, x of {x.dtype} on {x.device}")


def as_operand(operand, x: Tensor, channels: int) -> tuple[str, Tensor]:
    """("channel", a vector) or ("tensor", a tensor of y's shape) by the operand's shape, or NotAChain."""
    if not isinstance(operand, Tensor):
        raise NotAChain(f"an operand is a {type(operand).__name__}")
    in_autocast = autocast.dtype_for(x) is not None
    if operand.device != x.device or not _may_be(operand.dtype, x):
        raise NotAChain(f"an operand is of {operand.dtype} on {operand.device}, x of {x.dtype} on {x.device}")
    shape = tuple(operand.shape)
    if shape in ((channels,), (1, channels)) or (operand.numel() == 1 and len(shape) <= 2):
        if operand.dtype != x.dtype and len(shape) > 0 and not in_autocast:
            raise NotAChain(
                f"an operand is of {operand.dtype}, by which torch makes y one, and x of {x.dtype}"
            )
        whole = shape == (channels,)
        return "channel", operand if whole else operand.reshape(-1).expand(channels).contiguous()
    if shape == (x.shape[0], channels) and (operand.dtype == x.dtype or in_autocast):
        return "tensor", operand
    raise NotAChain(f"an operand has shape {shape}, expected ({channels},) or {(x.shape[0], channels)}")
