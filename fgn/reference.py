"""What torch computes: the chains in torch's own operators, and the three reference modules.

`chain_reference()` works for every chain and any floating dtype; in float64 it is the reference for all
errors. The modules repeat problems 30, 94 and 62 of KernelBench's level 2: the same constructors, parameter
names and order of creation.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fgn.chains import Chain
from fgn.precision import torch_precision


def apply_steps(steps, v: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    """Pointwise steps, one after the other. v: (batch, out_features)."""
    for step in steps:
        v = step.by_torch(v, parameters[step.operand] if step.operand else None)
    return v


def product_reference(chain: Chain, x: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    """The first part of a chain, its product and the operators before the norm: (batch, out_features)."""
    return apply_steps(chain.before, F.linear(x, parameters["weight"], parameters.get("bias")), parameters)


def norm_reference(chain: Chain, v: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    """The second part of a chain, its norm and the operators after it; v if there is no norm. v: (batch,
    out_features)."""
    if not chain.has_norm:
        return v
    # F.group_norm refuses a single value per channel, and then calls torch.group_norm.
    v = torch.group_norm(
        v, chain.groups, parameters.get("norm_weight"), parameters.get("norm_bias"), chain.eps
    )
    return apply_steps(chain.after, v, parameters)


def chain_reference(chain: Chain, x: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    """The chain by torch's operators, one after the other, in the dtype of its inputs.

    x: (batch, in_features). parameters: as for `fgn.chain_forward()`. Returns (batch, out_features).
    """
    return norm_reference(chain, product_reference(chain, x, parameters), parameters)


def chain_reference64(chain: Chain, x: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    """`chain_reference()` with every input converted to float64 first. Returns float64."""
    return chain_reference(chain, x.double(), {name: value.double() for name, value in parameters.items()})


def ieee_float32():
    """In this context torch multiplies float32 matrices in float32, without TF32. The setting is restored
    afterwards."""
    return torch_precision("ieee")


class GemmGroupNormHardtanh(nn.Module):
    """hardtanh(GroupNorm(Linear(x)))"""

    def __init__(self, in_features, out_features, num_groups, hardtanh_min, hardtanh_max):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.group_norm = nn.GroupNorm(num_groups, out_features)
        self.hardtanh = nn.Hardtanh(min_val=hardtanh_min, max_val=hardtanh_max)

    def forward(self, x: Tensor) -> Tensor:
        return self.hardtanh(self.group_norm(self.gemm(x)))


class GemmBiasAddHardtanhMishGroupNorm(nn.Module):
    """GroupNorm(mish(hardtanh(Linear(x) + bias)))"""

    def __init__(self, in_features, out_features, bias_shape, num_groups):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.hardtanh = nn.Hardtanh()
        self.mish = nn.Mish()
        self.groupnorm = nn.GroupNorm(num_groups=num_groups, num_channels=out_features)

    def forward(self, x: Tensor) -> Tensor:
        return self.groupnorm(self.mish(self.hardtanh(self.gemm(x) + self.bias)))


class MatmulGroupNormLeakyReluSum(nn.Module):
    """v + v with v = leaky_relu(GroupNorm(Linear(x)))"""

    def __init__(self, input_size, hidden_size, num_groups, eps=1e-5, negative_slope=0.01):
        super().__init__()
        self.fc = nn.Linear(input_size, hidden_size)
        self.gn = nn.GroupNorm(num_groups=num_groups, num_channels=hidden_size, eps=eps)
        self.leaky_relu = nn.LeakyReLU(negative_slope=negative_slope)

    def forward(self, x: Tensor) -> Tensor:
        v = self.leaky_relu(self.gn(self.fc(x)))
        return v + v
