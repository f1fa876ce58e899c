"""A product of cuBLAS and the launch that follows it as one call, which can be replayed
(`fgn.native.replays`)."""

from __future__ import annotations

import torch
from torch import Tensor

from fgn.native import cublas, repeated, replays
from fgn.one_launch import OneLaunch
from fgn.precision import torch_linear


class AfterProduct:
    """y = launch(x W^T + bias) for tensors like those of a call before. call: the launch, whose operands
    `call.takes()` has accepted. precision: the product's, which is torch's setting now."""

    def __init__(self, call: OneLaunch, x: Tensor, weight: Tensor, bias: Tensor | None, precision: str):
        self.call, self.dtype = call, x.dtype
        rows = x.numel() // weight.shape[1]
        self.product_at = repeated.whole_blocks(rows * weight.shape[0] * x.element_size())
        self.product = None
        given = (weight,) if bias is None else (weight, bias)
        if all(map(repeated.usable_address, given)):
            self.product = cublas.linear(rows, weight, bias, call.device, precision)
        if self.product is not None:
            self.guard = repeated.guard_of(given)
            self.replays = replays.for_launches(call.library, call.device, self.launch)

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None, sizes=None):
        """The result for tensors with the kept call's x's and weight's sizes. sizes: v's, if it is no
        matrix."""
        at = None if self.product is None else self._addresses(x, weight, bias)
        if at is None:
            return self.call.launch(torch_linear(x, weight, bias), sizes)
        call = self.call
        y, u = call.results_of(self.dtype, sizes)
        memory = repeated.empty_on(call.device)((self.product_at + self.product.bytes,), (1,), torch.uint8)
        addresses = (
            *(*at, memory.data_ptr(), 0 if u is None else u.data_ptr(), y.data_ptr()),
            *call.arguments.pointers,
        )
        self.replays(addresses, torch._C._cuda_getCurrentRawStream(call.device))
        return y if u is None else (y, u)

    def _addresses(self, x, weight, bias) -> tuple[int, int, int] | None:
        """The addresses of the product's tensors, or None if it does not take them."""
        if not (self.guard(weight) if bias is None else self.guard(weight, bias)):
            return None
        x, weight, bias = (
            repeated.usable_address(x),
            weight.data_ptr(),
            0 if bias is None else bias.data_ptr(),
        )
        return (x, weight, bias) if x and not (weight | bias) & 15 else None

    def launch(self, addresses: tuple, stream: int):
        """Both launches. The call's struct has the addresses of the operands."""
        x, weight, bias, v, u, y, *_ = addresses
        self.product(x, weight, bias, v, v + self.product_at, stream)
        self.call.launch_at((v, u, y), stream)
