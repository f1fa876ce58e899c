"""One call of the library without gradients: `run_chain()` plans it, finds its memory and launches it.

For the version "library", torch multiplies here, before the library is called. A call that used the given
tensors without copies is kept for similar calls (`fgn.native.repeated`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from cudasim.building.library import is_counting
from cudasim.counting import counted
from fgn.chains import Chain, Shape
from fgn.checks import check_call, check_groups, check_kind, check_linear, check_shape
from fgn.native import cublas, prepared, repeated, tuned
from fgn.native.library import ffi
from fgn.precision import resolve, torch_linear, torch_multiplies, torch_multiplies_as
from fgn.structs import (
    PRODUCT,
    allocate,
    arguments_of,
    chain_struct,
    chosen_version,
    library_of,
    mark_ones,
    names_of,
    plan_struct,
    pointer,
    raise_for,
    usable,
    usable_in,
)

# The version whose product is torch's.
LIBRARY = "library"


def run_chain(
    chain: Chain,
    x: Tensor,
    parameters: Mapping[str, Tensor | None],
    version: str | None = None,
    poison: bool = False,
    precision: str | None = None,
    multiprocessors: int | None = None,
) -> Tensor:
    """`chain_forward()` without torch.library around it.

    `PRODUCT` is the product alone. poison: the result and the scratch memory are NaN before the first launch.
    multiprocessors: plan the launches for a device with this many multiprocessors; None: this device's
    number.
    """
    tensors = {name: parameters[name] for name in chain.tensors}
    vectors = {name: value for name, value in parameters.items() if name not in ("weight", *tensors)}
    batch, in_features, out_features = check_linear(x, parameters["weight"], vectors)
    for name, value in tensors.items():
        check_kind(name, value, x.device, (x.dtype,))
        check_shape(name, value, batch, out_features)
    if chain.has_norm:
        check_groups(chain.groups, out_features)
    given_precision, precision = precision, resolve(precision, x.dtype)
    shape = Shape(batch, in_features, out_features, chain.groups)
    with library_of(x.device) as (library, stream):
        frozen = prepared.is_frozen(parameters["weight"])
        plan, vector_dtype = _plan_and_vectors(
            library, chain, shape, precision, x, vectors, version, frozen, multiprocessors
        )
        tuned.note(chain, x, parameters, precision, frozen)
        given = x, parameters
        x = usable(x)
        weight = usable(parameters["weight"])
        tensors = {name: usable(value) for name, value in tensors.items()}
        parameters = {name: usable_in(value, vector_dtype) for name, value in vectors.items()} | tensors
        parameters["weight"] = weight
        may = bool(plan.chain.can_multiply)
        c_chain = chain_struct(library, chain, shape, precision, parameters, vector_dtype, frozen, may)
        y = allocate((batch, out_features), x.device, x.dtype, poison)
        if batch > 0:
            used = dict(parameters)
            keeps = weight is given[1]["weight"]
            plan, used["prepared"], kept = _prepared_weight(library, plan, c_chain, weight, keeps, stream)
            size = plan.workspace_bytes
            if plan.product_bytes > 0:
                workspace = _product_by_torch(x, weight, given[1].get("bias"), precision)
            else:
                workspace = allocate(size, x.device, torch.uint8, poison)
            counted.allow(x=x, y=y, workspace=workspace, **used)
            pointers = (pointer(x), pointer(y), pointer(workspace))
            raise_for(library, library.fgn_run(plan, c_chain, *pointers, size, stream))
            # A counted call uses another library, so a plain call may not repeat it.
            if kept and multiprocessors is None and not is_counting.get():
                _keep(library, plan, c_chain, chain, *given, x, used, version, given_precision)
        return y


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None, version=None, precision=None) -> Tensor:
    """v = x W^T + bias without gradients, by a version's product."""
    if repeated.is_ordinary():
        v = repeated.repeat(PRODUCT, x, (weight, bias, None, None), version, precision)
        if v is not None:
            return v
    given = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
    check_call(version, precision, x, given)
    return run_chain(PRODUCT, x, given, version, precision=precision)


