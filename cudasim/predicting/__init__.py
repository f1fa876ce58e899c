"""Times of kernels on GPUs that need not be present: cards, counts of a sample, machine code, a model."""
