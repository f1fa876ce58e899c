"""fgn: what does fusing GEMM -> GroupNorm -> activation into fewer GPU kernels buy, and when?

fgn.environment()                         what this machine has
fgn.versions()                            the versions, from the naive one up
fgn.compare("gemm_groupnorm_hardtanh")    every version against torch.nn and float64
fgn.bench("gemm_groupnorm_hardtanh")      every version beside torch eager, torch.compile and F.linear
fgn.diagnose(y, chain, x, parameters)     what is wrong with a result of your own
fgn.kernel(source)[grid, block](x, y, n)  a kernel of your own; in a notebook: %load_ext fgn, then %%cuda
fgn.source_view(lambda: module(x))        the kernels' text, with what each line asks of memory
fgn.time(lambda: module(x))               the times of a call
fgn.gallery.run("unbiased_variance")      a kernel with a mistake in it, and how that is found
fgn.profile("gemm_groupnorm_hardtanh")    what each launch took and moved, by ncu, or as recorded
fgn.GemmGroupNormHardtanh(...)            a drop-in module; CPU tensors run on the simulator
fgn.count(lambda: module(x))              what a call asks of memory, by ncu's names, without a GPU
fgn.check(lambda: module(x))              the call; KernelFault for a bad access, a race, a missed barrier
fgn.model.versions("gemm_groupnorm_hardtanh")   predicted times, and what binds; fgn.model.fusion_map()
"""

import importlib

from fgn.bugs.diagnose import diagnose
from fgn.chains import CHAINS, POINTWISE, Chain, Pointwise, Shape
from fgn.functional import chain_forward, group_norm, linear
from fgn.live.kernels import kernel, load_ipython_extension, time
from fgn.measure.bench import Ceilings, Floor, bench, floor, measure_ceilings
from fgn.measure.compare import compare
from fgn.measure.environment import environment
from fgn.modules import (
    GemmBiasAddHardtanhMishGroupNorm,
    GemmGroupNormHardtanh,
    MatmulGroupNormLeakyReluSum,
)
from fgn.native.library import BuildError, MissingToolError
from fgn.native.source import source
from fgn.native.versions import versions
from fgn.precision import PRECISIONS
from fgn.profiling.ncu import ProfilerError
from fgn.profiling.profile import profile
from fgn.simulator.counted import KernelFault, check, count, count_lines, count_warps
from fgn.simulator.source_view import source_view

__all__ = [
    "CHAINS",
    "POINTWISE",
    "PRECISIONS",
    "BuildError",
    "Ceilings",
    "Chain",
    "Floor",
    "GemmBiasAddHardtanhMishGroupNorm",
    "GemmGroupNormHardtanh",
    "KernelFault",
    "MatmulGroupNormLeakyReluSum",
    "MissingToolError",
    "Pointwise",
    "ProfilerError",
    "Shape",
    "bench",
    "chain_forward",
    "check",
    "compare",
    "count",
    "count_lines",
    "count_warps",
    "diagnose",
    "environment",
    "floor",
    "gallery",
    "group_norm",
    "kernel",
    "launch_plots",
    "linear",
    "load_ipython_extension",
    "measure_ceilings",
    "model",
    "plot",
    "profile",
    "records",
    "session",
    "source",
    "source_view",
    "time",
    "versions",
]


def __getattr__(name: str):
    # matplotlib is slow to import, so the modules that need more than the rest are imported when first used.
    homes = {
        "gallery": "fgn.bugs.gallery",
        "launch_plots": "fgn.plot.launches",
        "model": "fgn.model.predictions",
        "plot": "fgn.plot.results",
        "profile_records": "fgn.profiling.records",
        "records": "fgn.measure.records",
        "session": "fgn.profiling.session",
    }
    if name in homes:
        return importlib.import_module(homes[name])
    raise AttributeError(f"module 'fgn' has no attribute {name!r}")
