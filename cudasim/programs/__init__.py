"""Whole CUDA programs without a GPU: compiled, run, checked and counted on the CPU.

building    sources of a program, to a library that can be run, or to an executable
runner      the process in which a program runs
commands    the command line: python -m cudasim run, check, count, build
"""
