"""JessieJ2001/cuda-practice: products of a sparse matrix with a dense one."""

import torch

from speed_calls import calls
from speed_calls.calls import at, floats, i32, zeros

REPOSITORY = "JessieJ2001/cuda-practice"
SIDE, EACH = 1024, 128


def places():
    """The columns of what is not zero, in order in each row."""
    return torch.rand(SIDE, SIDE, device=calls.device).argsort(1)[:, :EACH].sort(1).values


def dense():
    matrix = zeros(SIDE, SIDE).scatter_(1, places(), floats(SIDE, EACH))
    return matrix, floats(SIDE, SIDE), zeros(SIDE, SIDE), SIDE, SIDE, SIDE


def sparse():
    begins = torch.arange(0, (SIDE + 1) * EACH, EACH, dtype=i32, device=calls.device)
    return begins, places().to(i32), floats(SIDE, EACH), floats(SIDE, SIDE), zeros(SIDE, SIDE), SIDE, SIDE


def product(kernel, arguments):
    return at("spmm.cu", kernel, ladder="sparse product")[(SIDE // 16,) * 2, (16, 16)](arguments)


LAUNCHES = [
    product("spmmDenseNaive", dense),
    product("spmmZeroSkip", dense),
    product("spmmCSRKernel", sparse),
]
