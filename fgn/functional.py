"""The operators: a whole chain, its matrix product alone, its GroupNorm alone.

As in torch, a tensor's device decides where it runs: a CPU tensor on the simulator, a CUDA tensor on its GPU,
on the current stream. x and the weight are float32, float16 or bfloat16, and so is the result; vectors are of
that type too, or float32. A tensor that is not contiguous is copied first. Every argument is checked before
anything is launched:

    TypeError     not a tensor, or of a dtype or a layout that is not expected
    ValueError    a shape, a count or a version that nothing here accepts
    RuntimeError  tensors on different devices; a version that does not run this chain or this device; an
                  error of the CUDA runtime or of the simulator, with its message

Where grad mode is on and a tensor requires grad, the result has gradients (`fgn.training`). The operators are
registered with torch.library, so torch.compile keeps them whole in its graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor

from cudasim.building.library import BuildError, MissingToolError, interruptible, is_counting
from cudasim.counting import counted
from fgn import autocast, transforms
from fgn.chains import POINTWISE, Chain, Pointwise, Shape
from fgn.native import prepared, repeated, tuned
from fgn.native.library import ffi, for_device, version_names
from fgn.precision import (
    PRECISIONS,
    check_precision,
    resolve,
    torch_multiplies,
    torch_multiplies_as,
)
from fgn.reference import apply_steps, chain_reference

C_TYPES = {
    torch.float32: "FGN_FLOAT32",
    torch.float16: "FGN_FLOAT16",
    torch.bfloat16: "FGN_BFLOAT16",
}

# The product alone: no norm, which is what 0 groups mean to the library, and no operators.
PRODUCT = Chain("product", before=(), groups=0, after=())

# The version whose product is torch's.
LIBRARY = "library"

# ------------------------------------------------------------------------------------------------------------
# Checks


def _check_kind(name: str, value, device: torch.device | None = None, dtypes=tuple(C_TYPES)):
    """Checks all but the shape of one argument."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(value).__name__}")
    if value.dtype not in dtypes:
        expected = " or ".join(map(str, dict.fromkeys(dtypes)))
        raise TypeError(f"{name}: expected dtype {expected}, got {value.dtype}")
    if value.layout is not torch.strided:
        raise TypeError(f"{name}: expected a dense tensor, got one of layout {value.layout}")
    if device is not None and value.device != device:
        raise RuntimeError(f"{name}: expected it on {device}, where x is, got {value.device}")


def _check_shape(name: str, value: Tensor, *expected: int | str):
    """Checks the shape of one argument. In `expected`, a name stands for any size."""
    sizes = tuple(value.shape)
    known = [size if isinstance(name, str) else name for name, size in zip(expected, sizes, strict=False)]
    if len(sizes) != len(expected) or list(sizes) != known:
        words = ", ".join(map(str, expected)) + ("," if len(expected) == 1 else "")
        raise ValueError(f"{name}: expected shape ({words}), got {sizes}")


def _check_vectors(length: int, x: Tensor, vectors: Mapping[str, Tensor | None]):
    for name, value in vectors.items():
        if value is not None:
            _check_kind(name, value, x.device, (x.dtype, torch.float32))
            _check_shape(name, value, length)


def _check_linear(x: Tensor, weight: Tensor, vectors: Mapping[str, Tensor | None]) -> tuple[int, int, int]:
    """Checks x, weight and the (out_features,) vectors. Returns batch, in_features and out_features."""
    check_input(x)
    _check_kind("weight", weight, x.device, (x.dtype,))
    _check_shape("weight", weight, "out_features", "in_features")
    out_features, in_features = weight.shape
    for name, size in (("in_features", in_features), ("out_features", out_features)):
        if size == 0:
            raise ValueError(f"{name}: expected 1 or more, got 0 in a weight of shape {tuple(weight.shape)}")
    _check_shape("x", x, "batch", in_features)
    _check_vectors(out_features, x, vectors)
    return x.shape[0], in_features, out_features


def check_input(x):
    """Checks x: (batch, in_features), of a floating dtype that the kernels have."""
    _check_kind("x", x)
    _check_shape("x", x, "batch", "in_features")


def _check_groups(groups: int, channels: int, name: str = "groups"):
    if groups < 1 or channels % groups != 0:
        raise ValueError(f"{name}: expected a number that divides {channels} channels, got {groups}")


# ------------------------------------------------------------------------------------------------------------
# Calling the library


