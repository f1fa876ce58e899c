"""Host sides of kernels in `bugs/`: what they import and get, and how they and their kernels are loaded."""

from __future__ import annotations

import functools
from types import ModuleType, SimpleNamespace

from torch import Tensor

from cudasim.counting.apart import tiles
from cudasim.live.kernels import Kernel, kernel
from fgn.bugs.diagnosis import never_written
from fgn.chains import Chain

__all__ = ["host_of", "kernel_of", "memory_of", "never_written", "tiles", "values_for_hosts"]


def memory_of(x: Tensor) -> Tensor:
    """The memory of x (rows, columns) from first to last element, for a kernel that gets its stride."""
    return x.as_strided(((x.shape[0] - 1) * x.stride(0) + x.shape[1],), (1,))


def values_for_hosts(chain: Chain, x: Tensor, parameters: dict[str, Tensor]) -> SimpleNamespace:
    """The values that a host side may use as arguments: parameters by name, sizes, and the operators'
    constants."""
    constants = {"low": None, "high": None, "slope": None}
    for step in chain.before + chain.after:
        if step.kind == "hardtanh":
            constants |= {"low": step.a, "high": step.b}
        if step.kind == "leaky_relu":
            constants |= {"slope": step.a}
    shape = (*x.shape, parameters["weight"].shape[0])
    return SimpleNamespace(**parameters, **constants, shape=shape, groups=chain.groups, eps=chain.eps)


# Both caches have the text in their key, so that an edited file takes effect at once.


@functools.cache
def kernel_of(file: str, text: str) -> Kernel:
    return kernel(text, file=file)


@functools.cache
def host_of(file: str, text: str) -> ModuleType:
    module = ModuleType(file.removesuffix(".py"))
    exec(compile(text, file, "exec"), module.__dict__)
    return module
