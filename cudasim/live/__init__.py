"""Kernels from a notebook cell or a string, compiled for the device of their tensors."""

from cudasim.live.tensor_maps import TensorMap
from cudasim.live.textures import Texture

__all__ = ["TensorMap", "Texture"]
