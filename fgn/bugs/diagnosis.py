"""Tells what is wrong with a result: which elements, by how much, and which known mistake gives exactly this
result.

`diagnose()` takes the result of a whole chain, such as that of a reader's own kernel; `diagnose_product()`
and `diagnose_norm()` are for its two parts. Each returns None for a result that is as good as torch's, and
otherwise a Diagnosis, which prints as a report. It tries mistakes that people make with these chains, and
computes the result of each in float64 from the same inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fgn.chains import Chain, find
from fgn.marks import NEVER_WRITTEN, READ_UNWRITTEN
from fgn.measure.accuracy import max_error, misplaced, relative_error
from fgn.reference import apply_steps, chain_reference, ieee_float32, norm_reference, product_reference

# An element is wrong when it is off by more than this many times torch's largest error or a float's rounding.
TIMES_TORCH = 16
UNIT_ROUNDOFF = 2.0**-24

# A mistake explains a result that is at most AS_IF_ERROR (relative) away from the mistake's own result, and
# AS_IF_NEARER times as far from the right one.
AS_IF_ERROR = 1e-4
AS_IF_NEARER = 100

# Statistics that are off by less than this, in deviations, count as right.
STATISTICS_ERROR = 1e-3


def never_written(*size: int, device="cpu") -> Tensor:
    """A float32 tensor for a kernel to write its result to; `diagnose()` tells what it has left out."""
    return torch.full(size, NEVER_WRITTEN, dtype=torch.int32, device=device).view(torch.float32)


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with a result.

    part: "product", "norm" or "chain". wrong: how many of its `elements` are wrong. first: the (row, column)
    of the first wrong one. max_error: max |y − y₆₄| over the finite ones, at `worst`; None if none is finite.
    never_written: how many were never written. findings: sentences that tell which elements are wrong, and
    why. as_if: the known mistake or mistakes that give this result, or None.
    errors: |y − y₆₄| of every element (rows, columns), NaN where one of them should be finite and is not.
    """

    part: str
    wrong: int
    elements: int
    first: tuple[int, int]
    max_error: float | None
    worst: tuple[int, int] | None
    never_written: int
    findings: tuple[str, ...]
    as_if: str | None
    errors: Tensor = field(repr=False, compare=False)

    def __str__(self) -> str:
        summary = (
            f"wrong {self.part}: {self.wrong} of {self.elements} elements, the first at {list(self.first)}"
        )
        if self.worst is not None:
            summary += f"; max |y − y₆₄| = {self.max_error:.3g} at {list(self.worst)}"
        lines = [summary, *self.findings]
        if self.as_if:
            lines.append(f"as if {self.as_if}")
        return "\n".join(lines)


Compute = Callable[[Chain, Tensor, Mapping[str, Tensor]], Tensor]


def diagnose(y: Tensor, chain: str | Chain, x: Tensor, parameters: Mapping[str, Tensor]) -> Diagnosis | None:
    """Tells what is wrong with `y` (batch, out_features) as a chain's result; None if nothing is.

    x: (batch, in_features). parameters: as for `fgn.chain_forward()`. With memory from `never_written()`,
    unwritten elements are distinguished from computed NaN.
    """
    return _diagnose("chain", y, find(chain), x, parameters, chain_reference, _chain_mistakes)


def diagnose_product(v: Tensor, chain: str | Chain, x: Tensor, parameters: Mapping[str, Tensor]):
    """The same for `v` as the first part of a chain: the product and the operators before the norm."""
    return _diagnose("product", v, find(chain), x, parameters, product_reference, _product_mistakes)


def diagnose_norm(y: Tensor, chain: str | Chain, v: Tensor, parameters: Mapping[str, Tensor]):
    """The same for `y` as the second part, computed from `v`: the norm and the operators after it."""
    return _diagnose("norm", y, find(chain), v, parameters, norm_reference, _norm_mistakes)


