"""Building and loading libraries of C and CUDA C."""