# ------------------------------------------------------------------------------------------------------------
# The plan, and what it needs


def _plan_and_vectors(library, chain, shape, precision, x, vectors, version, frozen, multiprocessors):
    """The plan of a call, and the type in which its version reads vectors: their own, or else float32."""
    may = version == LIBRARY or can_multiply(x, vectors, precision)
    if version == LIBRARY and not fits_torch_product(x, vectors):
        raise RuntimeError(
            f"version: {LIBRARY!r} does not run this: torch's product takes a bias of x's dtype, {x.dtype}, "
            f"got {vectors['bias'].dtype}"
        )
    c_chain = chain_struct(library, chain, shape, precision, {}, frozen=frozen, can_multiply=may)
    chosen = chosen_version(library, version, x.device, chain, shape, precision, c_chain, multiprocessors)
    plan = plan_struct(library, x.device, *chosen, c_chain, multiprocessors)
    if x.dtype != torch.float32 and all(
        vector is None or vector.dtype == x.dtype for vector in vectors.values()
    ):
        c_chain.vector_type = c_chain.type
        own, c_device = ffi().new("fgn_plan *"), ffi().addressof(plan, "device")
        status = library.fgn_plan_candidate(plan.version, plan.candidate, c_chain, c_device, own)
        if status == library.FGN_OK:
            return own, x.dtype
    return plan, torch.float32


def _prepared_weight(library, plan, c_chain, weight: Tensor, keeps: bool, stream):
    """What the plan's version makes of the weight beside it: (plan, memory, whether it is kept).

    The memory is None if the version makes nothing, or makes it in the workspace. keeps: whether later calls
    can use it. c_chain gets the memory's address. The returned plan may differ from the given one: if nothing
    can be kept, the library plans for this call alone, which need not check whether the weight has changed.
    """
    if plan.prepared_bytes == 0:
        return plan, None, True

    def write(memory: Tensor):
        counted.allow(weight=weight, prepared=memory)
        raise_for(library, library.fgn_prepare(plan, c_chain, pointer(memory), stream))

    memory = prepared.keep(weight, plan.prepared_bytes, bool(c_chain.frozen), write) if keeps else None
    kept = memory is not None
    if not kept:
        c_chain.frozen = 1
        plan = _planned_alike(library, plan, c_chain)
        memory = torch.empty(plan.prepared_bytes, dtype=torch.uint8, device=weight.device)
        write(memory)
    c_chain.prepared = pointer(memory)
    return plan, memory, kept


def _planned_alike(library, plan, c_chain):
    """The plan of this chain for the version and device of another plan."""
    other = ffi().new("fgn_plan *")
    device = ffi().addressof(plan, "device")
    raise_for(library, library.fgn_plan_candidate(plan.version, plan.candidate, c_chain, device, other))
    return other


def _splits(library, plan, c_chain) -> bool:
    """Whether the plan's version splits the weight, so that it would keep the halves of a frozen one."""
    if plan.prepared_bytes > 0:
        return True
    before, c_chain.frozen = c_chain.frozen, 1
    frozen = _planned_alike(library, plan, c_chain)
    c_chain.frozen = before
    return frozen.prepared_bytes > 0


# ------------------------------------------------------------------------------------------------------------
# Torch's product


def fits_torch_product(x: Tensor, parameters: Mapping[str, Tensor | None]) -> bool:
    """Whether torch's product takes these tensors: torch refuses a bias of another dtype than x's."""
    bias = parameters.get("bias")
    return bias is None or bias.dtype == x.dtype


def can_multiply(x: Tensor, parameters: Mapping[str, Tensor | None], precision: str) -> bool:
    """Whether a plan may ask for torch's product if no version is named. Three conditions must hold: torch
    takes the tensors; torch's setting, which is global, is the call's precision; and deterministic
    algorithms, for which cuBLAS needs an environment variable, are off."""
    return (
        fits_torch_product(x, parameters)
        and torch_multiplies(precision)
        and not torch.are_deterministic_algorithms_enabled()
    )