def _diagnose(part, y, chain, given, parameters, compute: Compute, mistakes) -> Diagnosis | None:
    wide = {name: value.double() for name, value in parameters.items()}
    with torch.no_grad(), ieee_float32():
        exact = compute(chain, given.double(), wide)
        expected = compute(chain, given, parameters)
        if y.shape != exact.shape or y.dtype != torch.float32:
            expected = f"{tuple(exact.shape)} of {torch.float32}"
            raise ValueError(f"y: expected {expected}, got {tuple(y.shape)} of {y.dtype}")
        is_wrong = _wrong(y, expected, exact)
        if not is_wrong.any():
            return None
        unwritten = y.view(torch.int32) == NEVER_WRITTEN
        findings = [_places(is_wrong, chain.groups), *_specials(y, exact, unwritten)]
        as_if = None
        if not unwritten.any():
            as_if = _as_if(y, exact, (rule(given.double(), wide) for rule in mistakes(chain)))
            if part == "norm" and as_if is None:
                findings += _statistics(y, chain, given.double(), wide)
        lost = torch.where(torch.isclose(y.double(), exact, equal_nan=True), 0.0, torch.nan)
        errors = torch.where(exact.isfinite(), (y.double() - exact).abs(), lost)
        finite = torch.where(is_wrong & errors.isfinite(), errors, 0.0)
        any_finite = bool((finite > 0).any())
        return Diagnosis(
            part=part,
            wrong=int(is_wrong.sum()),
            elements=y.numel(),
            first=_index(is_wrong.flatten().int().argmax(), y),
            max_error=finite.max().item() if any_finite else None,
            worst=_index(finite.argmax(), y) if any_finite else None,
            never_written=int(unwritten.sum()),
            findings=tuple(findings),
            as_if=as_if,
            errors=errors.cpu(),
        )


def _index(flat: Tensor, y: Tensor) -> tuple[int, int]:
    row, column = divmod(int(flat), y.shape[1])
    return row, column


def _wrong(y: Tensor, expected: Tensor, exact: Tensor) -> Tensor:
    """Which elements are wrong."""
    finite = exact.isfinite()
    largest = torch.where(finite, exact, 0.0).abs().max().item()
    allowed = TIMES_TORCH * max(max_error(expected, exact), UNIT_ROUNDOFF * largest)
    # An unexpected NaN makes the comparison false.
    near = (y.double() - exact).abs() <= allowed
    same = torch.isclose(y, expected, equal_nan=True)
    return ~torch.where(finite, near, same)


# ------------------------------------------------------------------------------------------------------------
# Which elements


def _numbers(indices: Tensor, count: int, singular: str) -> str | None:
    """A few words for some of the rows or columns; None for all of them."""
    numbers = indices.tolist()
    if len(numbers) == count:
        return None
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 1:
        return f"{singular} {first}"
    if len(numbers) == last - first + 1:
        end = f", the last {len(numbers)}" if last == count - 1 else ""
        return f"{singular}s {first} to {last}{end}"
    shown = ", ".join(map(str, numbers[:6])) + (", …" if len(numbers) > 6 else "")
    return f"{len(numbers)} {singular}s ({shown})"


def _places(is_wrong: Tensor, groups: int) -> str:
    """Tells which elements are wrong, as rows and columns if they form a block of the matrix."""
    rows, columns = is_wrong.any(1), is_wrong.any(0)
    words = [
        _numbers(mask.nonzero().flatten(), len(mask), singular)
        for mask, singular in ((rows, "row"), (columns, "column"))
    ]
    words = [word for word in words if word is not None]
    if (is_wrong == rows[:, None] & columns).all():
        return f"where: all of {' in '.join(words)}" if words else "where: everywhere"
    of_group = is_wrong.view(len(is_wrong), groups, -1)
    if (of_group.any(2) == of_group.all(2)).all():
        return f"where: all of {int(of_group.any(2).sum())} of the {of_group.any(2).numel()} groups"
    share = is_wrong.sum() / (rows.sum() * columns.sum())
    return f"where: {100 * share:.3g} % of the elements{''.join(f' in {word}' for word in words)}"


def _specials(y: Tensor, exact: Tensor, unwritten: Tensor) -> Iterator[str]:
    """Tells which elements are NaN or infinite and should not be, or the reverse."""
    if unwritten.any():
        rows, columns = unwritten.any(1).nonzero().flatten(), unwritten.any(0).nonzero().flatten()
        words = [_numbers(rows, len(y), "row"), _numbers(columns, y.shape[1], "column")]
        words = [word for word in words if word is not None]
        yield f"never written: {' in '.join(words) or 'nothing was written'}"
    read = y.view(torch.int32) == READ_UNWRITTEN
    if read.any():
        yield f"computed from the result's own memory, which nobody had written: {int(read.sum())} elements"
    lost = y.isfinite() & ~exact.isfinite()
    if lost.any():
        yield f"NaN or infinity is lost: {int(lost.sum())} elements are finite and should not be"
    made = ~y.isfinite() & exact.isfinite() & ~unwritten
    if made.any():
        yield f"NaN or infinite: {int(made.sum())} elements that should be finite"
        rest = exact.isfinite() & ~made
        if rest.any() and exact[made].min() > exact[rest].max():
            yield f"they are the largest results, from {exact[made].min().item():.4g} up: something overflows"


# ------------------------------------------------------------------------------------------------------------
# Known mistakes: what the result would be, in float64

Rule = Callable[[Tensor, Mapping[str, Tensor]], tuple[str, Tensor]]


