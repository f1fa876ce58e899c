"""How to call kernels of public repositories, and what they must compute: a module for each repository.

A module has REPOSITORY, as GitHub has it, and RUNS, its table of calls. No code of the repositories is here:
file, kernel, launch, arguments, and a reference by torch.
"""
