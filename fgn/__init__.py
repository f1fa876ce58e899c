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

Everything else is in a module or a package:

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
import sys

import fgn.native.places  # noqa: F401  (tells cudasim where fgn's headers and its cache are)

# torch, pandas and matplotlib are slow to import, so names that need them are imported on first use. Puzzles
# in numpy and the simulator need no torch at all.
_NAMES = {
    "GemmBiasAddHardtanhMishGroupNorm": "fgn.modules",
    "GemmGroupNormHardtanh": "fgn.modules",
    "KernelFault": "cudasim.counting.faults",
    "MatmulGroupNormLeakyReluSum": "fgn.modules",
    "bench": "fgn.measure.benchmark",
    "chain_forward": "fgn.functional",
    "check": "cudasim.counting.counted",
    "compare": "fgn.measure.accuracy",
    "count": "cudasim.counting.counts",
    "explain": "fgn.fusing.explaining",
    "freeze": "fgn.native.prepared",
    "fuse": "fgn.fusing.fuse",
    "kernel": "cudasim.live.kernels",
    "load_ipython_extension": "cudasim.live.cells",
    "play": "fgn.plot.player",
    "profile": "fgn.profiling.profiler",
    "source": "fgn.native.source",
    "thaw": "fgn.native.prepared",
    "tune": "fgn.tuning",
    "versions": "fgn.ladder",
}
_PACKAGES = (
    *("bugs", "chains", "functional", "measure", "model", "native", "parallel", "plot", "profiling"),
    *("puzzles", "teaching", "training"),
)
# cudasim's parts, by their names here.
_OF_CUDASIM = {"live": "cudasim.live", "simulator": "cudasim.counting"}

__all__ = sorted({*_NAMES} - {"load_ipython_extension"})

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


def __dir__():
    return sorted({*globals(), *_NAMES, *_PACKAGES, *_OF_CUDASIM})


# A program with torch may load a file of torch.export, which names fgn's operators but does not import fgn.
if "torch" in sys.modules:
    importlib.import_module("fgn.functional")
