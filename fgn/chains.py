"""The chains: y = after(GroupNorm(before(x W^T + bias))), or without a norm y = before(x W^T + bias).

Chains are described only here. `CHAINS` is the table of named ones; another chain of the same form is one
more entry. The operators that a chain may use before and after its GroupNorm are rows of
`fgn.operators.POINTWISE`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch

from fgn.operators import IN_CHAINS, POINTWISE, Pointwise

__all__ = ["CHAINS", "POINTWISE", "Chain", "Pointwise", "Shape"]


class Shape(NamedTuple):
    """The sizes of one problem: x is (batch, in_features), y is (batch, out_features). groups: 0 without a
    norm."""

    batch: int
    in_features: int
    out_features: int
    groups: int


@dataclass(frozen=True)
class Chain:
    """y = after(GroupNorm(before(x W^T + bias))), for any sizes, or y = before(x W^T + bias).

    groups: the number of groups of the GroupNorm; it divides out_features. 0: there is no norm, and all
    operators are in `before`.
    eps: what GroupNorm adds to the variance.
    operands: the names of the vectors and tensors that its operators read, in the order of the steps.
    """

    name: str
    before: tuple[Pointwise, ...]
    groups: int
    after: tuple[Pointwise, ...]
    eps: float = 1e-5
    operands: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        for field_name, steps in (("before", self.before), ("after", self.after)):
            if not isinstance(steps, (tuple, list)) or not all(isinstance(step, Pointwise) for step in steps):
                raise TypeError(f"{field_name}: expected a tuple of Pointwise steps, got {steps!r}")
            for step in steps:
                if step.kind not in IN_CHAINS:
                    raise ValueError(f"{field_name}: no chain has {step.kind}")
        # torch.compile's own numbers, which have none of Python's types, are accepted.
        if isinstance(self.groups, (float, str, type(None))):
            raise TypeError(f"groups: expected a whole number, got {self.groups!r}")
        if isinstance(self.eps, (str, type(None))):
            raise TypeError(f"eps: expected a number, got {self.eps!r}")
        if self.groups == 0 and self.after:
            raise ValueError(f"after: expected no steps without a norm (groups 0), got {self.after!r}")
        names = (step.operand for step in self.before + self.after)
        object.__setattr__(self, "operands", tuple(name for name in names if name is not None))

    @property
    def has_norm(self) -> bool:
        return self.groups != 0

    @property
    def is_product(self) -> bool:
        """Whether it is the product alone, without a norm and operators."""
        return self.groups == 0 and len(self.before) == 0

    @property
    def last(self) -> tuple[Pointwise, ...]:
        """The last operators: `after`, or without a norm `before`."""
        return self.after if self.has_norm else self.before

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the parameters of its channel operators, in the order of the steps."""
        return tuple(step.channel for step in self.before + self.after if step.channel is not None)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of the (batch, out_features) tensors of its operators, in their order."""
        return tuple(step.tensor for step in self.before + self.after if step.tensor is not None)


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

# The sizes in the benchmark from which the three chains come. The simulator's sizes run in well under a
# second, and have as many channels per group as the benchmark's.
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
    groups = max(1, chain.groups * SIMULATOR_FEATURES // BENCHMARK_FEATURES) if chain.has_norm else 0
    return Shape(SIMULATOR_BATCH, SIMULATOR_FEATURES, SIMULATOR_FEATURES, groups)


def problem(chain: str | Chain, shape=None, device: str | torch.device = "cpu") -> tuple[Chain, Shape]:
    """The chain and the sizes for a caller's arguments.

    shape: (batch, in_features, out_features), with the chain's own groups, or a `Shape`, whose groups replace
    them; None is `default_shape()`.
    """
    chain = find(chain)
    shape = default_shape(chain, device) if shape is None else tuple(shape)
    if len(shape) not in (3, 4):
        raise ValueError(f"shape: expected (batch, in_features, out_features[, groups]), got {shape}")
    if not all(hasattr(size, "__index__") for size in shape):
        raise TypeError(f"shape: expected whole numbers, got {shape}")
    shape = Shape(*shape) if len(shape) == 4 else Shape(*shape, chain.groups)
    divides = shape.groups > 0 and shape.out_features % shape.groups == 0
    if min(shape) < 0 or not (divides if chain.has_norm else shape.groups == 0):
        groups = "groups that divide out_features" if chain.has_norm else "0 groups, as the chain has no norm"
        raise ValueError(f"shape: expected sizes with {groups}, got {tuple(shape)}")
    return replace(chain, groups=shape.groups), shape


def problem_of(row) -> tuple[Chain, Shape]:
    """The chain and the sizes in a row of a table: chain, batch, in_features and so on."""
    return problem(row.chain, tuple(int(getattr(row, size)) for size in Shape._fields))


def random_inputs(
    chain: Chain,
    shape: Shape,
    device: str | torch.device = "cpu",
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
):
    """Random (x, parameters), the same on every device for the same seed; other dtypes are float32 rounded.

    x is uniform in [0, 1), the linear layer's parameters are distributed as by nn.Linear, channel vectors are
    normal, and GroupNorm's weight and bias differ per channel, so that a mistake in any of them shows.
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
    }
    if chain.has_norm:
        parameters["norm_weight"] = uniform(out_features, low=0.5, high=1.5)
        parameters["norm_bias"] = uniform(out_features, low=-0.5, high=0.5)
    for name in chain.channels:
        values = torch.randn(out_features, dtype=torch.float32, generator=generator)
        parameters[name] = values.to(dtype).to(device)
    for name in chain.tensors:
        values = torch.randn(batch, out_features, dtype=torch.float32, generator=generator)
        parameters[name] = values.to(dtype).to(device)
    return x, parameters
