"""Functions of rows: y = after(f(before(v))), where f is over the features of each row of v.

Softmax, RMSNorm, a sum, a maximum, a logsumexp, and pooling over the features are such functions. Each needs
a whole row for one value, so it has its own launch (`cuda_c/rows/`), with the operators before and after it.
`ROW_FUNCTIONS` is their table. "values" is no function: its launch has the operators alone, which may read v
again, as x * s + x does, or the other half of each row, as a gate does. There are no gradients: if one is
wanted, `fgn.fuse()` leaves a function of a row to torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fgn.checks import check_kind, check_shape
from fgn.native import repeated
from fgn.native.library import ffi
from fgn.one_launch import Calls, OneLaunch
from fgn.operators import Pointwise
from fgn.structs import C_TYPES, mark_ones, usable, write_steps

# A step after "values" that names this tensor reads v again; after a function that reduces, its result.
AGAIN = "v"


class RowFunction(NamedTuple):
    """c_name: in `cuda_c/fgn.h`. reduces: whether it gives one value for each window of the features. torch:
    torch's function for the last dimension, with arguments v and eps."""

    c_name: str
    reduces: bool
    torch: object


ROW_FUNCTIONS = {
    "sum": RowFunction("FGN_ROW_SUM", True, lambda v, eps: v.sum(-1, keepdim=True)),
    "mean": RowFunction("FGN_ROW_MEAN", True, lambda v, eps: v.mean(-1, keepdim=True)),
    "max": RowFunction("FGN_ROW_MAX", True, lambda v, eps: v.amax(-1, keepdim=True)),
    "min": RowFunction("FGN_ROW_MIN", True, lambda v, eps: v.amin(-1, keepdim=True)),
    "length": RowFunction("FGN_ROW_LENGTH", True, lambda v, eps: v.square().sum(-1, keepdim=True).sqrt()),
    "logsumexp": RowFunction("FGN_LOGSUMEXP", True, lambda v, eps: v.logsumexp(-1, keepdim=True)),
    "softmax": RowFunction("FGN_SOFTMAX", False, lambda v, eps: v.softmax(-1)),
    "log_softmax": RowFunction("FGN_LOG_SOFTMAX", False, lambda v, eps: v.log_softmax(-1)),
    "rms_norm": RowFunction(
        "FGN_RMS_NORM", False, lambda v, eps: v * (v.square().mean(-1, keepdim=True) + eps).rsqrt()
    ),
    "layer_norm": RowFunction("FGN_LAYER_NORM", False, lambda v, eps: F.layer_norm(v, v.shape[-1:], eps=eps)),
    "values": RowFunction("FGN_VALUES", False, lambda v, eps: v),
}


