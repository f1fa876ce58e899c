"""The C library: building, loading and calling it, weights that it prepares, the text of its kernels."""
