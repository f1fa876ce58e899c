"""Notebook 10's material on the backward: its bytes, what the forward keeps, its errors, its times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from cudasim.counting.counts import count
from fgn.chains import Chain, Shape, problem, random_inputs
from fgn.functional import chain_forward
from fgn.measure.accuracy import relative_error
from fgn.reference import chain_reference, ieee_float32
from fgn.teaching.settings import Setting, time_calls
from fgn.teaching.warp_requests import SECTOR_BYTES
from fgn.training import Kept, forward_keeping, run_backward

FLOAT_BYTES = 4

# The purpose of each kernel of the gradient before the product, in the words of the picture.
AGAIN, BACK, SUMS, ALL = "made again", "chain rule", "sums over a column", "all in one pass"
PURPOSES = {
    "naive_step_kernel": AGAIN,
    "naive_normalised_kernel": AGAIN,
    "naive_affine_kernel": AGAIN,
    "naive_derivative_kernel": BACK,
    "naive_operand_derivative_kernel": BACK,
    "naive_group_sums_kernel": BACK,
    "naive_norm_derivative_kernel": BACK,
    "naive_column_sum_kernel": SUMS,
    "column_sums_kernel": SUMS,
    "group_sums_kernel": BACK,
    **{
        f"{kind}_gradient_{of}_{width}_kernel": ALL
        for kind in ("fused", "rare")
        for of in ("float32", "float16", "bfloat16")
        for width in (8, 4, 2, 1)
    },
}


@dataclass
class Step:
    """The middle of a training step: the forward has run, and dy, the loss's gradient by y, is known."""

    chain: Chain
    shape: Shape
    x: Tensor
    parameters: dict[str, Tensor]
    dy: Tensor
    kept: Kept

    @property
    def vectors(self) -> list[str]:
        """The names of all vectors of parameters."""
        return [name for name in self.parameters if name != "weight"]

    def gradient(self, version: str) -> dict[str, Tensor]:
        """All gradients except the two products: those by v = x W^T + bias and by every vector."""
        return self._run(version, ["product", *self.vectors])

    def backward(self, version: str | None = None) -> dict[str, Tensor]:
        """The gradients by x and all parameters. version: None takes the one that training uses."""
        return self._run(version, ["x", "weight", *self.vectors])

    def _run(self, version, wanted) -> dict[str, Tensor]:
        with torch.no_grad():
            return run_backward(self.chain, self.dy, self.x, self.kept, self.parameters, wanted, version)

    def by_torch(self, dtype: torch.dtype) -> Callable[[], dict[str, Tensor]]:
        """A function that computes the same gradients by torch's autograd in this dtype, after torch's own
        forward."""
        with torch.enable_grad():
            inputs = {"x": self.x} | self.parameters
            inputs = {name: value.to(dtype).requires_grad_() for name, value in inputs.items()}
            parameters = {name: value for name, value in inputs.items() if name != "x"}
            y = chain_reference(self.chain, inputs["x"], parameters)

        def gradients() -> dict[str, Tensor]:
            found = torch.autograd.grad(y, list(inputs.values()), self.dy.to(dtype), retain_graph=True)
            return dict(zip(inputs, found, strict=True))

        return gradients


def step(chain: str | Chain, shape=None, device: str | torch.device = "cpu") -> Step:
    """A random problem after its forward. chain, shape: as for `fgn.compare()`."""
    chain, shape = problem(chain, shape, device)
    x, parameters = random_inputs(chain, shape, device)
    dy = torch.randn(shape.batch, shape.out_features, generator=torch.Generator().manual_seed(1)).to(device)
    with torch.no_grad():
        _, kept = forward_keeping(chain, x, parameters)
    return Step(chain, shape, x, parameters, dy, kept)


def predicted_bytes(chain: Chain) -> dict[str, int]:
    """Bytes for each element of v that the float32 gradient before the product has to move, by version.

    naive: with p operators, p + 2 kernels compute values again, and each reads one and writes one; p + 2
    kernels go back and read two. fused: it reads v and dy, and writes the gradient. Moments and sums over a
    column are left out: in a large batch they are few bytes.
    """
    kernels = len(chain.before) + len(chain.after) + 2
    return {"naive": kernels * (2 + 3) * FLOAT_BYTES, "fused": 3 * FLOAT_BYTES}


def moved(problem: Step, version: str) -> pd.DataFrame:
    """The launches of the gradient before the product, counted on the simulator: kernel, part (what it is
    for), read and written (bytes for each element of v; a sector that a launch reads twice counts once)."""
    counts = count(lambda: problem.gradient(version))
    elements = problem.dy.numel()
    return pd.DataFrame(
        {
            "kernel": counts.kernel,
            "part": counts.kernel.map(PURPOSES),
            "read": SECTOR_BYTES * counts.unique_sectors_read / elements,
            "written": SECTOR_BYTES * counts.unique_sectors_written / elements,
        }
    )


def kept_bytes(problem: Step) -> pd.DataFrame:
    """The tensors that each forward keeps for its backward beside x and the parameters, in bytes for each
    element of v.

    A row for each tensor that autograd keeps: whose, shape, dtype, bytes.
    """
    rows = []
    known = {value.data_ptr() for value in (problem.x, *problem.parameters.values())}

    def keeping(whose: str):
        seen = set(known)

        def pack(tensor: Tensor) -> Tensor:
            place = tensor.data_ptr()
            if place not in seen:
                seen.add(place)
                size = tensor.numel() * tensor.element_size() / problem.dy.numel()
                rows.append((whose, str(tuple(tensor.shape)), str(tensor.dtype).split(".")[1], size))
            return tensor

        return torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)

    # New leaves over the same memory, so that what autograd keeps is recognised by its address.
    parameters = {name: value.detach().requires_grad_() for name, value in problem.parameters.items()}
    x = problem.x.detach().requires_grad_()
    with torch.enable_grad():
        for whose, forward in (("torch eager", chain_reference), ("fgn", chain_forward)):
            with keeping(whose):
                y = forward(problem.chain, x, parameters)
            del y
    return pd.DataFrame(rows, columns=["whose", "shape", "dtype", "bytes"])


def errors(problem: Step, versions: list[str]) -> pd.DataFrame:
    """The relative error of each gradient against autograd in float64: a row for each gradient, a column for
    each version of the backward, and torch's own float32."""
    with ieee_float32():
        exact = problem.by_torch(torch.float64)()
        found = {version: problem.backward(version) for version in versions}
        found["torch"] = problem.by_torch(torch.float32)()
    return pd.DataFrame(
        {
            version: {name: relative_error(gradients[name], exact[name]) for name in exact}
            for version, gradients in found.items()
        }
    )


def is_repeatable(problem: Step, version: str) -> bool:
    """Whether two runs give the same bits."""
    first, second = problem.backward(version), problem.backward(version)
    return all(torch.equal(first[name], second[name]) for name in first)


def times(setting: Setting, problem: Step, versions: list[str], seconds: float = 0.2) -> pd.DataFrame:
    """The times of the backward alone: each version's, training's default, and torch eager's."""
    calls = {version: lambda version=version: problem.backward(version) for version in versions}
    calls |= {"fgn, as training takes it": problem.backward, "torch eager": problem.by_torch(torch.float32)}
    return time_calls(setting, calls, seconds)
