"""The structs of the C API (`cuda_c/fgn.h`), made from Python's chains and tensors, and the plans of calls.

Nothing here checks a user's arguments (`fgn.checks` does) or launches anything (`fgn.calls` does).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from cudasim.building.library import interruptible
from cudasim.counting import counted
from fgn.chains import Chain, Shape
from fgn.native import jit, repeated, tuned
from fgn.native.library import ffi, for_device, version_names
from fgn.precision import OF_CALLS, torch_multiplies

C_TYPES = {
    torch.float32: "FGN_FLOAT32",
    torch.float16: "FGN_FLOAT16",
    torch.bfloat16: "FGN_BFLOAT16",
}

# The product alone: no norm (0 groups), and no operators.
PRODUCT = Chain("product", before=(), groups=0, after=())


# ------------------------------------------------------------------------------------------------------------
# The library, memory and errors


@contextmanager
def library_of(device: torch.device):
    """Yields (library, stream) with the device made current."""
    library = for_device(device.type).load()
    if device.type == "cpu":
        try:
            with interruptible(library):
                yield library, ffi().NULL
        finally:
            counted.forbid_all()
    else:
        jit.set_up(library)
        with torch.cuda.device(device):
            yield library, ffi().cast("void *", torch.cuda.current_stream(device).cuda_stream)


def usable(tensor: Tensor | None) -> Tensor | None:
    """The tensor in the kernels' form: contiguous, aligned for 128-bit loads, and with its true signs in
    memory (`torch.Tensor.is_neg()`)."""
    if tensor is None:
        return None
    tensor = tensor.contiguous().resolve_neg()
    return tensor.clone() if tensor.data_ptr() % 16 else tensor


def usable_in(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """The tensor in the kernels' form, in the dtype."""
    return None if tensor is None else usable(tensor.to(dtype))


def pointer(tensor: Tensor | None):
    return ffi().NULL if tensor is None else ffi().cast("float *", tensor.data_ptr())


def allocate(size, device: torch.device, dtype: torch.dtype, poison: bool) -> Tensor:
    """Memory for a result or for scratch; `poison` fills it with NaN, so that unwritten elements show."""
    tensor = torch.empty(size, dtype=dtype, device=device)
    if poison:
        tensor.view(torch.uint8).fill_(0xFF)
    return tensor


def error_of(library) -> str:
    return ffi().string(library.fgn_last_error()).decode()


class NotSupported(RuntimeError):
    """The library's FGN_NOT_SUPPORTED: valid, but not supported by this version or device."""


def raise_for(library, status: int):
    if status == library.FGN_OK:
        return
    if status == library.FGN_LAUNCH_FAILED and (fault := counted.fault(library)):
        raise fault
    errors = {library.FGN_INVALID_ARGUMENT: ValueError, library.FGN_NOT_SUPPORTED: NotSupported}
    raise errors.get(status, RuntimeError)(error_of(library))


# ------------------------------------------------------------------------------------------------------------
# Structs


def index_of_version(version: str, device: torch.device) -> int:
    return index_among(version_names(device.type), version)


def index_among(names: list[str], version: str) -> int:
    if version not in names:
        raise ValueError(f"version: expected None or one of {', '.join(names)}, got {version!r}")
    return names.index(version)


def device_struct(library, device):
    """The struct fgn_device to plan for. device: None for the current device; a number for the current device
    with that many multiprocessors; or a `fgn.plans.Device`."""
    if device is None:
        return ffi().NULL
    c_device = ffi().new("fgn_device *")
    if isinstance(device, int):
        raise_for(library, library.fgn_current_device(c_device))
        c_device.multiprocessors = device
    else:
        c_device.major, c_device.minor, c_device.multiprocessors, c_device.l2_bytes = device
    return c_device


def write_steps(library, struct, name: str, steps, operands: Mapping[str, Tensor | None]) -> list:
    """Writes steps into the struct's list of this name. Returns the places of their operands' addresses."""
    if len(steps) > library.FGN_MAX_POINTWISE:
        raise ValueError(f"{name}: expected at most {library.FGN_MAX_POINTWISE} steps, got {len(steps)}")
    setattr(struct, f"{name}_count", len(steps))
    places = []
    for c_step, step in zip(getattr(struct, name), steps, strict=False):
        c_step.kind = getattr(library, f"FGN_{step.kind.upper()}")
        c_step.a, c_step.b = step.a, step.b
        c_step.channel = pointer(operands.get(step.channel))
        c_step.tensor = pointer(operands.get(step.tensor))
        if step.operand is not None:
            places.append(ffi().addressof(c_step, "channel" if step.channel is not None else "tensor"))
    return places


def mark_ones(c_steps, steps, operands: Mapping[str, Tensor | None]):
    """Notes in a struct's list which vectors have one element for all channels."""
    for c_step, step in zip(c_steps, steps, strict=False):
        vector = operands.get(step.channel)
        c_step.one = vector is not None and vector.numel() == 1