def _as_if(y: Tensor, exact: Tensor, results) -> str | None:
    """The mistake whose result is `y`, if there is one; several if their results are the same."""
    of_right = relative_error(torch.where(y.isfinite(), y, 0.0), exact)
    near = {}
    for sentence, result in results:
        if result.shape == y.shape and misplaced(y, result.float()) == 0:
            error = relative_error(y, result)
            if error < min(AS_IF_ERROR, of_right / AS_IF_NEARER):
                near[sentence] = error
    nearest = [sentence for sentence, error in near.items() if error <= 2 * min(near.values())]
    return ", or as if ".join(nearest) or None


HARDTANH_LIMITS = ((0.0, 20.0), (0.0, 6.0), (0.0, 1.0), (-1.0, 1.0))


def _wrong_steps(steps) -> Iterator[tuple[str, tuple]]:
    """Yields wrong variants of pointwise steps, each with its mistake."""
    for i, step in enumerate(steps):
        rest = (*steps[:i], *steps[i + 1 :])
        yield f"{step.channel or step.kind} were left out", rest
        if i > 0 and step.kind != steps[i - 1].kind:
            swapped = (*steps[: i - 1], step, steps[i - 1], *steps[i + 1 :])
            yield f"{steps[i - 1].kind} and {step.kind} were swapped", swapped
        if step.kind == "hardtanh":
            for a, b in HARDTANH_LIMITS:
                limited = replace(step, a=a, b=b)
                yield (
                    f"hardtanh had the limits {a:g} and {b:g} instead of {step.a:g} and {step.b:g}",
                    (*steps[:i], limited, *steps[i + 1 :]),
                )


def _product_mistakes(chain: Chain) -> Iterator[Rule]:
    def product(x, parameters, before=chain.before):
        return product_reference(replace(chain, before=before), x, parameters)

    def without_bias(x, p):
        return "the Linear's bias were left out", product(x, {k: v for k, v in p.items() if k != "bias"})

    def weight_by_columns(x, p):
        weight = p["weight"].reshape(p["weight"].shape[::-1]).T
        return (
            "weight (out_features, in_features) were read by columns, as if (in_features, out_features)",
            product(x, p | {"weight": weight}),
        )

    def weight_transposed(x, p):
        weight = p["weight"].T.reshape(p["weight"].shape)
        return (
            "weight.T were passed, (in_features, out_features) in memory, where the rows of weight are read",
            product(x, p | {"weight": weight}),
        )

    def x_by_columns(x, p):
        return "x were read by columns, as if (in_features, batch)", product(x.reshape(x.shape[::-1]).T, p)

    yield from (without_bias, weight_by_columns, weight_transposed, x_by_columns)
    for step in (4, 8, 16, 32, 64):

        def without_tail(x, p, step=step):
            whole = x.shape[1] // step * step
            shorter = p | {"weight": p["weight"][:, :whole]}
            return f"only the first {whole} of {x.shape[1]} in_features were added up", product(
                x[:, :whole], shorter
            )

        yield without_tail
    for sentence, steps in _wrong_steps(chain.before):
        yield lambda x, p, sentence=sentence, steps=steps: (sentence, product(x, p, steps))


