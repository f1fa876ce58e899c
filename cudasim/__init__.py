"""cudasim: CUDA kernels on a CPU, checked and counted.

kernel(source)[grid, block](x, y, n)   a kernel from CUDA C++; in a notebook: %load_ext cudasim, then %%cuda
check(call)                            the call; KernelFault for a bad access, a race, a missed barrier
count(call)                            what each launch asks of memory, by ncu's names
count_lines(call), count_warps(call)   the same by line of source, and by warp
source_view(call)                      a kernel's text with these numbers beside it
predict(launch, *arguments, gpu=...)   how long it takes on a named GPU, and why; cards() has their names
source_page(launch, *arguments)        the same by line, with SASS and PTX beside, and advice in words
predict_call(call, gpu=...)            the same for every launch that a call of a library makes
measure_card(file)                     measures the GPU that is there, for predict(..., gpu=file)
compare(versions, arguments)           versions of a kernel: right, counted, predicted, side by side
to_torch(kernel[grid, block], x, ...)  writes a file that makes the kernel an operator of PyTorch
Texture, TensorMap                     arguments of kernels that read by coordinates, or by TMA

Arguments of kernels are numpy arrays and, if the program has loaded torch, tensors. Everything else is in a
package:

cudasim.live       kernels from a cell or a string     cudasim.building   building and loading libraries
cudasim.counting   counts, faults, traces, views       cudasim.programs   whole programs with a main()
cudasim.predicting times on named GPUs                 cudasim.docs       (text) include, launch, watch
"""

from __future__ import annotations

import importlib

# Names are imported on first use: a program that only builds or launches does not wait for pandas.
_NAMES = {
    "kernel": "cudasim.live.kernels",
    "to_torch": "cudasim.live.to_torch",
    "Texture": "cudasim.live.textures",
    "TensorMap": "cudasim.live.tensor_maps",
    "KernelFault": "cudasim.counting.faults",
    "KernelWarning": "cudasim.counting.faults",
    "check": "cudasim.counting.counted",
    "count": "cudasim.counting.counts",
    "count_lines": "cudasim.counting.counts",
    "count_warps": "cudasim.counting.counts",
    "source_view": "cudasim.counting.view",
    "predict": "cudasim.predicting.prediction",
    "source_page": "cudasim.predicting.source_page",
    "Prediction": "cudasim.predicting.prediction",
    "predict_call": "cudasim.predicting.of_calls",
    "compare": "cudasim.predicting.comparing",
    "occupancy_plot": "cudasim.predicting.comparing",
    "cards": "cudasim.predicting.cards",
    "card": "cudasim.predicting.cards",
    "measure_card": "cudasim.predicting.measuring",
    "SourceView": "cudasim.counting.view",
    "load_ipython_extension": "cudasim.live.cells",
}
_PACKAGES = ("building", "counting", "live", "predicting", "programs")

__all__ = sorted({*_NAMES} - {"load_ipython_extension"})


def __getattr__(name: str):
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"cudasim.{name}")
    raise AttributeError(f"module 'cudasim' has no attribute {name!r}")
