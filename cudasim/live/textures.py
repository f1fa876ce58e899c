"""Textures and surfaces as arguments of kernels, for parameters of type cudaTextureObject_t and
cudaSurfaceObject_t."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from cudasim.arrays import Array, array_of, is_array, on_cpu

ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")  # in the order of cudaTextureAddressMode


@dataclass(frozen=True)
class Texture:
    """A tensor that a kernel reads by coordinates: `kernel[grid, block](cudasim.Texture(image), to)`. If it
    is passed for a surface, the kernel also writes to it.

    tensor: contiguous, (width), (height, width) or (depth, height, width); with vector=True its last
    dimension is the 2 or 4 elements of a vector (float4). filter: "point" or "linear". address: "clamp",
    "border" (zeros), "wrap" or "mirror", for coordinates outside. normalized: whether they go from 0 to 1.

    Only the simulator has textures; on a GPU, TypeError.
    """

    tensor: object
    filter: str = "point"
    address: str = "clamp"
    normalized: bool = False
    vector: bool = False
    memory: Array = field(init=False, repr=False)
    descriptor: Array = field(init=False, repr=False)

    def __post_init__(self):
        if not is_array(self.tensor):
            raise TypeError(f"tensor: expected a tensor, got {type(self.tensor).__name__}")
        memory = array_of(self.tensor)
        shape = memory.shape[:-1] if self.vector else memory.shape
        if memory.device != "cpu":
            raise TypeError(
                f"tensor: expected it on the cpu (the simulator has textures), got {memory.device}"
            )
        if not 1 <= len(shape) <= 3 or not memory.is_contiguous or memory.count == 0:
            got = f"shape {memory.shape}, strides {memory.strides}"
            raise ValueError(f"tensor: expected a contiguous one of 1, 2 or 3 dimensions, got {got}")
        if self.filter not in ("point", "linear"):
            raise ValueError(f"filter: expected point or linear, got {self.filter!r}")
        if self.address not in ADDRESS_MODES:
            raise ValueError(f"address: expected one of {', '.join(ADDRESS_MODES)}, got {self.address!r}")
        width, height, depth = (*reversed(shape), 1, 1)[:3]
        channels = memory.shape[-1] if self.vector else 1
        # As struct sim_texture in cudasim/sim/cpp/textures.hpp.
        data = struct.pack(
            "P11iNP2i3f",
            *(memory.address, width, height, depth, channels),
            *(int(self.filter == "linear"), int(self.normalized)),
            *3 * (ADDRESS_MODES.index(self.address),),
            *(channels * memory.itemsize, 0, width * channels * memory.itemsize),
            *(0, 1, 0, 0.0, 0.0, 0.0),  # one level of detail
        )
        object.__setattr__(self, "memory", memory)
        object.__setattr__(self, "descriptor", on_cpu(bytearray(data)))
