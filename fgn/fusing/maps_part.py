"""A GroupNorm of feature maps, as a part of a model: torch's convolution, if there is one, without its bias,
and a launch for the bias, the norm and the operators around it (`fgn.feature_maps`).

If a gradient is wanted, or the call is traced or transformed, torch runs the parts.
"""

from __future__ import annotations

import torch
from torch import Tensor, fx, nn

from fgn.feature_maps import FeatureMaps, feature_maps_forward
from fgn.fusing.accepting import NotAChain
from fgn.fusing.by_torch import by_torch, function_of
from fgn.fusing.kept import keep, recall
from fgn.fusing.map_functions import ARGUMENTS, MapsFound
from fgn.fusing.meanings import has_global_hooks, not_plain
from fgn.fusing.parts import BIAS_OF_CONVOLUTION, MOST_CHAINS, Part, Step
from fgn.fusing.products import arguments_of
from fgn.native import repeated
from fgn.native.repeated import ORDINARY_TENSORS
from fgn.operators import POINTWISE
from fgn.structs import C_TYPES, NotSupported

# From this many elements of a convolution's result on, a launch gains more than its call costs: torch's
# launches take 31 us or more on an H200, and one of fgn's half of that (lab/README.md). Smaller results are
# left to torch, except in a captured CUDA graph, which has no calls.
FEWEST_ELEMENTS = 2**20

BIAS = Step("add", operand=BIAS_OF_CONVOLUTION)


class MapsPart(Part):
    """Takes the inputs of `found`. Returns the result, and the value before the norm if others read it."""

    def __init__(self, found: MapsFound, owner: nn.Module, name: str):
        super().__init__((*found.before, *found.after))
        self.found, self.name, self.leaves, self.chains = found, name, found.leaves, {}
        results = [found.nodes[-1], *([] if found.kept is None else [found.kept])]
        self.by_torch = by_torch(found.inputs, found.nodes, owner, results)
        self.known: dict[tuple, FeatureMaps] = {}
        self.convolution = _without_bias(found, owner)
        if self.convolution is not None:
            self.weight = found.inputs.index(arguments_of(found.convolution, ARGUMENTS)["weight"])

    def __call__(self, *inputs):
        if not repeated.is_ordinary() or self.needs_gradients(inputs) or not self._pays(inputs):
            return self.by_torch(*inputs)
        try:
            return self._as_one(inputs)
        except NotAChain as reason:
            if self.found.convolution is not None:  # otherwise torch's own norm is what was asked for
                self.say(reason.args[0])
            return self.by_torch(*inputs)

    def _pays(self, inputs) -> bool:
        """Whether the launch gains more on a GPU than a call of another library costs the host."""
        x, found = inputs[0], self.found
        if type(x) is not Tensor or not x.is_cuda:
            return True
        elements = x.numel()
        if found.convolves is not None:
            elements = elements * found.convolves.out_channels // found.convolves.in_channels
        elif found.convolution is not None:
            weight = inputs[self.weight]
            elements = elements * weight.shape[0] // max(1, weight.shape[1])
        return elements >= FEWEST_ELEMENTS or torch.cuda.is_current_stream_capturing()

    def _as_one(self, inputs):
        found, x = self.found, inputs[0]
        if not all(type(one) in ORDINARY_TENSORS and one.layout is torch.strided for one in inputs):
            raise NotAChain("an input is no ordinary tensor")
        if x.dtype not in C_TYPES or x.device.type not in ("cpu", "cuda"):
            raise NotAChain(f"x is of {x.dtype} on {x.device}")
        if self.leaves and has_global_hooks():
            raise NotAChain("there are hooks of all modules")
        for module, cls, only_in_eval in self.leaves:
            if reason := not_plain(module, cls):
                raise NotAChain(reason)
            if only_in_eval and module.training:
                raise NotAChain(f"a {cls.__name__} is in training mode")
        v, bias = self._convolved(inputs)
        groups, eps, scale, shift = self._norm(inputs)
        if v.dim() < 3 or v.dtype is not x.dtype or not v.numel():
            raise NotAChain(f"the norm is of {v.dtype} of shape {tuple(v.shape)}, which are no feature maps")
        channels = v.shape[1]
        if type(groups) is not int or groups < 1 or channels % groups or v.numel() == groups:
            raise NotAChain(f"the norm has {groups} groups for shape {tuple(v.shape)}")
        operands, roles = {}, []
        for name, vector in (("scale", scale), ("shift", shift)):
            if vector is not None:
                operands[name] = _vector(vector, v, (v.dtype, torch.float32))
        steps = (*([BIAS] if bias is not None else []), *found.before, *found.after)
        for step in steps:
            if step.operand is not None:
                one = bias if step is BIAS else inputs[step.operand]
                role, tensor = _operand(step, one, v)
                roles.append(role)
                operands[_name(step)] = tensor
        maps = self._maps(groups, eps, scale is not None, shift is not None, bias is not None, tuple(roles))
        try:
            return feature_maps_forward(maps, v, operands)
        except NotSupported as reason:
            raise NotAChain(str(reason)) from None

    def _convolved(self, inputs) -> tuple[Tensor, Tensor | None]:
        """The input of the operators before the norm, and the convolution's bias, which is not yet added to
        it."""
        found = self.found
        if found.convolution is None:
            return inputs[0], None
        if found.convolves is not None:
            module = found.convolves
            weight, bias = self.weight_and_bias(module)
            return module._conv_forward(inputs[0], weight, None), bias
        return self.convolution(*inputs), None if found.bias is None else inputs[found.bias]

    def _norm(self, inputs):
        found = self.found
        if found.norm is None:
            vectors = [None if n is None else inputs[n] for n in (found.norm_weight, found.norm_bias)]
            return found.groups, found.eps, *vectors
        norm = found.norm
        scale, shift = self.weight_and_bias(norm)
        return norm.num_groups, norm.eps, scale, shift

    def _maps(self, groups, eps, scaled, shifted, has_bias, roles) -> FeatureMaps:
        """The norm with the operators around it as their modules are now, the same object for the same
        ones."""
        settings = self.settings_of_steps()
        key = (groups, eps, scaled, shifted, has_bias, roles, *settings)
        known = recall(self.known, key)
        if known is None:
            left = iter(roles)
            found = self.found
            try:
                bias = (BIAS.at_call(left, _name(BIAS)),) if has_bias else ()
                before, after = (
                    tuple([step.at_call(left, _name(step)) for step in steps])
                    for steps in (found.before, found.after)
                )
            except ValueError as error:
                raise NotAChain(str(error)) from None
            keeps = found.kept is not None
            known = FeatureMaps(groups, bias + before, after, float(eps), scaled, shifted, keeps)
            keep(self.known, key, known, MOST_CHAINS)
        return known


