"""Variables in device memory (`__constant__`, `__device__`, `__managed__`) as tensors.

A source is compiled several times: plain and counted, and once for each instance of a template; each library
has its own variables. So on the simulator Python keeps the values, and a launch uses them while it runs. On a
GPU they are the kernels' own variables.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import cffi
import numpy as np

from cudasim.arrays import default_device, loaded_torch, typed
from cudasim.building.library import ffi
from cudasim.live.arguments import Type
from cudasim.live.signature import Variable
from cudasim.live.textures import Texture


def _shape_and_element(kind: Type) -> tuple[tuple[int, ...], Type]:
    shape = []
    while kind.kind == "a":
        shape.append(kind.count)
        kind = kind.item
    if kind.dtype is not None and kind.count > 1:
        shape.append(kind.count)
    return tuple(shape), kind


class _OnGpu:
    """Memory of a GPU in a form that torch accepts."""

    def __init__(self, address: int, size: int):
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


class Symbols(Mapping):
    """The variables of a source by name: each a tensor, whose elements can be read and written.

    `kernel.symbols["weights"].copy_(weights)`. They are on a GPU if there is one, else on the CPU. A struct
    is a tensor of its bytes. Without torch they are arrays of numpy.
    """

    def __init__(self, variables: Sequence[Variable], load: Callable):
        self._variables = {variable.name: variable for variable in variables}
        self._load = load
        self._kept: dict[str, np.ndarray] = {}  # the bytes of the simulator's
        self.bound: dict[str, Texture] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    def __getitem__(self, name: str):
        return self.on(default_device())[name]

    def bind(self, name: str, texture: Texture):
        """Binds a texture reference of the source, `texture<float> name;`: kernels read this texture from now
        on. KeyError if the source has no such variable.
        """
        self._keep(self._load("cpu"))
        address = struct.pack("P", texture.descriptor.address)
        self._kept[name][: len(address)] = np.frombuffer(address, dtype=np.uint8)
        self.bound[name] = texture

    def on(self, device) -> dict:
        """The variables on a device."""
        loaded = self._load(str(device))
        if str(device) == "cpu":
            self._keep(loaded)
            return {
                name: self._typed(data, loaded.variables[name][0])
                for name, data in self._kept.items()
                if name in loaded.variables
            }
        found, torch = {}, loaded_torch()
        for name, (kind, address) in loaded.variables.items():
            with torch.cuda.device(device):
                data = torch.as_tensor(_OnGpu(address, kind.size), device=device)
            found[name] = self._typed(data, kind)
        return found

    @staticmethod
    def _typed(data, kind: Type):
        shape, element = _shape_and_element(kind)
        return typed(data, element.dtype, shape)

    def _keep(self, loaded):
        """Takes the variables' initial values from the source."""
        for name, (kind, address) in loaded.variables.items():
            if name not in self._kept:
                data = bytearray(ffi().buffer(ffi().cast("char *", address), kind.size)[:])
                self._kept[name] = np.frombuffer(data, dtype=np.uint8)

    @contextmanager
    def during(self, loaded) -> Iterator[None]:
        """In this context the library's variables have the values; afterwards the kernels' writes are kept.

        Then the variables get their initial values back: the next source with the same text, such as a cell
        that runs again, finds these.
        """
        self._keep(loaded)
        places = []
        for name, (kind, address) in loaded.variables.items():
            value, variable = ffi().from_buffer(self._kept[name]), ffi().cast("void *", address)
            initial = ffi().buffer(variable, kind.size)[:]
            places.append((self._variables[name], value, variable, initial))
        for _, value, variable, initial in places:
            ffi().memmove(variable, value, len(initial))
        try:
            yield
        finally:
            for described, value, variable, initial in places:
                if not described.is_constant:
                    ffi().memmove(value, variable, len(initial))
                ffi().memmove(variable, initial, len(initial))


_C = cffi.FFI()
_C.cdef("int fflush(void *stream);")


def flush_printed():
    """What kernels printed is shown before what Python prints next."""
    _C.dlopen(None).fflush(_C.NULL)
