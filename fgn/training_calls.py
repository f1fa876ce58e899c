"""The two calls of the library that training makes: what each needs is built once.

`NormCall` is the forward's second launch, `BackwardCall` the gradients. Their structs are built for one kind
of call (a chain, sizes, types, what is wanted); a call then writes the addresses of its tensors into them and
calls C. The caller has checked the tensors, and has made their device the current one: x, dy and v are
contiguous and aligned for 128-bit accesses; of the parameters `point_to()` says whether they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from cudasim.counting import counted
from fgn.chains import Chain, Shape
from fgn.native import cublas, repeated, replays
from fgn.native.library import ffi
from fgn.precision import torch_multiplies
from fgn.structs import PRODUCT, arguments_of, chain_struct, error_of, plan_of, raise_for

# From so many operations on, a float32 product by split halves, its copies included, is faster than cuBLAS's
# float32 product.
FEWEST_SPLIT_OPERATIONS = 4e9


def multiplies_by_torch(device: torch.device, shape: Shape, precision: str) -> bool:
    """Whether training multiplies by torch (cuBLAS): on a GPU it does, except for large products in "ieee",
    and where a call would have to change torch's settings, which are the whole process's."""
    if (
        device.type == "cpu"
        or not torch_multiplies(precision)
        or torch.are_deterministic_algorithms_enabled()
    ):
        return False
    operations = 2.0 * shape.batch * shape.in_features * shape.out_features
    return precision != "ieee" or operations < FEWEST_SPLIT_OPERATIONS


def own_rung(device: torch.device, shape: Shape, precision: str, planned_for=None) -> str:
    """The rung of the backward that a step takes where the products are fgn's own: "split" where it was
    measured to be faster, "transposed" elsewhere.

    Medians on an H200, dL/dx and dL/dW in "ieee", "transposed" and "split" in ms: 4096 x 2048 -> 2048 0.494
    and 0.445, 16384 x 1024 -> 1024 0.570 and 0.521, 1024 x 8192 -> 8192 1.612 and 1.653. So it is "split"
    where x and dL/dy together have more values than the weight. A product that the forward does not split,
    such as one of a few columns, has no halves to be made. planned_for: as for `plan_of()`.
    """
    batch, in_features, out_features, _ = shape
    if precision != "ieee" or 2.0 * batch * in_features * out_features < FEWEST_SPLIT_OPERATIONS:
        return "transposed"
    if batch * (in_features + out_features) <= in_features * out_features:
        return "transposed"
    for product in (
        Shape(batch, out_features, in_features, 0),  # dL/dx
        Shape(out_features, batch, in_features, 0),  # dL/dW
    ):
        plan = plan_of(PRODUCT, product, None, device, precision, planned_for, can_multiply=False)
        if plan.prepared_bytes == 0:
            return "transposed"
    return "split"


def _poison(*tensors: Tensor):
    """Fills new memory with NaN, so that what is never written is seen."""
    for tensor in tensors:
        tensor.view(torch.uint8).fill_(0xFF)


class _Call:
    """A struct fgn_chain and the parameters to which it points. chain: is kept alive, so that no other chain
    gets its id."""

    def __init__(
        self,
        library,
        chain: Chain,
        shape: Shape,
        precision: str,
        like: Tensor,
        parameters: Mapping[str, Tensor | None],
        of_vectors: torch.dtype,
    ):
        self.library, self.chain, self.shape, self.precision = library, chain, shape, precision
        self.device, self.number, self.dtype = like.device, like.get_device(), like.dtype
        self.of_vectors = of_vectors
        self.c_chain = chain_struct(library, chain, shape, precision, parameters, of_vectors)
        self.arguments = arguments_of(chain, self.c_chain, parameters)
        self.empty = repeated.empty_on(self.number)

    def point_to(self, tensors: Sequence[Tensor | None]) -> bool:
        """Lets the struct point to these parameters, in the order of `names_of()`. False where
        kernels cannot use one of them as it is."""
        return self.arguments.point_to(tensors)

    def is_at_work(self) -> bool:
        """Whether the call's device is a GPU, and the current one."""
        return self.number >= 0 and torch._C._cuda_getDevice() == self.number

    def stream(self) -> int:
        return torch._C._cuda_getCurrentRawStream(self.number) if self.number >= 0 else 0


