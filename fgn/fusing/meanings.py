"""What torch's modules and functions mean as steps of a chain.

`MODULES` has the modules of torch.nn, `FUNCTIONS` torch's functions and `METHODS` those of a tensor.
Constants of modules are read when the chain is called; constants of functions are in the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class Meaning(NamedTuple):
    """kind: of the pointwise operator, "" for one that changes nothing, or a function of the module that
    returns either. constants: the attributes or arguments for its constants a and b. in_training: whether it
    differs in training. operand: the parameter that is its channel vector.
    """

    kind: str | Callable
    constants: tuple[str, ...] = ()
    in_training: bool = False
    operand: str | None = None


IDENTITY = ""

MODULES = {
    nn.ReLU: Meaning("relu"),
    nn.ReLU6: Meaning("hardtanh", ("min_val", "max_val")),
    nn.Hardtanh: Meaning("hardtanh", ("min_val", "max_val")),
    nn.LeakyReLU: Meaning("leaky_relu", ("negative_slope",)),
    nn.PReLU: Meaning("prelu", operand="weight"),
    nn.ELU: Meaning("elu", ("alpha",)),
    nn.CELU: Meaning("celu", ("alpha",)),
    nn.SELU: Meaning("selu"),
    nn.GELU: Meaning(lambda module: {"none": "gelu", "tanh": "gelu_tanh"}[module.approximate]),
    nn.SiLU: Meaning("silu"),
    nn.Mish: Meaning("mish"),
    nn.Sigmoid: Meaning("sigmoid"),
    nn.LogSigmoid: Meaning("logsigmoid"),
    nn.Tanh: Meaning("tanh"),
    nn.Hardsigmoid: Meaning("hardsigmoid"),
    nn.Hardswish: Meaning("hardswish"),
    nn.Hardshrink: Meaning("hardshrink", ("lambd",)),
    nn.Softshrink: Meaning("softshrink", ("lambd",)),
    nn.Tanhshrink: Meaning("tanhshrink"),
    nn.Softplus: Meaning("softplus", ("beta", "threshold")),
    nn.Softsign: Meaning("softsign"),
    nn.Threshold: Meaning("threshold", ("threshold", "value")),
    nn.Identity: Meaning(IDENTITY),
    nn.Dropout: Meaning(IDENTITY, in_training=True),
    nn.AlphaDropout: Meaning(IDENTITY, in_training=True),
    nn.FeatureAlphaDropout: Meaning(IDENTITY, in_training=True),
}

# The kind, and the names of the arguments after the first that are its constants. All also take `inplace`.
_SIMPLE = {
    "relu": ("relu",),
    "relu_": ("relu",),
    "sigmoid": ("sigmoid",),
    "sigmoid_": ("sigmoid",),
    "tanh": ("tanh",),
    "tanh_": ("tanh",),
    "abs": ("abs",),
    "abs_": ("abs",),
    "neg": ("neg",),
    "neg_": ("neg",),
    "negative": ("neg",),
    "square": ("square",),
    "square_": ("square",),
    "sqrt": ("sqrt",),
    "sqrt_": ("sqrt",),
    "exp": ("exp",),
    "exp_": ("exp",),
    "clamp": ("clamp", "min", "max"),
    "clamp_": ("clamp", "min", "max"),
    "clip": ("clamp", "min", "max"),
    "clip_": ("clamp", "min", "max"),
}
METHODS = {name: Meaning(kind, tuple(names)) for name, (kind, *names) in _SIMPLE.items()}
METHODS["contiguous"] = Meaning(IDENTITY)

FUNCTIONS = {
    **{getattr(torch, name): meaning for name, meaning in METHODS.items() if hasattr(torch, name)},
    operator.neg: Meaning("neg"),
    operator.abs: Meaning("abs"),
    abs: Meaning("abs"),
    F.relu: Meaning("relu"),
    F.hardtanh: Meaning("hardtanh", ("min_val", "max_val")),
    F.leaky_relu: Meaning("leaky_relu", ("negative_slope",)),
    F.elu: Meaning("elu", ("alpha",)),
    F.celu: Meaning("celu", ("alpha",)),
    F.selu: Meaning("selu"),
    torch.selu: Meaning("selu"),
    F.silu: Meaning("silu"),
    F.mish: Meaning("mish"),
    F.sigmoid: Meaning("sigmoid"),
    F.tanh: Meaning("tanh"),
    F.logsigmoid: Meaning("logsigmoid"),
    F.hardsigmoid: Meaning("hardsigmoid"),
    F.hardswish: Meaning("hardswish"),
    F.hardshrink: Meaning("hardshrink", ("lambd",)),
    F.softshrink: Meaning("softshrink", ("lambd",)),
    F.tanhshrink: Meaning("tanhshrink"),
    F.softplus: Meaning("softplus", ("beta", "threshold")),
    F.softsign: Meaning("softsign"),
    F.threshold: Meaning("threshold", ("threshold", "value")),
}
# These clamp to fixed constants.
RELU6 = (F.relu6,)
GELU = (F.gelu,)
CLAMP_ONE_SIDED = {"clamp_min": 0, "clamp_max": 1, "clamp_min_": 0, "clamp_max_": 1}

# Functions of two values, by what they compute. A method whose name ends with `_` works in place.
BINARY = {
    operator.add: "add",
    operator.iadd: "add",
    torch.add: "add",
    operator.sub: "subtract",
    operator.isub: "subtract",
    torch.sub: "subtract",
    torch.subtract: "subtract",
    operator.mul: "multiply",
    operator.imul: "multiply",
    torch.mul: "multiply",
    torch.multiply: "multiply",
    operator.truediv: "divide",
    operator.itruediv: "divide",
    torch.div: "divide",
    torch.divide: "divide",
    torch.true_divide: "divide",
    "add": "add",
    "add_": "add",
    "sub": "subtract",
    "sub_": "subtract",
    "mul": "multiply",
    "mul_": "multiply",
    "div": "divide",
    "div_": "divide",
}
# Of two tensors; the smaller or the larger value.
EXTREMES = {
    **dict.fromkeys((torch.minimum, torch.min, "minimum", "min"), "minimum"),
    **dict.fromkeys((torch.maximum, torch.max, "maximum", "max"), "maximum"),
}
IN_PLACE = (
    *(operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod),
    *(operator.ipow, operator.imatmul, operator.iand, operator.ior, operator.ixor),
    *(operator.ilshift, operator.irshift),
)
POWER = (operator.pow, torch.pow, "pow")

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
_global_hooks = torch.nn.modules.module
_GLOBAL_HOOKS = (
    _global_hooks._global_forward_hooks,
    _global_hooks._global_forward_pre_hooks,
    _global_hooks._global_backward_hooks,
    _global_hooks._global_backward_pre_hooks,
)
FORWARDS = {
    cls: cls.forward
    for cls in (
        *(*MODULES, nn.Linear, nn.GroupNorm, nn.LayerNorm, nn.BatchNorm1d),
        *(nn.Sequential, nn.Flatten, nn.RReLU, nn.Conv1d, nn.Conv2d, nn.Conv3d),
        *(nn.Softmax, nn.LogSoftmax, nn.RMSNorm, nn.MaxPool1d, nn.AvgPool1d),
        *(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.GLU),
    )
}
HOMES = (F.__dict__, torch.__dict__)


def functions_named(names) -> list[tuple[dict, str, object]]:
    """(dict, name, present value) for torch's functions of these names, which other code may replace."""
    return [(home, name, home[name]) for home in HOMES for name in names if callable(home.get(name))]


