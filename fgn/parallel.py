"""Tensor parallelism: divides the columns of a chain, and so its groups, among several GPUs.

The product's output channels are divided among the processes, and with them the Linear's bias, GroupNorm's
weight and bias and every channel vector. Each process has whole groups, so the norm needs no communication.
The forward only gathers y, if that is requested; the backward sums the gradient of x over the processes.

    mesh = init_device_mesh("cuda", (2,))
    model = parallelize_module(fgn.GemmGroupNormHardtanh(...), mesh, fgn.parallel.ChainParallel())

The style is one for `torch.distributed.tensor.parallel.parallelize_module`. Parameters become DTensors,
sharded by their channels as `ColwiseParallel` shards a Linear's, so optimizers, `fully_shard()` over another
dimension of the mesh and distributed checkpoints treat them like torch's.
"""

from __future__ import annotations

import operator
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel.style import ParallelStyle

from fgn.chains import Chain
from fgn.functional import chain_forward
from fgn.fusing.classes import fused_of, is_fused
from fgn.fusing.fuse import FusedForward
from fgn.fusing.parts import ChainPart, NotAChain

__all__ = ["ChainParallel"]


def _the_part(module: nn.Module) -> tuple[FusedForward, ChainPart]:
    """The single chain of the module's forward(). ValueError if it is more than a chain, or none."""
    own = hasattr(module, "fused_forward")
    fused = module.fused_forward() if own else fused_of(module) if is_fused(module) else FusedForward(module)
    return fused, _part_of(fused.current(), type(module).__name__)


def _part_of(traced, name: str) -> ChainPart:
    """The single chain of a traced forward(). name: of the module's class."""
    if traced is None or not traced.parts:
        raise ValueError(
            f"module: expected one whose forward() is a chain, got {name}; fgn.explain() says what it is"
        )
    nodes = [node for node in traced.plan.graph.nodes if node.op != "get_attr"]
    kinds = [node.op for node in nodes]
    if len(traced.parts) > 1 or kinds != ["placeholder", "call_function", "output"]:
        raise ValueError(
            f"module: expected one whose forward() is one chain and nothing else, got {name}; "
            "name the modules inside it in the plan of parallelize_module()"
        )
    part = traced.parts[0]
    if type(part.found.norm) is nn.LayerNorm:
        raise ValueError(
            f"module: expected one whose forward() is a chain with nn.GroupNorm, got {name} with "
            "nn.LayerNorm, whose one group would be on several processes"
        )
    return part


def _places(part: ChainPart) -> list[tuple[dict, str]]:
    """The places of the chain's parameters and buffers: (a dict, a key)."""
    found, owner = part.found, part.owner
    places = [(found.linear, "weight"), (found.linear, "bias"), (found.norm, "weight"), (found.norm, "bias")]
    if found.linear is None or found.norm is None:
        raise ValueError("module: expected nn.Linear and nn.GroupNorm in the chain, got functions")
    for node in found.inputs[1:]:
        path, _, name = str(node.target).rpartition(".")
        places.append((owner.get_submodule(path), name))
    dicts = []
    for holder, name in places:
        for values in (holder._parameters, holder._buffers):
            if values.get(name) is not None:
                dicts.append((values, name))
    return dicts


def _placement(tensor: Tensor, channels: int) -> Placement:
    """The placement of a tensor: sharded by its channels; a single number is replicated."""
    if channels > 1 and tensor.dim() and channels in (tensor.shape[0], tensor.shape[-1]):
        return Shard(0 if tensor.shape[0] == channels else tensor.dim() - 1)
    return Replicate()


