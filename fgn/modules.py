"""Drop-in modules for the three chains.

Each inherits its reference's constructor, so parameter names, their order of creation and state_dict are the
reference's, and replaces `forward()` by fgn's kernels. There is no backward yet: call them under
`torch.no_grad()` or `torch.inference_mode()`.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from fgn import reference
from fgn.chains import CHAINS, Pointwise
from fgn.functional import chain_forward


class ChainModule(nn.Module):
    """What the drop-in modules share. `chain` describes the module, `version` chooses its kernels."""

    def chain_parameters(self) -> dict[str, Tensor]:
        """The module's parameters by the names that `fgn.chain_forward()` gives them."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, in_features), of the weight's dtype and device. Returns (batch, out_features)."""
        return chain_forward(
            self.chain, x, self.chain_parameters(), version=self.version, precision=self.precision
        )


def _linear_and_norm(linear: nn.Linear, norm: nn.GroupNorm) -> dict[str, Tensor]:
    return {
        "weight": linear.weight,
        "bias": linear.bias,
        "norm_weight": norm.weight,
        "norm_bias": norm.bias,
    }


class GemmGroupNormHardtanh(ChainModule, reference.GemmGroupNormHardtanh):
    """hardtanh(GroupNorm(Linear(x))).

    Arguments as the reference's, `version` and `precision` as `fgn.chain_forward()`'s.
    """

    def __init__(
        self,
        in_features,
        out_features,
        num_groups,
        hardtanh_min,
        hardtanh_max,
        *,
        version=None,
        precision=None,
    ):
        super().__init__(in_features, out_features, num_groups, hardtanh_min, hardtanh_max)
        self.version, self.precision = version, precision
        self.chain = replace(
            CHAINS["gemm_groupnorm_hardtanh"],
            groups=num_groups,
            after=(Pointwise("hardtanh", hardtanh_min, hardtanh_max),),
        )

    def chain_parameters(self) -> dict[str, Tensor]:
        return _linear_and_norm(self.gemm, self.group_norm)


class GemmBiasAddHardtanhMishGroupNorm(ChainModule, reference.GemmBiasAddHardtanhMishGroupNorm):
    """GroupNorm(mish(hardtanh(Linear(x) + bias))).

    Arguments as the reference's, `version` and `precision` as `fgn.chain_forward()`'s.
    `bias_shape` is any shape that broadcasts to (out_features,).
    """

    def __init__(self, in_features, out_features, bias_shape, num_groups, *, version=None, precision=None):
        super().__init__(in_features, out_features, bias_shape, num_groups)
        if self.bias.numel() not in (1, out_features) or (
            self.bias.dim() and self.bias.shape[-1] != self.bias.numel()
        ):
            raise ValueError(f"bias_shape: expected ({out_features},), got {tuple(self.bias.shape)}")
        self.version, self.precision = version, precision
        self.chain = replace(CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"], groups=num_groups)

    def chain_parameters(self) -> dict[str, Tensor]:
        channel_bias = self.bias.reshape(-1).expand(self.gemm.out_features)
        return _linear_and_norm(self.gemm, self.groupnorm) | {"channel_bias": channel_bias}


class MatmulGroupNormLeakyReluSum(ChainModule, reference.MatmulGroupNormLeakyReluSum):
    """v + v with v = leaky_relu(GroupNorm(Linear(x))).

    Arguments as the reference's, `version` and `precision` as `fgn.chain_forward()`'s.
    """

    def __init__(
        self,
        input_size,
        hidden_size,
        num_groups,
        eps=1e-5,
        negative_slope=0.01,
        *,
        version=None,
        precision=None,
    ):
        super().__init__(input_size, hidden_size, num_groups, eps, negative_slope)
        self.version, self.precision = version, precision
        self.chain = replace(
            CHAINS["matmul_groupnorm_leakyrelu_sum"],
            groups=num_groups,
            after=(Pointwise("leaky_relu", negative_slope), Pointwise("double")),
            eps=eps,
        )

    def chain_parameters(self) -> dict[str, Tensor]:
        return _linear_and_norm(self.fc, self.gn)
