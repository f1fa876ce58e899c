"""Views of a (batch, channels) value with the same values in the same order: they add dimensions of size 1 at
the end, as in `norm(v.unsqueeze(-1)).squeeze(-1)`."""

from __future__ import annotations

import operator

import torch
from torch import fx, nn

from fgn.fusing.products import arguments_of

_WHOLE = slice(None)


def _of_index(index, ones: int) -> int | None:
    """v[:, :, None], v[..., None], v[:, :, 0], v[..., 0]."""
    if not isinstance(index, tuple):
        return None
    if index[:1] == (Ellipsis,):
        rest = index[1:]
        is_whole = all(one is None for one in rest) or len(rest) <= ones
    else:
        rest = index[2:]
        is_whole = index[:2] == (_WHOLE, _WHOLE) and (ones == 0 or len(rest) == ones)
    if not is_whole or not rest:
        return None
    if all(one is None for one in rest) and (ones == 0 or index[:1] == (Ellipsis,)):
        return ones + len(rest)
    takes_first = len(rest) <= ones and all(type(one) is int and one == 0 for one in rest)
    return ones - len(rest) if takes_first else None


def ones_after(node: fx.Node, ones: int, modules: dict[str, nn.Module]) -> int | None:
    """The number of dimensions of size 1 at the end of a (batch, channels, 1 …) value after the node; None if
    the node is no view. ones: the number before."""
    if node.op == "call_module":
        module = modules[node.target]
        is_flat = type(module) is nn.Flatten and module.start_dim == 1
        return 0 if is_flat and module.end_dim in (-1, 1 + ones) else None
    target = node.target
    if target in ("flatten", torch.flatten):
        given = arguments_of(node, ("input", "start_dim", "end_dim"))
        return 0 if given.get("start_dim", 0) == 1 and given.get("end_dim", -1) in (-1, 1 + ones) else None
    if target in ("unsqueeze", torch.unsqueeze):
        return ones + 1 if arguments_of(node, ("input", "dim")).get("dim") in (-1, 2 + ones) else None
    if target in ("squeeze", torch.squeeze) and ones > 0:
        return ones - 1 if arguments_of(node, ("input", "dim")).get("dim") in (-1, 1 + ones) else None
    if target is operator.getitem:
        return _of_index(node.args[1], ones)
    return None
