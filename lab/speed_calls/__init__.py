"""Launches of public kernels at sizes for a GPU: modules with REPOSITORY and LAUNCHES."""
