"""Finds the chains in any nn.Module, runs each as one call, and explains what stopped the others."""