@contextmanager
def _library_of(device: torch.device):
    """Yields (library, stream) with the device made current."""
    library = for_device(device.type).load()
    if device.type == "cpu":
        try:
            with interruptible(library):
                yield library, ffi().NULL
        finally:
            counted.forbid_all()
    else:
        with torch.cuda.device(device):
            yield library, ffi().cast("void *", torch.cuda.current_stream(device).cuda_stream)


def _usable(tensor: Tensor | None) -> Tensor | None:
    """The tensor as kernels read it: contiguous, aligned for 128-bit loads, and with its own signs in memory
    (`torch.Tensor.is_neg()`)."""
    if tensor is None:
        return None
    tensor = tensor.contiguous().resolve_neg()
    return tensor.clone() if tensor.data_ptr() % 16 else tensor


def _usable_in(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """The tensor as kernels read it, in the dtype."""
    return None if tensor is None else _usable(tensor.to(dtype))


def _pointer(tensor: Tensor | None):
    return ffi().NULL if tensor is None else ffi().cast("float *", tensor.data_ptr())


def _allocate(size, device: torch.device, dtype: torch.dtype, poison: bool) -> Tensor:
    """Memory for a result or for scratch; `poison` fills it with NaN, so what is never written is seen."""
    tensor = torch.empty(size, dtype=dtype, device=device)
    if poison:
        tensor.view(torch.uint8).fill_(0xFF)
    return tensor


def _error(library) -> str:
    return ffi().string(library.fgn_last_error()).decode()


def _raise_for(library, status: int):
    if status == library.FGN_OK:
        return
    if status == library.FGN_LAUNCH_FAILED and (fault := counted.fault(library)):
        raise fault
    raise (ValueError if status == library.FGN_INVALID_ARGUMENT else RuntimeError)(_error(library))


def _index_of(version: str, device: torch.device) -> int:
    names = version_names(device.type)
    if version not in names:
        raise ValueError(f"version: expected None or one of {', '.join(names)}, got {version!r}")
    return names.index(version)


def _c_device(library, device):
    """The struct fgn_device to plan for. device: None for the current device; a number for the current
    device as if it had so many multiprocessors; or a `fgn.plans.Device`."""
    if device is None:
        return ffi().NULL
    c_device = ffi().new("fgn_device *")
    if isinstance(device, int):
        _raise_for(library, library.fgn_current_device(c_device))
        c_device.multiprocessors = device
    else:
        c_device.major, c_device.minor, c_device.multiprocessors, c_device.l2_bytes = device
    return c_device


def _chosen(library, version, device, chain, shape, precision, c_chain, planned_for) -> tuple[int, int]:
    """The version that runs a call, and which candidate of it: as asked for; else, on the device that is
    here, what `fgn.tune()` has found fastest; else the library's FGN_BEST_VERSION."""
    if version is not None:
        return _index_of(version, device), 0
    choice = None
    if planned_for is None:
        choice = tuned.choice(device, chain, shape, precision, bool(c_chain.frozen))
    if choice is not None and choice.version in version_names(device.type):
        index, plan = _index_of(choice.version, device), ffi().new("fgn_plan *")
        if library.fgn_plan_candidate(index, choice.candidate, c_chain, ffi().NULL, plan) == library.FGN_OK:
            return index, choice.candidate
    return library.FGN_BEST_VERSION, 0


def _plan_of(library, device: torch.device, index: int, candidate: int, c_chain, multiprocessors=None):
    """The struct fgn_plan of a chain on the current device. index: the version, or the library's
    FGN_BEST_VERSION."""
    plan = ffi().new("fgn_plan *")
    c_device = _c_device(library, multiprocessors)
    status = library.fgn_plan_candidate(index, candidate, c_chain, c_device, plan)
    if status == library.FGN_NOT_SUPPORTED:
        which = "" if index < 0 else f"{version_names(device.type)[index]!r} "
        raise RuntimeError(f"version: {which}does not run this on {device}: {_error(library)}")
    _raise_for(library, status)
    return plan


def _best_version(library, version: str | None, device: torch.device) -> int:
    """The version asked for, or the last one: every version has a norm of its own."""
    return library.fgn_version_count() - 1 if version is None else _index_of(version, device)


def _c_chain(
    library,
    chain: Chain,
    shape: Shape,
    precision: str,
    parameters: Mapping[str, Tensor | None],
    vector_dtype: torch.dtype = torch.float32,
    frozen: bool = False,
    can_multiply: bool = True,
):
    """The struct fgn_chain. It holds pointers into `parameters`, which the caller keeps alive. can_multiply:
    whether a plan may ask for torch's product."""
    c_chain = ffi().new("fgn_chain *")
    c_chain.batch, c_chain.in_features, c_chain.out_features, _ = shape
    c_chain.groups = chain.groups
    c_chain.eps = chain.eps
    c_chain.type = getattr(library, C_TYPES[PRECISIONS[precision].dtype])
    c_chain.precision = getattr(library, PRECISIONS[precision].c_name)
    c_chain.vector_type = getattr(library, C_TYPES[vector_dtype])
    c_chain.frozen = frozen
    c_chain.can_multiply = can_multiply
    c_chain.weight = _pointer(parameters.get("weight"))
    c_chain.bias = _pointer(parameters.get("bias"))
    c_chain.norm_scale = _pointer(parameters.get("norm_weight"))
    c_chain.norm_shift = _pointer(parameters.get("norm_bias"))
    for name, steps in (("before", chain.before), ("after", chain.after)):
        if len(steps) > library.FGN_MAX_POINTWISE:
            raise ValueError(f"{name}: expected at most {library.FGN_MAX_POINTWISE} steps, got {len(steps)}")
        setattr(c_chain, f"{name}_count", len(steps))
        for c_step, step in zip(getattr(c_chain, name), steps, strict=False):
            c_step.kind = getattr(library, f"FGN_{step.kind.upper()}")
            c_step.a, c_step.b = step.a, step.b
            c_step.channel = _pointer(parameters.get(step.channel))
            c_step.tensor = _pointer(parameters.get(step.tensor))
    return c_chain


def plan_of(
    chain: Chain,
    shape: Shape,
    version: str | None,
    device: torch.device,
    precision: str = "ieee",
    planned_for=None,
    frozen: bool = True,
    candidate: int = 0,
    can_multiply: bool = True,
):
    """The struct fgn_plan (cuda_c/fgn.h) of a call on this device: its launches, its workspace.

    version: None for the one that `chain_forward()` takes when it is not told one. planned_for: another
    device than this one, as `_c_device()` takes it. None where the version does not run this chain there:
    the library's last error says what it needs. `fgn.plans.plan()` is the same in Python's types.
    frozen: whether the weight is frozen (`fgn.freeze()`), so that its halves are already made. With a
    weight that is not, a version that splits it has two launches more, or does more in one. candidate: of the
    version's ways to run the chain; 0 is the one that it expects to be fastest. can_multiply: whether the
    plan may ask for torch's product.
    """
    with _library_of(device) as (library, _):
        c_chain = _c_chain(library, chain, shape, precision, {}, frozen=frozen, can_multiply=can_multiply)
        plan = ffi().new("fgn_plan *")
        index, chosen = _chosen(library, version, device, chain, shape, precision, c_chain, planned_for)
        candidate = chosen if version is None else candidate
        c_device = _c_device(library, planned_for)
        status = library.fgn_plan_candidate(index, candidate, c_chain, c_device, plan)
        if status == library.FGN_NOT_SUPPORTED:
            return None
        _raise_for(library, status)
        return plan


def launch_count(
    chain: Chain, shape: Shape, version: str, device: torch.device, precision: str = "ieee"
) -> int | None:
    """The number of kernels that the version launches for this chain, or None where it does not run."""
    plan = plan_of(chain, shape, version, device, precision)
    return None if plan is None else plan.launch_count


def default_version(chain: Chain, shape: Shape, device: torch.device, precision: str = "ieee") -> str:
    """The version that `chain_forward()` takes for this chain when it is not told one."""
    plan = plan_of(chain, shape, None, device, precision)
    if plan is None:
        raise RuntimeError(f"precision: no version runs {precision} on {device}")
    return version_names(device.type)[plan.version]


def prepares(chain: Chain, shape: Shape, version: str, device: torch.device, precision: str = "ieee") -> bool:
    """Whether the version makes something of a frozen weight once, which later calls find done."""
    plan = plan_of(chain, shape, version, device, precision)
    if plan is None:
        raise RuntimeError(f"version: {version!r} does not run this on {device}")
    return plan.prepared_bytes > 0


def _prepared_weight(library, plan, c_chain, weight: Tensor, keeps: bool, stream):
    """What the plan's version makes of the weight beside it: (plan, memory, whether it is kept).

    The memory is None where the version makes nothing, or makes it in the workspace. keeps: whether later
    calls can use it. c_chain gets the memory's address. The returned plan may differ from the given one:
    where nothing can be kept, the library plans for this call alone, which need not look whether the weight
    has changed.
    """
    if plan.prepared_bytes == 0:
        return plan, None, True

    def write(memory: Tensor):
        counted.allow(weight=weight, prepared=memory)
        _raise_for(library, library.fgn_prepare(plan, c_chain, _pointer(memory), stream))

    memory = prepared.keep(weight, plan.prepared_bytes, bool(c_chain.frozen), write) if keeps else None
    kept = memory is not None
    if not kept:
        c_chain.frozen = 1
        plan = _planned_alike(library, plan, c_chain)
        memory = torch.empty(plan.prepared_bytes, dtype=torch.uint8, device=weight.device)
        write(memory)
    c_chain.prepared = _pointer(memory)
    return plan, memory, kept


def _planned_alike(library, plan, c_chain):
    """The plan of this chain for the version and the device of another one."""
    other = ffi().new("fgn_plan *")
    device = ffi().addressof(plan, "device")
    _raise_for(library, library.fgn_plan_candidate(plan.version, plan.candidate, c_chain, device, other))
    return other


def _splits(library, plan, c_chain) -> bool:
    """Whether the plan's version splits the weight, so that it would keep something of a frozen one."""
    if plan.prepared_bytes > 0:
        return True
    before, c_chain.frozen = c_chain.frozen, 1
    frozen = _planned_alike(library, plan, c_chain)
    c_chain.frozen = before
    return frozen.prepared_bytes > 0


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

    `PRODUCT` is the product alone. poison: the result and the scratch memory are NaN before the
    first launch. multiprocessors: plan the launches for a device with so many multiprocessors; None for as
    many as this device has.
    """
    tensors = {name: parameters[name] for name in chain.tensors}
    vectors = {name: value for name, value in parameters.items() if name not in ("weight", *tensors)}
    batch, in_features, out_features = _check_linear(x, parameters["weight"], vectors)
    for name, value in tensors.items():
        _check_kind(name, value, x.device, (x.dtype,))
        _check_shape(name, value, batch, out_features)
    if chain is not PRODUCT:
        _check_groups(chain.groups, out_features)
    given_precision, precision = precision, resolve(precision, x.dtype)
    shape = Shape(batch, in_features, out_features, chain.groups)
    with _library_of(x.device) as (library, stream):
        frozen = prepared.is_frozen(parameters["weight"])
        plan, vector_dtype = _plan_and_vectors(
            library, chain, shape, precision, x, vectors, version, frozen, multiprocessors
        )
        tuned.note(chain, x, parameters, precision, frozen)
        given = x, parameters
        x = _usable(x)
        weight = _usable(parameters["weight"])
        tensors = {name: _usable(value) for name, value in tensors.items()}
        parameters = {name: _usable_in(value, vector_dtype) for name, value in vectors.items()} | tensors
        parameters["weight"] = weight
        may = bool(plan.chain.can_multiply)
        c_chain = _c_chain(library, chain, shape, precision, parameters, vector_dtype, frozen, may)
        y = _allocate((batch, out_features), x.device, x.dtype, poison)
        if batch > 0:
            used = dict(parameters)
            keeps = weight is given[1]["weight"]
            plan, used["prepared"], kept = _prepared_weight(library, plan, c_chain, weight, keeps, stream)
            size = plan.workspace_bytes
            if plan.product_bytes > 0:
                workspace = _product_by_torch(x, weight, given[1].get("bias"), precision)
            else:
                workspace = _allocate(size, x.device, torch.uint8, poison)
            counted.allow(x=x, y=y, workspace=workspace, **used)
            pointers = (_pointer(x), _pointer(y), _pointer(workspace))
            _raise_for(library, library.fgn_run(plan, c_chain, *pointers, size, stream))
            # A counted call is one of another library, which a plain call may not repeat.
            if kept and multiprocessors is None and not is_counting.get():
                _keep(library, plan, c_chain, chain, *given, x, used, version, given_precision)
        return y


def fits_torch_product(x: Tensor, parameters: Mapping[str, Tensor | None]) -> bool:
    """Whether torch's product takes these tensors: torch refuses a bias of another dtype than x's."""
    bias = parameters.get("bias")
    return bias is None or bias.dtype == x.dtype


def can_multiply(x: Tensor, parameters: Mapping[str, Tensor | None], precision: str) -> bool:
    """Whether a plan may ask for torch's product where no version is named. Three things have to hold: torch
    takes the tensors; torch's setting, which is the whole process's, is the call's precision; and nobody has
    asked torch for deterministic algorithms, for which cuBLAS wants a variable of the environment."""
    return (
        fits_torch_product(x, parameters)
        and torch_multiplies(precision)
        and not torch.are_deterministic_algorithms_enabled()
    )


def _product_by_torch(x: Tensor, weight: Tensor, bias: Tensor | None, precision: str) -> Tensor:
    """v = x W^T + bias, as kernels read it."""
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False), torch_multiplies_as(precision):
        return _usable(torch.nn.functional.linear(x, weight, bias))


def _plan_and_vectors(library, chain, shape, precision, x, vectors, version, frozen, multiprocessors):
    """The plan of a call, and the type that its version reads vectors in: their own, or else float32."""
    may = version == LIBRARY or can_multiply(x, vectors, precision)
    if version == LIBRARY and not fits_torch_product(x, vectors):
        raise RuntimeError(
            f"version: {LIBRARY!r} does not run this: torch's product takes a bias of x's dtype, {x.dtype}, "
            f"got {vectors['bias'].dtype}"
        )
    c_chain = _c_chain(library, chain, shape, precision, {}, frozen=frozen, can_multiply=may)
    chosen = _chosen(library, version, x.device, chain, shape, precision, c_chain, multiprocessors)
    plan = _plan_of(library, x.device, *chosen, c_chain, multiprocessors)
    if x.dtype != torch.float32 and all(
        vector is None or vector.dtype == x.dtype for vector in vectors.values()
    ):
        c_chain.vector_type = c_chain.type
        own, c_device = ffi().new("fgn_plan *"), ffi().addressof(plan, "device")
        status = library.fgn_plan_candidate(plan.version, plan.candidate, c_chain, c_device, own)
        if status == library.FGN_OK:
            return own, x.dtype
    return plan, torch.float32


def names_of(chain: Chain) -> tuple[str, ...]:
    """The parameters of a chain, in the order in which repeated calls take them."""
    return ("weight", "bias", "norm_weight", "norm_bias", *chain.operands)


def _arguments_of(chain: Chain, c_chain, parameters: Mapping[str, Tensor | None]):
    """The places of the parameters' addresses in the struct, in the order of `names_of()`; None for an absent
    parameter."""
    places = [
        *[ffi().addressof(c_chain, name) for name in ("weight", "bias", "norm_scale", "norm_shift")],
        *[
            ffi().addressof(step, "channel" if kept.channel is not None else "tensor")
            for steps, c_steps in ((chain.before, c_chain.before), (chain.after, c_chain.after))
            for step, kept in zip(c_steps, steps, strict=False)
            if kept.operand is not None
        ],
    ]
    tensors = (parameters.get(name) for name in names_of(chain))
    return tuple(
        None if tensor is None else repeated.Argument(place, tensor)
        for place, tensor in zip(places, tensors, strict=True)
    )


def _repeated_product(precision: str):
    """`torch.nn.functional.linear` of tensors without gradients, in this precision, for calls under the
    setting that torch has now."""
    linear = torch._C._nn.linear
    if torch_multiplies(precision):
        return linear

    def in_precision(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        with torch_multiplies_as(precision):
            return linear(x, weight, bias)

    return in_precision


def _keep(library, plan, c_chain, chain, given_x, given, x, parameters, version, precision):
    """Keeps this call for later calls like it, if it used the tensors as they were given, without copies."""
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
    # what is frozen may change the choice between a product of halves and torch's
    resolved = resolve(precision, x.dtype)
    of_halves = multiplies and resolved == "ieee"
    repeated.keep(
        key,
        repeated.Call(
            chain=chain,
            library=library,
            c_chain=c_chain,
            arguments=_arguments_of(chain, c_chain, parameters),
            converts=bool(pairs),
            run=partial(run, plan, c_chain),
            raise_for=_raise_for,
            device=x.get_device(),
            y_shape=(x.shape[0], given[0].shape[0]),
            workspace_bytes=plan.workspace_bytes,
            multiply=_repeated_product(resolved) if multiplies else None,
            splits=of_halves or _splits(library, plan, c_chain),
            frozen=bool(c_chain.frozen),
            prepared_bytes=plan.prepared_bytes,
            prepared=parameters["prepared"],
            prepared_at=ffi().cast("uintptr_t *", ffi().addressof(c_chain, "prepared")),
        ),
    )


# ------------------------------------------------------------------------------------------------------------
# The operators, as torch.library knows them: a chain is flattened into strings and numbers


@transforms.operator_of_a_chain("fgn::chain_forward")
def _chain_forward(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm_weight: Tensor | None,
    norm_bias: Tensor | None,
    channels: Sequence[Tensor],
    before: str,
    after: str,
    constants: Sequence[float],
    groups: int,
    eps: float,
    version: str | None,
    precision: str | None,
) -> Tensor:
    """before, after: the steps, separated by spaces, each kind or kind:operand. channels: the operands,
    vectors and tensors, each once, or None. constants: a, b of each step."""
    chain = _parse(before, after, constants, groups, eps)
    parameters = {"weight": weight, "bias": bias, "norm_weight": norm_weight, "norm_bias": norm_bias}
    parameters |= dict(zip(dict.fromkeys(chain.operands), channels or (), strict=True))
    return run_chain(chain, x, parameters, version, precision=precision)


def _parse(before: str, after: str, constants: Sequence[float], groups: int, eps: float) -> Chain:
    """The chain that `_format()` has flattened."""
    remaining = iter(constants)

    def steps_of(steps: str) -> tuple[Pointwise, ...]:
        parts = (step.partition(":") for step in steps.split())
        return tuple(
            Pointwise(
                kind,
                next(remaining),
                next(remaining),
                **({POINTWISE[kind].operand: name} if name else {}),
            )
            for kind, _, name in parts
        )

    return Chain("", steps_of(before), groups, steps_of(after), eps)


@_chain_forward.register_fake
def _(x, weight, bias, norm_weight, norm_bias, channels, before, after, constants, groups, *others):
    steps = (part.partition(":") for part in f"{before} {after}".split())
    whole = [POINTWISE[kind].operand == "tensor" for kind, _, name in steps if name]
    vectors = {"bias": bias, "norm_weight": norm_weight, "norm_bias": norm_bias}
    for number, (operand, tensor) in enumerate(zip(channels or (), whole, strict=True)):
        if tensor:
            _check_shape(f"operand {number}", operand, x.shape[0], weight.shape[0])
        else:
            vectors[f"operand {number}"] = operand
    batch, _, out_features = _check_linear(x, weight, vectors)
    _check_groups(groups, out_features)
    return x.new_empty(batch, out_features)


@torch.library.custom_op("fgn::linear", mutates_args=())
def _linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, version: str | None, precision: str | None
) -> Tensor:
    return run_chain(PRODUCT, x, {"weight": weight, "bias": bias}, version, precision=precision)


@_linear.register_fake
def _(x, weight, bias, *others):
    batch, _, out_features = _check_linear(x, weight, {"bias": bias})
    return x.new_empty(batch, out_features)


@torch.library.custom_op("fgn::group_norm", mutates_args=())
def _group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float, version: str | None
) -> Tensor:
    _check_shape("x", x, "batch", "channels")
    batch, channels = x.shape
    _check_vectors(channels, x, {"weight": weight, "bias": bias})
    _check_groups(num_groups, channels, "num_groups")
    dtype = x.dtype  # the kernels of a norm alone are float32's
    with _library_of(x.device) as (library, stream):
        x, weight, bias = (_usable_in(tensor, torch.float32) for tensor in (x, weight, bias))
        y = torch.empty_like(x)
        pointers = tuple(map(_pointer, (x, weight, bias, y)))

        index = _best_version(library, version, x.device)
        if batch > 0:
            size = ffi().new("unsigned long long *")
            _raise_for(library, library.fgn_group_norm_workspace_bytes(index, batch, num_groups, size))
            workspace = torch.empty(size[0], dtype=torch.uint8, device=x.device)
            sizes = (batch, channels, num_groups, eps)
            counted.allow(x=x, weight=weight, bias=bias, y=y, workspace=workspace)
            status = library.fgn_group_norm(index, *sizes, *pointers, _pointer(workspace), size[0], stream)
            _raise_for(library, status)
        return y.to(dtype)


@_group_norm.register_fake
def _(x, num_groups, weight, bias, eps, version):
    _check_shape("x", x, "batch", "channels")
    _check_vectors(x.shape[1], x, {"weight": weight, "bias": bias})
    _check_groups(num_groups, x.shape[1], "num_groups")
    return x.new_empty(x.shape)


transforms.register(_chain_forward, _linear, _group_norm)


# ------------------------------------------------------------------------------------------------------------
# The operators, as they are called


def _format(steps: tuple[Pointwise, ...]) -> str:
    return " ".join([step.kind if step.operand is None else f"{step.kind}:{step.operand}" for step in steps])


def check_choice(version: str | None, precision: str | None):
    """Refuses a version or a precision that does not exist, before there are tensors.

    ValueError says which names exist. Where no library is here, names of versions cannot be looked up, and
    pass.
    """
    if precision is not None:
        check_precision(precision)
    if version is not None:
        try:
            names = version_names("cpu")
        except (MissingToolError, BuildError):
            return
        if version not in names:
            raise ValueError(f"version: expected None or one of {', '.join(names)}, got {version!r}")


def _check_call(version, precision, x, others: Mapping[str, Tensor], tensors=()):
    """Refuses, in fgn's words, what torch.library would refuse in words of its own, or would not refuse."""
    if version is not None and not isinstance(version, str):
        raise TypeError(f"version: expected None or the name of a version, got {type(version).__name__}")
    if precision is not None and not isinstance(precision, str):
        raise TypeError(f"precision: expected None or a precision, got {type(precision).__name__}")
    _check_kind("x", x)
    for name, value in others.items():
        _check_kind(
            name, value, x.device, (x.dtype,) if name in ("weight", *tensors) else (x.dtype, torch.float32)
        )


def _with_gradients(chain: Chain, x: Tensor, parameters, version, precision, ordinary: bool) -> Tensor:
    """The chain, or `PRODUCT`, of tensors that require grad. `fgn.training`, which stands on this module,
    puts its own function in this one's place when fgn is imported."""
    raise NotImplementedError


def _norm_in_transforms(x: Tensor, num_groups: int, weight, bias, eps: float, version) -> Tensor:
    """`group_norm()` under a transform of torch.func. `fgn.training` puts its own in this one's place."""
    raise NotImplementedError


def _has_gradient(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def _are_ordinary(*tensors: Tensor) -> bool:
    """Whether torch.library would do no more than call the kernels."""
    return tensors[0].device.type in ("cpu", "cuda") and all(
        type(tensor) in repeated.ORDINARY_TENSORS for tensor in tensors
    )


def chain_forward(
    chain: Chain,
    x: Tensor,
    parameters: Mapping[str, Tensor | None],
    version: str | None = None,
    precision: str | None = None,
) -> Tensor:
    """y = after(GroupNorm(before(x W^T + bias))).

    x: (batch, in_features). parameters: "weight" (out_features, in_features); "bias", "norm_weight" and
    "norm_bias" (out_features,), each of which may be missing or None; and (out_features,) for each name in
    `chain.channels`, and (batch, out_features) for each name in `chain.tensors`. x, the weight and tensors
    are float32, float16 or bfloat16, all of one dtype; vectors are of that dtype or float32.

    version: a name from `fgn.versions()`; None takes the version that `fgn.tune()` has found fastest for such
    a call or else the one that the models of time (`cuda_c/choice.cu`) expect to be fastest, among those that
    run on x's device. precision: for float32, "ieee" or "tf32", which permits rounding factors to tf32 and
    does not demand it; None follows `torch.backends.cuda.matmul`. Returns y: (batch, out_features), of x's
    dtype, or under torch.autocast of the dtype that torch's operators would give y (`fgn.autocast`).
    """
    if not isinstance(chain, Chain):
        raise TypeError(f"chain: expected a Chain, got {type(chain).__name__}")
    if type(parameters) is not dict and not isinstance(parameters, Mapping):
        raise TypeError(f"parameters: expected tensors by their names, got {type(parameters).__name__}")
    ordinary = repeated.is_ordinary()
    if ordinary:
        get = parameters.get
        tensors = (
            get("weight"),
            get("bias"),
            get("norm_weight"),
            get("norm_bias"),
            *map(get, chain.operands),
        )
        y = repeated.repeat(chain, x, tensors, version, precision)
        if y is not None:
            return y
    if not ordinary:
        transforms.refuse_forward_mode(x, *parameters.values())
    missing = [name for name in ("weight", *chain.operands) if parameters.get(name) is None]
    if missing:
        names = ", ".join(parameters) or "none"
        raise ValueError(f"parameters: expected {missing[0]!r} among them, got {names}")
    given = {name: value for name, value in parameters.items() if value is not None}
    known = ("weight", "bias", "norm_weight", "norm_bias", *chain.operands)
    for name in given:
        if name not in known:
            raise ValueError(f"parameters: expected some of {', '.join(known)}, got {name!r}")
    if not ordinary and autocast.dtype_for(x) is not None:
        result = autocast.result_dtype(chain, x, parameters)
        return forward_in_autocast(chain, x, parameters, version, result)
    _check_call(version, precision, x, given, chain.tensors)
    ordinary = ordinary and _are_ordinary(x, *given.values())
    if _has_gradient(x, *given.values()):
        return _with_gradients(chain, x, parameters, version, precision, ordinary)
    if ordinary:
        return run_chain(chain, x, parameters, version, precision=precision)
    steps = chain.before + chain.after
    return _chain_forward(
        x,
        parameters["weight"],
        parameters.get("bias"),
        parameters.get("norm_weight"),
        parameters.get("norm_bias"),
        [parameters[name] for name in dict.fromkeys(chain.operands)],
        _format(chain.before),
        _format(chain.after),
        [float(constant) for step in steps for constant in (step.a, step.b)],
        chain.groups,
        chain.eps,
        version,
        precision,
    )


def forward_in_autocast(
    chain: Chain,
    x: Tensor,
    parameters: Mapping[str, Tensor | None],
    version: str | None,
    result: torch.dtype,
) -> Tensor:
    """`chain_forward()` under torch.autocast, which is on. result: the dtype of what is returned."""
    dtype = autocast.dtype_for(x)
    head, rest = autocast.divide(chain, dtype, parameters)
    if head is None:
        return chain_reference(chain, x, parameters).to(result)
    names = ("weight", "bias", "norm_weight", "norm_bias", *head.operands)
    cast = autocast.cast(
        dtype, {name: parameters.get(name) for name in names}, of_x=("weight", *head.tensors)
    )
    with torch.autocast(x.device.type, enabled=False):
        y = chain_forward(head, x.to(dtype), cast, version)
    return apply_steps(rest, y.to(result), parameters).to(result)


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    version: str | None = None,
    precision: str | None = None,
) -> Tensor:
    """y = x W^T + bias by a version's matrix product alone.

    x: (batch, in_features), or with several dimensions before in_features, as nn.Linear takes it; weight:
    (out_features, in_features), bias: (out_features,) or None; version and precision as in `chain_forward()`.
    Returns (batch, out_features), or x's dimensions before in_features and out_features, of x's dtype.
    """
    ordinary = repeated.is_ordinary()
    if ordinary:
        y = repeated.repeat(PRODUCT, x, (weight, bias, None, None), version, precision)
        if y is not None:
            return y
    if isinstance(x, Tensor) and x.dim() > 2:
        return linear(x.flatten(0, -2), weight, bias, version, precision).unflatten(0, x.shape[:-1])
    given = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
    if not ordinary:
        transforms.refuse_forward_mode(x, weight, bias)
        dtype = autocast.dtype_for(x)
        if dtype is not None:
            cast = autocast.cast(dtype, given, ("weight",))
            with torch.autocast(x.device.type, enabled=False):
                return linear(x.to(dtype), **cast, version=version)
    _check_call(version, precision, x, given)
    ordinary = ordinary and _are_ordinary(x, *given.values())
    if _has_gradient(x, weight, bias):
        return _with_gradients(PRODUCT, x, given, version, precision, ordinary)
    if ordinary:
        return run_chain(PRODUCT, x, given, version, precision=precision)
    return _linear(x, weight, bias, version, precision)


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    version: str | None = None,
) -> Tensor:
    """GroupNorm by a version's GroupNorm alone: statistics per sample and group, biased variance.

    x: (batch, channels), float32, float16 or bfloat16; num_groups divides channels; weight and bias:
    (channels,) or None, of that dtype or float32. Returns (batch, channels), of x's dtype, or under
    torch.autocast of the dtype that torch.group_norm gives. The statistics are computed in float32 for every
    dtype.
    """
    transforms.refuse_forward_mode(x, weight, bias)
    given = {name: value for name, value in (("weight", weight), ("bias", bias)) if value is not None}
    _check_call(version, None, x, {})
    for name, value in given.items():
        _check_kind(name, value, x.device, (x.dtype, torch.float32))
    result = x.dtype if autocast.dtype_for(x) is None else autocast.norm_dtype(x, given)
    if result.itemsize > x.dtype.itemsize:
        x, weight, bias = (None if value is None else value.to(result) for value in (x, weight, bias))
    call = _norm_in_transforms if transforms.is_transformed() else _group_norm
    return call(x, num_groups, weight, bias, eps, version).to(result)
