"""A function of rows behind a chain, as a part of a model: one launch for softmax, a sum or RMSNorm and the
operators around it (`fgn.rows`).

Where cuBLAS multiplies, the operators between the product and the function belong to that launch too. A
product of fgn's own applies them to its sums. Where a gradient is wanted, and where somebody traces or
transforms the call, torch runs all that is behind the chain.
"""

from __future__ import annotations

from threading import get_ident
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fgn.chains import Chain, Shape
from fgn.fusing.accepting import NotAChain, as_operand
from fgn.fusing.by_torch import ByTorch
from fgn.fusing.meanings import has_global_hooks, not_plain
from fgn.fusing.parts import MOST_CHAINS, ChainPart, Part
from fgn.fusing.row_functions import RowsFound, Settings, settings_of
from fgn.native import repeated
from fgn.native.repeated import ORDINARY_TENSORS
from fgn.operators import Pointwise
from fgn.precision import resolve
from fgn.rows import ROW_FUNCTIONS, Rows, holds_layer_norm, kept_call, rows_forward
from fgn.structs import C_TYPES
from fgn.training_calls import multiplies_by_torch


class _Last(NamedTuple):
    """What a call was like, and the call of the library that it made."""

    chain: Chain
    shape: torch.Size
    dtype: torch.dtype
    thread: int
    call: object


