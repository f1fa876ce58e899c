"""Kernels from a notebook cell or a string, compiled for the device of their tensors."""