def _product_by_torch(x: Tensor, weight: Tensor, bias: Tensor | None, precision: str) -> Tensor:
    """v = x W^T + bias, in a form that kernels read."""
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False), torch_multiplies_as(precision):
        return usable(torch_linear(x, weight, bias))


# ------------------------------------------------------------------------------------------------------------
# Calls that are kept


def _repeated_product(precision: str):
    """`torch_linear()` in this precision, for calls under the setting that torch has now."""
    if torch_multiplies(precision):
        return torch_linear if precision == "ieee" else torch._C._nn.linear

    def in_precision(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        with torch_multiplies_as(precision):
            return torch_linear(x, weight, bias)

    return in_precision


def _keep(library, plan, c_chain, chain, given_x, given, x, parameters, version, precision):
    """Keeps this call for later ones like it, if it used the given tensors without copies."""
    names = names_of(chain)
    used, given = (tuple(of.get(name) for name in names) for of in (parameters, given))
    pairs = [(a, b) for a, b in zip(used, given, strict=True) if a is not b]
    if x is not given_x or x.numel() == 1 or any(a.dtype == b.dtype for a, b in pairs):
        return
    key = repeated.key_of(chain, x, given, version, precision)
    run = ffi().cast(
        "int (*)(const fgn_plan *, const fgn_chain *, "
        "uintptr_t, uintptr_t, uintptr_t, unsigned long long, uintptr_t)",
        library.fgn_run,
    )
    multiplies = plan.product_bytes > 0
    # frozen weights may change the choice between a product of halves and torch's
    resolved = resolve(precision, x.dtype)
    of_halves = multiplies and resolved == "ieee"
    product = None
    if multiplies and not torch.are_deterministic_algorithms_enabled():
        product = cublas.linear(x.shape[0], *given[:2], x.get_device(), resolved)
    repeated.keep(
        key,
        repeated.Call(
            chain=chain,
            library=library,
            c_chain=c_chain,
            arguments=arguments_of(chain, c_chain, parameters, given),
            converts=bool(pairs),
            run=partial(run, plan, c_chain),
            raise_for=raise_for,
            device=x.get_device(),
            y_layout=repeated.layout_of((x.shape[0], given[0].shape[0])),
            workspace_bytes=plan.workspace_bytes,
            multiply=_repeated_product(resolved) if multiplies and product is None else None,
            product=product,
            splits=of_halves or _splits(library, plan, c_chain),
            frozen=bool(c_chain.frozen),
            prepared_bytes=plan.prepared_bytes,
            prepared=parameters["prepared"],
            prepared_at=ffi().cast("uintptr_t *", ffi().addressof(c_chain, "prepared")),
        ),
    )


def reading_ones(
    call: repeated.Call, chain: Chain, tensors: tuple[Tensor | None, ...]
) -> repeated.Call | None:
    """The kept call for operands of one element, which are no vectors of copies; None where its version does
    not read them. tensors: in the order of `names_of()`."""
    if call.converts or not all(one is None or repeated.usable_address(one) for one in tensors):
        return None
    library, old = call.library, call.run.args[0]
    operands = dict(zip(names_of(chain), tensors, strict=True))
    other, plan = copy.copy(call), ffi().new("fgn_plan *")
    other.c_chain = c_chain = ffi().new("fgn_chain *", call.c_chain[0])
    mark_ones(c_chain.before, chain.before, operands)
    mark_ones(c_chain.after, chain.after, operands)
    c_device = ffi().addressof(old, "device")
    if library.fgn_plan_candidate(old.version, old.candidate, c_chain, c_device, plan):
        return None
    other.arguments = arguments_of(chain, c_chain, operands)
    other.run = partial(call.run.func, plan, c_chain)
    other.prepared_at = ffi().cast("uintptr_t *", ffi().addressof(c_chain, "prepared"))
    other.replay()
    return other
