"""GroupNorms of feature maps in a graph: [convolution] → [pointwise …] → GroupNorm → [pointwise …].

`read_maps()` finds one, from a convolution or from the norm's input; `fgn.fusing.maps_part` has the part that
runs it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from torch import fx, nn

from fgn.fusing.finding import GROUP_NORMS, MOST_STEPS, Match, Stopped, nothing_between
from fgn.fusing.parts import Step
from fgn.fusing.products import Product, arguments_of

CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)
CONVOLVING = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
ARGUMENTS = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")


class MapsFound(NamedTuple):
    """A GroupNorm of feature maps in a graph.

    nodes: in order. inputs: what they read; first the convolution's x, or the norm's input. convolution: its
    node, if there is one; convolves: its module, or None for a function; bias: then the number of that input.
    norm: the module, or else groups, eps and the numbers of the inputs norm_weight and norm_bias. kept: the
    node whose value others read too. place: the node where the call of the part belongs. words, ends: a
    description, and what stopped it.
    """

    nodes: list[fx.Node]
    inputs: list[fx.Node]
    convolution: fx.Node | None
    convolves: nn.Module | None
    bias: int | None
    before: list[Step]
    after: list[Step]
    leaves: list[tuple[nn.Module, type, bool]]
    fixed: list[tuple[nn.Module, str, object]]
    kept: fx.Node | None
    place: fx.Node
    words: str
    ends: str
    norm: nn.GroupNorm | None
    groups: int = 0
    eps: float = 1e-5
    norm_weight: int | None = None
    norm_bias: int | None = None


def is_convolution(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    if node.op == "call_module":
        return type(modules[node.target]) in CONVOLVING and len(node.args) == 1 and not node.kwargs
    return node.op == "call_function" and node.target in CONVOLUTIONS


def is_group_norm(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    if node.op == "call_module":
        return type(modules[node.target]) is nn.GroupNorm
    return node.target in GROUP_NORMS


class _Maps(Match):
    """Steps between a convolution and the GroupNorm of its result, and after that."""

    def __init__(self, begin: fx.Node, modules, convolves: bool):
        super().__init__(Product([begin], begin, None), modules)
        self.order = {node: number for number, node in enumerate(begin.graph.nodes)}
        self.begin, self.kept, self.convolves, self.bias = begin, None, None, None
        if not convolves:
            self.nodes = []
        elif begin.op == "call_module":
            self.inputs = [begin.args[0]]
            self.convolves = self._leaf(begin, type(modules[begin.target]))
        else:
            self._read_convolution()

    def _read_convolution(self):
        given = arguments_of(self.begin, ARGUMENTS)
        self.inputs = list(dict.fromkeys([given["input"], *self.begin.all_input_nodes]))
        if isinstance(given.get("bias"), fx.Node):
            self.bias = self.input(given["bias"])

    def advance(self):
        users = list(self.last.users)
        is_begin = self.last is self.begin and not self.nodes
        if self.norm_node is None and (len(users) > 1 or is_begin):
            norms = [user for user in users if self._is_norm(user)]
            if is_begin and len(norms) != 1:
                raise Stopped("several norms" if norms else "no norm")
            if is_begin or (len(norms) == 1 and self.order[norms[0]] <= min(map(self.order.get, users))):
                self.kept = None if is_begin else self.last
                self._read_norm(norms[0])
                return
        count = len(self.inputs)
        super().advance()
        if self.kept is None:
            return
        added = self.inputs[count:]
        if any(one in self.nodes for one in added):
            raise Stopped("an operand that the call itself makes")
        if max((self.order.get(one, -1) for one in added), default=-1) > self.order[self.norm_node]:
            raise Stopped("an operand that is made behind the norm")

    def _is_norm(self, node: fx.Node) -> bool:
        return self.norm_node is None and is_group_norm(node, self.modules)

    # Raises for a step that only matrices have.

    def _is_view(self, node: fx.Node) -> bool:
        return False

    def _sizes_of_view(self, node: fx.Node) -> list[fx.Node] | None:
        return None

    def _of_batch_norm(self, node: fx.Node) -> list[Step] | None:
        return None


def read_maps(begin: fx.Node, modules: dict[str, nn.Module], convolves: bool) -> MapsFound | None:
    """The GroupNorm of feature maps that begins with the convolution `begin`, or reads the value `begin` if
    that is no convolution. None if there is none."""
    longest = None
    try:
        found = _Maps(begin, modules, convolves)
        while True:
            found.advance()
            if found.norm_node is None:
                continue
            if len(found.before) + (found.convolves is not None or found.bias is not None) > MOST_STEPS:
                raise Stopped(f"operators before the norm that are more than {MOST_STEPS} with the bias")
            if not nothing_between(found.nodes, modules):
                raise Stopped("what runs between its parts, which may write to what they read")
            longest = found.state()
    except Stopped as reason:
        ends = str(reason)
    if longest is None:
        return None
    return MapsFound(
        longest.nodes,
        longest.inputs,
        begin if convolves else None,
        longest.convolves,
        longest.bias,
        longest.before,
        longest.after,
        longest.leaves,
        longest.fixed,
        longest.kept,
        longest.nodes[-1] if longest.kept is None else longest.norm_node,
        " → ".join(map(longest.describe, longest.nodes)),
        ends,
        **{name: value for name, value in longest.parts.items() if name != "linear"},
    )
