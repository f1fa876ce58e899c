"""What is kept of a weight beside the weight itself, and how it stays up to date.

For a product on tensor cores that is as accurate as float32, a weight is split into two float16 halves.
Splitting a weight takes longer than reading it, so the halves of a large weight are kept, in one of two ways:

proven   The default. Each call takes the weight's fingerprint on the GPU (`cuda_c/shared/fingerprint.h`) and
         makes the halves anew where it has changed. It does not matter who has written to the weight: an
         optimizer, a fused one too, `.data`, another library, another kernel. The memory belongs to one
         stream.
frozen After `freeze()`. The caller promises that the weight does not change, and no call looks. Changes that
         torch's version counter sees (in-place operations, `load_state_dict()`, optimizers that are not
         fused) are followed all the same. After any other change the results are those of the old weight.

A CUDA graph that is captured without `freeze()` splits the weight anew on each replay.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

# On further streams a weight is split in each call.
MOST_STREAMS = 2


@dataclass
class _Kept:
    """memory: what is kept. version: the weight's, by torch. stream: where it was made, until `made`."""

    storage: StorageWeakRef
    memory: Tensor
    version: int | None
    stream: int
    made: torch.cuda.Event | None


_lock = threading.RLock()
_kept: dict[tuple, _Kept] = {}
_frozen: dict[int, StorageWeakRef] = {}
# Memory that captured graphs read; it stays as long as the weight.
_captured: list[tuple[StorageWeakRef, Tensor]] = []


def forget():
    """Forgets the halves of all weights: the next calls make them again. Frozen weights stay frozen."""
    with _lock:
        _kept.clear()


@contextmanager
def nothing_kept():
    """In this context nothing is kept from before, and nothing made here is kept afterwards."""
    global _kept
    with _lock:
        outside, _kept = _kept, {}
    try:
        yield
    finally:
        with _lock:
            _kept = outside


# ------------------------------------------------------------------------------------------------------------
# Freezing


def _weights(model: nn.Module | Tensor) -> Iterator[Tensor]:
    if isinstance(model, Tensor):
        yield model
    elif isinstance(model, nn.Module):
        yield from model.parameters()
        yield from model.buffers()
    else:
        raise TypeError(f"model: expected a torch.nn.Module or a torch.Tensor, got {type(model).__name__}")


def freeze(model: nn.Module | Tensor):
    """Lets fgn keep the halves of `model`'s weights without checking whether the weights have changed.

    For inference with constant weights: a call in "ieee" then saves one pass over the weight. model: a
    module, with all its parameters and buffers, or one weight. Returns it.

    From now on only changes that torch's version counter sees are followed. After any other one (a fused
    optimizer, `.data`, another library or kernel, `numpy()` views) results are silently those of the old
    weight: call `thaw()` before, or `freeze()` again after it, which makes everything anew. The weights'
    memory is frozen: copies by `copy.deepcopy()`, `.to()` another device or dtype and `pickle` are not
    frozen.
    """
    with _lock:
        for weight in _weights(model):
            _frozen[weight.untyped_storage()._cdata] = StorageWeakRef(weight.untyped_storage())
            _drop(weight)
        for number in [number for number, storage in _frozen.items() if storage.expired()]:
            del _frozen[number]
    return model


def thaw(model: nn.Module | Tensor):
    """Ends what `freeze()` began: each call checks again whether a weight has changed. Returns `model`."""
    with _lock:
        for weight in _weights(model):
            _frozen.pop(weight.untyped_storage()._cdata, None)
            _drop(weight)
    return model


def is_frozen(weight: Tensor) -> bool:
    """Whether the weight's memory is frozen."""
    if not _frozen:
        return False
    storage = _frozen.get(weight.untyped_storage()._cdata)
    return storage is not None and not storage.expired()


# ------------------------------------------------------------------------------------------------------------
# What is kept


def _drop(weight: Tensor):
    """Forgets what is kept of this weight, and of weights that no longer exist."""
    number = weight.untyped_storage()._cdata
    for key in [key for key, kept in _kept.items() if key[0] == number or kept.storage.expired()]:
        del _kept[key]


def _place(weight: Tensor, size: int) -> tuple:
    storage = weight.untyped_storage()._cdata
    return storage, size, weight.storage_offset(), weight.shape, weight.stride(), weight.dtype


def _stream(weight: Tensor) -> int:
    """What orders the calls that share memory: the stream on a GPU; the thread on the simulator, which has no
    streams."""
    if weight.device.type != "cuda":
        return threading.get_ident()
    return torch.cuda.current_stream(weight.device).cuda_stream


def is_captured(weight: Tensor) -> bool:
    """Whether the current stream is captured into a CUDA graph."""
    return weight.device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _key(weight: Tensor, size: int, frozen: bool) -> tuple:
    return (*_place(weight, size), None if frozen else _stream(weight))


def find(weight: Tensor, size: int, frozen: bool) -> Tensor | None:
    """The kept memory of `size` bytes for the weight, if the current stream may use it now.

    None if there is none yet, or none for the weight's version in torch, or if a CUDA graph is being
    captured.
    """
    kept = _kept.get(_key(weight, size, frozen))
    if kept is None or kept.storage.expired() or (is_captured(weight) and not frozen):
        return None
    if frozen:
        if kept.version != _version(weight):
            return None
        if kept.made is not None and kept.stream != _stream(weight):
            _share(kept, weight)
    return kept.memory


def _share(kept: _Kept, weight: Tensor):
    """Makes the current stream wait for the stream that made the halves."""
    if is_captured(weight):
        return  # a capture begins with a wait for all streams
    stream = torch.cuda.current_stream(weight.device)
    stream.wait_event(kept.made)
    kept.memory.record_stream(stream)


def _version(weight: Tensor) -> int | None:
    return None if weight.is_inference() else weight._version


def keep(weight: Tensor, size: int, frozen: bool, write: Callable[[Tensor], None]) -> Tensor | None:
    """`find()`, or else new memory, which is kept from now on, after `write(memory)` on the current stream.

    None if it cannot be kept: a CUDA graph is being captured, or the weight is used on many streams.
    """
    if (memory := find(weight, size, frozen)) is not None:
        if frozen and is_captured(weight):
            _captured.append((StorageWeakRef(weight.untyped_storage()), memory))
        return memory
    if is_captured(weight):
        return None
    key = _key(weight, size, frozen)
    if not frozen and sum(other[:-1] == key[:-1] for other in list(_kept)) >= MOST_STREAMS:
        return None
    memory = torch.empty(size, dtype=torch.uint8, device=weight.device)
    write(memory)
    on_gpu = weight.device.type == "cuda"
    made = torch.cuda.current_stream(weight.device).record_event() if on_gpu and frozen else None
    storage = StorageWeakRef(weight.untyped_storage())
    with _lock:
        for old in [old for old, other in _kept.items() if other.storage.expired()]:
            del _kept[old]
        _captured[:] = [held for held in _captured if not held[0].expired()]
        _kept[key] = _Kept(storage, memory, _version(weight), _stream(weight), made)
    return memory
