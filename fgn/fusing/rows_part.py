"""A function of rows after a chain, as a part of a model: one launch for softmax, a sum or RMSNorm and the
operators around it (`fgn.rows`).

If cuBLAS multiplies, that launch also applies the operators between the product and the function. A product
of fgn applies them to its sums. If a gradient is wanted, or the call is traced or transformed, torch runs
everything after the chain.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fgn.after_product import AfterProduct
from fgn.chains import Chain, Shape
from fgn.fusing.accepting import NotAChain, as_operand
from fgn.fusing.alone import ProductPart, gains_before_rows
from fgn.fusing.by_torch import by_torch
from fgn.fusing.kept import (
    MOST_KINDS,
    Last,
    as_vector,
    dtypes_of,
    each_once,
    keep,
    kind_of,
    ones_of,
    recall,
)
from fgn.fusing.meanings import has_global_hooks, not_plain
from fgn.fusing.parts import MOST_CHAINS, VALUE_AGAIN, ChainPart, Part
from fgn.fusing.row_functions import ALL, RowsFound, Settings, settings_of
from fgn.native import repeated
from fgn.native.repeated import ORDINARY_TENSORS
from fgn.operators import Pointwise
from fgn.precision import resolve, torch_linear
from fgn.rows import AGAIN, ROW_FUNCTIONS, Rows, calls, rows_forward
from fgn.structs import C_TYPES
from fgn.training_calls import multiplies_by_torch


class RowsPart(Part):
    """Runs `inner`, which is a chain, a product or another function of rows, and what follows it. It is
    called with the inputs of `inner`, and then the others that this part reads. second: a reduction of what
    `found`, which is pooling, gives, in the same launch."""

    def __init__(
        self,
        inner,
        found: RowsFound,
        count: int,
        owner: nn.Module,
        has_one_value: bool,
        second: RowsFound | None = None,
    ):
        super().__init__(found.after if second is None else (*found.after, *second.after))
        self.inner, self.found, self.count, self.has_one_value = inner, found, count, has_one_value
        self.second, last, nodes, leaves = second, found, found.nodes, found.leaves
        if second is not None:
            last, nodes, leaves = second, [*nodes, *second.nodes], [*leaves, *second.leaves]
        self.keeps = last.keeps  # whether one value for a row keeps the features' dimension
        self.name, self.leaves = inner.name, leaves
        if isinstance(inner, ProductPart):
            inner.is_before_rows = True
        self.by_torch = by_torch(found.inputs, nodes, owner)
        self.operands = [step.operand for step in found.after if step.operand not in (None, VALUE_AGAIN)]
        self.rows: dict[tuple, tuple[Chain | None, Rows]] = {}
        self.lasts: dict[tuple, tuple[Last, tuple]] = {}
        self.own_products: dict[tuple, bool] = {}  # kinds of calls in which fgn multiplies
        # Whether an operator may come between cuBLAS's product and the function: what is read again has none.
        self.may_follow_cublas = (
            isinstance(inner, ChainPart)
            and not inner.found.has_norm
            and not (found.reads_again and inner.steps)
        )

    @property
    def chains(self) -> dict:
        return self.inner.chains

    def __call__(self, *inputs):
        """The result; also the function's input, if others read it."""
        own, others = inputs[: self.count], inputs[self.count :]
        if not repeated.is_ordinary() or self.needs_gradients(inputs):
            return self._by_torch(self.inner(*own), others)
        y = self._behind_cublas(own, others)
        return self._behind_value(self.inner(*own), others) if y is None else y

    def _behind_value(self, u, others):
        """The result for the value u, and u if others read it too."""
        if type(u) is not Tensor or u.dtype not in C_TYPES or not u.numel() or u.layout != torch.strided:
            return self._by_torch(u, others)
        last = self._last_like(u, "value")
        if last is not None and repeated.usable_address(u):
            behind = self._others_as_rows(last, others)
            if behind is not None and last.call.takes(behind):
                y = last.call.launch(u, last.sizes)
                y = y if self.keeps else y.squeeze(-1)
                return (y, u) if self.found.keeps_sum else y
        matrix = u if u.dim() == 2 else u.flatten(0, -2) if u.dim() > 1 else u[None]
        planned = self._planned(matrix, matrix.shape[1], u.shape[:-1], None, (), others)
        if planned is None:
            return self._by_torch(u, others)
        rows, read = planned
        y = matrix if rows is None else rows_forward(rows, matrix, read)
        if rows is not None:
            self._keep(_kind(u, "value"), rows, matrix, Last((u,), matrix, matrix), (), others)
        y = self._shaped(y, u.shape)
        return (y, u) if self.found.keeps_sum else y

    def _shaped(self, y: Tensor, sizes) -> Tensor:
        """The result with the dimensions of the function's input, which has these sizes."""
        if len(sizes) != 2:
            y = y.view(*sizes[:-1], y.shape[1])
        return y if self.keeps else y.squeeze(-1)

    def _by_torch(self, u, others):
        y = self.by_torch(u, *others)
        return (y, u) if self.found.keeps_sum else y

    def every_leaf(self) -> list:
        return [*self.leaves, *self.inner.every_leaf()]

    def _behind_cublas(self, own, others):
        """The result if cuBLAS multiplies, with the operators between product and function in the function's
        launch. None if it does not, or if the function is not one of rows."""
        inner, x = self.inner, own[0]
        if not self.may_follow_cublas or type(x) is not Tensor or x.is_nested:
            return None
        y = self._behind_cublas_again(own, others)
        if y is not None:
            return y
        if self.own_products and (kind_of(x), inner.settings()) in self.own_products:
            return None
        if inner.options.version is not None or x.dim() < 2 or x.dtype not in C_TYPES or not x.numel():
            return None
        inputs = own
        try:
            if x.dim() > 2:
                if not inner.found.by_rows:
                    return None
                inputs = inner.inputs_of_rows(own)[0]
            matrix = inputs[0]
            chain, tensors, checked = inner.chain_and_tensors(*inputs)
        except NotAChain:
            return None
        tensors = ones_of(own, inner.operands, tensors) or tensors
        weight, bias, _, _, *operands = tensors
        features = weight.shape[0]
        shape = Shape(*matrix.shape, features, 0)
        precision = resolve(inner.options.precision, x.dtype)
        if not multiplies_by_torch(x.device, shape, precision):
            return None
        if precision == "ieee" and gains_before_rows(matrix, weight):
            keep(self.own_products, (kind_of(x), inner.settings()), True, MOST_KINDS)
            return None
        planned = self._planned(matrix, features, x.shape[:-1], chain, operands, others)
        if planned is None:
            return None
        v = torch_linear(matrix, weight, bias)
        last = Last(own, matrix, v, inner.settings(), chain, checked, inner.operands, tensors)
        y = rows_forward(planned[0], v, planned[1])
        self._keep(_kind(x, "x"), planned[0], v, last, operands, others)
        if last.call is not None:
            last.after_product = AfterProduct(last.call, matrix, weight, bias, precision)
        sizes = last.sizes or last.y_sizes
        if self.found.keeps_sum:
            return tuple([self._shaped(one, sizes) for one in y])
        return self._shaped(y, sizes)

    def _behind_cublas_again(self, own, others):
        """The same for a call that is like an earlier one: it checks only what may have changed, the modules,
        settings and tensors. None for any other call, and then nothing was multiplied."""
        inner, x = self.inner, own[0]
        last = self._last_like(x, "x")
        if last is None or last.settings != inner.settings():
            return None
        if last.views:
            own = last.with_views(own)
            if own is None:
                return None
        try:
            tensors, norm = inner.tensors_and_norm(own)
            if inner.chain_of(x, norm, last.checked) is not last.chain:
                return None
        except NotAChain:
            return None
        weight, bias, _, _, *operands = tensors
        behind = self._others_as_rows(last, others)
        if behind is None or dtypes_of(tensors) != last.dtypes or weight.shape[0] != last.y_sizes[1]:
            return None
        if not last.call.takes((*operands, *behind)):
            return None
        y = last.after_product(x, weight, bias, last.sizes)
        return y if self.keeps else y.squeeze(-1)

    def _last_like(self, given: Tensor, what: str) -> Last | None:
        """The earlier call with such an x, or such a value, if the function and what follows it have not
        changed."""
        last, behind = self.lasts.get(_kind(given, what), (None, None))
        if last is None:
            return None
        try:
            return last if behind == self._behind() else None
        except NotAChain:
            return None

    def _others_as_rows(self, last: Last, others):
        """The operands after the function, as its launch reads them: one element is copied to a vector. None
        if it cannot read one, or would have to copy one for another reason."""
        if not self.operands:
            return ()
        behind = [others[number - 1] for number in self.operands]
        if any(type(one) not in ORDINARY_TENSORS for one in behind):
            return None
        rows = each_once(lambda one: self._as_row(last, one, last.results), behind)
        return None if any(row is None for row in rows) else tuple(rows)

    def _as_row(self, last: Last, one: Tensor, results: int) -> Tensor | None:
        sizes = last.sizes
        if sizes is not None and one.dim() == len(sizes) and one.shape == (*sizes[:-1], results):
            rows = last.y_sizes[0]
            return repeated.part_of(one, (rows, results), (results, 1)) if one.is_contiguous() else None
        is_vector = one.dim() == 1 and len(one) == results
        if not is_vector and one.dim() <= (2 if sizes is None else 1) and one.numel() in (1, results):
            return as_vector(one, results) if one.is_contiguous() else None
        return one

    def _keep(self, kind: tuple, rows: Rows, v: Tensor, last: Last, operands, others):
        """Keeps the call for v, if its operands were used without copies. operands: those before the
        function."""
        last.results = rows.windows_of(rows.features_of(v))
        behind = self._others_as_rows(last, others)
        if behind is None:
            return
        last.call = calls.kept_call(rows, v, (*operands, *behind))
        if last.call is not None:
            keep(self.lasts, kind, (last, self._behind()), MOST_KINDS)

    def _planned(
        self, like: Tensor, features: int, outer: tuple[int, ...], chain: Chain | None, operands, others
    ) -> tuple[Rows | None, dict[str, Tensor]] | None:
        """The function of rows with this many features, after the operators of a chain if there is one, and
        its operands; None if it is not one of rows. The function None is the value itself. like: a matrix
        with as many rows. outer: the dimensions before the last of the model's tensor, whose product is the
        number of rows."""
        of_matrix = self.found.of_matrix or (self.second is not None and self.second.of_matrix)
        if of_matrix and len(outer) != 1:
            return None
        try:
            settings = self._settings(features, len(outer) + 1)
            if self.has_one_value:
                if features != 1:
                    return None
                if not self.found.after:
                    return None, {}
                settings = settings._replace(function="sum", window=None)
            read = {} if chain is None else dict(zip(chain.operands, operands, strict=True))
            roles = ()
            if self.operands:
                roles = self._read_behind(settings, self._results(features), like, outer, others, read)
            return self._rows(settings, chain, roles), read
        except NotAChain:
            return None

    def _results(self, features: int) -> int:
        """The number of values computed in each row, if the function gives one for each."""
        return features if self.found.half is None else features // 2

    def _read_behind(self, settings: Settings, features: int, like: Tensor, outer, others, read: dict):
        """The roles of the operands after the function, which are added to those that are read."""
        results, roles = features, []
        if ROW_FUNCTIONS[settings.function].reduces:
            results //= settings.window or results
        for number in self.operands:
            one = others[number - 1]
            if isinstance(one, Tensor) and len(outer) != 1:
                if one.shape == (*outer, results):
                    one = one.reshape(-1, results)
                elif one.dim() > 1:
                    raise NotAChain(f"an operand has shape {tuple(one.shape)}")
            role, tensor = as_operand(one, like, results)
            roles.append(role)
            read[f"operand_{number}_behind"] = tensor
        return tuple(roles)

    def _settings_of_modules(self) -> Settings:
        """The present function. NotAChain if it is no longer what it was."""
        if self.leaves and has_global_hooks():
            raise NotAChain("there are hooks of all modules")
        for module, cls, only_in_eval in self.leaves:
            if not_plain(module, cls) or (only_in_eval and module.training):
                raise NotAChain("a module is no longer what it was")
        return settings_of(self.found)

    def _settings(self, features: int, dimensions: int) -> Settings:
        """The function as it is now. NotAChain where it is none of rows of so many features."""
        settings = self._settings_of_modules()
        for one in (settings, self.second and self.second.settings):
            if one is not None and one.dim is not None and one.dim not in (-1, dimensions - 1):
                raise NotAChain("it is not over the last dimension")
        window = settings.window
        if settings.function == "values":
            if self.found.half is not None and (features % 2 or window not in (None, features // 2)):
                raise NotAChain("no two halves")
            return settings._replace(window=None)
        if settings.function in ("rms_norm", "layer_norm"):
            if window not in (features, ALL):
                raise NotAChain("the norm is not over the features")
            # torch computes 16-bit values in float32, so it uses float32's eps.
            eps = torch.finfo(torch.float32).eps if settings.eps is None else settings.eps
            settings = settings._replace(window=None, eps=eps)
        elif window is not None and not (type(window) is int and 1 <= window <= features):
            raise NotAChain("pooling of more features than there are")
        return settings

    def _behind(self) -> tuple:
        """What decides about the function and the steps behind it, besides the sizes."""
        return self._settings_of_modules(), *self.settings_of_steps()

    def _rows(self, settings: Settings, chain: Chain | None, roles: tuple[str, ...]) -> Rows:
        """The function with the operators around it, the same object for the same ones."""
        key = (settings, id(chain), roles, *self.settings_of_steps())
        known = recall(self.rows, key)
        if known is not None and known[0] is chain:
            return known[1]
        left = iter(roles)
        try:
            steps = [step.at_call(left) for step in self.found.after]
            last = [step.at_call(left) for step in self.second.after] if self.second is not None else []
        except ValueError as error:
            raise NotAChain(str(error)) from None
        before = () if chain is None else chain.before
        steps = tuple([_renamed(step) for step in steps])
        keeps = self.found.keeps_sum and chain is not None
        of = settings.function, before, steps, settings.window, float(settings.eps), keeps
        second = None if self.second is None else self.second.settings.function
        rows = Rows(*of, self.found.half, second, tuple(last))
        keep(self.rows, key, (chain, rows), MOST_CHAINS)
        return rows


def _kind(given: Tensor, what: str) -> tuple:
    return what, *kind_of(given)


def _renamed(step: Pointwise) -> Pointwise:
    """The step with operand names that do not clash with those of the chain before it."""
    if step.operand in (None, AGAIN):
        return step
    field = "channel" if step.channel else "tensor"
    return Pointwise(step.kind, step.a, step.b, **{field: f"{step.operand}_behind"})
