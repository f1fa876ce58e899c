"""What is made of a parameter once and used while it stays the same.

Some kernels read a parameter in a form of their own: vectors in float32, and for the product that is as
accurate as float32 on tensor cores, the weight as two halves. Making it costs a pass over the parameter, so
it is kept beside the parameter's memory, and made again when the parameter has changed.

A change is seen by torch's version counter, which every in-place operation increases, also through views;
what goes around it (`tensor.data`, another library) has to be followed by `forget()`. While a CUDA graph is
captured nothing kept is used: the graph makes it on each replay, from what the parameter is then.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef


@dataclass
class _Kept:
    storage: StorageWeakRef
    version: int
    value: Tensor
    stream: torch.cuda.Stream | None
    made: torch.cuda.Event | None


_kept: dict[tuple, _Kept] = {}


def forget():
    """Forgets all that is kept: the next calls make it again."""
    _kept.clear()


@contextmanager
def nothing_kept():
    """Inside, nothing is kept from before, and nothing that is made is kept for after."""
    global _kept
    outside, _kept = _kept, {}
    try:
        yield
    finally:
        _kept = outside


def of(parameter: Tensor, form: str, make: Callable[[], Tensor]) -> Tensor:
    """What `make()` returns for this parameter, made anew only when the parameter is not what it was.

    form: the name of what is made. On a GPU it is made, and may be used, on the current stream.
    """
    on_gpu = parameter.device.type == "cuda"
    if parameter.is_inference() or (on_gpu and torch.cuda.is_current_stream_capturing()):
        return make()
    storage = StorageWeakRef(parameter.untyped_storage())
    layout = (parameter.storage_offset(), tuple(parameter.shape), parameter.stride(), parameter.dtype)
    key = (form, storage.cdata, *layout)
    kept = _kept.get(key)
    if kept is None or kept.storage.expired() or kept.version != parameter._version:
        for old in [key for key, kept in _kept.items() if kept.storage.expired()]:
            del _kept[old]
        stream = torch.cuda.current_stream(parameter.device) if on_gpu else None
        value = make()
        made = stream.record_event() if on_gpu else None
        _kept[key] = kept = _Kept(storage, parameter._version, value, stream, made)
    elif on_gpu and (stream := torch.cuda.current_stream(parameter.device)) != kept.stream:
        stream.wait_event(kept.made)
        kept.value.record_stream(stream)
    return kept.value