def _norm_mistakes(chain: Chain) -> Iterator[Rule]:
    def norm(v, p, mean, variance, eps=chain.eps, scale=None):
        """The norm with other statistics, of the shape (batch, groups, 1) or one that broadcasts to it."""
        shape = v.shape
        v = v.view(len(v), chain.groups, -1)
        scale = (variance + eps).rsqrt() if scale is None else scale
        return finish(((v - mean) * scale).view(shape), p)

    def finish(normalised, p):
        value = normalised * p.get("norm_weight", 1.0) + p.get("norm_bias", 0.0)
        return apply_steps(chain.after, value, p)

    def moments(v):
        grouped = v.view(len(v), chain.groups, -1)
        return grouped, grouped.mean(2, keepdim=True), grouped.var(2, correction=0, keepdim=True)

    def unbiased(v, p):
        grouped, mean, variance = moments(v)
        n = grouped.shape[2]
        return f"the variance were divided by n − 1 = {n - 1} (the unbiased one)", norm(
            v, p, mean, variance * n / max(n - 1, 1)
        )

    def over(dims: tuple[int, ...], sentence: str) -> Rule:
        """Statistics over other dimensions of (batch, groups, channels)."""

        def rule(v, p):
            grouped, _, _ = moments(v)
            mean, variance = grouped.mean(dims, keepdim=True), grouped.var(dims, correction=0, keepdim=True)
            return sentence, norm(v, p, mean, variance)

        return rule

    def eps_outside(v, p):
        _, mean, variance = moments(v)
        return "eps were added to the deviation, not to the variance", norm(
            v, p, mean, None, scale=1 / (variance.sqrt() + chain.eps)
        )

    def without_eps(v, p):
        _, mean, variance = moments(v)
        return "eps were left out", norm(v, p, mean, variance, 0.0)

    def without_mean(v, p):
        _, _, variance = moments(v)
        return "the mean were 0", norm(v, p, 0.0, variance)

    def without_division(v, p):
        zero = v.new_zeros(1, 1, 1)
        return "mean and variance were 0, as after an integer division 1 / n", norm(v, p, zero, zero)

    def affine_by_group(v, p):
        _, mean, variance = moments(v)
        each = torch.arange(v.shape[1], device=v.device) // (v.shape[1] // chain.groups)
        vectors = {name: p[name][each] for name in ("norm_weight", "norm_bias") if name in p}
        return "the norm's weight and bias were indexed by group, not by channel", norm(
            v, p | vectors, mean, variance
        )

    def affine_swapped(v, p):
        _, mean, variance = moments(v)
        swapped = {"norm_weight": p["norm_bias"], "norm_bias": p["norm_weight"]} if "norm_bias" in p else {}
        return "the norm's weight and bias were swapped", norm(v, p | swapped, mean, variance)

    def without_affine(v, p):
        _, mean, variance = moments(v)
        bare = {name: value for name, value in p.items() if not name.startswith("norm_")}
        return "the norm's weight and bias were left out", norm(v, bare, mean, variance)

    yield unbiased
    yield over((0, 2), "statistics were taken across the batch, not for each sample")
    yield over((0,), "statistics were taken for each channel across the batch, as BatchNorm's are")
    yield over((1, 2), "statistics were taken over all groups of a sample, as LayerNorm's are")
    yield from (eps_outside, without_eps, without_mean)
    yield from (without_division, affine_by_group, affine_swapped, without_affine)
    for sentence, steps in _wrong_steps(chain.after):
        yield lambda v, p, sentence=sentence, steps=steps: (
            sentence,
            norm_reference(replace(chain, after=steps), v, p),
        )


def _chain_mistakes(chain: Chain) -> Iterator[Rule]:
    for rule in _product_mistakes(chain):

        def wrong_product(x, p, rule=rule):
            sentence, v = rule(x, p)
            return sentence, norm_reference(chain, v, p)

        yield wrong_product
    for rule in _norm_mistakes(chain):
        yield lambda x, p, rule=rule: rule(product_reference(chain, x, p), p)


# ------------------------------------------------------------------------------------------------------------
# Statistics that are wrong in no known way


def _undone(steps, y: Tensor) -> Tensor:
    """The values before pointwise steps; NaN if the values after the steps do not determine them."""
    for step in reversed(steps):
        if step.kind == "double":
            y = y / 2
        elif step.kind == "leaky_relu" and step.a > 0:
            y = torch.where(y > 0, y, y / step.a)
        elif step.kind == "hardtanh":
            y = torch.where((y > step.a) & (y < step.b), y, torch.nan)
        else:
            return torch.full_like(y, torch.nan)
    return y


def _statistics(y: Tensor, chain: Chain, v: Tensor, parameters: Mapping[str, Tensor]) -> Iterator[str]:
    """The mean and deviation by which each group was normalised, if by any: a line fitted through its
    points."""
    value = _undone(chain.after, y.double())
    value = (value - parameters.get("norm_bias", 0.0)) / parameters.get("norm_weight", 1.0)
    value, v = value.view(len(v), chain.groups, -1), v.view(len(v), chain.groups, -1)
    known = value.isfinite()
    usable = known.sum(2) >= 3
    count = known.sum(2).clamp(min=1)

    def average(t):
        return torch.where(known, t, 0.0).sum(2) / count

    v_mean, value_mean = average(v), average(value)
    centred = v - v_mean[..., None]
    slope = average(centred * (value - value_mean[..., None])) / average(centred**2)
    residual = value - value_mean[..., None] - slope[..., None] * centred
    if not usable.any():
        return
    if average(residual**2)[usable].max() > 1e-4:
        yield "no mean and deviation explain it: the members of a group were treated differently"
        return
    mean, deviation = v.mean(2), (v.var(2, correction=0) + chain.eps).sqrt()
    used_mean = v_mean - value_mean / slope
    of_mean = ((used_mean - mean) / deviation).abs()[usable].max().item()
    of_deviation = (1 / (slope * deviation) - 1).abs()[usable].max().item()
    if max(of_mean, of_deviation) < STATISTICS_ERROR:
        return
    yield (
        "each group is normalised, but with wrong statistics: the mean is off by up to "
        f"{of_mean:.2g} deviations, the deviation by up to {100 * of_deviation:.3g} %"
    )
    if of_deviation > 10 * of_mean and (mean / deviation).abs().max() > 1e3:
        yield "the mean is large beside the deviation: E[x²] − E[x]² would lose the variance like this"