def chain_struct(
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
    c_chain.type = getattr(library, C_TYPES[OF_CALLS[precision].dtype])
    c_chain.precision = getattr(library, OF_CALLS[precision].c_name)
    c_chain.vector_type = getattr(library, C_TYPES[vector_dtype])
    c_chain.frozen = frozen
    c_chain.can_multiply = can_multiply
    c_chain.weight = pointer(parameters.get("weight"))
    c_chain.bias = pointer(parameters.get("bias"))
    c_chain.norm_scale = pointer(parameters.get("norm_weight"))
    c_chain.norm_shift = pointer(parameters.get("norm_bias"))
    for name, steps in (("before", chain.before), ("after", chain.after)):
        write_steps(library, c_chain, name, steps, parameters)
    return c_chain


def names_of(chain: Chain) -> tuple[str, ...]:
    """The parameters of a chain, in the order of repeated calls."""
    return ("weight", "bias", "norm_weight", "norm_bias", *chain.operands)


def arguments_of(chain: Chain, c_chain, parameters: Mapping[str, Tensor | None], given=None):
    """The places of the parameters' addresses in the struct, in the order of `names_of()`. given: the
    caller's tensors, in that order, if vectors of another dtype replace them."""
    places = [
        *[ffi().addressof(c_chain, name) for name in ("weight", "bias", "norm_scale", "norm_shift")],
        *[
            ffi().addressof(step, "channel" if kept.channel is not None else "tensor")
            for steps, c_steps in ((chain.before, c_chain.before), (chain.after, c_chain.after))
            for step, kept in zip(c_steps, steps, strict=False)
            if kept.operand is not None
        ],
    ]
    return repeated.Arguments(places, [parameters.get(name) for name in names_of(chain)], given)


# ------------------------------------------------------------------------------------------------------------
# Plans


def chosen_version(
    library, version, device, chain, shape, precision, c_chain, planned_for
) -> tuple[int, int]:
    """The version that runs a call, and its candidate: the requested one; else, on a present device, the
    fastest by `fgn.tune()`; else the library's FGN_BEST_VERSION."""
    if version is not None:
        return index_of_version(version, device), 0
    choice = None
    if planned_for is None:
        choice = tuned.choice(device, chain, shape, precision, bool(c_chain.frozen))
    if choice is not None and choice.version in version_names(device.type):
        index, plan = index_of_version(choice.version, device), ffi().new("fgn_plan *")
        if library.fgn_plan_candidate(index, choice.candidate, c_chain, ffi().NULL, plan) == library.FGN_OK:
            return index, choice.candidate
    return library.FGN_BEST_VERSION, 0


def plan_struct(library, device: torch.device, index: int, candidate: int, c_chain, multiprocessors=None):
    """The struct fgn_plan of a chain on the current device. index: the version, or the library's
    FGN_BEST_VERSION."""
    plan = ffi().new("fgn_plan *")
    c_device = device_struct(library, multiprocessors)
    status = library.fgn_plan_candidate(index, candidate, c_chain, c_device, plan)
    if status == library.FGN_NOT_SUPPORTED:
        which = "" if index < 0 else f"{version_names(device.type)[index]!r} "
        raise RuntimeError(f"version: {which}does not run this on {device}: {error_of(library)}")
    raise_for(library, status)
    return plan


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

    version: None for the default of `chain_forward()`. planned_for: another device than this one, as for
    `device_struct()`. Returns None if the version does not run this chain there; the library's last error
    tells the reason. `fgn.plans.plan()` is the same in Python's types. frozen: whether the weight is frozen
    (`fgn.freeze()`), so that its halves already exist. If it is not, a version that splits it has two more
    launches, or does more in one. candidate: the number of the version's way to run the chain; 0 is the one
    that it expects to be fastest. can_multiply: whether the plan may ask for torch's product.
    """
    with library_of(device) as (library, _):
        c_chain = chain_struct(library, chain, shape, precision, {}, frozen=frozen, can_multiply=can_multiply)
        plan = ffi().new("fgn_plan *")
        call = (device, chain, shape, precision, c_chain)
        index, chosen = chosen_version(library, version, *call, planned_for)
        candidate = chosen if version is None else candidate
        c_device = device_struct(library, planned_for)
        status = library.fgn_plan_candidate(index, candidate, c_chain, c_device, plan)
        if status == library.FGN_NOT_SUPPORTED:
            return None
        raise_for(library, status)
        return plan


def launch_count(
    chain: Chain, shape: Shape, version: str, device: torch.device, precision: str = "ieee"
) -> int | None:
    """The number of kernels that the version launches for this chain, or None if it does not run."""
    plan = plan_of(chain, shape, version, device, precision)
    return None if plan is None else plan.launch_count


def default_version(chain: Chain, shape: Shape, device: torch.device, precision: str = "ieee") -> str:
    """The default version of `chain_forward()` for this chain."""
    may = torch_multiplies(precision) and not torch.are_deterministic_algorithms_enabled()
    plan = plan_of(chain, shape, None, device, precision, can_multiply=may)
    if plan is None:
        raise RuntimeError(f"precision: no version runs {precision} on {device}")
    return version_names(device.type)[plan.version]


def prepares(chain: Chain, shape: Shape, version: str, device: torch.device, precision: str = "ieee") -> bool:
    """Whether the version prepares a frozen weight once for later calls."""
    plan = plan_of(chain, shape, version, device, precision)
    if plan is None:
        raise RuntimeError(f"version: {version!r} does not run this on {device}")
    return plan.prepared_bytes > 0
