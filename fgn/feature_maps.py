"""GroupNorm of feature maps: y = after(GroupNorm(before(v))), where v's dimensions after the channels are
positions.

torch's convolution makes such a v, (batch, channels, positions …). One launch of `cuda_c/feature_maps/`, or
two for a few large maps, computes the rest, the norm and the operators around it. There are no gradients: if
one is wanted, `fgn.fuse()` leaves feature maps to torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from cudasim.counting import counted
from fgn.checks import check_kind, check_shape
from fgn.native import repeated
from fgn.native.library import ffi
from fgn.one_launch import Calls, OneLaunch
from fgn.operators import Pointwise
from fgn.structs import C_TYPES, pointer, raise_for, usable, write_steps


@dataclass(frozen=True)
class FeatureMaps:
    """A GroupNorm of feature maps, with operators before and after it.

    groups: of channels; each has its own statistics in each sample. before, after: pointwise steps. Their
    vectors are (channels,), or (batch, channels) for each sample. scaled, shifted: whether the norm has a
    weight and a bias, the operands "scale" and "shift". keeps: whether u = before(v) is a second result.
    operands: the names of the steps' operands.
    """

    groups: int
    before: tuple[Pointwise, ...] = ()
    after: tuple[Pointwise, ...] = ()
    eps: float = 1e-5
    scaled: bool = False
    shifted: bool = False
    keeps: bool = False
    operands: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        if type(self.groups) is not int or self.groups < 1:
            raise ValueError(f"groups: expected a whole number of 1 or more, got {self.groups!r}")
        names = (*self.vectors, *(step.operand for step in self.before + self.after))
        object.__setattr__(self, "operands", tuple(name for name in names if name is not None))

    @property
    def vectors(self) -> tuple[str, ...]:
        """The names of the norm's own vectors."""
        return ("scale",) * self.scaled + ("shift",) * self.shifted

    def by_torch(self, v: Tensor, operands: Mapping[str, Tensor] | None = None) -> Tensor:
        """The same by torch's own functions, in v's dtype."""
        given = operands or {}
        v = _applied(self.before, v, given)
        v = F.group_norm(v, self.groups, given.get("scale"), given.get("shift"), self.eps)
        return _applied(self.after, v, given)


def _applied(steps: tuple[Pointwise, ...], v: Tensor, operands: Mapping[str, Tensor]) -> Tensor:
    """The steps by torch, with vectors spread over the positions."""
    for step in steps:
        one = operands.get(step.operand)
        if one is not None and one.dim() < v.dim():
            one = one[(..., *[None] * (v.dim() - 2))]
        v = step(v, one)
    return v


def is_channels_last(v: Tensor) -> bool:
    """Whether a position's channels are contiguous in memory, rather than a channel's positions."""
    if v.dim() < 3 or v.is_contiguous() or not v.movedim(1, -1).is_contiguous():
        return False
    # A single sample may have any stride, by which torch tells the layout of its result.
    return v.stride(0) * v.shape[0] == v.numel()


class _Call(OneLaunch):
    """What a call of one kind needs. last: whether it is channels_last."""

    def __init__(self, library, maps: FeatureMaps, v: Tensor, operands, vectors: torch.dtype, last: bool):
        self.maps, self.library, self.device, self.last = maps, library, v.get_device(), last
        self.c_forward = ffi().cast(
            "int (*)(const fgn_feature_maps *, uintptr_t, uintptr_t, uintptr_t, uintptr_t, "
            "unsigned long long, uintptr_t)",
            library.fgn_feature_maps_forward,
        )
        self.c_struct = struct = ffi().new("fgn_feature_maps *")
        struct.batch, struct.channels, struct.positions = v.shape[0], v.shape[1], v.shape[2:].numel()
        struct.groups, struct.eps, struct.channels_last = maps.groups, maps.eps, last
        struct.type = getattr(library, C_TYPES[v.dtype])
        struct.vector_type = getattr(library, C_TYPES[vectors])
        places = []
        for name in maps.vectors:
            setattr(struct, name, pointer(operands[name]))
            places.append(ffi().addressof(struct, name))
        for name, steps in (("before", maps.before), ("after", maps.after)):
            places += write_steps(library, struct, name, steps, operands)
            bits = [operands[s.channel].dim() == 2 if s.channel is not None else False for s in steps]
            setattr(struct, f"{name}_samples", sum(bit << i for i, bit in enumerate(bits)))
        self.arguments = repeated.Arguments(places, [self.as_seen(operands[name]) for name in maps.operands])
        size = ffi().new("unsigned long long *")
        raise_for(library, library.fgn_feature_maps_workspace_bytes(struct, size))
        self.workspace_bytes = size[0]

    def as_seen(self, tensor: Tensor) -> Tensor:
        """The tensor with its dimensions in the order of its memory."""
        return tensor.movedim(1, -1) if self.last and tensor.dim() > 2 else tensor

    def results(self, v: Tensor, sizes=None) -> tuple[Tensor, Tensor | None]:
        """Memory for y and, if it is kept, u, with v's layout."""
        return torch.empty_like(v), torch.empty_like(v) if self.maps.keeps else None

    def run(self, v: Tensor, y: Tensor, u: Tensor | None, stream: int) -> Tensor | tuple[Tensor, Tensor]:
        workspace = v.new_empty(self.workspace_bytes, dtype=torch.uint8) if self.workspace_bytes else None
        if self.device < 0:
            counted.allow(workspace=workspace)
        at = [0 if one is None else one.data_ptr() for one in (v, u, y, workspace)]
        (self.replays or self.launch_at)((*at, *self.arguments.pointers), stream)
        return y if u is None else (y, u)

    def launch_at(self, addresses: tuple, stream: int):
        v, u, y, workspace, *_ = addresses
        status = self.c_forward(self.c_struct, v, u, y, workspace, self.workspace_bytes, stream)
        if status:
            raise_for(self.library, status)

    def __call__(self, v: Tensor, operands: tuple[Tensor, ...]):
        """The result, or None if a tensor would have to be copied."""
        if not repeated.usable_address(self.as_seen(v)) or not self.takes(tuple(map(self.as_seen, operands))):
            return None
        return self.launch(v)


