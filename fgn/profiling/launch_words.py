"""Describes what each launch of a chain computes: for fgn's versions by their plan, for torch by torch's and
Triton's names.

The words are the column `operator` of `fgn.profile()`: "product", "product + hardtanh", "norm", and so on;
`part_of()` sorts them into the parts that plots tell apart.
"""

from __future__ import annotations

import re

from fgn.chains import POINTWISE
from fgn.plans import FINGERPRINT, HALVES, QUANTISED, REPACKED, RESERVE, SUMS, WEIGHT_HALVES, Device, plan
from fgn.problem import Problem

PARTS = ("preparation", "product", "operators", "norm", "in reserve")

LIBRARY_PRODUCTS = re.compile(r"gemm|gemv|cutlass|nvjet|splitk|split_k", re.IGNORECASE)


def ours(problem: Problem, version: str, kernels: list[str], device: Device | None = None) -> list[str]:
    """What the launches of one call compute, by one of fgn's versions.

    kernels: the functions' names, in order. device: where they were launched; None for the simulator. If
    these are not the kernels of the plan (in an older recording), the words are their names. If a plan asks
    for torch's product, torch's kernels may come before the plan's.
    """
    for frozen in (True, False):
        planned = plan(problem.chain, problem.shape, version, problem.precision, device, frozen)
        own = [launch.kernel for launch in planned.launches]
        by_torch = len(kernels) - len(own) if planned.product_bytes > 0 else 0
        if kernels[max(by_torch, 0) :] == own:
            return ["product"] * by_torch + [launch.text for launch in planned.launches]
    return kernels


def eager(ranges: list[tuple[str, ...]]) -> list[str]:
    """What torch's own launches compute: for each launch the outermost operator of torch that made it.

    ranges: the names of torch's NVTX ranges around each launch, from the outermost.
    """
    words = []
    for names in ranges:
        name = next((name for name in names if name.startswith("aten::")), "")
        words.append(re.sub(r"^aten::|,.*$", "", name))
    return ["product" if word == "linear" else word for word in words]


def compiled(kernels: list[str]) -> list[str]:
    """What the launches of torch.compile compute: a library's product, or the operators in a Triton kernel's
    name, without its words about the input."""
    return [
        _of_triton(kernel) or ("product" if LIBRARY_PRODUCTS.search(kernel) else kernel) for kernel in kernels
    ]


def _of_triton(kernel: str) -> str | None:
    """The operators in the name of one of Triton's kernels, in the name's order, which is alphabetical."""
    named = re.fullmatch(r"triton_[a-z]+_fused_(\w+?)_\d+", kernel)
    if named is None:
        return None
    name = named[1].replace("native_", "")
    long = [word for word in (*POINTWISE, "group_norm") if "_" in word]
    for word in long:
        name = name.replace(word, word.replace("_", "-"))
    return " + ".join(
        part.replace("-", "_") for part in name.split("_") if part not in ("addmm", "t", "view")
    )


def part_of(operator: str) -> str:
    """The part of `PARTS` that a launch belongs to, by what is first in it: the matrix product with whatever
    is fused to it, a norm, ..."""
    if operator in (HALVES, FINGERPRINT, WEIGHT_HALVES, REPACKED, QUANTISED):
        return "preparation"
    if operator == RESERVE:
        return "in reserve"
    if operator.startswith("product"):
        return "product"
    return "norm" if re.search(rf"statistics|normalise|norm|^{SUMS}", operator) else "operators"
