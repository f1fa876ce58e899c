"""Kernels from a notebook cell or a string, compiled for the device of their tensors."""

from fgn.live.tensor_maps import TensorMap
from fgn.live.textures import Texture

__all__ = ["TensorMap", "Texture"]
