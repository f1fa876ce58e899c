"""Drop-in modules for the three chains: each is what `fgn.fuse()` makes of its reference module.

Each inherits its reference's constructor, so parameter names, their order of creation and state_dict are the
reference's. Its forward() is the reference's with the chain as one call, and follows the module's state at
the call: settings of submodules, hooks, replaced submodules. If the module no longer has that form, torch
runs its parts, with one warning.
"""

from __future__ import annotations

from torch import Tensor, nn

from fgn import reference
from fgn.chains import Chain
from fgn.functional import check_choice
from fgn.fusing.classes import fused_of, set_fused
from fgn.fusing.fuse import FusedForward


class ChainModule(nn.Module):
    """What the drop-in modules share. `version` and `precision` choose the kernels.

    It computes nothing itself: TypeError for a module with neither `reference_forward` nor its own forward().
    """

    reference_forward = None

    def __init__(self, *args, **kwargs):
        if type(self).reference_forward is None and type(self).forward is ChainModule.forward:
            raise TypeError(
                f"{type(self).__name__}: expected a module of one chain (such as "
                "fgn.GemmGroupNormHardtanh), or a subclass that has a reference_forward, got a class that "
                "has nothing to compute"
            )
        super().__init__(*args, **kwargs)

    def _choose(self, version: str | None, precision: str | None):
        check_choice(version, precision)
        self.version, self.precision = version, precision
        fused = self.fused_forward()  # made in the constructor, because torch.compile cannot trace the making
        if type(self).forward is ChainModule.forward:
            set_fused(self, fused)

    def fused_forward(self) -> FusedForward:
        """What runs the chain in `reference_forward`."""
        if "_fused" not in self.__dict__:
            self.__dict__["_fused"] = FusedForward(
                self, forward=type(self).reference_forward, takes_options=True
            )
        return fused_of(self)

    @property
    def chain(self) -> Chain:
        """The module's present chain. ValueError if it is no chain."""
        return self._chain_and_parameters()[0]

    def chain_parameters(self) -> dict[str, Tensor | None]:
        """The module's parameters by their names in `fgn.chain_forward()`."""
        return self._chain_and_parameters()[1]

    def _chain_and_parameters(self):
        traced = self.fused_forward().current()
        if traced is None or not traced.parts:
            raise ValueError(f"{type(self).__name__}: it has been changed so that it is no chain")
        return traced.parts[0].now()

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, in_features), of the weight's dtype and device. Returns (batch, out_features)."""
        return self.fused_forward()(x)


class GemmGroupNormHardtanh(ChainModule, reference.GemmGroupNormHardtanh):
    """hardtanh(GroupNorm(Linear(x))).

    Arguments as the reference's, `version` and `precision` as `fgn.chain_forward()`'s.
    """

    reference_forward = reference.GemmGroupNormHardtanh.forward

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
        self._choose(version, precision)


class GemmBiasAddHardtanhMishGroupNorm(ChainModule, reference.GemmBiasAddHardtanhMishGroupNorm):
    """GroupNorm(mish(hardtanh(Linear(x) + bias))).

    Arguments as the reference's, `version` and `precision` as `fgn.chain_forward()`'s.
    `bias_shape` is any shape that broadcasts to (out_features,).
    """

    reference_forward = reference.GemmBiasAddHardtanhMishGroupNorm.forward

    def __init__(self, in_features, out_features, bias_shape, num_groups, *, version=None, precision=None):
        super().__init__(in_features, out_features, bias_shape, num_groups)
        if self.bias.numel() not in (1, out_features) or (
            self.bias.dim() and self.bias.shape[-1] != self.bias.numel()
        ):
            raise ValueError(f"bias_shape: expected ({out_features},), got {tuple(self.bias.shape)}")
        self._choose(version, precision)


class MatmulGroupNormLeakyReluSum(ChainModule, reference.MatmulGroupNormLeakyReluSum):
    """v + v with v = leaky_relu(GroupNorm(Linear(x))).

    Arguments as the reference's, `version` and `precision` as `fgn.chain_forward()`'s.
    """

    reference_forward = reference.MatmulGroupNormLeakyReluSum.forward

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
        self._choose(version, precision)