class NormCall(_Call):
    """y = after(GroupNorm(before(v))), and the moments that the backward needs."""

    def __init__(self, library, *arguments):
        super().__init__(library, *arguments)
        of_integers = "int (*)(const fgn_chain *, uintptr_t, uintptr_t, uintptr_t, uintptr_t)"
        self.function = partial(ffi().cast(of_integers, library.fgn_norm_forward), self.c_chain)
        batch, _, channels, groups = self.shape
        self.of_y, self.of_moments = map(repeated.layout_of, ((batch, channels), (batch, groups, 2)))

    def __call__(self, v: Tensor, y_layout=None, poison: bool = False) -> tuple[Tensor, Tensor]:
        """y_layout: the sizes and strides of a y of more dimensions than v."""
        y = self.empty(*(y_layout or self.of_y), v.dtype)
        moments = self.empty(*self.of_moments, torch.float32)
        if poison:
            _poison(y, moments)
        if self.number < 0:
            counted.allow(v=v, y=y, moments=moments)
        status = self.function(v.data_ptr(), y.data_ptr(), moments.data_ptr(), self.stream())
        if status:
            raise_for(self.library, status)
        return y, moments


class BackwardCall(_Call):
    """The gradients that are wanted, by one rung of the backward.

    wanted: among "x", "weight", the vectors and tensors of the chain, and "product" for dL/dv. index: of the
    rung. by_torch: the products are torch's, whose setting is the call's precision.
    """

    def __init__(self, wanted: Sequence[str], index: int, by_torch: bool, *arguments):
        super().__init__(*arguments)
        self.wanted, self.index, self.by_torch = tuple(wanted), index, by_torch
        self.c_gradients = ffi().new("fgn_gradients *")
        needs_product = not {"x", "weight", "product"}.isdisjoint(wanted)
        self.writes_product = needs_product and not self.chain.is_product
        self.of_vectors_at, self.of_tensors_at = self._places()
        self.size = None
        of_integers = (
            "int (*)(int, const fgn_chain *, uintptr_t, uintptr_t, uintptr_t, uintptr_t, "
            "const fgn_gradients *, uintptr_t, unsigned long long, uintptr_t)"
        )
        self.function = partial(ffi().cast(of_integers, self.library.fgn_backward), index, self.c_chain)
        self.of_product, self.of_x, self.of_weight = map(self._at, ("product", "x", "weight"))
        self.wants_x, self.wants_weight = "x" in wanted, "weight" in wanted
        batch, in_features, out_features, _ = self.shape
        count = len(self.of_vectors_at)
        self.of_products, self.of_xs, self.of_weights, self.of_vectors_together = map(
            repeated.layout_of,
            (
                (batch, out_features),
                (batch, in_features),
                (out_features, in_features),
                (count * out_features,),
            ),
        )
        self.of_transposed = (out_features, batch), (1, out_features)
        self.of_parts = [((out_features,), (1,), i * out_features) for i in range(count)]
        names = ["x", "weight", "product"]
        names += [name for name, _ in (*self.of_vectors_at, *self.of_tensors_at)]
        # The names of what _gradients() returns, and whether each stands for one gradient.
        self.names, self.is_plain = names, len(set(names)) == len(names)
        # Torch multiplies by cuBLAS after the launch, unless these do: dL/dx and dL/dW, where wanted.
        self.multiplies, self.x_product, self.weight_product = by_torch, None, None
        self.replays = self._launch

    def keep(self):
        """Prepares for later calls like this one, with products of cuBLAS that can be replayed."""
        if self.by_torch:
            self._ask_for_products()
        if not self.multiplies:
            self.replays = replays.for_launches(self.library, self.number, self._launch)

    def _ask_for_products(self):
        batch, in_features, out_features, _ = self.shape
        own = self.dtype, self.number, self.precision
        x = cublas.product((batch, in_features, out_features), *own, first_is_t=False)
        weight = cublas.product((out_features, in_features, batch), *own, first_is_t=False, second_is_t=True)
        if x is not None and weight is not None:
            self.multiplies = False
            self.x_product = x if self.wants_x else None
            self.weight_product = weight if self.wants_weight else None

    def _at(self, field: str):
        """Where the address of this gradient goes."""
        return ffi().cast("uintptr_t *", ffi().addressof(self.c_gradients, field))

    def _places(self):
        """(name, where its address goes) for the gradients of vectors and tensors. An operand of several
        operators has several places."""
        fields = {"bias": "bias", "norm_weight": "norm_scale", "norm_bias": "norm_shift"}
        vectors = [(name, self._at(field)) for name, field in fields.items() if name in self.wanted]
        tensors = []
        for when, steps in (("before", self.chain.before), ("after", self.chain.after)):
            for i, step in enumerate(steps):
                if step.channel in self.wanted:
                    vectors.append((step.channel, self._at(f"{when}_channel") + i))
                if step.tensor in self.wanted:
                    tensors.append((step.tensor, self._at(f"{when}_tensor") + i))
        return vectors, tensors

    def order_of(self, names: Sequence[str]) -> list[int | None] | None:
        """Where in the list that `gradients()` returns those of these names are, None for each that is not
        wanted. None for all where an operand of several operators has several gradients."""
        places = {name: place for place, name in enumerate(self.names) if name in self.wanted}
        return [places.get(name) for name in names] if self.is_plain else None

    def __call__(
        self,
        dy: Tensor,
        x: Tensor | None,
        v: Tensor | None,
        moments: Tensor | None,
        weight: Tensor | None,
        poison: bool = False,
    ) -> dict[str, Tensor]:
        """The gradients by name, of the types of the struct. x: for the weight's; weight: for x's."""
        results = {}
        for name, gradient in zip(self.names, self.gradients(dy, x, v, moments, weight, poison), strict=True):
            if name in self.wanted:
                results[name] = results[name] + gradient if name in results else gradient
        return results

    def gradients(self, dy, x, v, moments, weight, poison: bool = False) -> list[Tensor | None]:
        """The gradients in the order of `names`, of which an operand of several operators has several."""
        empty, dtype, g = self.empty, dy.dtype, dy
        dx, dweight, vectors, tensors, own = None, None, [], [], []
        if self.writes_product:
            g = empty(*self.of_products, dtype)
            self.of_product[0] = g.data_ptr()
        if not self.multiplies:
            if self.wants_x:
                dx = empty(*self.of_xs, dtype)
            if self.wants_weight:
                dweight = empty(*self.of_weights, dtype)
        if not self.by_torch:
            self.of_x[0] = 0 if dx is None else dx.data_ptr()
            self.of_weight[0] = 0 if dweight is None else dweight.data_ptr()
        if self.of_vectors_at:
            together = empty(*self.of_vectors_together, self.of_vectors)
            for (_, at), part in zip(self.of_vectors_at, self.of_parts, strict=True):
                vectors.append(repeated.part_of(together, *part))
                at[0] = vectors[-1].data_ptr()
            own.append(together.data_ptr())
        for _, at in self.of_tensors_at:
            tensors.append(empty(*self.of_products, dtype))
            at[0] = tensors[-1].data_ptr()
            own.append(at[0])
        size = self.size
        if size is None:  # asked for once, when all places have an address
            size = self.size = self._workspace_bytes()
            products = [one.bytes for one in (self.x_product, self.weight_product) if one is not None]
            self.products_at = repeated.whole_blocks(size)
            self.memory_bytes = self.products_at + max(products) if products else size
        workspace = empty((self.memory_bytes,), (1,), torch.uint8)
        if poison:
            of_call = (g if self.writes_product else None, dx, dweight, workspace)
            _poison(*(tensor for tensor in (*of_call, *vectors, *tensors) if tensor is not None))
        if self.number < 0:
            self._allow(dy, x, v, moments, g, dx, dweight, workspace, (*vectors, *tensors))
        at = (
            0 if x is None else x.data_ptr(),
            0 if v is None else v.data_ptr(),
            0 if moments is None else moments.data_ptr(),
            *(dy.data_ptr(), workspace.data_ptr(), g.data_ptr()),
            0 if weight is None else weight.data_ptr(),
            0 if dx is None else dx.data_ptr(),
            0 if dweight is None else dweight.data_ptr(),
            *(*own, *self.arguments.pointers),
        )
        self.replays(at, self.stream())
        if self.multiplies:
            if self.wants_x:
                dx = torch.mm(g, weight)
            if self.wants_weight:
                dweight = torch.mm(repeated.part_of(g, *self.of_transposed), x)
        return [dx, dweight, g, *vectors, *tensors]

    def _launch(self, addresses: tuple, stream: int):
        """The launches of the library, and cuBLAS's products. The structs have the addresses."""
        x, v, moments, dy, workspace, g, weight, dx, dweight, *_ = addresses
        status = self.function(x, v, moments, dy, self.c_gradients, workspace, self.size, stream)
        if status:
            self._raise_for(status)
        memory = workspace + self.products_at
        if self.x_product is not None:
            self.x_product(g, weight, 0, dx, memory, stream)
        if self.weight_product is not None:
            self.weight_product(g, x, 0, dweight, memory, stream)

    def _workspace_bytes(self) -> int:
        size = ffi().new("unsigned long long *")
        status = self.library.fgn_backward_workspace_bytes(self.index, self.c_chain, self.c_gradients, size)
        if status:
            self._raise_for(status)
        return size[0]

    def _allow(self, dy, x, v, moments, g, dx, dweight, workspace, others):
        """Lets the simulator's kernels access the call's tensors, under names for its reports."""
        counted.allow(x=x, v=v, moments=moments, dy=dy, g=g, workspace=workspace)
        counted.allow(dx=dx, dweight=dweight)
        names = (f"gradient of {name} {i}" for i, name in enumerate(self.names[3:]))
        counted.allow(**dict(zip(names, others, strict=True)))

    def _raise_for(self, status: int):
        if status == self.library.FGN_NOT_SUPPORTED:
            name = ffi().string(self.library.fgn_backward_at(self.index).name).decode()
            raise RuntimeError(f"version: {name!r} does not run this: {error_of(self.library)}")
        raise_for(self.library, status)
