"""What the counting simulator tells: counts by launch, line and warp; faults; the source view."""

from __future__ import annotations

import importlib

# Imported on first use: a launch that is only checked does not wait for pandas.
_NAMES = {
    "check": "counted",
    "count": "counts",
    "count_lines": "counts",
    "count_warps": "counts",
    "KernelFault": "faults",
    "SourceView": "view",
    "source_view": "view",
}
__all__ = sorted(_NAMES)


def __getattr__(name: str):
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
