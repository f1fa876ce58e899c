"""Kernels written in a notebook cell or a string."""
