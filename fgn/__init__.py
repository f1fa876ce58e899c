"""fgn: what does fusing GEMM -> GroupNorm -> activation into fewer GPU kernels buy, and when?

fgn.fuse(model)                           any nn.Module, with each chain in it as one call
fgn.explain(model)                        what fuse() makes of it, and what stopped the rest
fgn.GemmGroupNormHardtanh(...)            a drop-in module; CPU tensors run on the simulator
fgn.chain_forward(chain, x, parameters)   any chain of that form
fgn.versions()                            the ladder of versions, from the naive one up
fgn.compare("gemm_groupnorm_hardtanh")    every version against torch.nn and float64
fgn.bench("gemm_groupnorm_hardtanh")      every version beside torch eager, torch.compile and F.linear
fgn.profile("gemm_groupnorm_hardtanh")    what each launch took and moved, by ncu, or as recorded
fgn.count(lambda: module(x))              what a call asks of memory, by ncu's names, without a GPU
fgn.check(lambda: module(x))              the call; KernelFault for a bad access, a race, a missed barrier
fgn.play(lambda: module(x))               the call with a slider: lanes on sectors and banks, values, barriers
fgn.tune(model, x)                        measures the ways to run your chains, and keeps the fastest
fgn.freeze(model)                         calls do not look whether a weight has changed; fgn.thaw() ends it
fgn.kernel(source)[grid, block](x, y, n)  a kernel of your own; in a notebook: %load_ext fgn, then %%cuda
fgn.source("gemm_1_naive")                the text of a kernel

Everything else is in a module or a package that says what is there:

fgn.chains      CHAINS, and Chain and Pointwise for chains of your own
fgn.functional  linear and group_norm, the parts of a chain
fgn.training    the versions of the backward
fgn.native      building and loading the C library
fgn.simulator   counts, faults, the source view              fgn.model      predicted times of every version
fgn.live        kernels from a cell or a string              fgn.plot       every picture
fgn.measure     times, errors, floors, recorded results      fgn.bugs       broken kernels, and what is wrong
fgn.profiling   Nsight Compute                               fgn.teaching   what the notebooks predict with
fgn.parallel    tensor parallelism                           fgn.puzzles    kernels to write, checked
"""

import importlib
import importlib.metadata

from cudasim.counting.counted import check
from cudasim.counting.counts import count
from cudasim.counting.faults import KernelFault
from cudasim.live.cells import load_ipython_extension  # noqa: F401  (for %load_ext fgn)
from cudasim.live.kernels import kernel
from fgn import chains, functional, training  # noqa: F401
from fgn.functional import chain_forward
from fgn.modules import (
    GemmBiasAddHardtanhMishGroupNorm,
    GemmGroupNormHardtanh,
    MatmulGroupNormLeakyReluSum,
)
from fgn.native.prepared import freeze, thaw
from fgn.native.source import source

__all__ = [
    "GemmBiasAddHardtanhMishGroupNorm",
    "GemmGroupNormHardtanh",
    "KernelFault",
    "MatmulGroupNormLeakyReluSum",
    "bench",
    "chain_forward",
    "check",
    "compare",
    "count",
    "explain",
    "freeze",
    "fuse",
    "kernel",
    "play",
    "profile",
    "source",
    "thaw",
    "tune",
    "versions",
]

# pandas, matplotlib and torch.distributed are slow to import: what needs one of them is imported when it is
# first used.
_NAMES = {
    "bench": "fgn.measure.benchmark",
    "compare": "fgn.measure.accuracy",
    "explain": "fgn.fusing.explaining",
    "fuse": "fgn.fusing.fuse",
    "play": "fgn.plot.player",
    "profile": "fgn.profiling.profiler",
    "tune": "fgn.tuning",
    "versions": "fgn.ladder",
}
_PACKAGES = (
    *("bugs", "measure", "model", "native", "parallel", "plot", "profiling"),
    *("puzzles", "teaching"),
)
# What stands in cudasim, by the names that it has here.
_OF_CUDASIM = {"live": "cudasim.live", "simulator": "cudasim.counting"}


try:
    __version__ = importlib.metadata.version("fgn")
except importlib.metadata.PackageNotFoundError:  # a copy of the sources that was never installed
    __version__ = "unknown"


def __getattr__(name: str):
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    if name in _OF_CUDASIM:
        return importlib.import_module(_OF_CUDASIM[name])
    if name in _PACKAGES:
        return importlib.import_module(f"fgn.{name}")
    raise AttributeError(f"module 'fgn' has no attribute {name!r}")