# The functions of torch that the forward() of a module calls.
_CALLED = {cls: functions_named(forward.__code__.co_names) for cls, forward in FORWARDS.items()}


def has_hooks(module: nn.Module) -> bool:
    """Whether the module has hooks, which see or change its inputs and outputs."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def has_global_hooks() -> bool:
    """Whether torch has global hooks for every module."""
    first, second, third, fourth = _GLOBAL_HOOKS
    return bool(first or second or third or fourth)


def not_plain(module: nn.Module, cls: type) -> str | None:
    """Why the module may not compute what its class defines: it is a subclass, or has a parametrization, a
    hook or its own forward(). None if there is no such reason."""
    if type(module) is not cls:
        return f"it is now a {type(module).__name__}"
    # as has_hooks(), written out: each call of a fused model comes here for each of its modules
    if (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    ):
        return "it has hooks"
    if "forward" in module.__dict__ or cls.forward is not FORWARDS[cls]:
        return "its forward() was replaced"
    for home, name, function in _CALLED[cls]:
        if home.get(name) is not function:
            return f"torch's {name}() was replaced"
    return None


def is_in_place(node) -> bool:
    """Whether a node of a graph may write to one of its inputs."""
    if node.kwargs.get("inplace") or "out" in node.kwargs:
        return True
    if node.op == "call_method":
        return node.target.endswith("_") and not node.target.endswith("__")
    name = getattr(node.target, "__name__", "")
    return node.op == "call_function" and (
        node.target in (*IN_PLACE, operator.setitem) or (name.endswith("_") and not name.endswith("__"))
    )
