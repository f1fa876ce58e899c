"""The BLAS that stands for cuBLAS in programs: that of numpy's wheels, else the system's."""

from __future__ import annotations

import ctypes.util
import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Blas:
    """A library. spelled: how its function dgemm is called there. integer: the type of sizes."""

    path: str
    spelled: str
    integer: str

    def flags(self) -> tuple[str, ...]:
        """The compiler's flags for sim/cpp/cublas.hpp."""
        before, after = self.spelled.split("dgemm")
        joined = "##".join(part for part in (before, "name", after) if part)
        return f"-DSIM_BLAS(name)={joined}", f"-Dsim_blas_int={self.integer}"

    def link_flags(self) -> tuple[str, ...]:
        """The linker's flags. A program that calls no BLAS needs none of them."""
        folder = str(Path(self.path).parent)
        found = (f"-l:{self.path}",) if folder == "." else (self.path, f"-Wl,-rpath,{folder}")
        return "-Wl,--as-needed", *found, "-Wl,--no-as-needed"


@functools.cache
def blas() -> Blas | None:
    """None where there is none."""
    beside = Path(importlib.util.find_spec("numpy").origin).parents[1] / "numpy.libs"
    for path in sorted(beside.glob("libscipy_openblas64_*.so")):
        return Blas(str(path), "scipy_dgemm_64_", "long")
    for name in ("openblas", "blas"):
        if found := ctypes.util.find_library(name):
            return Blas(found, "dgemm_", "int")
    return None
