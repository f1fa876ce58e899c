"""Times of kernels on GPUs that need not be there: cards, counts of a sample, machine code, a model."""