class RowsPart(Part):
    """Runs `inner`, which is a chain, a product or another function of rows, and what is behind it. Called
    with the inputs of `inner`, and then the others that this part reads."""

    def __init__(self, inner, found: RowsFound, count: int, owner: nn.Module, has_one_value: bool):
        self.inner, self.found, self.count, self.has_one_value = inner, found, count, has_one_value
        self.name, self.leaves = inner.name, found.leaves
        self.by_torch = ByTorch(found.inputs, found.nodes, owner)
        self.operands = [step.operand for step in found.after if step.operand is not None]
        self.rows: dict[tuple, tuple[Chain | None, Rows]] = {}
        self.last: _Last | None = None

    @property
    def chains(self) -> dict:
        return self.inner.chains

    def __call__(self, *inputs):
        """The result; where others read the value that the function is of, that one too."""
        own, others = inputs[: self.count], inputs[self.count :]
        if not repeated.is_ordinary() or self._need_gradients(inputs):
            return self._by_parts(own, others)
        chain, tensors, x, sizes = self._before(own)
        if chain is None:
            u = self.inner(*own)
            y = self._of_rows(u, None, (), others, u.dim() if isinstance(u, Tensor) else 0)
            y = self.by_torch((u, *others)) if y is None else y
            return (y, u) if self.found.keeps_sum else y
        weight, bias, _, _, *operands = tensors
        v = F.linear(x, weight, bias)
        y = self._repeat(v, chain, operands)
        if y is None:
            y = self._of_rows(v, chain, operands, others, own[0].dim())
        if y is None:
            return self._by_parts(own, others)
        if sizes is None:
            return y
        return (
            tuple([one.unflatten(0, sizes) for one in y]) if self.found.keeps_sum else y.unflatten(0, sizes)
        )

    def _by_parts(self, own, others):
        u = self.inner(*own)
        y = self.by_torch((u, *others))
        return (y, u) if self.found.keeps_sum else y

    def _need_gradients(self, inputs) -> bool:
        if not torch.is_grad_enabled():
            return False
        parameters = self.parameters()
        return any(type(one) not in ORDINARY_TENSORS or one.requires_grad for one in (*inputs, *parameters))

    def parameters(self) -> list[Tensor]:
        """Those of the modules inside."""
        modules = {module for module, *_ in self.leaves}
        own = [value for module in modules for value in module._parameters.values() if value is not None]
        if isinstance(self.inner, RowsPart):
            return own + self.inner.parameters()
        inner = {module for module, *_ in self.inner.leaves}
        return own + [value for module in inner for value in module._parameters.values() if value is not None]

    def _before(self, inputs) -> tuple[Chain | None, tuple, Tensor | None, torch.Size | None]:
        """Where cuBLAS multiplies: the chain between the product and the function, its tensors, and x as a
        matrix, with the other dimensions that it had, or None."""
        inner, x, sizes = self.inner, inputs[0], None
        nothing = None, (), None, None
        if not isinstance(inner, ChainPart) or inner.found.has_norm or inner.options.version is not None:
            return nothing
        if type(x) is not Tensor or x.dim() < 2 or x.dtype not in C_TYPES or not x.numel():
            return nothing
        try:
            if x.dim() > 2:
                if not inner.found.by_rows or self.found.of_matrix:
                    return nothing
                inputs, sizes = inner.inputs_of_rows(inputs)
                x = inputs[0]
            chain, tensors = inner.chain_and_tensors(*inputs)
        except NotAChain:
            return nothing
        shape = Shape(*x.shape, tensors[0].shape[0], 0)
        if not multiplies_by_torch(x.device, shape, resolve(inner.options.precision, x.dtype)):
            return nothing
        return chain, tensors, x, sizes

    def _repeat(self, v: Tensor, chain: Chain, operands) -> Tensor | None:
        """The result of a call that is like the one before it, or None. A function that is a module's, or has
        operands behind it, is looked at each time."""
        last = self.last
        if (
            last is None
            or last.chain is not chain
            or last.shape != v.shape
            or last.dtype is not v.dtype
            or last.thread != get_ident()
        ):
            return None
        y = last.call(v, operands)
        return y if y is None or self.found.keeps else y.squeeze(-1)  # what keeps the sum keeps its dimension

    def _of_rows(self, v, chain: Chain | None, operands, others, dimensions: int):
        """The function of v, after the chain's operators if there is one. None where it is none of rows.
        dimensions: of the model's tensor, of which v may be the rows."""
        try:
            settings = self._settings(v, dimensions)
            if self.found.of_matrix and v.dim() != 2:
                return None
            matrix = v if v.dim() == 2 else v.flatten(0, -2) if v.dim() > 1 else v[None]
            if self.has_one_value:
                if matrix.shape[-1] != 1:
                    return None
                if not self.found.after:
                    return v if self.found.keeps else v.squeeze(-1)
                settings = settings._replace(function="sum", window=None)
            read = {} if chain is None else dict(zip(chain.operands, operands, strict=True))
            roles = self._read_behind(settings, matrix, others, read) if self.operands else ()
            rows = self._rows(settings, chain, roles)
        except NotAChain:
            return None
        y = rows_forward(rows, matrix, read)
        if chain is not None and not self.leaves and not self.operands:
            call = kept_call(rows, matrix, operands)
            self.last = call and _Last(chain, v.shape, v.dtype, get_ident(), call)
        if v.dim() != 2:
            y = y.unflatten(0, v.shape[:-1]) if v.dim() > 1 else y[0]
        return y if self.found.keeps else y.squeeze(-1)

    def _read_behind(self, settings: Settings, matrix: Tensor, others, read: dict) -> tuple[str, ...]:
        """The roles of the operands behind the function, which are put among those that are read."""
        results = matrix.shape[1]
        if ROW_FUNCTIONS[settings.function].reduces:
            results //= settings.window or results
        like, roles = matrix[:, :results], []
        for number in self.operands:
            role, tensor = as_operand(others[number - 1], like, results)
            roles.append(role)
            read[f"operand_{number}_behind"] = tensor
        return tuple(roles)

    def _settings(self, v, dimensions: int) -> Settings:
        """The function as it is now. NotAChain where it is none of the rows of v."""
        if type(v) is not Tensor or v.dtype not in C_TYPES or not v.numel() or v.layout != torch.strided:
            raise NotAChain("v is no tensor of a dtype that kernels have")
        if has_global_hooks():
            raise NotAChain("there are hooks of all modules")
        for module, cls, only_in_eval in self.leaves:
            if not_plain(module, cls) or (only_in_eval and module.training):
                raise NotAChain("a module is no longer what it was")
        settings = settings_of(self.found)
        if settings.dim is not None and settings.dim not in (-1, dimensions - 1):
            raise NotAChain("it is not over the last dimension")
        window, features = settings.window, v.shape[-1]
        if settings.function in ("rms_norm", "layer_norm"):
            if window != features:
                raise NotAChain("the norm is not over the features")
            if settings.function == "layer_norm" and not holds_layer_norm(v):
                raise NotAChain("registers do not hold a row")
            # torch computes 16-bit values in float32, and so takes float32's.
            eps = torch.finfo(torch.float32).eps if settings.eps is None else settings.eps
            settings = settings._replace(window=None, eps=eps)
        elif window is not None and not (type(window) is int and 1 <= window <= features):
            raise NotAChain("pooling of more features than there are")
        return settings

    def _rows(self, settings: Settings, chain: Chain | None, roles: tuple[str, ...]) -> Rows:
        """The function with the operators around it, the same object for the same ones."""
        after = self.found.after
        attributes = [getattr(step.module, name) for step in after for name in step.attributes]
        kinds = [step.kind(step.module) for step in after if callable(step.kind)]
        key = (settings, id(chain), roles, *attributes, *kinds)
        known = self.rows.get(key)
        if known is not None and known[0] is chain:
            return known[1]
        left = iter(roles)
        try:
            steps = [step.at_call(left) for step in after]
        except ValueError as error:
            raise NotAChain(str(error)) from None
        before = () if chain is None else chain.before
        steps = tuple([_renamed(step) for step in steps])
        keeps = self.found.keeps_sum and chain is not None
        rows = Rows(settings.function, before, steps, settings.window, float(settings.eps), keeps)
        if len(self.rows) >= MOST_CHAINS:
            self.rows.pop(next(iter(self.rows)))
        self.rows[key] = chain, rows
        return rows


def _renamed(step: Pointwise) -> Pointwise:
    """The step with names of operands that those of a chain before it do not have."""
    if step.operand is None:
        return step
    field = "channel" if step.channel else "tensor"
    return Pointwise(step.kind, step.a, step.b, **{field: f"{step.operand}_behind"})
