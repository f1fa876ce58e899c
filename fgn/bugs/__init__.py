"""The gallery of broken kernels, and the diagnosis of wrong results."""
