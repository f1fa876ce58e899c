"""A version of a chain as one Python file that needs PyTorch and nvcc, and not fgn."""