def _without_bias(found: MapsFound, owner: nn.Module):
    """A convolution by a function of torch, without its bias, as a function of the part's inputs."""
    if found.convolution is None or found.convolves is not None:
        return None
    graph = fx.Graph()
    copies = {node: graph.placeholder(f"input_{number}") for number, node in enumerate(found.inputs)}
    given = arguments_of(found.convolution, ARGUMENTS) | {"bias": None}
    given = fx.map_arg(given, lambda node: copies.get(node))
    graph.output(graph.call_function(found.convolution.target, (), given))
    return function_of(graph, owner)


def _name(step: Step) -> str:
    return "of_convolution" if step is BIAS else f"operand_{step.operand}"


def _vector(vector: Tensor, v: Tensor, dtypes) -> Tensor:
    """Raises NotAChain if it is no vector of v's channels."""
    if type(vector) not in ORDINARY_TENSORS or vector.shape != v.shape[1:2] or vector.device != v.device:
        raise NotAChain(f"a vector of the norm or of the convolution is none of the {v.shape[1]} channels")
    if vector.dtype not in dtypes:
        raise NotAChain(f"a vector is of {vector.dtype}, and the feature maps of {v.dtype}")
    return vector


def _operand(step: Step, one: Tensor, v: Tensor) -> tuple[str, Tensor]:
    """("channel", a vector for all samples or one for each) or ("tensor", a tensor of v's shape), by how
    torch broadcasts the operand to v."""
    if step is BIAS:
        return "channel", _vector(one, v, (v.dtype,))
    shape, channels = one.shape, v.shape[1]
    if one.dtype is not v.dtype or one.device != v.device:
        raise NotAChain(f"an operand is of {one.dtype} on {one.device}, the feature maps of {v.dtype}")
    if step.kind in POINTWISE and POINTWISE[step.kind].uses_channel:  # a slope for each channel
        if one.numel() not in (1, channels):
            raise NotAChain(f"{step.kind} has {one.numel()} values for {channels} channels")
        return "channel", one.reshape(-1).expand(channels).contiguous()
    if shape == v.shape:
        return "tensor", one
    sizes = (1,) * (v.dim() - len(shape)) + tuple(shape)
    is_spread = len(sizes) == v.dim() and sizes[0] in (1, v.shape[0]) and sizes[1] in (1, channels)
    if is_spread and all(size == 1 for size in sizes[2:]):
        rows = one.reshape(sizes[:2])
        return "channel", (
            rows[0].expand(channels) if sizes[0] == 1 else rows.expand(-1, channels)
        ).contiguous()
    raise NotAChain(f"an operand has shape {tuple(shape)}, and the feature maps {tuple(v.shape)}")
