"""What each launch of a chain computes, in words, from the names of the kernels.

The words are the column `operator` of `fgn.profile()`: "product", "product + hardtanh", "norm", and so on;
`part_of()` sorts them into the parts that plots tell apart.
"""

from __future__ import annotations

import re

from fgn.chains import POINTWISE, Chain

PARTS = ("preparation", "product", "operators", "norm", "in reserve")

HALVES, RESERVE = "halves of x", "float32 in reserve"
PARTIAL_SUMS = "product, partial sums"

_PREPARATION = re.compile(r"halves_kernel")
_POINTWISE = re.compile(r"pointwise_kernel")
_STATISTICS = re.compile(r"naive_moments_kernel")
_NORMALISE = re.compile(r"naive_normalise_kernel")
_NORM = re.compile(r"group_norm_\w+_kernel")
_ENDING = re.compile(r"few_rows_end_kernel")
_AFTER_PRODUCT = (_STATISTICS, _NORMALISE, _NORM, _ENDING)

LIBRARY_PRODUCTS = re.compile(r"gemm|gemv|cutlass|nvjet|splitk|split_k", re.IGNORECASE)


def _is_product(kernel: str) -> bool:
    return not any(kind.fullmatch(kernel) for kind in (_PREPARATION, _POINTWISE, *_AFTER_PRODUCT))


def ours(chain: Chain, kernels: list[str]) -> list[str]:
    """What the launches of one call of a chain compute, by one of fgn's versions.

    kernels: the functions' names, in order. An operator without a launch of its own is in the product's
    kernel, if it comes before the norm, or in the norm's. Whatever follows a second product stands in
    reserve: the chain in float32, for values that the halves do not hold, which else ends at once.
    """
    second = [number for number, kernel in enumerate(kernels) if _is_product(kernel)][1:]
    needed = kernels[: second[0]] if second else kernels
    before, after = ([step.kind for step in steps] for steps in (chain.before, chain.after))
    if any(_POINTWISE.fullmatch(kernel) for kernel in needed):
        own, before, after = [*before, *after], [], []
    else:
        own = []
    norm_follows = any(kind.fullmatch(kernel) for kernel in needed for kind in _AFTER_PRODUCT)
    ends_later = any(_ENDING.fullmatch(kernel) for kernel in needed)
    norm = ["norm"] if chain.groups else []
    words = []
    for kernel in needed:
        if _PREPARATION.fullmatch(kernel):
            words.append(HALVES)
        elif _POINTWISE.fullmatch(kernel):
            words.append(own.pop(0))
        elif _STATISTICS.fullmatch(kernel):
            words.append("statistics")
        elif _NORMALISE.fullmatch(kernel):
            words.append("normalise")
        elif _NORM.fullmatch(kernel):
            words.append(" + ".join(["norm", *after]))
        elif _ENDING.fullmatch(kernel):
            words.append(" + ".join(["sums", *before, *norm, *after]))
        elif ends_later:
            words.append(PARTIAL_SUMS)
        else:
            words.append(" + ".join(["product", *before, *([] if norm_follows else [*norm, *after])]))
    return words + [RESERVE] * (len(kernels) - len(needed))


def eager(ranges: list[tuple[str, ...]]) -> list[str]:
    """What torch's own launches compute: the outermost of its operators that a launch is inside.

    ranges: the names of the NVTX ranges around each launch, from the outermost, as torch calls them.
    """
    words = []
    for names in ranges:
        name = next((name for name in names if name.startswith("aten::")), "")
        words.append(re.sub(r"^aten::|,.*$", "", name))
    return ["product" if word == "linear" else word for word in words]


def compiled(kernels: list[str]) -> list[str]:
    """What the launches of torch.compile compute: a library's product, or what Triton's kernels are called
    after, without the words that name where their input came from."""
    return [
        _of_triton(kernel) or ("product" if LIBRARY_PRODUCTS.search(kernel) else kernel) for kernel in kernels
    ]


def _of_triton(kernel: str) -> str | None:
    """The operators in the name of one of Triton's kernels, in its own order, which is the alphabet's."""
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
    if operator == HALVES:
        return "preparation"
    if operator == RESERVE:
        return "in reserve"
    if operator.startswith("product"):
        return "product"
    return "norm" if re.search(r"statistics|normalise|norm|^sums", operator) else "operators"
