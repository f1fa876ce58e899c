"""The pointwise operators that a chain may use before and after its GroupNorm: one row each.

A row has the operator's name, a formula that `cuda_c/fgn.h` repeats, and torch's own function, against which
results are checked and whose derivative is the operator's. A new operator needs a row here, its name in
`fgn_pointwise_kind`, and a case in `cuda_c/shared/pointwise.h` (its value) and
`cuda_c/shared/pointwise_slopes.h` (its derivative); a test compares all four.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

CHANNEL, TENSOR = "channel", "tensor"

# Reserved names: those of a call's other tensors, which no operand may have.
TAKEN = ("x", "y", "workspace", "prepared", "weight", "bias", "norm_weight", "norm_bias")


@dataclass(frozen=True)
class Operator:
    """A pointwise operator.

    formula: what it computes from the value v, the constants a and b, and `channel[c]` or `tensor[r, c]`.
    torch: the same as a function of v (batch, out_features), a, b, and the operand or None. operand:
    "channel" if it reads a channel vector (out_features,), "tensor" if it reads a tensor of
        v's shape, None where it reads neither.
    defaults: a and b if they are not given: torch's own defaults.
    constants: torch's names of a and b; empty if the operator does not read them. refusal: what is wrong with
    constants a and b, or None.
    constant_slopes: whether its slopes, by v and by the operand, are the same at every value, so that a
        backward reads none.
    in_chains: whether a chain may have it. Functions of rows and of feature maps may have any.
    """

    formula: str
    torch: Callable[[Tensor, float, float, Tensor | None], Tensor]
    operand: str | None = None
    defaults: tuple[float, float] = (0.0, 0.0)
    constants: tuple[str, ...] = ()
    refusal: Callable[[float, float], str | None] = lambda a, b: None
    constant_slopes: bool = False
    in_chains: bool = True

    @property
    def uses_channel(self) -> bool:
        """Whether it reads a channel vector."""
        return self.operand == CHANNEL


def _below(a: float, b: float) -> str | None:
    return None if a <= b else f"expected a minimum below the maximum, got {a} and {b}"


def _not_negative(constant: str) -> Callable[[float, float], str | None]:
    return lambda a, b: None if a >= 0 else f"expected {constant} of 0 or more, got {a}"


def _not_zero(a: float, b: float) -> str | None:
    return None if a != 0 else f"expected a constant other than 0, got {a}"


POINTWISE = {
    "add_channel": Operator(
        "v + channel[c]", lambda v, a, b, channel: v + channel, CHANNEL, constant_slopes=True
    ),
    "multiply_channel": Operator("v * channel[c]", lambda v, a, b, channel: v * channel, CHANNEL),
    "hardtanh": Operator(
        "min(max(v, a), b)",
        lambda v, a, b, _: F.hardtanh(v, a, b),
        defaults=(-1.0, 1.0),
        constants=("min_val", "max_val"),
        refusal=_below,
    ),
    "leaky_relu": Operator(
        "v > 0 ? v : a * v",
        lambda v, a, b, _: F.leaky_relu(v, a),
        defaults=(0.01, 0.0),
        constants=("negative_slope",),
    ),
    "mish": Operator("v * tanh(log(1 + exp(v)))", lambda v, a, b, _: F.mish(v)),
    "silu": Operator("v / (1 + exp(-v))", lambda v, a, b, _: F.silu(v)),
    "double": Operator("v + v", lambda v, a, b, _: v + v, constant_slopes=True),
    "relu": Operator("max(v, 0)", lambda v, a, b, _: F.relu(v)),
    "subtract_channel": Operator(
        "v - channel[c]", lambda v, a, b, channel: v - channel, CHANNEL, constant_slopes=True
    ),
    "divide_channel": Operator("v / channel[c]", lambda v, a, b, channel: v / channel, CHANNEL),
    "prelu": Operator(
        "v > 0 ? v : channel[c] * v", lambda v, a, b, channel: F.prelu(v, channel.reshape(-1)), CHANNEL
    ),
    "add_tensor": Operator(
        "v + tensor[r, c]", lambda v, a, b, tensor: v + tensor, TENSOR, constant_slopes=True
    ),
    "add": Operator("v + a", lambda v, a, b, _: v + a, constants=("other",), constant_slopes=True),
    "multiply": Operator(
        "v * a",
        lambda v, a, b, _: v * a,
        defaults=(1.0, 0.0),
        constants=("other",),
        constant_slopes=True,
    ),
    "divide": Operator(
        "v / a",
        lambda v, a, b, _: v / a,
        defaults=(1.0, 0.0),
        constants=("other",),
        constant_slopes=True,
    ),
    "neg": Operator("-v", lambda v, a, b, _: -v, constant_slopes=True),
    "abs": Operator("|v|", lambda v, a, b, _: v.abs()),
    "square": Operator("v * v", lambda v, a, b, _: v.square()),
    "sqrt": Operator("sqrt(v)", lambda v, a, b, _: v.sqrt()),
    "exp": Operator("exp(v)", lambda v, a, b, _: v.exp()),
    "clamp": Operator(
        "min(max(v, a), b); its slope at a and b is 1, hardtanh's is 0",
        lambda v, a, b, _: v.clamp(a, b),
        defaults=(-math.inf, math.inf),
        constants=("min", "max"),
    ),
    "threshold": Operator(
        "v <= a ? b : v", lambda v, a, b, _: F.threshold(v, a, b), constants=("threshold", "value")
    ),
    "hardshrink": Operator(
        "-a <= v <= a ? 0 : v",
        lambda v, a, b, _: F.hardshrink(v, a),
        defaults=(0.5, 0.0),
        constants=("lambd",),
    ),
    "softshrink": Operator(
        "v > a ? v - a : v < -a ? v + a : 0",
        lambda v, a, b, _: F.softshrink(v, a),
        defaults=(0.5, 0.0),
        constants=("lambd",),
        refusal=_not_negative("lambd"),
    ),
    "hardsigmoid": Operator("min(max(v + 3, 0), 6) / 6", lambda v, a, b, _: F.hardsigmoid(v)),
    "hardswish": Operator("v * min(max(v + 3, 0), 6) / 6", lambda v, a, b, _: F.hardswish(v)),
    "softsign": Operator("v / (|v| + 1)", lambda v, a, b, _: F.softsign(v)),
    "sigmoid": Operator("1 / (1 + exp(-v))", lambda v, a, b, _: v.sigmoid()),
    "logsigmoid": Operator("min(v, 0) - log(1 + exp(-|v|))", lambda v, a, b, _: F.logsigmoid(v)),
    "tanh": Operator("tanh(v)", lambda v, a, b, _: v.tanh()),
    "tanhshrink": Operator("v - tanh(v)", lambda v, a, b, _: F.tanhshrink(v)),
    "softplus": Operator(
        "a v > b ? v : log(1 + exp(a v)) / a",
        lambda v, a, b, _: F.softplus(v, a, b),
        defaults=(1.0, 20.0),
        constants=("beta", "threshold"),
        refusal=_not_zero,
    ),
    "elu": Operator(
        "v > 0 ? v : a (exp(v) - 1)",
        lambda v, a, b, _: F.elu(v, a),
        defaults=(1.0, 0.0),
        constants=("alpha",),
    ),
    "celu": Operator(
        "v > 0 ? v : a (exp(v / a) - 1)",
        lambda v, a, b, _: F.celu(v, a),
        defaults=(1.0, 0.0),
        constants=("alpha",),
        refusal=_not_zero,
    ),
    "selu": Operator(
        "1.0507009873554805 (v > 0 ? v : 1.6732632423543773 (exp(v) - 1))", lambda v, a, b, _: F.selu(v)
    ),
    "gelu": Operator("v / 2 (1 + erf(v / sqrt(2)))", lambda v, a, b, _: F.gelu(v)),
    "gelu_tanh": Operator(
        "v / 2 (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3)))",
        lambda v, a, b, _: F.gelu(v, approximate="tanh"),
    ),
    "divide_deviation": Operator(
        "v / sqrt(channel[c] + a)",
        lambda v, a, b, channel: v * (channel + a).rsqrt(),
        CHANNEL,
        constants=("eps",),
        refusal=_not_negative("eps"),
    ),
    "minimum_channel": Operator(
        "min(v, channel[c])", lambda v, a, b, channel: torch.minimum(v, channel), CHANNEL
    ),
    "maximum_channel": Operator(
        "max(v, channel[c])", lambda v, a, b, channel: torch.maximum(v, channel), CHANNEL
    ),
    "multiply_tensor": Operator(
        "v * tensor[r, c]", lambda v, a, b, tensor: v * tensor, TENSOR, in_chains=False
    ),
}

# The kinds that a chain may have.
IN_CHAINS = [kind for kind, operator in POINTWISE.items() if operator.in_chains]


@dataclass(frozen=True)
class Pointwise:
    """One pointwise step of a chain.

    kind: a key of `POINTWISE`.
    a, b: its constants, by the row of `POINTWISE`; None is torch's default.
    channel: for an operator with a channel vector, the name of the parameter (out_features,) that holds it.
    tensor: for an operator with a tensor, the name of the (batch, out_features) operand.
    """

    kind: str
    a: float | None = None
    b: float | None = None
    channel: str | None = None
    tensor: str | None = None

    def __post_init__(self):
        if self.kind not in POINTWISE:
            raise ValueError(f"kind: expected one of {', '.join(POINTWISE)}, got {self.kind!r}")
        operator = POINTWISE[self.kind]
        for field, names in ((CHANNEL, "a parameter"), (TENSOR, "a tensor")):
            given = getattr(self, field)
            if (operator.operand == field) != (given is not None):
                expected = f"the name of {names}" if operator.operand == field else "None"
                raise ValueError(f"{field}: {self.kind} expects {expected}, got {given!r}")
            if given is not None and (not str(given).isidentifier() or given in TAKEN):
                raise ValueError(
                    f"{field}: expected a name as Python's variables have, other than {', '.join(TAKEN)}, "
                    f"got {given!r}"
                )
        for field, default in zip("ab", operator.defaults, strict=True):
            value = getattr(self, field)
            if isinstance(value, str):
                raise TypeError(f"{field}: {self.kind} expects a number, got {value!r}")
            object.__setattr__(self, field, default if value is None else float(value))
        wrong = operator.refusal(self.a, self.b) if operator.constants else None
        if self.a != self.a or self.b != self.b:
            wrong = f"expected numbers, got {self.a} and {self.b}"
        if wrong:
            raise ValueError(f"{', '.join(operator.constants) or 'a, b'}: {self.kind} {wrong}")

    @property
    def operand(self) -> str | None:
        """The name of the channel vector or of the tensor that it reads."""
        return self.channel or self.tensor

    def by_torch(self, v: Tensor, operand: Tensor | None = None) -> Tensor:
        """The operator by torch's own function. v: (batch, out_features)."""
        return POINTWISE[self.kind].torch(v, self.a, self.b, operand)

    __call__ = by_torch
