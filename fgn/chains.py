"""The chains: y = after(GroupNorm(before(x W^T + bias))).

A chain is described here and nowhere else. `CHAINS` is the table of those with a name; another chain of the
same form is one more entry. `POINTWISE` is the table of the operators that a chain may use before and after
its GroupNorm: each has its meaning in torch beside the name of its kind in `cuda_c/fgn.h`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Operator:
    """A pointwise operator.

    c_kind: the enumerator of `fgn_pointwise_kind` in `cuda_c/fgn.h`.
    torch: its meaning, as a function of v (batch, out_features), the constants a and b, and the channel
        vector (out_features,) or None.
    uses_channel: whether it reads a channel vector.
    """

    c_kind: str
    torch: Callable[[Tensor, float, float, Tensor | None], Tensor]
    uses_channel: bool = False


POINTWISE = {
    "add_channel": Operator("FGN_ADD_CHANNEL", lambda v, a, b, channel: v + channel, uses_channel=True),
    "multiply_channel": Operator(
        "FGN_MULTIPLY_CHANNEL", lambda v, a, b, channel: v * channel, uses_channel=True
    ),
    "hardtanh": Operator("FGN_HARDTANH", lambda v, a, b, channel: F.hardtanh(v, a, b)),
    "leaky_relu": Operator("FGN_LEAKY_RELU", lambda v, a, b, channel: F.leaky_relu(v, a)),
    "mish": Operator("FGN_MISH", lambda v, a, b, channel: F.mish(v)),
    "silu": Operator("FGN_SILU", lambda v, a, b, channel: F.silu(v)),
    "double": Operator("FGN_DOUBLE", lambda v, a, b, channel: v + v),
}


@dataclass(frozen=True)
class Pointwise:
    """One pointwise step of a chain.

    kind: a key of `POINTWISE`.
    a, b: its constants (hardtanh: minimum and maximum; leaky_relu: a is the negative slope).
    channel: for an operator with a channel vector, the name of the parameter that holds it.
    """

    kind: str
    a: float = 0.0
    b: float = 0.0
    channel: str | None = None

    def __post_init__(self):
        if self.kind not in POINTWISE:
            raise ValueError(f"kind: expected one of {', '.join(POINTWISE)}, got {self.kind!r}")
        if POINTWISE[self.kind].uses_channel != (self.channel is not None):
            expected = "the name of a parameter" if POINTWISE[self.kind].uses_channel else "None"
            raise ValueError(f"channel: {self.kind} expects {expected}, got {self.channel!r}")


class Shape(NamedTuple):
    """The sizes of one problem: x is (batch, in_features), y is (batch, out_features)."""

    batch: int
    in_features: int
    out_features: int
    groups: int


@dataclass(frozen=True)
class Chain:
    """y = after(GroupNorm(before(x W^T + bias))), for any sizes.

    groups: the number of groups of the GroupNorm; it divides out_features.
    eps: what GroupNorm adds to the variance.
    """

    name: str
    before: tuple[Pointwise, ...]
    groups: int
    after: tuple[Pointwise, ...]
    eps: float = 1e-5

    @cached_property
    def channels(self) -> tuple[str, ...]:
        """The names of the parameters that its channel operators read, in the order of the steps."""
        return tuple(step.channel for step in self.before + self.after if step.channel is not None)


CHAINS = {
    chain.name: chain
    for chain in (
        Chain(
            "gemm_groupnorm_hardtanh",
            before=(),
            groups=16,
            after=(Pointwise("hardtanh", -2.0, 2.0),),
        ),
        Chain(
            "gemm_biasadd_hardtanh_mish_groupnorm",
            before=(
                Pointwise("add_channel", channel="channel_bias"),
                Pointwise("hardtanh", -1.0, 1.0),
                Pointwise("mish"),
            ),
            groups=256,
            after=(),
        ),
        Chain(
            "matmul_groupnorm_leakyrelu_sum",
            before=(),
            groups=512,
            after=(Pointwise("leaky_relu", 0.01), Pointwise("double")),
        ),
    )
}

# The sizes of the benchmark that the three chains come from. The simulator gets sizes that it runs in well
# under a second, with as many channels per group as the benchmark has.
BENCHMARK_FEATURES = 8192
BENCHMARK_BATCH = 1024
SIMULATOR_FEATURES = 512
SIMULATOR_BATCH = 64


def find(chain: str | Chain) -> Chain:
    """The chain of that name; a Chain is returned as it is. ValueError for an unknown name."""
    if isinstance(chain, Chain):
        return chain
    if chain not in CHAINS:
        raise ValueError(f"chain: expected a Chain or one of {', '.join(CHAINS)}, got {chain!r}")
    return CHAINS[chain]


def default_shape(chain: Chain, device: str | torch.device) -> Shape:
    """The benchmark's sizes on a GPU; on the CPU, sizes that suit the simulator."""
    if torch.device(device).type == "cuda":
        return Shape(BENCHMARK_BATCH, BENCHMARK_FEATURES, BENCHMARK_FEATURES, chain.groups)
    groups = max(1, chain.groups * SIMULATOR_FEATURES // BENCHMARK_FEATURES)
    return Shape(SIMULATOR_BATCH, SIMULATOR_FEATURES, SIMULATOR_FEATURES, groups)


def problem(chain: str | Chain, shape=None, device: str | torch.device = "cpu") -> tuple[Chain, Shape]:
    """The chain and the sizes that a caller means.

    shape: (batch, in_features, out_features), with the chain's own groups, or a `Shape`, whose groups replace
    them; None is `default_shape()`.
    """
    chain = find(chain)
    shape = default_shape(chain, device) if shape is None else tuple(shape)
    if len(shape) not in (3, 4):
        raise ValueError(f"shape: expected (batch, in_features, out_features[, groups]), got {shape}")
    shape = Shape(*shape) if len(shape) == 4 else Shape(*shape, chain.groups)
    if min(shape) < 0 or shape.groups < 1 or shape.out_features % shape.groups:
        raise ValueError(f"shape: expected sizes with groups that divide out_features, got {tuple(shape)}")
    return replace(chain, groups=shape.groups), shape


def problem_of(row) -> tuple[Chain, Shape]:
    """The chain and the sizes that a row of a table names: chain, batch, in_features and so on."""
    return problem(row.chain, tuple(int(getattr(row, size)) for size in Shape._fields))


def random_inputs(
    chain: Chain,
    shape: Shape,
    device: str | torch.device = "cpu",
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
):
    """Random (x, parameters), the same on every device for the same seed; other dtypes are float32 rounded.

    x is uniform in [0, 1), the linear layer's parameters are as nn.Linear would make them, channel vectors
    are normal, and GroupNorm's weight and bias differ per channel, so that a mistake in any of them is seen.
    """
    generator = torch.Generator().manual_seed(seed)
    batch, in_features, out_features, _ = shape

    def uniform(*size, low, high):
        values = torch.empty(size, dtype=torch.float32).uniform_(low, high, generator=generator)
        return values.to(dtype).to(device)

    bound = max(in_features, 1) ** -0.5
    x = uniform(batch, in_features, low=0.0, high=1.0)
    parameters = {
        "weight": uniform(out_features, in_features, low=-bound, high=bound),
        "bias": uniform(out_features, low=-bound, high=bound),
        "norm_weight": uniform(out_features, low=0.5, high=1.5),
        "norm_bias": uniform(out_features, low=-0.5, high=0.5),
    }
    for name in chain.channels:
        values = torch.randn(out_features, dtype=torch.float32, generator=generator)
        parameters[name] = values.to(dtype).to(device)
    return x, parameters
