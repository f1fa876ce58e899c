"""What `fgn.tune()` has found fastest, for the calls that it measured.

A choice is a version and one of its candidates (fgn_plan_candidate() in cuda_c/fgn.h). Choices are kept in
one small file for each GPU, in the `tuned` folder beside the built libraries, with a digest of the library's
sources: choices of another build are not used, and the next `fgn.tune()` replaces them. An unreadable file
counts as missing.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from cudasim.building.library import digest, replacing
from cudasim.building.places import build_folder
from fgn.chains import Chain, Shape
from fgn.native.library import for_device


class Choice(NamedTuple):
    """A version, and the number of its way to run a chain: 0 is the one that it expects to be fastest."""

    version: str
    candidate: int


_lock = threading.Lock()
# By the device's name: the choices by their keys.
_choices: dict[str, dict[str, Choice]] = {}


def device_name(device: torch.device) -> str:
    """The GPU's name, or "simulator"."""
    return "simulator" if device.type == "cpu" else torch.cuda.get_device_name(device)


def key_of(chain: Chain, shape: Shape, precision: str, frozen: bool) -> str:
    """The key of a choice: the operators' kinds, the sizes, the precision, whether the weight is frozen."""
    steps = [
        " ".join(step.kind + (":" if step.operand is not None else "") for step in steps)
        for steps in (chain.before, chain.after)
    ]
    sizes = "x".join(map(str, (*shape[:3], chain.groups)))
    return "|".join((*steps, sizes, precision, "frozen" if frozen else "not frozen"))


def path_of(device: torch.device) -> Path:
    """The file for this device."""
    name = "".join(c if c.isalnum() else "_" for c in device_name(device))
    return build_folder() / "tuned" / f"{name}.json"


def _mark(device: torch.device) -> str:
    """What distinguishes this build of the library from others."""
    path = for_device(device.type).path
    return digest(path.with_suffix(".stamp").read_text().partition("\n")[0].rpartition(" ")[0])


def _read(device: torch.device) -> dict[str, Choice]:
    try:
        kept = json.loads(path_of(device).read_text())
        if kept["library"] != _mark(device):
            return {}
        return {key: Choice(str(version), int(number)) for key, (version, number) in kept["choices"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _choices_of(device: torch.device) -> dict[str, Choice]:
    name = device_name(device)
    with _lock:
        if name not in _choices:
            _choices[name] = _read(device)
        return _choices[name]


def choice(device: torch.device, chain: Chain, shape: Shape, precision: str, frozen: bool) -> Choice | None:
    """The fastest choice for such a call, or None."""
    choices = _choices_of(device)
    return choices.get(key_of(chain, shape, precision, frozen)) if choices else None


def choose(device: torch.device, key: str, chosen: Choice | None):
    """From now on such calls run this way in this process; None: the default."""
    choices = _choices_of(device)
    if chosen is None:
        choices.pop(key, None)
    else:
        choices[key] = chosen


def save(device: torch.device):
    """Saves the choices for later processes."""
    path = path_of(device)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"library": _mark(device), "choices": _choices_of(device)}, indent=1)
    with replacing(path) as temporary:
        Path(temporary).write_text(text + "\n")


def forget(device: torch.device):
    """Forgets every choice for this device, and deletes the file."""
    with _lock:
        _choices[device_name(device)] = {}
        path_of(device).unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------------------
# The calls of a model that is tuned


class Noted(NamedTuple):
    """A call of the model during `fgn.tune()`."""

    chain: Chain
    x: Tensor
    parameters: dict
    precision: str
    frozen: bool

    @property
    def shape(self) -> Shape:
        return Shape(*self.x.shape, self.parameters["weight"].shape[0], self.chain.groups)

    @property
    def key(self) -> str:
        return key_of(self.chain, self.shape, self.precision, self.frozen)


class Calls(dict):
    """The calls of a model by their keys. times: the number of calls for each."""

    def __init__(self):
        super().__init__()
        self.times = Counter()


_calls: ContextVar[Calls | None] = ContextVar("calls that tune() looks for", default=None)


def note(chain: Chain, x: Tensor, parameters, precision: str, frozen: bool):
    """Notes a call for a running `tune()`, if there is one."""
    calls = _calls.get()
    if calls is not None and len(x) > 0:
        noted = Noted(chain, x, dict(parameters), precision, frozen)
        calls.setdefault(noted.key, noted)
        calls.times[noted.key] += 1


@contextmanager
def noting():
    """Yields the calls made in this context and thread, by their keys, without those that repeat an earlier
    one."""
    calls = Calls()
    token = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(token)