class _LocalChain:
    """Replaces the module's forward(), and runs this process's columns of the chain.

    Chain and constants are read at every call, as by `fgn.fuse()`.
    """

    def __init__(self, fused: FusedForward, style: ChainParallel, mesh: DeviceMesh):
        self.fused, self.style, self.mesh = fused, style, mesh
        self.traced = self.part = None
        # Repeated calls are found by the identity of their chain, so each chain of a whole module has a fixed
        # chain for this process.
        self.whole, self.mine = None, None

    def _own(self, chain: Chain) -> Chain:
        """This process's part of the chain; it is the same object as long as the module's chain is."""
        if chain is not self.whole:
            self.whole, self.mine = chain, replace(chain, groups=chain.groups // self.mesh.size())
        return self.mine

    def __call__(self, x: Tensor):
        module, mesh, style = self.fused.module, self.mesh, self.style
        x = self._whole(x)
        try:
            traced = self.fused.current()
            if self.part is None or traced is not self.traced:
                self.traced, self.part = traced, _part_of(traced, type(module).__name__)
            part = self.part
            operands = [operator.attrgetter(str(node.target))(module) for node in part.found.inputs[1:]]
            chain, parameters = part.chain_and_parameters(x, *operands)
        except (NotAChain, ValueError) as reason:
            raise RuntimeError(
                f"{type(module).__name__}: it is no longer the chain that was parallelized: {reason}"
            ) from None
        _check_groups(chain.groups, mesh.size())
        mine = {name: None if value is None else self._columns(value) for name, value in parameters.items()}
        options = self.fused.options
        y = chain_forward(self._own(chain), x, mine, options.version, options.precision)
        if style.use_local_output and style.output_layouts == Shard(1):
            return y
        y = DTensor.from_local(y, mesh, [Shard(1)], run_check=False)
        y = y.redistribute(mesh, [style.output_layouts])
        return y.to_local() if style.use_local_output else y

    def _whole(self, x: Tensor | DTensor) -> Tensor:
        """All of x in each process. In the backward each process has its columns' part of x's gradient, and
        the parts are summed over the processes."""
        layout, needs_sum = self.style.input_layouts, x.requires_grad and torch.is_grad_enabled()
        if not isinstance(x, DTensor):
            if layout == Replicate() and not needs_sum:
                return x
            x = DTensor.from_local(x, self.mesh, [layout], run_check=False)
        return x.redistribute(self.mesh, [Replicate()]).to_local(grad_placements=[Partial()])

    def _columns(self, value: DTensor) -> Tensor:
        """This process's part of a parameter."""
        if value.placements != (Shard(0),):
            value = value.redistribute(self.mesh, [Shard(0)])
        return value.to_local()


def _check_groups(groups: int, processes: int):
    if groups % processes:
        raise ValueError(
            f"device_mesh: expected a number of processes that divides the {groups} groups of the norm, "
            f"got {processes}"
        )


class ChainParallel(ParallelStyle):
    """Shards a chain by its output channels, for `parallelize_module`.

    The module is a drop-in module of fgn, or any module whose forward() is one chain of nn.Linear, operators
    and nn.GroupNorm, fused or not; it is changed in place. The number of processes must divide the number of
    groups.

    input_layouts: of x: Replicate() by default; Shard(1) if a layer before has left its columns sharded.
    output_layouts: of y, (batch, out_features): Shard(1) by default, each process has its columns;
    Replicate() gathers them. use_local_output: whether y is a torch.Tensor or a DTensor.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ):
        super().__init__()
        self.input_layouts = input_layouts or Replicate()
        self.output_layouts = output_layouts or Shard(1)
        self.use_local_output = use_local_output

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        """Called by parallelize_module(). ValueError for a module that is not one chain, or if the number of
        processes does not divide the groups; then the module is unchanged."""
        if device_mesh.ndim != 1:
            raise ValueError(f"device_mesh: expected one dimension, got {device_mesh.ndim}")
        fused, part = _the_part(module)
        channels = part.found.linear.out_features if part.found.linear else 0
        norm = part.found.norm
        _check_groups(norm.num_groups if norm else channels, device_mesh.size())
        done: dict[int, Tensor] = {}
        for values, name in _places(part):
            value = values[name]
            if isinstance(value, DTensor):
                raise ValueError(f"module: {name} is a DTensor already")
            if id(value) not in done:
                placements = [_placement(value, channels)]
                sharded = distribute_tensor(
                    value.detach(), device_mesh, placements, src_data_rank=self.src_data_rank
                )
                if isinstance(value, nn.Parameter):
                    sharded = nn.Parameter(sharded, requires_grad=value.requires_grad)
                done[id(value)] = sharded
            values[name] = done[id(value)]
        module.forward = _LocalChain(fused, self, device_mesh)
        return module

    def __repr__(self) -> str:
        return (
            f"ChainParallel(input_layouts={self.input_layouts}, output_layouts={self.output_layouts}, "
            f"use_local_output={self.use_local_output})"
        )