def _check_operands(maps: FeatureMaps, v: Tensor, given: Mapping[str, Tensor]) -> torch.dtype:
    """Checks what the steps read. Returns the dtype of vectors."""
    vectors, channels = v.dtype, v.shape[1]
    tensors = [step.tensor for step in maps.before + maps.after]
    for name in maps.operands:
        if name not in given:
            raise ValueError(f"operands: expected {name}, got {', '.join(given) or 'none'}")
        operand = given[name]
        if name in tensors:
            check_kind(name, operand, v.device, (v.dtype,))
            check_shape(name, operand, *v.shape)
            continue
        check_kind(name, operand, v.device, (v.dtype, torch.float32))
        of_samples = operand.dim() == 2 and name not in maps.vectors
        check_shape(name, operand, *((v.shape[0], channels) if of_samples else (channels,)))
        vectors = torch.float32 if operand.dtype != v.dtype else vectors
    return vectors


def _checked(maps: FeatureMaps, v: Tensor, given: Mapping[str, Tensor]):
    check_kind("v", v)
    if v.dim() < 3:
        raise ValueError(f"v: expected shape (batch, channels, positions …), got {tuple(v.shape)}")
    if v[:1].numel() == 0 and v.shape[0]:
        raise ValueError(f"v: expected 1 element or more of each sample, got shape {tuple(v.shape)}")
    if v.shape[1] == 0 or v.shape[1] % maps.groups:
        raise ValueError(f"groups: expected a divisor of the {v.shape[1]} channels, got {maps.groups}")
    vectors = _check_operands(maps, v, given)
    last = is_channels_last(v)

    def as_kernels_read(tensor: Tensor) -> Tensor:
        if last and tensor.dim() > 2:  # as it lies in memory
            return usable(tensor.movedim(1, -1)).movedim(-1, 1)
        return usable(tensor)

    tensors = {step.tensor for step in maps.before + maps.after}
    used = {
        name: as_kernels_read(given[name] if name in tensors else given[name].to(vectors))
        for name in maps.operands
    }
    return as_kernels_read(v), used, lambda library, v, used: _Call(library, maps, v, used, vectors, last)


_calls = Calls(_checked, "GroupNorm of feature maps")


def feature_maps_forward(maps: FeatureMaps, v: Tensor, operands: Mapping[str, Tensor] | None = None):
    """y = after(GroupNorm(before(v))); (y, u) with u = before(v) if it is kept.

    v: (batch, channels, positions …) with any number of dimensions of positions, float32, float16 or
    bfloat16, on a GPU or for the simulator; contiguous or channels_last, and copied if it is neither.
    operands: the steps' operands by name, with the norm's "scale" and "shift": vectors of v's dtype or all of
    float32, (channels,) or for each sample (batch, channels); tensors of v's shape and dtype. y: like v, also
    in memory. Sums are float32.
    TypeError and ValueError name the argument, what came and what was expected. RuntimeError for tensors
    that require grad, for there are no gradients, and for groups that a launch does not take (`fgn.h`).
    """
    return _calls(maps, v, operands)
