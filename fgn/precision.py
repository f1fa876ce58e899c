"""The precisions: the types to which a product may round its factors. Sums are float32 in all of them.

The first two are torch's own words for float32 tensors (`torch.backends.cuda.matmul.fp32_precision`); the
others follow from the tensors' dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor


class Precision(NamedTuple):
    """dtype: of x, the weight and the result. c_name: the enumerator of `fgn_precision` in `cuda_c/fgn.h`."""

    dtype: torch.dtype
    c_name: str


PRECISIONS = {
    "ieee": Precision(torch.float32, "FGN_IEEE"),
    "tf32": Precision(torch.float32, "FGN_TF32"),
    "bf16": Precision(torch.bfloat16, "FGN_IEEE"),
    "fp16": Precision(torch.float16, "FGN_IEEE"),
}

# What a call may name: those, which torch's own products have too, and "fp8", which permits rounding factors
# to 8 bits (e4m3) with a scale for each row. One version does that, where it is faster
# (cuda_c/hopper/quantise.h).
OF_CALLS = PRECISIONS | {"fp8": Precision(torch.bfloat16, "FGN_FP8")}


def check_precision(precision: str, known: Mapping[str, Precision] = PRECISIONS):
    """ValueError unless the precision is a known one."""
    if precision not in known:
        raise ValueError(f"precision: expected one of {', '.join(known)}, got {precision!r}")


def with_gradients(precision: str | None) -> str | None:
    """The precision of a call with gradients: fp8 is a permission that such a call does not use."""
    return "bf16" if precision == "fp8" else precision


def resolve(precision: str | None, dtype: torch.dtype) -> str:
    """The precision of a call on tensors of this dtype, a key of `OF_CALLS`.

    None follows torch: "tf32" for float32 tensors if `torch.backends.cuda.matmul` allows it, else "ieee"; the
    dtype's own for bfloat16 and float16. ValueError for a precision that this dtype does not have.
    """
    names = [name for name, known in OF_CALLS.items() if known.dtype == dtype]
    if precision is None:
        if dtype == torch.float32 and torch.backends.cuda.matmul.fp32_precision == "tf32":
            return "tf32"
        return names[0]
    if precision not in names:
        expected = " or ".join(map(repr, names))
        raise ValueError(f"precision: expected None or {expected} for {dtype}, got {precision!r}")
    return precision


def fp8_or_own(precision: str | None) -> str | None:
    """What is left of a precision under torch.autocast, which decides the dtype: the permission to round."""
    return precision if precision == "fp8" else None


@contextmanager
def torch_precision(precision: str):
    """In this context torch multiplies float32 matrices on a GPU in `precision`. The setting is restored
    afterwards; it does not affect matrices of other dtypes."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    try:
        yield
    finally:
        matmul.fp32_precision = before


def torch_multiplies(precision: str) -> bool:
    """Whether torch multiplies in `precision`: float32 matrices follow its setting, others do not."""
    if precision not in ("ieee", "tf32"):
        return True
    is_tf32 = torch._C._get_fp32_precision_getter("cuda", "matmul") == "tf32"
    return is_tf32 == (precision == "tf32")


def torch_multiplies_as(precision: str):
    """`torch_precision()`, unless torch already has that setting. The setting is global, and other threads
    see it, so it is only for callers that name the version with torch's product."""
    return nullcontext() if torch_multiplies(precision) else torch_precision(precision)


# A product of fewer tiles than a large GPU has multiprocessors, each of 128 by 128 results, and of so many
# terms for each result that cuBLAS divides the sums among multiprocessors.
_TILE, _MULTIPROCESSORS, _LONG_SUM = 128, 132, 512


def torch_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """torch's product x W^T + bias, without gradients.

    For a float32 product with a bias, torch asks cuBLAS in a way that keeps it from dividing long sums among
    multiprocessors: on an H100 (torch 2.11) 128 x 3072 -> 1000 takes 77 us, and 34 us without the bias. So
    the bias of such a product is added after it.
    """
    if bias is not None and x.dtype is torch.float32 and x.is_cuda and x.dim() == 2:
        tiles = -(-x.shape[0] // _TILE) * -(-weight.shape[0] // _TILE)
        if tiles < _MULTIPROCESSORS and x.shape[1] >= _LONG_SUM and torch_multiplies("ieee"):
            return torch.mm(x, weight.t()).add_(bias)
    return torch._C._nn.linear(x, weight, bias)
