"""The classes of fused modules.

A fused module gets a subclass of its class, with the same name and a fused forward(). torch does the same to
shard or parametrize modules. Python looks up a class's attribute for the called module, so a copy of any kind
(`copy.copy`, replicas of `nn.DataParallel`, a copied `__dict__`) computes with its own parameters. A
forward() among the module's attributes would go on to use the first module's. All fused modules of one class
share one such class.
"""

from __future__ import annotations

import copyreg
import functools

from torch import nn
from torch._C._dynamo import eval_frame as _dynamo

# An attribute of such a class: the class that the module had.
_BEFORE = "_class_before_fusing"


def plain_class(module: nn.Module) -> type:
    """The class of the module; for a fused module its original class."""
    for cls in type(module).__mro__:
        if _BEFORE in cls.__dict__:
            return cls.__dict__[_BEFORE]
    return type(module)


def is_torchs(module: str | None) -> bool:
    """Whether the name of a Python module is one of torch's own."""
    return module == "torch" or (module or "").startswith("torch.")


def is_fused(module: nn.Module) -> bool:
    """Whether the module has a class of this kind."""
    return plain_class(module) is not type(module)


def fused_of(module: nn.Module):
    """What runs a fused module's forward(). A copied module gets its own if it still has the original's."""
    fused = module._fused
    if fused.module is not module:
        fused = module.__dict__["_fused"] = fused.of(module)
    return fused


class _Forward:
    """forward() of a fused class: for a module, what runs its own. For the class itself it is the original
    class's function, which torch.fx traces; it computes what torch computes."""

    def __get__(self, module, cls=None):
        if module is None:
            return next(known.__dict__[_BEFORE] for known in cls.__mro__ if _BEFORE in known.__dict__).forward
        return fused_of(module)


# torch.compile keeps compiled code by the code object of the first frame. That should be the module's own
# frame, and not one of these two, which lead to it (like `torch._dynamo.skip`, without its import).
_SKIP = _dynamo._FrameExecStrategy(_dynamo._FrameAction.SKIP, _dynamo._FrameAction.DEFAULT)
for _function in (fused_of, _Forward.__get__):
    _dynamo.set_code_exec_strategy(_function.__code__, _SKIP)


def _reduce_ex(self, protocol):
    """pickle cannot find the class by a name, so it is made again; copy.copy() and copy.deepcopy() come here
    too."""
    cls = next(cls for cls in type(self).__mro__ if _BEFORE in cls.__dict__)
    made = super(cls, self).__reduce_ex__(protocol)
    if type(self) is not cls or made[0] is not copyreg.__newobj__ or made[1][0] is not cls:
        return made  # the class has a way of its own
    return _remade, (cls.__dict__[_BEFORE], self._fused.of(None), *made[1][1:]), *made[2:]


def _remade(cls: type, fused, *arguments):
    made = cls.__new__(cls, *arguments)
    set_fused(made, fused)
    return made


def _init_of(cls: type):
    """__init__() of the fused class of `cls`. A new instance, as nn.Sequential makes for a slice, is no copy
    of a fused module: it gets the original class, and torch runs it."""

    @functools.wraps(cls.__init__)
    def __init__(self, *args, **kwargs):
        if type(self).__dict__.get(_BEFORE) is cls and "_fused" not in self.__dict__:
            self.__class__ = cls
        cls.__init__(self, *args, **kwargs)

    return __init__


def subclass_of(cls: type, mark: str, body: dict) -> type:
    """A subclass of `cls`, of the same name, with `body`, and with `cls` as the attribute of the name `mark`.
    There is one class for each mark."""
    for known in cls.__subclasses__():
        if known.__dict__.get(mark) is cls:
            return known
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    body = body | names | {mark: cls}
    if type(cls) is not type:
        return type(cls)(cls.__name__, (cls,), body)
    # A user's __init_subclass__ may register classes, and should not register this one.
    made = type(cls.__name__, (nn.Module,), body)
    made.__bases__ = (cls,)
    return made


def _class_for(cls: type) -> type:
    body = {"__init__": _init_of(cls), "forward": _Forward(), "__reduce_ex__": _reduce_ex}
    return subclass_of(cls, _BEFORE, body)


def set_fused(module: nn.Module, fused):
    """Lets `fused` run the module's forward()."""
    module.__dict__["_fused"] = fused
    if not is_fused(module):
        module.__class__ = _class_for(type(module))


def set_plain(module: nn.Module):
    """Gives a fused module its original class back."""
    del module.__dict__["_fused"]
    module.__class__ = plain_class(module)