@dataclass(frozen=True)
class Rows:
    """A function of the rows of a matrix, with operators before and after it.

    function: a key of `ROW_FUNCTIONS`. before, after: pointwise steps; the vectors of `before`, and of
    `after` unless the function reduces, are (features,); otherwise those of `after` have an element for each
    window. window: the number of neighbouring features in one result, as in pooling; None for all. Features
    that fill no window are left out. eps: of RMSNorm and LayerNorm. keeps: whether u = before(v) is a second
    result. half: for "values", 0 or 1: the half of each row of v; then `AGAIN` is the other half. second: a
    further function that reduces what the first one gives for its windows, as the sum of pooled values; last:
    the steps after it, without operands. operands: the names of the steps' operands.
    """

    function: str
    before: tuple[Pointwise, ...] = ()
    after: tuple[Pointwise, ...] = ()
    window: int | None = None
    eps: float = 0.0
    keeps: bool = False
    half: int | None = None
    second: str | None = None
    last: tuple[Pointwise, ...] = ()
    operands: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        if self.function not in ROW_FUNCTIONS:
            expected = ", ".join(ROW_FUNCTIONS)
            raise ValueError(f"function: expected one of {expected}, got {self.function!r}")
        if self.window is not None and (type(self.window) is not int or self.window < 1):
            raise ValueError(f"window: expected a whole number of features, or None, got {self.window!r}")
        is_function = self.function != "values"
        if is_function and self.half is not None:
            raise ValueError(f"half: {self.function} is over whole rows, expected None, got {self.half!r}")
        if self.half not in (None, 0, 1):
            raise ValueError(f"half: expected None, 0 or 1, got {self.half!r}")
        if not is_function and (self.keeps or self.window is not None):
            raise ValueError("function: values have no window and keep no second result")
        if self.second is not None:
            reduces = self.second in ROW_FUNCTIONS and ROW_FUNCTIONS[self.second].reduces
            if not (reduces and self.reduces and not self.keeps):
                raise ValueError(f"second: expected a reduction after a reduction, got {self.second!r}")
        if any(step.operand for step in self.last) or (self.last and self.second is None):
            raise ValueError("last: expected steps without operands, after a second function")
        never = self.before + self.after if is_function and not self.reduces else self.before
        if any(step.tensor == AGAIN for step in never):
            raise ValueError(f"before, after: only steps behind values or a reduction read {AGAIN!r} again")
        names = (step.operand for step in self.before + self.after)
        object.__setattr__(self, "operands", tuple(name for name in names if name not in (None, AGAIN)))

    @property
    def reduces(self) -> bool:
        return ROW_FUNCTIONS[self.function].reduces

    def features_of(self, v: Tensor) -> int:
        """The number of values of a row of v that the function reads."""
        return v.shape[-1] if self.half is None else v.shape[-1] // 2

    def windows_of(self, features: int) -> int:
        """The number of values that the (first) function gives in a row."""
        return features // (self.window or features) if self.reduces else features

    def results_of(self, features: int) -> int:
        """The number of values in a row of y."""
        return self.windows_of(features) if self.second is None else 1

    def by_torch(self, v: Tensor, operands: Mapping[str, Tensor] | None = None) -> Tensor:
        """The same by torch's own functions, in v's dtype."""
        operands = dict(operands or {})
        operands[AGAIN] = v
        if self.half is not None:
            halves = v.chunk(2, -1)
            v, operands[AGAIN] = halves[self.half], halves[1 - self.half]
        for step in self.before:
            v = step(v, operands.get(step.operand))
        size = self.window or v.shape[-1]
        windows = v[:, : v.shape[1] // size * size].unflatten(1, (-1, size))
        y = ROW_FUNCTIONS[self.function].torch(windows, self.eps).flatten(1)
        if self.reduces:
            operands[AGAIN] = y
        for step in self.after:
            y = step(y, operands.get(step.operand))
        if self.second is not None:
            y = ROW_FUNCTIONS[self.second].torch(y, self.eps)
        for step in self.last:
            y = step(y)
        return y


class _Call(OneLaunch):
    """What a call of one kind needs."""

    def __init__(self, library, rows: Rows, v: Tensor, operands: Mapping[str, Tensor], vectors: torch.dtype):
        batch, features = v.shape[0], rows.features_of(v)
        self.rows, self.library, self.device = rows, library, v.get_device()
        self.v_shape = v.shape
        self.y_shape = (batch, rows.results_of(features))
        self.layouts: dict[tuple | None, tuple] = {}  # of y and u, by v's sizes
        # Integers for pointers, which need no separate objects.
        self.c_forward = ffi().cast(
            "int (*)(const fgn_rows *, uintptr_t, uintptr_t, uintptr_t, uintptr_t)", library.fgn_rows_forward
        )
        self.c_struct = ffi().new("fgn_rows *")
        self.c_struct.batch, self.c_struct.features = batch, features
        self.c_struct.window, self.c_struct.eps = rows.window or features, rows.eps
        self.c_struct.function = getattr(library, ROW_FUNCTIONS[rows.function].c_name)
        if rows.second is not None:
            self.c_struct.has_second = 1
            self.c_struct.second = getattr(library, ROW_FUNCTIONS[rows.second].c_name)
            self.c_struct.before_second = len(rows.after)
        self.c_struct.type = getattr(library, C_TYPES[v.dtype])
        self.c_struct.vector_type = getattr(library, C_TYPES[vectors])
        if rows.half is not None:
            self.c_struct.v_features = 2 * features
            self.c_struct.first, self.c_struct.again = rows.half * features, (1 - rows.half) * features
        places = [
            *write_steps(library, self.c_struct, "before", rows.before, operands),
            *write_steps(library, self.c_struct, "after", rows.after + rows.last, operands),
        ]
        places = [
            place
            for place, step in zip(
                places, (one for one in rows.before + rows.after if one.operand), strict=True
            )
            if step.tensor != AGAIN
        ]
        mark_ones(self.c_struct.before, rows.before, operands)
        mark_ones(self.c_struct.after, rows.after, operands)
        self.arguments = repeated.Arguments(places, [operands[name] for name in rows.operands])

    def results(self, v: Tensor, sizes=None) -> tuple[Tensor, Tensor | None]:
        return self.results_of(v.dtype, sizes)

    def results_of(self, dtype: torch.dtype, sizes=None) -> tuple[Tensor, Tensor | None]:
        """Memory for y and, if it is kept, u. sizes: v's, if it is no matrix."""
        layouts = self.layouts.get(sizes)
        if layouts is None:
            y_shape = self.y_shape if sizes is None else (*sizes[:-1], self.y_shape[1])
            kept = repeated.layout_of(sizes or self.v_shape) if self.rows.keeps else None
            layouts = self.layouts[sizes] = repeated.layout_of(y_shape), kept
        empty, (of_y, of_u) = repeated.empty_on(self.device), layouts
        return empty(*of_y, dtype), None if of_u is None else empty(*of_u, dtype)


def _checked(rows: Rows, v: Tensor, given: Mapping[str, Tensor]):
    check_kind("v", v)
    check_shape("v", v, "batch", "features")
    batch, features = v.shape[0], rows.features_of(v)
    if features == 0 or (rows.half is not None and v.shape[1] % 2):
        expected = "1 feature or more" if rows.half is None else "two halves of 1 feature or more"
        raise ValueError(f"v: expected {expected}, got shape {tuple(v.shape)}")
    results, vectors = rows.windows_of(features), v.dtype
    for steps, size in ((rows.before, features), (rows.after, results)):
        for step in steps:
            if step.operand is None or step.tensor == AGAIN:
                continue
            if step.operand not in given:
                raise ValueError(f"operands: expected {step.operand}, got {', '.join(given) or 'none'}")
            operand = given[step.operand]
            if step.tensor:
                check_kind(step.operand, operand, v.device, (v.dtype,))
                check_shape(step.operand, operand, batch, size)
            else:
                check_kind(step.operand, operand, v.device, (v.dtype, torch.float32))
                if operand.shape != (1,):
                    check_shape(step.operand, operand, size)
                vectors = torch.float32 if operand.dtype != v.dtype else vectors
    used = {
        step.operand: usable(given[step.operand] if step.tensor else given[step.operand].to(vectors))
        for step in rows.before + rows.after
        if step.operand is not None and step.tensor != AGAIN
    }
    return usable(v), used, lambda library, v, used: _Call(library, rows, v, used, vectors)


calls = Calls(_checked, "a function of rows")


def rows_forward(rows: Rows, v: Tensor, operands: Mapping[str, Tensor] | None = None):
    """y = after(f(before(v))), one launch; (y, u) with u = before(v) if the function keeps it.

    v: (batch, features), float32, float16 or bfloat16, on a GPU or for the simulator. operands: the steps'
    tensors, by name: vectors of v's dtype or all of float32, of one element for all features or of one for
    each, tensors of the values' shape and v's dtype. y:
    (batch, features), or (batch, features // window) if the function reduces, of v's dtype; sums are float32.
    TypeError and ValueError name the argument, what came and what was expected. RuntimeError for tensors that
    require grad: there are no gradients.
    """
    return calls(rows, v, operands)
